"""Fuel plans of routes: what goes into one, and how it is stored. The computing itself is `domain.planning`."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec

from domain.database import Connection, as_json
from domain.documents import FuelPlanDocument, StopDocument, TimelineEntry
from domain.ids import new_id
from domain.jobs import SWEEP_GRACE, Job, send_message
from domain.lifecycle import Environment, Objective, RouteStatus
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
    utc_text,
)
from domain.planning.reasons import with_reasons
from domain.planning.review import fuel_changed, level_on_leaving, same_trip, saving_moved
from domain.roads import CIRCUITY, Point, Road, Roads, great_circle_miles
from domain.statements import Command, IdRow, NotNull, Statement
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


class RouteToPlan(NamedTuple):
    """A route whose truck has arrived, with its vehicle and its company's policy."""

    id: str
    company_id: str
    environment: str
    external_id: str
    reference: str | None
    revision: int
    stops: list[StopDocument]
    scheduled_start: datetime
    vehicle_id: NotNull[str]
    driver_id: NotNull[str]
    arrived_at: NotNull[datetime]
    unit_number: str | None
    fuel_tank_capacity_gallons: float | None
    mpg: float | None
    reserve_percent: float
    end_fuel_percent: float
    assumed_fuel_percent: float
    min_purchase_gallons: float
    stop_cost: float
    max_detour_miles: float
    max_stops: int | None
    leftover_value_per_gallon: float
    objective: str
    newest_at: datetime | None
    """The time of the truck's newest fix."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a plan is made from: the route, and as of one moment where its truck is, how much fuel it has, which stops
    are left and when it goes on.

    `as_of` is now for a live route. Time is simulated in the sandbox, so there it is the time of a fix.
    `position_at`: when the truck was there; None where only the stop it reached is known.
    """

    route: RouteToPlan
    as_of: datetime
    position: Point
    position_at: datetime | None
    fuel: FuelReading | None
    stops_left: tuple[int, ...]
    departure: datetime


class PlanUnderReview(NamedTuple):
    """The plan that a route has: the correction that waits to be sent, else the current one."""

    id: str
    document: NotNull[FuelPlanDocument]
    fuel_percent: float
    """The level that it was made with, or for which a review found nothing better."""
    fuel_at: datetime | None
    """When the truck read the level that it was made with; None: none was known."""
    price_set: int | None
    """The newest import of prices that it was made or reviewed with."""
    review_requests: int
    """How many reviews of the route had been asked for when this one began."""
    departed_at: datetime | None
    """When the truck was seen to leave its first stop: the time of the fix that decided it."""
    newest_price_set: int | None
    """The newest import of prices by now."""


@dataclass(frozen=True, slots=True)
class Review:
    """A plan that may have to be replaced, what a new one is made from, and whether the fuel is a reason for it."""

    plan: PlanUnderReview
    task: Task
    fuel_changed: bool


_ROUTE = """
    SELECT r.id, r.company_id, r.environment, r.external_id, r.reference, r.revision, r.stops, r.scheduled_start,
           r.vehicle_id, r.driver_id, r.arrived_at,
           v.unit_number, v.fuel_tank_capacity_gallons, v.mpg,
           c.reserve_percent, c.end_fuel_percent, c.assumed_fuel_percent, c.min_purchase_gallons, c.stop_cost,
           c.max_detour_miles, c.max_stops, c.leftover_value_per_gallon, c.objective, t.newest_at
    FROM routes r JOIN vehicles v ON v.id = r.vehicle_id JOIN companies c ON c.id = r.company_id
    LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    WHERE r.id = %s AND r.arrived_at IS NOT NULL
"""
_ARRIVED_ROUTE = Statement(RouteToPlan, _ROUTE)
_DRAFT_TO_PLAN = Statement(RouteToPlan, _ROUTE + "AND r.status = 'draft'")

_PLAN_UNDER_REVIEW = Statement(
    PlanUnderReview,
    """
    SELECT p.id, p.document, p.fuel_percent, p.fuel_at, p.price_set, r.review_requests,
           (SELECT min(coalesce((departure_evidence->'fixes'->-1->>'recordedAt')::timestamptz, departed_at))
            FROM visits WHERE route_id = r.id AND departed_at IS NOT NULL) AS departed_at,
           (SELECT max(id) FROM price_sets WHERE company_id IS NULL OR company_id = r.company_id) AS newest_price_set
    FROM routes r JOIN plans p ON p.id = coalesce(r.correction_id, r.plan_id)
    WHERE r.id = %s AND r.arrived_at IS NOT NULL AND r.status IN ('planned', 'active') AND r.review_at IS NOT NULL
      AND r.corrected_at IS NULL
    """,
)


def load_task(connection: Connection, route_id: str, *, now: datetime) -> Task | None:
    """The inputs of a route's first plan; None when none is due.

    A live plan starts from where the truck is now. In the sandbox time is simulated, so that a plan is made as of the
    arrival, whatever has been posted since.
    """
    route = _DRAFT_TO_PLAN.first(connection, (route_id,))
    if route is None:
        return None
    return _task(connection, route, _live_now(route, now) or route.arrived_at)


def load_review(connection: Connection, route_id: str, *, now: datetime) -> Review | None:
    """The review of a route's plan that is due; None where none is, or where neither fuel nor prices have changed.

    In the sandbox it is made as of the fix that decided the departure, or before that as of the newest one.
    """
    plan = _PLAN_UNDER_REVIEW.first(connection, (route_id,))
    if plan is None:
        _FORGET_REVIEW.execute(connection, (route_id,))
        return None
    route = _ARRIVED_ROUTE.first(connection, (route_id,))
    if route is None:  # it was pushed again just now
        return None
    as_of = _live_now(route, now) or plan.departed_at or route.newest_at or route.arrived_at
    changed = _fuel_changed(connection, route, plan, plan.departed_at or as_of)
    if not changed and plan.newest_price_set == plan.price_set:
        _reviewed(connection, route_id, plan)
        return None
    return Review(plan, _task(connection, route, as_of), changed)


_FORGET_REVIEW = Command(
    "UPDATE routes SET review_at = NULL WHERE id = %s AND review_at IS NOT NULL"
    " AND (status NOT IN ('planned', 'active') OR corrected_at IS NOT NULL)"
)
"""The review of a plan that is over, or was corrected, is not due for ever."""


def _live_now(route: RouteToPlan, now: datetime) -> datetime | None:
    """Now, or the time of the truck's newest fix where its clock is a little ahead; None in the sandbox."""
    if route.environment != Environment.LIVE:
        return None
    return max(now, route.newest_at) if route.newest_at is not None else now


class _Reading(NamedTuple):
    fuel_percent: NotNull[float]
    latitude: float
    longitude: float
    stop: StopDocument
    """The first one that was reached."""


_READINGS_AT_FIRST_STOP = Statement(
    _Reading,
    """
    SELECT f.fuel_percent, f.latitude, f.longitude,
           r.stops->coalesce((SELECT min(stop) FROM visits WHERE route_id = r.id), 0) AS stop
    FROM routes r JOIN positions f ON f.vehicle_id = r.vehicle_id AND f.environment = r.environment
    WHERE r.id = %(id)s AND f.recorded_at BETWEEN r.arrived_at AND %(until)s
      AND (%(fuel_at)s::timestamptz IS NULL OR f.recorded_at > %(fuel_at)s)
      AND f.fuel_percent IS NOT NULL AND NOT f.implausible
    ORDER BY f.recorded_at DESC LIMIT %(most)s
    """,
)


def _fuel_changed(connection: Connection, route: RouteToPlan, plan: PlanUnderReview, until: datetime) -> bool:
    """Whether the tank held something else than was planned with, at the first stop or on leaving it (`until`).

    The trip itself empties the tank, and later stops fill it: whatever is known of that is no change.
    """
    rows = _READINGS_AT_FIRST_STOP.all(
        connection, {"id": route.id, "until": until, "fuel_at": plan.fuel_at, "most": _READINGS}
    )
    levels = [
        level_on_leaving(
            row.fuel_percent,
            CIRCUITY * great_circle_miles(_place(row.stop), Point(row.latitude, row.longitude)),
            mpg=route.mpg or DEFAULT_MPG,
            capacity_gallons=route.fuel_tank_capacity_gallons or DEFAULT_CAPACITY_GALLONS,
            plan=plan.document,
        )
        for row in rows
    ]
    departed = plan.departed_at is not None
    return fuel_changed(plan.fuel_percent, [level for level in levels if level is not None], departed=departed)


def _place(stop: StopDocument) -> Point:
    return Point(stop["latitude"], stop["longitude"])


class _Truck(NamedTuple):
    latitude: float
    longitude: float
    recorded_at: datetime


_TRUCK = Statement(
    _Truck,
    "SELECT latitude, longitude, recorded_at FROM positions WHERE vehicle_id = %s AND environment = %s"
    " AND recorded_at <= %s AND NOT implausible ORDER BY recorded_at DESC LIMIT 1",
)


class _FreshFuel(NamedTuple):
    fuel_percent: NotNull[float]
    recorded_at: datetime


_FRESH_FUEL = Statement(
    _FreshFuel,
    "SELECT fuel_percent, recorded_at FROM positions WHERE vehicle_id = %s AND environment = %s"
    " AND recorded_at BETWEEN %s::timestamptz - %s::interval AND %s AND fuel_percent IS NOT NULL"
    " ORDER BY recorded_at DESC LIMIT 1",
)


def _task(connection: Connection, route: RouteToPlan, as_of: datetime) -> Task:
    visits = _visits(connection, route.id, as_of)
    if len(route.stops) - 1 in visits:  # all driven before its plan could be made: plan it as it was at the start
        as_of = route.arrived_at
        visits = _visits(connection, route.id, as_of)
    reached = max(visits, default=-1)
    truck = _TRUCK.first(connection, (route.vehicle_id, route.environment, as_of))
    reading = _FRESH_FUEL.first(connection, (route.vehicle_id, route.environment, as_of, FRESH_FUEL, as_of))
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


class _Departure(NamedTuple):
    stop: int
    departed_at: datetime | None


_DEPARTURES = Statement(_Departure, "SELECT stop, departed_at FROM visits WHERE route_id = %s AND arrived_at <= %s")


def _visits(connection: Connection, route_id: str, as_of: datetime) -> dict[int, datetime | None]:
    """Departures from the stops reached so far."""
    return {row.stop: row.departed_at for row in _DEPARTURES.all(connection, (route_id, as_of))}


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


def _opens(stop: StopDocument) -> datetime | None:
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


_LOCK_DRAFT = Command(
    "SELECT FROM routes WHERE id = %s AND status = 'draft' AND revision = %s AND arrived_at IS NOT NULL FOR UPDATE"
)
_PLANNED = Command("UPDATE routes SET status = 'planned' WHERE id = %s")


def store(
    connection: Connection, task: Task, corridor: Corridor, plan: FuelPlan | NoPlan, *, now: datetime
) -> tuple[StoreOutcome, list[Job]]:
    """Stores the plan and its message, and moves the route on: `planned`, or `error` where no plan is feasible.

    Returns the outcome and the jobs to enqueue after the commit. Outdated: the route was changed while the plan was
    computed; what it is now decides.
    """
    if _LOCK_DRAFT.first(connection, (task.route.id, task.route.revision)) is None:
        return "outdated", []
    plan_id = _insert(connection, task, corridor, plan, now=now)
    _choose(connection, task.route.id, plan_id, plan)
    if isinstance(plan, NoPlan):
        _give_up(connection, task.route.id, f"No feasible fuel plan: {plan.infeasible.reason}")
        return "infeasible", []
    _PLANNED.execute(connection, (task.route.id,))
    message_id = messages.queue_message(connection, task.route, plan_id, plan.document(), now=now)
    return "planned", [send_message(message_id)]


ReviewOutcome = Literal["confirmed", "replaced", "corrected", "being_sent", "outdated"]


class _Reviewed(NamedTuple):
    status: str


_LOCK_REVIEWED = Statement(
    _Reviewed,
    "SELECT status FROM routes WHERE id = %s AND coalesce(correction_id, plan_id) = %s"
    " AND status IN ('planned', 'active') AND corrected_at IS NULL FOR UPDATE",
)
_CONFIRM = Command("UPDATE plans SET fuel_percent = %s, price_set = %s WHERE id = %s")
_REVIEW_LATER = Command("UPDATE routes SET review_at = %s WHERE id = %s")
_CORRECT = Command("UPDATE routes SET correction_id = %s WHERE id = %s")


def store_review(
    connection: Connection, review: Review, corridor: Corridor, plan: FuelPlan | NoPlan, *, now: datetime
) -> tuple[ReviewOutcome, list[Job]]:
    """Replaces the plan where the new one is worth it: quietly before it was sent; after, the driver gets one corrected
    message, and the plan is the current one once that is out.

    Returns the outcome and the jobs to enqueue after the commit.
    """
    old, route = review.plan, review.task.route
    current = _LOCK_REVIEWED.first(connection, (route.id, old.id))
    if current is None:
        return "outdated", []
    comparable = isinstance(plan, NoPlan) or _same_trip(old, plan)
    if isinstance(plan, NoPlan) or not (review.fuel_changed or (comparable and _saving_moved(old, plan))):
        _reviewed(connection, route.id, old)
        # The same is not looked at again. The level stays what it was made with, unless there is nothing better for
        # the new one: small changes must not add up unseen. Prices whose effect cannot be told are left for later.
        percent = plan.inputs.start_percent if isinstance(plan, NoPlan) else old.fuel_percent
        _CONFIRM.execute(connection, (percent, corridor.price_set if comparable else old.price_set, old.id))
        return "confirmed", []
    sent = current.status == RouteStatus.ACTIVE
    if messages.is_being_sent(connection, old.id, now=now):
        _REVIEW_LATER.execute(connection, (now + SWEEP_GRACE, route.id))
        return "being_sent", []
    discard_messages(connection, [route.id], "The plan was replaced before delivery")
    _reviewed(connection, route.id, old)
    plan_id = _insert(connection, review.task, corridor, plan, now=now)
    if sent:
        _CORRECT.execute(connection, (plan_id, route.id))
    else:
        _choose(connection, route.id, plan_id, plan)
    message_id = messages.queue_message(connection, route, plan_id, plan.document(), now=now)
    return "corrected" if sent else "replaced", [send_message(message_id)]


def _same_trip(old: PlanUnderReview, new: FuelPlan) -> bool:
    before, after = old.fuel_percent, new.inputs.start_percent
    return same_trip(old.document, new.document(), percent_before=before, percent_after=after)


def _saving_moved(old: PlanUnderReview, new: FuelPlan) -> bool:
    return saving_moved(old.document["savingsTotal"], new.savings_total)


_END_REVIEW = Command(
    "UPDATE routes SET attempts = 0, review_at = CASE WHEN review_requests <> %s THEN review_at END"
    " WHERE id = %s AND coalesce(correction_id, plan_id) = %s"
)


def _reviewed(connection: Connection, route_id: str, plan: PlanUnderReview) -> None:
    """What has been asked for since the plan was loaded is still to be looked at."""
    _END_REVIEW.execute(connection, (plan.review_requests, route_id, plan.id))


class _RetriedReview(NamedTuple):
    review_at: datetime | None


_RETRY_REVIEW = Statement(
    _RetriedReview,
    f"""
    UPDATE routes SET
        attempts = CASE WHEN attempts + 1 < %(most)s THEN attempts + 1 ELSE 0 END,
        review_at = CASE WHEN attempts + 1 < %(most)s THEN %(now)s::timestamptz + {_BACKOFF} END
    WHERE id = %(id)s AND status IN ('planned', 'active') AND review_at IS NOT NULL
    RETURNING review_at
    """,  # noqa: S608 (constants of this module)
)


def record_failed_review(connection: Connection, route_id: str, *, most_attempts: int, now: datetime) -> bool:
    """A look failed unexpectedly: it is retried with backoff. After the last attempt the plan stays as it is until
    somebody asks again. Returns whether that was the last one.
    """
    row = _RETRY_REVIEW.first(connection, {"most": most_attempts, "now": now, "id": route_id})
    return row is not None and row.review_at is None


_INSERT_PLAN = Command(
    "INSERT INTO plans (id, route_id, revision, generated_at, document, explanation, timeline, fuel_percent,"
    " fuel_at, price_set) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


def _insert(connection: Connection, task: Task, corridor: Corridor, plan: FuelPlan | NoPlan, *, now: datetime) -> str:
    """Stores a plan. Returns its id."""
    plan_id = new_id("pln")
    _INSERT_PLAN.execute(
        connection,
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


_CHOOSE = Command(
    "UPDATE routes SET plan_id = %s, distance_miles = %s, attempts = 0, retry_at = NULL,"
    " updated_at = clock_timestamp() WHERE id = %s"
)


def _choose(connection: Connection, route_id: str, plan_id: str, plan: FuelPlan | NoPlan) -> None:
    """From now on it is the route's current plan."""
    _CHOOSE.execute(connection, (plan_id, plan.trip.distance_miles, route_id))


def timeline_of(task: Task, plan: FuelPlan) -> list[TimelineEntry]:
    """Road mile and planned arrival of each stop that is left, the road starting at the truck, and of the first stop.

    The truck has been there; it was due at the opening of its window, else by the scheduled start, and in any case
    before it goes on.
    """
    ahead = [
        TimelineEntry(stop=stop, mile=point.mile, plannedArrival=utc_text(point.arrival) if point.arrival else None)
        for stop, point in zip(task.stops_left, plan.points, strict=False)
    ]
    if 0 in task.stops_left:
        return ahead
    start = task.route.scheduled_start
    due = min(_opens(task.route.stops[0]) or start, start, task.departure)
    return [TimelineEntry(stop=0, mile=None, plannedArrival=utc_text(due)), *ahead]


class _Attempts(NamedTuple):
    attempts: int


_RETRY = Statement(
    _Attempts,
    f"""
    UPDATE routes SET attempts = attempts + 1, retry_at = %(now)s::timestamptz + {_BACKOFF}
    WHERE id = %(id)s AND status = 'draft' AND arrived_at IS NOT NULL
    RETURNING attempts
    """,  # noqa: S608 (constants of this module)
)


def record_failure(connection: Connection, route_id: str, *, most_attempts: int, now: datetime) -> None:
    """Planning failed unexpectedly: it is retried with backoff; after the last attempt the route is `error`."""
    row = _RETRY.first(connection, {"now": now, "id": route_id})
    if row is not None and row.attempts >= most_attempts:
        _give_up(
            connection,
            route_id,
            f"Planning failed {row.attempts} times; see the log. Push the route again to retry.",
        )


_GIVE_UP = Command(
    "UPDATE routes SET status = 'error', closed_reason = %s, retry_at = NULL, updated_at = clock_timestamp()"
    " WHERE id = %s"
)


def _give_up(connection: Connection, route_id: str, reason: str) -> None:
    _GIVE_UP.execute(connection, (reason, route_id))


_DUE_PLANS = Statement(
    IdRow,
    "SELECT id FROM routes WHERE status = 'draft' AND arrived_at IS NOT NULL AND retry_at <= %s"
    " ORDER BY retry_at LIMIT %s",
)


def due_plans(connection: Connection, *, now: datetime, limit: int = 10_000) -> list[str]:
    """Routes whose plan is due: for a first attempt that got lost, or for the next one."""
    return [row.id for row in _DUE_PLANS.all(connection, (now, limit))]


class _Explained(NamedTuple):
    explanation: NotNull[dict[str, Any]]


_EXPLANATION = Statement(
    _Explained,
    "SELECT p.explanation FROM routes r JOIN plans p ON p.id = r.plan_id WHERE r.id = %s AND p.explanation IS NOT NULL",
)


def read_explanation(connection: Connection, route_id: str) -> dict[str, Any] | None:
    """Why a route's current plan is what it is, or why it has none; None before its truck has arrived, and
    once it was forgotten."""
    row = _EXPLANATION.first(connection, (route_id,))
    return with_reasons(row.explanation) if row is not None else None
