"""All processes tell the time by PostgreSQL's clock, however far off their own machine's is."""

import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest

from domain import clock
from domain.clock import _Clock
from domain.settings import Settings
from tests.chaos.stack import FAKETIME, faked_clock

needs_faketime = pytest.mark.skipif(not FAKETIME.exists(), reason="there is no libfaketime: apt install libfaketime")

TELL_TIME = """
import sys
from domain import clock
from domain.database.connections import connected

with connected(sys.argv[1]):
    print(clock.now().isoformat(), flush=True)
    sys.stdin.readline()
    print(clock.now().isoformat())
"""


def time_of(one: _Clock) -> datetime:
    assert one.zero is not None
    return one.zero + timedelta(seconds=time.monotonic())


@pytest.mark.parametrize("minutes", [-3, 3])
def test_a_server_that_disagrees_is_believed(minutes: int) -> None:
    one, ahead = _Clock(), timedelta(minutes=minutes)
    one.note(datetime.now(UTC) + ahead, time.monotonic())
    assert abs(time_of(one) - datetime.now(UTC) - ahead) < timedelta(minutes=1)


def test_a_clock_that_agrees_within_the_round_trip_is_kept() -> None:
    one = _Clock()
    one.note(datetime.now(UTC) - timedelta(seconds=5), time.monotonic() - 10)
    assert abs(time_of(one) - datetime.now(UTC)) < timedelta(seconds=4)


def test_a_pause_while_the_clocks_are_read_moves_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = [0.2, 0]

    class Paused(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            time.sleep(pauses.pop(0) if pauses else 0)
            return datetime.now(tz)

    monkeypatch.setattr(clock, "datetime", Paused)
    one = _Clock()
    one.note(datetime.now(UTC), time.monotonic() - 10)
    assert min(abs(time_of(one) - datetime.now(UTC)) for _ in range(9)) < timedelta(seconds=0.1)


def test_without_a_reading_it_is_the_time_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_clock", _Clock())
    assert clock.must_be_read()
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=1)


def test_no_test_sets_the_clock_of_its_whole_process() -> None:
    """If PostgreSQL's clock were read meanwhile, the time would be wrong for later tests, too. A test gives one module
    another `time`: `monkeypatch.setattr("workers.webhook_hints.time", ...)`."""
    sets_clock = re.compile(r"""setattr\(\s*(time,|"time",|"[\w.]*\btime\.\w+")""")
    tests = Path(__file__).parents[1]
    assert [path.name for path in tests.rglob("*.py") if sets_clock.search(path.read_text())] == []


@needs_faketime
def test_a_process_with_a_wrong_clock_knows_the_right_time(settings: Settings, tmp_path: Path) -> None:
    """The process knows it even after its clock was set while it ran."""
    file = tmp_path / "ahead"
    file.write_text("+3m\n")
    with subprocess.Popen(
        [sys.executable, "-c", TELL_TIME, settings.require_database_url()],
        env=os.environ | faked_clock(file),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        told_first = process.stdout.readline()
        file.write_text("-4m\n")
        time.sleep(1.2)  # by then it has taken effect
        told_later, _ = process.communicate("\n")
    for told in (told_first, told_later):
        assert abs(datetime.fromisoformat(told.strip()) - datetime.now(UTC)) < timedelta(seconds=10)
