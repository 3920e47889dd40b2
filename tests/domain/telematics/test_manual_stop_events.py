"""Manual stop events: what is possible, and what positions may add. By example, and as laws."""

import itertools
from collections.abc import Mapping, Sequence
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.documents import PlaceDocument
from domain.roads import Point
from domain.telematics import manual_stop_events
from domain.telematics.arrivals import Fix, Implied, ManualStopEvent, Visit
from domain.telematics.fix_batches import ReceivedFix
from domain.telematics.fixes_to_visits import visits_after
from domain.telematics.manual_stop_events import ImpossibleStopEvent, VisitEnd, with_stop_event
from tests.domain.helpers import north_of
from tests.domain.telematics.test_arrival_laws import laws, routes, tracks
from tests.domain.telematics.test_arrivals import CUSTOMER, DEPOT, PORT, at, fix, times
from tests.domain.telematics.test_fixes_to_visits import EARLY, route, track

SAID = ManualStopEvent("dot@example.com", "the driver called", at(500))
STOPS = [DEPOT, CUSTOMER, PORT]


def after_events(
    *given: tuple[int, VisitEnd, float], stops: Sequence[Point] = STOPS, visits: Mapping[int, Visit] | None = None
) -> dict[int, Visit]:
    """The visits after events that are not known yet, each a stop, an end of its visit, and minutes after noon."""
    known = dict(visits or {})
    for stop, end, minutes in given:
        if not manual_stop_events.is_known(known, stop, end):
            known = with_stop_event(stops, known, stop, end, at(minutes), SAID)
    return known


def after_fixes(visits: Mapping[int, Visit], fixes: Sequence[Fix], stops: Sequence[Point] = STOPS) -> dict[int, Visit]:
    """The visits after `tracking` has processed these fixes, all at once."""
    of = route(start=at(0))._replace(
        stops=[PlaceDocument(latitude=stop.latitude, longitude=stop.longitude) for stop in stops]
    )
    received = [ReceivedFix(one, one.recorded_at) for one in fixes]
    return visits_after(of, track(), visits, received, early=EARLY, radius_meters=250)


# --- An event makes a visit --------------------------------------------------------------------------------------


def test_an_event_is_a_visit_with_its_author_and_reason() -> None:
    assert after_events((0, "arrival", 5)) == {0: Visit(at(5), SAID)}
    assert after_events((0, "arrival", 5), (0, "departure", 9)) == {0: Visit(at(5), SAID, at(9), SAID)}


def test_stops_of_one_place_are_reached_and_left_together() -> None:
    stops = [DEPOT, north_of(DEPOT, 20), PORT]
    visits = after_events((1, "arrival", 5), (0, "departure", 9), stops=stops)
    assert times(visits) == {0: (at(5), at(9)), 1: (at(5), at(9))}


def test_a_stop_that_was_passed_over_stays_unvisited_until_its_arrival_is_entered() -> None:
    visits = after_events((0, "arrival", 5), (2, "arrival", 300))
    assert times(visits) == {0: (at(5), at(300)), 2: (at(300), None)}
    assert visits[0].departure == Implied(2)

    filled = after_events((1, "arrival", 100), visits=visits)

    assert times(filled) == {0: (at(5), at(100)), 1: (at(100), at(300)), 2: (at(300), None)}
    left = after_events((0, "departure", 20), (1, "departure", 130), visits=filled)
    assert times(left) == {0: (at(5), at(20)), 1: (at(100), at(130)), 2: (at(300), None)}
    assert left[0].departure == SAID


@pytest.mark.parametrize(
    ("given", "impossible", "why"),
    [
        ([], (0, "departure", 5), "has not arrived"),
        ([(0, "arrival", 5)], (0, "departure", 4), "before it has arrived"),
        ([(1, "arrival", 5)], (0, "arrival", 6), "had reached stop 2"),
        ([(0, "arrival", 5)], (1, "arrival", 4), "had not left stop 1"),
        ([(0, "arrival", 5), (0, "departure", 9)], (1, "arrival", 8), "had not left stop 1"),
        ([(0, "arrival", 5), (1, "arrival", 9)], (0, "departure", 10), "had reached stop 2"),
        ([], (3, "arrival", 5), "no such stop"),
        ([], (-1, "arrival", 5), "no such stop"),
    ],
)
def test_an_impossible_stop_event_is_refused_with_its_reason(
    given: list[tuple[int, VisitEnd, float]], impossible: tuple[int, VisitEnd, float], why: str
) -> None:
    before = after_events(*given)
    stop, end, minutes = impossible
    with pytest.raises(ImpossibleStopEvent, match=why):
        with_stop_event(STOPS, before, stop, end, at(minutes), SAID)


# --- Positions after an event ------------------------------------------------------------------------------------

STANDING = [fix(minutes, DEPOT, 0, 0) for minutes in (0, 1)]
DRIVING_OFF = [fix(minutes, DEPOT, 900 * minutes, 50) for minutes in (31, 32)]


def test_positions_do_not_move_an_entered_time() -> None:
    before = after_events((0, "arrival", 5), (0, "departure", 40))
    assert after_fixes(before, [*STANDING, *DRIVING_OFF]) == before


def test_positions_find_the_departure_after_an_entered_arrival() -> None:
    visits = after_fixes(after_events((0, "arrival", 5)), [*STANDING, fix(20, DEPOT, 0, 0), *DRIVING_OFF])
    assert times(visits) == {0: (at(5), at(31))}
    assert visits[0].arrival == SAID


def test_a_truck_still_on_its_way_to_a_stop_with_an_entered_arrival_has_not_left_it() -> None:
    approaching = [fix(minutes, DEPOT, 900 * (10 - minutes), 50) for minutes in (6, 7, 8, 9)]
    there = [fix(minutes, DEPOT, 0, 0) for minutes in (11, 12, 20, 30)]
    before = after_events((0, "arrival", 5))
    assert after_fixes(before, approaching) == before
    assert times(after_fixes(before, [*approaching, *there, *DRIVING_OFF])) == {0: (at(5), at(31))}


def test_a_stop_that_is_stored_at_the_wrong_place_is_left_when_the_next_one_is_reached() -> None:
    dock = [fix(minutes, DEPOT, 2000, 0) for minutes in range(5, 60, 5)]
    customer = [fix(minutes, CUSTOMER, 0, 0) for minutes in (300, 301)]
    before = after_events((0, "arrival", 5))
    assert after_fixes(before, dock) == before

    visits = after_fixes(before, [*dock, *customer])

    assert times(visits) == {0: (at(5), at(300)), 1: (at(300), None)}
    assert visits[0].departure == Implied(1)


def test_late_positions_make_an_implied_departure_earlier() -> None:
    entered_visits = after_events((0, "arrival", 0), (1, "arrival", 300))
    assert times(entered_visits)[0] == (at(0), at(300))
    late = [*STANDING, fix(20, DEPOT, 0, 0), *DRIVING_OFF, *(fix(minutes, CUSTOMER, 0, 0) for minutes in (295, 296))]

    visits = after_fixes(entered_visits, late)

    assert times(visits) == {0: (at(0), at(31)), 1: (at(300), None)}
    assert visits[1].arrival == SAID


def test_a_stop_with_an_entered_arrival_is_not_reached_a_second_time() -> None:
    round_trip = [DEPOT, CUSTOMER, DEPOT]
    before = after_events((0, "arrival", 0), stops=round_trip)
    assert after_fixes(before, [fix(minutes, DEPOT, 0, 0) for minutes in range(1, 60)], round_trip) == before


# --- Laws --------------------------------------------------------------------------------------------------------

some_events = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["arrival", "departure"]), st.integers(0, 60)), max_size=6
)


def mixed(
    stops: list[Point], fixes: list[Fix], given: list[tuple[int, VisitEnd, int]], order: list[bool]
) -> list[dict[int, Visit]]:
    """The visits after each of these steps: in turn an event, or all fixes so far and a few more."""
    visits: dict[int, Visit] = {}
    steps = [visits]
    waiting = list(given)
    seen = 0
    for is_event in order:
        if is_event and waiting:
            stop, end, minutes = waiting.pop(0)
            try:
                visits = after_events((stop, end, minutes), stops=stops, visits=visits)
            except ImpossibleStopEvent:
                continue
        else:
            seen += 4
            visits = after_fixes(visits, fixes[:seen], stops)
        steps.append(visits)
    return steps


orders = st.lists(st.booleans(), max_size=12)


@laws
@given(routes, tracks(), some_events, orders)
def test_visits_of_fixes_and_events_keep_the_laws(
    stops: list[Point], fixes: list[Fix], given: list[tuple[int, VisitEnd, int]], order: list[bool]
) -> None:
    """One draw for all laws: most of the time goes into drawing."""
    steps = mixed(stops, fixes, given, order)

    no_visit_is_undone_and_no_entered_time_is_moved(steps)
    visits_stay_in_the_order_of_the_stops(steps)
    repeated_stop_events_change_nothing(after_fixes(steps[-1], fixes, stops), fixes, stops, given)


def no_visit_is_undone_and_no_entered_time_is_moved(steps: list[dict[int, Visit]]) -> None:
    for before, after in itertools.pairwise(steps):
        assert set(before) <= set(after)
        for stop, visit in before.items():
            if isinstance(visit.arrival, ManualStopEvent):
                assert (after[stop].arrived_at, after[stop].arrival) == (visit.arrived_at, visit.arrival)
            if isinstance(visit.departure, ManualStopEvent):
                assert (after[stop].departed_at, after[stop].departure) == (visit.departed_at, visit.departure)


def visits_stay_in_the_order_of_the_stops(steps: list[dict[int, Visit]]) -> None:
    for visits in steps:
        arrivals = [visits[stop].arrived_at for stop in sorted(visits)]
        assert arrivals == sorted(arrivals)
        for visit in visits.values():
            assert visit.departed_at is None or visit.departed_at >= visit.arrived_at


def repeated_stop_events_change_nothing(
    visits: dict[int, Visit], fixes: list[Fix], stops: list[Point], given: list[tuple[int, VisitEnd, int]]
) -> None:
    assert after_fixes(visits, fixes, stops) == visits
    for stop, end, minutes in given:
        if manual_stop_events.is_known(visits, stop, end):
            assert after_events((stop, end, minutes), stops=stops, visits=visits) == visits


@laws
@given(routes, tracks())
def test_events_where_fixes_show_the_truck_make_the_visits_of_the_fixes(stops: list[Point], fixes: list[Fix]) -> None:
    """The events are entered in the order in which they happened; the fixes come in later, and change nothing. An event
    at a later stop also implies the departure from an earlier one that no fixes have shown yet."""
    seen = after_fixes({}, fixes, stops)
    expected = times(manual_stop_events.with_implied_departures(stops, seen, everywhere=True))
    happened: list[tuple[datetime, int, VisitEnd]] = []
    for stop, visit in seen.items():
        happened.append((visit.arrived_at, stop, "arrival"))
        if visit.departed_at is not None:
            happened.append((visit.departed_at, stop, "departure"))
    visits: dict[int, Visit] = {}
    for moment, stop, end in sorted(happened, key=lambda one: (one[0], one[1], one[2])):
        if not manual_stop_events.is_known(visits, stop, end):
            try:
                visits = with_stop_event(stops, visits, stop, end, moment, SAID)
            except ImpossibleStopEvent:  # places that overlap: it was at the next one before it had left this one
                return
    assert times(visits) == expected
    assert times(after_fixes(visits, fixes, stops)) == expected
