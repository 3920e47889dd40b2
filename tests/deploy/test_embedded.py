"""The embedded servers and the processes around them: real ones, started, killed and started again."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr

from deploy import stack
from deploy.embedded import AlreadyRunning, DataFolder, EmbeddedPostgres, EmbeddedRedis, EmbeddedUnavailable, running
from deploy.processes import Spec, StartFailed, Supervisor
from deploy.stack import NoContactKey, contact_key
from deploy.terminal import Terminal
from domain.queue.redis_clients import check_redis, redis_client
from domain.settings import CONTACT_KEY_FILE, Settings
from tests.servers import CopiedPostgres
from tests.service import eventually


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


def members(group: int) -> list[int]:
    """The living processes of a process group."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    found = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(pid) == group and is_running(pid):
                found.append(pid)
    return found


def python(name: str, code: str, folder: Path, **more: object) -> Spec:
    return Spec(name=name, argv=[sys.executable, "-c", code], log=folder / f"{name}.log", **more)  # type: ignore[arg-type]


def test_postgres_keeps_its_data_in_a_folder_with_a_long_name_and_spaces(tmp_path: Path) -> None:
    data = tmp_path / ("a long name " * 12)
    with running(EmbeddedPostgres(data, durable=False)) as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        connection.commit()

    with running(EmbeddedPostgres(data, durable=False)) as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
        assert connection.info.server_version >= 180000


def test_the_log_of_postgres_shows_no_row_that_breaks_a_constraint(tmp_path: Path) -> None:
    with running(EmbeddedPostgres(tmp_path, durable=False)) as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE drivers (name text, kind text CHECK (kind = 'driver'))")
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("INSERT INTO drivers VALUES (%s, 'nobody')", ("Ann Lee",))

    log = (tmp_path / "logs" / "postgres.log").read_text()
    assert "violates check constraint" in log
    assert "Ann Lee" not in log


def test_the_stack_makes_one_key_for_contacts_and_keeps_it_to_its_owner(tmp_path: Path) -> None:
    made = contact_key(Settings(), tmp_path)
    given = made["FUELROUTE_CONTACT_KEY"]

    assert contact_key(Settings(), tmp_path) == made
    assert Settings(contact_key=SecretStr(given)).contact_keys() == Settings(data=tmp_path).contact_keys()
    assert (tmp_path / CONTACT_KEY_FILE).stat().st_mode & 0o777 == 0o600
    for own in (Settings(database_url="postgresql://elsewhere/db"), Settings(contact_key=SecretStr(given))):
        assert contact_key(own, tmp_path / "nowhere") == {}


def test_a_new_key_is_on_disk_before_anything_is_sealed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()

    def sync(opened: int) -> None:
        at = Path(f"/proc/self/fd/{opened}").resolve()
        synced.append(at.read_text() if at.is_file() else str(at))

    monkeypatch.setattr(os, "fsync", sync)
    key = contact_key(Settings(), tmp_path)["FUELROUTE_CONTACT_KEY"]

    assert synced == [key, str(tmp_path.resolve())]


def test_an_empty_key_is_not_taken_for_none(tmp_path: Path) -> None:
    """Contacts would be stored in plain text, and those that are sealed reach nobody."""
    (tmp_path / CONTACT_KEY_FILE).write_text("\n")

    with pytest.raises(NoContactKey, match="put its copy back"):
        contact_key(Settings(), tmp_path)


def test_redis_keeps_its_data_and_never_evicts(tmp_path: Path) -> None:
    with running(EmbeddedRedis(tmp_path)) as url:
        check_redis(url)
        client = redis_client(url)
        client.set("kept", "yes")
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "yes"}

    with running(EmbeddedRedis(tmp_path)) as url:
        assert redis_client(url).get("kept") == b"yes"


def test_a_redis_whose_data_a_power_failure_has_damaged_starts_empty(tmp_path: Path, settings: Settings) -> None:
    """They are hints. The stack did not start, and named a program that is not installed."""
    with running(EmbeddedRedis(tmp_path)) as url:
        redis_client(url).mset({f"key {number}": "value" for number in range(100)})
    (log,) = (tmp_path / "redis").rglob("*.incr.aof")
    content = log.read_bytes()
    log.write_bytes(content[:-100] + bytes(4096))
    lines, supervisor = io.StringIO(), Supervisor(print)
    own = Settings(data=tmp_path, database_url=settings.database_url)
    servers = list[stack.EmbeddedServer]()
    try:
        _, url = stack._start_servers(own, tmp_path, supervisor, servers, Terminal(file=lines, width=1000))
        assert redis_client(url).dbsize() == 0
        assert len(supervisor.children) == 1
    finally:
        supervisor.stop()
        for server in servers:
            server.leave()

    (aside,) = tmp_path.glob("redis-damaged-*")
    assert f"redis cannot read its data and starts without them; they are in {aside}" in lines.getvalue()
    (kept,) = aside.rglob("*.incr.aof")
    assert kept.read_bytes() == content[:-100] + bytes(4096)


@pytest.mark.parametrize("kind", [EmbeddedPostgres, EmbeddedRedis])
def test_servers_do_not_outlive_a_killed_supervisor(
    kind: type[EmbeddedPostgres] | type[EmbeddedRedis], tmp_path: Path
) -> None:
    code = (
        "import sys, time; from pathlib import Path; from deploy.embedded import *\n"
        f"with running({kind.__name__}(Path(sys.argv[1]), durable=False)): print('up', flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout as output:
        assert output.readline() == "up\n"
        pid_file = tmp_path / ("postgres/postmaster.pid" if kind is EmbeddedPostgres else "redis/redis.pid")
        server = int(pid_file.read_text().split()[0])
        assert is_running(server)

        parent.kill()
        parent.wait()

    eventually(lambda: is_running(server), lambda running_still: not running_still)
    with running(kind(tmp_path, durable=False)):
        pass


def test_data_of_another_postgres_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("14\n")

    with pytest.raises(EmbeddedUnavailable, match="was made by PostgreSQL 14"):
        EmbeddedPostgres(tmp_path).prepare()


def test_a_folder_belongs_to_one_stack(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        folder.announce(http_url="http://localhost:1")
        assert (tmp_path / "stack.json").stat().st_mode & 0o077 == 0
        with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}"), DataFolder(tmp_path):
            pass

    assert not (tmp_path / "stack.json").exists()
    with DataFolder(tmp_path):
        pass


def test_a_child_that_dies_is_started_again(tmp_path: Path) -> None:
    lines: list[str] = []
    supervisor = Supervisor(lines.append)
    supervisor.start([python("brief", "print('one last word'); raise SystemExit(3)", tmp_path)])
    deadline = time.monotonic() + 180

    def stop_when_seen() -> None:
        if any("started again" in line for line in lines) or time.monotonic() > deadline:
            supervisor.stopping = True

    supervisor.watch(stop_when_seen)
    supervisor.stop()

    assert lines[0] == "brief died (status 3): one last word; starts again in 0.5 s"
    assert lines[1].startswith("brief started again")


def test_a_child_that_dies_before_it_is_ready_stops_the_start(tmp_path: Path) -> None:
    supervisor = Supervisor(print)
    with pytest.raises(StartFailed, match=r"hopeless did not start \(status 1\): the port is taken"):
        supervisor.start(
            [python("hopeless", "raise SystemExit('the port is taken')", tmp_path, is_ready=lambda: False)]
        )
    supervisor.stop()


def test_everything_stops_in_time_even_a_process_that_ignores_signals(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    grandchild = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    supervisor = Supervisor(print)
    supervisor.start([python("deaf", deaf, tmp_path, is_ready=lambda: (tmp_path / "deaf.log").stat().st_size > 0)])
    supervisor.start([python("parent", grandchild, tmp_path)])
    time.sleep(0.5)
    groups = [child.process.pid for child in supervisor.children]
    started = time.monotonic()

    supervisor.stop(seconds=1)

    assert time.monotonic() - started < 120, "the deaf one was not waited for"
    eventually(lambda: [pid for group in groups for pid in members(group)], lambda alive: not alive)


# --- Access of other users of the machine ------------------------------------------------------------------------

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives PostgreSQL to another user")


def open_to_others(folder: Path) -> list[str]:
    """The files and folders that anybody but the owner can read, write or enter."""
    found = [folder, *folder.rglob("*")]
    return [f"{path} {path.lstat().st_mode:o}" for path in found if path.lstat().st_mode & 0o077]


def environment_of(pid_file: Path) -> set[str]:
    """The names in a process's environment. Redis writes its title over the beginning of it."""
    pid = int(pid_file.read_text().split()[0])
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return {pair.partition("=")[0] for pair in pairs if "=" in pair}


def test_folders_above_the_data_keep_their_modes(tmp_path: Path) -> None:
    closed = tmp_path / "home"
    closed.mkdir(mode=0o700)
    before = {folder: folder.stat().st_mode for folder in (closed / "project" / "data").parents if folder.exists()}

    with running(EmbeddedPostgres(closed / "project" / "data", durable=False)) as url, psycopg.connect(url) as one:
        assert one.execute("SELECT 1").fetchone() == (1,)

    assert {folder: folder.stat().st_mode for folder in before} == before


def test_only_the_owner_can_read_data_and_logs(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        DataFolder(data) as folder,
        running(EmbeddedPostgres(data, durable=False)),
        running(EmbeddedRedis(data)),
    ):
        folder.announce(http_url="http://localhost:1")
        supervisor = Supervisor(print)
        code = f"open({str(folder.logs / 'written')!r}, 'w'); print('said')"
        supervisor.start([python("writer", code, folder.logs)])
        eventually(lambda: (folder.logs / "written").exists(), bool)
        supervisor.stop()

        assert open_to_others(data) == []


def test_a_folder_that_everybody_can_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / "logs").symlink_to("/usr")  # somebody else's trap for a root who closes folders

    with pytest.raises(EmbeddedUnavailable, match="everybody can write"), DataFolder(tmp_path):
        pass


def test_a_log_folder_of_an_earlier_version_is_closed_to_other_users(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "logs").mkdir(parents=True, mode=0o755)

    with DataFolder(data):
        assert (data / "logs").stat().st_mode & 0o077 == 0
        assert data.stat().st_mode & 0o777 == 0o755, "a folder that was there is not ours to change"


@pytest.mark.parametrize(
    ("kind", "pid_file"), [(EmbeddedPostgres, "postgres/postmaster.pid"), (EmbeddedRedis, "redis/redis.pid")]
)
def test_servers_inherit_only_the_environment_variables_that_they_need(
    kind: type[EmbeddedPostgres] | type[EmbeddedRedis],
    pid_file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FUELROUTE_SECRET", "of another program")
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=1GB")

    with running(kind(tmp_path, durable=False)):
        assert environment_of(tmp_path / pid_file) <= {"PATH", "HOME", "LANG", "LC_ALL", "TZ"}


def test_the_role_of_the_service_owns_its_database_and_nothing_else(tmp_path: Path) -> None:
    with running(CopiedPostgres(tmp_path, durable=False)) as url, psycopg.connect(url) as connection:
        powers = connection.execute(
            "SELECT rolname, rolsuper, rolcreatedb, rolcreaterole, rolreplication, rolbypassrls,"
            " (SELECT array_agg(roleid::regrole::text) FROM pg_auth_members WHERE member = r.oid)"
            " FROM pg_roles r WHERE rolname = current_user"
        ).fetchone()
        owned = connection.execute("SELECT datname FROM pg_database WHERE datdba = current_user::regrole").fetchall()
        for forbidden in ("COPY (SELECT 1) TO PROGRAM 'true'", "SELECT pg_read_file('PG_VERSION')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(forbidden)

    assert powers == ("fuelroute", False, False, False, False, False, ["fuelroute_service"])
    assert owned == [("fuelroute",)]


@as_root
def test_postgres_runs_from_a_wheel_in_a_closed_folder(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "data", durable=False)
    closed = tmp_path / "root" / "site-packages"
    wheel = server.installed.parents[1]
    for part in (wheel.name, f"{wheel.name}.libs"):
        shutil.copytree(
            wheel.with_name(part), closed / part, ignore=shutil.ignore_patterns("pginstall", "include", "*.a")
        )
    (tmp_path / "root").chmod(0o700)
    server.installed = closed / wheel.name / server.installed.relative_to(wheel)

    for _ in ("first", "again"):
        with running(server) as url, psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)

    assert (tmp_path / "root").stat().st_mode & 0o077 == 0
    assert not list(server.sockets.parent.glob(f"{server.sockets.name}*")), "the copy is removed at the end"


@as_root
def test_the_temporary_folder_of_root_may_be_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        tempfile.TemporaryDirectory() as closed,  # 0700, and short enough for a socket
        monkeypatch.context() as patched,
    ):
        patched.setattr(tempfile, "tempdir", closed)
        server = EmbeddedPostgres(tmp_path / "data", durable=False)

    assert not server.sockets.is_relative_to(closed)
    with running(server) as url, psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@as_root
def test_root_is_told_when_the_user_of_postgres_can_run_no_programs(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "data", durable=False)
    server.installed = tmp_path / "nowhere" / "pginstall18" / "bin"

    with pytest.raises(EmbeddedUnavailable, match="cannot run"):
        server.prepare()
    server.leave()
