"""Fuel plans of routes: what goes into one, and how it is stored. The computing itself is `domain.planning`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from domain import messaging
from domain.database import Connection, as_json
from domain.ids import new_id
from domain.jobs import Job, send_message
from domain.lifecycle import Environment
from domain.planning.corridor import Station
from domain.planning.optimizer import Infeasible
from domain.planning.plan import FuelPlan, PlanInputs, Policy, PricedStation, build_plan
from domain.planning.prices import Deal, fresh_retail, net_price
from domain.roads import LINE_STEP_MILES, Point, Road, Roads
from domain.roads.sphere import MILES_PER_DEGREE

FRESH_FUEL = timedelta(hours=24)
"""An older fuel reading says nothing about the tank; the policy's assumed level is taken instead."""


@dataclass(frozen=True, slots=True)
class FuelReading:
    """The newest fuel level of a truck that is fresh enough to plan with."""

    percent: float
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class Task:
    """A plan to make: the route as it is, where the truck is, how much it has, which stops are left."""

    route: Any
    as_of: datetime
    position: Point
    fuel: FuelReading | None
    stops_left: tuple[int, ...]


def load_task(connection: Connection, route_id: str, *, now: datetime) -> Task | None:
    """The inputs of a route's plan; None when none is due.

    A live plan starts from where the truck is now. In the sandbox time is simulated, so that a plan is made as of the
    arrival, whatever has been posted since.
    """
    route = connection.execute(
        """
        SELECT r.id, r.company_id, r.environment, r.external_id, r.reference, r.revision, r.stops, r.scheduled_start,
               r.vehicle_id, r.driver_id, r.arrived_at, v.unit_number, v.fuel_tank_capacity_gallons, v.mpg,
               c.reserve_percent, c.end_fuel_percent, c.assumed_fuel_percent, c.min_purchase_gallons, c.stop_cost,
               c.max_detour_miles, c.max_stops
        FROM routes r JOIN vehicles v ON v.id = r.vehicle_id JOIN companies c ON c.id = r.company_id
        WHERE r.id = %s AND r.status = 'draft' AND r.arrived_at IS NOT NULL
        """,
        (route_id,),
    ).fetchone()
    if route is None:
        return None
    as_of = now if route.environment == Environment.LIVE else route.arrived_at
    left = _stops_left(connection, route, as_of)
    if not left:  # the whole route was driven before its plan could be made: plan it as it was at the start
        as_of = route.arrived_at
        left = _stops_left(connection, route, as_of)
    truck = connection.execute(
        "SELECT latitude, longitude FROM positions WHERE vehicle_id = %s AND environment = %s AND recorded_at <= %s"
        " AND NOT implausible ORDER BY recorded_at DESC LIMIT 1",
        (route.vehicle_id, route.environment, as_of),
    ).fetchone()
    reading = connection.execute(
        "SELECT fuel_percent, recorded_at FROM positions WHERE vehicle_id = %s AND environment = %s"
        " AND recorded_at BETWEEN %s AND %s AND fuel_percent IS NOT NULL ORDER BY recorded_at DESC LIMIT 1",
        (route.vehicle_id, route.environment, as_of - FRESH_FUEL, as_of),
    ).fetchone()
    reached = route.stops[left[0] - 1 if left else -1]
    return Task(
        route=route,
        as_of=as_of,
        position=Point(truck.latitude, truck.longitude)
        if truck is not None
        else Point(reached["latitude"], reached["longitude"]),
        fuel=FuelReading(reading.fuel_percent, reading.recorded_at) if reading is not None else None,
        stops_left=left,
    )


def _stops_left(connection: Connection, route: Any, as_of: datetime) -> tuple[int, ...]:
    row = connection.execute(
        "SELECT max(stop) AS last FROM visits WHERE route_id = %s AND arrived_at <= %s", (route.id, as_of)
    ).fetchone()
    last = row.last if row is not None and row.last is not None else -1
    return tuple(range(last + 1, len(route.stops)))


def road_ahead(task: Task, roads: Roads) -> Road:
    """The road from the truck through the stops that are left."""
    stops = [task.route.stops[stop] for stop in task.stops_left]
    left = [Point(stop["latitude"], stop["longitude"]) for stop in stops]
    return roads.through([task.position, *(left or [task.position])])


def compute(task: Task, road: Road, stations: Sequence[PricedStation], *, now: datetime) -> FuelPlan | Infeasible:
    """The cheapest feasible plan of a task on its road; `stations` may hold some that are far from it."""
    route = task.route
    policy = Policy(
        reserve_percent=route.reserve_percent,
        end_fuel_percent=route.end_fuel_percent,
        assumed_fuel_percent=route.assumed_fuel_percent,
        min_purchase_gallons=route.min_purchase_gallons,
        stop_cost=route.stop_cost,
        max_detour_miles=route.max_detour_miles,
        max_stops=route.max_stops,
    )
    return build_plan(
        PlanInputs(
            road=road,
            capacity_gallons=route.fuel_tank_capacity_gallons,
            mpg=route.mpg,
            fuel_percent=task.fuel.percent if task.fuel is not None else None,
            policy=policy,
            stations=stations,
            departure=task.as_of,
        ),
        now=now,
    )


def stations_near(
    connection: Connection, company_id: str, road: Road, miles: float, *, now: datetime
) -> list[PricedStation]:
    """Every station within so many miles of the road that has a net price for the company, and some further off."""
    boxes = _boxes(road, miles)
    rows = connection.execute(
        """
        SELECT DISTINCT ON (s.station_id) s.* FROM stations s
        JOIN unnest(%s::float8[], %s::float8[], %s::float8[], %s::float8[]) AS box (south, north, west, east)
          ON s.latitude BETWEEN box.south AND box.north AND s.longitude BETWEEN box.west AND box.east
        ORDER BY s.station_id
        """,
        tuple(map(list, zip(*boxes, strict=True))),
    ).fetchall()
    deals: dict[tuple[str | None, str | None], list[Deal]] = {}
    for deal in connection.execute(
        "SELECT station_id, brand, discount_per_gallon, net_price FROM deals WHERE company_id = %s", (company_id,)
    ):
        key = (deal.station_id, deal.brand)
        deals.setdefault(key, []).append(Deal(deal.discount_per_gallon, deal.net_price))
    priced = []
    for row in rows:
        offers = deals.get((row.station_id, None), []) + (deals.get((None, row.brand), []) if row.brand else [])
        price = net_price(fresh_retail(row.retail_price, row.priced_at, now=now), offers)
        if price is not None:
            station = Station(
                row.station_id, row.name, row.brand, row.address, row.city, row.state, row.latitude, row.longitude
            )
            priced.append(PricedStation(station, price))
    return priced


_BOX_VERTICES = 8  # of the road's line in one box: small boxes hold few stations that are not near the road


def _boxes(road: Road, miles: float) -> list[tuple[float, float, float, float]]:
    """South, north, west, east of boxes that hold everything within `miles` of the road."""
    boxes = []
    for start in range(0, max(len(road.line) - 1, 1), _BOX_VERTICES):
        part = road.line[start : start + _BOX_VERTICES + 1]
        south, north = float(part[:, 0].min()), float(part[:, 0].max())
        up = (miles + LINE_STEP_MILES / 50) / MILES_PER_DEGREE
        # the same miles are more degrees of longitude further from the equator
        across = up / max(math.cos(math.radians(min(max(abs(south), abs(north)) + up, 89.0))), 0.01)
        west, east = float(part[:, 1].min()) - across, float(part[:, 1].max()) + across
        if east - west > 180 or west < -180 or east > 180:  # at the antimeridian: all the way round
            west, east = -180.0, 180.0
        boxes.append((south - up, north + up, west, east))
    return boxes


def store(connection: Connection, task: Task, plan: FuelPlan | Infeasible, *, now: datetime) -> tuple[str, list[Job]]:
    """Stores the plan and its message, and moves the route on: `planned`, or `error` where no plan is feasible.

    Returns the outcome (`planned`, `infeasible`, `outdated`) and the jobs to enqueue after the commit. Outdated: the
    route was changed while the plan was computed; what it is now decides.
    """
    current = connection.execute(
        "SELECT FROM routes WHERE id = %s AND status = 'draft' AND revision = %s AND arrived_at IS NOT NULL FOR UPDATE",
        (task.route.id, task.route.revision),
    ).fetchone()
    if current is None:
        return "outdated", []
    if isinstance(plan, Infeasible):
        _give_up(connection, task.route.id, f"No feasible fuel plan: {plan.reason}")
        return "infeasible", []
    plan_id = new_id("pln")
    document = plan.document()
    connection.execute(
        "INSERT INTO plans (id, route_id, revision, generated_at, document, explanation, timeline)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (
            plan_id,
            task.route.id,
            task.route.revision,
            now,
            as_json(document),
            as_json(plan.explanation()),
            as_json(_timeline(task, plan)),
        ),
    )
    connection.execute(
        "UPDATE routes SET status = 'planned', plan_id = %s, distance_miles = %s, attempts = 0, retry_at = NULL,"
        " updated_at = clock_timestamp() WHERE id = %s",
        (plan_id, document["totalDistanceMiles"], task.route.id),
    )
    message_id = messaging.queue_message(connection, task.route, plan_id, document, now=now)
    return "planned", [send_message(message_id)]


def _timeline(task: Task, plan: FuelPlan) -> list[dict[str, Any]]:
    """Road mile and planned arrival of each stop that is left; the road starts at the truck."""
    return [
        {"stop": stop, "mile": mile, "plannedArrival": plan.arrival_at(mile)}
        for stop, mile in zip(task.stops_left, plan.inputs.road.stop_miles[1:], strict=True)
    ]


def record_failure(connection: Connection, route_id: str, *, most_attempts: int, now: datetime) -> None:
    """Planning failed unexpectedly: it is retried with backoff; after the last attempt the route is `error`."""
    row = connection.execute(
        """
        UPDATE routes SET attempts = attempts + 1,
            retry_at = %(now)s + least(interval '10 s' * 2 ^ least(attempts, 10), interval '15 min')
        WHERE id = %(id)s AND status = 'draft' AND arrived_at IS NOT NULL
        RETURNING attempts
        """,
        {"now": now, "id": route_id},
    ).fetchone()
    if row is not None and row.attempts >= most_attempts:
        _give_up(
            connection,
            route_id,
            f"Planning failed {row.attempts} times; see the log. Push the route again to retry.",
        )


def _give_up(connection: Connection, route_id: str, reason: str) -> None:
    connection.execute(
        "UPDATE routes SET status = 'error', closed_reason = %s, retry_at = NULL, updated_at = clock_timestamp()"
        " WHERE id = %s",
        (reason, route_id),
    )


def claim_lost_plans(connection: Connection, *, now: datetime, limit: int = 10_000) -> list[str]:
    """Routes whose plan is due and whose job seems lost, each claimed for a minute."""
    rows = connection.execute(
        """
        UPDATE routes SET retry_at = %(now)s + interval '1 minute' WHERE id IN (
            SELECT id FROM routes WHERE status = 'draft' AND arrived_at IS NOT NULL AND retry_at <= %(now)s
            ORDER BY retry_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
        RETURNING id
        """,
        {"now": now, "limit": limit},
    ).fetchall()
    return [row.id for row in rows]


def read_explanation(connection: Connection, route_id: str) -> dict[str, Any] | None:
    """Why a route's current plan is what it is; None when it has none."""
    row = connection.execute(
        "SELECT p.explanation FROM routes r JOIN plans p ON p.id = r.plan_id WHERE r.id = %s", (route_id,)
    ).fetchone()
    explanation: dict[str, Any] | None = row.explanation if row is not None else None
    return explanation
