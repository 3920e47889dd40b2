"""Fuel plans of routes: what goes into one, and how it is stored. The computing itself is `domain.planning`."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

import msgspec

from domain.database import Connection, as_json
from domain.ids import new_id
from domain.jobs import SWEEP_GRACE, Job, send_message
from domain.lifecycle import Environment, RouteStatus
from domain.messages import messages
from domain.messages.discarding import discard_messages
from domain.planning.plan import (
    DEFAULT_CAPACITY_GALLONS,
    DEFAULT_MPG,
    FuelPlan,
    NoPlan,
    PlanInputs,
    Policy,
    build_plan,
)
from domain.planning.prices import Objective
from domain.planning.reasons import with_reasons
from domain.planning.review import fuel_changed, level_on_leaving, same_trip, saving_moved
from domain.roads import CIRCUITY, Point, Road, Roads, great_circle_miles
from domain.stations.candidates import Corridor

FRESH_FUEL = timedelta(hours=24)
"""An older fuel reading says nothing about the tank; the policy's assumed level is taken instead."""

_READINGS = 10
"""Of the newest ones two are compared; those few that a truck has sent from far away may say nothing."""

_BACKOFF = "least(interval '10 s' * 2 ^ least(attempts, 10), interval '15 min')"


@dataclass(frozen=True, slots=True)
class FuelReading:
    """The newest fuel level of a truck that is fresh enough to plan with."""

    percent: float
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class Task:
    """A plan to make: the route as it is, where the truck is, how much it has, which stops are left, when it goes on.

    `position_at`: when the truck was there; None where only the stop it reached is known. `fuel_changed`: the tank does
    not hold what the plan there is was made with.
    """

    route: Any
    as_of: datetime
    position: Point
    position_at: datetime | None
    fuel: FuelReading | None
    stops_left: tuple[int, ...]
    departure: datetime
    fuel_changed: bool = False


_ROUTE = """
    SELECT r.id, r.company_id, r.environment, r.external_id, r.reference, r.revision, r.stops, r.scheduled_start,
           r.status, r.vehicle_id, r.driver_id, r.arrived_at, r.review_requests,
           v.unit_number, v.fuel_tank_capacity_gallons, v.mpg,
           c.reserve_percent, c.end_fuel_percent, c.assumed_fuel_percent, c.min_purchase_gallons, c.stop_cost,
           c.max_detour_miles, c.max_stops, c.leftover_value_per_gallon, c.objective,
           coalesce(r.correction_id, r.plan_id) AS plan_id, p.document AS plan,
           p.fuel_percent, p.fuel_at, p.price_set, t.newest_at
    FROM routes r JOIN vehicles v ON v.id = r.vehicle_id JOIN companies c ON c.id = r.company_id
    LEFT JOIN plans p ON p.id = coalesce(r.correction_id, r.plan_id)
    LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    WHERE r.id = %s AND r.arrived_at IS NOT NULL
"""


def load_task(connection: Connection, route_id: str, *, now: datetime) -> Task | None:
    """The inputs of a route's first plan; None when none is due.

    A live plan starts from where the truck is now. In the sandbox time is simulated, so that a plan is made as of the
    arrival, whatever has been posted since.
    """
    route = connection.execute(_ROUTE + "AND r.status = 'draft'", (route_id,)).fetchone()
    if route is None:
        return None
    return _task(connection, route, _live_now(route, now) or route.arrived_at)


def load_review(connection: Connection, route_id: str, *, now: datetime) -> Task | None:
    """The inputs of a plan that may have to replace one made earlier; None when nothing speaks for it.

    In the sandbox it is made as of the fix that decided the departure, or before that as of the newest one.
    """
    route = connection.execute(
        _ROUTE + "AND r.status IN ('planned', 'active') AND r.review_at IS NOT NULL AND r.corrected_at IS NULL",
        (route_id,),
    ).fetchone()
    if route is None:
        _forget_review(connection, route_id)
        return None
    known = connection.execute(
        """
        SELECT (SELECT min(coalesce((departure_evidence->'fixes'->-1->>'recordedAt')::timestamptz, departed_at))
                FROM visits WHERE route_id = %(id)s AND departed_at IS NOT NULL) AS departed_at,
               (SELECT max(id) FROM price_sets WHERE company_id IS NULL OR company_id = %(company_id)s) AS price_set
        """,
        route._asdict(),
    ).fetchone()
    assert known is not None  # noqa: S101
    as_of = _live_now(route, now) or known.departed_at or route.newest_at
    changed = _fuel_changed(connection, route, known.departed_at or as_of, departed=known.departed_at is not None)
    if not changed and known.price_set == route.price_set:
        _reviewed(connection, route)
        return None
    return replace(_task(connection, route, as_of), fuel_changed=changed)


def _forget_review(connection: Connection, route_id: str) -> None:
    """A look at a plan that is over, or was corrected, is not due for ever."""
    connection.execute(
        "UPDATE routes SET review_at = NULL WHERE id = %s AND review_at IS NOT NULL"
        " AND (status NOT IN ('planned', 'active') OR corrected_at IS NOT NULL)",
        (route_id,),
    )


def _live_now(route: Any, now: datetime) -> datetime | None:
    """Now, or the time of the truck's newest fix where its clock is a little ahead; None in the sandbox."""
    if route.environment != Environment.LIVE:
        return None
    return max(now, route.newest_at) if route.newest_at is not None else now


def _fuel_changed(connection: Connection, route: Any, until: datetime, *, departed: bool) -> bool:
    """Whether the tank held something else than was planned with, at the first stop or on leaving it (`until`).

    The trip itself empties the tank, and later stops fill it: whatever is known of that is no change.
    """
    rows = connection.execute(
        """
        SELECT f.fuel_percent, f.latitude, f.longitude,
               r.stops->coalesce((SELECT min(stop) FROM visits WHERE route_id = r.id), 0) AS stop
        FROM routes r JOIN positions f ON f.vehicle_id = r.vehicle_id AND f.environment = r.environment
        WHERE r.id = %(id)s AND f.recorded_at BETWEEN r.arrived_at AND %(until)s
          AND (%(fuel_at)s::timestamptz IS NULL OR f.recorded_at > %(fuel_at)s)
          AND f.fuel_percent IS NOT NULL AND NOT f.implausible
        ORDER BY f.recorded_at DESC LIMIT %(most)s
        """,
        {"id": route.id, "until": until, "fuel_at": route.fuel_at, "most": _READINGS},
    ).fetchall()
    levels = [
        level_on_leaving(
            row.fuel_percent,
            CIRCUITY * great_circle_miles(_place(row.stop), Point(row.latitude, row.longitude)),
            mpg=route.mpg or DEFAULT_MPG,
            capacity_gallons=route.fuel_tank_capacity_gallons or DEFAULT_CAPACITY_GALLONS,
            plan=route.plan,
        )
        for row in rows
    ]
    return fuel_changed(route.fuel_percent, [level for level in levels if level is not None], departed=departed)


def _place(stop: dict[str, Any]) -> Point:
    return Point(stop["latitude"], stop["longitude"])


def _task(connection: Connection, route: Any, as_of: datetime) -> Task:
    visits = _visits(connection, route, as_of)
    if len(route.stops) - 1 in visits:  # all driven before its plan could be made: plan it as it was at the start
        as_of = route.arrived_at
        visits = _visits(connection, route, as_of)
    reached = max(visits, default=-1)
    truck = connection.execute(
        "SELECT latitude, longitude, recorded_at FROM positions WHERE vehicle_id = %s AND environment = %s"
        " AND recorded_at <= %s AND NOT implausible ORDER BY recorded_at DESC LIMIT 1",
        (route.vehicle_id, route.environment, as_of),
    ).fetchone()
    reading = connection.execute(
        "SELECT fuel_percent, recorded_at FROM positions WHERE vehicle_id = %s AND environment = %s"
        " AND recorded_at BETWEEN %s - %s AND %s AND fuel_percent IS NOT NULL ORDER BY recorded_at DESC LIMIT 1",
        (route.vehicle_id, route.environment, as_of, FRESH_FUEL, as_of),
    ).fetchone()
    stop = route.stops[reached]
    departed_at = visits.get(reached)
    waits = reached == 0 and (departed_at is None or departed_at > as_of)
    return Task(
        route=route,
        as_of=as_of,
        position=Point(truck.latitude, truck.longitude) if truck is not None else _place(stop),
        position_at=truck.recorded_at if truck is not None else None,
        fuel=FuelReading(reading.fuel_percent, reading.recorded_at) if reading is not None else None,
        stops_left=tuple(range(reached + 1, len(route.stops))),
        departure=max(as_of, route.scheduled_start) if waits else as_of,
    )


def _visits(connection: Connection, route: Any, as_of: datetime) -> dict[int, datetime | None]:
    """Departures from the stops reached so far."""
    rows = connection.execute(
        "SELECT stop, departed_at FROM visits WHERE route_id = %s AND arrived_at <= %s", (route.id, as_of)
    ).fetchall()
    return {row.stop: row.departed_at for row in rows}


def road_ahead(task: Task, roads: Roads) -> Road:
    """The road from the truck through the stops that are left."""
    left = [_place(task.route.stops[stop]) for stop in task.stops_left]
    return roads.through([task.position, *(left or [task.position])])


def compute(task: Task, road: Road, corridor: Corridor, *, now: datetime) -> FuelPlan | NoPlan:
    """The cheapest feasible plan of a task on its road."""
    route = task.route
    policy = Policy(
        reserve_percent=route.reserve_percent,
        end_fuel_percent=route.end_fuel_percent,
        assumed_fuel_percent=route.assumed_fuel_percent,
        min_purchase_gallons=route.min_purchase_gallons,
        stop_cost=route.stop_cost,
        max_detour_miles=route.max_detour_miles,
        max_stops=route.max_stops,
        leftover_value_per_gallon=route.leftover_value_per_gallon,
        objective=Objective(route.objective),
    )
    return build_plan(
        PlanInputs(
            road=road,
            capacity_gallons=route.fuel_tank_capacity_gallons,
            mpg=route.mpg,
            fuel_percent=task.fuel.percent if task.fuel is not None else None,
            policy=policy,
            offers=corridor.offers,
            departure=task.departure,
            opens=[_opens(route.stops[stop]) for stop in task.stops_left] or [None],
            sources=_sources(task, road, corridor, now),
        ),
        now=now,
    )


def _opens(stop: dict[str, Any]) -> datetime | None:
    opens = stop.get("arrivalWindow", {}).get("start")
    return msgspec.convert(opens, datetime) if opens is not None else None


def _sources(task: Task, road: Road, corridor: Corridor, now: datetime) -> dict[str, Any]:
    """Where each input came from, and how old it was when the plan was made."""
    route, fuel = task.route, task.fuel
    return {
        "made_at": now,
        "departure": task.departure,
        "position": {"from": "gps" if task.position_at else "the stop reached", "at": task.position_at},
        "fuel": {"from": "the truck's reading", "percent": fuel.percent, "at": fuel.recorded_at}
        if fuel is not None
        else {"from": "the company's policy", "percent": route.assumed_fuel_percent, "at": None},
        "capacity_gallons": {"from": "the vehicle" if route.fuel_tank_capacity_gallons else "the default"},
        "mpg": {"from": "the vehicle" if route.mpg else "the default"},
        "roads": {"from": road.source, "fallback_reason": road.fallback_reason},
        "prices": corridor.sources,
    }


StoreOutcome = Literal["planned", "infeasible", "outdated"]


def store(
    connection: Connection, task: Task, corridor: Corridor, plan: FuelPlan | NoPlan, *, now: datetime
) -> tuple[StoreOutcome, list[Job]]:
    """Stores the plan and its message, and moves the route on: `planned`, or `error` where no plan is feasible.

    Returns the outcome and the jobs to enqueue after the commit. Outdated: the route was changed while the plan was
    computed; what it is now decides.
    """
    current = connection.execute(
        "SELECT FROM routes WHERE id = %s AND status = 'draft' AND revision = %s AND arrived_at IS NOT NULL FOR UPDATE",
        (task.route.id, task.route.revision),
    ).fetchone()
    if current is None:
        return "outdated", []
    plan_id = _insert(connection, task, corridor, plan, now=now)
    _choose(connection, task.route.id, plan_id, plan)
    if isinstance(plan, NoPlan):
        _give_up(connection, task.route.id, f"No feasible fuel plan: {plan.infeasible.reason}")
        return "infeasible", []
    connection.execute("UPDATE routes SET status = 'planned' WHERE id = %s", (task.route.id,))
    message_id = messages.queue_message(connection, task.route, plan_id, plan.document(), now=now)
    return "planned", [send_message(message_id)]


ReviewOutcome = Literal["confirmed", "replaced", "corrected", "being_sent", "outdated"]


def store_review(
    connection: Connection, task: Task, corridor: Corridor, plan: FuelPlan | NoPlan, *, now: datetime
) -> tuple[ReviewOutcome, list[Job]]:
    """Replaces the plan where the new one is worth it: quietly before it was sent; after, the driver gets one corrected
    message, and the plan is the current one once that is out.

    Returns the outcome and the jobs to enqueue after the commit.
    """
    old = task.route
    current = connection.execute(
        "SELECT status FROM routes WHERE id = %s AND coalesce(correction_id, plan_id) = %s"
        " AND status IN ('planned', 'active') AND corrected_at IS NULL FOR UPDATE",
        (old.id, old.plan_id),
    ).fetchone()
    if current is None:
        return "outdated", []
    comparable = isinstance(plan, NoPlan) or _same_trip(task, plan)
    if isinstance(plan, NoPlan) or not (task.fuel_changed or (comparable and _saving_moved(task, plan))):
        _reviewed(connection, old)
        # The same is not looked at again. The level stays what it was made with, unless there is nothing better for
        # the new one: small changes must not add up unseen. Prices whose effect cannot be told are left for later.
        percent = plan.inputs.start_percent if isinstance(plan, NoPlan) else old.fuel_percent
        connection.execute(
            "UPDATE plans SET fuel_percent = %s, price_set = %s WHERE id = %s",
            (percent, corridor.price_set if comparable else old.price_set, old.plan_id),
        )
        return "confirmed", []
    sent = current.status == RouteStatus.ACTIVE
    if messages.is_being_sent(connection, old.plan_id, now=now):
        connection.execute("UPDATE routes SET review_at = %s WHERE id = %s", (now + SWEEP_GRACE, old.id))
        return "being_sent", []
    discard_messages(connection, [old.id], "The plan was replaced before delivery")
    _reviewed(connection, old)
    plan_id = _insert(connection, task, corridor, plan, now=now)
    if sent:
        connection.execute("UPDATE routes SET correction_id = %s WHERE id = %s", (plan_id, old.id))
    else:
        _choose(connection, old.id, plan_id, plan)
    message_id = messages.queue_message(connection, old, plan_id, plan.document(), now=now)
    return "corrected" if sent else "replaced", [send_message(message_id)]


def _same_trip(task: Task, plan: FuelPlan) -> bool:
    before, after = task.route.fuel_percent, plan.inputs.start_percent
    return same_trip(task.route.plan, plan.document(), percent_before=before, percent_after=after)


def _saving_moved(task: Task, plan: FuelPlan) -> bool:
    return saving_moved(task.route.plan["savingsTotal"], plan.savings_total)


def _reviewed(connection: Connection, route: Any) -> None:
    """What has been asked for since the route was loaded is still to be looked at."""
    connection.execute(
        "UPDATE routes SET attempts = 0, review_at = CASE WHEN review_requests <> %s THEN review_at END"
        " WHERE id = %s AND coalesce(correction_id, plan_id) = %s",
        (route.review_requests, route.id, route.plan_id),
    )


def record_failed_review(connection: Connection, route_id: str, *, most_attempts: int, now: datetime) -> bool:
    """A look failed unexpectedly: it is retried with backoff. After the last attempt the plan stays as it is until
    somebody asks again. Returns whether that was the last one.
    """
    row = connection.execute(
        f"""
        UPDATE routes SET
            attempts = CASE WHEN attempts + 1 < %(most)s THEN attempts + 1 ELSE 0 END,
            review_at = CASE WHEN attempts + 1 < %(most)s THEN %(now)s + {_BACKOFF} END
        WHERE id = %(id)s AND status IN ('planned', 'active') AND review_at IS NOT NULL
        RETURNING review_at
        """,  # noqa: S608 (constants of this module)
        {"most": most_attempts, "now": now, "id": route_id},
    ).fetchone()
    return row is not None and row.review_at is None


def _insert(connection: Connection, task: Task, corridor: Corridor, plan: FuelPlan | NoPlan, *, now: datetime) -> str:
    """Stores a plan. Returns its id."""
    plan_id = new_id("pln")
    connection.execute(
        "INSERT INTO plans (id, route_id, revision, generated_at, document, explanation, timeline, fuel_percent,"
        " fuel_at, price_set) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            plan_id,
            task.route.id,
            task.route.revision,
            now,
            as_json(plan.document()) if isinstance(plan, FuelPlan) else None,
            as_json(plan.explanation()),
            as_json(timeline_of(task, plan) if isinstance(plan, FuelPlan) else []),
            plan.inputs.start_percent,
            task.fuel.recorded_at if task.fuel is not None else None,
            corridor.price_set,
        ),
    )
    return plan_id


def _choose(connection: Connection, route_id: str, plan_id: str, plan: FuelPlan | NoPlan) -> None:
    """From now on it is the route's current plan."""
    connection.execute(
        "UPDATE routes SET plan_id = %s, distance_miles = %s, attempts = 0, retry_at = NULL,"
        " updated_at = clock_timestamp() WHERE id = %s",
        (plan_id, plan.trip.distance_miles, route_id),
    )


def timeline_of(task: Task, plan: FuelPlan) -> list[dict[str, Any]]:
    """Road mile and planned arrival of each stop that is left, the road starting at the truck, and of the first stop.

    The truck has been there; it was due at the opening of its window, else by the scheduled start, and in any case
    before it goes on.
    """
    ahead = [
        {"stop": stop, "mile": point.mile, "plannedArrival": point.arrival}
        for stop, point in zip(task.stops_left, plan.points, strict=False)
    ]
    if 0 in task.stops_left:
        return ahead
    start = task.route.scheduled_start
    due = min(_opens(task.route.stops[0]) or start, start, task.departure)
    return [{"stop": 0, "mile": None, "plannedArrival": due}, *ahead]


def record_failure(connection: Connection, route_id: str, *, most_attempts: int, now: datetime) -> None:
    """Planning failed unexpectedly: it is retried with backoff; after the last attempt the route is `error`."""
    row = connection.execute(
        f"""
        UPDATE routes SET attempts = attempts + 1, retry_at = %(now)s + {_BACKOFF}
        WHERE id = %(id)s AND status = 'draft' AND arrived_at IS NOT NULL
        RETURNING attempts
        """,  # noqa: S608 (constants of this module)
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


def due_plans(connection: Connection, *, now: datetime, limit: int = 10_000) -> list[str]:
    """Routes whose plan is due: for a first attempt that got lost, or for the next one."""
    rows = connection.execute(
        "SELECT id FROM routes WHERE status = 'draft' AND arrived_at IS NOT NULL AND retry_at <= %s"
        " ORDER BY retry_at LIMIT %s",
        (now, limit),
    ).fetchall()
    return [row.id for row in rows]


def read_explanation(connection: Connection, route_id: str) -> dict[str, Any] | None:
    """Why a route's current plan is what it is, or why it has none; None before its truck has arrived, and
    once it was forgotten."""
    row = connection.execute(
        "SELECT p.explanation FROM routes r JOIN plans p ON p.id = r.plan_id"
        " WHERE r.id = %s AND p.explanation IS NOT NULL",
        (route_id,),
    ).fetchone()
    return with_reasons(row.explanation) if row is not None else None
