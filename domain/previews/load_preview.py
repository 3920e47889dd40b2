"""Previews the fuel of a load: the plan that it would get now, and what it costs by state and by mile."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import fmean
from typing import NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import numpy as np

from domain.accounts.companies import time_zone_of
from domain.clock import LAST_MOMENT
from domain.contract.checking import Invalid
from domain.contract.shapes import FieldFault, FuelPlan
from domain.database.connections import Connection, Tenant
from domain.ids import shown_id
from domain.ifta.driven_routes import TaxRate, read_tax_rates
from domain.ifta.legs import state_of_station
from domain.ifta.quarters import Quarter
from domain.ifta.report import NO_MEMBERS, tax_due
from domain.lifecycle import Environment
from domain.planning.fuel_plan import ComputedPlan, NoPlan, PlannedPoint, cents
from domain.planning.menu import find_choices
from domain.planning.plan_inputs import MILE_DECIMALS
from domain.planning.planner import Planner
from domain.planning.reasons import ways_of_fueling
from domain.planning.road_notes import second_way_in_words
from domain.planning.schedule import arrivals_along
from domain.planning.trips import drive_trip
from domain.previews.assumptions import assumptions_of
from domain.previews.preview_tasks import PreviewTask, read_preview_task
from domain.previews.shapes import (
    InfeasibleLeg,
    LoadPreview,
    PreviewAlternative,
    PreviewInput,
    PreviewSecondWay,
    PreviewState,
    PreviewStop,
    PreviewVehicle,
    RelaxedPolicyLimit,
    SimpleWay,
    policy_in_force,
)
from domain.roads import Point
from domain.roads.states import default_states
from domain.stations.corridor_offers import Corridor, TooManyPasses

Plan = ComputedPlan | NoPlan

_HOURS_DECIMALS, _FIGURE_DECIMALS, _RATE_DECIMALS, _DEGREE_DECIMALS = 2, 2, 3, 6


class Previewed(NamedTuple):
    """The answer, and the plan that it was made from."""

    answer: LoadPreview
    plan: Plan


def preview_load(planner: Planner, tenant: Tenant, asked: PreviewInput, *, now: datetime) -> Previewed:
    """The preview of a load, made in transactions that only read. Raises Invalid with every fault, and NoSuchRoute."""
    with planner.snapshots() as connection:
        task = read_preview_task(connection, tenant, asked, now)
        rates = read_tax_rates(connection, _quarter(connection, tenant, task.plan.departure))
    try:
        corridor, plan = planner.plan(task.plan, now)
    except TooManyPasses as many:
        field = "policy.maxDetourMiles" if _has_own_detour(asked) else "stops"
        raise Invalid([FieldFault(field=field, message=f"{str(many)[0].upper()}{str(many)[1:]}")]) from None
    return Previewed(_answer(asked, task, corridor, plan, rates, now), plan)


def _quarter(connection: Connection, tenant: Tenant, departure: datetime) -> Quarter:
    """The quarter of the departure by the company's clock, as in the IFTA report."""
    zone = ZoneInfo(time_zone_of(connection, tenant.company_id))
    return Quarter.of(min(departure, LAST_MOMENT - timedelta(days=1)).astimezone(zone))


def _has_own_detour(asked: PreviewInput) -> bool:
    return asked.policy is not None and msgspec.structs.asdict(asked.policy)["max_detour_miles"] is not None


def _answer(
    asked: PreviewInput, task: PreviewTask, corridor: Corridor, plan: Plan, rates: dict[str, TaxRate], now: datetime
) -> LoadPreview:
    tank = _Tank.of(plan)
    states = _states(plan, tank.burned_gallons, rates)
    points = _points(task, plan)
    arrival = points[-1].arrival
    inputs, road = plan.inputs, plan.inputs.road
    answer = LoadPreview(
        environment=Environment(task.plan.route.environment),
        generated_at=now,
        departure=task.plan.departure,
        arrival=arrival,
        distance_miles=inputs.road_miles,
        driving_hours=round(road.stop_hours[-1], _HOURS_DECIMALS),
        hours=_hours(arrival, task.plan.departure),
        vehicle=_vehicle(task, plan),
        policy=policy_in_force(task.plan.policy),
        stops=_stops(task, points),
        fuel_plan=_fuel_plan(plan) if isinstance(plan, ComputedPlan) else None,
        infeasible=_infeasible(plan) if isinstance(plan, NoPlan) else None,
        gallons_burned=round(tank.burned_gallons, _FIGURE_DECIMALS),
        end_fuel_percent=tank.end_percent,
        cost_per_mile=_cost_per_mile(plan, tank.burned_gallons),
        tax_dollars=_tax(states),
        states=states,
        relaxed=[
            RelaxedPolicyLimit(_camel(one.limit), one.policy, one.used)
            for one in plan.limits.relaxed_from(inputs.limits)
        ],
        second_ways=_second_ways(plan),
        alternatives=_alternatives(plan) if isinstance(plan, ComputedPlan) else [],
        simple_ways=_simple_ways(plan) if isinstance(plan, ComputedPlan) else [],
        assumed=assumptions_of(asked, task, corridor, plan, now),
    )
    if asked.line:
        answer.line = np.round(road.line, _DEGREE_DECIMALS).tolist()
    return answer


class _Tank(NamedTuple):
    """The gallons that the trip burns, detours included, and the level at its end; None where no plan is feasible."""

    burned_gallons: float
    end_percent: float | None

    @classmethod
    def of(cls, plan: Plan) -> "_Tank":
        trip = plan.trip
        if isinstance(plan, NoPlan):
            return cls(trip.gallons_to(trip.distance_miles), None)
        *_, left = drive_trip(trip, plan.purchases)
        burned = min(trip.start_gallons, trip.usable_gallons) + plan.total_gallons - left
        return cls(burned, round(100 * left / plan.inputs.rated_gallons, 1))


def _points(task: PreviewTask, plan: Plan) -> Sequence[PlannedPoint]:
    """The points of the road after the first. Without a plan the truck makes no fuel stop."""
    if isinstance(plan, ComputedPlan):
        return plan.points
    road = plan.inputs.road
    _, arrivals = arrivals_along(road, task.plan.departure, plan.inputs.opens, [])
    miles = (round(mile, MILE_DECIMALS) for mile in road.stop_miles[1:])
    return [PlannedPoint(*one) for one in zip(miles, arrivals, strict=False)]


def _hours(arrival: datetime | None, departure: datetime) -> float | None:
    return round((arrival - departure).total_seconds() / 3600, _HOURS_DECIMALS) if arrival is not None else None


def _vehicle(task: PreviewTask, plan: Plan) -> PreviewVehicle:
    inputs, truck = plan.inputs, task.truck
    return PreviewVehicle(
        id=shown_id("veh", truck.id) if truck is not None else None,
        unit_number=truck.unit_number if truck is not None else None,
        fuel_tank_capacity_gallons=inputs.rated_gallons,
        mpg=round(plan.trip.mpg, _FIGURE_DECIMALS),
        fuel_percent=round(100 * inputs.start_gallons / inputs.rated_gallons, 1),
    )


def _stops(task: PreviewTask, points: Sequence[PlannedPoint]) -> list[PreviewStop]:
    """The stops that are left, and the first one where the truck begins there."""
    begin = [] if task.is_on_its_way else [(0, PlannedPoint(0.0, task.plan.departure))]
    return [
        PreviewStop(
            sequence=number,
            name=stop["name"],
            latitude=stop["latitude"],
            longitude=stop["longitude"],
            miles_from_origin=point.mile,
            planned_arrival=point.arrival,
        )
        for number, point in [*begin, *zip(task.plan.stops_left, points, strict=False)]
        for stop in [task.plan.route.stops[number]]
    ]


def _fuel_plan(plan: ComputedPlan) -> FuelPlan:
    return msgspec.convert({"status": "planned", **plan.document()}, FuelPlan)


def _infeasible(plan: NoPlan) -> InfeasibleLeg:
    leg = plan.infeasible
    return InfeasibleLeg(leg.from_mile, leg.to_mile, leg.reason)


def _cost_per_mile(plan: Plan, burned_gallons: float) -> float | None:
    """The fuel burned at the plan's average price, or at the mean of the corridor where nothing is bought."""
    prices = [offer.net_price for offer in plan.inputs.offers]
    bought = plan.average_price_per_gallon if isinstance(plan, ComputedPlan) else 0.0
    price = bought or (fmean(prices) if prices else None)
    miles = plan.inputs.road_miles
    return round(price * burned_gallons / miles, _RATE_DECIMALS) if price is not None and miles else None


def _states(plan: Plan, burned_gallons: float, rates: dict[str, TaxRate]) -> list[PreviewState]:
    """The states in driving order. Each burns its share of the gallons by its miles."""
    road, borders = plan.inputs.road, default_states()
    miles = borders.miles(road.line, road.line_miles)
    gallons, dollars = defaultdict[str, Decimal](Decimal), defaultdict[str, Decimal](Decimal)
    for stop in plan.stops if isinstance(plan, ComputedPlan) else ():
        station = stop.station
        state = state_of_station(station.state, Point(station.latitude, station.longitude), borders)
        gallons[state] += Decimal(str(stop.gallons_to_fill))
        dollars[state] += stop.total_cost
    length = sum(miles.values())
    return [
        _state(
            state,
            miles.get(state, 0.0),
            burned_gallons * miles.get(state, 0.0) / length if length else 0.0,
            float(gallons[state]),
            float(dollars[state]),
            rates.get(state),
        )
        for state in dict.fromkeys([*miles, *gallons])
    ]


def _state(
    state: str, miles: float, burned: float, bought: float, dollars: float, rate: TaxRate | None
) -> PreviewState:
    burned = round(burned, _FIGURE_DECIMALS)
    return PreviewState(
        state=state,
        miles=round(miles, _FIGURE_DECIMALS),
        gallons_burned=burned,
        gallons_bought=bought,
        dollars=dollars,
        tax_per_gallon=rate.rate_per_gallon if rate is not None else None,
        surcharge_per_gallon=rate.surcharge_per_gallon if rate is not None else None,
        tax_dollars=tax_due(rate, burned, bought),
    )


def _tax(states: Sequence[PreviewState]) -> float | None:
    """The sum over the states; None where that of a member of IFTA is not known."""
    if any(one.tax_dollars is None and one.state not in NO_MEMBERS for one in states):
        return None
    return float(sum(Decimal(str(one.tax_dollars)) for one in states if one.tax_dollars is not None))


def _second_ways(plan: Plan) -> list[PreviewSecondWay]:
    return [
        PreviewSecondWay(
            from_mile=way["from_mile"],
            to_mile=way["to_mile"],
            longer_percent=way["longer_percent"],
            longer_miles=way["longer_miles"],
            shared_percent=way["shared_percent"],
            stations=way["stations"],
            stations_shared=way["stations_shared"],
            text=second_way_in_words(way),
        )
        for way in plan.inputs.sources["roads"].get("second_ways", ())
    ]


def _alternatives(plan: ComputedPlan) -> list[PreviewAlternative]:
    return [
        PreviewAlternative(
            kind=choice.kind,
            extra_cost=float(choice.extra),
            extra_cost_at_pumps=float(choice.extra_at_pumps),
            fuel_plan=_fuel_plan(choice.plan),
        )
        for choice in find_choices(plan)
    ]


def _simple_ways(plan: ComputedPlan) -> list[SimpleWay]:
    bought = dict(plan.purchases)
    gallons = [bought.get(index, 0.0) for index in range(len(plan.trip.candidates))]
    return [
        SimpleWay(
            name=way["name"],
            cost=_cents(way["objective"]),
            cost_less_leftover=_cents(way["objective_less_leftover"]),
            stops=way["stops"],
        )
        for way in ways_of_fueling(plan.trip, gallons, plan.objective)
    ]


def _cents(dollars: float | None) -> float | None:
    return float(cents(Decimal(str(dollars)))) if dollars is not None else None


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
