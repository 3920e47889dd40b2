"""Doubts about the routes of a table with a row for each stop.

A row with a mistyped `externalId` is read without a fault. It makes a route of its own or joins another one, while its
real route lacks a stop. Such a row is recognized by its traces: a single stop, a gap in the numbers of stops, a truck
and a start of another route, an `externalId` that differs from another one only in capitals. The route that may lack a
stop is refused."""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import NamedTuple

from domain.files.route_layout import SEQUENCE, Layout, TableField
from domain.files.route_times import plain_text
from domain.files.spreadsheets import Cell, Row

_LAST = frozenset((99, 999, 9_999))
"""Numbers that mean the last stop, whatever the number of stops before it."""
_WIDE_STEP = 5
"""Stops are numbered by fives or tens, so that one can be inserted later."""
_MOST_STRAYS = 10_000


class _Stray(NamedTuple):
    """A row that may belong to another route than the named one."""

    line: int
    route: int
    truck: int
    """The hash of the cells with the truck and the start; 0 if they are empty."""
    neighbour: int | None
    """The route of the row before."""


@dataclass(slots=True)
class Doubts:
    layout: Layout
    lowest: float = inf
    """The lowest number of a stop in the file."""
    trucks: dict[int, int] = field(default_factory=dict)
    """The truck and the start of each route, from its first row."""
    firsts: dict[int, _Stray] = field(default_factory=dict)
    """The first rows of routes with one row so far."""
    strays: list[_Stray] = field(default_factory=list)
    """Further rows of routes whose truck or start differs."""
    spelled: dict[int, int] = field(default_factory=dict)
    """Routes whose `externalId` is not in capitals, by its spelling in capitals."""
    alike: dict[int, int] = field(default_factory=dict)
    """Routes whose `externalId` differs from another one only in capitals."""
    before: int | None = None
    _places: tuple[int, ...] = ()
    _start: int | None = None
    _stops: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        columns = self.layout.columns
        found = (columns.get(TableField(None, name)) for name in ("unitNumber", "vin"))
        self._places = tuple(place for place in found if place is not None)
        self._stops = tuple(at for place, at in columns.items() if place.field in ("latitude", "longitude", "address"))
        self._start = None if self.layout.is_start_of_stops else columns[TableField(None, "scheduledStart")]

    def see(self, row: Row, route: int, external_id: str) -> None:
        """Notes a row of the route. `external_id` is empty if the row names none."""
        if not self._is_stop(row.cells):
            self.before = route
            return
        truck = self._truck(row.cells)
        known = self.trucks.get(route)
        if known is None:
            self.trucks[route] = truck
            self.firsts[route] = _Stray(row.line, route, truck, self.before)
            self._spell(route, external_id)
        else:
            self.firsts.pop(route, None)
            if truck and truck != known and external_id and known and len(self.strays) < _MOST_STRAYS:
                self.strays.append(_Stray(row.line, route, truck, self.before))
        self._number(row)
        self.before = route

    def spoiled(self, rows: Mapping[int, int], known: Collection[int]) -> Iterator[tuple[int, str]]:
        """The routes that may lack a row, with the reason; for those `known` to lack one, the reason too."""
        in_capitals = [(route, plain) for plain, route in self.spelled.items() if plain in rows]
        for one, other in [*self.alike.items(), *in_capitals]:
            for route in (one, other):
                yield route, "Another externalId of the file differs from this one in capitals only: is it one route?"
        single = [one for one in self.firsts.values() if rows.get(one.route) == 1 and one.route not in known]
        by_truck = self._routes_by_truck() if single or self.strays else {}
        for stray in [*single, *self.strays]:
            why = f"Line {stray.line} names another externalId, and may be a stop of this route"
            yield from ((route, why) for route in self._possible_routes(stray, by_truck) if route != stray.route)

    def _possible_routes(self, one: _Stray, by_truck: Mapping[int, Sequence[int]]) -> Sequence[int]:
        """The routes to which the row may belong."""
        if one.truck and self._start is not None:
            return by_truck.get(one.truck, ())
        near = one.neighbour
        same_truck = near is not None and (not one.truck or self.trucks[near] == one.truck)
        return [near] if near is not None and same_truck else []

    def _routes_by_truck(self) -> dict[int, list[int]]:
        found = defaultdict[int, list[int]](list)
        for route, truck in self.trucks.items():
            if truck:
                found[truck].append(route)
        return found

    def _is_stop(self, cells: Sequence[Cell]) -> bool:
        """True if the row has a place; a row without one is about its route alone."""
        return any(at < len(cells) and cells[at] not in (None, "") for at in self._stops)

    def _truck(self, cells: Sequence[Cell]) -> int:
        width = len(cells)
        truck = tuple([cells[at] for at in self._places if at < width and cells[at] not in (None, "")])
        if not truck:
            return 0
        if self._start is None:
            return hash(truck)
        start = cells[self._start] if self._start < width else None
        return 0 if start in (None, "") else hash((truck, start))

    def _spell(self, route: int, external_id: str) -> None:
        plain = " ".join(external_id.upper().split())
        if plain == external_id:
            return
        other = self.spelled.setdefault(hash(plain), route)
        if other != route:
            self.alike[route] = other

    def _number(self, row: Row) -> None:
        place = self.layout.columns.get(TableField(0, SEQUENCE))
        if place is None or place >= len(row.cells):
            return
        try:
            number = float(plain_text(row.cells[place]))
        except ValueError:
            return
        if isfinite(number) and number < self.lowest:
            self.lowest = number


def missing_number(numbers: Sequence[float], lowest: float) -> int | None:
    """The number of a stop that the route lacks, from its numbers in order; None if none is missing. Stops are numbered
    by ones from 0 or 1, by twos, or by fives or tens; other numbers show nothing."""
    if not numbers or not all(isfinite(number) and number == int(number) for number in numbers):
        return None
    whole = [int(number) for number in numbers]
    if len(whole) > 1 and whole[-1] in _LAST:
        whole.pop()
    steps = [after - before for before, after in itertools.pairwise(whole)]
    step = min(steps, default=1)
    if step >= _WIDE_STEP:
        return _missing_of_wide(whole, steps, step)
    if len(steps) > 1 and len(set(steps)) == 1 and step > 1:
        return None
    if whole[0] > 1 >= lowest:
        return whole[0] - 1
    return next((before + 1 for before, after in itertools.pairwise(whole) if after - before > 1), None)


def _missing_of_wide(numbers: Sequence[int], steps: Sequence[int], step: int) -> int | None:
    if numbers[0] not in (0, step) or any(one % step for one in steps):
        return None
    return next((before + step for before, one in zip(numbers, steps, strict=False) if one > step), None)
