"""The needs of a company, in the order in which a dispatcher looks at them: first what keeps a route from being driven.

The page Overview shows those of routes, notices tell of all. Operators see similar work of all companies as figures;
`overdue.py` says where its limits differ."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.burn.tank_proposals import proposed_tanks
from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement
from domain.ids import shown_id
from domain.needs.need import Need, Summary
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
)
from domain.stations.price_presence import has_prices
from domain.stations.price_sources import SOURCES

MOST_OF_A_NEED = 1_000
"""The highest number that a need shows as its count of routes. Counting on would only cost time."""

MOST_NAMED = 5
"""The most routes that a need names. Its page lists the others."""


class NamedRoute(NamedTuple):
    """One of the routes of a need. `detail` is the reason, or the name of the stop; `at` the time of it."""

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
    sql: str
    """Gives the first of its routes."""

    def find(self, connection: Connection, tenant: Tenant, *, now: datetime) -> "RoutesInNeed | None":
        asked = {
            **tenant._asdict(),
            "now": now,
            "recent": now - RECENT,
            "silent": now - TRUCK_SILENT_AFTER,
            "off_road": OFF_ROAD_SHOWN_FOR,
        }
        named = _STATEMENTS[self.kind].all(connection, asked)
        return RoutesInNeed(self, named) if named else None


class RoutesInNeed(NamedTuple):
    """A need that there is, with the first of its routes."""

    need: RouteNeed
    named: list[NamedRoute]

    @property
    def routes(self) -> int:
        """The number of its routes, at most MOST_OF_A_NEED."""
        return self.named[0].routes


@dataclass(frozen=True, kw_only=True)
class CompanyNeed(Need):
    """A need of the company as a whole, in both environments: it has no routes to name."""

    look: Callable[[Connection, UUID, datetime], Summary | None]

    def find(self, connection: Connection, tenant: Tenant, *, now: datetime) -> Summary | None:
        return self.look(connection, tenant.company_id, now)


def _first_routes(columns: str, source: str, order: str) -> str:
    return f"""
        SELECT id, external_id, at, detail, count(*) OVER () AS routes
        FROM (SELECT r.id, r.external_id, {columns} {source} LIMIT {MOST_OF_A_NEED}) AS found
        ORDER BY {order}, id LIMIT {MOST_NAMED}
    """


_OF_TENANT = "r.company_id = %(company_id)s AND r.environment = %(environment)s"
_MESSAGES = f"""
    FROM messages m JOIN routes r ON r.id = m.route_id AND r.plan_id = m.plan_id
    WHERE m.company_id = %(company_id)s AND m.created_at > %(recent)s::timestamptz AND {_OF_TENANT}
"""
_TRUCKS_ON_THEIR_WAY = f"""
    FROM routes r JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    JOIN vehicles v ON v.id = r.vehicle_id
    WHERE {_OF_TENANT} AND {ON_ITS_WAY}
"""


def _unmapped(reason: str) -> str:
    return _first_routes(
        "r.scheduled_start AS at, r.pending_detail AS detail",
        f"FROM routes r WHERE {_OF_TENANT} AND r.status = 'pending_mapping' AND r.pending_reason = '{reason}'",
        "at",
    )


def _look_for_no_prices(connection: Connection, company_id: UUID, now: datetime) -> Summary | None:
    if has_prices(connection, company_id, now=now):
        return None
    return Summary("no truck stop has a price of the last seven days", "", "/stations", 0)


def _look_for_late_price_files(connection: Connection, company_id: UUID, now: datetime) -> Summary | None:
    late = [source for source in SOURCES.all(connection, company_id) if source.trouble_since(now) is not None]
    if not late:
        return None
    what_to_do = f"The last fault: {late[0].fault}" if late[0].fault else "Ask whoever sends the file"
    return Summary(f"no price file from {late[0].name}", what_to_do, "/prices", len(late) - 1)


def _look_for_other_tanks(connection: Connection, company_id: UUID, _: datetime) -> Summary | None:
    proposed = proposed_tanks(connection, company_id, limit=MOST_OF_A_NEED)
    if not proposed:
        return None
    first = proposed[0]
    what = f"the tank of truck {first.unit_number or 'without a number'} seems to hold {first.tank_gallons:g} gal"
    path = f"/vehicles/one?id={shown_id('veh', first.vehicle_id)}"
    return Summary(what, "Declare that on its page, or keep it as it is", path, len(proposed) - 1)


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
        sql=_unmapped("vehicle_unmapped"),
    ),
    RouteNeed(
        kind="driver_unmapped",
        one="route waits for a driver whom the fleet does not know",
        several="routes wait for drivers whom the fleet does not know",
        ended="No route waits for an unknown driver any more",
        label="Routes wait for an unknown driver",
        path="/matching/drivers",
        step="Match drivers",
        sql=_unmapped("driver_unmapped"),
    ),
    RouteNeed(
        kind="error",
        one="route is in error",
        several="routes are in error",
        ended="No route is in error any more",
        label="Routes in error",
        path="/routes?status=error",
        step="Look at them",
        sql=_first_routes(
            "r.updated_at AS at, r.closed_reason AS detail",
            f"FROM routes r WHERE {_OF_TENANT} AND r.status = 'error' AND r.scheduled_start > %(recent)s::timestamptz",
            "at DESC",
        ),
    ),
    RouteNeed(
        kind="low_fuel",
        one="truck begins its plan low on fuel",
        several="trucks begin their plans low on fuel",
        ended="No truck on its way began its plan low on fuel",
        label="Trucks begin their plans low on fuel",
        path=_ON_THEIR_WAY,
        step="Look at routes on their way",
        sql=_first_routes(
            "m.created_at AS at, split_part(m.text, E'\\n', 1) AS detail",
            f"{_MESSAGES} AND {ON_ITS_WAY} AND {BEGINS_LOW}",
            "at DESC",
        ),
    ),
    RouteNeed(
        kind="station_closed",
        one="truck is on its way to a closed station, and no other plan is feasible",
        several="trucks are on their way to closed stations, and no other plans are feasible",
        ended="No truck is on its way to a closed station any more",
        label="Trucks on their way to a closed station, without another plan",
        path=_ON_THEIR_WAY,
        step="Look at routes on their way",
        sql=_first_routes(
            "(newest.cause->>'at')::timestamptz AS at, newest.cause->>'text' AS detail",
            f"""
            FROM routes r CROSS JOIN LATERAL (
                SELECT cause, document FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision
                ORDER BY n.generated_at DESC, n.id DESC LIMIT 1) AS newest
            WHERE {_OF_TENANT} AND {ON_ITS_WAY} AND newest.cause->>'kind' = 'station_closed'
              AND newest.document IS NULL AND EXISTS (
                SELECT FROM station_closures c
                WHERE newest.cause->'closures' ? c.id::text AND c.closed_until > %(now)s::timestamptz)
            """,
            "at",
        ),
    ),
    RouteNeed(
        kind="gets_low",
        one="truck on its way does not have the fuel for its next purchase",
        several="trucks on their way do not have the fuel for their next purchases",
        ended="All trucks on their way have the fuel for their next purchases again",
        label="Trucks get low on their way",
        path="/map?need=low",
        step="Look at the map",
        sql=_first_routes(
            f"""
            t.low_since AS at, concat_ws(': ', v.unit_number, CASE
                WHEN {HAS_NO_LEVEL} THEN 'sends no level; by its miles its fuel does not last'
                ELSE (
                    SELECT n.cause->>'text' FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision
                      AND n.cause->>'kind' = 'burn' AND (n.cause->>'at')::timestamptz >= t.low_since
                    ORDER BY n.generated_at DESC LIMIT 1) END) AS detail
            """,
            f"{_TRUCKS_ON_THEIR_WAY} AND {GETS_LOW}",
            "at",
        ),
    ),
    RouteNeed(
        kind="late",
        one="truck is late at its next stop",
        several="trucks are late at their next stops",
        ended="No truck is late at its next stop any more",
        label="Trucks are late at their next stops",
        path=_ON_THEIR_WAY,
        step="Look at routes on their way",
        sql=_first_routes(
            "(next.stop->'arrivalWindow'->>'end')::timestamptz AS at, next.stop->>'name' AS detail",
            f"""
            FROM routes r CROSS JOIN LATERAL (SELECT r.stops->{NEXT_STOP} AS stop) AS next
            WHERE {_OF_TENANT} AND {ON_ITS_WAY} AND {IS_LATE}
            """,
            "at",
        ),
    ),
    RouteNeed(
        kind="off_road",
        one="truck is off the road of its plan",
        several="trucks are off the roads of their plans",
        ended="No truck is off the road of its plan any more",
        label="Trucks are off the roads of their plans, where Policy gives them new ones",
        path="/map?need=off_road",
        step="Look at the map",
        sql=_first_routes(
            "t.newest_at AS at, v.unit_number AS detail", f"{_TRUCKS_ON_THEIR_WAY} AND {IS_OFF_ROAD}", "at DESC"
        ),
    ),
    RouteNeed(
        kind="silent",
        one="truck on its way has sent no position for an hour",
        several="trucks on their way have sent no position for an hour",
        ended="All trucks on their way send positions again",
        label="Trucks on their way send no positions",
        path=_ON_THEIR_WAY,
        step="Look at routes on their way",
        sql=_first_routes(
            "t.newest_at AS at, v.unit_number AS detail", f"{_TRUCKS_ON_THEIR_WAY} AND {IS_SILENT}", "at"
        ),
    ),
    RouteNeed(
        kind="message_failed",
        one="plan could not be sent to its driver",
        several="plans could not be sent to their drivers",
        ended="No plan is left that could not be sent to its driver",
        label="Plans could not be sent to their drivers",
        path="/routes?status=planned",
        step="Look at planned routes",
        sql=_first_routes(
            "m.created_at AS at, m.error AS detail",
            f"{_MESSAGES} AND m.status = 'failed' AND r.status = 'planned'",
            "at",
        ),
    ),
)
_STATEMENTS = {need.kind: Statement(NamedRoute, need.sql) for need in ROUTE_NEEDS}

COMPANY_NEEDS: tuple[RouteNeed | CompanyNeed, ...] = (
    *ROUTE_NEEDS,
    CompanyNeed(
        kind="no_prices",
        ended="Truck stops have fresh prices again",
        label="No truck stop has a price of the last seven days",
        path="/stations",
        look=_look_for_no_prices,
    ),
    CompanyNeed(
        kind="price_file_late",
        ended="The price files come again",
        label="A price file is late",
        path="/prices",
        look=_look_for_late_price_files,
    ),
    CompanyNeed(
        kind="tank_differs",
        ended="No tank waits for a decision any more",
        label="The tank of a truck differs from the declared one",
        path="/vehicles",
        look=_look_for_other_tanks,
    ),
)


def find_routes_in_need(connection: Connection, tenant: Tenant, *, now: datetime) -> list[RoutesInNeed]:
    """The needs of routes that there are."""
    found = (need.find(connection, tenant, now=now) for need in ROUTE_NEEDS)
    return [one for one in found if one is not None]


def find_needs(
    connection: Connection, tenant: Tenant, *, kinds: Collection[str], now: datetime
) -> dict[str, RoutesInNeed | Summary]:
    """The needs of these kinds that there are, by their kinds."""
    found = {need.kind: need.find(connection, tenant, now=now) for need in COMPANY_NEEDS if need.kind in kinds}
    return {kind: one for kind, one in found.items() if one is not None}
