"""Plans for tests: a road due north, priced stations beside it, and a truck; a plan driven from what it shows alone."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import pytest

from domain.accounts.policy import PlanPolicy, Policy
from domain.burn.figures import figure_of
from domain.contract.captions import captioned_fields
from domain.planning.explanation import Explanation
from domain.planning.fuel_plan import ComputedPlan, compute_plan
from domain.planning.plan_inputs import PlanInputs
from domain.planning.reasons import trip_of
from domain.planning.trips import Purchase, drive_trip
from domain.planning.ways_out import HardFloor
from domain.roads import Leg, Road
from domain.roads.sphere import MILES_PER_DEGREE
from domain.stations.corridor import StationIndex
from domain.stations.offers import Offer, Station

NO_HARD_FLOOR = HardFloor(-1000.0, -10_000.0)
"""So low that a fuel stop needs no way out."""

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)


def meridian(*stop_miles: float, mph: float = 50.0) -> Road:
    """A road that runs north from 30 N, 100 W, on which a straight mile is a mile."""
    legs = []
    for start, end in zip((0.0, *stop_miles), stop_miles, strict=False):
        line = np.array([(30.0 + mile / MILES_PER_DEGREE, -100.0) for mile in (start, end)])
        legs.append(Leg(line, np.array([0.0, end - start]), (end - start) / mph, "test"))
    return Road.of(legs)


class Priced(NamedTuple):
    station: Station
    price: float
    tax: float | None = None


def priced(mile: float, price: float, *, east_miles: float = 0.0, tax: float | None = None, **details: Any) -> Priced:
    """A station beside the `meridian`."""
    latitude = 30.0 + mile / MILES_PER_DEGREE
    longitude = -100.0 + east_miles / MILES_PER_DEGREE / math.cos(math.radians(latitude))
    given = Station(f"S{mile:g}", f"Station {mile:g}", None, "I-35 Exit 1", "Waco", "TX", latitude, longitude)
    return Priced(given._replace(**details), price, tax)


def offers(road: Road, stations: Sequence[Priced], max_detour_miles: float = 5.0) -> list[Offer]:
    """The offers of the stations that the road passes."""
    index = StationIndex.build(
        [priced.station.station_id for priced in stations],
        [(priced.station.latitude, priced.station.longitude) for priced in stations],
    )
    return [
        Offer(stations[at].station, mile, detour_miles, stations[at].price, stations[at].tax)
        for at, mile, detour_miles in index.passes(road, max_detour_miles)
    ]


def usual_policy(**changes: Any) -> PlanPolicy:
    """The policy of a new company, with these changes."""
    usual: dict[str, Any] = {
        field.name: field.type(field.default) if field.default else None
        for field in captioned_fields(Policy, *PlanPolicy._fields)
    }
    return PlanPolicy(**usual | changes)


def inputs(road: Road, *stations: Priced, fuel_percent: float | None = 50.0, **policy: Any) -> PlanInputs:
    """A truck of 200 gal and 5 mpg. Half full it can drive 350 miles down to its reserve of 30 gal."""
    return PlanInputs(
        road=road,
        fuel_percent=fuel_percent,
        policy=usual_policy(**policy),
        offers=offers(road, stations),
        departure=NOW,
        capacity_gallons=200.0,
        burn=figure_of(5.0),
    )


def feasible(inputs: PlanInputs) -> ComputedPlan:
    plan = compute_plan(inputs)
    assert isinstance(plan, ComputedPlan), plan
    return plan


def drive_shown_plan(document: Mapping[str, Any], explanation: Explanation) -> tuple[float, ...]:
    """Drive a plan knowing only what it shows, and check that rows, totals and explanation agree."""
    document, explanation = json.loads(json.dumps(document)), json.loads(json.dumps(explanation))
    given = explanation["inputs"]
    trip = trip_of(explanation)
    chosen = [(index, one) for index, one in enumerate(explanation["candidates"]) if one["gallons"]]
    rows = document["stops"]
    assert [one["mile"] for _, one in chosen] == [row["milesFromOrigin"] for row in rows]
    assert [one["gallons"] for _, one in chosen] == [row["gallonsToFill"] for row in rows]
    assert [one["net_price"] for _, one in chosen] == [row["pricePerGallon"] for row in rows]
    assert [row["sequence"] for row in rows] == list(range(len(rows)))

    cents = [round(row["totalCost"] * 100) for row in rows]
    assert all(
        abs(row["gallonsToFill"] * row["pricePerGallon"] * 100 - cent) <= 0.5 + 1e-6
        for row, cent in zip(rows, cents, strict=True)
    )
    assert round(document["totalCost"] * 100) == sum(cents)
    assert document["totalGallons"] == pytest.approx(sum(row["gallonsToFill"] for row in rows), abs=1e-9)
    if rows:
        assert document["averagePricePerGallon"] * document["totalGallons"] == pytest.approx(
            document["totalCost"], abs=0.005
        )
        assert document["savingsPerGallon"] * document["totalGallons"] == pytest.approx(
            document["savingsTotal"], abs=0.006
        )
    fuel_cost = sum(row["gallonsToFill"] * row["pricePerGallon"] for row in rows)
    assert explanation["objective"] == pytest.approx(fuel_cost + given["stop_cost"] * len(rows), abs=1e-5)

    arrivals = drive_trip(trip, [Purchase(index, one["gallons"]) for index, one in chosen])
    for row, gallons in zip(rows, arrivals, strict=False):
        assert isinstance(row["arrivalFuelPercent"], int)
        assert row["arrivalFuelPercent"] <= 100 * gallons / given["capacity_gallons"] + 1e-5
        assert row["arrivalFuelPercent"] > 100 * gallons / given["capacity_gallons"] - 1
    return arrivals
