"""Retires a vehicle, a driver or a company; ends its routes, or has them matched again."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, get_args
from uuid import UUID

from domain.accounts.companies import lock_company
from domain.audit.entries import Actor, record_about
from domain.database.connections import Connection
from domain.errors import FuelrouteError
from domain.fleet.matching import Matched
from domain.fleet.records import ID_KIND, lately_retired_records, retire_record, shown_record
from domain.ids import shown_id
from domain.lifecycle import Environment, RouteStatus
from domain.queue.jobs import after_commit, import_routes_job, in_batches
from domain.routes.transitions import end_routes, lock_unfinished, match_again, unfinished_routes

_PORTION = 1_000
"""Routes closed in one transaction."""


class StillDriving(FuelrouteError):
    def __init__(self, kind: Matched, record_id: UUID, route_ids: Sequence[UUID]) -> None:
        self.some = ", ".join(shown_id("rte", route_id) for route_id in route_ids[:3]) + (
            ", ..." if len(route_ids) > 3 else ""
        )
        """The first ids in their form for people."""
        super().__init__(
            f"the {kind} {shown_record(kind, record_id)!r} has {len(route_ids)} planned or active routes ({self.some}):"
            " wait until they are finished, or end them with --force"
        )


def is_driven(environment: str, status: str) -> bool:
    """True if a driver has the plan of such a route, or is about to get it."""
    return environment == Environment.LIVE and status in (RouteStatus.PLANNED, RouteStatus.ACTIVE)


class Retirement(NamedTuple):
    """The outcome for the routes of a retired vehicle or driver."""

    matched_again: int
    """Routes that had not started and are imported again."""
    ended: int
    """Active routes that became `error`; only by force."""


def retire(
    connection: Connection, company_id: UUID, kind: Matched, record_id: UUID, by: Actor, *, force: bool, now: datetime
) -> Retirement:
    """Retires a vehicle or driver. Its routes that have not started are matched again; active ones become `error`.

    Returns the changes of its routes. Retiring twice keeps the first time.
    Raises UnknownCompany, UnknownTarget; StillDriving, unless by force.
    """
    lock_company(connection, company_id, even_retired=True)
    retire_record(connection, company_id, kind, record_id, now=now)
    routes = lock_unfinished(connection, kind, [record_id])
    driving = [route.id for route in routes if is_driven(route.environment, route.status)]
    if driving and not force:
        raise StillDriving(kind, record_id, driving)
    record_about(connection, by.with_reason("by hand"), "retire", ID_KIND[kind], record_id, company_id=company_id)
    again = [route.id for route in routes if route.status != RouteStatus.ACTIVE]
    active = [route.id for route in routes if route.status == RouteStatus.ACTIVE]
    match_again(connection, kind, again, now=now)
    after_commit(connection, *(import_routes_job(batch, company_id) for batch in in_batches(again)))
    end_routes(connection, active, f"The {kind} was retired", now=now)
    return Retirement(len(again), len(active))


def match_again_lately_retired(connection: Connection, *, now: datetime) -> list[UUID]:
    """Routes matched to a vehicle or driver by an import that ran while it was retired; for the five-minute pass. They
    are matched again, except for those that another transaction has locked. Returns their ids, to import."""
    again: list[UUID] = []
    for kind in get_args(Matched):
        records = lately_retired_records(connection, kind, now=now)
        routes = lock_unfinished(connection, kind, records, wait=False)
        ids = [route.id for route in routes if route.status != RouteStatus.ACTIVE]
        match_again(connection, kind, ids, now=now)
        again += ids
    return again


def close_routes(connection: Connection, company_id: UUID, *, now: datetime, wait: bool = True) -> int:
    """Ends a portion of a retired company's routes. Returns how many it was; after 0 all are ended. Routes that another
    transaction has locked are left out, unless `wait` is true.

    Its trucks are not urgent: the sweep has them processed again."""
    ids = unfinished_routes(connection, company_id, limit=_PORTION, wait=wait)
    end_routes(connection, ids, "The company was retired", now=now)
    return len(ids)
