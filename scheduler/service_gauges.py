"""The gauges of the whole service. The leading scheduler alone sets them, so that one process asks the database."""

import math
import shutil
import time
from datetime import datetime
from pathlib import Path

import psycopg
import redis

from domain import clock
from domain.database.connections import Database
from domain.database.options import TimeLimits
from domain.lifecycle import PendingReason
from domain.operations.archives import newest_backup_at
from domain.operations.certificates import ends_of_certificates
from domain.operations.service_state import ServiceState, read_state
from domain.queue.inspection import read_backlogs
from domain.queue.jobs import QUEUES
from domain.settings import Settings
from domain.telemetry import metrics
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

MEASURE_SECONDS = 10.0
CERTIFICATES_SECONDS = 3600.0

_LIMITS = TimeLimits(statement_seconds=5, lock_seconds=1)
_OF_DATABASE = (
    metrics.HELD_ROUTES,
    metrics.HELD_OLDEST,
    metrics.OVERDUE,
    metrics.OVERDUE_OLDEST,
    metrics.STATIONS_BY_PRICE,
    metrics.QUEUE_PAUSED,
)
_OF_ARCHIVE = (metrics.ARCHIVE_WORKS, metrics.ARCHIVE_BEHIND)


class ServiceGauges:
    """Measures again and again. While the database does not answer, its gauges are absent: an old number would look
    like a new one."""

    def __init__(self, database: Database, client: redis.Redis, data: Path, backups: Path | None = None) -> None:
        self._database = database
        self._redis = client
        self._data = data
        self._backups = backups
        self._measured_at = -math.inf
        metrics.expose(metrics.SERVICE_AGE)
        metrics.SERVICE_AGE.set_function(lambda: time.monotonic() - self._measured_at)

    def measure(self) -> None:
        self._measure_disk()
        self._measure_backups()
        self._measure_backlogs()
        now = clock.now()
        try:
            with self._database.transaction(limits=_LIMITS) as connection:
                state = read_state(connection, now=now)
        except psycopg.Error as error:
            log.warning("service_gauges.not_measured", error=str(error))
            for gauge in _OF_DATABASE:
                gauge.clear()
            for known in (metrics.DATABASE_STARTED, metrics.DATABASE_TAKES_CHANGES, *_OF_ARCHIVE):
                known.set(math.nan)
            return
        _show(state, now)
        self._measured_at = time.monotonic()

    def _measure_backlogs(self) -> None:
        for queue in QUEUES:
            try:
                backlogs = read_backlogs(self._redis, queue)
                metrics.QUEUE_LARGEST_BACKLOG.labels(queue).set(backlogs[0].jobs if backlogs else 0)
            except redis.RedisError:
                metrics.QUEUE_LARGEST_BACKLOG.labels(queue).set(math.nan)

    def _measure_backups(self) -> None:
        if self._backups is None:
            return
        metrics.expose(metrics.NEWEST_BACKUP)
        try:
            newest = newest_backup_at(self._backups)
            metrics.NEWEST_BACKUP.set(newest.timestamp() if newest is not None else 0)
        except OSError:  # the folder is away: nobody knows
            metrics.NEWEST_BACKUP.set(math.nan)

    def _measure_disk(self) -> None:
        try:
            disk = shutil.disk_usage(self._data)
        except OSError:  # the servers run elsewhere: this machine has no such folder
            return
        metrics.expose(metrics.DISK_FREE, metrics.DISK_SIZE)
        metrics.DISK_FREE.set(disk.free)
        metrics.DISK_SIZE.set(disk.total)


def measure_certificates(settings: Settings) -> None:
    ends = ends_of_certificates(settings)
    metrics.CERTIFICATE_ENDS.clear()
    for name, end in ends.items():
        metrics.CERTIFICATE_ENDS.labels(name).set(end.timestamp())


def _show(state: ServiceState, now: datetime) -> None:
    held = {one.reason: one for one in state.held}
    for reason in PendingReason:
        one = held.get(reason)
        metrics.HELD_ROUTES.labels(reason).set(one.routes if one else 0)
        metrics.HELD_OLDEST.labels(reason).set(_age(one.since if one else None, now))
    for figure, count in state.overdue.items():
        metrics.OVERDUE.labels(figure).set(count.rows)
        metrics.OVERDUE_OLDEST.labels(figure).set(_age(count.since, now))
    stations = {one.price: one.stations for one in state.stations}
    for price in ("fresh", "old", "none"):
        metrics.STATIONS_BY_PRICE.labels(price).set(stations.get(price, 0))
    for queue in QUEUES:
        metrics.QUEUE_PAUSED.labels(queue).set(queue in state.paused)
    metrics.expose(metrics.DATABASE_STARTED, metrics.DATABASE_TAKES_CHANGES)
    metrics.DATABASE_STARTED.set(state.database_started_at.timestamp())
    metrics.DATABASE_TAKES_CHANGES.set(state.database_takes_changes)
    if state.archive is not None:
        metrics.expose(*_OF_ARCHIVE)
        metrics.ARCHIVE_WORKS.set(state.archive.works)
        behind = state.archive.bytes_behind
        metrics.ARCHIVE_BEHIND.set(behind if behind is not None else math.nan)


def _age(since: datetime | None, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds()) if since is not None else 0.0
