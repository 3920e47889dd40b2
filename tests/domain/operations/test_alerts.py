"""Does anything need a person? Rules over values."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.needs.figures import FIGURES
from domain.needs.overdue import Count
from domain.operations.alerts import Alert, Measured, find_alerts, headline, urgent_needs
from domain.operations.pauses import Pause
from domain.queue.heartbeats import PassRun, RunningJob, WorkerHeartbeat
from domain.queue.inspection import Holder, QueueState
from domain.queue.jobs import QUEUES

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


def queue(name: str = "imports", **more: Any) -> QueueState:
    idle = QueueState(name, 0, 0, 0, 0, None, ago(seconds=5))
    return idle._replace(**more)


def worker(**more: Any) -> WorkerHeartbeat:
    fields: dict[str, Any] = {
        "id": "w1",
        "host": "alpha",
        "pid": 7,
        "queues": list(QUEUES),
        "threads": 8,
        "started_at": ago(hours=9),
        "beat_at": ago(seconds=1),
        "running": [],
        "done": 100,
        "failed": 0,
        "held": 0,
        "stuck_since": None,
    }
    return WorkerHeartbeat(**(fields | more))


def sweep(**more: Any) -> PassRun:
    fields: dict[str, Any] = {
        "name": "sweep",
        "leader": "alpha:8",
        "ended_at": ago(seconds=3),
        "seconds": 0.1,
        "every_seconds": 5,
        "failed": False,
    }
    return PassRun(**(fields | more))


def seen(*queues: QueueState, **more: Any) -> Measured:
    """A healthy service, but for what is given."""
    states = {one.queue: one for one in [*map(queue, QUEUES), *queues]}
    healthy = Measured(
        list(states.values()),
        [worker()],
        {},
        [sweep()],
        [],
        {figure: Count(0, None) for figure in FIGURES},
        [],
        [],
        "ours",
    )
    return healthy._replace(**more)


def needs(*queues: QueueState, **more: Any) -> list[Alert]:
    return find_alerts(seen(*queues, **more), now=NOW)


def test_a_healthy_service_has_no_alert() -> None:
    assert headline(needs()) == "Nothing needs a person."


def test_jobs_in_flight_of_which_none_ends_give_an_urgent_alert() -> None:
    stalled = queue("plans", in_flight=8, oldest_at=ago(minutes=6), last_finished_at=ago(minutes=5))

    (need,) = needs(stalled)

    assert need.is_urgent
    assert need.what == "plans has stopped moving: 0 wait, 8 are in flight, and none has ended for 5 min"
    assert need.path == "/queues/plans/in-flight"


@pytest.mark.parametrize(
    "healthy",
    [
        queue("plans", in_flight=8, oldest_at=ago(seconds=20), last_finished_at=ago(hours=6)),
        queue("plans", waiting=9_000, in_flight=32, oldest_at=ago(hours=1), last_finished_at=ago(seconds=1)),
        queue("plans", delayed=4, last_finished_at=ago(hours=6)),
    ],
    ids=["work after an idle night", "a long backlog that moves", "nothing but what is put off"],
)
def test_work_that_moves_or_has_just_begun_gives_no_alert(healthy: QueueState) -> None:
    assert needs(healthy) == []


def test_a_queue_that_no_job_ever_left_has_stopped_too() -> None:
    (need,) = needs(queue(waiting=3, oldest_at=ago(minutes=3), last_finished_at=None))
    assert need.what.endswith("none has ended ever")


def test_a_worker_of_another_service_on_the_same_redis_is_found() -> None:
    """Each service takes the other's jobs, finds no such routes, and both wait for their sweeps."""
    (need,) = needs(workers=[worker(database="ours"), worker(id="w2", pid=9, database="theirs")])

    assert need.is_urgent
    assert need.what == "Worker alpha:9 belongs to another service, and takes our jobs from the Redis that both use"


def test_a_stuck_worker_is_found_though_others_work() -> None:
    holder = worker(held=32, stuck_since=ago(minutes=3))

    (need,) = needs(workers=[worker(id="w2", pid=9), holder])

    assert need.is_urgent
    assert need.what == "Worker alpha:7 holds 32 jobs and has ended none for 3 min"


def test_one_thread_that_hangs_is_found_though_the_others_end_jobs() -> None:
    hangs = worker(running=[RunningJob("plans", "plans.build", ago(minutes=7))])
    (need,) = needs(workers=[hangs])
    assert (need.is_urgent, need.what) == (False, "Worker alpha:7 has run plans.build for 7 min")


def test_a_silent_worker_gives_an_alert_only_while_it_holds_jobs() -> None:
    silent = worker(id="w2", pid=9, beat_at=ago(minutes=4))
    assert needs(workers=[worker(), silent]) == []

    (need,) = needs(workers=[worker(), silent], holders={"w2": Holder(5, ago(minutes=4))})

    assert need.what == "Worker alpha:9 has been silent for 4 min and holds 5 jobs"
    assert need.path == "/queues/workers/w2"


def test_a_worker_whose_figures_stand_still_while_it_takes_jobs_is_found() -> None:
    silent = worker(id="w2", pid=9, beat_at=ago(minutes=4))
    assert needs(workers=[worker(), silent], holders={"w2": Holder(0, ago(minutes=4))}) == [], "it has just died"

    (need,) = needs(workers=[worker(), silent], holders={"w2": Holder(0, ago(seconds=1))})

    assert need.is_urgent
    assert need.what == "Worker alpha:9 takes jobs, and its figures have stood still for 4 min"


def test_a_worker_whose_clock_is_ahead_gives_an_alert() -> None:
    (need,) = needs(workers=[worker(beat_at=ago(minutes=-3))])
    assert need.what == "The clock of worker alpha:7 is 180 s ahead"


def test_jobs_held_by_no_living_worker_are_found() -> None:
    (need,) = needs(holders={"w1": Holder(2, NOW), "w9": Holder(3, NOW), "w8": Holder(0, NOW)})
    assert need.what == "A worker without a heartbeat holds 3 jobs"
    assert need.path == "/queues/workers/w9"


def test_a_queue_without_a_living_worker_gives_an_alert() -> None:
    found = needs(workers=[worker(queues=[one for one in QUEUES if one != "messages"]), worker(beat_at=ago(minutes=1))])
    assert [need.what for need in found] == ["No worker serves messages"]


def test_a_paused_queue_is_reported_with_its_reason_and_not_as_stalled() -> None:
    pause = Pause("messages", ago(hours=2), "ann@example.com", "wrong prices")

    (need,) = needs(queue("messages", waiting=50, oldest_at=ago(hours=2), last_finished_at=None), pauses=[pause])

    assert need == Alert(
        False,
        "messages is paused by ann@example.com: wrong prices",
        "Resume it when the reason no longer holds: fuelroute queues resume messages --reason TEXT",
        "/queues",
    )


@pytest.mark.parametrize(
    ("passes", "told"),
    [
        ([], "No scheduler has run a pass"),
        ([sweep(ended_at=ago(minutes=3))], "The scheduler's sweep has not ended for 3 min"),
        ([sweep(failed=True)], "The scheduler's last sweep failed"),
        ([sweep(name="housekeeping", every_seconds=3600, ended_at=ago(hours=4))], None),
    ],
)
def test_passes_that_do_not_run_are_found(passes: list[PassRun], told: str | None) -> None:
    assert [need.what for need in needs(passes=passes)] == ([told] if told else [])


def test_an_absence_of_redis_is_the_first_alert_and_overdue_work_is_still_listed() -> None:
    found = needs(
        queues=None, workers=[], passes=[], overdue={"pending": Count(10_000, None), "held": Count(1_200, None)}
    )

    assert [need.what for need in found] == [
        "Redis does not answer",
        "Routes wait too long for their import: 10,000 or more",
        "Routes are held though their start has passed: 1,200",
    ]
    assert headline(found).startswith("Act now: Redis does not answer. Start it again")
    assert headline(found).endswith(" And 2 more.")


def test_several_alerts_of_a_kind_are_one_need_of_the_operators() -> None:
    served = worker(queues=[one for one in QUEUES if one not in ("messages", "plans")])
    (need,) = urgent_needs(needs(workers=[served])).values()
    assert (need.what, need.more) == ("No worker serves plans", 1)


def test_dead_letters_and_a_full_queue_give_alerts() -> None:
    found = needs(queue(dead=2, waiting=10_000))
    assert [(need.is_urgent, need.path) for need in found] == [
        (False, "/queues/imports/waiting"),
        (False, "/queues/dead?queue=imports"),
    ]


@given(
    st.sampled_from(list(FIGURES)),
    st.integers(min_value=1, max_value=10_000),
    st.floats(min_value=130, max_value=1e6),
    st.booleans(),
)
def test_urgent_alerts_come_first_and_every_overdue_figure_links_to_its_rows(
    figure: Any, count: int, seconds: float, is_stalled: bool
) -> None:
    old = ago(seconds=seconds)
    state = queue(oldest_at=old if is_stalled else None, last_finished_at=old)

    found = needs(state, overdue={figure: Count(count, None)})

    assert [need.is_urgent for need in found] == sorted((need.is_urgent for need in found), reverse=True)
    assert [need.kind is not None for need in found] == [need.is_urgent for need in found]
    assert set(urgent_needs(found)) == {need.kind for need in found if need.is_urgent}
    assert f"/queues/overdue/{figure}" in {need.path for need in found}
    assert len(found) == 1 + is_stalled


def test_workers_that_die_soon_after_their_start_are_told() -> None:
    def dead(number: int, minutes: float, **more: Any) -> WorkerHeartbeat:
        life = {"started_at": ago(minutes=minutes, seconds=20), "beat_at": ago(minutes=minutes)} | more
        return worker(id=f"dead-{number}", pid=number, queues=["plans"], **life)

    young = [dead(number, minutes) for number, minutes in enumerate((1, 4, 8), start=100)]
    (found,) = find_alerts(seen(workers=[worker(), *young]), now=NOW)
    assert found.kind == "workers_die"
    assert found.what == "Workers of plans die soon after their start: 3 within 10 minutes"

    assert find_alerts(seen(workers=[worker(), *young[:2]]), now=NOW) == []
    assert find_alerts(seen(workers=[worker(), *young[:2], dead(9, 11)]), now=NOW) == [], "that was long ago"
    old = [dead(number, 3, started_at=ago(hours=1)) for number in range(3)]
    assert find_alerts(seen(workers=[worker(), *old]), now=NOW) == [], "a machine was lost"
