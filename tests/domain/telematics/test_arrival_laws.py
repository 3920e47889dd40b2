"""Laws of arrivals and departures, for any stops and fixes."""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.roads import Point
from domain.roads.implausible_fixes import implausible_fixes
from domain.telematics.arrivals import (
    Evidence,
    Fix,
    Visit,
    merge_visits,
    process_fixes,
)
from tests.domain.helpers import north_of
from tests.domain.telematics.test_arrivals import CUSTOMER, DEPOT, at, fix
from tests.repeatable import examples

Visits: TypeAlias = dict[int, Visit]
"""Visits by the number of their stop."""

NEXT_DOOR = north_of(DEPOT, 20)

ACROSS_THE_ROAD = north_of(DEPOT, 350)

VILLAGE = north_of(DEPOT, 1500)

places = st.sampled_from([DEPOT, NEXT_DOOR, ACROSS_THE_ROAD, VILLAGE, CUSTOMER])

routes = st.lists(places, min_size=2, max_size=5)

steps = st.tuples(
    st.sampled_from([1, 20, 45, 60, 90, 120, 181, 600]),  # seconds since the last fix
    places,
    st.sampled_from([0.0, 100.0, 240.0, 260.0, 290.0, 310.0, 420.0, 3000.0]),
    st.sampled_from([None, 0.0, 4.9, 5.0, 5.1, 60.0]),
    st.sampled_from([None, 8.0, 120.0]),
)


@st.composite
def tracks(draw: st.DrawFn) -> list[Fix]:
    seconds = 0.0
    fixes = []
    for gap, place, meters, mph, accuracy in draw(st.lists(steps, max_size=24)):
        seconds += gap
        fixes.append(fix(seconds / 60, place, meters, mph, accuracy))
    return fixes


def laws(test: Callable[..., None]) -> Callable[..., None]:
    """Slow together: `deploy/check` leaves them to `deploy/test`."""
    slow: Callable[..., None] = pytest.mark.slow(settings(deadline=None, max_examples=examples(150))(test))
    return slow


@laws
@given(routes, tracks(), st.lists(st.integers(0, 24), max_size=6))
def test_the_visits_of_any_fixes_keep_the_laws(stops: list[Point], fixes: list[Fix], cuts: list[int]) -> None:
    """One draw for all laws: most of the time goes into drawing."""
    visits = process_fixes(stops, {}, fixes)

    visits_happen_in_the_order_of_the_stops(visits)
    every_decision_rests_on_at_least_two_fixes_that_begin_with_its_time(visits)
    processing_twice_changes_nothing(stops, fixes, visits)
    visits_do_not_depend_on_the_batches_of_fixes(stops, fixes, cuts, visits)
    a_known_visit_is_never_undone_or_moved(stops, fixes)


def visits_happen_in_the_order_of_the_stops(visits: Visits) -> None:
    arrivals = [visits[stop].arrived_at for stop in sorted(visits)]
    assert arrivals == sorted(arrivals)


def every_decision_rests_on_at_least_two_fixes_that_begin_with_its_time(visits: Visits) -> None:
    """A truck leaves only after it has arrived."""
    for visit in visits.values():
        assert isinstance(visit.arrival, Evidence)
        assert len(set(visit.arrival.fixes)) >= 2
        assert visit.arrival.fixes[0].recorded_at == visit.arrived_at
        if visit.departed_at is not None:
            assert visit.departed_at > visit.arrived_at
            assert isinstance(visit.departure, Evidence)
            assert len({moment.recorded_at for moment in visit.departure.fixes}) >= 2
            assert visit.departure.fixes[0].recorded_at == visit.departed_at


def processing_twice_changes_nothing(stops: list[Point], fixes: list[Fix], once: Visits) -> None:
    assert merge_visits(once, process_fixes(stops, {}, fixes)) == once


def visits_do_not_depend_on_the_batches_of_fixes(
    stops: list[Point], fixes: list[Fix], cuts: list[int], together: Visits
) -> None:
    visits: Visits = {}
    for cut in [*sorted(cuts), len(fixes)]:
        visits = merge_visits(visits, process_fixes(stops, {}, fixes[:cut]))
    assert visits == together


def a_known_visit_is_never_undone_or_moved(stops: list[Point], fixes: list[Fix]) -> None:
    half = process_fixes(stops, {}, fixes[: len(fixes) // 2])
    after = process_fixes(stops, half, fixes[len(fixes) // 2 :])
    for stop, visit in half.items():
        assert after[stop].arrived_at == visit.arrived_at
        assert visit.departed_at is None or after[stop].departed_at == visit.departed_at


# --- However often a tracker sends ------------------------------------------------------------------------------

FURTHEST_NOISE_METERS = 25.0


def sampled(seconds: float, every: float, first: float, way: Callable[[float], tuple[float, float]]) -> list[Fix]:
    """Fixes of a way, which tells the meters north of the depot and the mph at each second."""
    moments = []
    while first <= seconds:
        moments.append(first)
        first += every
    return [fix(moment / 60, DEPOT, *way(moment)) for moment in moments]


@laws
@given(st.floats(20, 70), st.floats(-250, 250), st.floats(0, 29), st.floats(0.5, 90), st.floats(0, 1))
def test_a_drive_by_is_no_arrival_at_any_rate(
    mph: float, light_at: float, waits: float, every: float, first: float
) -> None:
    """A truck passes the gate, and waits at a light beside it for less than half a minute."""
    meters_a_second = mph * 0.44704
    at_light = (light_at + 400) / meters_a_second

    def way(second: float) -> tuple[float, float]:
        if at_light <= second <= at_light + waits:
            return light_at, 0.0
        driven = second - (waits if second > at_light else 0)
        return driven * meters_a_second - 400, mph

    assert process_fixes([DEPOT, CUSTOMER], {}, sampled(800 / meters_a_second + waits, every, first * every, way)) == {}


@laws
@given(st.floats(-200, 200), st.floats(120, 300), st.floats(0.5, 59), st.floats(0, 1), st.integers(0))
def test_a_stop_of_two_minutes_is_an_arrival_at_any_rate(
    place: float, stands: float, every: float, first: float, seed: int
) -> None:
    """A truck comes, stands within the yard, and drives off; the receiver is off by some meters."""
    random = Random(seed)

    def way(second: float) -> tuple[float, float]:
        noise = random.uniform(-FURTHEST_NOISE_METERS, FURTHEST_NOISE_METERS)
        if second < 60:
            return place + 20 * (60 - second) + noise, 45.0
        if second > 60 + stands:
            return place + 20 * (second - 60 - stands) + noise, 45.0
        return place + noise, random.uniform(0, 2)

    visits = process_fixes([DEPOT, CUSTOMER], {}, sampled(240 + stands, every, first * every, way))

    assert set(visits) == {0}
    assert at(0.5) <= visits[0].arrived_at <= at(1 + every / 60)


@laws
@given(tracks(), st.randoms(use_true_random=False))
def test_a_late_fix_makes_an_arrival_earlier_and_never_undoes_it(fixes: list[Fix], random: Random) -> None:
    late = [one for one in fixes if random.random() < 0.3]
    before = process_fixes([DEPOT, CUSTOMER], {}, [one for one in fixes if one not in late])

    after = merge_visits(before, process_fixes([DEPOT, CUSTOMER], {}, fixes))

    for stop, visit in before.items():
        assert after[stop].arrived_at <= visit.arrived_at


@st.composite
def ordered_visits(draw: st.DrawFn) -> Visits:
    """Visits of some stops, in the order of the stops, each left before the next one is reached."""
    stops = sorted(draw(st.sets(st.integers(0, 3))))
    moments = sorted(draw(st.sets(st.integers(0, 60), min_size=2 * len(stops), max_size=2 * len(stops))))
    return {
        stop: Visit(at(moments[2 * index]), departed_at=at(moments[2 * index + 1]) if draw(st.booleans()) else None)
        for index, stop in enumerate(stops)
    }


@laws
@given(ordered_visits(), ordered_visits())
def test_merged_visits_keep_the_laws(before: Visits, after: Visits) -> None:
    merged = merge_visits(before, after)

    merging_never_delays_or_removes_a_visit(before, after, merged)
    visits_happen_in_the_order_of_the_stops(merged)
    merged_visits_end_after_their_begin(merged)
    merging_again_changes_nothing(before, after, merged)
    merging_keeps_visits_of_both_sides_that_do_not_contradict(before, after, merged)


def merging_never_delays_or_removes_a_visit(before: Visits, after: Visits, merged: Visits) -> None:
    assert set(before) <= set(merged) <= set(before) | set(after)
    for stop, visit in before.items():
        assert merged[stop].arrived_at <= visit.arrived_at
        departed_at = merged[stop].departed_at
        assert visit.departed_at is None or (departed_at is not None and departed_at <= visit.departed_at)
    for stop, visit in merged.items():
        assert visit.arrived_at in {side[stop].arrived_at for side in (before, after) if stop in side}


def merged_visits_end_after_their_begin(merged: Visits) -> None:
    for visit in merged.values():
        assert visit.departed_at is None or visit.departed_at > visit.arrived_at


def merging_again_changes_nothing(before: Visits, after: Visits, merged: Visits) -> None:
    assert merge_visits(merged, after) == merged
    assert merge_visits(merged, before) == merged


def merging_keeps_visits_of_both_sides_that_do_not_contradict(before: Visits, after: Visits, merged: Visits) -> None:
    together = {**after, **before}
    arrivals = [together[stop].arrived_at for stop in sorted(together)]
    if arrivals == sorted(set(arrivals)) and not set(before) & set(after):
        assert merged == together


@laws
@given(tracks())
def test_fixes_that_follow_each_other_at_truck_speed_are_all_believed(fixes: list[Fix]) -> None:
    believed = [one for one in fixes if one.recorded_at not in implausible_fixes(fixes)]

    assert implausible_fixes(believed) == set()
