"""Fuel levels with times of their own, and the fixes that get them.

A vendor measures positions and fuel apart. A fix gets the level that was measured nearest to it. One measurement goes
to one fix, because otherwise a wrong reading would confirm itself. The newest level that no fix has yet waits for the
truck's next one; it is stored beside the vendor's vehicle, so it outlives the process."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from operator import itemgetter
from typing import NamedTuple, TypeVar

from domain.connectors.vendor import VendorFix, VendorLevel

Value = TypeVar("Value")

_NEAR = timedelta(minutes=15)
"""A fuel level that was measured further from a fix does not belong to it."""

_WAITS = timedelta(hours=2)
"""Longest wait of a level without a position for the next one. A truck burns a tenth of its tanks in that time."""

_AHEAD = timedelta(minutes=5)
_KEPT = 20
_MOST_VEHICLES = 20_000


def fuel_level_near(levels: Sequence[tuple[datetime, Value]], at: datetime) -> Value | None:
    """The fuel level that was measured nearest to a time; `levels` are in order. None if none is near it."""
    if not levels:
        return None
    place = bisect_left(levels, at, key=itemgetter(0))
    moment, level = min(levels[max(place - 1, 0) : place + 1], key=lambda one: abs(one[0] - at))
    return level if abs(moment - at) <= _NEAR else None


class LevelMemory:
    """The last levels of each vehicle from one connector's vendor."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, list[tuple[datetime, VendorLevel]]] = OrderedDict()

    def keep(self, level: VendorLevel) -> None:
        known = self._of.setdefault(level.vehicle_key, [])
        insort(known, (level.measured_at, level), key=itemgetter(0))
        del known[:-_KEPT]
        self._of.move_to_end(level.vehicle_key)
        if len(self._of) > _MOST_VEHICLES:
            self._of.popitem(last=False)

    def of(self, vehicle_key: str) -> Sequence[tuple[datetime, VendorLevel]]:
        """The levels of a vehicle with their times, in order."""
        return self._of.get(vehicle_key, [])


def with_level(fix: VendorFix, level: VendorLevel | None) -> VendorFix:
    """The fix with a level; without one the fix as it is."""
    return fix if level is None else fix._replace(fuel_percent=level.percent, fuel_measured_at=level.measured_at)


class KeptLevel(NamedTuple):
    """The newest level of a vehicle."""

    measured_at: datetime
    percent: float | None
    """The level; None once a fix has it."""


def give_levels(
    fixes: Sequence[VendorFix],
    levels: Sequence[VendorLevel],
    kept: Mapping[str, KeptLevel],
    newest_at: Mapping[str, datetime],
    *,
    now: datetime,
) -> tuple[list[VendorFix], dict[str, KeptLevel]]:
    """The fixes of a page, each measurement with one of them, and the changed levels to keep. `kept` are the levels
    before the page, `newest_at` the times of the trucks' newest stored fixes: a level that waits goes to a newer
    one."""
    told: dict[str, VendorLevel] = {}
    for level in levels:
        if level.measured_at <= now + _AHEAD:
            told[level.vehicle_key] = max(told.get(level.vehicle_key, level), level, key=lambda one: one.measured_at)
    once = _once(fixes, {(level.vehicle_key, level.measured_at) for level in levels})
    places: dict[str, list[int]] = {}
    for number in sorted(range(len(once)), key=lambda number: once[number].recorded_at):
        places.setdefault(once[number].vehicle_key, []).append(number)
    changed = {}
    for key in sorted(told.keys() | kept.keys()):
        newest = _newest(told.get(key), kept.get(key))
        if newest is not None and newest.percent is not None:
            of_truck = [
                (number, once[number]) for number in places.get(key, ()) if once[number].recorded_at <= now + _AHEAD
            ]
            owner = _owner(newest.measured_at, of_truck, newest_at.get(key))
            if owner is not None:
                if once[owner].fuel_percent is None:
                    once[owner] = with_level(once[owner], VendorLevel(key, newest.measured_at, newest.percent))
                newest = newest._replace(percent=None)
        before = kept.get(key)
        if newest is not None and newest != before and (newest.percent is not None or _waits(before)):
            changed[key] = newest
    return once, changed


def _waits(kept: KeptLevel | None) -> bool:
    return kept is not None and kept.percent is not None


def _once(fixes: Sequence[VendorFix], told: Set[tuple[str, datetime]]) -> list[VendorFix]:
    """The fixes, each measurement only with the nearest one. Measurements missing from `told` came with an earlier
    page: a fix has them, or they wait."""
    nearest: dict[tuple[str, datetime], int] = {}
    for number, fix in enumerate(fixes):
        if fix.fuel_measured_at is None or (fix.vehicle_key, fix.fuel_measured_at) not in told:
            continue
        measured = (fix.vehicle_key, fix.fuel_measured_at)
        other = nearest.setdefault(measured, number)
        if _distance(fix) < _distance(fixes[other]):
            nearest[measured] = number
    owners = set(nearest.values())
    return [
        fix if fix.fuel_measured_at is None or number in owners else _without_level(fix)
        for number, fix in enumerate(fixes)
    ]


def _distance(fix: VendorFix) -> timedelta:
    return abs(fix.recorded_at - (fix.fuel_measured_at or fix.recorded_at))


def _without_level(fix: VendorFix) -> VendorFix:
    return fix._replace(fuel_percent=None, fuel_measured_at=None)


def _newest(told: VendorLevel | None, kept: KeptLevel | None) -> KeptLevel | None:
    if told is None or (kept is not None and kept.measured_at >= told.measured_at):
        return kept
    return KeptLevel(told.measured_at, told.percent)


def _owner(measured_at: datetime, fixes: Iterable[tuple[int, VendorFix]], newest_at: datetime | None) -> int | None:
    """The number of the fix that has the measurement, or gets it: the first one of the truck that is newer than the
    stored ones. A later reading that came with a fix stands in for it. `fixes` are the truck's, in order of time."""
    for number, fix in fixes:
        at = fix.recorded_at
        if fix.fuel_measured_at == measured_at:
            return number
        if newest_at is not None and at <= newest_at:
            continue
        if fix.fuel_percent is None and -_NEAR <= at - measured_at <= _WAITS:
            return number
        if fix.fuel_percent is not None and fix.fuel_measured_at is None and at >= measured_at:
            return number
    return None
