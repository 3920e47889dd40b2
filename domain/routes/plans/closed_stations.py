"""Closes stations and opens them again, and has new plans made for the trucks that are on their way to a closed one, or
to one at which their driver cannot fuel.

A driver whose plan stops at a station that is closed by then gets a new plan (`replans`), whatever his company's policy
says of replans; a plan whose message is not out yet is replaced (`reviews`). Each closure is looked at once for each
route: the plan that was made for it names it in its cause. A driver's refusal is looked at in the same way, up to
`MOST_REFUSED_REPLANS` plans of a trip. So a route that nobody could lock, or whose plan was being
made when the station was closed, is found again by the sweep."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.accounts.companies import require_company
from domain.audit.entries import Actor
from domain.database.connections import Connection
from domain.database.fence import is_at_work
from domain.database.statements import NotNull, Scalar, Statement
from domain.documents import FuelStopDocument, PlanCause, StopDocument, TimelineEntry
from domain.lifecycle import Environment, RouteStatus
from domain.planning.plan_tasks import newest_plausible_fix
from domain.routes.plans import review_requests
from domain.routes.plans.planned_stops import fuel_stops_behind
from domain.routes.plans.replans import MADE_AFTER_REFUSALS, MOST_REFUSED_REPLANS, ask_for_replans
from domain.stations import closures
from domain.wording import refusal_in_words


def close_station(
    connection: Connection,
    station_id: str,
    company_id: UUID | None,
    closed_until: datetime,
    by: Actor,
    *,
    now: datetime,
) -> int:
    """Closes a station until a moment for a company, or with None for all. Returns the number of routes that get a new
    plan now. Raises UnknownStation, ImpossibleClosure, UnknownCompany and RetiredCompany."""
    if company_id is not None:
        require_company(connection, company_id)
    closures.mark_closed(connection, station_id, company_id, closed_until, by, now=now)
    return make_new_plans(connection, company_id, now=now)


def reopen_station(
    connection: Connection, station_id: str, company_id: UUID | None, by: Actor, *, now: datetime
) -> bool:
    """Takes a closure back: plans from now on may stop there, and nobody is told. Returns False if there is none.
    Raises UnknownCompany and RetiredCompany."""
    if company_id is not None:
        require_company(connection, company_id)
    return closures.mark_open(connection, station_id, company_id, by, now=now)


class _ClosedAhead(NamedTuple):
    """A fuel stop of a route's plan at a closed station. `number` counts the plan's fuel stops from 0, `reached` the
    stops of the route that the truck has reached."""

    id: UUID
    company_id: UUID
    environment: str
    status: str
    vehicle_id: NotNull[UUID]
    plan_id: NotNull[UUID]
    time_zone: str
    closure_id: UUID
    """The closure, or the driver's answer."""
    station_id: NotNull[str]
    closed_until: NotNull[datetime]
    reason: str | None
    """Why the driver cannot fuel there; None where the station is closed."""
    number: NotNull[int]
    fuel_stops: NotNull[list[FuelStopDocument]]
    timeline: list[TimelineEntry]
    stops: list[StopDocument]
    reached: NotNull[int]
    latitude: float | None
    longitude: float | None
    newest_at: datetime | None
    fuel_stops_passed: int | None
    """Stops where the driver says he has fueled are behind him, though the truck may still stand there."""

    @property
    def is_closed_on_arrival(self) -> bool:
        """True if the truck is still to come, and comes while the station is closed."""
        arrival = self.fuel_stops[self.number]["estimatedArrival"]
        return (
            arrival is not None
            and datetime.fromisoformat(arrival) < self.closed_until
            and self.number >= fuel_stops_behind(self)
        )

    def order(self) -> tuple[UUID, int, UUID]:
        return self.id, self.number, self.closure_id

    @property
    def in_words(self) -> str:
        name = self.fuel_stops[self.number]["name"]
        if self.reason is not None:
            return f"{name} was refused by the driver: {refusal_in_words(self.reason)}"
        return f"{name} is closed until {self.closed_until.astimezone(ZoneInfo(self.time_zone)):%a %b %d %H:%M %Z}"


_ANY_CLOSED = Scalar(
    str,
    "SELECT station_id FROM station_closures WHERE closed_until > %(now)s"
    " AND (%(company_id)s::uuid IS NULL OR company_id IS NULL OR company_id = %(company_id)s) LIMIT 1",
)
_ANY_REFUSED = Scalar(
    UUID,
    "SELECT id FROM driver_answers WHERE left_out_until > %(now)s"
    " AND (%(route_id)s::uuid IS NULL OR route_id = %(route_id)s) LIMIT 1",
)


def _ahead(closed: str, condition: str) -> str:
    """SQL of the fuel stops, of trucks on their way, at stations that are `closed` for them."""
    return f"""
    SELECT r.id, r.company_id, r.environment, r.status, r.vehicle_id, r.plan_id, c.time_zone, closed.id AS closure_id,
           closed.station_id, closed.closed_until, closed.reason, stop.number::int - 1 AS number,
           p.document->'stops' AS fuel_stops, p.timeline, r.stops,
           (SELECT coalesce(max(v.stop) + 1, 0) FROM visits v WHERE v.route_id = r.id) AS reached,
           t.latitude, t.longitude, t.newest_at,
           greatest(
               CASE WHEN t.watch_at IS NOT NULL THEN t.fuel_stops_passed END,
               (SELECT max(said.sequence) + 1 FROM driver_answers said
                WHERE said.route_id = r.id AND said.driver_id = r.driver_id AND said.plan_id = p.id
                  AND said.kind = 'fueled' AND NOT said.is_late
                  AND NOT EXISTS (SELECT FROM driver_answers since WHERE since.route_id = r.id AND since.id > said.id
                                  AND since.station_id = said.station_id AND since.left_out_until IS NOT NULL))
           ) AS fuel_stops_passed
    FROM routes r JOIN companies c ON c.id = r.company_id JOIN plans p ON p.id = r.plan_id
    CROSS JOIN LATERAL (
        SELECT own.station_id, own.number FROM unnest(p.station_ids) WITH ORDINALITY AS own (station_id, number)
        UNION ALL
        SELECT place.station_id, told.number
        FROM jsonb_array_elements(p.document->'stops') WITH ORDINALITY AS told (stop, number)
        JOIN stations place ON place.latitude = (told.stop->>'latitude')::float
          AND place.longitude = (told.stop->>'longitude')::float
          AND place.station_id IN (SELECT station_id FROM ({closed}) AS any_closed WHERE closed_until > %(now)s)
        WHERE p.station_ids IS NULL) AS stop
    JOIN ({closed}) AS closed ON closed.station_id = stop.station_id AND closed.closed_until > %(now)s AND {condition}
    LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    WHERE r.status IN ('planned', 'active') AND r.replan IS NULL AND r.correction_id IS NULL
      AND (%(company_id)s::uuid IS NULL OR r.company_id = %(company_id)s)
      AND (%(route_id)s::uuid IS NULL OR r.id = %(route_id)s) AND {is_at_work("r.company_id")}
      AND NOT EXISTS (SELECT FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision
                      AND n.cause->'closures' ? closed.id::text)
    """


_CLOSED_AHEAD = Statement(
    _ClosedAhead,
    _ahead(
        "SELECT id, station_id, closed_until, NULL AS reason, company_id FROM station_closures",
        "(closed.company_id IS NULL OR closed.company_id = r.company_id)",
    ),
)
_REFUSED_AHEAD = Statement(
    _ClosedAhead,
    _ahead(
        "SELECT id, station_id, left_out_until AS closed_until, reason, route_id FROM driver_answers",
        f"closed.route_id = r.id AND {MADE_AFTER_REFUSALS} < {MOST_REFUSED_REPLANS}",
    ),
)
"""A plan that an older release stored names no stations: its stops are compared by their places."""


def _closed_ahead(
    connection: Connection, company_id: UUID | None, route_id: UUID | None, *, now: datetime
) -> list[tuple[_ClosedAhead, PlanCause]]:
    """Each route with a closed or refused station ahead for which no plan was made yet, and the cause of the plan to
    make."""
    asked = {"company_id": company_id, "route_id": route_id, "now": now}
    rows = _CLOSED_AHEAD.all(connection, asked) if _ANY_CLOSED.first(connection, asked) is not None else []
    if _ANY_REFUSED.first(connection, asked) is not None:
        rows += _REFUSED_AHEAD.all(connection, asked)
    seen = (_where_plausible(connection, row) for row in rows if row.is_closed_on_arrival)
    due = sorted((row for row in seen if row.is_closed_on_arrival), key=_ClosedAhead.order)
    return [_with_cause(list(of_route), now) for _, of_route in groupby(due, key=attrgetter("id"))]


def _where_plausible(connection: Connection, row: _ClosedAhead) -> _ClosedAhead:
    """The stop as it is ahead of the truck's newest plausible place: a second tracker that was left at home must not
    bring stops ahead again that the truck has passed."""
    if row.newest_at is None:
        return row
    fix = newest_plausible_fix(connection, row.vehicle_id, row.environment, row.newest_at)
    return row._replace(latitude=fix.latitude, longitude=fix.longitude) if fix is not None else row


def _with_cause(closed: Sequence[_ClosedAhead], now: datetime) -> tuple[_ClosedAhead, PlanCause]:
    first = closed[0]
    at = now if first.environment == Environment.LIVE else first.newest_at or now
    cause = PlanCause(
        kind="station_closed" if any(one.reason is None for one in closed) else "refused",
        at=at.isoformat(),
        text=", ".join(dict.fromkeys(one.in_words for one in closed)),
        fuelStopsPassed=fuel_stops_behind(first),
        closures={str(one.closure_id): one.station_id for one in closed},
    )
    return first, cause


def closed_ahead(connection: Connection, route_id: UUID, *, now: datetime) -> PlanCause | None:
    """The cause of a new plan for this route, if its plan stops at a closed station for which none was made yet."""
    found = _closed_ahead(connection, None, route_id, now=now)
    return found[0][1] if found else None


_LOCK = Scalar(
    UUID,
    "SELECT r.id FROM unnest(%s::uuid[], %s::uuid[]) AS seen (id, plan_id)"
    " JOIN routes r ON r.id = seen.id AND r.plan_id = seen.plan_id"
    " WHERE r.status IN ('planned', 'active') AND r.replan IS NULL AND r.correction_id IS NULL"
    " ORDER BY r.id FOR UPDATE OF r SKIP LOCKED",
)


def make_new_plans(
    connection: Connection, company_id: UUID | None, *, route_id: UUID | None = None, now: datetime
) -> int:
    """Has new plans made, after the commit, for trucks that are on their way to a closed or refused station; with
    `company_id` only for that company's, with `route_id` for that route alone. Returns the number of routes."""
    found = _closed_ahead(connection, company_id, route_id, now=now)
    locked = set(_LOCK.all(connection, ([one.id for one, _ in found], [one.plan_id for one, _ in found])))
    due = [(one, cause) for one, cause in found if one.id in locked]
    ask_for_replans(connection, {one.id: cause for one, cause in due if one.status == RouteStatus.ACTIVE}, now=now)
    review_requests.of_routes(connection, [one.id for one, _ in due if one.status == RouteStatus.PLANNED], now=now)
    return len(due)
