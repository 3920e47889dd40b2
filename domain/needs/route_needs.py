"""The needs of a company's routes, in the order in which a dispatcher looks at them: first what keeps a route from
being driven. The page Overview shows them."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant, planned_by_key
from domain.database.statements import Statement
from domain.needs.need import Need
from domain.routes.reading.on_their_way import (
    BEGINS_LOW,
    GETS_LOW,
    HAS_NO_LEVEL,
    IS_LATE,
    IS_OFF_ROAD,
    IS_SILENT,
    NEXT_STOP,
    OFF_ROAD_SHOWN_FOR,
    ON_ITS_WAY,
    RECENT,
    TRUCK_SILENT_AFTER,
    WITH_NEXT_FUEL_STOP,
    road_miles_around,
)
from domain.stations.price_sources import TOLD_AFTER
from domain.stations.prices import STALE_AFTER

MOST_OF_A_NEED = 1_000
"""The highest number that a need shows as its count of routes. Counting on would only cost time."""

MOST_NAMED = 5
"""The most routes that a need names. Its page lists the others."""


class NamedRoute(NamedTuple):
    """One of the routes of a need. `detail` is the reason, or the name of the stop; `at` the time of it."""

    kind: str
    """The kind of the need."""
    id: UUID
    external_id: str
    at: datetime | None
    detail: str | None
    routes: int
    """The number of routes of the same need, at most MOST_OF_A_NEED."""


@dataclass(frozen=True, kw_only=True)
class RouteNeed(Need):
    """A need of routes. Overview names the first of them."""

    one: str
    """Follows the number 1."""
    several: str
    step: str
    """The words on Overview that lead to its page."""
    time_word: str
    """Stands before `at` on Overview, and says what happens then."""
    source: str
    """SQL from FROM on, which finds its routes."""
    columns: str
    """SQL of `at` and `detail` of a named route."""
    order: str

    @property
    def sql(self) -> str:
        """Gives the first of its routes."""
        return f"""
            (SELECT '{self.kind}' AS kind, id, external_id, at, detail, count(*) OVER () AS routes
             FROM (SELECT r.id, r.external_id, {self.columns} {self.source}
                   ORDER BY {self.order}, id LIMIT {MOST_OF_A_NEED}) AS found
             ORDER BY {self.order}, id LIMIT {MOST_NAMED})
        """


class RoutesInNeed(NamedTuple):
    """A need that there is, with the first of its routes."""

    need: RouteNeed
    named: list[NamedRoute]

    @property
    def routes(self) -> int:
        """The number of its routes, at most MOST_OF_A_NEED."""
        return self.named[0].routes


_OF_TENANT = "r.company_id = %(company_id)s AND r.environment = %(environment)s"
_MESSAGES = f"""
    FROM messages m JOIN routes r ON r.id = m.route_id AND r.plan_id = m.plan_id
    WHERE m.company_id = %(company_id)s AND m.created_at > %(recent)s::timestamptz AND {_OF_TENANT}
"""
_ANY_CLOSED = "EXISTS (SELECT FROM station_closures WHERE closed_until > %(now)s::timestamptz)"
"""SQL that spares a look at the plans of all trucks while no station is closed."""
_REFUSED = """
    SELECT route_id FROM driver_answers
    WHERE company_id = %(company_id)s AND environment = %(environment)s AND left_out_until > %(now)s::timestamptz
"""
"""SQL of the routes with a refused stop that plans leave out now."""

_SHARED = f"""
    WITH trucks AS MATERIALIZED (
        SELECT r.id, r.external_id, r.vehicle_id, r.revision, next.stop, t.newest_at, t.low_since,
               {HAS_NO_LEVEL} AS has_no_level, {GETS_LOW} AS gets_low, {IS_LATE} AS is_late, {IS_SILENT} AS is_silent,
               t.newest_at IS NOT NULL AND {IS_OFF_ROAD} AS is_off_road
        FROM routes r CROSS JOIN LATERAL (SELECT r.stops->{NEXT_STOP} AS stop OFFSET 0) AS next
        LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
        WHERE {_OF_TENANT} AND {ON_ITS_WAY}
    ), at_fuel_stops AS MATERIALIZED (
        SELECT r.id, r.external_id, r.driver_id, t.newest_at, p.document, p.station_ids, fuel.number, fuel.stop,
               fuel.miles
        FROM routes r JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
        JOIN plans p ON p.id = r.plan_id
        {WITH_NEXT_FUEL_STOP}
        WHERE {_OF_TENANT} AND {ON_ITS_WAY} AND r.id = ANY(ARRAY(
            {_REFUSED} UNION ALL
            SELECT id FROM trucks WHERE (SELECT answer_by_miles FROM companies WHERE id = %(company_id)s) > 0))
    )
"""
"""SQL that reads once what several needs ask for: all trucks on their way, and the next fuel stops of those of whose
drivers an answer is wanted or was a refusal."""
_ERRORS_WITHIN = timedelta(days=60)
"""Routes that ended in error later than this after their starts are not looked for: the errors of years are many."""
_UNIT_NUMBER = "(SELECT v.unit_number FROM vehicles v WHERE v.id = r.vehicle_id)"


def _unmapped(reason: str) -> str:
    return f"FROM routes r WHERE {_OF_TENANT} AND r.status = 'pending_mapping' AND r.pending_reason = '{reason}'"


def asked_of(tenant: Tenant, now: datetime) -> dict[str, object]:
    """The parameters of the statements of needs."""
    return {
        **tenant._asdict(),
        "now": now,
        "recent": now - RECENT,
        "silent": now - TRUCK_SILENT_AFTER,
        "off_road": OFF_ROAD_SHOWN_FOR,
        "stale": STALE_AFTER,
        "after": TOLD_AFTER,
        "road_miles_around": road_miles_around(),
    }


_ON_THEIR_WAY = "/routes?status=active"

ROUTE_NEEDS = (
    RouteNeed(
        kind="vehicle_unmapped",
        one="route waits for a vehicle that the fleet does not know",
        several="routes wait for vehicles that the fleet does not know",
        ended="No route waits for an unknown vehicle any more",
        label="Routes wait for an unknown vehicle",
        path="/matching/vehicles",
        step="Match vehicles",
        time_word="start",
        columns="r.scheduled_start AS at, r.pending_detail AS detail",
        source=_unmapped("vehicle_unmapped"),
        order="at",
    ),
    RouteNeed(
        kind="driver_unmapped",
        one="route waits for a driver whom the fleet does not know",
        several="routes wait for drivers whom the fleet does not know",
        ended="No route waits for an unknown driver any more",
        label="Routes wait for an unknown driver",
        path="/matching/drivers",
        step="Match drivers",
        time_word="start",
        columns="r.scheduled_start AS at, r.pending_detail AS detail",
        source=_unmapped("driver_unmapped"),
        order="at",
    ),
    RouteNeed(
        kind="error",
        one="route is in error",
        several="routes are in error",
        ended="No route is in error any more",
        label="Routes in error",
        path="/routes?status=error",
        step="Look at them",
        time_word="since",
        columns="r.updated_at AS at, r.closed_reason AS detail",
        source=f"""
            FROM routes r WHERE {_OF_TENANT} AND r.status = 'error'
              AND r.scheduled_start > %(recent)s::timestamptz - interval '{_ERRORS_WITHIN.days} days'
              AND greatest(r.updated_at, r.scheduled_start) > %(recent)s::timestamptz
            """,
        order="at DESC",
    ),
    RouteNeed(
        kind="low_fuel",
        one="truck begins its plan low on fuel",
        several="trucks begin their plans low on fuel",
        ended="No truck on its way began its plan low on fuel",
        label="Trucks begin their plans low on fuel",
        path=_ON_THEIR_WAY,
        step="Look at routes on their way",
        time_word="told",
        columns="m.created_at AS at, split_part(m.text, E'\\n', 1) AS detail",
        source=f"{_MESSAGES} AND {ON_ITS_WAY} AND {BEGINS_LOW}",
        order="at DESC",
    ),
    RouteNeed(
        kind="station_closed",
        one="truck is on its way to a closed station, and no other plan is feasible",
        several="trucks are on their way to closed stations, and no other plans are feasible",
        ended="No truck is on its way to a closed station any more",
        label="Trucks on their way to a closed station, without another plan",
        path=_ON_THEIR_WAY,
        step="Look at routes on their way",
        time_word="since",
        columns="(newest.cause->>'at')::timestamptz AS at, newest.cause->>'text' AS detail",
        source=f"""
            FROM routes r CROSS JOIN LATERAL (
                SELECT cause, document FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision
                ORDER BY n.generated_at DESC, n.id DESC LIMIT 1) AS newest
            WHERE {_ANY_CLOSED} AND {_OF_TENANT} AND {ON_ITS_WAY} AND newest.cause->>'kind' = 'station_closed'
              AND newest.document IS NULL AND EXISTS (
                SELECT FROM station_closures c
                WHERE newest.cause->'closures' ? c.id::text AND c.closed_until > %(now)s::timestamptz)
            """,
        order="at",
    ),
    RouteNeed(
        kind="stop_refused",
        one="driver cannot fuel where his plan says, and has no other plan",
        several="drivers cannot fuel where their plans say, and have no other plans",
        ended="All drivers who could not fuel where they were told have other plans",
        label="Drivers cannot fuel where their plans say, and have no other plans",
        path=_ON_THEIR_WAY,
        step="Look at routes on their way",
        time_word="answered",
        columns="a.answered_at AS at, concat_ws(': ', a.place, replace(a.reason, '_', ' ')) AS detail",
        source=f"""
            FROM at_fuel_stops r CROSS JOIN LATERAL (
                SELECT refused.answered_at, refused.place, refused.reason FROM driver_answers refused
                JOIN LATERAL unnest(r.station_ids) WITH ORDINALITY AS own (station_id, number)
                  ON own.station_id = refused.station_id AND own.number >= r.number
                WHERE refused.route_id = r.id AND refused.answered_at < %(now)s::timestamptz - interval '1 minute'
                  AND refused.left_out_until > coalesce(
                      (r.document->'stops'->(own.number::int - 1)->>'estimatedArrival')::timestamptz,
                      %(now)s::timestamptz)
                ORDER BY refused.answered_at DESC, refused.id DESC LIMIT 1) AS a
            WHERE r.id = ANY(ARRAY({_REFUSED}))
            """,
        order="at",
    ),
    RouteNeed(
        kind="stop_unanswered",
        one="driver has not answered to the fuel stop near ahead",
        several="drivers have not answered to the fuel stops near ahead",
        ended="All drivers have answered to the fuel stops near ahead",
        label="Drivers have not answered to the fuel stop ahead, where Policy wants that",
        path=_ON_THEIR_WAY,
        step="Look at routes on their way",
        time_word="last position",
        columns="r.newest_at AS at, r.stop->>'name' AS detail",
        source="""
            FROM at_fuel_stops r
            WHERE r.miles <= (SELECT nullif(answer_by_miles, 0) FROM companies WHERE id = %(company_id)s)
              AND EXISTS (SELECT FROM driver_links l WHERE l.route_id = r.id AND l.driver_id = r.driver_id)
              AND NOT EXISTS (
                SELECT FROM driver_answers a WHERE a.route_id = r.id AND NOT a.is_late
                  AND CASE WHEN r.station_ids IS NULL THEN a.place = r.stop->>'name'
                           ELSE a.station_id = r.station_ids[r.number] END)
            """,
        order="at",
    ),
    RouteNeed(
        kind="choice_asked",
        one="driver asks for a choice that costs more than his allowance",
        several="drivers ask for choices that cost more than their allowance",
        ended="No driver waits for a decision on a choice any more",
        label="Drivers ask for choices beyond their allowance",
        path=_ON_THEIR_WAY,
        step="Decide on the route's page",
        time_word="asked",
        columns="c.asked_at AS at, e.detail AS detail",
        source=f"""
            FROM plan_choices c JOIN routes r ON r.id = c.route_id AND r.plan_id = c.plan_id
            LEFT JOIN LATERAL (
                SELECT detail FROM route_events it WHERE it.route_id = r.id AND it.kind = 'choice_asked'
                ORDER BY it.at DESC, it.id DESC LIMIT 1) AS e ON true
            WHERE c.status = 'asked' AND c.company_id = %(company_id)s AND c.environment = %(environment)s
              AND {_OF_TENANT} AND r.status = 'active'
            """,
        order="at",
    ),
    RouteNeed(
        kind="gets_low",
        one="truck on its way does not have the fuel for its next purchase",
        several="trucks on their way do not have the fuel for their next purchases",
        ended="All trucks on their way have the fuel for their next purchases again",
        label="Trucks get low on their way",
        path="/map?need=low",
        step="Look at the map",
        time_word="since",
        columns=f"""
            r.low_since AS at, concat_ws(': ', {_UNIT_NUMBER}, CASE
                WHEN r.has_no_level THEN 'sends no level; by its miles its fuel does not last'
                ELSE (
                    SELECT n.cause->>'text' FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision
                      AND n.cause->>'kind' = 'burn' AND (n.cause->>'at')::timestamptz >= r.low_since
                    ORDER BY n.generated_at DESC, n.id DESC LIMIT 1) END) AS detail
            """,
        source="FROM trucks r WHERE r.gets_low",
        order="at",
    ),
    RouteNeed(
        kind="late",
        one="truck is late at its next stop",
        several="trucks are late at their next stops",
        ended="No truck is late at its next stop any more",
        label="Trucks are late at their next stops",
        path=_ON_THEIR_WAY,
        step="Look at routes on their way",
        time_word="due",
        columns="(r.stop->'arrivalWindow'->>'end')::timestamptz AS at, r.stop->>'name' AS detail",
        source="FROM trucks r WHERE r.is_late",
        order="at",
    ),
    RouteNeed(
        kind="off_road",
        one="truck is off the road of its plan",
        several="trucks are off the roads of their plans",
        ended="No truck is off the road of its plan any more",
        label="Trucks are off the roads of their plans, where Policy gives them new ones",
        path="/map?need=off_road",
        step="Look at the map",
        time_word="last position",
        columns=f"r.newest_at AS at, {_UNIT_NUMBER} AS detail",
        source="FROM trucks r WHERE r.is_off_road",
        order="at DESC",
    ),
    RouteNeed(
        kind="silent",
        one="truck on its way has sent no position for an hour",
        several="trucks on their way have sent no position for an hour",
        ended="All trucks on their way send positions again",
        label="Trucks on their way send no positions",
        path=_ON_THEIR_WAY,
        step="Look at routes on their way",
        time_word="last position",
        columns=f"r.newest_at AS at, {_UNIT_NUMBER} AS detail",
        source="FROM trucks r WHERE r.is_silent",
        order="at",
    ),
    RouteNeed(
        kind="message_failed",
        one="plan could not be sent to its driver",
        several="plans could not be sent to their drivers",
        ended="No plan is left that could not be sent to its driver",
        label="Plans could not be sent to their drivers",
        path="/routes?status=planned",
        step="Look at planned routes",
        time_word="queued",
        columns="m.created_at AS at, m.error AS detail",
        source=f"{_MESSAGES} AND m.status = 'failed' AND r.status = 'planned'",
        order="at",
    ),
)
_FIND = Statement(NamedRoute, f"{_SHARED} {' UNION ALL '.join(need.sql for need in ROUTE_NEEDS)}")


def find_routes_in_need(connection: Connection, tenant: Tenant, *, now: datetime) -> list[RoutesInNeed]:
    """The needs of routes that there are."""
    found: dict[str, list[NamedRoute]] = {}
    with planned_by_key(connection):
        for route in _FIND.all(connection, asked_of(tenant, now)):
            found.setdefault(route.kind, []).append(route)
    return [RoutesInNeed(need, found[need.kind]) for need in ROUTE_NEEDS if need.kind in found]
