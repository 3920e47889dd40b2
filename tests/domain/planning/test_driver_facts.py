"""The driver's page tells facts beside a plan: the side of the road where it is certain, the way out, a low tank."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from domain.planning.driver_facts import driver_facts_of, is_on_left
from domain.roads import Road
from domain.roads.sphere import MILES_PER_DEGREE
from domain.stations.arrival_prices import PriceChange
from domain.stations.offers import Offer, Station
from domain.stations.prices import Deal, PriceParts
from tests.domain.planning.plans import feasible, inputs, meridian, priced

EASTWARD = Road(
    distance_miles=100.0,
    line=np.array([[40.0, -90.0], [40.0, -90.0 + 100 / MILES_PER_DEGREE / math.cos(math.radians(40))]]),
    line_miles=np.array([0.0, 100.0]),
    stop_miles=(0.0, 100.0),
    stop_hours=(0.0, 2.0),
    source="test",
)


def beside(miles_north: float, miles_ahead: float = 0.0) -> Offer:
    """An offer so many miles north of mile 50 of a road to the east, and further along it."""
    longitude = -90.0 + (50 + miles_ahead) / MILES_PER_DEGREE / math.cos(math.radians(40))
    station = Station("S-1", "Petro", None, None, None, None, 40.0 + miles_north / MILES_PER_DEGREE, longitude)
    return Offer(station, 50.0, math.hypot(miles_north, miles_ahead), 3.5)


@pytest.mark.parametrize(
    ("offer", "is_left"),
    [
        (beside(0.4), True),
        (beside(-0.4), False),
        (beside(-2.0, 1.0), False),
        (beside(0.1), None),
        (beside(5.0), None),
        (beside(0.1, 1.0), None),
    ],
    ids=["left", "right", "right and ahead", "on the line", "far away", "straight ahead"],
)
def test_the_side_of_a_station_is_told_where_it_is_certain(offer: Offer, is_left: bool | None) -> None:
    assert is_on_left(EASTWARD, offer) is is_left


def test_the_facts_of_a_plan_name_the_way_out_with_its_place() -> None:
    near, after = priced(300, 3.5), priced(340, 3.9)
    near = near._replace(station=near.station._replace(hours="24/7"))
    facts = driver_facts_of(feasible(inputs(meridian(600.0), near, after, end_fuel_percent=20.0)))

    (stop,) = facts["fuelStops"]
    assert (stop["heading"], stop["road"], stop["priceChange"], facts["lowFuel"]) == ("north", None, None, False)
    assert stop["hours"] == "24/7"
    assert stop["wayOut"] is not None
    assert stop["wayOut"]["mile"] == 340
    assert stop["wayOut"]["latitude"] == pytest.approx(after.station.latitude)


SEEN = datetime(2026, 11, 19, 12, 5, tzinfo=UTC)
RISE = PriceChange(SEEN, 3.4, 3.5)


@pytest.mark.parametrize(
    ("parts", "change", "priced_at"),
    [
        (PriceParts(3.5), None, "2026-11-19T12:05:00Z"),
        (PriceParts(3.8, [Deal(discount_per_gallon=0.3), Deal(net_price=3.6)]), None, "2026-11-19T12:05:00Z"),
        (PriceParts(3.8, [Deal(net_price=3.5)]), None, None),
        (PriceParts(None, [Deal(net_price=3.5)]), None, None),
        (PriceParts(3.5), RISE, None),
        (None, None, None),
    ],
    ids=["pump", "discount", "fixed price", "quote alone", "a price to come", "not known"],
)
def test_the_time_of_a_pump_price_is_told_where_it_makes_the_price(
    parts: PriceParts | None, change: PriceChange | None, priced_at: str | None
) -> None:
    made = inputs(meridian(600.0), priced(300, 3.5, priced_at=SEEN), end_fuel_percent=20.0)
    offers = [one._replace(parts=parts, price_change=change) for one in made.offers]

    (stop,) = driver_facts_of(feasible(replace(made, offers=offers)))["fuelStops"]

    assert stop["pricedAt"] == priced_at


def test_the_facts_of_a_plan_that_uses_its_reserve_say_so() -> None:
    low = inputs(meridian(200.0), priced(40, 3.5), fuel_percent=17.0, reserve_percent=20.0)

    assert driver_facts_of(feasible(replace(low, further_offers=low.offers)))["lowFuel"]
