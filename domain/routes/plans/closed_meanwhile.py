"""Tells if a station of a plan was closed, or refused by the driver, while the plan was computed.

Such a plan, the first one of a route or a later one, is computed once more instead of told: as soon as the closure is
looked at, another one would be told."""

from datetime import datetime
from typing import NamedTuple

from domain.database.connections import Connection
from domain.database.statements import NotNull, Statement
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.plan_tasks import RouteToPlan


class _Closed(NamedTuple):
    station_id: NotNull[str]
    closed_until: NotNull[datetime]


_CLOSED = Statement(
    _Closed,
    """
    SELECT closed.station_id, max(closed.until) AS closed_until
    FROM (SELECT station_id, closed_until AS until FROM station_closures
          WHERE station_id = ANY(%(stations)s) AND closed_until > %(now)s
            AND (company_id IS NULL OR company_id = %(company_id)s)
          UNION ALL
          SELECT station_id, left_out_until FROM driver_answers
          WHERE route_id = %(route_id)s AND station_id = ANY(%(stations)s) AND left_out_until IS NOT NULL) AS closed
    GROUP BY closed.station_id
    """,
)


def is_closed_meanwhile(
    connection: Connection, route: RouteToPlan, new: ComputedPlan | NoPlan, *, now: datetime
) -> bool:
    """True if the plan, of a locked route, stops at a station that is closed for longer than the plan was computed
    with."""
    if isinstance(new, NoPlan) or not new.purchases:
        return False
    offers = [new.inputs.offers[purchase.candidate_index] for purchase in new.purchases]
    known = {offer.station.station_id: offer.closed_until for offer in offers}
    closed = _CLOSED.all(
        connection,
        {"stations": list(known), "company_id": route.company_id, "route_id": route.id, "now": now},
    )
    return any((until := known[one.station_id]) is None or until < one.closed_until for one in closed)
