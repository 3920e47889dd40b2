"""Bad luck of the servers and their supervisor: cut short, left over, deaf, asked twice."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from deploy import processes, stack
from deploy.embedded import EmbeddedPostgres, running
from deploy.processes import RECOVERY_SECONDS, StartFailed, Supervisor
from deploy.stack import StackScreen, reporting_supervisor
from deploy.terminal import Terminal
from domain.database.connections import Connection
from domain.settings import Settings
from tests.deploy.test_embedded import is_running, members, python
from tests.rows import named
from tests.run_folder import own_folder
from tests.servers import CopiedPostgres
from tests.service import eventually

NOTES_ITS_END = """
import signal, sys, time
def end(*_):
    print('stopped cleanly', flush=True); sys.exit()
signal.signal(15, end); print('up', flush=True); time.sleep(600)
"""
DEAF = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder for servers. Not pytest's: each new session of pytest shuts the way to that for PostgreSQL's user."""
    with own_folder("test") as folder:
        yield folder


def says_up(name: str, folder: Path) -> bool:
    log = folder / f"{name}.log"
    return log.exists() and "up" in log.read_text()


def test_names_are_compared_without_case_in_any_alphabet(connection: Connection) -> None:
    assert connection.execute("SELECT lower('JOSÉ MÜLLER')").fetchone() == ("josé müller",)


def test_a_half_made_data_folder_is_made_again(data: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from deploy.embedded import *\n"
        "EmbeddedPostgres(Path(sys.argv[1]), durable=False).prepare()"
    )
    making = subprocess.Popen([sys.executable, "-c", code, str(data)], start_new_session=True)
    eventually(lambda: list(data.rglob("PG_VERSION")), bool)
    os.killpg(making.pid, signal.SIGKILL)
    making.wait()

    with running(EmbeddedPostgres(data, durable=False)):
        pass


def test_a_stale_pid_file_that_names_a_stranger_does_not_stop_the_start(data: Path) -> None:
    server = CopiedPostgres(data, durable=False)
    with running(server):
        left = (data / "postgres" / "postmaster.pid").read_text().splitlines()
    as_root = os.geteuid() == 0
    owner = (data / "postgres").stat()
    stranger = subprocess.Popen(
        ["sleep", "60"],
        user=owner.st_uid if as_root else None,
        group=owner.st_gid if as_root else None,
        cwd="/",
    )
    try:
        file = data / "postgres" / "postmaster.pid"
        file.write_text("\n".join([str(stranger.pid), *left[1:]]) + "\n")
        os.chown(file, owner.st_uid, owner.st_gid)

        with running(server):
            assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_server_that_outlived_its_stack_is_replaced(data: Path) -> None:
    server = CopiedPostgres(data, durable=False)
    server.prepare()
    spec = server.spec()
    with (data / "logs" / "postgres.log").open("ab") as log:
        orphan = subprocess.Popen(
            spec.argv,
            stdout=log,
            stderr=log,
            cwd=spec.folder,
            user=spec.user,
            group=spec.group,
            start_new_session=True,
        )
    eventually(lambda: spec.is_ready is not None and spec.is_ready(), bool)

    with running(CopiedPostgres(data, durable=False)):
        assert not is_running(orphan.pid)
    assert orphan.wait() == 0


def test_a_port_in_the_environment_does_not_move_the_server(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPORT", "7777")
    with running(CopiedPostgres(data, durable=False)) as url:
        monkeypatch.delenv("PGPORT")
        with psycopg.connect(url) as connection:
            assert named(connection).execute("SHOW port").fetchone() != ("7777",)


def test_a_server_stops_cleanly_though_a_worker_ignores_signals(tmp_path: Path) -> None:
    supervisor = Supervisor(print)
    supervisor.start([python("server", NOTES_ITS_END, tmp_path, is_ready=lambda: says_up("server", tmp_path))])
    supervisor.start([python("deaf", DEAF, tmp_path, is_ready=lambda: says_up("deaf", tmp_path))])
    started = time.monotonic()

    supervisor.stop(seconds=3)

    assert time.monotonic() - started < 120, "the deaf one was not waited for"
    assert "stopped cleanly" in (tmp_path / "server.log").read_text()


def test_processes_left_by_a_dead_child_end_before_it_is_started_again(tmp_path: Path) -> None:
    code = "import subprocess; subprocess.Popen(['sleep', '60']); print('up', flush=True); raise SystemExit(1)"
    supervisor = Supervisor(print)
    supervisor.start([python("careless", code, tmp_path)])
    group = supervisor.children[0].process.pid
    deadline = time.monotonic() + 180
    first = supervisor.children[0].process

    def look() -> None:
        supervisor.stopping = supervisor.children[0].process is not first or time.monotonic() > deadline

    supervisor.watch(look)
    left = members(group)
    supervisor.stop()
    for pid in left:
        os.kill(pid, signal.SIGKILL)

    assert left == []


def watched(supervisor: Supervisor, until: Callable[[], bool]) -> None:
    """Watches until the condition holds, or for three minutes."""
    deadline = time.monotonic() + 180

    def look() -> None:
        supervisor.stopping = until() or time.monotonic() > deadline

    supervisor.watch(look)


def test_the_others_go_on_while_the_machine_refuses_to_start_one_again(tmp_path: Path) -> None:
    """It refuses where the folder of logs is gone, as without memory, processes or files."""
    logs, lines = tmp_path / "logs", list[str]()
    logs.mkdir()
    supervisor = Supervisor(lines.append)
    supervisor.start([python("steady", "import time; time.sleep(600)", logs)])
    supervisor.start([python("brief", "pass", logs)])
    shutil.rmtree(logs)
    watched(supervisor, lambda: len(lines) > 1)
    logs.mkdir()
    supervisor.stopping = False
    watched(supervisor, lambda: "started again" in lines[-1])

    why = "its log cannot be read (No such file or directory)"
    assert lines[0] == f"brief died (status 0): {why}; starts again in 0.5 s"
    assert re.fullmatch(r"brief cannot start: .*No such file or directory: '.*'; starts again in 1 s", lines[1])
    assert supervisor.children[0].died() is None
    supervisor.stop()


def test_the_last_words_are_found_in_a_log_that_was_emptied_meanwhile(tmp_path: Path) -> None:
    log, lines = tmp_path / "brief.log", list[str]()
    log.write_text("said in an earlier life\n" * 100)
    go = tmp_path / "go"
    code = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\nprint('why it ended')"
    supervisor = Supervisor(lines.append)
    supervisor.start([python("brief", code, tmp_path)])
    os.truncate(log, 0)
    go.touch()
    watched(supervisor, lambda: bool(lines))
    supervisor.stop()

    assert lines[0] == "brief died (status 0): why it ended; starts again in 0.5 s"


def test_a_full_disk_under_the_output_of_the_stack_ends_nothing(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with open("/dev/full", "w") as full:
        screen = StackScreen(file=full, width=100)
        supervisor = reporting_supervisor(screen)
        supervisor.start([python("brief", "pass", tmp_path)])
        watched(supervisor, lambda: supervisor.children[0].deaths_in_a_row > 1)
        supervisor.stop()
        with output.open("w") as opened:
            os.dup2(opened.fileno(), full.fileno())  # there is room again
        screen.print("stopped")

    assert [line.partition(";")[0] for line in output.read_text().splitlines() if "started" not in line] == [
        *["brief died (status 0): no output"] * 2,
        "stopped",
    ]


def test_the_reason_of_a_failed_start_is_not_hidden_by_later_lines(tmp_path: Path) -> None:
    code = "print('ERROR: address already in use\\nINFO: waiting for shutdown'); raise SystemExit(1)"
    supervisor = Supervisor(print)
    with pytest.raises(StartFailed, match="address already in use"):
        supervisor.start([python("busy", code, tmp_path, is_ready=lambda: False)])
    supervisor.stop()


@pytest.mark.parametrize("later", ["FATAL: the database system is starting up", "pg_receivewal: error: disconnected"])
def test_a_server_that_says_more_after_the_reason_still_reports_why_it_ended(tmp_path: Path, later: str) -> None:
    code = f"print('FATAL: no pg_wal\\n{later}'); raise SystemExit(1)"
    supervisor = Supervisor(print)
    with pytest.raises(StartFailed, match="no pg_wal"):
        supervisor.start([python("asked", code, tmp_path, is_ready=lambda: False)])
    supervisor.stop()


def test_a_database_that_replays_its_log_has_time_and_a_slow_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start that is given up after five minutes begins anew at the next one, and never ends."""
    lines = list[str]()
    monkeypatch.setattr(processes, "_SLOW_SECONDS", 0.1)
    supervisor = Supervisor(lines.append)
    supervisor.start(
        [python("slow", "import time; time.sleep(600)", tmp_path, is_ready=lambda: bool(lines))],
        seconds=RECOVERY_SECONDS,
    )
    supervisor.stop()

    assert lines == [f"slow is not ready yet; see {tmp_path / 'slow.log'}"]
    given = list[float]()
    monkeypatch.setattr(Supervisor, "start", lambda self, specs, *, seconds: given.append(seconds))
    own = Settings(data=tmp_path, redis_url=None)
    monkeypatch.setattr(stack, "_start_archive", lambda *_: None)
    stack._start_servers(own, tmp_path, supervisor, [], Terminal())
    assert given == [RECOVERY_SECONDS] * 2


def test_a_failed_start_of_postgres_reports_the_reason(data: Path) -> None:
    server = CopiedPostgres(data, durable=False)
    with running(server):
        pass
    (data / "postgres" / "pg_wal").rename(data / "moved")
    with pytest.raises(StartFailed) as failed, running(server):
        pass
    assert "pg_wal" in str(failed.value)


ASKED_TWICE = """
import signal, sys, time
from pathlib import Path
from deploy.processes import Spec, Supervisor
folder, code = Path(sys.argv[1]), sys.argv[2]
supervisor = Supervisor(print)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: supervisor.ask_to_stop(number))
log = folder / 'child.log'
supervisor.start([Spec('child', [sys.executable, '-c', code], log, is_ready=lambda: log.stat().st_size > 0)])
print('up', flush=True)
supervisor.watch()
supervisor.stop(seconds=180)
"""
SLOW_TO_STOP = """
import signal, sys, time
def end(*_):
    time.sleep({seconds}); print('stopped cleanly', flush=True); sys.exit()
signal.signal(15, end); print('up', flush=True); time.sleep(600)
"""


@pytest.mark.parametrize(("number", "stop_seconds"), [(signal.SIGINT, 30), (signal.SIGTERM, 1.5)])
def test_a_second_ctrl_c_stops_at_once_and_a_second_sigterm_changes_nothing(
    number: signal.Signals, stop_seconds: float, tmp_path: Path
) -> None:
    child = SLOW_TO_STOP.format(seconds=stop_seconds)
    parent = subprocess.Popen([sys.executable, "-c", ASKED_TWICE, str(tmp_path), child], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    with parent.stdout as output:
        assert output.readline() == b"up\n"
        for pause in (0.05, 0.7, 0):  # the first echo is part of the same Ctrl-C
            parent.send_signal(number)
            time.sleep(pause)

        assert parent.wait(180) == 0

    assert ("stopped cleanly" in (tmp_path / "child.log").read_text()) is (number == signal.SIGTERM)
