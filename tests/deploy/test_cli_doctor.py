"""`fuelroute doctor`: its text, its document and its exit status."""

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.cli import doctor
from domain.operations.doctor import examination
from domain.operations.doctor.checks import Check, Examined, Finding, NotFinished, problem, warning
from domain.queue.job_queue import JobQueue
from tests.deploy.commands import Cli


def _finds(*findings: Finding, unfinished: str | None = None) -> Any:
    def find(seen: Examined) -> Iterator[Finding]:
        yield from findings
        if unfinished is not None:
            raise NotFinished(unfinished)

    return find


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has the command make these checks."""

    def use(*some: Check) -> None:
        monkeypatch.setattr(doctor, "CHECKS", some)

    return use


def test_problems_come_first_and_make_the_command_fail(cli: Cli, jobs: JobQueue, checks: Any) -> None:
    checks(
        Check("one", _finds(warning("It is warm", "Open a window"))),
        Check("two", _finds(problem("It burns", "Call somebody", ("here", "th\x1bere")), unfinished="3 of 5 rooms")),
    )

    result = cli("doctor")

    assert result.status == 1
    assert result.out.splitlines()[:-1] == [
        "PROBLEM  It burns.",
        "         Call somebody.",
        "         here, th\\u001bere",
        "warning  It is warm.",
        "         Open a window.",
        "not finished: two: 3 of 5 rooms",
    ]
    assert result.out.splitlines()[-1].endswith(" s: 1 problem, 1 warning")


def test_warnings_and_unfinished_checks_do_not_make_it_fail(cli: Cli, jobs: JobQueue, checks: Any) -> None:
    checks(Check("one", _finds(warning("It is warm", "Open a window"), unfinished="3 of 5 rooms")))

    document = cli("doctor", "--json").document

    assert document["healthy"] is True
    assert document["findings"] == [
        {"check": "one", "level": "warning", "what": "It is warm", "what_to_do": "Open a window", "examples": []}
    ]
    (check,) = document["checks"]
    assert check.pop("seconds") >= 0
    assert check == {"check": "one", "finished": False, "unfinished": "3 of 5 rooms", "findings": 1}
    assert {"checked_at", "seconds"} < set(document)


def test_every_check_is_in_the_document(cli: Cli, jobs: JobQueue) -> None:
    """A service of other tests may run beside this one: what is found depends on it."""
    result = cli("doctor", "--seconds", "20", "--json")

    assert result.status == ('"healthy": false' in result.out)
    assert result.err == ""
    assert [check.name for check in examination.CHECKS] == [
        line.split('"')[3] for line in result.out.partition('"checks"')[2].splitlines() if '"check":' in line
    ]


def test_a_database_that_is_away_is_told_in_one_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUELROUTE_DATABASE_URL", "postgresql://127.0.0.1:1/nothing")
    assert "cannot use PostgreSQL" in cli("doctor").sentence
