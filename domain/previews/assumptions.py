"""The assumptions of a preview: each value that was not given, and where it comes from."""

from collections.abc import Iterator
from datetime import datetime

import msgspec

from domain.encoding import utc_text
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.road_notes import road_in_words
from domain.planning.schedule import MAX_DRIVING_HOURS
from domain.previews.preview_tasks import PreviewTask
from domain.previews.shapes import Assumption, PreviewInput, PreviewVehicleInput
from domain.previews.towns import default_towns
from domain.stations.corridor_offers import Corridor
from domain.wording import counted


def assumptions_of(
    asked: PreviewInput, task: PreviewTask, corridor: Corridor, plan: ComputedPlan | NoPlan, now: datetime
) -> list[Assumption]:
    return [
        *_of_stops(asked),
        *_of_start(asked, task, now),
        *_of_vehicle(asked.vehicle or PreviewVehicleInput(), task, plan),
        *_of_choice(task, plan),
        *_of_policy(asked),
        *_of_road(plan),
        *_of_prices(corridor, now),
    ]


def _of_stops(asked: PreviewInput) -> Iterator[Assumption]:
    for index, stop in enumerate(asked.stops or ()):
        if stop.town is not None:
            town = default_towns().find(stop.town)
            at = f"{town.place.latitude:.3f}, {town.place.longitude:.3f}"
            yield Assumption(f"stops[{index}].town", f"the middle of {town.label} counts, at {at}")
        if stop.address is not None:
            yield Assumption(f"stops[{index}].address", "not looked up; the coordinates or the town count")


def _of_start(asked: PreviewInput, task: PreviewTask, now: datetime) -> Iterator[Assumption]:
    departure, given = task.plan.departure, asked.scheduled_start
    if task.is_on_its_way:
        where = "the truck's newest position" if task.plan.position_at is not None else "the stop that it reached"
        yield Assumption("stops", f"the truck is on its way: the plan begins at {where}")
    if given is None:
        text = "now" if departure == now else f"{utc_text(departure)}, of the route"
        yield Assumption("scheduledStart", f"the truck leaves {text}")
    elif given < departure:
        yield Assumption("scheduledStart", f"is over; the truck leaves at {utc_text(departure)}")
    hours = f"at most {MAX_DRIVING_HOURS:g} hours of driving, then 10 hours of rest"
    yield Assumption("driver", f"is rested at the start: {hours} (49 CFR 395.3)")


def _of_vehicle(given: PreviewVehicleInput, task: PreviewTask, plan: ComputedPlan | NoPlan) -> Iterator[Assumption]:
    inputs, fuel, planned = plan.inputs, task.plan.fuel, task.plan
    if task.truck is not None and given.unit_number is None and given.vin is None:
        yield Assumption("vehicle", f"{task.truck.unit_number or 'the truck'}, of the route")
    if given.fuel_tank_capacity_gallons is None:
        source = "the vehicle" if planned.route.fuel_tank_capacity_gallons else "the default"
        yield Assumption("vehicle.fuelTankCapacityGallons", f"{inputs.rated_gallons:g} gallons, {_from(source)}")
    if given.mpg is None:
        yield Assumption("vehicle.mpg", f"{inputs.burn.mpg:g} miles a gallon, {_from(inputs.burn.source)}")
    if given.fuel_percent is not None or given.fuel_gallons is not None:
        return
    if fuel is None:
        percent = planned.policy.assumed_fuel_percent
        yield Assumption("vehicle.fuelPercent", f"{percent:g} %, the level that the company's policy assumes")
    else:
        text = f"{fuel.level_percent:.3g} %, by the truck's reading of {utc_text(fuel.recorded_at)}"
        later = "" if task.is_on_its_way else "; what it burns and buys until the start is not known"
        yield Assumption("vehicle.fuelPercent", f"{text}{later}")


def _from(source: str) -> str:
    return source if source == "the default" else f"from {source}"


def _of_choice(task: PreviewTask, plan: ComputedPlan | NoPlan) -> Iterator[Assumption]:
    if task.kept is None or isinstance(plan, NoPlan):
        return
    if plan.chosen is not None:
        yield Assumption("choice", f"the driver keeps what he has chosen: {task.kept.in_words}")
    else:
        yield Assumption("choice", f"the driver had chosen {task.kept.in_words}, but {plan.given_up}")


def _of_policy(asked: PreviewInput) -> Iterator[Assumption]:
    is_overridden = asked.policy is not None and any(one is not None for one in msgspec.structs.astuple(asked.policy))
    yield Assumption("policy", "the company's, but for the values given" if is_overridden else "the company's")


def _of_road(plan: ComputedPlan | NoPlan) -> Iterator[Assumption]:
    road = road_in_words(plan.inputs.sources["roads"])
    yield Assumption("road", f"{road.credit}; {road.truck_note}")


def _of_prices(corridor: Corridor, now: datetime) -> Iterator[Assumption]:
    prices = corridor.prices
    oldest = f", the oldest {_age(prices.oldest_at, now)} old" if prices.oldest_at is not None else ""
    yield Assumption("prices", f"{counted(len(corridor.offers), 'station')} with a price for the company{oldest}")
    left_out = sum(prices.stations_left_out.values())
    if left_out:
        yield Assumption("prices", f"{counted(left_out, 'station')} on the way left out: no price, or too old a one")
    if prices.stations_without_tax_rate:
        stations = counted(prices.stations_without_tax_rate, "station")
        yield Assumption("prices", f"{stations} in states without a known tax rate")


def _age(then: datetime, now: datetime) -> str:
    hours = max((now - then).total_seconds(), 0.0) / 3600
    return f"{hours / 24:.0f} days" if hours >= 48 else f"{hours:.0f} hours"
