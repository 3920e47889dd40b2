"""A process that `up` forks is like one that was started anew: nothing of its parent's is left in it."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy import forks
from deploy.embedded.folders import DataFolder
from deploy.forks import answer_of_fork, fork_command
from deploy.processes import FUELROUTE, Spec, StopRequested
from deploy.stack import end_guests
from domain.database.connections import DatabaseProblem
from tests.deploy.test_embedded import is_running
from tests.forking import fork
from tests.service import eventually

pytestmark = pytest.mark.servers


def seen_by_parent(look: Callable[[Path], Any], folder: Path) -> Any:
    """The answer of a function in a process of its own, which may fork: that of the tests has threads."""
    process = fork(_note, look, folder, daemon=False)
    process.join(60)
    assert process.exitcode == 0
    return json.loads((folder / "seen").read_text())


def _note(look: Callable[[Path], Any], folder: Path) -> None:
    (folder / "seen").write_text(json.dumps(look(folder)))


def run_commands(folder: Path) -> list[int]:
    url = "postgresql://fuelroute:hunter2@127.0.0.1:1/fuelroute"
    statuses = []
    for name, arguments in (("settings", ["settings"]), ("fails", ["companies", "list"])):
        log = folder / name
        with log.open("ab") as output:
            argv, env = [*FUELROUTE, *arguments], {"FUELROUTE_DATABASE_URL": url, "FUELROUTE_PORT": "18099"}
            statuses.append(fork_command(Spec(name, argv, log, env), output).wait())
    return statuses


def test_it_runs_a_command_with_its_own_environment_and_output(tmp_path: Path) -> None:
    assert seen_by_parent(run_commands, tmp_path) == [0, 1]
    assert "18099" in (tmp_path / "settings").read_text()
    failed = (tmp_path / "fails").read_text()
    assert failed.startswith("fuelroute: cannot reach PostgreSQL")
    assert "hunter2" not in failed


def await_name(process: forks.Forked, name: str) -> None:
    """Waits for the last sign but one of a fork that has become a process of its own: its session and its death with
    its parent come before it, and signals wait until the end."""
    eventually(Path(f"/proc/{process.pid}/comm").read_text, lambda seen: seen == f"{name}\n")


def leave_a_fork(folder: Path) -> dict[str, Any]:
    """Forks from a process that handles signals and has a data folder, notes what it sees of the forks, and dies."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    with DataFolder(folder / "data"):
        stopped, left = forks.fork("stopped", time.sleep, 60), forks.fork("left", time.sleep, 60)
        await_name(stopped, "stopped")
        await_name(left, "left")
        assert os.getsid(left.pid) == left.pid
        stopped.terminate()
        status = stopped.wait()
    with DataFolder(folder / "data"):
        pass  # the fork that is left does not hold it
    with Path(folder / "left").open("w") as file:
        json.dump({"status": status, "pid": left.pid}, file)
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def test_it_ends_with_its_parent_and_holds_nothing_of_it(tmp_path: Path) -> None:
    process = fork(leave_a_fork, tmp_path, daemon=False)
    process.join(60)
    seen = json.loads((tmp_path / "left").read_text())
    assert seen["status"] == -signal.SIGTERM
    eventually(lambda: is_running(seen["pid"]), lambda runs: not runs)


def fail(reason: str) -> None:
    raise DatabaseProblem(reason)


def note_and_wait(file: Path) -> None:
    file.with_suffix(".new").write_text(str(os.getpid()))
    file.with_suffix(".new").rename(file)
    time.sleep(600)


def ask_until_stopped(folder: Path) -> list[bool]:
    file = folder / "pid"
    try:
        answer_of_fork(note_and_wait, file, is_stopping=file.exists)
    except StopRequested:
        return [is_running(int(file.read_text()))]
    return []


def test_a_migration_ends_when_the_stack_is_to_stop(tmp_path: Path) -> None:
    """It may take hours, or wait for another one. Ctrl-C was heard at its end."""
    assert seen_by_parent(ask_until_stopped, tmp_path) == [False]


def ask_forks(_: Path) -> list[str]:
    try:
        answer_of_fork(fail, "no room")
    except DatabaseProblem as error:
        return [answer_of_fork(str.upper, "answered"), str(error)]
    return []


def end_a_frozen_guest(_: Path) -> list[int | None]:
    guests = [forks.fork("guest", time.sleep, 600) for _ in range(2)]
    os.kill(guests[0].pid, signal.SIGSTOP)
    os.waitpid(guests[0].pid, os.WUNTRACED)  # it stands
    end_guests(guests)
    return [guest.returncode for guest in guests]


def test_a_frozen_guest_does_not_keep_the_stack_from_its_end(tmp_path: Path) -> None:
    assert seen_by_parent(end_a_frozen_guest, tmp_path) == [-signal.SIGKILL, -signal.SIGTERM]


def test_its_answer_and_its_error_reach_the_parent(tmp_path: Path) -> None:
    assert seen_by_parent(ask_forks, tmp_path) == ["ANSWERED", "no room"]
