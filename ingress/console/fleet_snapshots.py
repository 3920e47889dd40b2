"""Snapshots of the fleets that open pages show.

A fleet is read once for all pages of a company. Its snapshot remembers when each truck last changed, so a page gets
only the changes since its last one, and only those in its view."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Tenant
from domain.ids import shown_id
from domain.roads import Point
from domain.routes.reading.fleet_now import TruckNow

REUSED_AT_LEAST_SECONDS = 1.0
REUSED_TIMES = 16
"""Life of a snapshot, in multiples of the time to read it. So a large fleet, shown by any number of pages, keeps a
sixteenth of a connection busy."""
_PATIENCE_SECONDS = 10.0
_MOST_FLEETS = 32
"""Most fleets that are remembered. In any other fleet every truck counts as changed."""

STATUSES = ("", "draft", "planned", "active")
"""The statuses of a current route, by their number in a row; the first stands for no route."""
NEEDS = ("late", "silent", "low", "off_road")
"""Facts that a dispatcher has to know of a truck, by their bits in a row."""


class Row(NamedTuple):
    """A truck in the form for the page: an array, because keys would be repeated for each truck."""

    id: str
    unit: str
    driver: str
    latitude: float | None
    longitude: float | None
    heading: int | None
    fuel: int | None
    """Percent."""
    fix: int | None
    """Seconds since 1970."""
    status: int
    needs: int
    route: str
    """The `externalId` of its route."""
    stop: str
    fuel_stop: str
    """The name of its next fuel stop, like the stop before it."""


def row_of(truck: TruckNow) -> Row:
    route, place = truck.route, truck.place
    needs = (truck.is_late, truck.is_silent, truck.is_low, truck.is_off_road)
    return Row(
        shown_id("veh", truck.id),
        truck.unit_number or "",
        (route.driver or "") if route else "",
        round(place.latitude, 5) if place else None,
        round(place.longitude, 5) if place else None,
        truck.heading,
        round(truck.fuel_percent) if truck.fuel_percent is not None else None,
        int(truck.fix_at.timestamp()) if truck.fix_at else None,
        STATUSES.index(route.status) if route else 0,
        sum(1 << bit for bit, is_so in enumerate(needs) if is_so),
        route.external_id if route else "",
        route.next_stop.name if route and route.next_stop else "",
        route.next_fuel_stop.name if route and route.next_fuel_stop else "",
    )


class Bounds(NamedTuple):
    """The part of the world that a page shows. West is greater than east across the antimeridian."""

    west: float
    south: float
    east: float
    north: float

    @classmethod
    def read(cls, text: str) -> "Bounds | None":
        """The part in a text; None for any other text, which shows the whole world."""
        try:
            west, south, east, north = map(float, text.split(","))
        except ValueError:
            return None
        if not all(abs(one) < 1e6 for one in (west, south, east, north)) or east - west >= 360:  # also not a number
            return None
        return cls(_turned(west), south, _turned(east), north)

    def has(self, place: Point) -> bool:
        if not self.south <= place.latitude <= self.north:
            return False
        if self.west <= self.east:
            return self.west <= place.longitude <= self.east
        return place.longitude >= self.west or place.longitude <= self.east


def _turned(degrees: float) -> float:
    """The longitude in the range from -180 to 180."""
    return degrees if -180 <= degrees <= 180 else (degrees + 180) % 360 - 180


class _Entry(NamedTuple):
    row: Row
    truck: TruckNow
    place_before: Point | None
    """The place before the last change."""
    changed: float


@dataclass(slots=True)
class Snapshot:
    """A fleet at a moment."""

    at: float
    """Seconds since 1970 by PostgreSQL's clock, larger than in all earlier snapshots."""
    trucks: dict[str, _Entry]
    gone: dict[str, float] = field(default_factory=dict)
    """Trucks that have left the fleet, each with the time."""

    def known(self) -> dict[UUID, TruckNow]:
        return {entry.truck.id: entry.truck for entry in self.trucks.values()}

    def rows(self) -> list[Row]:
        return [entry.row for entry in self.trucks.values()]

    def changes(self, since: float, bounds: Bounds | None) -> Iterator[Row | tuple[str]]:
        """The trucks in view that have changed since then; for one that has left the fleet only its id. A truck that
        leaves the view comes once more, and one without a position is always in view."""
        for entry in self.trucks.values():
            if entry.changed > since and _is_in_view(entry, bounds):
                yield entry.row
        for truck, at in self.gone.items():
            if at > since:
                yield (truck,)


def _is_in_view(entry: _Entry, bounds: Bounds | None) -> bool:
    place = entry.truck.place
    if bounds is None or place is None:
        return True
    return bounds.has(place) or (entry.place_before is not None and bounds.has(entry.place_before))


def _follow(before: Snapshot | None, trucks: list[TruckNow], at: float) -> Snapshot:
    """The snapshot that follows the last one."""
    known = before.trucks if before is not None else {}
    entries = {}
    for truck in trucks:
        row = row_of(truck)
        old = known.get(row.id)
        if old is not None and old.row == row:
            entries[row.id] = old if old.truck.fix_at == truck.fix_at else old._replace(truck=truck)
        else:
            entries[row.id] = _Entry(row, truck, old.truck.place if old is not None else None, at)
    gone = {truck: at for truck in known if truck not in entries}
    if before is not None:
        gone |= {truck: then for truck, then in before.gone.items() if truck not in entries}
    return Snapshot(at, entries, gone)


@dataclass(slots=True)
class _Kept:
    lock: threading.Lock = field(default_factory=threading.Lock)
    snapshot: Snapshot | None = None
    good_until: float = 0.0


class FleetSnapshots:
    """The newest snapshot of each fleet that pages asked for lately."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fleets: OrderedDict[Tenant, _Kept] = OrderedDict()

    def get(
        self, tenant: Tenant, read: Callable[[Mapping[UUID, TruckNow]], list[TruckNow]], *, now: datetime
    ) -> Snapshot:
        """The snapshot, read again if it is too old; `read` gets the trucks of the last one. Raises TimeoutError if
        another thread has been reading it for long, because a waiting caller holds a connection to the database."""
        with self._lock:
            kept = self._fleets.setdefault(tenant, _Kept())
            self._fleets.move_to_end(tenant)
            if len(self._fleets) > _MOST_FLEETS:
                self._fleets.popitem(last=False)
        if not kept.lock.acquire(timeout=_PATIENCE_SECONDS):
            raise TimeoutError("the fleet is still being read")
        try:
            if kept.snapshot is None or time.monotonic() > kept.good_until:
                began = time.monotonic()
                trucks = read(kept.snapshot.known() if kept.snapshot is not None else {})
                at = now.timestamp()
                if kept.snapshot is not None:  # a thread that asked earlier may read later
                    at = max(at, kept.snapshot.at + 0.001)
                kept.snapshot = _follow(kept.snapshot, trucks, at)
                took = time.monotonic() - began
                kept.good_until = time.monotonic() + max(REUSED_AT_LEAST_SECONDS, REUSED_TIMES * took)
            return kept.snapshot
        finally:
            kept.lock.release()
