"""The rule for vendors' values: which fixes are accepted, and which reading of a fix is left out.

An odd value costs only itself, or its fix, and never the page. Each is counted by its reason."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from uuid import UUID

from domain.connectors.vendor import VendorFix
from domain.contract.shapes import Position
from domain.ids import shown_id

_OLDEST = timedelta(days=30)
_NEAR_ZERO = 0.01
_NORTH_AMERICA = ((14.0, 75.0), (-170.0, -50.0))
"""Latitudes and longitudes of the continent and its islands. A place elsewhere is accepted, unless it would lie here
with both numbers exchanged, or with the other sign of its longitude."""
_FASTEST_MPH = 1_000.0


def positions_of(
    fixes: Iterable[VendorFix], vehicles: Mapping[str, UUID | None], *, now: datetime
) -> tuple[list[Position], Counter[str]]:
    """The positions of known vehicles, and the values left out, counted by reason. Times in the future are left to
    `telematics.feed`, which drops them from live feeds only."""
    refused: Counter[str] = Counter()
    positions = []
    for fix in fixes:
        vehicle_id = vehicles.get(fix.vehicle_key)
        if vehicle_id is None:
            refused["unmatched"] += 1
        elif reason := _fault_of(fix, now):
            refused[reason] += 1
        else:
            positions.append(_position(fix, vehicle_id, refused))
    return positions, refused


def _fault_of(fix: VendorFix, now: datetime) -> str | None:
    if not _is_in_north_america(fix.latitude, fix.longitude):
        if _is_in_north_america(fix.longitude, fix.latitude):
            return "exchanged_place"
        if _is_in_north_america(fix.latitude, -fix.longitude):
            return "mirrored_place"
    if not (-90 <= fix.latitude <= 90 and -180 <= fix.longitude <= 180):  # false of NaN, too
        return "odd_place"
    if abs(fix.latitude) < _NEAR_ZERO and abs(fix.longitude) < _NEAR_ZERO:
        return "null_island"
    if fix.recorded_at < now - _OLDEST:
        return "too_old"
    return None


def _is_in_north_america(latitude: float, longitude: float) -> bool:
    (south, north), (west, east) = _NORTH_AMERICA
    return south <= latitude <= north and west <= longitude <= east


def _position(fix: VendorFix, vehicle_id: UUID, refused: Counter[str]) -> Position:
    return Position(
        latitude=float(fix.latitude),
        longitude=float(fix.longitude),
        recorded_at=fix.recorded_at,
        vehicle_id=shown_id("veh", vehicle_id),
        speed_mph=_within(fix.speed_mph, _FASTEST_MPH, "odd_speed", refused),
        fuel_percent=_fuel_percent(fix.fuel_percent, refused),
        accuracy_meters=_within(fix.accuracy_meters, math.inf, "odd_accuracy", refused),
    )


def _fuel_percent(value: float | None, refused: Counter[str]) -> float | None:
    """The level in percent. A level above 0 and below 1 is a share of the tank, because no one drives on half a
    percent."""
    if value is not None and 0 < value < 1:
        refused["odd_fuel"] += 1
        return None
    return _within(value, 100.0, "odd_fuel", refused)


def _within(value: float | None, most: float, reason: str, refused: Counter[str]) -> float | None:
    if value is None:
        return None
    if 0 <= value <= most and math.isfinite(value):
        return float(value)
    refused[reason] += 1
    return None
