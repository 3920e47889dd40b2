"""Directions to a fuel stop: heading, and the nearest other town."""

from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from domain.planning.directions import directions_of, heading_at, town_near
from domain.planning.reasons import with_reasons
from domain.roads import Leg, Road
from domain.roads.road_signs import Sign
from domain.stations.arrival_prices import PriceChange
from tests.domain.planning.plans import NO_HARD_FLOOR, feasible, inputs, meridian, offers, priced

ROAD = meridian(600.0)


def test_directions_tell_the_heading_of_the_road_at_the_stop() -> None:
    (directions,) = directions_of(feasible(inputs(ROAD, priced(300, 3.5), end_fuel_percent=20.0)))

    no_way_out = "If closed: no other station is in reach, ask dispatch"
    assert (directions.heading, directions.notes) == ("north", (no_way_out,))


def test_a_fuel_stop_has_the_sign_of_its_road_in_the_message_and_in_the_explanation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signs = SimpleNamespace(sign_for=lambda road, mile: Sign("I-80 E", f"{mile:.0f}"))
    plan = feasible(inputs(ROAD, priced(290, 3.9), priced(300, 3.5), end_fuel_percent=20.0))
    monkeypatch.setattr("domain.planning.fuel_plan.default_road_signs", lambda: signs)

    assert [one.sign for one in directions_of(plan)] == [Sign("I-80 E", "300")]
    passed, chosen = plan.explanation()["candidates"]
    assert (passed.get("sign"), chosen.get("sign")) == (None, "I-80 E, exit 300")


def test_a_price_that_changes_is_a_note_and_a_detail_of_the_explanation() -> None:
    midnight = datetime(2026, 11, 21, tzinfo=ZoneInfo("America/Chicago"))
    given = inputs(ROAD, priced(290, 3.9), priced(300, 3.699), end_fuel_percent=20.0)
    changing = [one._replace(price_change=PriceChange(midnight, 3.499, one.net_price)) for one in given.offers]
    plan = feasible(replace(given, offers=[given.offers[0], changing[1]], hard_floor=NO_HARD_FLOOR))

    (directions,) = directions_of(plan)
    drive_on = "If closed: drive on, the fuel reaches mile 600"
    assert directions.notes == ("Price before midnight on Fri: $3.499, then $3.699", drive_on)
    passed, chosen = with_reasons(plan.explanation())["candidates"]
    assert chosen["detail"] == "fill to 50 % (60.0 gal); before midnight on Fri: $3.499, then $3.699"
    assert chosen["price_change"] == {"at": "2026-11-21T00:00:00-06:00", "before": 3.499, "after": 3.699}
    assert "price_change" not in passed
    assert "before" not in passed["detail"]


@pytest.mark.parametrize(
    ("north", "east", "heading"),
    [(1, 0, "north"), (1, 1, "northeast"), (0, 1, "east"), (-1, 0.1, "south"), (0.2, -1, "west"), (1, -1, "northwest")],
)
def test_the_heading_is_that_of_the_road(north: float, east: float, heading: str) -> None:
    line = np.array([(0.0, 0.0), (north, east)])
    road = Road.of([Leg(line, np.array([0.0, 80.0]), 2.0, "test")])
    assert {heading_at(road, mile) for mile in (0.0, 40.0, 80.0)} == {heading}


def test_a_road_of_one_point_has_no_heading() -> None:
    road = Road.of([Leg(np.array([(41.0, -88.0), (41.0, -88.0)]), np.array([0.0, 0.0]), 0.0, "test")])
    assert heading_at(road, 0.0) is None


def test_directions_name_the_nearest_other_town_on_the_road() -> None:
    stop, twin = priced(300, 3.5, city="Waco"), priced(302, 3.6, city="Waco")
    temple, west = priced(265, 3.5, city="Temple", state="TX"), priced(318, 3.5, city="West", state=None)
    hewitt, nameless = priced(288, 3.5, city="Hewitt", state="TX"), priced(299, 3.5, city=None)

    def near(*others: object) -> str | None:
        along = offers(ROAD, [stop, *others])  # type: ignore[list-item]
        return town_near(along, next(one for one in along if one.station.station_id == "S300"))

    assert near(twin, nameless) is None
    assert near(twin, temple) is None  # too far
    assert near(twin, temple, west) == "18 mi before West"
    assert near(twin, west, hewitt, nameless) == "12 mi after Hewitt, TX"
    far = hewitt._replace(station=hewitt.station._replace(state="OK"))
    assert near(far) == "12 mi after Hewitt, OK"
