"""Judges the prices of a file by those before and beside them. The doubtful ones are held for a person.

Nearly all prices are plain. So the limits are compared for all prices at once, with numpy, and only prices that may be
beyond one are looked at by themselves."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.files.csvfiles import UnreadableFile
from domain.languages.units import Country
from domain.stations.file_prices import PRICE_KINDS, FilePrice, FilePrices
from domain.stations.price_outliers import (
    FEWEST_IN_STATE,
    FEWEST_NEIGHBORS,
    PlacedPrice,
    UsualPrices,
    believable_range,
    neighborhood,
    net_fault,
    usual_of_countries,
)
from domain.stations.price_rows import DoubtfulPrice, PriceImport, PriceReport
from domain.stations.price_units import country_of
from domain.stations.prices import fresh_retail
from domain.stations.station_codes import code_of_row
from domain.stations.station_finding import CodedStation
from domain.stations.written_prices import diesel_rank

MOST_HELD = 1_000
"""Most held prices of one file. More are too many for a person; the file was misread."""

_Floats = NDArray[np.float64]
_Flags = NDArray[np.bool_]
_Places = NDArray[np.intp]

_UNCHANGED, _CREATED, _UPDATED, _HELD = range(4)
_ALMOST = 1 - 1e-9
"""Limits are drawn in by this much, so that the look at all prices misses none that the look at one would find."""


class _Before(NamedTuple):
    """The stored price of one kind at each station of the file; NaN where there is none."""

    price: _Floats
    moment: _Floats
    """Its time in seconds."""
    fresh: _Floats
    """The price, unless it is too old."""


class _Usual(NamedTuple):
    """The usual prices of one kind, and those around each station of the file and in its state."""

    prices: UsualPrices
    near: _Floats
    in_state: _Floats


def judge_prices(one: PriceImport) -> None:
    """Leaves in `taken` the places of the prices that count, in the order of the file, and adds the doubtful ones to
    `doubts`."""
    prices = one.prices
    kept, repeated = _without_repeats(prices, one.report)
    before: dict[str, _Before] = {kind: _before_of(one, kind) for kind in PRICE_KINDS}
    usual = _usual_prices(one, prices, kept)
    outcomes, is_older, is_suspect = _compared(one, prices, kept, before, usual)
    is_taken = ~is_older
    for at in np.flatnonzero(is_suspect & is_taken):
        price = prices[int(kept[at])]
        reason = _reason(one, price, usual[price.kind].prices)
        decided = one.decided.get(_decision_key(one, price)) if reason else "accepted"
        if decided == "accepted":
            continue
        is_taken[at] = False
        outcomes[at] = _UNCHANGED if decided == "refused" else _HELD
        if decided != "refused":
            one.doubts.append(_doubtful(price, reason))
    one.taken = kept[is_taken]
    if len(one.doubts) > MOST_HELD:
        raise UnreadableFile(
            f"{len(one.doubts):,} prices are unlike those before or beside them: check the columns and units of the "
            "profile. Nothing is imported"
        )
    _count(one.report, np.frombuffer(prices.lines, np.int64)[kept], outcomes, repeated)


def _doubtful(price: FilePrice, reason: str) -> DoubtfulPrice:
    station_id = price.station.station_id
    return DoubtfulPrice(price.kind, station_id, price.place, (), price.price, price.effective_at, reason)


def _count(report: PriceReport, lines: NDArray[np.int64], outcomes: NDArray[np.int8], repeated: Sequence[int]) -> None:
    """Counts the rows by the outcomes of their one or two prices: a price that changes something tells more than one
    that does not, the first one more than the second, and a held one most."""
    firsts = np.flatnonzero(np.diff(lines, prepend=-1))
    first, second = outcomes[firsts], outcomes[np.minimum(firsts + 1, max(len(lines) - 1, 0))]
    has_second = np.diff(np.append(firsts, len(lines))) > 1
    told = np.where((first == _UNCHANGED) & has_second, second, first)
    told[(first == _HELD) | (has_second & (second == _HELD))] = _HELD
    told = told[~np.isin(lines[firsts], repeated)]
    report.unchanged, report.created, report.updated = (
        int(np.count_nonzero(told == outcome)) for outcome in (_UNCHANGED, _CREATED, _UPDATED)
    )


# --- Repeats -----------------------------------------------------------------------------------------------------


def _without_repeats(prices: FilePrices, report: PriceReport) -> tuple[_Places, list[int]]:
    """The places of the prices, each station once for each kind and moment, and the lines that repeat others. Among
    several kinds of diesel the usual one counts."""
    everything: _Places = np.arange(len(prices), dtype=np.intp)
    lines = np.frombuffer(prices.lines, np.int64)
    if len(prices.stations) == len(np.unique(lines)):
        return everything, []  # nearly all files
    keys: list[NDArray[Any]] = [np.frombuffer(prices.times, np.int64), np.frombuffer(prices.numbers, np.int64)]
    keys.append(np.frombuffer(prices.kinds, np.int8))
    by: list[NDArray[Any]] = [everything, lines, np.frombuffer(prices.ranks, np.int8), *keys]
    order = np.lexsort(by)
    begins = np.ones(len(order), np.bool_)
    begins[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    counts = np.empty(len(order), np.intp)
    counts[order] = order[np.maximum.accumulate(np.where(begins, everything, 0))]  # the price that counts, for each
    others = np.flatnonzero(lines[counts] != lines)
    told: dict[int, list[tuple[int, int]]] = {}
    for place in others[np.lexsort((others, lines[others], np.frombuffer(prices.ranks, np.int8)[others]))]:
        told.setdefault(int(lines[place]), []).append((int(place), int(counts[place])))
    for line, pairs in told.items():
        _tell_repeat(report, line, [(prices[place], prices[first]) for place, first in pairs])
    return everything[counts == everything], list(told)


def _tell_repeat(report: PriceReport, line: int, pairs: Sequence[tuple[FilePrice, FilePrice]]) -> None:
    """Report a row whose prices another row repeats and that therefore does not count."""
    price, counts = pairs[0]
    told = f"station {price.station.station_id} is already on line {counts.line}"
    if diesel_rank(price.product) > diesel_rank(counts.product):
        report.pass_row(line, f"{told}, with the price of {counts.product!r}")
    elif all(one.price == other.price for one, other in pairs):
        report.pass_row(line, f"{told}, with the same price")
    else:
        report.reject(line, told)


# --- Limits ------------------------------------------------------------------------------------------------------


def _compared(
    one: PriceImport, prices: FilePrices, kept: _Places, before: dict[str, _Before], usual: dict[str, _Usual]
) -> tuple[NDArray[np.int8], _Flags, _Flags]:
    """The outcome of each price that is kept, whether a newer one is stored, and whether it may be beyond a limit."""
    numbers = np.frombuffer(prices.numbers, np.int64)[kept]
    is_net = np.frombuffer(prices.kinds, np.int8)[kept] == 0
    price, beside = np.frombuffer(prices.prices, np.float64)[kept], np.frombuffer(prices.besides, np.float64)[kept]
    moments = np.array([one.timestamp() for one in prices.moments])[np.frombuffer(prices.times, np.int64)[kept]]

    def of_kind(net: _Floats, retail: _Floats) -> _Floats:
        return np.where(is_net, net[numbers], retail[numbers])

    net, retail = before["net"], before["retail"]
    stored, fresh = of_kind(net.price, retail.price), of_kind(net.fresh, retail.fresh)
    suspect = np.frombuffer(prices.swapped, np.int8)[kept] != 0
    suspect |= _are_unlike(price, fresh, one.limits.jump_percent)
    suspect |= _are_unlike(price, of_kind(usual["net"].near, usual["retail"].near), one.limits.neighbor_percent)
    suspect |= _are_unlike(price, of_kind(usual["net"].in_state, usual["retail"].in_state), one.limits.state_percent)
    beside = np.where(np.isnan(beside), retail.fresh[numbers], beside)
    suspect |= is_net & _are_unlike(price, beside, one.limits.state_percent)
    lowest, highest = _believable(usual["retail"].prices.in_country("US"), fresh)
    suspect |= (price <= lowest) | (price >= highest)
    outcomes = np.where(np.isnan(stored), _CREATED, np.where(stored == price, _UNCHANGED, _UPDATED)).astype(np.int8)
    is_older = moments < of_kind(net.moment, retail.moment)
    outcomes[is_older] = _UNCHANGED
    return outcomes, is_older, suspect


def _are_unlike(price: _Floats, other: _Floats, percent: float) -> _Flags:
    """True where a price may differ from the other one by more; never where there is none."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs((price - other) / other * 100) > percent * _ALMOST)


def _believable(usual: float | None, fresh: _Floats) -> tuple[_Floats | float, _Floats | float]:
    """The lowest and the highest price that need no look."""
    if usual is not None:
        lowest, highest = believable_range(usual)
        return lowest / _ALMOST, highest * _ALMOST
    lowest, highest = believable_range(None)
    _, times = believable_range(1.0)
    is_known = ~np.isnan(fresh)
    return (
        np.where(is_known, fresh / times, lowest) / _ALMOST,
        np.where(is_known, fresh * times, highest) * _ALMOST,
    )


def _reason(one: PriceImport, price: FilePrice, usual: UsualPrices) -> str:
    """The first doubt about a price; empty without one."""
    before, before_at = _stored(one, price.kind, price.station)
    fresh = fresh_retail(before, before_at, now=one.now)
    reason = usual.fault(_placed(price.station, price.price), fresh, one.limits)
    if not reason and price.kind == "net":
        reason = net_fault(price.price, _retail_beside(one, price), one.limits)
    if not reason and price.is_swapped:
        reason = "the net price of its row is far above the retail price: they may be swapped"
    return reason


def _retail_beside(one: PriceImport, price: FilePrice) -> float | None:
    """The retail price beside a net price, or the fresh one of its station."""
    stored = price.station
    return price.retail_beside or fresh_retail(stored.retail_price, stored.priced_at, now=one.now)


# --- Other prices ------------------------------------------------------------------------------------------------


def _before_of(one: PriceImport, kind: str) -> _Before:
    stored = [_stored(one, kind, station) for station in one.prices.stations]
    return _Before(
        _floats(price for price, _ in stored),
        _floats(at.timestamp() if at is not None else None for _, at in stored),
        _floats(fresh_retail(price, at, now=one.now) for price, at in stored),
    )


def _floats(values: Iterable[float | None]) -> _Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _stored(one: PriceImport, kind: str, station: CodedStation) -> tuple[float | None, datetime | None]:
    """The stored price and its time. A stored time in the future is a mistake, and counts as none."""
    if kind == "net":
        quote = one.quotes.get(station.station_id)
        return (quote.net_price, quote.effective_at) if quote is not None else (None, None)
    stored_at = station.priced_at
    return station.retail_price, stored_at if stored_at is None or stored_at <= one.now else None


def _usual_prices(one: PriceImport, prices: FilePrices, kept: _Places) -> dict[str, _Usual]:
    """The usual prices of each kind: those of the file, and stored ones of other stations."""
    of_countries = usual_of_countries(_known_prices(one))
    kinds, numbers = (np.frombuffer(prices.kinds, np.int8)[kept], np.frombuffer(prices.numbers, np.int64)[kept])
    price = np.frombuffer(prices.prices, np.float64)[kept]
    places = [_placed(station, 0.0) for station in prices.stations]
    near, states = _Groups(map(neighborhood, places)), _Groups(place.state for place in places)
    usual: dict[str, _Usual] = {}
    for number, kind in enumerate(PRICE_KINDS):
        at, told = numbers[kinds == number], price[kinds == number]
        others = list(_stored_elsewhere(one, kind, {prices.stations[one].station_id for one in np.unique(at).tolist()}))
        stored = [other.price for other in others]
        usual_near = near.medians(at, told, map(neighborhood, others), stored, more_than=FEWEST_NEIGHBORS)
        in_state = states.medians(at, told, (other.state for other in others), stored, more_than=FEWEST_IN_STATE)
        usual_prices = UsualPrices.of_medians(usual_near, in_state, of_countries)
        usual[kind] = _Usual(usual_prices, near.of_stations(usual_near), states.of_stations(in_state))
    return usual


class _Groups:
    """The groups of the stations of a file: their neighbourhoods, or their states."""

    def __init__(self, names: Iterable[Hashable]) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._of_stations = np.array([self._number(name) for name in names], np.int64)

    def _number(self, name: Hashable) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def medians(
        self,
        stations: NDArray[np.int64],
        told: _Floats,
        others: Iterable[Hashable],
        stored: Sequence[float],
        *,
        more_than: int,
    ) -> dict[Any, tuple[float, int]]:
        """The median and the number of the prices in each group with more than so many: prices `told` at stations of
        the file, and prices `stored` in the groups `others`."""
        further = np.array([self._number(name) for name in others], np.int64)
        groups, prices = np.concatenate((self._of_stations[stations], further)), np.concatenate((told, stored))
        prices = prices[np.lexsort((prices, groups))]
        counts = np.bincount(groups, minlength=len(self._numbers))
        ends = np.cumsum(counts)
        names = list(self._numbers)
        found = {}
        for at in np.flatnonzero(counts > more_than).tolist():
            count, begin = int(counts[at]), int(ends[at] - counts[at])
            middle = float(prices[begin + (count - 1) // 2]), float(prices[begin + count // 2])
            found[names[at]] = sum(middle) / 2, count
        return found

    def of_stations(self, medians: Mapping[Any, tuple[float, int]]) -> _Floats:
        """The median of each station's group; NaN where it tells nothing."""
        told = [medians[name][0] if name in medians and name else np.nan for name in self._numbers]
        return np.array(told, np.float64)[self._of_stations]


def _stored_elsewhere(one: PriceImport, kind: str, in_file: set[str]) -> Iterator[PlacedPrice]:
    for station in one.finder.stations.values():
        if station.station_id in in_file:
            continue
        if kind == "retail":
            stored = fresh_retail(station.retail_price, station.priced_at, now=one.now)
        else:
            quote = one.quotes.get(station.station_id)
            stored = fresh_retail(quote.net_price, quote.effective_at, now=one.now) if quote is not None else None
        if stored is not None:
            yield _placed(station, stored)


def _known_prices(one: PriceImport) -> Iterator[tuple[Country, float]]:
    for station in one.finder.stations.values():
        stored = fresh_retail(station.retail_price, station.priced_at, now=one.now)
        if stored is not None:
            yield country_of(station.state, latitude=station.latitude), stored


def _placed(station: CodedStation, price: float) -> PlacedPrice:
    return PlacedPrice((station.state or "").upper(), station.latitude, station.longitude, price)


def _decision_key(one: PriceImport, price: FilePrice) -> tuple[str, str | None, str, str, float, datetime]:
    code_set, code = code_of_row(price.place, one.profile.code_set)
    return price.kind, price.station.station_id, code_set, code, price.price, price.effective_at
