"""All checks together: bounded in time, without a trace, and each on its own."""

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from domain import clock
from domain.operations.doctor import examination
from domain.operations.doctor.checks import Check, Examined, NotFinished, problem, warning
from domain.operations.doctor.examination import CHECKS, examine, is_healthy
from domain.queue.job_queue import JobQueue
from domain.settings import Settings
from tests.conftest import make_database
from tests.domain.trucks import active_route
from tests.factories import make_fleet

NOW = datetime.now(UTC)


def results_of(settings: Settings, *checks: Check, seconds: float = 30) -> list[examination.CheckResult]:
    return examine(settings, seconds=seconds, now=NOW, checks=checks)


def test_a_session_of_the_doctor_can_only_read(own_settings: Settings, jobs: JobQueue) -> None:
    def write(seen: Examined) -> Any:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            seen.connection.execute("INSERT INTO erasures (subject_id, erased_at) VALUES (gen_random_uuid(), now())")
        yield warning("tried", "nothing")

    ((_, (tried,), _, unfinished),) = results_of(own_settings, Check("writes", write))

    assert (tried.what, unfinished) == ("tried", None)


def test_data_is_judged_by_the_clock_of_postgresql(
    own_settings: Settings, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now", lambda: NOW)

    def tell_time(seen: Examined) -> Any:
        yield warning(str(seen.now), "nothing")

    ((_, (told,), _, _),) = examine(own_settings, seconds=30, checks=[Check("time", tell_time)])

    assert told.what == str(NOW)


def test_nothing_in_redis_changes(own_settings: Settings, jobs: JobQueue) -> None:
    jobs.client.hset("fuelroute:beats:workers", "old", b"{}")
    keys: Any = jobs.client.keys()
    before = {key: jobs.client.dump(key) for key in keys}

    examine(own_settings, seconds=300, now=NOW)

    assert sorted(jobs.client.keys()) == sorted(keys)
    assert {key: jobs.client.dump(key) for key in keys} == before


def test_all_checks_come_to_their_end(database: Any, own_settings: Settings, jobs: JobQueue) -> None:
    with database.transaction() as connection:
        active_route(connection, own_settings, make_fleet(connection), now=NOW)
    told: list[tuple[str, float]] = []

    results = examine(own_settings, seconds=300, now=NOW, told=lambda name, done: told.append((name, done)))

    assert [(one.check, one.unfinished) for one in results] == [(check.name, None) for check in CHECKS]
    assert [name for name, done in told if done == 0] == [check.name for check in CHECKS]
    assert ("routes", 1.0) in told
    data = {"counts of routes", "references", "plans driven again", "routes", "schema", "contact key"}
    assert [one.findings for one in results if one.check in data] == [[]] * len(data)


def test_a_check_that_takes_too_long_is_stopped_and_the_next_goes_on(own_settings: Settings, jobs: JobQueue) -> None:
    def slow(seen: Examined) -> Any:
        seen.connection.execute("SELECT pg_sleep(600)")
        yield problem("never", "nothing")

    def partly(seen: Examined) -> Any:
        yield warning("seen", "nothing")
        raise NotFinished("half of it")

    one, two = results_of(own_settings, Check("slow", slow, share=1.0), Check("partly", partly), seconds=0.3)

    assert one.seconds < 300
    assert (one.findings, str(one.unfinished)[:14]) == ([], "it was stopped")
    assert ([finding.what for finding in two.findings], two.unfinished) == (["seen"], "half of it")
    assert is_healthy([one, two])


def test_a_check_that_fails_is_a_problem_and_the_next_goes_on(own_settings: Settings, jobs: JobQueue) -> None:
    def broken(seen: Examined) -> Any:
        yield from seen.connection.execute("SELECT no_such_column FROM routes")

    def fine(seen: Examined) -> Any:
        seen.connection.execute("SELECT 1")
        return iter(())

    one, two = results_of(own_settings, Check("broken", broken), Check("fine", fine))

    assert 'column "no_such_column" does not exist' in one.findings[0].what
    assert two.unfinished is None
    assert not is_healthy([one, two])


def test_without_redis_the_database_is_still_examined(own_settings: Settings) -> None:
    away = own_settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})

    results = {one.check: one for one in examine(away, seconds=300, now=NOW)}

    assert str(results["redis"].unfinished).startswith("Redis does not answer")
    assert any(finding.what == "Redis does not answer" for finding in results["alerts"].findings)
    assert results["routes"].unfinished is None
    assert not is_healthy(list(results.values()))


def test_a_statement_of_the_doctor_uses_one_processor(own_settings: Settings, jobs: JobQueue) -> None:
    def ask(seen: Examined) -> Any:
        row = seen.connection.execute("SELECT current_setting('max_parallel_workers_per_gather')").fetchone()
        yield warning(str(row), "nothing")

    ((_, (told,), _, _),) = results_of(own_settings, Check("asks", ask))
    assert told.what == "('0',)"


def test_a_lock_that_somebody_holds_is_no_fault_of_the_schema(own_settings: Settings, jobs: JobQueue) -> None:
    wanted = [check for check in CHECKS if check.name in ("schema", "alerts")]
    with psycopg.connect(own_settings.require_database_url()) as holding:
        holding.execute("LOCK TABLE routes")

        results = results_of(own_settings, *wanted)

    assert [(one.findings, one.unfinished) for one in results] == [
        ([], "another session holds a lock that it needs")
    ] * len(wanted)


def test_a_server_that_takes_no_changes_is_told(own_settings: Settings, jobs: JobQueue) -> None:
    url = make_database("read_only")
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"ALTER DATABASE {owner.info.dbname} SET default_transaction_read_only = on")
    (alerts,) = (check for check in CHECKS if check.name == "alerts")

    ((_, found, _, _),) = results_of(own_settings.model_copy(update={"database_url": url}), alerts)

    assert any(finding.what.startswith("PostgreSQL takes no changes") for finding in found)
