"""Odd values cost themselves, or their fix, and never another."""

import math
from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from domain.connectors.fixes import positions_of
from domain.connectors.vendor import VendorFix
from domain.ids import new_id

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
TRUCK = new_id()
GOOD = VendorFix("1", NOW, 41.5, -88.1, 60.0, 54.0, 8.0)
ANY = st.floats() | st.none()


def outcome(*fixes: VendorFix) -> tuple[int, Counter[str]]:
    positions, left_out = positions_of(fixes, {"1": TRUCK, "2": None}, now=NOW)
    return len(positions), left_out


def test_places_and_times_that_cannot_be_cost_the_fix() -> None:
    assert outcome(GOOD) == (1, {})
    assert outcome(GOOD._replace(latitude=0, longitude=0), GOOD) == (1, {"null_island": 1})
    assert outcome(GOOD._replace(latitude=math.nan), GOOD._replace(longitude=181.0)) == (0, {"odd_place": 2})
    assert outcome(GOOD._replace(recorded_at=NOW - timedelta(days=31))) == (0, {"too_old": 1})
    assert outcome(GOOD._replace(vehicle_key="2"), GOOD._replace(vehicle_key="3")) == (0, {"unmatched": 2})


def test_an_odd_reading_costs_that_reading() -> None:
    odd = GOOD._replace(fuel_percent=255.0, speed_mph=-1.0, accuracy_meters=math.inf)
    (position,), left_out = positions_of([odd], {"1": TRUCK}, now=NOW)
    assert (position.fuel_percent, position.speed_mph, position.accuracy_meters) == (None, None, None)
    assert left_out == {"odd_fuel": 1, "odd_speed": 1, "odd_accuracy": 1}


@given(latitude=st.floats(), longitude=st.floats(), speed=ANY, fuel=ANY, accuracy=ANY)
def test_every_position_that_is_left_can_be_stored(
    latitude: float, longitude: float, speed: float | None, fuel: float | None, accuracy: float | None
) -> None:
    fix = VendorFix("1", NOW, latitude, longitude, speed, fuel, accuracy)
    for position in positions_of([fix], {"1": TRUCK}, now=NOW)[0]:
        assert -90 <= position.latitude <= 90
        assert -180 <= position.longitude <= 180
        assert position.fuel_percent is None or 0 <= position.fuel_percent <= 100
        assert position.speed_mph is None or 0 <= position.speed_mph <= 1000
        assert position.accuracy_meters is None or math.isfinite(position.accuracy_meters)
