"""Arrival times: 11 hours of driving, 10 of rest, waits for windows, 30 minutes for fuel."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from domain.clock import LAST_MOMENT
from domain.planning.schedule import MAX_DRIVING_HOURS, REST, RoadPoint, arrival_times

EIGHT = datetime(2026, 11, 23, 8, tzinfo=UTC)


def hours_after(departure: datetime, *road_points: RoadPoint) -> list[float]:
    return [(arrival - departure) / timedelta(hours=1) for arrival in told(departure, road_points)]


def told(departure: datetime, road_points: Iterable[RoadPoint]) -> list[datetime]:
    return [arrival for arrival in arrival_times(departure, road_points) if arrival is not None]


def test_a_truck_that_waits_for_the_last_representable_time_has_no_later_arrivals() -> None:
    opens = LAST_MOMENT - timedelta(hours=1)
    road_points = [
        RoadPoint(1.0, stay=timedelta(minutes=30)),
        RoadPoint(2.0, opens),
        RoadPoint(2.5),
        RoadPoint(4.0),
        RoadPoint(50.0, opens=EIGHT),
    ]
    half_an_hour_later = opens + timedelta(minutes=30)
    assert list(arrival_times(EIGHT, road_points)) == [
        EIGHT + timedelta(hours=1),
        opens,
        half_an_hour_later,
        None,
        None,
    ]
    assert list(arrival_times(LAST_MOMENT, road_points)) == [None] * 5


def test_a_window_from_the_year_one_is_open() -> None:
    opens = datetime.min.replace(tzinfo=UTC)
    assert hours_after(EIGHT, RoadPoint(2.0, opens)) == [2.0]
    assert list(arrival_times(opens, [RoadPoint(2.0, opens)])) == [opens + timedelta(hours=2)]


def test_eleven_hours_are_driven_without_a_rest() -> None:
    assert hours_after(EIGHT, RoadPoint(5.0), RoadPoint(11.0)) == [5.0, 11.0]


def test_after_eleven_hours_of_driving_the_driver_rests_for_ten() -> None:
    assert hours_after(EIGHT, RoadPoint(11.5), RoadPoint(22.0), RoadPoint(22.5)) == [21.5, 32.0, 42.5]


def test_a_long_leg_has_several_rests() -> None:
    assert hours_after(EIGHT, RoadPoint(40.0)) == [70.0]


def test_a_fuel_stop_delays_what_comes_after_it() -> None:
    half_an_hour = timedelta(minutes=30)
    assert hours_after(EIGHT, RoadPoint(2.0, stay=half_an_hour), RoadPoint(4.0, stay=half_an_hour), RoadPoint(6.0)) == [
        2.0,
        4.5,
        7.0,
    ]


def test_an_early_truck_waits_and_a_late_one_continues() -> None:
    opens = EIGHT + timedelta(hours=6)
    assert hours_after(EIGHT, RoadPoint(4.0, opens=opens), RoadPoint(5.0)) == [6.0, 7.0]
    assert hours_after(EIGHT, RoadPoint(7.0, opens=opens), RoadPoint(8.0)) == [7.0, 8.0]


def test_a_wait_of_ten_hours_is_a_rest() -> None:
    short, long = (EIGHT + timedelta(hours=10 + hours) for hours in (9.9, 10))
    assert hours_after(EIGHT, RoadPoint(10.0, opens=short), RoadPoint(12.0)) == [19.9, 31.9]
    assert hours_after(EIGHT, RoadPoint(10.0, opens=long), RoadPoint(12.0)) == [20.0, 22.0]


@given(
    st.lists(st.tuples(st.floats(0, 30), st.none() | st.integers(0, 100), st.integers(0, 3)), max_size=8),
)
def test_no_arrival_is_earlier_than_rests_and_windows_allow(legs: list[tuple[float, int | None, int]]) -> None:
    driving_hours, road_points = 0.0, []
    for leg_hours, opens_after, stay_hours in legs:
        driving_hours += leg_hours
        opens = None if opens_after is None else EIGHT + timedelta(hours=opens_after)
        road_points.append(RoadPoint(driving_hours, opens, timedelta(hours=stay_hours)))

    times = told(EIGHT, road_points)

    assert times == sorted(times)
    for road_point, time in zip(road_points, times, strict=True):
        assert road_point.opens is None or time >= road_point.opens
        rests = max(0, -(-(road_point.driving_hours - 1e-6) // MAX_DRIVING_HOURS) - 1)
        assert time - EIGHT >= timedelta(hours=road_point.driving_hours) + rests * REST - timedelta(seconds=1)
