"""The vote of driven roads: three that agree, not too old, and the majority of them."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from uuid import UUID

import pytest

from domain.driven_lanes.agreement import COUNTED_DAYS, Witness, count_independent, share_in_common, vote
from domain.driven_lanes.driven_road import DrivenRoad
from domain.driven_lanes.snapping import snapped
from domain.roads.highways import default_highway_finder
from tests.domain.driven_lanes.driving import BY_NASHVILLE, QUICKEST, fixes_along

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
TRUCKS = [UUID(int=at) for at in range(1, 4)]


@cache
def road(by_nashville: bool, seed: int = 1) -> DrivenRoad:
    truth = BY_NASHVILLE if by_nashville else QUICKEST
    return snapped(default_highway_finder(), [fixes_along(truth, NOON, seed=seed)])


def trip(number: int, days_ago: float, *, by_nashville: bool = True, truck: int = 0) -> Witness:
    road_taken = road(by_nashville, number % 2)
    return Witness(UUID(int=number), TRUCKS[truck], NOON - timedelta(days=days_ago), road_taken)


def numbers(witnesses: Sequence[Witness]) -> list[int]:
    return [one.route_id.int for one in witnesses]


def test_the_same_road_is_common_and_another_is_not() -> None:
    assert share_in_common(road(True, 0), road(True, 1)) > 0.99
    assert share_in_common(road(True), road(False)) < 0.7
    assert share_in_common(road(True), road(False)) == share_in_common(road(False), road(True))


def test_fewer_than_three_trips_decide_nothing() -> None:
    assert vote([]) is None
    assert vote([trip(1, 1)]) is None
    assert vote([trip(1, 1), trip(2, 3)]) is None


def test_three_trips_of_different_days_decide() -> None:
    decided = vote([trip(1, 5), trip(2, 3), trip(3, 1)])
    assert decided is not None
    assert numbers(decided[1]) == [3, 2, 1]


def test_three_trips_of_one_truck_on_one_day_are_one_witness() -> None:
    assert vote([trip(1, 0.0), trip(2, 0.2), trip(3, 0.4)]) is None
    assert vote([trip(1, 0.0, truck=0), trip(2, 0.2, truck=1), trip(3, 0.4, truck=2)]) is not None
    assert count_independent([(TRUCKS[0], NOON - timedelta(hours=3 * at)) for at in range(8)]) == 2


def test_trips_that_are_too_old_do_not_count() -> None:
    assert vote([trip(1, COUNTED_DAYS + 2), trip(2, 3), trip(3, 1)]) is None


def test_one_trip_on_another_road_changes_nothing() -> None:
    decided = vote([trip(1, 5), trip(2, 3), trip(3, 2), trip(4, 1, by_nashville=False)])
    assert decided is not None
    assert numbers(decided[1]) == [3, 2, 1]


def test_the_majority_of_the_recent_trips_is_followed_when_the_road_changes() -> None:
    """Road works: four trips by the other road outweigh three older ones."""
    before = [trip(at, 40 - at) for at in range(1, 4)]
    after = [trip(at, 10 - at, by_nashville=False) for at in range(4, 8)]
    decided = vote([*before, *after[:1]])
    assert decided is not None
    assert numbers(decided[1]) == [3, 2, 1]
    decided = vote([*before, *after])
    assert decided is not None
    assert numbers(decided[1]) == [7, 6, 5, 4]


def test_halves_that_disagree_decide_nothing() -> None:
    both = [trip(at, 1, truck=at - 1) for at in range(1, 4)]
    both += [trip(at + 3, 1, by_nashville=False, truck=at - 1) for at in range(1, 4)]
    assert vote(both) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_trips_does_not_matter(seed: int) -> None:
    trips = [trip(at, 20 - 2 * at, by_nashville=at != 3) for at in range(1, 7)]
    shuffled = random.Random(seed).sample(trips, len(trips))
    first, second = vote(trips), vote(shuffled)
    assert first is not None
    assert second is not None
    assert first[0] is second[0]
    assert numbers(first[1]) == numbers(second[1])
