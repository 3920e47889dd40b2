"""The station that a row of a price file means: by a known code, by its chain, number and town, by its place, or by its
exit and town.

A matched code is kept, and all codes of a row lead to one station. A kept code is only a hint: the station's brand and
place are compared with the row's each time. A person's decision is believed without that."""

import re
from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from math import cos, hypot, radians
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.stations.chains import (
    NO_BRAND,
    Brand,
    BrandMatch,
    brand_match,
    brand_of,
    number_in_id,
    plain_town,
    store_number,
    town_in_name,
)
from domain.stations.price_profiles import CHAINS_OF_CODE_SETS
from domain.stations.state_names import plain_state
from domain.stations.station_codes import (
    CARD_CODES,
    NAME_CODES,
    RowPlace,
    keep_codes,
    name_code,
    plain_code,
    read_codes,
)

SAME_PLACE_MILES = 0.3
"""Two places within this distance may be one truck stop: it is large, and vendors measure its place at the pumps, the
door or the driveway."""

SAME_TOWN_MILES = 5.0
"""Furthest distance of a station whose chain, number and town fit, because its place may be measured wrongly; a code
reaches no further."""

_NEAR_DEGREES = 0.03
"""Two places less than this apart in both directions are at most 3 miles apart."""

_MOST_CANDIDATES = 10
_MOST_SITES = 50_000
"""Most cells for which a station is noted, some 500 bytes each: the words of all truck stops there are."""


class CodedStation(NamedTuple):
    station_id: str
    name: str
    brand: str | None
    address: str | None
    city: str | None
    state: str | None
    latitude: float
    longitude: float
    retail_price: float | None
    priced_at: datetime | None
    retired_at: datetime | None = None


class CodeMatch(NamedTuple):
    """A station, which may be retired; or several that may be meant, and why a person must choose."""

    station_id: str | None
    candidates: Sequence[str] = ()
    reason: str = ""


_NOTHING = CodeMatch(None)

_STATIONS = Statement(
    CodedStation,
    "SELECT station_id, name, brand, address, city, state, latitude, longitude, retail_price, priced_at, retired_at"
    " FROM stations",
)


_NO_CHAINS: frozenset[str] = frozenset()


class _Wanted:
    """The station that a row means. Most rows have a known code, and need little of it."""

    def __init__(self, place: RowPlace, chains: frozenset[str], code: str) -> None:
        """`chains` are those that the file is from, and `code` is the plain code of the row, if they numbered it."""
        self.place = place
        self._chains = chains
        self.number = code if code.isdigit() else store_number(place.name)
        """The chain's number of the store; empty if not known."""

    @property
    def brand(self) -> Brand:
        return _brand_of_row(self.place, self._chains)

    @property
    def town(self) -> tuple[str, str]:
        return _town(self.place.city or town_in_name(self.place.name), self.place.state)

    @cached_property
    def exits(self) -> set[str]:
        return _exits(f"{self.place.address} {self.place.name}")

    def match(self, one: CodedStation) -> BrandMatch:
        """The station's brand compared with the row's."""
        if one.brand and one.brand == self.place.brand and not self.place.name:
            return BrandMatch.SAME
        return brand_match(_brand(one), self.brand)


class StationFinder:
    """Finds the stations of a file's rows. The caller holds the lock of price sets."""

    def __init__(self, connection: Connection, company_id: UUID, code_set: str) -> None:
        everyone = {one.station_id: one for one in _STATIONS.all(connection, ())}
        self.stations = {name: one for name, one in everyone.items() if one.retired_at is None}
        """The stations in use."""
        self.retired = {name: one for name, one in everyone.items() if one.retired_at is not None}
        self._code_set = code_set
        self._chains = CHAINS_OF_CODE_SETS.get(code_set, _NO_CHAINS)
        codes = read_codes(connection, company_id, [code_set, CARD_CODES, NAME_CODES])
        known = [one for one in codes if one.station_id in everyone]
        decided = {(one.code_set, plain_code(one.code)): one.station_id for one in known if one.is_decided}
        self._codes = {(of_set, plain_code(code)): station_id for of_set, code, station_id, _ in known} | decided
        self._decided = decided.keys()
        self._learnt: dict[tuple[str, str], str] = {}
        self.sites: dict[Hashable, int] = {}
        """Notes of the caller: what it has found for the cells of rows, as `note_site` keeps them. They are forgotten
        when another search for equal cells might find something else."""
        self._by_plain_id: dict[str, list[str]] | None = None
        self._by_place: dict[int, list[CodedStation]] | None = None
        self._by_town: dict[tuple[str, str], list[CodedStation]] | None = None

    def note_site(self, cells: Hashable, site: int) -> int:
        """Note what was found for the cells of a row. Notes are forgotten once there are many, so that a file whose
        rows are all different does not fill the memory."""
        if len(self.sites) >= _MOST_SITES:
            self.sites.clear()
        self.sites[cells] = site
        return site

    def new_id(self, place: RowPlace) -> str:
        """The id of a station that is added for a row."""
        return f"{self._code_set}-{plain_code(place.code)}" if self._code_set else place.code

    def is_known(self, station_id: str) -> bool:
        return station_id in self.stations or station_id in self.retired

    def find(self, place: RowPlace) -> tuple[CodeMatch, Sequence[tuple[str, str]]]:
        """The station of a row, and the codes of the row."""
        keys = self._keys(place)
        wanted = _Wanted(place, self._chains, keys[0][1] if self._chains and place.code else "")
        known = self._plainly_known(wanted, keys)
        if known is not None:
            return known, keys
        match = self._find(wanted, keys)
        if match.station_id is not None:
            self._learn(keys, match.station_id)
        return match, keys

    def _plainly_known(self, wanted: "_Wanted", keys: Sequence[tuple[str, str]]) -> CodeMatch | None:
        """The station that all codes of the row are known for, as nearly all rows of a file that comes each day."""
        station_ids = set(map(self._codes.get, keys))
        station_id = station_ids.pop() if len(station_ids) == 1 else None
        station = self.stations.get(station_id) if station_id is not None else None
        if station is None:
            return None
        if self._decided and not self._decided.isdisjoint(keys):
            return None
        return None if _disagreement(station, wanted) else CodeMatch(station.station_id)

    def add(self, station: CodedStation, keys: Iterable[tuple[str, str]]) -> None:
        """Add the station of a row with these codes."""
        self.stations[station.station_id] = station
        self.sites.clear()
        self._learn(keys, station.station_id)

    def _learn(self, keys: Iterable[tuple[str, str]], station_id: str) -> None:
        """Note the station of a row's codes, unless a person has decided."""
        for key in keys:
            known = self._codes.get(key)
            if known != station_id and key not in self._decided:
                self._codes[key] = self._learnt[key] = station_id
                if known is not None:
                    self.sites.clear()

    def keep_learnt(self, connection: Connection, company_id: UUID) -> None:
        keep_codes(connection, company_id, ((*key, station) for key, station in self._learnt.items()))

    def _find(self, wanted: _Wanted, keys: Sequence[tuple[str, str]]) -> CodeMatch:
        decided = {self._codes[key] for key in keys if key in self._decided} if self._decided else set()
        if len(decided) == 1:
            return CodeMatch(decided.pop())
        known = decided or {self._codes[key] for key in keys if key in self._codes} or self._named_by_id(wanted.place)
        doubts = {station_id: _disagreement(self._station(station_id), wanted) for station_id in sorted(known)}
        agreeing = [station_id for station_id, doubt in doubts.items() if not doubt]
        if len(agreeing) > 1:
            return CodeMatch(None, sorted(agreeing), "its codes mean different stations")
        if agreeing and agreeing[0] in self.stations:
            return CodeMatch(agreeing[0])
        found = self._by_its_place(wanted)
        if found.station_id is not None or not doubts:
            return found
        if agreeing:
            return CodeMatch(agreeing[0])
        return self._doubtful(wanted, doubts, found)

    def _doubtful(self, wanted: _Wanted, doubts: dict[str, str], found: CodeMatch) -> CodeMatch:
        """No code leads to a station like the row's. A code learnt for another brand's station is forgotten. An id, or
        a station of the same brand elsewhere, is left to a person."""
        is_id = self.new_id(wanted.place) in doubts if wanted.place.code else False
        likes = {wanted.match(self._station(station_id)) for station_id in doubts}
        if likes == {BrandMatch.OTHER} and not is_id:
            return found
        candidates = list(dict.fromkeys([*sorted(doubts), *found.candidates]))[:_MOST_CANDIDATES]
        return CodeMatch(None, candidates, next(iter(doubts.values())))

    def _keys(self, place: RowPlace) -> list[tuple[str, str]]:
        """The codes of a row, or its name and town if it has none."""
        keys = [(self._code_set, plain_code(place.code))] if self._code_set and place.code else []
        if place.card_code:
            keys.append((CARD_CODES, plain_code(place.card_code)))
        if keys:
            return keys
        if not place.code:
            return [(NAME_CODES, plain_code(name_code(place)))]
        own = CARD_CODES, plain_code(place.code)
        return [own] if own in self._decided else []

    def _named_by_id(self, place: RowPlace) -> set[str]:
        """The station whose id is the row's code, as it is written or without its zeros and number sign."""
        if not place.code:
            return set()
        own = self.new_id(place)
        if self.is_known(own):
            return {own}
        if self._code_set:
            return set()
        if self._by_plain_id is None:
            self._by_plain_id = {}
            for station_id in self.stations:
                self._by_plain_id.setdefault(plain_code(station_id), []).append(station_id)
        found = self._by_plain_id.get(plain_code(own), [])
        return set(found) if len(found) == 1 else set()

    def _station(self, station_id: str) -> CodedStation:
        return self.stations.get(station_id) or self.retired[station_id]

    def _by_its_place(self, wanted: _Wanted) -> CodeMatch:
        numbered = self._numbered(wanted)
        if numbered is not _NOTHING:
            return numbered
        return self._at_place(wanted) if wanted.place.latitude is not None else self._at_exit(wanted)

    def _numbered(self, wanted: _Wanted) -> CodeMatch:
        """The station of the chain with that number in that town."""
        in_town = self._in_town(wanted) if wanted.number else ()
        if not in_town:
            return _NOTHING
        found = self._in_use(
            one
            for one in in_town
            if _number(one) == wanted.number and wanted.match(one) is BrandMatch.SAME and not _is_far(one, wanted.place)
        )
        return CodeMatch(found[0].station_id) if len(found) == 1 else _NOTHING

    def _at_place(self, wanted: _Wanted) -> CodeMatch:
        near = [(one, wanted.match(one)) for one in self._near(wanted.place)]
        if not near:
            return _NOTHING
        same = self._in_use(one for one, like in near if like is BrandMatch.SAME)
        return self._chosen(
            wanted, same, [one for one, like in near if like is BrandMatch.UNKNOWN], "are at its place", "at its place"
        )

    def _at_exit(self, wanted: _Wanted) -> CodeMatch:
        in_town = [(one, wanted.match(one)) for one in self._in_town(wanted)]
        same = self._in_use(one for one, like in in_town if like is BrandMatch.SAME)
        at_exit = [one for one in same if wanted.exits & _exits(f"{one.address or ''} {one.name}")]
        if same and not at_exit:
            return _held(same, "its town matches, but not its exit")
        unsure = [one for one, like in in_town if like is BrandMatch.UNKNOWN and not _is_at_another_exit(one, wanted)]
        return self._chosen(wanted, at_exit, unsure, "are at its exit", "in its town")

    def _chosen(
        self, wanted: _Wanted, same: list[CodedStation], unsure: list[CodedStation], there: str, where: str
    ) -> CodeMatch:
        fitting = [one for one in same if not _has_another_number(one, wanted)]
        if len(fitting) == 1:
            return CodeMatch(fitting[0].station_id)
        if fitting:
            return _held(fitting, f"several stations of its brand {there}")
        if same:
            return _held(same, f"the station of its brand {where} has another number than {wanted.number}")
        if not unsure:
            return _NOTHING
        unsure = self._in_use(unsure)
        if all(one.station_id in self.retired for one in unsure):
            return _NOTHING
        if wanted.brand.is_known:
            return _held(unsure, f"nothing tells the brand of the station {where}")
        return _held(unsure, f"its file names no brand, and a station is {where}")

    def _in_use(self, found: Iterable[CodedStation]) -> list[CodedStation]:
        """The stations that are in use, or all if all are retired."""
        everyone = list(found)
        return [one for one in everyone if one.retired_at is None] or everyone

    def _near(self, place: RowPlace) -> list[CodedStation]:
        if self._by_place is None:
            self._by_place = {}
            for one in (*self.stations.values(), *self.retired.values()):
                self._by_place.setdefault(_hundredths(one.latitude, one.longitude), []).append(one)
        assert place.latitude is not None and place.longitude is not None  # noqa: S101, PT018
        if not self._by_place:
            return []
        here, by_place = _hundredths(place.latitude, place.longitude), self._by_place
        return [
            one
            for step in _STEPS_AROUND
            if here + step in by_place
            for one in by_place[here + step]
            if _miles(one, place.latitude, place.longitude) <= SAME_PLACE_MILES
        ]

    def _in_town(self, wanted: _Wanted) -> list[CodedStation]:
        if self._by_town is None:
            self._by_town = {}
            for one in (*self.stations.values(), *self.retired.values()):
                if one.city and one.state:
                    self._by_town.setdefault(_town(one.city, one.state), []).append(one)
        return self._by_town.get(wanted.town, []) if all(wanted.town) else []


_ROW_OF_PLACES = 100_000
_STEPS_AROUND = [row * _ROW_OF_PLACES + column for row in (-1, 0, 1) for column in (-1, 0, 1)]
"""The way from a square of the map to itself and its neighbours."""


def _hundredths(latitude: float, longitude: float) -> int:
    """The square of the map, a hundredth of a degree wide and high."""
    return round(latitude * 100) * _ROW_OF_PLACES + round(longitude * 100)


def _brand(one: CodedStation) -> Brand:
    return brand_of(one.brand or "", one.name, one.city or "")


def _brand_of_row(place: RowPlace, chains: frozenset[str]) -> Brand:
    """The brand of a row. A chain's file is about its own stations, unless the name of a row says another chain."""
    by_name = brand_of("", place.name, place.city) if place.name else NO_BRAND
    if chains and by_name.chains and not by_name.chains & chains:
        return by_name
    return brand_of(place.brand, place.name, place.city, chains)


def _town(city: str, state: str) -> tuple[str, str]:
    return plain_town(city), plain_state(state)


def _held(stations: Sequence[CodedStation], reason: str) -> CodeMatch:
    return CodeMatch(None, sorted(one.station_id for one in stations)[:_MOST_CANDIDATES], reason)


def _number(one: CodedStation) -> str:
    return store_number(one.name) or number_in_id(one.station_id)


def _has_another_number(one: CodedStation, wanted: _Wanted) -> bool:
    number = store_number(one.name) if wanted.number else ""
    return bool(number) and number != wanted.number


def _disagreement(one: CodedStation, wanted: _Wanted) -> str:
    """A sentence about what contradicts the station of a code; empty without a contradiction."""
    place = wanted.place
    like = wanted.match(one)
    if like is BrandMatch.OTHER:
        return f"its code means {one.station_id}, a station of another brand"
    if like is BrandMatch.UNKNOWN and wanted.brand.is_known:
        return f"its code means {one.station_id}, and nothing tells the brand of that station"
    if _has_another_number(one, wanted):
        return f"its code means {one.station_id}, which has another number"
    if place.latitude is not None:
        return f"its code means {one.station_id}, which is far from its place" if _is_far(one, place) else ""
    if one.state and place.state and plain_state(one.state) != plain_state(place.state):
        return f"its code means {one.station_id}, which is in {one.state}"
    is_in_town = not one.city or not place.city or plain_town(one.city) == plain_town(place.city)
    if is_in_town or (wanted.number and store_number(one.name) == wanted.number):
        return ""
    return f"its code means {one.station_id}, which is in {one.city}"


def _is_far(one: CodedStation, place: RowPlace) -> bool:
    if place.latitude is None or place.longitude is None:
        return False
    if abs(one.latitude - place.latitude) < _NEAR_DEGREES and abs(one.longitude - place.longitude) < _NEAR_DEGREES:
        return False  # nearly all
    return _miles(one, place.latitude, place.longitude) > SAME_TOWN_MILES


def _miles(one: CodedStation, latitude: float, longitude: float) -> float:
    return miles_between(one.latitude, one.longitude, latitude, longitude)


def miles_between(latitude: float, longitude: float, to_latitude: float, to_longitude: float) -> float:
    """Miles between two nearby places."""
    return hypot(latitude - to_latitude, (longitude - to_longitude) * cos(radians(to_latitude))) * 69.1


_EXIT = re.compile(r"\bEXITS?\s*#?\s*(\d+[A-Z]?)", re.IGNORECASE)


def _exits(address: str) -> set[str]:
    """The numbers of the exits in an address such as `I-44, EXIT 283 & US-69`."""
    return {number.upper() for number in _EXIT.findall(address)}


def _is_at_another_exit(one: CodedStation, wanted: _Wanted) -> bool:
    exits = _exits(one.address or "")
    return bool(exits and wanted.exits) and not exits & wanted.exits
