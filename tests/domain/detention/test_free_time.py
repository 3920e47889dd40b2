"""The free time of a stop, and the minutes beyond it."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from domain.detention.free_time import free_time_of

NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NINE + timedelta(minutes=minutes)


def test_free_time_counts_from_the_arrival_within_the_window() -> None:
    free = free_time_of(at(10), NINE, at(60), 120)

    assert free.ends_at == at(130)
    assert (free.early_minutes, free.late_minutes) == (0, 0)
    assert free.minutes_beyond(at(191.9)) == 61
    assert free.minutes_beyond(at(100)) == 0


def test_an_early_truck_waits_until_its_appointment_begins() -> None:
    free = free_time_of(at(-90), NINE, at(60), 120)

    assert (free.counts_from, free.ends_at, free.early_minutes) == (NINE, at(120), 90)


def test_a_late_truck_counts_from_its_arrival_and_is_called_late() -> None:
    free = free_time_of(at(75), NINE, at(60), 120)

    assert (free.ends_at, free.late_minutes) == (at(195), 15)


def test_without_an_appointment_the_arrival_counts() -> None:
    assert free_time_of(at(5), None, None, 0).ends_at == at(5)


def test_at_the_first_stop_without_an_appointment_it_ends_no_earlier_than_the_route_starts() -> None:
    assert free_time_of(at(-600), None, at(60), 120, starts_at=NINE).ends_at == NINE
    assert free_time_of(at(-60), None, None, 120, starts_at=NINE).ends_at == at(60)
    assert free_time_of(at(-600), at(-300), None, 120, starts_at=NINE).ends_at == at(-180)


def test_no_free_time_is_too_long() -> None:
    assert free_time_of(at(5), datetime.max.replace(tzinfo=UTC), None, 10_000).ends_at.year == 9999


MINUTES = st.floats(-3_000, 3_000)


@given(MINUTES, st.none() | MINUTES, st.none() | MINUTES, st.floats(0, 600), MINUTES, st.floats(0, 300))
def test_no_minute_is_claimed_before_the_window_or_twice(
    arrival: float, opens: float | None, closes: float | None, free_minutes: float, until: float, earlier: float
) -> None:
    opens_at, closes_at = (None if one is None else at(one) for one in (opens, closes))
    free = free_time_of(at(arrival), opens_at, closes_at, free_minutes)
    beyond = free.minutes_beyond(at(until))

    start = max(arrival, opens) if opens is not None else arrival
    assert beyond <= max(0.0, until - start - free_minutes) + 1e-6
    assert beyond > until - start - free_minutes - 1 - 1e-6
    sooner = free_time_of(at(arrival - earlier), opens_at, closes_at, free_minutes)
    assert sooner.minutes_beyond(at(until)) >= beyond
    if opens is not None and arrival <= opens:
        assert sooner.minutes_beyond(at(until)) == beyond, "coming still earlier earns nothing"
