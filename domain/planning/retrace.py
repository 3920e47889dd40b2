"""Drives a stored plan again, from the plan's document and the inputs kept with it, to find its faults and the fuel in
the tank along the road."""

import math
import zlib
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import NamedTuple

import msgspec

from domain.documents import FuelPlanDocument, FuelStopDocument
from domain.planning.explanation import ExplainedCandidate, Explanation, FullExplanation, unpack_explanation
from domain.planning.reasons import trip_of
from domain.planning.trips import BrokenPlan, Purchase, Trip, drive_trip, fuel_without_purchases, objective_of
from domain.stations.prices import PRICE_DECIMALS

_CENT = Decimal("0.01")
_OBJECTIVE_DOLLARS = 0.01
_PERCENT = 1e-4


def faults_of_plan(document: FuelPlanDocument, explanation: bytes | None) -> list[str]:
    """The faults of a plan; empty if it has none. Its totals must be the sums of its stops, to the cent. While its
    explanation is still kept, its stops must be the purchases there, the trip must keep every limit, and the objective
    must be the stored one."""
    try:
        found = list(_faults_of_totals(document))
        if explanation is not None:
            found += _faults_of_trip(document["stops"], unpack_explanation(explanation))
    except BrokenPlan as error:
        return [str(error)]
    except (KeyError, TypeError, IndexError, zlib.error, msgspec.DecodeError) as error:
        return [f"it cannot be read: {type(error).__name__} {error}"]
    return found


def _faults_of_totals(document: FuelPlanDocument) -> Iterator[str]:
    stops = document["stops"]
    if [stop["sequence"] for stop in stops] != list(range(len(stops))):
        yield "its stops are not numbered from 0"
    for stop in stops:
        exact = Decimal(str(stop["gallonsToFill"])) * Decimal(str(stop["pricePerGallon"]))
        if abs(exact - Decimal(str(stop["totalCost"]))) > _CENT / 2:
            yield f"stop {stop['sequence']} costs {stop['totalCost']}, its gallons cost {exact:.2f}"
    for name, total, parts in (
        ("totalCost", document["totalCost"], [stop["totalCost"] for stop in stops]),
        ("totalGallons", document["totalGallons"], [stop["gallonsToFill"] for stop in stops]),
    ):
        if abs(Decimal(str(total)) - sum(Decimal(str(part)) for part in parts)) >= _CENT / 10:
            yield f"its {name} is {total}, the sum of its stops {math.fsum(parts):.3f}"


def _faults_of_trip(stops: Sequence[FuelStopDocument], explanation: Explanation) -> Iterator[str]:
    """The faults of the stops against the explanation. Raises BrokenPlan for a limit that is not kept, which the caller
    lists as a fault."""
    bought = [(index, one) for index, one in enumerate(explanation["candidates"]) if one["gallons"]]
    if [_shown(one) for _, one in bought] != [
        (stop["milesFromOrigin"], stop["gallonsToFill"], stop["pricePerGallon"]) for stop in stops
    ]:
        yield "its stops are not the purchases of its explanation"
        return
    trip = trip_of(explanation)
    purchases = [Purchase(index, one["gallons"]) for index, one in bought]
    arriving = drive_trip(trip, purchases)
    capacity = explanation["inputs"]["capacity_gallons"]
    for stop, gallons in zip(stops, arriving, strict=False):
        percent = 100 * gallons / capacity
        if not percent - 1 - _PERCENT < stop["arrivalFuelPercent"] <= percent + _PERCENT:
            shown = stop["arrivalFuelPercent"]
            yield f"stop {stop['sequence']} shows {shown} % on arrival, driven it is {percent:.1f} %"
    objective = explanation["objective"]
    # prices less tax are kept unrounded, the objective was computed with rounded ones
    tolerance = _OBJECTIVE_DOLLARS + sum(gallons for _, gallons in purchases) * 10**-PRICE_DECIMALS
    if objective is None or abs(objective - objective_of(trip, purchases)) > tolerance:
        yield f"its objective is {objective}, driven it is {objective_of(trip, purchases):.2f}"


def _shown(one: ExplainedCandidate) -> tuple[float, float, float]:
    return one["mile"], one["gallons"], one["net_price"]


class TankLevel(NamedTuple):
    """The fuel in the tank at a mile of the road."""

    mile: float
    gallons: float


def planned_levels(explanation: Explanation | FullExplanation) -> list[TankLevel]:
    """The fuel in the tank along the road, as corners of a line: at the start, before and after each purchase, at the
    plan's end. The detour to a station burns its fuel at the station's mile."""
    trip = trip_of(explanation)
    purchases = [
        Purchase(index, one["gallons"]) for index, one in enumerate(explanation["candidates"]) if one["gallons"]
    ]
    *arriving, last = fuel_without_purchases(trip, purchases)
    levels, bought = [TankLevel(0.0, trip.start_usable_gallons)], 0.0
    for (index, gallons), arrival in zip(purchases, arriving, strict=True):
        mile = trip.candidates[index].mile
        levels += [TankLevel(mile, arrival + bought), TankLevel(mile, arrival + bought + gallons)]
        bought += gallons
    return list(_with_legs(trip, [*levels, TankLevel(trip.distance_miles, last + bought)]))


def _with_legs(trip: Trip, levels: Sequence[TankLevel]) -> Iterator[TankLevel]:
    """The corners of the line, and those between them where a leg with another burn begins."""
    yield levels[0]
    for before, after in pairwise(levels):
        from_gallons, to_gallons = trip.gallons_to(before.mile), trip.gallons_to(after.mile)
        for mile, gallons in trip.burned:
            if before.mile < mile < after.mile:
                share = (gallons - from_gallons) / (to_gallons - from_gallons)
                yield TankLevel(mile, before.gallons + share * (after.gallons - before.gallons))
        yield after


def shown_levels(document: FuelPlanDocument, *, start_gallons: float, mpg: float) -> list[TankLevel]:
    """The fuel in the tank along the road, by the plan's document alone: for a plan without an explanation. Detours are
    left out."""
    levels, gallons, mile = [TankLevel(0.0, start_gallons)], start_gallons, 0.0
    for stop in document["stops"]:
        gallons -= (stop["milesFromOrigin"] - mile) / mpg
        mile = stop["milesFromOrigin"]
        levels += [TankLevel(mile, gallons), TankLevel(mile, gallons + stop["gallonsToFill"])]
        gallons += stop["gallonsToFill"]
    end = document["totalDistanceMiles"]
    return [*levels, TankLevel(end, gallons - (end - mile) / mpg)]
