"""Writes the certificate of a plan: its inputs, its purchases, and a bound with which it is proven to be the cheapest.

The bound is shown by cost functions as in `each_stop`: the least cost of the rest of the trip, by level, for a truck
that has stopped before. They are found backward from the destination. A program that knows nothing of the optimizer
checks them, `fuelroute_client/certificates.py`; it says how. With them it tries the other plans in whole steps of a
pump, as `pump_steps` does.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from itertools import product
from typing import Any

import msgspec

from domain.encoding import write
from domain.errors import FuelrouteError
from domain.planning.explanation import unpack_explanation
from domain.planning.fuel_plan import cents
from domain.planning.lower_bounds import LowerBound, find_bound
from domain.planning.pump_steps import CHEAPER_DOLLARS, TooManyBeginnings, cheaper_in_steps, step_of
from domain.planning.reasons import trip_of
from domain.planning.rounding import SPARE_GALLONS, solve_rounded, with_room
from domain.planning.trips import (
    NUMBERS,
    BurnedBy,
    Candidate,
    Purchase,
    Solution,
    Trip,
    objective_of,
)
from domain.stations.prices import PRICE_DECIMALS

FORMAT = "fuelroute-certificate-2"

EQUAL_DOLLARS = 9e-5
"""Plans that differ less cost the same: a little less than in the checker."""

MOST_TRIED_FOR_PROOF = 50_000
"""Stops that are tried at most before another bound is: half a second."""

EXACT_LIMIT_GALLONS = 2e-6
"""Plans that spare this much keep their limits exactly, though a bound gives them room, and is rounded."""

INPUT_DECIMALS = 12
"""Most decimals that the checker reads."""


class NotProven(FuelrouteError):
    """A trip is said to have no plan, but there may be one."""

    def __init__(self) -> None:
        super().__init__("there is no certificate that this trip has no plan: no bound shows it")


def certificate_of(packed: bytes, **about: Any) -> bytes:
    """The certificate of a stored plan, by its packed explanation, or that there is none. `about` tells people which
    plan it is; it proves nothing. A plan that its driver has chosen gets the bound of the cheapest one. Raises
    NotProven, which is a bug."""
    explanation = unpack_explanation(packed)
    gallons = [one["gallons"] for one in explanation["candidates"]]
    purchases = [Purchase(index, amount) for index, amount in enumerate(gallons) if amount]
    about |= {
        "objective": explanation["inputs"]["objective"],
        "relaxed": explanation["relaxed"],
        "choice": explanation.get("choice"),
        "prices": explanation["sources"].get("prices"),
        "document_sha256": sha256(zlib.decompress(packed)).hexdigest(),
    }
    trip = trip_of(explanation)
    # as the plan was made: an explanation keeps more decimals
    priced = tuple(one._replace(price=round(one.price, PRICE_DECIMALS)) for one in trip.candidates)
    return certificate_of_trip(
        replace(trip, candidates=priced),
        None if explanation["objective"] is None else purchases,
        [one["net_price"] for one in explanation["candidates"]],
        about,
        chosen="choice" in explanation,
    )


def certificate_of_trip(
    trip: Trip,
    purchases: Sequence[Purchase] | None,
    pump_prices: Sequence[float],
    about: Mapping[str, Any],
    *,
    chosen: bool = False,
) -> bytes:
    """The certificate of these purchases on a trip, or with None that it has no plan. Raises NotProven."""
    trip, pump_prices = _plain(trip), [_rounded(one) for one in pump_prices]
    cheapest = _cheapest(trip, purchases) if purchases is not None else None
    bound = _bound(trip, cheapest)
    document = {
        "format": FORMAT,
        "about": about,
        "trip": {
            **{name: getattr(trip, name) for name in NUMBERS},
            "mpg": None if trip.burned else trip.mpg,
            "burned": trip.burned,
            "spare_gallons": bound.spare_gallons,
        },
        "candidates": [
            [
                one.station_id,
                one.mile,
                one.detour_miles_in,
                one.detour_miles_out,
                pump_price,
                one.price,
                one.floor_gallons,
            ]
            for one, pump_price in zip(trip.candidates, pump_prices, strict=True)
        ],
        "plan": (
            _plan(trip, purchases, cheapest, pump_prices, chosen=chosen)
            if purchases is not None and cheapest is not None
            else None
        ),
        "bound": {"counts_stops": bound.counts_stops, "functions": bound.functions},
    }
    return write(_with_plain_numbers(document))


def _cheapest(trip: Trip, purchases: Sequence[Purchase]) -> Sequence[Purchase]:
    """The purchases of a plan if none cost less, else the cheapest ones. A plan may be its driver's choice, or of an
    earlier version."""
    solution = solve_rounded(trip)
    is_less = isinstance(solution, Solution) and solution.objective < objective_of(trip, purchases) - CHEAPER_DOLLARS
    return solution.purchases if isinstance(solution, Solution) and is_less else purchases


def same_but_for_proof(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if two certificates, perhaps of different versions, have the same plan with the same inputs."""
    return _without_proof(one) == _without_proof(other)


def _without_proof(document: Mapping[str, Any]) -> tuple[Any, ...]:
    plan, trip = document["plan"], {**document["trip"], "spare_gallons": 0}
    told = [plan[name] for name in ("stops", "dollars", "cost", "chosen")] if plan is not None else None
    return document["about"], trip, document["candidates"], told


def _bound(trip: Trip, cheapest: Sequence[Purchase] | None) -> LowerBound:
    """The first bound that proves that no purchases cost less than these, or with None that there is no plan. Where a
    trip has no plan because it would break a limit by a millionth of a gallon, other plans have to keep limits exactly;
    where too many plans are left to be tried, they have to leave as much room as a pump needs. The first bound, too,
    where none proves it: the checker then says so. Raises NotProven where there is a plan after all."""
    counted = (False,) if trip.max_stops is None else (False, True)
    bounds = []
    # Counted stops multiply the work, so the first attempt does not count them.
    for spare_gallons, counts_stops in product((0.0, EXACT_LIMIT_GALLONS, SPARE_GALLONS), counted):
        bounds.append(find_bound(trip, counts_stops=counts_stops, spare_gallons=spare_gallons))
        if _proves(bounds[-1], trip, cheapest):
            return bounds[-1]
    if cheapest is None:
        raise NotProven
    return bounds[0]


def _proves(bound: LowerBound, trip: Trip, cheapest: Sequence[Purchase] | None) -> bool:
    if cheapest is None:
        return bound.least_cost == math.inf
    least = objective_of(trip, cheapest) - EQUAL_DOLLARS
    if bound.least_cost >= least:
        return True
    others = with_room(trip, bound.spare_gallons)
    try:
        found = cheaper_in_steps(others, bound.behind, step_of(cheapest), least, most_tried=MOST_TRIED_FOR_PROOF)
    except TooManyBeginnings:
        return False
    return found is None


def _plan(
    trip: Trip,
    purchases: Sequence[Purchase],
    cheapest: Sequence[Purchase],
    pump_prices: Sequence[float],
    *,
    chosen: bool,
) -> dict[str, Any]:
    return {
        **_priced(trip, purchases, pump_prices),
        "step_gallons": step_of(cheapest),
        "chosen": chosen,
        "cheapest": None if cheapest is purchases else _priced(trip, cheapest, pump_prices),
    }


def _priced(trip: Trip, purchases: Sequence[Purchase], pump_prices: Sequence[float]) -> dict[str, Any]:
    paid = [cents(Decimal(str(gallons)) * Decimal(str(pump_prices[index]))) for index, gallons in purchases]
    return {
        "stops": [[*purchase, float(dollars)] for purchase, dollars in zip(purchases, paid, strict=True)],
        "dollars": float(sum(paid)),
        "cost": round(objective_of(trip, purchases), 6),
    }


def _plain(trip: Trip) -> Trip:
    """The trip with numbers as the checker reads them."""
    return replace(
        trip,
        **{name: _rounded(getattr(trip, name)) for name in NUMBERS},
        candidates=tuple(Candidate(*map(_rounded, one)) for one in trip.candidates),
        burned=tuple(BurnedBy(*map(_rounded, one)) for one in trip.burned),
    )


def _rounded(value: Any) -> Any:
    return round(value, INPUT_DECIMALS) if isinstance(value, float) else value


def _with_plain_numbers(value: Any) -> Any:
    """The value with each number as digits without an exponent."""
    if isinstance(value, Mapping):
        return {name: _with_plain_numbers(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_plain_numbers(one) for one in value]
    if not isinstance(value, float):
        return value
    text = format(Decimal(repr(_rounded(value))), "f")
    return msgspec.Raw((text.rstrip("0").rstrip(".") if "." in text else text).encode())
