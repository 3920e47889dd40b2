"""One scheduler process: waits for the lead, then runs the passes on time until the lead is lost."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import redis
from apscheduler.schedulers.background import BackgroundScheduler

from domain import clock
from domain.database.connections import Database
from domain.queue.heartbeats import PassRun, forget_other_passes, record_pass_run
from domain.queue.job_queue import JobQueue
from domain.queue.unfinished_jobs import UnfinishedJobs
from domain.settings import Settings
from domain.telemetry.health import Health
from domain.telemetry.logs import get_logger, log_ready
from domain.telemetry.metrics import LEADS, PASS_EVERY, PASS_MOVED, PASS_SUCCEEDED, PASSES, expose
from scheduler.leader import Leadership, LeadershipLost
from scheduler.passes import Passes
from scheduler.service_gauges import CERTIFICATES_SECONDS, MEASURE_SECONDS, ServiceGauges, measure_certificates
from scheduler.state import SchedulerState

log = get_logger(__name__)

_CANDIDATE_SECONDS = 2.0
_BURN_SECONDS = 60.0
_DETENTION_SECONDS = 60.0
_STATEMENTS_SECONDS = 600.0
_DRIVEN_ROADS_SECONDS = 60.0
_HOUSEKEEPING_SECONDS = 3600.0
_CLOCK_CHECK_SECONDS = 1.0
_APART_SECONDS = 0.5
"""Passes begin this long after one another. Many run every minute; at the same moment each would need a connection of
its own, and a session of PostgreSQL takes up to 12 MB."""

_RETRY_SECONDS = 60.0
"""A pass that failed runs again so soon, if not before: housekeeping would leave its partitions unmade for an hour."""

_LOST_SECONDS = 15.0
"""Time for passes under way to end when the lead is lost: a silent server fails each within ten seconds."""

_LATE_TICKS_COUNT = {"coalesce": True, "misfire_grace_time": None, "max_instances": 1}


_Pass = tuple[str, Callable[[], dict[str, int]], float]
"""The name of a pass, its work, and the seconds from one run to the next."""


def run(settings: Settings, health: Health) -> int:
    """Works until SIGTERM or SIGINT. Returns the exit status: 1 when the lead or the database was lost, so that a
    supervisor starts it again."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    state = SchedulerState()
    state.add_checks(health)
    expose(LEADS)
    LEADS.set(0)
    try:
        with closing(Leadership(settings.require_direct_url())) as leadership:
            log_ready(__name__, "scheduler.ready")
            while not leadership.try_to_lead():
                state.note_asked()
                if stop.wait(_CANDIDATE_SECONDS):
                    return 0
            log.info("scheduler.leads")
            state.note_lead()
            LEADS.set(1)
            _lead(settings, leadership, state, stop, health)
    except psycopg.Error as error:
        log.error("scheduler.database_lost", error=str(error))
    return _wait_for_database(settings, state, stop)


def _wait_for_database(settings: Settings, state: SchedulerState, stop: threading.Event) -> int:
    """Waits until the database answers, or `stop` is set. Returns the exit status. A process that is started while the
    database is away ends again, and supervisors wait longer after each death, up to minutes."""
    while not stop.is_set():
        state.note_asked()
        try:
            Leadership(settings.require_direct_url()).close()
            return 1
        except psycopg.Error as error:
            log.warning("scheduler.database_away", error=str(error))
            stop.wait(_CANDIDATE_SECONDS)
    return 0


def _lead(
    settings: Settings, leadership: Leadership, state: SchedulerState, stop: threading.Event, health: Health
) -> None:
    """Runs the passes until `stop` is set or the lead is lost, then gives up the lead at once. Another scheduler need
    not wait for a pass under way, since two passes at a time do no harm."""
    jobs = JobQueue.of(settings)
    leader = _Leader(leadership, jobs, state, stop)
    with Database.of(settings, put_jobs=jobs.put) as database:
        unfinished = UnfinishedJobs(settings.require_redis_url(), f"scheduler {uuid4()}")
        passes = Passes(settings, database, jobs, working_at=unfinished.working_at)
        scheduler = BackgroundScheduler(timezone=UTC, job_defaults=_LATE_TICKS_COUNT)

        def tick(name: str, work: Callable[[], dict[str, int]], seconds: float) -> None:
            is_done = leader.run_pass(name, work, seconds)
            if not is_done and seconds > _RETRY_SECONDS and not leader.is_over():
                scheduler.modify_job(name, next_run_time=datetime.now(UTC) + timedelta(seconds=_RETRY_SECONDS))

        began, every = datetime.now(UTC), _all_passes(settings, passes)
        with suppress(redis.RedisError):  # the next leader does it
            forget_other_passes(jobs.client, (_shown_name(name) for name, _, _ in every))
        for number, (name, work, seconds) in enumerate(every):
            state.note_pass(name, seconds, "began")
            PASS_EVERY.labels(name).set(seconds)
            for outcome in ("done", "failed"):
                PASSES.labels(name, outcome)  # so that the first run counts as an increase
            first = began + timedelta(seconds=number * min(_APART_SECONDS, seconds / len(every)))
            scheduler.add_job(tick, "interval", (name, work, seconds), seconds=seconds, id=name, next_run_time=first)
        if settings.metrics_port is not None:
            gauges = ServiceGauges(database, jobs.client, settings.data, settings.archive)
            scheduler.add_job(
                gauges.measure, "interval", seconds=MEASURE_SECONDS, id="gauges", next_run_time=datetime.now(UTC)
            )
            scheduler.add_job(
                measure_certificates,
                "interval",
                (settings,),
                seconds=CERTIFICATES_SECONDS,
                id="certificates",
                next_run_time=datetime.now(UTC),
            )
        scheduler.start()
        _wait_for_the_end(scheduler, leader, stop)
        health.note_stopping()
        leader.resign()
        LEADS.set(0)
        unfinished.leave()
        _finish(scheduler, settings.stop_seconds if stop.is_set() else _LOST_SECONDS)
        unfinished.close()
    log.info("scheduler.stopped")


def _all_passes(settings: Settings, passes: Passes) -> tuple[_Pass, ...]:
    return (
        ("housekeeping", passes.housekeeping, _HOUSEKEEPING_SECONDS),  # makes the partitions that others write to
        ("import_pass", passes.import_pass, settings.import_pass_seconds),
        ("sweep", passes.sweep, settings.sweep_seconds),
        ("autodrive", passes.autodrive, settings.autodrive_seconds),
        ("notices", passes.tell_people, settings.notices_seconds),
        ("read_status", passes.ask_read_status, settings.read_status_seconds),
        ("operator_notices", passes.tell_operators, settings.notices_seconds),
        ("price_sources", passes.price_sources, settings.price_sources_seconds),
        ("driven_roads", passes.learn_roads, _DRIVEN_ROADS_SECONDS),
        ("burn", passes.learn_burn, _BURN_SECONDS),
        ("fuel_stops", passes.see_fuel_stops, _BURN_SECONDS),
        ("habits", passes.compare_habits, _BURN_SECONDS),
        ("statements", passes.make_statements, _STATEMENTS_SECONDS),
        ("filings", passes.compare_filings, _STATEMENTS_SECONDS),
        ("detention", passes.find_detained, _DETENTION_SECONDS),
    )


def _shown_name(name: str) -> str:
    """The name of a pass as people read it."""
    return name.replace("_", " ")


def _wait_for_the_end(scheduler: BackgroundScheduler, leader: "_Leader", stop: threading.Event) -> None:
    """Waits until `stop` is set or the lead is lost. APScheduler times the passes by this machine's clock: if the clock
    is set back by minutes, it would wait those minutes before the next pass. So all passes run at once then."""
    before = _ahead_seconds()
    while not stop.wait(_CLOCK_CHECK_SECONDS) and not leader.is_over():
        ahead = _ahead_seconds()
        if ahead < before - _CLOCK_CHECK_SECONDS:
            log.warning("scheduler.clock_set_back", seconds=round(before - ahead, 1))
            for job in scheduler.get_jobs():
                job.modify(next_run_time=datetime.now(UTC))
        before = ahead


def _ahead_seconds() -> float:
    """Seconds by which this machine's clock is ahead of the monotonic clock, which nobody sets."""
    return time.time() - time.monotonic()


def _finish(scheduler: BackgroundScheduler, seconds: float) -> None:
    """Waits for the running passes. Ends the process when they take longer; PostgreSQL then rolls them back."""
    finishing = threading.Thread(target=scheduler.shutdown, name="finishing", daemon=True)
    finishing.start()
    finishing.join(seconds)
    if finishing.is_alive():
        log.warning("scheduler.pass_cut_off")
        logging.shutdown()
        os._exit(0)  # the interpreter would wait for the threads of the passes


class _Leader:
    """Runs passes as long as the lead is held. APScheduler calls it from several threads."""

    def __init__(self, leadership: Leadership, jobs: JobQueue, state: SchedulerState, stop: threading.Event) -> None:
        self.has_lost = False
        self._leadership = leadership
        self._jobs = jobs
        self._state = state
        self._stop = stop
        self._one_at_a_time = threading.Lock()  # the leader's session is one connection

    def is_over(self) -> bool:
        """True if no further pass begins: the lead is lost, or the process stops."""
        return self.has_lost or self._stop.is_set()

    def resign(self) -> None:
        """Gives up the lead, so that no further pass begins."""
        with self._one_at_a_time:
            self._leadership.close()

    def run_pass(self, name: str, work: Callable[[], dict[str, int]], every_seconds: float) -> bool:
        """Runs one pass and records the run; False if it failed. Runs nothing once the lead is lost."""
        try:
            with self._one_at_a_time:
                if self.is_over():
                    return True
                self._leadership.check()
        except LeadershipLost as error:
            log.error("scheduler.leadership_lost", error=str(error))
            self.has_lost = True
            return True
        started, failed = time.monotonic(), False
        moved: dict[str, int] = {}
        try:
            moved = work()
        except Exception:
            log.exception("scheduler.pass_failed", work=name)
            failed = True
        self._state.note_pass(name, every_seconds, "failed" if failed else "ended")
        _count_run(name, time.monotonic() - started, moved, failed=failed)
        run = PassRun(
            name=_shown_name(name),
            leader=f"{socket.gethostname()}:{os.getpid()}",
            ended_at=clock.now(),
            seconds=round(time.monotonic() - started, 3),
            every_seconds=every_seconds,
            failed=failed,
            moved={what: count for what, count in moved.items() if count},
        )
        try:
            record_pass_run(self._jobs.client, run)
        except redis.RedisError:
            log.debug("scheduler.run_not_recorded", work=name)
        return not failed


def _count_run(name: str, seconds: float, moved: Mapping[str, int], *, failed: bool) -> None:
    PASSES.labels(name, "failed" if failed else "done").observe(seconds)
    for what, count in moved.items():
        PASS_MOVED.labels(name, what).inc(count)
    if not failed:
        PASS_SUCCEEDED.labels(name).set(clock.now().timestamp())
