"""Which plans are due to be looked at again: those of trucks still at their first stop, or just leaving it, whose fuel
or prices have changed. What is then done with them is in `plans`.

A plan that was sent is corrected once; until it is sent, as often as need be. Each request is counted, so that a look
that ends takes off only those it has seen. While a look that failed waits for its next attempt, requests are counted
and enqueue nothing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from domain.database import Connection
from domain.jobs import SWEEP_GRACE, Job, review_plan
from domain.planning.review import fuel_changed
from domain.statements import IdRow, Statement

_REQUEST = "review_requests = review_requests + 1, review_at = coalesce(review_at, %(due)s)"
"""A look that is due stays so: requests that come all the time must not put it off."""


class _Planned(NamedTuple):
    id: str
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
                   AND f.recorded_at >= r.arrived_at AND f.fuel_percent IS NOT NULL
                 ORDER BY f.recorded_at DESC LIMIT 2) AS readings
    FROM routes r JOIN plans p ON p.id = coalesce(r.correction_id, r.plan_id)
    WHERE r.id = ANY(%s) AND r.status IN ('planned', 'active') AND r.corrected_at IS NULL
    """,
)


class _Requested(NamedTuple):
    id: str
    attempts: int
    """Failed ones of the review that waits already."""


_REQUEST_OF_ROUTES = Statement(
    _Requested,
    f"UPDATE routes SET {_REQUEST} WHERE id = ANY(%(ids)s) AND corrected_at IS NULL RETURNING id, attempts",  # noqa: S608
)

_REQUEST_WHERE_STANDING = Statement(
    _Requested,
    f"""
    UPDATE routes r SET {_REQUEST}
    FROM (SELECT id FROM routes t
          WHERE status IN ('planned', 'active') AND corrected_at IS NULL
            AND (%(company_id)s::text IS NULL OR company_id = %(company_id)s)
            AND NOT EXISTS (SELECT FROM visits v WHERE v.route_id = t.id AND v.departed_at IS NOT NULL)
          ORDER BY id FOR UPDATE) AS standing
    WHERE r.id = standing.id
    RETURNING r.id, r.attempts
    """,  # noqa: S608 (constants of this module)
)


def after_new_fixes(connection: Connection, route_ids: Sequence[str], *, now: datetime) -> list[Job]:
    """For routes that had not departed before their newest fixes were processed.

    Returns the jobs for after the commit.
    """
    if not route_ids:
        return []
    rows = _PLANNED.all(connection, (list(route_ids),))
    due = [row.id for row in rows if row.departed or fuel_changed(row.fuel_percent, row.readings, departed=False)]
    return _jobs(_REQUEST_OF_ROUTES.all(connection, {"due": now + SWEEP_GRACE, "ids": due}))


def after_new_prices(connection: Connection, company_id: str | None, *, now: datetime) -> list[Job]:
    """For all trucks (of one company, where the prices are its own) at their first stop. Returns the jobs for after
    the commit. Routes are locked in the order of their ids, as everywhere."""
    return _jobs(_REQUEST_WHERE_STANDING.all(connection, {"due": now + SWEEP_GRACE, "company_id": company_id}))


_DUE_REVIEWS = Statement(IdRow, "SELECT id FROM routes WHERE review_at <= %s ORDER BY review_at LIMIT %s")


def due_reviews(connection: Connection, *, now: datetime, limit: int = 10_000) -> list[str]:
    """Routes whose plan is due for a look and whose job seems lost. Also those that are over by now: the look takes
    note of it."""
    return [row.id for row in _DUE_REVIEWS.all(connection, (now, limit))]


def _jobs(rows: Sequence[_Requested]) -> list[Job]:
    return [review_plan(row.id) for row in rows if row.attempts == 0]
