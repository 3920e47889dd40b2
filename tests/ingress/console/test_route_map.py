"""The data of a route's map: places as in GeoJSON, stations where they are, with the reasons of the plan."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.planning.explanation import StoredExplanation, pack_explanation
from domain.roads import Point
from ingress.console.drawing import MOST_POINTS, drawn_candidates
from ingress.console.route_map import map_ground, map_moving
from tests.ingress.console.test_drawing import PLACES, history
from tests.ingress.console.test_routes import monstrous


def explained(*candidates: dict[str, Any], **changes: Any) -> Any:
    one: Any = monstrous()
    plain = one["candidates"][0]
    line = {"line": [[40.0, -90.0], [40.0, -89.0]], "line_miles": [0.0, 50.0]}
    inputs = {**one["inputs"], "distance_miles": 50.0}
    return {
        **one,
        **line,
        "inputs": inputs,
        "candidates": [{**plain, **candidate} for candidate in candidates],
        **changes,
    }


def test_a_station_stands_where_it_is_and_says_why_it_was_chosen_or_not() -> None:
    chosen = {"station_id": "S1", "name": "<b>One</b>", "mile": 10.0, "net_price": 3.1, "gallons": 80.0}
    dearer = {"station_id": "S2", "name": "Two", "mile": 25.0, "net_price": 3.2}
    moved = {"station_id": "S3", "name": "Three", "mile": 50.0, "net_price": 3.3}
    places = {"S1": Point(40.01, -89.81), "S3": Point(45.0, -80.0)}

    found = map_ground(history((40.0, -90.0), (40.0, -89.0)), explained(chosen, dearer, moved), places, [])["stations"]

    assert [one["place"] for one in found] == [(-89.81, 40.01), (-89.5, 40.0), (-89.0, 40.0)]
    assert [one["chosen"] for one in found] == [True, False, False]
    assert found[0] == {
        "place": (-89.81, 40.01),
        "name": "<b>One</b>",
        "price": "$3.100",
        "chosen": True,
        "about": "IL, mile 10.0",
        "why": "fuel here: 80.0 gal",
    }
    assert all(one["why"].startswith("not chosen, ") for one in found[1:])


def test_without_a_plan_the_map_has_straight_lines_between_the_stops() -> None:
    ground = map_ground(history((40.0, -90.0), (41.0, -89.0), (40.0, -88.0)), None, {}, [])
    assert ground == {
        "road": [(-90.0, 40.0), (-89.0, 41.0), (-88.0, 40.0)],
        "is_road": False,
        "driven": [],
        "stations": [],
        "shields": [],
    }


def test_the_map_has_the_shields_of_the_road_where_they_are_known() -> None:
    station = {"station_id": "S1", "name": "One", "mile": 30.0, "net_price": 3.1, "gallons": 80.0}
    plan = explained(station)
    plan["sources"]["roads"]["signs"] = [{"mile": 2.5, "name": "US-6"}, {"mile": 25.0, "name": "I-80 E"}]

    ground = map_ground(history((40.0, -90.0), (40.0, -89.0)), plan, {}, [])
    assert ground["shields"] == [
        {"place": (-89.95, 40.0), "name": "US-6"},
        {"place": (-89.5, 40.0), "name": "I-80 E"},
    ]
    assert ground["stations"][0]["about"] == "IL, mile 30.0, I-80 E"


def test_a_fuel_stop_has_its_exit_where_it_is_known() -> None:
    station = {"station_id": "S1", "name": "One", "mile": 30.0, "gallons": 80.0, "sign": "I-80 E, exit 122"}
    ground = map_ground(history((40.0, -90.0), (40.0, -89.0)), explained(station), {}, [])
    assert ground["stations"][0]["about"] == "IL, mile 30.0, I-80 E, exit 122"


def test_what_moves_is_the_stops_and_the_truck() -> None:
    moving = map_moving(history((40.0, -90.0), (41.0, -89.0), truck=(40.5, -89.5)))
    assert [(stop["place"], stop["reached"]) for stop in moving["stops"]] == [
        ((-90.0, 40.0), False),
        ((-89.0, 41.0), False),
    ]
    assert moving["truck"] == (-89.5, 40.5)
    assert map_moving(history((40.0, -90.0), (41.0, -89.0)))["truck"] is None


def test_a_line_over_the_antimeridian_stays_in_one_piece() -> None:
    driven = [Point(52.0, 179.0), Point(52.5, 179.9), Point(52.0, -179.5)]
    assert map_ground(history((52.0, 179.0), (52.0, -179.5)), None, {}, driven)["driven"] == [
        (179.0, 52.0),
        (179.9, 52.5),
        (180.5, 52.0),
    ]


@given(st.lists(PLACES, max_size=40))
def test_a_trail_begins_and_ends_where_the_truck_was(trail: list[tuple[float, float]]) -> None:
    driven = map_ground(history((40.0, -90.0), (41.0, -89.0)), None, {}, [Point(*place) for place in trail])["driven"]
    assert bool(driven) == bool(trail)
    if trail:
        for (longitude, latitude), (wanted_latitude, wanted_longitude) in (
            (driven[0], trail[0]),
            (driven[-1], trail[-1]),
        ):
            assert latitude == pytest.approx(wanted_latitude, abs=1e-5)
            assert (longitude - wanted_longitude + 180) % 360 - 180 == pytest.approx(0, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("feasible", [True, False])
def test_a_road_of_35_000_stations_is_drawn_with_few_points_and_few_stations(feasible: bool) -> None:
    stored = StoredExplanation(pack_explanation(monstrous(feasible=feasible)))
    explanation = stored.part(drawn_candidates(stored))
    ground = map_ground(history((40.0, -74.0), (40.0, -117.0)), explanation, {}, [])
    assert 100 < len(ground["road"]) <= MOST_POINTS
    assert len(json.dumps(ground)) < 350_000
    assert all(one["why"] for one in ground["stations"])
