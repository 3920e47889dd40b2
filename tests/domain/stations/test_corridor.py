"""The corridor has all stations near the road and no other, and each pass once, as a search that samples the road."""

import math
import random
from collections import Counter
from itertools import groupby

import numpy as np
import pytest
from scipy.spatial import cKDTree

from domain.roads import Leg, Point, Road, great_circle_miles
from domain.roads.sphere import MILES_PER_DEGREE, densified, segment_miles, unit_vectors
from domain.stations import corridor
from domain.stations.corridor import StationIndex, StationPass, passes_by

LIMIT_MILES = 5.0
SAMPLE_MILES = 0.02


def road(*points: tuple[float, float], circuity: float = 1.0) -> Road:
    line = np.array(points, dtype=np.float64)
    line_miles = circuity * np.concatenate([[0.0], np.cumsum(segment_miles(line))])
    return Road.of([Leg(line, line_miles, hours=1.0, source="test")])


def passes(road: Road, *places: tuple[float, float], limit: float = LIMIT_MILES) -> list[StationPass]:
    return StationIndex.build([str(place) for place in places], places).passes(road, limit)


def sampled_passes(road: Road, places: list[tuple[float, float]], limit: float) -> list[StationPass]:
    """The passes of the road, found by sampling it every hundred feet."""
    line, line_miles = densified(road.line, road.line_miles, SAMPLE_MILES)
    vectors = unit_vectors(line)
    found = []
    for index, vector in enumerate(unit_vectors(np.array(places))):
        angles = 2 * np.arcsin(np.minimum(np.linalg.norm(vectors - vector, axis=1) / 2, 1))
        miles = angles * MILES_PER_DEGREE * 180 / math.pi
        near = (miles <= limit).tolist()
        for within, stretch in groupby(range(len(line)), key=near.__getitem__):
            if within:
                nearest = min(stretch, key=lambda i: miles[i])
                found.append(StationPass(index, float(line_miles[nearest]), float(miles[nearest])))
    return sorted(found, key=lambda found: (found.mile, found.station_index))


def wandering_road(rng: random.Random, start: Point) -> Road:
    """A road of a dozen stretches of up to 25 miles, with turns sharp enough to come back to the same station."""
    points, heading = [start], rng.uniform(0, 360)
    for _ in range(12):
        heading += rng.uniform(-120, 120)
        length = rng.choice([rng.uniform(0, 4), rng.uniform(4, 25)])
        points.append(ahead(points[-1], heading, length))
    return road(*points, circuity=rng.choice([1.0, 1.2]))


def ahead(start: Point, heading_degrees: float, miles: float) -> Point:
    """The point so many miles along a great circle from `start` (Williams, Aviation Formulary 1.47)."""
    latitude, longitude = math.radians(start.latitude), math.radians(start.longitude)
    angle, heading = math.radians(miles / MILES_PER_DEGREE), math.radians(heading_degrees)
    sine = math.sin(latitude) * math.cos(angle) + math.cos(latitude) * math.sin(angle) * math.cos(heading)
    east = math.atan2(
        math.sin(heading) * math.sin(angle) * math.cos(latitude), math.cos(angle) - math.sin(latitude) * sine
    )
    return Point(math.degrees(math.asin(max(-1, min(1, sine)))), (math.degrees(longitude + east) + 180) % 360 - 180)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_the_corridor_equals_the_result_of_sampling_the_road(seed: int) -> None:
    rng = random.Random(seed)
    start = [Point(38.0, -97.0), Point(0.0, 179.95), Point(65.0, -179.98), Point(89.9, 20.0), Point(-89.95, 0.0)][
        seed % 5
    ]
    wandering = wandering_road(rng, start)
    places: list[tuple[float, float]] = []
    while len(places) < 60:
        vertex = Point(*wandering.line[rng.randrange(len(wandering.line))].tolist())
        places.append(ahead(vertex, rng.uniform(0, 360), rng.uniform(0, 9)))
    found = passes(wandering, *places)
    limits = (LIMIT_MILES - SAMPLE_MILES, LIMIT_MILES, LIMIT_MILES + SAMPLE_MILES)
    fewer, expected, more = (sampled_passes(wandering, places, limit) for limit in limits)

    # Sampling cannot decide within one sample of the limit: those stations are left out on both sides.
    counts = [Counter(one.station_index for one in sampled) for sampled in (fewer, expected, more)]
    unsure = {index for index in range(len(places)) if len({count[index] for count in counts}) > 1}
    assert len(unsure) < len(places) / 4
    sure = [one for one in found if one.station_index not in unsure]
    wanted = [one for one in expected if one.station_index not in unsure]
    assert sorted(one.station_index for one in sure) == sorted(one.station_index for one in wanted)
    by_station = sorted(sure, key=lambda one: (one.station_index, one.mile))
    line, line_miles = densified(wandering.line, wandering.line_miles, SAMPLE_MILES)
    for one, other in zip(by_station, sorted(wanted, key=lambda one: (one.station_index, one.mile)), strict=True):
        assert one.detour_miles == pytest.approx(other.detour_miles, abs=SAMPLE_MILES)
        there = Point(*line[np.argmin(np.abs(line_miles - one.mile))].tolist())
        near = great_circle_miles(Point(*places[one.station_index]), there)
        assert near == pytest.approx(one.detour_miles, abs=0.01)


def test_passes_come_in_driving_order_with_mile_and_detour() -> None:
    eastward = road((40.0, -100.0), (40.0, -99.0))
    first, second = passes(eastward, (40.02, -99.25), (39.97, -99.75))
    assert (first.station_index, second.station_index) == (1, 0)
    assert first.mile == pytest.approx(0.25 * eastward.distance_miles, abs=0.01)
    assert first.detour_miles == pytest.approx(0.03 * MILES_PER_DEGREE, abs=0.1)


def test_miles_are_road_miles() -> None:
    [straight] = passes(road((40.0, -100.0), (40.0, -99.0)), (40.0, -99.5))
    [winding] = passes(road((40.0, -100.0), (40.0, -99.0), circuity=1.2), (40.0, -99.5))
    assert winding.mile == pytest.approx(1.2 * straight.mile)
    assert winding.detour_miles == pytest.approx(straight.detour_miles)


def test_a_road_out_and_back_passes_a_station_twice() -> None:
    there_and_back = road((40.0, -100.0), (40.0, -99.0), (40.0, -100.0))
    out, back = passes(there_and_back, (40.01, -99.7))
    assert out.mile + back.mile == pytest.approx(there_and_back.distance_miles)
    assert out.detour_miles == pytest.approx(back.detour_miles)


def test_turning_round_beside_a_station_is_one_pass() -> None:
    there_and_back = road((40.0, -100.0), (40.0, -99.0), (40.0, -100.0))
    assert len(passes(there_and_back, (40.0, -99.02))) == 1


def test_winding_beside_a_station_is_one_pass() -> None:
    zigzag = road(*((40.0 + 0.03 * (i % 2), -100.0 + 0.02 * i) for i in range(6)))
    assert len(passes(zigzag, (40.0, -99.95))) == 1


@pytest.mark.parametrize("most_pairs", [0, corridor.MOST_PAIRS])
def test_roads_that_are_searched_at_once_have_the_passes_of_their_own_places(
    most_pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corridor, "MOST_PAIRS", most_pairs)
    rng, searches = random.Random(1), []
    for number in range(8):
        one = wandering_road(rng, Point(38.0, -97.0 + number / 10))
        near = [Point(*rng.choice(one.line.tolist())) for _ in range(number % 4)]
        searches.append(([ahead(place, rng.uniform(0, 360), rng.uniform(0, 9)) for place in near], one))
    together = passes_by(searches, LIMIT_MILES)
    assert together == [passes(one, *places) if places else [] for places, one in searches]
    assert any(together)


def test_a_station_at_the_limit_is_in_the_corridor() -> None:
    meridian = road((40.0, -100.0), (41.0, -100.0))
    beyond_the_end = (41.0 + 3.0 / MILES_PER_DEGREE, -100.0)
    assert len(passes(meridian, beyond_the_end, limit=3.0001)) == 1
    assert passes(meridian, beyond_the_end, limit=2.9999) == []


def test_a_road_of_one_point_has_stations_nearby() -> None:
    [beside] = passes(road((40.0, -100.0), (40.0, -100.0)), (40.0, -99.99), (41.0, -100.0))
    assert (beside.station_index, beside.mile) == (0, 0.0)


@pytest.mark.parametrize(
    ("ends", "place"),
    [
        (((52.0, 179.0), (52.0, -179.0)), (52.02, 180.0)),
        (((52.0, 179.0), (52.0, -179.0)), (52.02, -180.0)),
        (((52.0, -179.99), (51.0, -179.99)), (51.5, 179.99)),
        (((52.0, 179.99), (51.0, 179.99)), (51.5, -179.99)),
        (((89.5, 0.0), (89.5, 180.0)), (90.0, -77.0)),
        (((-89.99, 0.0), (-89.5, 0.0)), (-89.98, 180.0)),
    ],
)
def test_no_station_is_missed_at_the_antimeridian_or_a_pole(
    ends: tuple[tuple[float, float], tuple[float, float]], place: tuple[float, float]
) -> None:
    assert len(passes(road(*ends), place)) == 1


def test_a_corridor_without_stations_has_no_passes() -> None:
    assert passes(road((40.0, -100.0), (40.0, -99.0))) == []
    assert passes(road((40.0, -100.0), (40.0, -99.0)), (10.0, 10.0)) == []


@pytest.mark.slow
def test_the_corridor_is_right_among_a_hundred_thousand_stations() -> None:
    places = np.random.default_rng(1).uniform((30.0, -120.0), (48.0, -75.0), (100_000, 2))
    across = road((47.0, -119.0), (35.0, -90.0), (41.0, -76.0))
    found = {one.station_index for one in passes(across, *map(tuple, places.tolist()))}

    line, _ = densified(across.line, across.line_miles, 0.25)
    near = cKDTree(unit_vectors(line)).query(unit_vectors(places))[0] * MILES_PER_DEGREE * 180 / math.pi
    assert set(np.flatnonzero(near < LIMIT_MILES - 0.01)) <= found <= set(np.flatnonzero(near < LIMIT_MILES + 0.01))
