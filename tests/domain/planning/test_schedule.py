"""Arrival times: 11 hours of driving, 10 of rest, waits for windows, 30 minutes for fuel."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from domain.planning.schedule import LAST_MOMENT, MAX_DRIVING_HOURS, REST, Waypoint, arrival_times

EIGHT = datetime(2026, 11, 23, 8, tzinfo=UTC)


def hours_after(departure: datetime, *waypoints: Waypoint) -> list[float]:
    return [(arrival - departure) / timedelta(hours=1) for arrival in told(departure, waypoints)]


def told(departure: datetime, waypoints: Iterable[Waypoint]) -> list[datetime]:
    return [arrival for arrival in arrival_times(departure, waypoints) if arrival is not None]


def test_a_truck_that_waits_for_the_last_representable_time_has_no_later_arrivals() -> None:
    opens = LAST_MOMENT - timedelta(hours=1)
    waypoints = [
        Waypoint(1.0, stay=timedelta(minutes=30)),
        Waypoint(2.0, opens),
        Waypoint(2.5),
        Waypoint(4.0),
        Waypoint(50.0, opens=EIGHT),
    ]
    half_an_hour_later = opens + timedelta(minutes=30)
    assert list(arrival_times(EIGHT, waypoints)) == [EIGHT + timedelta(hours=1), opens, half_an_hour_later, None, None]
    assert list(arrival_times(LAST_MOMENT, waypoints)) == [None] * 5


def test_a_window_from_the_year_one_is_open() -> None:
    opens = datetime.min.replace(tzinfo=UTC)
    assert hours_after(EIGHT, Waypoint(2.0, opens)) == [2.0]
    assert list(arrival_times(opens, [Waypoint(2.0, opens)])) == [opens + timedelta(hours=2)]


def test_eleven_hours_are_driven_without_a_rest() -> None:
    assert hours_after(EIGHT, Waypoint(5.0), Waypoint(11.0)) == [5.0, 11.0]


def test_after_eleven_hours_of_driving_the_driver_rests_for_ten() -> None:
    assert hours_after(EIGHT, Waypoint(11.5), Waypoint(22.0), Waypoint(22.5)) == [21.5, 32.0, 42.5]


def test_a_long_leg_has_several_rests() -> None:
    assert hours_after(EIGHT, Waypoint(40.0)) == [70.0]


def test_a_fuel_stop_delays_what_comes_after_it() -> None:
    half_an_hour = timedelta(minutes=30)
    assert hours_after(EIGHT, Waypoint(2.0, stay=half_an_hour), Waypoint(4.0, stay=half_an_hour), Waypoint(6.0)) == [
        2.0,
        4.5,
        7.0,
    ]


def test_an_early_truck_waits_and_a_late_one_continues() -> None:
    opens = EIGHT + timedelta(hours=6)
    assert hours_after(EIGHT, Waypoint(4.0, opens=opens), Waypoint(5.0)) == [6.0, 7.0]
    assert hours_after(EIGHT, Waypoint(7.0, opens=opens), Waypoint(8.0)) == [7.0, 8.0]


def test_a_wait_of_ten_hours_is_a_rest() -> None:
    short, long = (EIGHT + timedelta(hours=10 + hours) for hours in (9.9, 10))
    assert hours_after(EIGHT, Waypoint(10.0, opens=short), Waypoint(12.0)) == [19.9, 31.9]
    assert hours_after(EIGHT, Waypoint(10.0, opens=long), Waypoint(12.0)) == [20.0, 22.0]


@given(
    st.lists(st.tuples(st.floats(0, 30), st.none() | st.integers(0, 100), st.integers(0, 3)), max_size=8),
)
def test_no_arrival_is_earlier_than_rests_and_windows_allow(legs: list[tuple[float, int | None, int]]) -> None:
    driving_hours, waypoints = 0.0, []
    for leg_hours, opens_after, stay_hours in legs:
        driving_hours += leg_hours
        opens = None if opens_after is None else EIGHT + timedelta(hours=opens_after)
        waypoints.append(Waypoint(driving_hours, opens, timedelta(hours=stay_hours)))

    times = told(EIGHT, waypoints)

    assert times == sorted(times)
    for waypoint, time in zip(waypoints, times, strict=True):
        assert waypoint.opens is None or time >= waypoint.opens
        rests = max(0, -(-(waypoint.driving_hours - 1e-6) // MAX_DRIVING_HOURS) - 1)
        assert time - EIGHT >= timedelta(hours=waypoint.driving_hours) + rests * REST - timedelta(seconds=1)
