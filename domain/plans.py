"""Fuel plans of routes: what goes into one, and how it is stored. The computing itself is `domain.planning`."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from domain import messaging
from domain.database import Connection, as_json
from domain.ids import new_id
from domain.jobs import Job, send_message
from domain.lifecycle import Environment
from domain.planning.optimizer import Infeasible
from domain.planning.plan import FuelPlan
from domain.roads import Point
from domain.routes import HINT_GRACE
from domain.tracking import complete_routes

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
    """Road mile and planned arrival of each stop that is left."""
    raise NotImplementedError


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


_ = complete_routes, HINT_GRACE
