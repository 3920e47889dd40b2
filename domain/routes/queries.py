"""What the API answers: routes, vehicles, drivers and the key itself, read and put into the contract's shapes."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec
from psycopg import sql

from domain.accounts.keys import Caller
from domain.contract.shapes import (
    RATE_LIMIT_REQUESTS,
    RATE_LIMIT_WINDOW,
    Driver,
    DriverList,
    DriverQuery,
    FuelPlan,
    FuelPlanStatus,
    Me,
    MeCompany,
    MeKey,
    MeRateLimit,
    Route,
    RouteDriver,
    RouteList,
    RoutePending,
    RouteQuery,
    RouteStop,
    RouteVehicle,
    StopType,
    Vehicle,
    VehicleList,
    VehicleQuery,
)
from domain.database import Connection, Tenant
from domain.lifecycle import HELD, SHOWS_FUEL_STOPS, SHOWS_PLAN, Environment, PendingReason, RouteStatus
from domain.routes.imports import Outcome
from domain.routes.pushes import Push, Pushed

_FAR = 2**62  # offsets beyond any table, still a bigint

NEAR = 1_000
"""Up to this offset a page is read first: where it is not full, it tells the total. From there on the total is counted
first: it tells which end is nearer."""

_VERSION = "md5(ROW(r.id, r.updated_at, v.unit_number, d.name)::text)"
"""Differs whenever the answer does: every change of a route, its visits and its plan renews `updated_at`."""

_ROUTES = f"""
    SELECT {_VERSION} AS version,
           r.id, r.company_id, r.environment, r.external_id, r.reference, r.status, r.pending_reason, r.pending_detail,
           r.vehicle_id, r.driver_id, r.scheduled_start, r.stops, r.distance_miles, r.created_at,
           CASE WHEN v.id IS NULL THEN r.vehicle_unit_number ELSE v.unit_number END AS unit_number,
           CASE WHEN d.id IS NULL THEN r.driver_name ELSE d.name END AS driver_name,
           p.document AS plan, p.timeline,
           CASE WHEN r.arrived_at IS NOT NULL THEN (
               SELECT jsonb_object_agg(visit.stop, jsonb_build_array(visit.arrived_at, visit.departed_at))
               FROM visits visit WHERE visit.route_id = r.id) END AS visits
    FROM routes r
    LEFT JOIN vehicles v ON v.id = r.vehicle_id
    LEFT JOIN drivers d ON d.id = r.driver_id
    LEFT JOIN plans p ON p.id = r.plan_id
"""  # noqa: S608 (constants of this module)

_VERSIONS = f"""
    SELECT {_VERSION} AS version, r.id, r.company_id, r.environment
    FROM routes r
    LEFT JOIN vehicles v ON v.id = r.vehicle_id
    LEFT JOIN drivers d ON d.id = r.driver_id
"""  # noqa: S608 (constants of this module)


_NEWEST = """r.id = ANY(ARRAY(
    SELECT coalesce(
        (SELECT living.id FROM routes living
         WHERE (living.company_id, living.environment, living.external_id)
             = (w.company_id, w.environment, w.external_id) AND living.status <> 'canceled'),
        (SELECT canceled.id FROM routes canceled
         WHERE (canceled.company_id, canceled.environment, canceled.external_id)
             = (w.company_id, w.environment, w.external_id) AND canceled.status = 'canceled'
         ORDER BY canceled.created_at DESC, canceled.id DESC LIMIT 1))
    FROM unnest(%(company_ids)s::text[], %(environments)s::text[], %(external_ids)s::text[])
         AS w (company_id, environment, external_id)))"""
"""The newest route with each externalId. One that is not canceled is the newest: a push makes another only after it."""


class Versioned(NamedTuple):
    """A route as the API answers it, and what tells this answer from any other of the route."""

    version: str
    route: Route


def read_routes(connection: Connection, wanted: Sequence[tuple[Tenant, str]]) -> list[Versioned | None]:
    """Each wanted route, in order; None where that tenant has no such route. One query for all."""
    return [
        Versioned(row.version, route_answer(row)) if row is not None else None
        for row in _wanted(connection, _ROUTES, wanted)
    ]


def read_versions(connection: Connection, wanted: Sequence[tuple[Tenant, str]]) -> list[str | None]:
    """Only the version of each, for a client that may have it already: neither stops nor plan are loaded."""
    return [row.version if row is not None else None for row in _wanted(connection, _VERSIONS, wanted)]


def _wanted(connection: Connection, query: str, wanted: Sequence[tuple[Tenant, str]]) -> list[Any]:
    rows = connection.execute(
        query + "WHERE r.id = ANY(%s)",  # the tenant is compared below, each with its own
        (list({route_id for _, route_id in wanted}),),
    ).fetchall()
    by_key = {(row.company_id, row.environment, row.id): row for row in rows}
    return [by_key.get((tenant.company_id, tenant.environment, route_id)) for tenant, route_id in wanted]


def fresh_route(push: Push, pushed: Pushed, outcome: Outcome) -> Route:
    """The answer to a push that created a route, from what is known of it: nothing has to be read again."""
    route, vehicle_known, driver_known = push.route, outcome.vehicle_id is not None, outcome.driver_id is not None
    return route_answer(
        SimpleNamespace(
            id=pushed.route_id,
            environment=push.tenant.environment,
            external_id=route.external_id,
            reference=route.reference,
            status=outcome.status,
            pending_reason=outcome.reason,
            pending_detail=outcome.detail,
            vehicle_id=outcome.vehicle_id,
            unit_number=outcome.unit_number if vehicle_known else route.vehicle.unit_number,
            driver_id=outcome.driver_id,
            driver_name=outcome.driver_name if driver_known else route.driver.name,
            scheduled_start=route.scheduled_start,
            stops=pushed.stops,
            distance_miles=None,
            created_at=pushed.created_at,
            plan=None,
            timeline=None,
            visits=None,
        )
    )


def find_by_external_id(connection: Connection, wanted: Sequence[tuple[Tenant, str]]) -> list[Route | None]:
    """The newest route with each externalId, in order; None where that tenant has no such route. One query for all."""
    rows = connection.execute(f"{_ROUTES} WHERE {_NEWEST}", _newest(wanted)).fetchall()
    by_key = {(row.company_id, row.environment, row.external_id): route_answer(row) for row in rows}
    return [by_key.get((*tenant, external_id)) for tenant, external_id in wanted]


def _newest(wanted: Sequence[tuple[Tenant, str]]) -> dict[str, list[str]]:
    """The parameters of `_NEWEST`."""
    return {
        "company_ids": [tenant.company_id for tenant, _ in wanted],
        "environments": [tenant.environment for tenant, _ in wanted],
        "external_ids": [external_id for _, external_id in wanted],
    }


def list_routes(connection: Connection, tenant: Tenant, query: RouteQuery) -> RouteList:
    """One page, newest scheduled start first, ties by id."""
    wheres: list[sql.Composable] = [sql.SQL("r.company_id = %(company_id)s AND r.environment = %(environment)s")]
    filters = {
        "status": "r.status = %(status)s",
        "vehicle_id": "r.vehicle_id = %(vehicle_id)s",
        "start_from": "r.scheduled_start >= %(start_from)s",
        "start_to": "r.scheduled_start < %(start_to)s",
        "external_id": _NEWEST,  # the other filters then apply to that one
    }
    wheres += [sql.SQL(clause) for name, clause in filters.items() if getattr(query, name) is not None]
    source = sql.SQL("routes r WHERE ") + sql.SQL(" AND ").join(wheres)
    parameters = {**tenant._asdict(), **msgspec.structs.asdict(query), **_newest([(tenant, query.external_id or "")])}
    count, page = partial(_count, connection, source, parameters), partial(_page, connection, source, parameters)
    offset, limit = query.offset, query.limit
    if offset <= NEAR:
        data = page(offset, limit)
        is_last = len(data) < limit and (data or offset == 0)
        total = offset + len(data) if is_last else count()
    else:
        total = count()
        behind = total - offset - limit  # how many follow the page
        if offset <= behind:
            data = page(offset, limit)
        else:
            data = page(max(0, behind), max(0, min(limit, total - offset)), from_end=True)
    return RouteList(data=data, total=total, limit=limit, offset=offset)


def _page(
    connection: Connection,
    source: sql.Composable,
    parameters: dict[str, Any],
    offset: int,
    limit: int,
    *,
    from_end: bool = False,
) -> list[Route]:
    """In the order of the list either way. An index alone leads to the page: of what is skipped no row is read."""
    order = "r.scheduled_start, r.id DESC" if from_end else "r.scheduled_start DESC, r.id"
    ids = sql.SQL("SELECT r.id FROM {} ORDER BY {} LIMIT %(limit)s OFFSET %(offset)s").format(source, sql.SQL(order))
    rows = connection.execute(
        sql.SQL(_ROUTES + "WHERE r.id = ANY(ARRAY({})) ORDER BY r.scheduled_start DESC, r.id").format(ids),
        {**parameters, "offset": offset, "limit": limit},
    ).fetchall()
    return [route_answer(row) for row in rows]


def list_vehicles(connection: Connection, company_id: str, query: VehicleQuery) -> VehicleList:
    """One page of the company's vehicles, oldest first, without retired ones."""
    wheres: list[sql.Composable] = [sql.SQL("company_id = %(company_id)s AND retired_at IS NULL")]
    wheres += [
        sql.SQL("{column} = {value}").format(column=sql.Identifier(name), value=sql.Placeholder(name))
        for name in ("unit_number", "vin")
        if getattr(query, name) is not None
    ]
    source = sql.SQL("vehicles WHERE ") + sql.SQL(" AND ").join(wheres)
    parameters = {
        "company_id": company_id,
        **msgspec.structs.asdict(query),
        "offset": min(query.offset, _FAR),
    }
    rows = connection.execute(
        sql.SQL("SELECT * FROM ") + source + sql.SQL(" ORDER BY id LIMIT %(limit)s OFFSET %(offset)s"),
        parameters,
    ).fetchall()
    data = [
        Vehicle(
            id=row.id,
            unit_number=row.unit_number,
            vin=row.vin,
            license_plate=row.license_plate,
            make=row.make,
            model=row.model,
            year=row.year,
            fuel_tank_capacity_gallons=row.fuel_tank_capacity_gallons,
        )
        for row in rows
    ]
    return VehicleList(data=data, total=_count(connection, source, parameters), limit=query.limit, offset=query.offset)


def list_drivers(connection: Connection, company_id: str, query: DriverQuery) -> DriverList:
    """One page of the company's drivers, oldest first, without retired ones."""
    source: sql.Composable = sql.SQL("drivers WHERE company_id = %(company_id)s AND retired_at IS NULL")
    parameters = {
        "company_id": company_id,
        **msgspec.structs.asdict(query),
        "offset": min(query.offset, _FAR),
    }
    if query.name is not None:
        source += sql.SQL(" AND strpos(lower(name), lower(%(name)s)) > 0")  # no pattern: % and _ mean themselves
    rows = connection.execute(
        sql.SQL("SELECT * FROM ") + source + sql.SQL(" ORDER BY id LIMIT %(limit)s OFFSET %(offset)s"),
        parameters,
    ).fetchall()
    data = [
        Driver(id=row.id, name=row.name, display_name=row.display_name, external_id=row.external_id) for row in rows
    ]
    return DriverList(data=data, total=_count(connection, source, parameters), limit=query.limit, offset=query.offset)


def read_me(connection: Connection, caller: Caller) -> Me:
    """The key behind a request."""
    row = connection.execute(
        "SELECT k.*, c.name AS company_name, c.time_zone FROM api_keys k JOIN companies c ON c.id = k.company_id"
        " WHERE k.company_id = %s AND k.id = %s",
        (caller.company_id, caller.key_id),
    ).fetchone()
    assert row is not None, "a key is deleted only once its company is retired"  # noqa: S101
    return Me(
        company=MeCompany(id=row.company_id, name=row.company_name, time_zone=row.time_zone),
        key=MeKey(
            id=row.id,
            name=row.name,
            prefix=row.prefix,
            environment=Environment(row.environment),
            scopes=row.scopes,
            created_at=row.created_at,
            expires_at=row.expires_at,
        ),
        rate_limit=MeRateLimit(limit=RATE_LIMIT_REQUESTS, window=RATE_LIMIT_WINDOW),
    )


def _count(connection: Connection, source: sql.Composable, parameters: dict[str, Any]) -> int:
    row = connection.execute(sql.SQL("SELECT count(*) AS total FROM ") + source, parameters).fetchone()
    assert row is not None  # noqa: S101
    total: int = row.total
    return total


def route_answer(row: Any) -> Route:
    """A row of `_ROUTES` as the contract's Route."""
    status = RouteStatus(row.status)
    return Route(
        id=row.id,
        external_id=row.external_id,
        reference=row.reference,
        name=row.reference or row.external_id,
        status=status,
        environment=Environment(row.environment),
        pending=RoutePending(reason=PendingReason(row.pending_reason), detail=row.pending_detail)
        if status in HELD
        else None,
        vehicle=RouteVehicle(id=row.vehicle_id, unit_number=row.unit_number),
        driver=RouteDriver(id=row.driver_id, name=row.driver_name),
        scheduled_start=row.scheduled_start,
        stops=_timeline(row, status),
        distance_miles=row.distance_miles,
        fuel_plan=_fuel_plan(row.plan, status),
        created_at=row.created_at,
    )


def _fuel_plan(document: dict[str, Any] | None, status: RouteStatus) -> FuelPlan | None:
    if document is None or status not in SHOWS_PLAN:
        return None
    return msgspec.convert({**document, "status": FuelPlanStatus(status.value)}, FuelPlan)


def _timeline(row: Any, status: RouteStatus) -> list[RouteStop]:
    """The pushed stops in order; between them, once the plan is with the driver, its fuel stops by road mile.

    The destination comes last, whatever the miles say: no purchase may be missing.
    """
    visits = {int(stop): times for stop, times in (row.visits or {}).items()}
    ahead = {entry["stop"]: entry for entry in row.timeline or ()} if status in SHOWS_PLAN else {}
    fuel_stops = list(row.plan["stops"]) if row.plan and status in SHOWS_FUEL_STOPS else []
    last = len(row.stops) - 1
    timeline: list[RouteStop] = []
    for index, stop in enumerate(row.stops):
        mile = ahead[index]["mile"] if index in ahead else None
        while fuel_stops and (index == last or (mile is not None and fuel_stops[0]["milesFromOrigin"] <= mile)):
            timeline.append(_fuel_stop(len(timeline), fuel_stops.pop(0)))
        arrived, departed = visits.get(index, (None, None))
        planned = ahead[index]["plannedArrival"] if index in ahead else None
        timeline.append(
            RouteStop(
                sequence=len(timeline),
                name=stop["name"],
                address=stop.get("address"),
                latitude=stop["latitude"],
                longitude=stop["longitude"],
                type=StopType.DESTINATION if index == last else StopType.WAYPOINT,
                planned_arrival=_moment(planned),
                actual_arrival=_moment(arrived),
                actual_departure=_moment(departed),
            )
        )
    return timeline


def _fuel_stop(sequence: int, stop: dict[str, Any]) -> RouteStop:
    return RouteStop(
        sequence=sequence,
        name=stop["name"],
        address=stop["address"],
        latitude=stop["latitude"],
        longitude=stop["longitude"],
        type=StopType.FUEL_STOP,
        planned_arrival=_moment(stop["estimatedArrival"]),
        actual_arrival=None,
        actual_departure=None,
    )


def _moment(text: str | None) -> datetime | None:
    """A time from inside a jsonb document."""
    return msgspec.convert(text, datetime) if text is not None else None
