"""A stored plan is driven again, from what it shows and from the inputs that were kept with it."""

import math
import zlib
from collections.abc import Iterator, Sequence
from decimal import Decimal

import msgspec

from domain.documents import FuelPlanDocument, FuelStopDocument
from domain.planning.explanation import ExplainedCandidate, Explanation, unpack_explanation
from domain.planning.reasons import trip_of
from domain.planning.trips import BrokenPlan, Purchase, drive_trip, objective_of
from domain.stations.prices import PRICE_DECIMALS

_CENT = Decimal("0.01")
_OBJECTIVE_DOLLARS = 0.01
_PERCENT = 1e-4


def faults_of_plan(document: FuelPlanDocument, explanation: bytes | None) -> list[str]:
    """The faults of a plan; empty: none. Its totals are the sums of its stops to the cent. If its explanation is still
    kept: its stops are the purchases there, the trip keeps every limit, and the objective is the one that is stored."""
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
    """Raises BrokenPlan for a limit that is not kept."""
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
