"""One worker process: the broker, the actors of its queues, threads, and a check that they live."""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence

from domain.database.connections import Database
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES
from domain.queue.unfinished_jobs import UnfinishedJobs
from domain.session_priority import GIVES_WAY, IN_A_HURRY, SessionPriority
from domain.settings import Settings
from domain.telemetry.health import Health
from domain.telemetry.logs import get_logger, log_ready
from workers.broker import FuelrouteBroker, FuelrouteWorker
from workers.context import Context
from workers.health import add_worker_checks
from workers.job_companies import JobCompanies
from workers.presence import Presence
from workers.webhook_hints import WebhookHints

log = get_logger(__name__)

_NICENESS = 5
"""The niceness of a process of replays alone. It counts where its session is a shell's, or the kernel groups none."""
_TURN_SECONDS = 0.001
"""The longest turn of a thread where others wait, in a process that also solves replays. A plan waits for a turn at
each of its statements."""


def run(settings: Settings, health: Health, queues: Sequence[str] = QUEUES) -> int:
    """Works until SIGTERM or SIGINT. Returns the exit status: 1 when a consumer died, so that a supervisor restarts
    the process."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    session = _give_way(queues)
    broker = FuelrouteBroker(settings.require_redis_url(), threads=settings.worker_threads)
    companies = JobCompanies()
    broker.add_middleware(companies)
    jobs = JobQueue.of(settings)
    with Database.of(settings, visible=companies.visible, put_jobs=jobs.put) as database:
        unfinished = UnfinishedJobs(broker.url, broker.broker_id)
        context = Context(settings, database, jobs, companies, unfinished.working_at)
        broker.add_middleware(WebhookHints(context))
        for queue in queues:  # a process loads only what its queues need
            importlib.import_module(f"workers.{queue}").register(broker, context)
        worker = FuelrouteWorker(broker, queues, threads=settings.worker_threads)
        presence = Presence(broker, database, queues, settings.worker_threads)
        presence.start()
        worker.start()
        add_worker_checks(health, broker, worker, presence)
        log_ready(__name__, "workers.ready", queues=list(queues), threads=settings.worker_threads)
        alive = True
        while alive and not stop.wait(1):
            alive = worker.is_alive()
            if session is not None:
                session.become(GIVES_WAY)
        if session is not None:
            session.become(IN_A_HURRY)  # its end is waited for
        if not alive:
            log.error("workers.consumer_died")
        health.note_stopping()
        unfinished.leave()
        worker.stop(timeout=round(1000 * settings.worker_stop_seconds(sends_messages="messages" in queues)))
        presence.stop()
        unfinished.close()
        broker.close()
    log.info("workers.stopped")
    return 0 if alive else 1


def _give_way(queues: Sequence[str]) -> SessionPriority | None:
    """Let plans go first on a machine, or in a process, that also solves replays: a quarter takes minutes. Returns the
    session that is to become nice, for the kernel may refuse that for a while."""
    if tuple(queues) == ("replays",):
        os.nice(_NICENESS)  # the threads that are started from now on have it, too
        return SessionPriority.of_own_session()
    if "replays" in queues:
        sys.setswitchinterval(_TURN_SECONDS)
    return None
