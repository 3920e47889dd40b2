"""The road that fixes show: near the true one, without stations, and none where nobody can know it."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from domain.driven_lanes.driven_road import DrivenRoad
from domain.driven_lanes.snapping import TimedPlace, UnusableFixes, is_far_longer, snapped
from domain.roads import Point, Road
from domain.roads.highways import default_highway_finder
from domain.stations.corridor import StationIndex
from tests.domain.driven_lanes.driving import BY_NASHVILLE, QUICKEST, ROADS, fixes_along
from tests.repeatable import examples

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
FINDER = default_highway_finder()

NEAR_MILES = 0.5


def share_near(road: DrivenRoad, truth: Road) -> float:
    """The share of the true road's vertices that lie within half a mile of the road found."""
    index = StationIndex.build([str(at) for at in range(len(truth.line))], [(a, b) for a, b in truth.line.tolist()])
    found = Road(float(road.miles[-1]), road.line, road.miles, (), (), "")
    return len({one.station_index for one in index.passes(found, NEAR_MILES)}) / len(truth.line)


def road_from(fixes: Sequence[TimedPlace]) -> DrivenRoad:
    return snapped(FINDER, [fixes])


@pytest.mark.slow
@settings(max_examples=examples(12), deadline=None, phases=[Phase.explicit, Phase.generate])  # shrinking takes minutes
@given(
    seed=st.integers(0, 2**20),
    minutes_apart=st.sampled_from([0.5, 1.0, 2.0, 3.0]),
    noise_meters=st.sampled_from([0.0, 15.0, 40.0]),
    gap=st.floats(40, 300),
    station=st.floats(20, 350),
    by_nashville=st.booleans(),
)
def test_the_road_of_noisy_fixes_is_within_half_a_mile_of_the_true_one(
    seed: int, minutes_apart: float, noise_meters: float, gap: float, station: float, by_nashville: bool
) -> None:
    truth = BY_NASHVILLE if by_nashville else QUICKEST
    fixes = fixes_along(
        truth,
        NOON,
        seed=seed,
        minutes_apart=minutes_apart,
        noise_meters=noise_meters,
        gaps=[(gap, gap + 9)],
        stations=[station],
    )
    road = road_from(fixes)
    assert share_near(road, truth) > 0.95
    assert road.miles[-1] == pytest.approx(truth.distance_miles, rel=0.03)
    assert road.hours[-1] == pytest.approx(truth.stop_hours[-1], rel=0.08)
    assert (np.diff(road.miles) >= 0).all()
    assert (np.diff(road.hours) >= 0).all()


def test_what_is_stored_is_the_same_road() -> None:
    road = road_from(fixes_along(BY_NASHVILLE, NOON))
    again = DrivenRoad.unpack(road.pack())
    assert again.stop_vertices == road.stop_vertices
    assert np.abs(again.line - road.line).max() < 1e-5
    assert np.abs(again.miles - road.miles).max() < 1e-3
    assert np.abs(again.hours - road.hours).max() < 1e-4
    assert again.pack() == road.pack()
    assert len(road.pack()) < 16_000


def test_a_road_that_the_file_lacks_is_that_of_the_fixes() -> None:
    """Straight over land where no main road is."""
    straight = ROADS.through([Point(42.6, -101.6), Point(43.0, -101.0)])
    line = np.linspace((42.60, -101.60), (43.00, -101.00), 40)
    fixes = [TimedPlace(Point(*place), NOON + timedelta(minutes=at)) for at, place in enumerate(line.tolist())]
    road = road_from(fixes)
    truth = Road(1.0, line, np.linspace(0, 1, 40), (), (), "")
    assert share_near(road, truth) > 0.95
    assert road.miles[-1] < 1.1 * straight.distance_miles


def test_a_station_beside_the_road_is_no_part_of_it() -> None:
    without = road_from(fixes_along(QUICKEST, NOON))
    with_stations = road_from(fixes_along(QUICKEST, NOON, stations=[50, 200, 400]))
    assert with_stations.miles[-1] == pytest.approx(without.miles[-1], abs=2)


@pytest.mark.parametrize("gap", [(100, 330)])
def test_a_trip_that_is_mostly_unknown_is_refused(gap: tuple[float, float]) -> None:
    with pytest.raises(UnusableFixes, match="gap"):
        road_from(fixes_along(QUICKEST, NOON, gaps=[gap]))


def test_a_wild_fix_is_left_out_and_many_are_refused() -> None:
    fixes = fixes_along(QUICKEST, NOON)
    wild = [
        TimedPlace(Point(one.place.latitude + 2, one.place.longitude), one.at) if at % 40 == 20 else one
        for at, one in enumerate(fixes)
    ]
    assert share_near(road_from(wild), QUICKEST) > 0.97
    jumping = [
        TimedPlace(Point(one.place.latitude + 2, one.place.longitude), one.at) if at % 8 == 4 else one
        for at, one in enumerate(fixes)
    ]
    with pytest.raises(UnusableFixes, match="too fast"):
        road_from(jumping)


def test_a_trip_without_fixes_or_in_no_time_is_refused() -> None:
    with pytest.raises(UnusableFixes):
        road_from([TimedPlace(Point(41.0, -88.0), NOON)])
    hurried = [TimedPlace(one.place, NOON + (one.at - NOON) / 3) for one in fixes_along(QUICKEST, NOON, noise_meters=0)]
    with pytest.raises(UnusableFixes, match="too fast"):
        road_from(hurried)


def test_a_way_round_half_the_country_is_far_longer() -> None:
    road = road_from(fixes_along(BY_NASHVILLE, NOON))
    assert not is_far_longer(road, QUICKEST.distance_miles)
    detour = ROADS.through([Point(41.462, -88.125), Point(39.74, -104.99), Point(35.10, -89.95)])
    assert is_far_longer(road_from(fixes_along(detour, NOON)), QUICKEST.distance_miles)


def test_places_that_are_no_numbers_of_a_road_end_well() -> None:
    """At a pole, over the antimeridian, all at one place: refused, or a road; never anything else."""
    for places in (
        [(89.9, at * 10.0 - 180) for at in range(36)],
        [(52.0, (179.5 + at / 100 + 180) % 360 - 180) for at in range(100)],
        [(41.0, -88.0)] * 50,
    ):
        fixes = [TimedPlace(Point(*place), NOON + timedelta(minutes=5 * at)) for at, place in enumerate(places)]
        with suppress(UnusableFixes):
            assert np.isfinite(road_from(fixes).line).all()
