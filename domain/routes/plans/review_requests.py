"""Requests for reviews of a route's plan: fuel or prices changed at its first stop, the truck has just left that stop,
or a dispatcher asks. `reviews` makes the reviews, and describes the values that a route keeps for them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.fence import is_at_work
from domain.database.statements import OwnedRow, Scalar, Statement, in_turns
from domain.planning.plan_changes import fuel_changed
from domain.queue.jobs import SWEEP_GRACE, after_commit, review_plan_job
from domain.stations.price_moments import begin_moments
from domain.stations.price_sets import take_price_changes
from domain.stations.stored_prices import apply_coming_prices

_REQUEST = "review_requests = review_requests + 1, review_at = coalesce(review_at, %(due)s)"
"""A due review stays due: requests that keep coming must not put it off."""


class _Planned(NamedTuple):
    id: UUID
    fuel_percent: float
    departed: bool
    readings: list[float]


_PLANNED = Statement(
    _Planned,
    """
    SELECT r.id, p.fuel_percent,
           EXISTS (SELECT FROM visits v WHERE v.route_id = r.id AND v.departed_at IS NOT NULL) AS departed,
           ARRAY(SELECT fuel_percent FROM positions f
                 WHERE f.vehicle_id = r.vehicle_id AND f.environment = r.environment
                   AND f.recorded_at >= r.arrived_at AND f.fuel_percent IS NOT NULL AND NOT f.implausible
                 ORDER BY f.recorded_at DESC LIMIT 2) AS readings
    FROM routes r
    JOIN plans p ON p.id = CASE WHEN r.correction_id IS NULL THEN r.plan_id ELSE r.correction_id END
    WHERE r.id = ANY(%s) AND r.status IN ('planned', 'active') AND r.corrected_at IS NULL
    """,
)


class RequestedReview(NamedTuple):
    """A route for which a review was requested just now."""

    id: UUID
    company_id: UUID
    attempts: int
    """Failed attempts of the review that waits already."""


_REQUEST_OF_ROUTES = Statement(
    RequestedReview,
    f"UPDATE routes SET {_REQUEST} WHERE id = ANY(%(ids)s) AND corrected_at IS NULL RETURNING id, company_id, attempts",
)

_IS_WAITING = f"""
    t.status IN ('planned', 'active') AND t.arrived_at IS NOT NULL AND t.corrected_at IS NULL
    AND NOT EXISTS (SELECT FROM visits v WHERE v.route_id = t.id AND v.departed_at IS NOT NULL)
    AND {is_at_work("t.company_id")}
"""
"""The condition that the truck of a route `t` with a plan waits at its first stop. Routes of a company that is paused,
or behind the fence of a move, are left alone: the cell that it comes to has prices of its own."""

_REQUEST_WHERE_STANDING = Statement(
    RequestedReview,
    f"""
    UPDATE routes r SET {_REQUEST}
    FROM (SELECT id FROM routes t
          WHERE {_IS_WAITING} AND (%(company_id)s::uuid IS NULL OR t.company_id = %(company_id)s)
          ORDER BY id FOR UPDATE) AS standing
    WHERE r.id = standing.id
    RETURNING r.id, r.company_id, r.attempts
    """,
)


def after_new_fixes(connection: Connection, route_ids: Sequence[UUID], *, now: datetime) -> None:
    """Asks for reviews of these routes where the fuel has changed at the first stop, or the truck has just left it.

    Give it only routes whose truck had not left before its newest fixes were processed.
    """
    if not route_ids:
        return
    rows = _PLANNED.all(connection, (list(route_ids),))
    of_routes(
        connection,
        [row.id for row in rows if row.departed or fuel_changed(row.fuel_percent, row.readings, departed=False)],
        now=now,
    )


def of_routes(connection: Connection, route_ids: Sequence[UUID], *, now: datetime) -> None:
    """Asks for reviews of these routes, which are locked."""
    if route_ids:
        asked = {"due": now + SWEEP_GRACE, "ids": list(route_ids)}
        enqueue_reviews(connection, _REQUEST_OF_ROUTES.all(connection, asked))


def after_new_prices(connection: Connection, company_id: UUID | None, *, now: datetime) -> None:
    """Asks for reviews of all routes whose truck is at the first stop; with `company_id` only of that company's. Routes
    are locked in the order of their ids, as everywhere."""
    asked = {"due": now + SWEEP_GRACE, "company_id": company_id}
    enqueue_reviews(connection, _REQUEST_WHERE_STANDING.all(connection, asked))


def after_price_changes(connection: Connection, company_id: UUID | None, *, now: datetime) -> None:
    """Asks for these reviews if a price set of the company, or with None of all companies, waits for them."""
    if take_price_changes(connection, company_id):
        after_new_prices(connection, company_id, now=now)


def apply_due_prices(connection: Connection, *, since: datetime, now: datetime) -> None:
    """Applies prices whose time has come: stores retail prices, and adds price sets where the prices of waiting trucks
    change by the clock alone; see `stations/price_moments.py`. `since` is the last call."""
    if not apply_coming_prices(connection, now=now):
        begin_moments(connection, companies_with_waiting_trucks(connection), since=since, now=now)


_WITH_WAITING_TRUCKS = Scalar(UUID, f"SELECT DISTINCT t.company_id FROM routes t WHERE {_IS_WAITING}")


def companies_with_waiting_trucks(connection: Connection) -> list[UUID]:
    """The companies with a truck that waits at its first stop and has a plan."""
    return _WITH_WAITING_TRUCKS.all(connection, ())


_REQUEST_BY_HAND = Scalar(
    UUID,
    f"""
    UPDATE routes SET {_REQUEST}, review_cause = 'dispatcher'
    WHERE company_id = %(company_id)s AND environment = %(environment)s AND id = %(id)s
      AND status IN ('planned', 'active') AND corrected_at IS NULL
    RETURNING id
    """,
)


def by_dispatcher(connection: Connection, tenant: Tenant, route_id: UUID, *, now: datetime) -> bool:
    """Stores that a dispatcher asks for a review, which then makes a new plan in any case. That plan replaces the old
    one by the same rules as always. False where the route can have no review: it has no plan, it was corrected already,
    or it has ended."""
    found = _REQUEST_BY_HAND.first(connection, {**tenant._asdict(), "id": route_id, "due": now + SWEEP_GRACE})
    return found is not None


def enqueue_reviews(connection: Connection, rows: Sequence[RequestedReview]) -> None:
    """Enqueues the reviews, without those that wait after a failed attempt already."""
    after_commit(connection, *(review_plan_job(row.id, row.company_id) for row in rows if row.attempts == 0))


_DUE_REVIEWS = Statement(
    OwnedRow,
    in_turns("id, company_id", "SELECT id, company_id, review_at AS since FROM routes WHERE review_at <= %s"),
)


def due_reviews(connection: Connection, *, now: datetime, limit: int = 10_000) -> dict[UUID, UUID]:
    """Routes whose review is due and whose job seems lost, each with its company. Reviews of routes that have ended
    since just end."""
    return dict(_DUE_REVIEWS.all(connection, (now, limit)))
