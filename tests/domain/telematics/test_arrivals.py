"""The rules of arrival and departure (decisions 10 and 11): by example, and as laws that hold for any fixes."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from domain.roads import Point
from domain.telematics.arrivals import Evidence, Fix, Visit, drop_reason, process_fixes
from tests.domain.helpers import north_of

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DEPOT = Point(41.462, -88.125)
CUSTOMER = Point(41.535, -83.470)
PORT = Point(40.695, -74.155)


def at(minutes: float) -> datetime:
    """The time, in minutes after noon."""
    return NOON + timedelta(minutes=minutes)


def fix(
    minutes: float, place: Point, meters: float = 0, mph: float | None = None, accuracy: float | None = None
) -> Fix:
    """A position so many meters north of a place."""
    there = north_of(place, meters)
    return Fix(at(minutes), there.latitude, there.longitude, mph, accuracy)


def times(visits: Mapping[int, Visit]) -> dict[int, tuple[datetime, datetime | None]]:
    return {stop: (visit.arrived_at, visit.departed_at) for stop, visit in visits.items()}


# --- Arrival ---------------------------------------------------------------------------------------------------


def test_a_drive_by_is_no_arrival() -> None:
    passing = [fix(0, DEPOT, -900, 55), fix(0.5, DEPOT, 0, 55), fix(1, DEPOT, 900, 55)]

    assert process_fixes([DEPOT, PORT], {}, passing) == {}


def test_one_fix_alone_never_makes_an_arrival_however_slow() -> None:
    assert process_fixes([DEPOT, PORT], {}, [fix(0, DEPOT, 0, 0)]) == {}


def test_two_slow_fixes_in_a_row_inside_are_an_arrival_at_the_first_of_them() -> None:
    visits = process_fixes([DEPOT, PORT], {}, [fix(0, DEPOT, 200, 30), fix(0.5, DEPOT, 50, 3), fix(1, DEPOT, 40, 0)])

    assert times(visits) == {0: (at(0.5), None)}


def test_slow_fixes_that_span_less_than_half_a_minute_are_no_arrival() -> None:
    assert process_fixes([DEPOT, PORT], {}, [fix(0, DEPOT, 0, 3), fix(1 / 60, DEPOT, 1, 3)]) == {}
    light = [fix(second / 60, DEPOT, 0, 0) for second in range(30)]
    assert process_fixes([DEPOT, PORT], {}, light) == {}
    assert times(process_fixes([DEPOT, PORT], {}, [*light, fix(0.5, DEPOT, 0, 0)])) == {0: (at(0), None)}


@pytest.mark.parametrize(("meters", "arrived"), [(59, True), (61, False)])
def test_slow_fixes_lie_within_sixty_meters_of_each_other(meters: float, arrived: bool) -> None:
    crawling = [fix(0, DEPOT, 0, 4), fix(0.5, DEPOT, meters, 4)]

    assert bool(process_fixes([DEPOT, PORT], {}, crawling)) is arrived


def test_a_truck_that_crawls_past_in_a_jam_has_not_arrived_until_it_stands() -> None:
    jam = [fix(number * 0.4, DEPOT, -240 + 62 * number, 4.9) for number in range(5)]
    standing = [fix(1.3, DEPOT, 20, 0), fix(1.6, DEPOT, 20, 0), fix(1.9, DEPOT, 20, 0)]

    assert process_fixes([DEPOT, PORT], {}, jam) == {}
    assert times(process_fixes([DEPOT, PORT], {}, [*jam[:4], *standing])) == {0: (at(1.3), None)}


def test_two_slow_fixes_with_a_fast_one_between_are_no_arrival() -> None:
    assert process_fixes([DEPOT, PORT], {}, [fix(0, DEPOT, 0, 0), fix(0.5, DEPOT, 0, 20), fix(1, DEPOT, 0, 0)]) == {}


def test_two_slow_fixes_with_one_outside_between_are_no_arrival() -> None:
    assert process_fixes([DEPOT, PORT], {}, [fix(0, DEPOT, 0, 0), fix(0.5, DEPOT, 400, 0), fix(1, DEPOT, 0, 0)]) == {}


def test_two_minutes_inside_are_an_arrival_at_the_first_fix_inside() -> None:
    creeping = [fix(minutes, DEPOT, 100, 10) for minutes in (0, 1, 2)]

    assert process_fixes([DEPOT, PORT], {}, creeping[:2]) == {}
    assert times(process_fixes([DEPOT, PORT], {}, creeping)) == {0: (at(0), None)}


def test_two_minutes_begin_anew_after_a_fix_outside() -> None:
    fixes = [fix(0, DEPOT), fix(1, DEPOT, 400), fix(1.5, DEPOT), fix(2.5, DEPOT)]

    assert process_fixes([DEPOT, PORT], {}, fixes) == {}


def test_exactly_five_mph_is_not_slow() -> None:
    assert process_fixes([DEPOT, PORT], {}, [fix(0, DEPOT, 0, 5), fix(0.5, DEPOT, 0, 5)]) == {}


def test_a_missing_speed_is_not_slow() -> None:
    assert process_fixes([DEPOT, PORT], {}, [fix(0, DEPOT), fix(0.5, DEPOT), fix(1, DEPOT)]) == {}


def test_a_missing_speed_between_two_slow_fixes_keeps_them_apart() -> None:
    assert process_fixes([DEPOT, PORT], {}, [fix(0, DEPOT, 0, 0), fix(0.5, DEPOT), fix(1, DEPOT, 0, 0)]) == {}


@pytest.mark.parametrize(("meters", "inside"), [(249, True), (251, False)])
def test_a_fix_is_inside_up_to_the_radius(meters: float, inside: bool) -> None:
    standing = [fix(minutes, DEPOT, meters, 0) for minutes in (0, 1)]

    assert bool(process_fixes([DEPOT, PORT], {}, standing)) is inside


def test_the_radius_can_be_set() -> None:
    standing = [fix(minutes, DEPOT, 900, 0) for minutes in (0, 1)]

    assert process_fixes([DEPOT, PORT], {}, standing, radius_meters=1000)


def test_an_arrival_keeps_its_rule_and_the_fixes_behind_it() -> None:
    fixes = [fix(0, DEPOT, 0, 2), fix(0.5, DEPOT, 0, 0)]

    evidence = process_fixes([DEPOT, PORT], {}, fixes)[0].arrival

    assert evidence == Evidence("two fixes in a row inside below 5 mph", tuple(fixes))


def test_the_example_of_the_dwell_rule() -> None:
    """The one in the docstring of `process_fixes`."""
    fixes = [
        fix(0, DEPOT, 180, 12),
        fix(1, DEPOT, 60, 6),
        fix(2, DEPOT, 20, 8),
        fix(30, DEPOT, 290, 10),
        fix(31, DEPOT, 400, 3),
        fix(32, DEPOT, 900, 30),
        fix(33, DEPOT, 1500, 45),
    ]

    assert process_fixes([DEPOT, PORT], {}, fixes[:2]) == {}
    assert times(process_fixes([DEPOT, PORT], {}, fixes[:6])) == {0: (at(0), None)}
    assert times(process_fixes([DEPOT, PORT], {}, fixes)) == {0: (at(0), at(31))}


# --- Departure -------------------------------------------------------------------------------------------------


ARRIVED = [fix(-1, DEPOT, 0, 0), fix(-0.5, DEPOT, 0, 0)]


def departure(*fixes: Fix) -> datetime | None:
    """When a truck that has arrived at the depot has left it after these fixes."""
    return process_fixes([DEPOT, PORT], {}, [*ARRIVED, *fixes])[0].departed_at


def test_two_fast_fixes_in_a_row_outside_are_a_departure_at_the_first_fix_outside() -> None:
    assert departure(fix(0, DEPOT, 400, 3), fix(0.5, DEPOT, 800, 30), fix(1, DEPOT, 1500, 45)) == at(0)


def test_one_fast_fix_outside_is_no_departure() -> None:
    assert departure(fix(0, DEPOT, 5000, 60)) is None


def test_three_minutes_outside_are_a_departure_at_the_first_fix_outside() -> None:
    assert departure(fix(0, DEPOT, 400), fix(2, DEPOT, 400)) is None
    assert departure(fix(0, DEPOT, 400), fix(2, DEPOT, 400), fix(3, DEPOT, 400)) == at(0)


def test_a_missing_speed_is_not_fast() -> None:
    assert departure(fix(0, DEPOT, 400), fix(0.5, DEPOT, 800), fix(1, DEPOT, 1500)) is None


def test_a_fix_inside_again_cancels_the_departure() -> None:
    fixes = (fix(0, DEPOT, 400, 0), fix(1, DEPOT, 0, 0), fix(2, DEPOT, 400, 0), fix(3, DEPOT, 400, 0))

    assert departure(*fixes) is None


@pytest.mark.parametrize(("meters", "left"), [(295, False), (305, True)])
def test_outside_begins_fifty_meters_beyond_the_radius(meters: float, left: bool) -> None:
    assert (departure(fix(0, DEPOT, meters), fix(3, DEPOT, meters)) is not None) is left


def test_the_fix_s_own_accuracy_is_taken_off_a_departure() -> None:
    assert departure(fix(0, DEPOT, 400, 30, 120), fix(1, DEPOT, 400, 30, 120)) is None
    assert departure(fix(0, DEPOT, 400, 30, 90), fix(1, DEPOT, 400, 30, 90)) == at(0)


def test_the_drift_of_a_parked_truck_is_no_departure() -> None:
    drift = [fix(minutes, DEPOT, 420, 0) for minutes in range(600)]

    assert departure(*drift, fix(600, DEPOT, 0, 0)) is None


def test_a_truck_that_drives_off_has_left_minutes_before_at_the_earliest() -> None:
    drift = [fix(minutes, DEPOT, 420, 0) for minutes in range(600)]

    assert departure(*drift, fix(600, DEPOT, 900, 30), fix(601, DEPOT, 1800, 30)) == at(597)


def test_a_truck_that_stands_further_away_than_a_receiver_drifts_has_left() -> None:
    assert departure(fix(0, DEPOT, 1_200, 0), fix(3, DEPOT, 1_200, 0)) == at(0)
    assert departure(fix(0, DEPOT, 1_200, 0, 150), fix(3, DEPOT, 1_200, 0, 150)) == at(0)


def test_a_truck_that_stands_at_its_next_stop_has_left_the_one_before() -> None:
    next_door = north_of(DEPOT, 650)
    standing = [fix(minutes, next_door, 0, 0) for minutes in (10, 15, 20)]

    visits = process_fixes([DEPOT, next_door, PORT], {}, [*ARRIVED, *standing])

    assert times(visits) == {0: (at(-1), at(10)), 1: (at(10), None)}
    assert process_fixes([DEPOT, next_door, PORT], visits, standing[1:]) == visits


@pytest.mark.parametrize("on_the_way", [None, fix(1, DEPOT, 1_000, 40)])
def test_a_truck_has_left_the_stop_before_once_it_has_reached_the_last_one(on_the_way: Fix | None) -> None:
    """The route ends there. Its tracker was silent on the way, or the way took a minute."""
    last, reached = north_of(DEPOT, 1_400), 2 if on_the_way else 60
    standing = [fix(reached, last, 0, 0), fix(reached + 0.5, last, 0, 0)]
    fixes = [*ARRIVED, *([on_the_way] if on_the_way else []), *standing]

    visits = process_fixes([DEPOT, last], {}, fixes)

    left_at = fixes[2].recorded_at
    assert times(visits) == {0: (at(-1), left_at), 1: (at(reached), None)}
    seen_until = None if on_the_way else ARRIVED[-1].recorded_at
    evidence = Evidence("outside when it reached the last stop", (fixes[2], fixes[-1]), seen_until)
    assert visits[0].departure == evidence


@pytest.mark.parametrize("hours", [0.1, 1, 10])
def test_a_parked_truck_that_drifts_and_creeps_to_its_next_stop_left_minutes_before_it(hours: float) -> None:
    next_door = north_of(DEPOT, 650)
    drift = [fix(minutes, DEPOT, 380, 0) for minutes in range(int(60 * hours))]
    last = len(drift)
    standing = [fix(last + minutes, next_door, 0, 0) for minutes in range(5)]

    visits = process_fixes([DEPOT, next_door, PORT], {}, [*ARRIVED, *drift, *standing])

    assert times(visits) == {0: (at(-1), at(last - 3)), 1: (at(last), None)}


def test_a_departure_keeps_its_rule_and_the_first_fix_outside() -> None:
    first, second, third = fix(0, DEPOT, 400, 3), fix(0.5, DEPOT, 800, 30), fix(1, DEPOT, 1500, 45)

    evidence = process_fixes([DEPOT, PORT], {}, [*ARRIVED, first, second, third])[0].departure

    assert isinstance(evidence, Evidence)
    assert evidence.rule == "two fixes in a row outside above 5 mph"
    assert evidence.fixes == (first, second, third)


def test_jitter_at_the_edge_is_one_visit() -> None:
    jitter = [fix(minutes, DEPOT, 240 if minutes % 2 else 290, 0) for minutes in range(20)]

    assert times(process_fixes([DEPOT, PORT], {}, [*ARRIVED, *jitter])) == {0: (at(-1), None)}


# --- The order of stops ----------------------------------------------------------------------------------------


def stay(minutes: float, place: Point) -> list[Fix]:
    """Arrives, stands for two fixes, and drives off."""
    return [
        fix(minutes, place, 0, 0),
        fix(minutes + 1, place, 0, 0),
        fix(minutes + 2, place, 2000, 50),
        fix(minutes + 3, place, 4000, 50),
    ]


def test_a_later_stop_reached_first_leaves_the_ones_before_it_null() -> None:
    visits = process_fixes([DEPOT, CUSTOMER, PORT], {}, stay(0, CUSTOMER))

    assert times(visits) == {1: (at(0), at(2))}


def test_a_stop_that_was_passed_over_is_not_reached_afterwards() -> None:
    visits = process_fixes([DEPOT, CUSTOMER, PORT], {}, [*stay(0, CUSTOMER), *stay(600, DEPOT)])

    assert set(visits) == {1}


def test_a_round_trip_does_not_complete_where_it_starts() -> None:
    assert set(process_fixes([DEPOT, CUSTOMER, DEPOT], {}, stay(0, DEPOT))) == {0}


def test_standing_for_hours_at_the_start_of_a_round_trip_reaches_nothing_else() -> None:
    standing = [fix(minutes, DEPOT, 100 * (minutes % 3), 0) for minutes in range(0, 600, 5)]

    assert times(process_fixes([DEPOT, CUSTOMER, DEPOT], {}, standing)) == {0: (at(0), None)}


def test_leaving_and_coming_back_to_the_start_of_a_round_trip_is_not_its_end() -> None:
    assert set(process_fixes([DEPOT, CUSTOMER, DEPOT], {}, [*stay(0, DEPOT), *stay(60, DEPOT)])) == {0}


def test_a_round_trip_completes_when_it_is_back() -> None:
    visits = process_fixes([DEPOT, CUSTOMER, DEPOT], {}, [*stay(0, DEPOT), *stay(300, CUSTOMER), *stay(600, DEPOT)])

    assert times(visits) == {0: (at(0), at(2)), 1: (at(300), at(302)), 2: (at(600), at(602))}


@pytest.mark.parametrize("apart", [20, 40, 150, 240])
@pytest.mark.parametrize("parked", [0, 30, 60, 100, 150])
def test_a_round_trip_whose_yard_has_two_coordinates_begins_at_the_first_and_ends_at_the_last(
    apart: float, parked: float
) -> None:
    """The truck came from far away, and may stand nearer to the coordinates of the end."""
    stops = [DEPOT, CUSTOMER, north_of(DEPOT, apart)]
    there = north_of(DEPOT, parked)
    coming = [fix(-60, DEPOT, 50_000, 50), fix(-5, DEPOT, 5_000, 50)]
    away = process_fixes(stops, {}, [*coming, *stay(0, there)])
    home = process_fixes(stops, {}, [*coming, *stay(0, there), *stay(300, CUSTOMER), *stay(600, there)])

    assert times(away) == {0: (at(0), at(2))}
    assert times(home) == {0: (at(0), at(2)), 1: (at(300), at(302)), 2: (at(600), at(602))}


def test_a_truck_that_moves_within_the_yard_of_a_round_trip_does_not_end_it() -> None:
    stops = [DEPOT, CUSTOMER, north_of(DEPOT, 150)]
    moving = [fix(minutes, DEPOT, 10 * min(minutes, 18), 2) for minutes in range(60)]

    assert times(process_fixes(stops, {}, moving)) == {0: (at(0), None)}


@pytest.mark.parametrize("apart", [150, 240])
@pytest.mark.parametrize("parked", [245, 260, 290, 350, 390])
def test_a_round_trip_begins_at_its_start_where_only_the_coordinates_of_its_end_are_near(
    apart: float, parked: float
) -> None:
    stops = [DEPOT, CUSTOMER, north_of(DEPOT, apart)]
    there = north_of(DEPOT, parked)
    coming = [fix(-60, DEPOT, 50_000, 50), fix(-5, DEPOT, 5_000, 50)]
    trip = [*coming, *stay(0, there), *stay(300, CUSTOMER), *stay(600, there)]

    assert times(process_fixes(stops, {}, trip)) == {0: (at(0), at(2)), 1: (at(300), at(302)), 2: (at(600), at(602))}
    assert times(process_fixes(stops, {}, trip[:6])) == {0: (at(0), at(2))}


@pytest.mark.parametrize(("apart", "parked"), [(150, 260), (150, 390), (240, 400), (400, 295)])
def test_a_truck_that_goes_further_into_the_yard_of_a_round_trip_does_not_end_it(apart: float, parked: float) -> None:
    stops = [DEPOT, CUSTOMER, north_of(DEPOT, apart)]
    fixes = [*stay(0, DEPOT)[:2], *(fix(minutes, DEPOT, parked, 0) for minutes in range(3, 60))]

    assert times(process_fixes(stops, {}, fixes)) == {0: (at(0), None)}


def test_what_a_truck_sent_before_it_left_the_yard_of_a_round_trip_does_not_end_it_afterwards() -> None:
    """Fixes from before a known departure are read again: a late one came in, or the run of the departure begins with
    them."""
    stops = [DEPOT, CUSTOMER, north_of(DEPOT, 150)]
    known = {0: Visit(at(-60), departed_at=at(20))}
    standing = [fix(minutes, DEPOT, 150, 0) for minutes in range(20)]

    assert process_fixes(stops, known, [*standing, *stay(300, CUSTOMER)][:-4]) == known
    assert list(process_fixes(stops, known, [*standing, *stay(300, CUSTOMER), *stay(600, stops[2])])) == [0, 1, 2]


def test_a_yard_that_comes_between_customers_is_reached_in_the_order_of_the_stops() -> None:
    gates = [north_of(DEPOT, meters) for meters in (0, 60, 120)]
    stops = [gates[0], CUSTOMER, gates[1], PORT, gates[2]]
    parked = north_of(DEPOT, 120)
    fixes = [*stay(0, parked), *stay(300, CUSTOMER), *stay(600, parked), *stay(1600, PORT), *stay(2600, parked)]

    assert list(process_fixes(stops, {}, fixes)) == [0, 1, 2, 3, 4]
    assert list(process_fixes(stops, {}, fixes[:-4])) == [0, 1, 2, 3]


def test_a_truck_that_left_and_passed_over_the_stop_between_ends_at_the_other_gate() -> None:
    """The customer's coordinates may be wrong. Only the very place where the truck has been is not the end."""
    leaving = [*stay(0, DEPOT), *stay(300, PORT)]

    assert set(process_fixes([DEPOT, CUSTOMER, north_of(DEPOT, 40)], {}, [*leaving, *stay(600, DEPOT)])) == {0}
    end = north_of(DEPOT, 150)
    assert set(process_fixes([DEPOT, CUSTOMER, end], {}, [*leaving, *stay(600, end)])) == {0, 2}


def test_consecutive_stops_at_one_place_are_reached_and_left_together() -> None:
    dock = north_of(DEPOT, 30)

    visits = process_fixes([DEPOT, dock, PORT], {}, stay(0, DEPOT))

    assert times(visits) == {0: (at(0), at(2)), 1: (at(0), at(2))}


def test_a_trip_does_not_begin_at_a_later_stop_by_standing_there_already() -> None:
    standing = [fix(minutes, PORT, 0, 0) for minutes in range(10)]

    assert process_fixes([DEPOT, PORT], {}, standing, last_seen=fix(-60, PORT)) == {}
    assert set(process_fixes([DEPOT, PORT], {}, standing, last_seen=fix(-60, CUSTOMER))) == {1}


def test_a_trip_begins_at_its_first_stop_by_standing_there_already() -> None:
    standing = [fix(minutes, DEPOT, 0, 0) for minutes in range(3)]

    assert times(process_fixes([DEPOT, PORT], {}, standing, last_seen=fix(-60, DEPOT))) == {0: (at(0), None)}


def test_a_later_stop_that_was_left_and_reached_again_counts() -> None:
    fixes = [fix(0, PORT, 0, 0), fix(1, PORT, 0, 0), *stay(60, CUSTOMER), *stay(300, PORT)]

    assert times(process_fixes([DEPOT, PORT], {}, fixes, last_seen=fix(-60, PORT))) == {1: (at(300), at(302))}


def test_the_nearer_of_two_overlapping_stops_is_reached_and_the_other_waits() -> None:
    neighbour = north_of(DEPOT, 350)
    standing = [fix(minutes, DEPOT, 150, 0) for minutes in range(10)]

    assert set(process_fixes([DEPOT, neighbour, PORT], {}, standing)) == {0}
    moved = [fix(minutes, DEPOT, 250, 0) for minutes in range(10, 20)]
    assert set(process_fixes([DEPOT, neighbour, PORT], {}, [*standing, *moved])) == {0, 1}


def test_the_nearer_of_two_near_stops_is_reached() -> None:
    neighbour = north_of(DEPOT, 300)
    standing = [fix(minutes, neighbour, -80, 0) for minutes in (0, 1)]

    assert set(process_fixes([DEPOT, neighbour, PORT], {}, standing)) == {1}


def test_a_visit_that_is_known_already_stays_as_it_is() -> None:
    known = {0: Visit(at(-600), None, at(-500))}

    visits = process_fixes([DEPOT, CUSTOMER, PORT], known, [*stay(0, DEPOT), *stay(300, CUSTOMER)])

    assert times(visits) == {0: (at(-600), at(-500)), 1: (at(300), at(302))}


# --- Fixes of no use -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "live", "reason"),
    [
        (fix(0, DEPOT), True, None),
        (fix(0, DEPOT, accuracy=200), True, None),
        (fix(0, DEPOT, accuracy=200.1), True, "inaccurate"),
        (fix(0, DEPOT, accuracy=200.1), False, "inaccurate"),
        (fix(5, DEPOT), True, None),
        (fix(5.1, DEPOT), True, "in_the_future"),
        (fix(5.1, DEPOT), False, None),
        (fix(-60 * 24 * 300, DEPOT), True, None),
    ],
)
def test_a_fix_is_dropped_when_it_is_inaccurate_or_live_and_in_the_future(
    one: Fix, live: bool, reason: str | None
) -> None:
    assert drop_reason(one, now=NOON, live=live) == reason
