"""The rules that match a fill to a station, with a score. They are functions of values. An unclear match is never
guessed; a person decides.

Scores from 0 to 100: 100 for the station's own code, if name and town do not contradict it; 95 for its full name in its
town; 90 for its chain and number, or the only station of its brand there; 85 for one of several of the brand if the
truck was at it; 80 if no name fits but the truck was at it. Below `SURE_SCORE` nothing is matched."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from domain.fills.place_names import (
    NamedStation,
    PlaceName,
    are_counted_together,
    fitting,
    is_in_town,
    is_numbered,
    may_be_named,
    place_name,
)
from domain.roads import Point, great_circle_miles
from domain.stations.chains import brand_of, plain_town, store_number
from domain.stations.station_codes import plain_code

SURE_SCORE = 80
AT_STATION_MILES = 0.5
"""A truck within this distance of a station is at it."""
NEXT_STATION_MILES = 1.0
"""Least distance by which the next station must be further from the truck, so that the nearest one is certain."""
STATION_OF_STOP_MILES = 0.2
"""A planned fuel stop and a station within this distance are one place."""


class KnownStation(NamedTuple):
    """A station that a fill can be at."""

    station_id: str
    name: str
    brand: str | None
    city: str | None
    state: str | None
    place: Point

    @property
    def named(self) -> NamedStation:
        return NamedStation(self.station_id, self.name, self.brand, self.city)


class StationMatch(NamedTuple):
    station: KnownStation | None
    score: int
    unclear: bool
    """True if several stations fit and cannot be told apart."""


class _Named(NamedTuple):
    """The stations that a printed name may mean."""

    meant: Sequence[KnownStation]
    score: int
    """The score of the only one; 0 if the name alone is not enough."""
    has_others: bool
    """True if other stations are in that town or have that number."""


class KnownStations:
    """The stations by code, town and square of the map."""

    def __init__(self, stations: Iterable[KnownStation], aliases: Mapping[str, str] | None = None) -> None:
        """`aliases` are codes of cards with their stations."""
        self._by_id: dict[str, KnownStation] = {}
        self._by_town: dict[tuple[str, str], list[KnownStation]] = defaultdict(list)
        for station in stations:
            self._by_id[station.station_id] = station
            self._by_town[_town(station.city, station.state)].append(station)
        self._by_number: dict[str, list[KnownStation]] | None = None
        self._aliases = {plain_code(code): station_id for code, station_id in (aliases or {}).items()}
        self._by_square: dict[tuple[int, int], list[KnownStation]] | None = None
        self._by_plain_id: dict[str, list[KnownStation]] | None = None
        # a fleet buys at the same places again and again
        self.named: Callable[[str | None, str | None, str | None], _Named]
        self.named = lru_cache(maxsize=20_000)(partial(_find_named, self))
        self.state_of: Callable[[str, str], str | None] = lru_cache(maxsize=20_000)(self._find_state)

    def by_id(self, station_id: str | None) -> KnownStation | None:
        return self._by_id.get(station_id or "")

    def in_town(self, city: str | None, state: str | None) -> Sequence[KnownStation]:
        return self._by_town.get(_town(city, state), ()) if city and state else ()

    def numbered(self, numbers: Iterable[str], state: str | None) -> list[KnownStation]:
        """The stations of the state with one of the numbers, of any chain."""
        found = (one for number in numbers for one in self._of_number(number))
        return [one for one in found if (one.state or "").upper() == (state or "")]

    def _of_number(self, number: str) -> Sequence[KnownStation]:
        if self._by_number is None:
            self._by_number = defaultdict(list)
            for one in self._by_id.values():
                self._by_number[one.named.number].append(one)
        return self._by_number.get(number, ())

    def _find_state(self, name: str, city: str) -> str | None:
        """The state of a purchase whose row has none. The number in the place's name tells the store, if its chain
        counts its stores throughout the continent. None if no such store is known in that town, or if several are."""
        printed, number = place_name(name, city), store_number(name.replace("_", " "))
        if printed.numbers != {number}:
            return None
        meant = [one for one in self._of_number(number) if are_counted_together(one.named, printed)]
        states = {one.state for one in meant}
        is_sure = len(states) == 1 and all(is_in_town(one.named, city, printed) for one in meant)
        return states.pop() if is_sure else None

    def near(self, place: Point, miles: float) -> list[tuple[float, KnownStation]]:
        """The stations within `miles` (at most 10), the nearest first."""
        if self._by_square is None:
            self._by_square = defaultdict(list)
            for one in self._by_id.values():
                self._by_square[_square(one.place)].append(one)
        row, column = _square(place)
        found = [
            (great_circle_miles(place, station.place), station)
            for rows in (row - 1, row, row + 1)
            for columns in (column - 1, column, column + 1)
            for station in self._by_square.get((rows, columns), ())
        ]
        return sorted((one for one in found if one[0] <= miles), key=lambda one: one[0])

    def coded(self, code: str | None) -> KnownStation | None:
        """The station of the company's own code, or else the one with it as its id."""
        if not code:
            return None
        plain = plain_code(code)
        return self._by_id.get(self._aliases.get(plain, "")) or self._by_id.get(code) or self._with_plain_id(plain)

    def _with_plain_id(self, plain: str) -> KnownStation | None:
        if self._by_plain_id is None:
            self._by_plain_id = defaultdict(list)
            for one in self._by_id.values():
                self._by_plain_id[plain_code(one.station_id)].append(one)
        found = self._by_plain_id.get(plain, ())
        return found[0] if len(found) == 1 else None


def match_station(
    stations: KnownStations,
    *,
    code: str | None,
    name: str | None,
    city: str | None,
    state: str | None,
    trail: Sequence[Point] = (),
) -> StationMatch:
    """The station of a purchase. `trail` has the truck's places at that time, empty if not known."""
    coded = stations.coded(code)
    if coded is not None and _fits_state(coded, state):
        is_sure = _agrees(coded, name, city) or _where_the_truck_was([coded], trail) is not None
        return StationMatch(coded, 100, False) if is_sure else StationMatch(None, 0, True)
    named = stations.named(name, city, state)
    if named.score:
        return StationMatch(named.meant[0], named.score, False)
    if named.meant:
        here = _where_the_truck_was(named.meant, trail)
        return StationMatch(here, 85, False) if here is not None else StationMatch(None, 0, True)
    around = {one.station_id: one for place in trail for _, one in stations.near(place, 2 * NEXT_STATION_MILES)}
    here = _where_the_truck_was([one for one in around.values() if _fits_state(one, state)], trail)
    if here is not None and (not name or may_be_named(here.named, _printed(name, city, state))):
        return StationMatch(here, 80, False)
    return StationMatch(None, 0, named.has_others or here is not None)


def _find_named(stations: KnownStations, name: str | None, city: str | None, state: str | None) -> _Named:
    """The stations that a printed name may mean in that town."""
    in_town = stations.in_town(city, state)
    letters = _letters(name)
    same_name = [one for one in in_town if _letters(one.name) == letters]
    if len(same_name) == 1:
        return _Named(same_name, 95, True)
    printed = _printed(name, city, state)
    numbered = [one for one in stations.numbered(printed.numbers, state) if is_numbered(one.named, printed)]
    ids = fitting((one.named for one in in_town), printed)
    meant = same_name or [one for one in in_town if one.station_id in ids]
    meant = meant or [one for one in numbered if is_in_town(one.named, city, printed)]
    is_sure = len(meant) == 1 and bool(same_name or not numbered or meant[0] in numbered)
    return _Named(meant, 90 if is_sure else 0, bool(in_town or numbered))


def _printed(name: str | None, city: str | None, state: str | None) -> PlaceName:
    return place_name(name or "", f"{city or ''} {state or ''}")


def _where_the_truck_was(stations: Sequence[KnownStation], trail: Sequence[Point]) -> KnownStation | None:
    """The station that the truck was at, if it was clearly further from the others; None if not."""
    if not trail or not stations:
        return None
    distances = sorted(
        (min(great_circle_miles(place, one.place) for place in trail), number) for number, one in enumerate(stations)
    )
    if distances[0][0] > AT_STATION_MILES:
        return None
    if len(distances) > 1 and distances[1][0] - distances[0][0] < NEXT_STATION_MILES:
        return None
    return stations[distances[0][1]]


def _agrees(station: KnownStation, name: str | None, city: str | None) -> bool:
    """False if the purchase names another chain or town than the station of its code."""
    own, theirs = brand_of(station.brand or "", station.name), brand_of("", name or "")
    if own.chains and theirs.chains and not own.chains & theirs.chains:
        return False
    ours, there = plain_town(station.city or ""), plain_town(city or "")
    if not ours or not there or ours.startswith(there) or there.startswith(ours):
        return True
    return bool(own.chains & theirs.chains) and store_number(name or "") == store_number(station.name) != ""


def _fits_state(station: KnownStation, state: str | None) -> bool:
    return state is None or station.state is None or station.state.upper() == state


def _letters(text: str | None) -> str:
    return re.sub(r"[^A-Z0-9]", "", (text or "").upper())


def _town(city: str | None, state: str | None) -> tuple[str, str]:
    return plain_town(city or ""), (state or "").upper()


def _square(place: Point) -> tuple[int, int]:
    """The square of the map, some 12 miles wide or more: 0.4 degrees."""
    return int(place.latitude // 0.4), int(place.longitude // 0.4)
