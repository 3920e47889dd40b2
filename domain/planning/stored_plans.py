"""Computes plans from their tasks, and stores them with their explanations. `routes/plans/` moves the route on."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from domain.database.connections import Connection, as_json
from domain.database.statements import Command, Scalar
from domain.documents import PlanCause, TimelineEntry
from domain.encoding import utc_text
from domain.fleet.dimensions import dimensions_of
from domain.ids import new_id
from domain.planning.cheap_margins import plan_with_margin
from domain.planning.coarse_ways import coarse_way_of
from domain.planning.driver_facts import driver_facts_of
from domain.planning.explanation import (
    FUEL_BEFORE_DRIVE,
    FUEL_BY_POLICY,
    FUEL_BY_READING,
    ExplainedClosure,
    ExplainedSign,
    FuelOrigin,
    Sources,
)
from domain.planning.fuel_on_board import FuelOnBoard
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.menu import plan_as_wanted
from domain.planning.open_offers import offers_on_arrival, without_refused
from domain.planning.plan_inputs import MILE_DECIMALS, PlanInputs
from domain.planning.plan_tasks import PlanTask, arrivals_on, opening_of
from domain.planning.raised_levels import plan_for_level
from domain.planning.road_notes import road_origin
from domain.planning.ways_out import USUAL_HARD_FLOOR, HardFloor
from domain.queue.jobs import SWEEP_GRACE
from domain.roads import Road
from domain.roads.road_signs import default_road_signs
from domain.stations.corridor_offers import Corridor
from domain.stations.offers import Offer

ROAD_MILES = "coalesce((p.timeline->-1->>'mile')::float, (p.document->>'totalDistanceMiles')::float)"
"""The miles from where a plan `p` begins to the destination, which the plan itself may not reach."""


def plan_for_task(
    task: PlanTask,
    road: Road,
    corridor: Corridor,
    *,
    further: Corridor | None = None,
    hard_floor: HardFloor = USUAL_HARD_FLOOR,
    now: datetime,
) -> ComputedPlan | NoPlan:
    """The cheapest feasible plan of a task on its road. The `further` corridor reaches as far off the road as
    `FURTHEST_DETOUR_MILES`; with it, limits of the policy are relaxed where no plan keeps them all."""
    route = task.route
    arrivals = arrivals_on(task, road)
    refused = route.refused_until
    offers, closed = offers_on_arrival(without_refused(corridor.offers, refused), arrivals)
    inputs = PlanInputs(
        road=road,
        capacity_gallons=route.fuel_tank_capacity_gallons,
        burn=task.burn,
        fuel_percent=task.fuel.level_percent if task.fuel is not None else None,
        gauge_works=task.fuel is not None and task.fuel.gauge_works,
        policy=task.policy,
        offers=offers,
        further_offers=offers_on_arrival(without_refused(further.offers, refused), arrivals).open if further else None,
        departure=task.departure,
        opens=task.opens,
        sources=_sources(task, road, corridor, closed, now),
        closed=closed,
        hard_floor=hard_floor,
    )
    if task.level_at is not None:
        return plan_for_level(inputs, task.level_at, now=now)
    plan = plan_with_margin(inputs, now=now)
    if task.wanted is None or isinstance(plan, NoPlan):
        return plan
    return plan_as_wanted(plan, task.wanted)


def _sources(task: PlanTask, road: Road, corridor: Corridor, closed: Sequence[Offer], now: datetime) -> Sources:
    """The source of each input, and its age when the plan was made."""
    route, fuel, prices = task.route, task.fuel, corridor.prices
    return {
        "made_at": utc_text(now),
        "departure": utc_text(task.departure),
        "position": {"source": "gps" if task.position_at else "the stop reached", "at": _moment(task.position_at)},
        "fuel": _source_of(fuel)
        if fuel is not None
        else {"source": FUEL_BY_POLICY, "percent": task.policy.assumed_fuel_percent, "at": None},
        "capacity_gallons": {"source": "the vehicle" if route.fuel_tank_capacity_gallons else "the default"},
        "mpg": {"source": task.burn.source},
        "roads": road_origin(
            road, dimensions_of(route), lane=task.lane, second_ways=corridor.second_ways, signs=_signs_along(road)
        ),
        "prices": {
            "imported_at": _moment(prices.imported_at),
            "oldest_at": _moment(prices.oldest_at),
            "newest_at": _moment(prices.newest_at),
            "stations_left_out": prices.stations_left_out,
            "stations_without_tax_rate": prices.stations_without_tax_rate,
            "closed": [_left_out(one, one.closed_until, task) for one in closed if one.closed_until is not None],
        },
    }


def _left_out(offer: Offer, until: datetime, task: PlanTask) -> ExplainedClosure:
    told: ExplainedClosure = {
        "station_id": offer.station.station_id,
        "name": offer.station.name,
        "mile": round(offer.mile, MILE_DECIMALS),
        "closed_until": utc_text(until),
    }
    if task.route.refused_until.get(offer.station.station_id) == until:
        told["refused"] = True
    return told


def _signs_along(road: Road) -> list[ExplainedSign]:
    signs = default_road_signs()
    return [{"mile": round(mile, MILE_DECIMALS), "name": name} for mile, name in signs.along(road)] if signs else []


def _source_of(fuel: FuelOnBoard) -> FuelOrigin:
    """The reading, and how far it is from the level expected."""
    gauge = fuel.gauge
    origin: FuelOrigin = {
        "source": FUEL_BY_READING,
        "percent": gauge.percent,
        "at": utc_text(gauge.recorded_at),
        "believed": gauge.is_believed,
        "expected_percent": round(gauge.expected_percent, 1),
        "off_percent": round(gauge.off_percent, 1),
        "known_at": utc_text(gauge.known_at),
        "miles_since": round(gauge.miles, 1),
    }
    if fuel.burned_percent:
        origin["source"] = FUEL_BEFORE_DRIVE
        origin["burned_percent"], origin["burned_miles"] = round(fuel.burned_percent, 1), round(fuel.miles, 1)
    if fuel.doubted is not None:
        origin["doubted_percent"], origin["doubted_at"] = fuel.doubted.percent, utc_text(fuel.doubted.recorded_at)
    return origin


def _moment(time: datetime | None) -> str | None:
    return utc_text(time) if time is not None else None


_INSERT_PLAN = Command(
    "INSERT INTO plans (id, company_id, environment, route_id, revision, generated_at, document, explanation, timeline,"
    " fuel_percent, fuel_at, price_set, as_of, coarse_way, cause, station_ids, driver_facts)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


def store_plan(
    connection: Connection,
    task: PlanTask,
    corridor: Corridor,
    plan: ComputedPlan | NoPlan,
    *,
    now: datetime,
    cause: PlanCause | None = None,
    before: Sequence[TimelineEntry] = (),
) -> UUID:
    """Store a plan, or the reason why there is none. Returns its id.

    `cause` says why the plan is made, where the route has a plan already. `before` is the timeline of that plan.
    Planned arrivals at stops behind the truck are kept from it.
    """
    plan_id = new_id()
    _INSERT_PLAN.execute(
        connection,
        (
            plan_id,
            task.route.company_id,
            task.route.environment,
            task.route.id,
            task.route.revision,
            now,
            as_json(plan.document()) if isinstance(plan, ComputedPlan) else None,
            plan.packed_explanation,
            as_json(_entries_behind(task, before) + timeline_of(task, plan) if isinstance(plan, ComputedPlan) else []),
            task.read_percent,
            task.fuel.recorded_at if task.fuel is not None else None,
            corridor.price_set,
            task.as_of,
            coarse_way_of(plan) if isinstance(plan, ComputedPlan) else None,
            as_json(cause) if cause is not None else None,
            [stop.station.station_id for stop in plan.stops] if isinstance(plan, ComputedPlan) else [],
            as_json(driver_facts_of(plan)) if isinstance(plan, ComputedPlan) else None,
        ),
    )
    return plan_id


def _entries_behind(task: PlanTask, before: Sequence[TimelineEntry]) -> list[TimelineEntry]:
    behind = [entry for entry in before if entry["stop"] not in (0, *task.stops_left)]
    return [TimelineEntry(stop=entry["stop"], mile=None, plannedArrival=entry["plannedArrival"]) for entry in behind]


def timeline_of(task: PlanTask, plan: ComputedPlan) -> list[TimelineEntry]:
    """The road mile and the planned arrival of each stop left, and of the first stop. The road starts at the truck.

    A first stop that the truck has reached already has no mile. Its planned arrival is when its window opens, else the
    scheduled start, and in any case before the truck goes on.
    """
    ahead = [
        TimelineEntry(stop=stop, mile=point.mile, plannedArrival=utc_text(point.arrival) if point.arrival else None)
        for stop, point in zip(task.stops_left, plan.points, strict=False)
    ]
    if 0 in task.stops_left:
        return ahead
    start = task.route.scheduled_start
    due = min(opening_of(task.route.stops[0]) or start, start, task.departure)
    return [TimelineEntry(stop=0, mile=None, plannedArrival=utc_text(due)), *ahead]


_AWAIT_MENU = Command("UPDATE plans SET menu_due_at = %s WHERE id = %s")


def await_menu(connection: Connection, plan_id: UUID, *, now: datetime) -> None:
    """Notes that a new plan waits for its menu. Its driver gets that plan."""
    _AWAIT_MENU.execute(connection, (now + SWEEP_GRACE, plan_id))


_BEGIN_ATTEMPT = Scalar(
    int,
    "UPDATE plans SET menu_attempts = menu_attempts + 1 WHERE id = %s AND menu_due_at IS NOT NULL"
    " RETURNING menu_attempts",
)


def begin_attempt_at_menu(connection: Connection, plan_id: UUID) -> int:
    """Counts an attempt at the menu of a plan. Returns the number so far; 0 where the plan waits for no menu."""
    return _BEGIN_ATTEMPT.first(connection, (plan_id,)) or 0


_END_MENU = Scalar(UUID, "UPDATE plans SET menu_due_at = NULL WHERE id = %s AND menu_due_at IS NOT NULL RETURNING id")


def end_menu(connection: Connection, plan_id: UUID) -> bool:
    """The plan waits for no menu any more. False if it did not wait."""
    return _END_MENU.first(connection, (plan_id,)) is not None


_CONFIRM = Command("UPDATE plans SET fuel_percent = %s, price_set = %s WHERE id = %s")


def confirm_plan(connection: Connection, plan_id: UUID, *, fuel_percent: float, price_set: int | None) -> None:
    """Store the fuel level and the newest import of prices by which a review has kept a plan."""
    _CONFIRM.execute(connection, (fuel_percent, price_set, plan_id))


_TAKE = Command("""UPDATE plans SET cause = cause || '{"takenByDriver": true}' WHERE id = %s""")


def note_taken(connection: Connection, plan_id: UUID) -> None:
    """Stores that the driver has a plan that was made again, whatever becomes of its message."""
    _TAKE.execute(connection, (plan_id,))


_MOVE_STOPS = Command(
    """
    UPDATE plans SET timeline = coalesce((
        SELECT jsonb_agg(jsonb_set(entry, '{stop}', to_jsonb(moved.target)) ORDER BY moved.target)
        FROM jsonb_array_elements(timeline) AS entry
        JOIN unnest(%s::int[], %s::int[]) AS moved (source, target) ON moved.source = (entry->>'stop')::int), '[]')
    WHERE route_id = %s
    """
)


def move_stops(connection: Connection, route_id: UUID, moves: Mapping[int, int]) -> None:
    """Rewrite the timelines of a route's plans after its stops have changed. `moves` has the new position of each stop
    that stays; other stops are removed."""
    _MOVE_STOPS.execute(connection, (list(moves), list(moves.values()), route_id))
