"""Figures of the whole service for its metrics: held routes, overdue work, prices, pauses, and the state of
PostgreSQL. One process reads them every few seconds, so each statement is cheap, whatever the number of routes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from domain.database.connections import Connection
from domain.database.statements import NotNull, Scalar, Statement
from domain.needs import overdue
from domain.needs.overdue import COUNTED, Count
from domain.operations import pauses
from domain.operations.archives import Archive, read_archive
from domain.operations.measurements import takes_changes
from domain.stations.prices import STALE_AFTER


class Held(NamedTuple):
    """Held routes of one reason, up to `COUNTED` of each status, and when the first of them was pushed."""

    reason: NotNull[str]
    routes: int
    since: NotNull[datetime]


class PricedStations(NamedTuple):
    """Stations in service by the state of their price: `fresh`, `old` or `none`."""

    price: NotNull[str]
    stations: int


class ServiceState(NamedTuple):
    """The figures as of one moment."""

    held: Sequence[Held]
    overdue: Mapping[str, Count]
    stations: Sequence[PricedStations]
    paused: Sequence[str]
    database_started_at: datetime
    database_takes_changes: bool
    archive: Archive | None
    """None where PostgreSQL archives nothing."""


# A limit for each status keeps it cheap; the indexes find the earliest first.
_HELD = Statement(
    Held,
    """
    SELECT coalesce(pending_reason, 'not_attempted') AS reason, count(*) AS routes, min(created_at) AS since FROM (
        (SELECT pending_reason, created_at FROM routes WHERE status = 'pending' ORDER BY retry_at LIMIT %(limit)s)
        UNION ALL
        (SELECT pending_reason, created_at FROM routes WHERE status = 'pending_mapping'
         ORDER BY scheduled_start LIMIT %(limit)s)
        UNION ALL
        (SELECT pending_reason, created_at FROM routes WHERE status = 'pending_window'
         ORDER BY scheduled_start LIMIT %(limit)s)) AS held
    GROUP BY 1
    """,
)
_STATIONS = Statement(
    PricedStations,
    """
    SELECT CASE WHEN retail_price IS NULL THEN 'none'
                WHEN priced_at IS NULL OR priced_at < %(now)s::timestamptz - %(stale)s::interval THEN 'old'
                ELSE 'fresh' END AS price,
           count(*) AS stations
    FROM stations WHERE retired_at IS NULL GROUP BY 1
    """,
)


_STARTED = Scalar(datetime, "SELECT pg_postmaster_start_time()")


def read_state(connection: Connection, *, now: datetime) -> ServiceState:
    return ServiceState(
        _HELD.all(connection, {"limit": COUNTED}),
        overdue.count(connection, now=now),
        _STATIONS.all(connection, {"now": now, "stale": STALE_AFTER}),
        [pause.queue for pause in pauses.list_pauses(connection)],
        _STARTED.one(connection),
        takes_changes(connection),
        read_archive(connection),
    )
