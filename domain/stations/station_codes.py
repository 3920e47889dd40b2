"""The station that a row of a price file means: by a code that is known, by its place, or by its exit and town.

Chains and cards number stations in their own ways. Each way is a code set: `loves`, `pilot`, `ta`, `opis`, `card`. Once
a code has been matched, it is kept, and all codes of a row lead to one station.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from math import cos, hypot, radians
from typing import NamedTuple
from uuid import UUID

from domain.database import Connection, as_json
from domain.file_profiles.profiles import plain_name
from domain.statements import Command, Statement

CARD_CODES = "card"
"""The code set of the company's fuel card."""

SAME_PLACE_MILES = 0.3
"""A truck stop is large, and vendors measure its place at the pumps, the door or the driveway."""


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


class RowPlace(NamedTuple):
    """The station of a row as its file names it."""

    code: str
    card_code: str
    name: str
    brand: str
    address: str
    city: str
    state: str
    latitude: float | None
    longitude: float | None


class CodeMatch(NamedTuple):
    """A station, or those that may be meant and the reason why a person must say which one is."""

    station_id: str | None
    candidates: Sequence[str] = ()
    reason: str = ""


_STATIONS = Statement(
    CodedStation,
    "SELECT station_id, name, brand, address, city, state, latitude, longitude, retail_price, priced_at"
    " FROM stations WHERE retired_at IS NULL",
)


class _Code(NamedTuple):
    code_set: str
    code: str
    station_id: str


_CODES = Statement(
    _Code, "SELECT code_set, code, station_id FROM station_codes WHERE company_id = %s AND code_set = ANY(%s)"
)
_KEEP_CODES = Command(
    "INSERT INTO station_codes (company_id, code_set, code, station_id)"
    " SELECT %(company_id)s, it.code_set, it.code, it.station_id"
    " FROM jsonb_to_recordset(%(codes)s) AS it (code_set text, code text, station_id text)"
    " ON CONFLICT (company_id, code_set, code) DO UPDATE SET station_id = excluded.station_id"
)


def keep_codes(connection: Connection, company_id: UUID, codes: Iterable[tuple[str, str, str]]) -> None:
    """Keep codes with the stations that they mean: code set, code, station."""
    rows = [{"code_set": code_set, "code": code, "station_id": station} for code_set, code, station in codes]
    if rows:
        _KEEP_CODES.execute(connection, {"company_id": company_id, "codes": as_json(rows)})


def plain_code(code: str) -> str:
    """A code without what spreadsheets and people add or lose: leading zeros, a number sign, small letters."""
    text = code.strip().lstrip("#").strip().upper()
    return text.lstrip("0") or text


class StationFinder:
    """Finds the stations of a file's rows. The caller holds the lock of price sets."""

    def __init__(self, connection: Connection, company_id: UUID, code_set: str) -> None:
        self.stations = {one.station_id: one for one in _STATIONS.all(connection, ())}
        self._code_set = code_set
        self._codes = {
            (one.code_set, one.code): one.station_id
            for one in _CODES.all(connection, (company_id, [code_set, CARD_CODES]))
            if one.station_id in self.stations
        }
        self._learnt: dict[tuple[str, str], str] = {}
        self._by_place: dict[tuple[int, int], list[CodedStation]] | None = None
        self._by_town: dict[tuple[str, str], list[CodedStation]] | None = None

    def new_id(self, place: RowPlace) -> str:
        """The id of a station that is added for a row."""
        return f"{self._code_set}-{plain_code(place.code)}" if self._code_set else place.code

    def find(self, place: RowPlace) -> CodeMatch:
        known = {self._codes[key] for key in self._keys(place) if key in self._codes}
        if not known and place.code and self.new_id(place) in self.stations:
            known = {self.new_id(place)}
        if len(known) > 1:
            return CodeMatch(None, sorted(known), "its codes mean different stations")
        match = CodeMatch(known.pop()) if known else self._by_its_place(place)
        if match.station_id is not None:
            self.learn(place, match.station_id)
        return match

    def learn(self, place: RowPlace, station_id: str) -> None:
        for key in self._keys(place):
            if self._codes.get(key) != station_id:
                self._codes[key] = self._learnt[key] = station_id

    def keep_learnt(self, connection: Connection, company_id: UUID) -> None:
        keep_codes(connection, company_id, ((*key, station) for key, station in self._learnt.items()))

    def _keys(self, place: RowPlace) -> list[tuple[str, str]]:
        keys = [(self._code_set, plain_code(place.code))] if self._code_set and place.code else []
        return [*keys, (CARD_CODES, plain_code(place.card_code))] if place.card_code else keys

    def _by_its_place(self, place: RowPlace) -> CodeMatch:
        if place.latitude is not None and place.longitude is not None:
            near = [one for one in self._near(place.latitude, place.longitude) if _is_of_brand(one, place)]
            if len(near) == 1:
                return CodeMatch(near[0].station_id)
            return CodeMatch(None, [one.station_id for one in near], "several stations of its brand are at its place")
        in_town = [one for one in self._in_town(place) if _is_of_brand(one, place)]
        exits = _exits(place.address)
        at_exit = [one for one in in_town if exits & _exits(one.address or "")]
        if len(at_exit) == 1:
            return CodeMatch(at_exit[0].station_id)
        return CodeMatch(
            None,
            [one.station_id for one in at_exit or in_town][:10],
            "several stations are at its exit" if at_exit else "its town matches, but not its exit",
        )

    def _near(self, latitude: float, longitude: float) -> list[CodedStation]:
        if self._by_place is None:
            self._by_place = {}
            for one in self.stations.values():
                self._by_place.setdefault((round(one.latitude * 100), round(one.longitude * 100)), []).append(one)
        middle = round(latitude * 100), round(longitude * 100)
        beside = (
            one
            for north in (-1, 0, 1)
            for east in (-1, 0, 1)
            for one in self._by_place.get((middle[0] + north, middle[1] + east), ())
        )
        return [one for one in beside if _miles(one, latitude, longitude) <= SAME_PLACE_MILES]

    def _in_town(self, place: RowPlace) -> list[CodedStation]:
        if self._by_town is None:
            self._by_town = {}
            for one in self.stations.values():
                if one.city and one.state:
                    self._by_town.setdefault((one.state.upper(), plain_name(one.city)), []).append(one)
        return self._by_town.get((place.state.upper(), plain_name(place.city)), [])


def _miles(one: CodedStation, latitude: float, longitude: float) -> float:
    return hypot(one.latitude - latitude, (one.longitude - longitude) * cos(radians(latitude))) * 69.1


_BRANDS = ("loves", "pilot", "flyingj", "petro", "ta", "sapp", "kwiktrip", "casey", "roadranger", "speedway")


def _is_of_brand(station: CodedStation, place: RowPlace) -> bool:
    """Two chains may stand side by side at an exit, so the brand has to agree as far as both name one."""
    ours = _brand_words(f"{station.brand or ''} {station.name}")
    theirs = _brand_words(f"{place.brand} {place.name}")
    return not ours or not theirs or bool(ours & theirs)


def _brand_words(text: str) -> set[str]:
    """The chains that a name names."""
    words = [plain_name(word) for word in text.split()]
    pairs = {one + other for one, other in pairwise(words)}
    return {brand for brand in _BRANDS if brand in words or brand in pairs}


_EXIT = re.compile(r"\bEXITS?\s*#?\s*(\d+[A-Z]?)", re.IGNORECASE)


def _exits(address: str) -> set[str]:
    """The numbers of the exits in an address such as `I-44, EXIT 283 & US-69`."""
    return {number.upper() for number in _EXIT.findall(address)}
