"""Jobs that enter and leave the queues are counted by minute."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from domain.audit.entries import Actor
from domain.database.connections import Connection
from domain.ids import new_id
from domain.operations import dead_letters
from domain.operations.dead_letters import Filter
from domain.queue.job_queue import MAX_WAITING, JobQueue
from domain.queue.jobs import build_plan_job, import_routes_job
from domain.queue.rates import CHARTED_MINUTES, WINDOWS, Minute, Rates, read_rates
from domain.queue.redis_layout import minute_of, rates_key
from tests.dying import kill

FIXED = datetime(2026, 11, 22, 3, 0, 30, tzinfo=UTC)


def rates_of(jobs: JobQueue, queue: str, now: datetime | None = None) -> Rates:
    return next(one for one in read_rates(jobs.client, now=now or datetime.now(UTC)) if one.queue == queue)


def entered(jobs: JobQueue, queue: str) -> int:
    return sum(minute.entered for minute in rates_of(jobs, queue).minutes)


def test_only_enqueued_jobs_are_counted(jobs: JobQueue) -> None:
    plan = build_plan_job(uuid4())
    jobs.put(plan, build_plan_job(uuid4()), import_routes_job([uuid4()]))
    jobs.put_once(plan)
    assert (entered(jobs, "plans"), entered(jobs, "imports"), entered(jobs, "messages")) == (2, 1, 0)

    jobs.client.rpush("dramatiq:messages", *range(MAX_WAITING))
    jobs.put(replace(plan, queue="messages"))
    assert entered(jobs, "messages") == 0, "a full queue takes nothing"

    ttl = jobs.client.ttl(rates_key(minute_of(datetime.now(UTC).timestamp())))
    assert 3_600 < int(str(ttl)) <= 7_200, "counts are forgotten, but not before they are charted"


def test_a_replayed_dead_letter_counts_as_entering_its_queue(
    connection: Connection, jobs: JobQueue, now: datetime
) -> None:
    kill(jobs, build_plan_job(new_id()))
    letters = dead_letters.find(connection, jobs.client, Filter())
    dead_letters.replay(connection, jobs.client, letters, Filter(), Actor("ann@example.com", "again"))
    assert entered(jobs, "plans") == 2


def test_rates_cover_one_hour(jobs: JobQueue) -> None:
    newest = minute_of(FIXED.timestamp())
    for age in (0, 1, CHARTED_MINUTES, CHARTED_MINUTES + 1):
        jobs.client.hset(rates_key(newest - age), mapping={"in plans": 10 + age, "done plans": 2, "failed plans": 1})

    read = rates_of(jobs, "plans", FIXED)

    assert [one.entered for one in read.minutes if one.entered] == [70, 11, 10]
    assert len(read.minutes) == CHARTED_MINUTES + 1
    assert read.elapsed == 0.5
    # half a minute of the running one, and half of the one before
    assert read.table() == {
        **{"in_1": 15.5, "in_5": round(21 / 5, 2), "in_60": round((21 + 35) / 60, 2)},
        **{"out_1": 3, "out_5": 0.8, "out_60": round(5 / 60, 2)},
        **{"failed_1": 1.5, "failed_5": 0.4, "failed_60": round(2.5 / 60, 2)},
    }
    assert rates_of(jobs, "plans", FIXED + timedelta(hours=3)).table()["in_60"] == 0


@given(st.integers(0, 5_000), st.floats(0, 1, exclude_max=True), st.sampled_from(WINDOWS))
def test_evenly_enqueued_jobs_have_the_same_rate_over_each_span(jobs: int, elapsed: float, minutes: int) -> None:
    before = [Minute(jobs, 0, 0)] * CHARTED_MINUTES
    rates = Rates("plans", [*before, Minute(0, 0, 0)], elapsed)
    assert rates.per_minute("entered", minutes) <= jobs
    steady = rates.per_minute("entered", minutes) + jobs * elapsed / minutes  # what the running minute has brought
    assert abs(steady - jobs) < 1e-6 * (jobs + 1)


@given(st.lists(st.integers(0, 5_000), min_size=61, max_size=61), st.floats(0, 1, exclude_max=True))
def test_a_rate_counts_all_of_its_whole_minutes_and_no_more_than_its_minutes_hold(
    counts: list[int], elapsed: float
) -> None:
    rates = Rates("plans", [Minute(0, count, 0) for count in counts], elapsed)
    for minutes in WINDOWS:
        window = counts[-minutes - 1 :]
        jobs = round(rates.per_minute("done", minutes) * minutes, 6)
        assert sum(window[1:]) <= jobs <= sum(window)
