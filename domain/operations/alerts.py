"""Alerts: things that need a person, each with what to do about it. The rules judge measurements of one moment.

Gauges can seem healthy while nothing moves: the queue is short because its workers have taken the jobs, the workers'
heartbeats are fresh, and no job ends. So the rules ask what has ended, and when."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from domain.needs.figures import FIGURES
from domain.needs.need import Need, Summary
from domain.needs.operator_needs import (
    FOREIGN_WORKER,
    PASS_LATE,
    REDIS_AWAY,
    STALLED,
    UNSERVED,
    WORKER_SILENT,
    WORKER_STUCK,
    WORKERS_DIE,
)
from domain.needs.overdue import COUNTED, Count
from domain.operations.pauses import Pause
from domain.queue.heartbeats import PassRun, WorkerHeartbeat
from domain.queue.inspection import Holder, QueueState
from domain.queue.job_queue import MAX_WAITING
from domain.queue.jobs import QUEUES
from domain.queue.rates import Rates

SILENT_AFTER = timedelta(seconds=30)
"""A worker is silent after this time without a heartbeat: 15 are missing."""
WORKS_STILL = timedelta(seconds=10)
"""Oldest age of the newest sign of a live worker in Redis: it asks Redis for something at least each second."""
STALLED_AFTER = timedelta(minutes=2)
"""A queue with a job older than this, while none ends, does not move. Most jobs take less than a second."""
HANGS_AFTER = timedelta(minutes=5)
"""A job that runs this long hangs: gateways and road services have time limits well below."""
DIES_YOUNG = timedelta(minutes=1)
"""A worker that lives for a shorter time may have met a job that kills its process, such as by taking all memory."""
MANY_DEATHS = 3
DEATHS_COUNT_FOR = timedelta(minutes=10)
PASSES_LATE = 5
"""A pass is late after it missed this many turns."""
SLOWEST_PASS = timedelta(minutes=1)


class Measured(NamedTuple):
    """Everything that the rules judge, as of one moment. `queues` is None when Redis does not answer; the other fields
    that come from Redis are then empty."""

    queues: Sequence[QueueState] | None
    workers: Sequence[WorkerHeartbeat]
    holders: Mapping[str, Holder]
    """Each worker as Redis knows it, by its id."""
    passes: Sequence[PassRun]
    pauses: Sequence[Pause]
    overdue: Mapping[str, Count]
    rates: Sequence[Rates]
    runs: Sequence[PassRun]
    """The runs of passes that moved something or failed, the newest first."""
    database: str
    """The name of our database, in the form that workers use; empty if it is not known."""
    takes_changes: bool = True
    """False if PostgreSQL refuses each change."""
    redis_refusal: str | None = None
    """The words with which Redis refuses each change."""


class Alert(NamedTuple):
    """Something that needs a person."""

    is_urgent: bool
    what: str
    what_to_do: str
    path: str
    """The path of the console's page with the rows behind the alert."""
    kind: str | None = None
    """The kind of the need of operators, for urgent alerts; None for others."""


def _urgent(need: Need, what: str, what_to_do: str, path: str = "") -> Alert:
    """An alert that operators are told. It leads to `path`, or to the page of the need."""
    return Alert(True, what, what_to_do, path or need.path, need.kind)


def is_silent(worker: WorkerHeartbeat, now: datetime) -> bool:
    return now - worker.beat_at > SILENT_AFTER


def find_alerts(seen: Measured, *, now: datetime) -> list[Alert]:
    """The alerts, urgent ones first."""
    alerts = [*_servers_alerts(seen), *_queues_alerts(seen, now), *_workers_alerts(seen, now)]
    alerts += [*_passes_alerts(seen, now), *_overdue_alerts(seen)]
    return sorted(alerts, key=lambda alert: not alert.is_urgent)  # stable


def urgent_needs(alerts: Sequence[Alert]) -> dict[str, Summary]:
    """The urgent alerts as needs of the operators: the first of each kind, and the number of others."""
    needs: dict[str, Summary] = {}
    for alert in alerts:
        if alert.kind in needs:
            needs[alert.kind] = needs[alert.kind]._replace(more=needs[alert.kind].more + 1)
        elif alert.kind is not None:
            needs[alert.kind] = Summary(alert.what, alert.what_to_do, alert.path, 0)
    return needs


def headline(alerts: Sequence[Alert]) -> str:
    """The most urgent alert, and the number of others, on one line."""
    if not alerts:
        return "Nothing needs a person."
    first = alerts[0]
    more = f" And {len(alerts) - 1} more." if len(alerts) > 1 else ""
    return f"{'Act now' if first.is_urgent else 'Have a look'}: {first.what}. {first.what_to_do}.{more}"


def _servers_alerts(seen: Measured) -> Iterator[Alert]:
    if not seen.takes_changes:
        yield Alert(
            True,
            "PostgreSQL takes no changes: it is a standby, or it was made read-only",
            "Name the server that takes changes; if it is this one, see whether its disk is full",
            "/queues",
        )
    if seen.queues is None:
        yield _urgent(REDIS_AWAY, REDIS_AWAY.label, "Start it again; the sweep then enqueues everything that is due")
    elif seen.redis_refusal is not None:
        yield _urgent(
            REDIS_AWAY,
            f"Redis takes no changes: {seen.redis_refusal}",
            "Name the primary, or give it memory or disk; the sweep then enqueues everything that is due",
        )


def _queues_alerts(seen: Measured, now: datetime) -> Iterator[Alert]:
    paused = {pause.queue: pause for pause in seen.pauses}
    served = {queue for worker in seen.workers if not is_silent(worker, now) for queue in worker.queues}
    takes_heartbeats = seen.queues is not None and seen.redis_refusal is None
    for queue in QUEUES if takes_heartbeats else ():
        if queue not in served:
            yield _urgent(UNSERVED, f"No worker serves {queue}", f"Start one: fuelroute workers --queues {queue}")
    for state in seen.queues or ():
        queue = state.queue
        if queue in paused:
            pause = paused[queue]
            yield Alert(
                False,
                f"{queue} is paused by {pause.paused_by}: {pause.reason}",
                f"Resume it when the reason no longer holds: fuelroute queues resume {queue} --reason TEXT",
                "/queues",
            )
        elif queue in served and _is_stalled(state, now):
            yield _urgent(
                STALLED,
                f"{queue} has stopped moving: {state.waiting} wait, {state.in_flight} are in flight, and none has"
                f" ended {_since(state.last_finished_at, now)}",
                "Check the jobs that its workers run, then restart the workers",
                f"/queues/{queue}/in-flight",
            )
        if state.waiting >= MAX_WAITING:
            yield Alert(
                False,
                f"{queue} is behind: {state.waiting} jobs wait",
                f"Start more workers: fuelroute workers --queues {queue}",
                f"/queues/{queue}/waiting",
            )
        if state.dead:
            yield Alert(
                False,
                f"Dead letters in {queue}: {state.dead:,}",
                "Read their errors, then replay or discard them",
                f"/queues/dead?queue={queue}",
            )


def _is_stalled(state: QueueState, now: datetime) -> bool:
    """True if there is an old job, and no job has ended lately. A queue that was idle until now has only young jobs."""
    return (
        state.oldest_at is not None
        and now - state.oldest_at > STALLED_AFTER
        and (state.last_finished_at is None or now - state.last_finished_at > STALLED_AFTER)
    )


def _workers_alerts(seen: Measured, now: datetime) -> Iterator[Alert]:
    for worker in seen.workers:
        path = f"/queues/workers/{worker.id}"
        if worker.beat_at - now > SILENT_AFTER:
            yield Alert(
                False,
                f"The clock of worker {worker.name} is {(worker.beat_at - now) // timedelta(seconds=1)} s ahead",
                "Set the machines' clocks right: until then no alert says when it falls silent",
                path,
            )
        if is_silent(worker, now):
            yield from _silent_worker_alerts(worker, seen.holders.get(worker.id), path, now)
        elif worker.database and seen.database and worker.database != seen.database:
            yield _urgent(
                FOREIGN_WORKER,
                f"Worker {worker.name} belongs to another service, and takes our jobs from the Redis that both use",
                "Give each service a Redis database of its own: FUELROUTE_REDIS_URL",
                path,
            )
        else:
            yield from _stuck_worker_alerts(worker, path, now)
    yield from _dying_workers_alerts(seen, now)
    yield from _unknown_workers_alerts(seen)


def _silent_worker_alerts(worker: WorkerHeartbeat, holder: Holder | None, path: str, now: datetime) -> Iterator[Alert]:
    silent = _since(worker.beat_at, now)
    if holder is not None and holder.jobs:
        yield _urgent(
            WORKER_SILENT,
            f"Worker {worker.name} has been silent {silent} and holds {_jobs(holder.jobs)}",
            "End the process: another worker then takes its jobs within 5 seconds",
            path,
        )
    elif holder is not None and now - holder.heartbeat_at < WORKS_STILL:
        yield _urgent(
            WORKER_SILENT,
            f"Worker {worker.name} takes jobs, and its figures have stood still {silent}",
            "Restart it: no figure shows whether it works",
            path,
        )


def _stuck_worker_alerts(worker: WorkerHeartbeat, path: str, now: datetime) -> Iterator[Alert]:
    if worker.stuck_since is not None and now - worker.stuck_since > STALLED_AFTER:
        yield _urgent(
            WORKER_STUCK,
            f"Worker {worker.name} holds {_jobs(worker.held)} and has ended none {_since(worker.stuck_since, now)}",
            "Restart it: others run its jobs",
            path,
        )
        return
    for running in worker.running:
        if now - running.since > HANGS_AFTER:
            yield Alert(
                False,
                f"Worker {worker.name} has run {running.job} {_since(running.since, now)}",
                "Its thread is lost for other jobs: restart the worker",
                path,
            )


def _dying_workers_alerts(seen: Measured, now: datetime) -> Iterator[Alert]:
    deaths = Counter(
        queue
        for worker in seen.workers
        if worker.id not in seen.holders
        and is_silent(worker, now)
        and worker.beat_at - worker.started_at < DIES_YOUNG
        and now - worker.beat_at < DEATHS_COUNT_FOR
        for queue in worker.queues
    )
    for queue, count in deaths.items():
        if count >= MANY_DEATHS:
            yield _urgent(
                WORKERS_DIE,
                f"Workers of {queue} die soon after their start: {count} within 10 minutes",
                'Read the last lines of their logs; one job may kill each: the runbook says under "Queue stuck" how to'
                " find it",
            )


def _unknown_workers_alerts(seen: Measured) -> Iterator[Alert]:
    known = {worker.id for worker in seen.workers}
    for id, holder in seen.holders.items():
        if holder.jobs and id not in known:
            yield Alert(
                False,
                f"A worker without a heartbeat holds {_jobs(holder.jobs)}",
                "Find the process by its Redis connection and end it: another worker then takes its jobs",
                f"/queues/workers/{id}",
            )


def _passes_alerts(seen: Measured, now: datetime) -> Iterator[Alert]:
    if seen.queues is not None and not seen.passes:
        yield _urgent(PASS_LATE, "No scheduler has run a pass", "Start one: fuelroute scheduler")
    for one in seen.passes:
        late = max(timedelta(seconds=one.every_seconds) * PASSES_LATE, SLOWEST_PASS)
        if now - one.ended_at > late:
            yield _urgent(
                PASS_LATE,
                f"The scheduler's {one.name} has not ended {_since(one.ended_at, now)}",
                f"Check the scheduler on {one.leader}: restart it, or start another one",
            )
        elif one.failed:
            yield Alert(
                False, f"The scheduler's last {one.name} failed", "Read its log: scheduler.pass_failed", "/queues"
            )


def _overdue_alerts(seen: Measured) -> Iterator[Alert]:
    for name, figure in FIGURES.items():
        found = seen.overdue.get(name)
        if found is not None and found.rows:
            what = f"{figure.what}: {shown_count(found.rows)}"
            if figure.need is not None:
                yield _urgent(figure.need, what, figure.what_to_do)
            else:
                yield Alert(False, what, figure.what_to_do, figure.path)


def shown_count(count: int) -> str:
    return f"{count:,}" if count < COUNTED else f"{COUNTED:,} or more"


def _jobs(count: int) -> str:
    return f"{count:,} job" if count == 1 else f"{count:,} jobs"


def _since(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "ever"
    minutes = (now - moment) // timedelta(minutes=1)
    return f"for {minutes} min" if minutes else f"for {(now - moment) // timedelta(seconds=1)} s"
