"""Judges the prices of a file by those before and beside them. The doubtful ones are held for a person.

Nearly all prices are plain. So the limits are compared for all prices at once, with numpy, and only prices that may be
beyond one are looked at by themselves."""

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from domain.files.csvfiles import UnreadableFile
from domain.languages.units import Country
from domain.stations.file_prices import PRICE_KINDS, ROWS_AT_ONCE, FilePrice, FilePrices, Flags, Floats, Indexes, Places
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
from domain.stations.price_rows import MOST_OF_RETAIL, DoubtfulPrice, PriceImport, PriceReport
from domain.stations.price_units import country_of
from domain.stations.prices import STALE_AFTER, fresh_retail
from domain.stations.station_codes import code_of_row
from domain.stations.station_finding import CodedStation
from domain.stations.written_prices import PriceKind, diesel_rank

MOST_HELD = 1_000
"""Most held prices of one file. More are too many for a person; the file was misread."""

_Outcomes = NDArray[np.int8]

_NONE, _UNCHANGED, _CREATED, _UPDATED, _HELD = range(5)
"""The outcomes of one price; none where the row has no such price."""
_ALMOST = 1 - 1e-9
"""Limits are drawn in by this much, so that the look at all prices misses none that the look at one would find."""


class TakenPrices(NamedTuple):
    """True for each row of the file whose price of the kind counts."""

    net: Flags
    retail: Flags


class _Before(NamedTuple):
    """The stored price of one kind at each station of the file; NaN where there is none."""

    price: Floats
    moment: Floats
    """Its time in seconds."""
    fresh: Floats
    """The price, unless it is too old."""


class _Usual(NamedTuple):
    """The usual prices of one kind, and those around each station of the file, in its state and in its country."""

    prices: UsualPrices
    near: Floats
    in_state: Floats
    in_country: Floats


class _Judged(NamedTuple):
    """The prices of one kind in all rows."""

    outcomes: _Outcomes
    is_taken: Flags
    suspects: Places
    """The rows whose price may be beyond a limit."""


def judge_prices(one: PriceImport) -> TakenPrices:
    """Tells which prices of the file count, and adds the doubtful ones to `doubts`."""
    counting, repeated = _without_repeats(one.prices, one.report)
    usual = _usual_prices(one, counting)
    before = {kind: _before_of(one, kind) for kind in PRICE_KINDS}
    judged = {kind: _judged(one, kind, counting[kind], before, usual) for kind in PRICE_KINDS}
    suspects = [(row, number) for number, kind in enumerate(PRICE_KINDS) for row in judged[kind].suspects.tolist()]
    for row, number in sorted(suspects):
        of_kind = judged[PRICE_KINDS[number]]
        price = one.prices.price(row, PRICE_KINDS[number])
        reason = _reason(one, price, row, {kind: usual[kind].prices for kind in PRICE_KINDS})
        decided = one.decided.get(_decision_key(one, price)) if reason else "accepted"
        if decided == "accepted":
            continue
        of_kind.is_taken[row] = False
        of_kind.outcomes[row] = _UNCHANGED if decided == "refused" else _HELD
        if decided != "refused":
            one.doubts.append(_doubtful(price, reason))
    refuse_many_doubts(one)
    net, retail = judged["net"], judged["retail"]
    _count(one.report, net.outcomes, retail.outcomes, repeated)
    return TakenPrices(net.is_taken, retail.is_taken)


def refuse_many_doubts(one: PriceImport) -> None:
    """Check the number of doubtful prices. Raises UnreadableFile if there are too many."""
    if len(one.doubts) > MOST_HELD:
        raise UnreadableFile(
            f"{len(one.doubts):,} prices are unlike those before or beside them: check the columns and units of the "
            "profile. Nothing is imported"
        )


def _doubtful(price: FilePrice, reason: str) -> DoubtfulPrice:
    station_id = price.station.station_id
    return DoubtfulPrice(price.kind, station_id, price.place, (), price.price, price.effective_at, reason)


def _count(report: PriceReport, net: _Outcomes, retail: _Outcomes, repeated: Places) -> None:
    """Counts the rows by the outcomes of their one or two prices: a price that changes something tells more than one
    that does not, the net price more than the retail price, and a held one most."""
    told = np.where((net == _NONE) | ((net == _UNCHANGED) & (retail != _NONE)), retail, net)
    told[(net == _HELD) | (retail == _HELD)] = _HELD
    told[repeated] = _NONE
    report.unchanged, report.created, report.updated = (
        int(np.count_nonzero(told == outcome)) for outcome in (_UNCHANGED, _CREATED, _UPDATED)
    )


# --- Repeats -----------------------------------------------------------------------------------------------------


def _without_repeats(prices: FilePrices, report: PriceReport) -> tuple[dict[PriceKind, Flags], Places]:
    """True for each row whose price of the kind counts, each station once for each moment; and the rows that repeat
    others. Among several kinds of diesel the usual one counts."""
    there = {kind: ~np.isnan(prices.prices(kind)) for kind in PRICE_KINDS}
    if prices.are_distinct():
        return there, _NO_ROWS  # nearly all files
    firsts = {kind: _firsts(prices, np.flatnonzero(there[kind])) for kind in PRICE_KINDS}
    everything = np.arange(len(prices))
    counts = {kind: firsts[kind] == everything for kind in PRICE_KINDS}
    repeated = np.flatnonzero(~(counts["net"] & counts["retail"]))
    repeated = repeated[np.argsort(prices.ranks[repeated], kind="stable")]
    for row in repeated.tolist():
        kinds = [kind for kind in PRICE_KINDS if not counts[kind][row]]
        _tell_repeat(report, [(prices.price(row, kind), prices.price(int(firsts[kind][row]), kind)) for kind in kinds])
    return {kind: there[kind] & counts[kind] for kind in PRICE_KINDS}, repeated


_NO_ROWS: Places = np.empty(0, np.intp)


def _firsts(prices: FilePrices, rows: Places) -> Places:
    """The number of the row that counts in the place of each row of the file. Of the `rows` of one station and moment
    one counts. A row that is not among `rows` counts by itself."""
    times, numbers = prices.times[rows], prices.numbers[rows]
    order = np.lexsort((prices.ranks[rows], times, numbers))
    times, numbers, rows = times[order], numbers[order], rows[order]
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = (times[1:] != times[:-1]) | (numbers[1:] != numbers[:-1])
    found = np.arange(len(prices))
    found[rows] = rows[np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))]
    return found


def _tell_repeat(report: PriceReport, pairs: Sequence[tuple[FilePrice, FilePrice]]) -> None:
    """Report a row whose prices another row repeats and that therefore does not count."""
    price, counts = pairs[0]
    told = f"station {price.station.station_id} is already on line {counts.line}"
    if diesel_rank(price.product) > diesel_rank(counts.product):
        report.pass_row(price.line, f"{told}, with the price of {counts.product!r}")
    elif all(one.price == other.price for one, other in pairs):
        report.pass_row(price.line, f"{told}, with the same price")
    else:
        report.reject(price.line, told)


# --- Limits ------------------------------------------------------------------------------------------------------


def _judged(
    one: PriceImport,
    kind: PriceKind,
    is_there: Flags,
    before: Mapping[PriceKind, _Before],
    usual: Mapping[PriceKind, _Usual],
) -> _Judged:
    outcomes, is_taken = np.zeros(len(is_there), np.int8), is_there.copy()
    suspects = []
    everything, moments = np.flatnonzero(is_there), np.array([moment.timestamp() for moment in one.prices.moments])
    for begin in range(0, len(everything), ROWS_AT_ONCE):
        rows = everything[begin : begin + ROWS_AT_ONCE]
        is_older = moments[one.prices.times[rows]] < before[kind].moment[one.prices.numbers[rows]]
        outcomes[rows], is_suspect = _compared(one, kind, rows, before, usual)
        outcomes[rows[is_older]] = _UNCHANGED  # a newer one is stored
        is_taken[rows] = ~is_older
        suspects.append(rows[is_suspect & ~is_older])
    return _Judged(outcomes, is_taken, np.concatenate([_NO_ROWS, *suspects]))


def _compared(
    one: PriceImport,
    kind: PriceKind,
    rows: Places,
    before: Mapping[PriceKind, _Before],
    usual: Mapping[PriceKind, _Usual],
) -> tuple[_Outcomes, Flags]:
    """The outcome of the price in each of the rows, and whether it may be beyond a limit."""
    prices, limits, stored = one.prices, one.limits, before[kind]
    numbers, price, in_row = prices.numbers[rows], prices.prices(kind)[rows], prices.retail_beside[rows]
    fresh, already = stored.fresh[numbers], stored.price[numbers]
    suspect = _are_swapped(prices, rows)
    suspect |= _are_unlike(price, fresh, limits.jump_percent)
    suspect |= _are_unlike(price, usual[kind].near[numbers], limits.neighbor_percent)
    suspect |= _are_unlike(price, usual[kind].in_state[numbers], limits.state_percent)
    if kind == "net":
        beside = np.where(np.isnan(in_row), before["retail"].fresh[numbers], in_row)
        suspect |= _are_unlike(price, beside, limits.state_percent)
        for known in (before["retail"].fresh, usual["retail"].near, usual["retail"].in_state):
            suspect |= _are_unlike(price, known[numbers], limits.state_percent)
    lowest, highest = _believable(usual[kind].in_country[numbers], fresh)
    suspect |= (price <= lowest) | (price >= highest)
    outcomes = np.where(np.isnan(already), _CREATED, np.where(already == price, _UNCHANGED, _UPDATED)).astype(np.int8)
    return outcomes, suspect


def _are_swapped(prices: FilePrices, rows: Places) -> Flags:
    """True where the net price of a row is far above its retail price."""
    return np.asarray(prices.prices("net")[rows] > MOST_OF_RETAIL * prices.retail_beside[rows])


def _are_unlike(price: Floats, other: Floats, percent: float) -> Flags:
    """True where a price may differ from the other one by more; never where there is none."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs((price - other) / other * 100) > percent * _ALMOST)


def _believable(usual: Floats, fresh: Floats) -> tuple[Floats, Floats]:
    """The lowest and the highest price that need no look, by the usual price of each station's country, else by its own
    price before; NaN where one is not known."""
    (lowest, highest), (_, times) = believable_range(None), believable_range(1.0)
    known = np.where(np.isnan(usual), fresh, usual)
    is_known = ~np.isnan(known)
    return (
        np.where(is_known, known / times, lowest) / _ALMOST,
        np.where(is_known, known * times, highest) * _ALMOST,
    )


def _reason(one: PriceImport, price: FilePrice, row: int, usual: Mapping[PriceKind, UsualPrices]) -> str:
    """The first doubt about a price; empty without one."""
    reason = usual[price.kind].fault(_placed(price.station, price.price), _fresh(one, price.kind, price), one.limits)
    if not reason and price.kind == "net":
        beside = price.retail_beside or _fresh(one, "retail", price)
        reason = net_fault(price.price, beside, one.limits) or _fault_beside_doubt(one, price, usual["retail"])
    if not reason and _are_swapped(one.prices, np.array([row])).any():
        reason = "the net price of its row is far above the retail price: they may be swapped"
    return reason


def _fault_beside_doubt(one: PriceImport, price: FilePrice, usual: UsualPrices) -> str:
    """The doubt about a net price whose retail price beside it is in doubt itself, as in a file of another product. It
    is compared with the retail price that is known instead."""
    if price.retail_beside is None:
        return ""
    known, beside = _fresh(one, "retail", price), _placed(price.station, price.retail_beside)
    if not usual.fault(beside, known, one.limits):
        return ""
    return net_fault(price.price, known or usual.near(beside), one.limits)


def _fresh(one: PriceImport, kind: PriceKind, price: FilePrice) -> float | None:
    """The stored price of the station of a price, unless it is too old."""
    before, before_at = _stored(one, kind, price.station)
    return fresh_retail(before, before_at, now=one.now)


# --- Other prices ------------------------------------------------------------------------------------------------


def _before_of(one: PriceImport, kind: PriceKind) -> _Before:
    stored = [_stored(one, kind, station) for station in one.prices.stations]
    price = np.array([price for price, _ in stored], np.float64)  # None becomes NaN
    moment = np.array([None if at is None else at.timestamp() for _, at in stored], np.float64)
    return _Before(price, moment, np.where(moment >= (one.now - STALE_AFTER).timestamp(), price, np.nan))


def _stored(one: PriceImport, kind: PriceKind, station: CodedStation) -> tuple[float | None, datetime | None]:
    """The stored price and its time. A stored time in the future is a mistake, and counts as none."""
    if kind == "net":
        quote = one.quotes.get(station.station_id)
        return (quote.net_price, quote.effective_at) if quote is not None else (None, None)
    stored_at = station.priced_at
    return station.retail_price, stored_at if stored_at is None or stored_at <= one.now else None


def _usual_prices(one: PriceImport, counting: Mapping[PriceKind, Flags]) -> dict[PriceKind, _Usual]:
    """The usual prices of each kind: those of the file, and stored ones of other stations."""
    prices = one.prices
    of_countries = usual_of_countries((_country(station), price) for station, price in _fresh_prices(one))
    in_country = np.array([of_countries.get(_country(station)) for station in prices.stations], np.float64)
    names = list(map(_neighborhood, prices.stations))
    near, states = _Groups(names), _Groups(state for state, _, _ in names)
    usual: dict[PriceKind, _Usual] = {}
    for kind in PRICE_KINDS:
        numbers, told = prices.numbers[counting[kind]], prices.prices(kind)[counting[kind]]
        in_file = {prices.stations[number].station_id for number in np.flatnonzero(np.bincount(numbers)).tolist()}
        elsewhere = _fresh_prices(one, in_file) if kind == "retail" else _fresh_quotes(one, in_file)
        others = [(_neighborhood(station), price) for station, price in elsewhere]
        others_near, stored = [name for name, _ in others], [price for _, price in others]
        others_in_state = [state for state, _, _ in others_near]
        usual_near = near.medians(numbers, told, others_near, stored, more_than=FEWEST_NEIGHBORS)
        in_state = states.medians(numbers, told, others_in_state, stored, more_than=FEWEST_IN_STATE)
        usual_prices = UsualPrices.of_medians(usual_near, in_state, of_countries)
        usual[kind] = _Usual(usual_prices, near.of_stations(usual_near), states.of_stations(in_state), in_country)
    return usual


class _Groups:
    """The groups of the stations of a file: their neighbourhoods, or their states."""

    def __init__(self, names: Iterable[Hashable]) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._of_stations = np.array([self._number(name) for name in names], np.int32)

    def _number(self, name: Hashable) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def medians(
        self,
        stations: Indexes,
        told: Floats,
        others: Iterable[Hashable],
        stored: Sequence[float],
        *,
        more_than: int,
    ) -> dict[Any, tuple[float, int]]:
        """The median and the number of the prices in each group with more than so many: prices `told` at stations of
        the file, and prices `stored` in the groups `others`."""
        further = np.array([self._number(name) for name in others], np.int32)
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

    def of_stations(self, medians: Mapping[Any, tuple[float, int]]) -> Floats:
        """The median of each station's group; NaN where it tells nothing."""
        told = [medians[name][0] if name in medians and name else np.nan for name in self._numbers]
        return np.array(told, np.float64)[self._of_stations]


def _fresh_prices(one: PriceImport, without: Container[str] = ()) -> Iterator[tuple[CodedStation, float]]:
    """The stations in use whose stored retail price is not too old, each with that price. Stations whose ids are in
    `without` are left out."""
    since = one.now - STALE_AFTER
    for station in one.finder.stations.values():
        price, at = station.retail_price, station.priced_at
        if price is not None and at is not None and at >= since and station.station_id not in without:
            yield station, price


def _fresh_quotes(one: PriceImport, without: Container[str]) -> Iterator[tuple[CodedStation, float]]:
    since = one.now - STALE_AFTER
    for quote in one.quotes.values():
        if quote.effective_at >= since and quote.station_id not in without:
            station = one.finder.stations.get(quote.station_id)
            if station is not None:
                yield station, quote.net_price


def _neighborhood(station: CodedStation) -> tuple[str, int, int]:
    return neighborhood((station.state or "").upper(), station.latitude, station.longitude)


def _placed(station: CodedStation, price: float) -> PlacedPrice:
    state = (station.state or "").upper()
    return PlacedPrice(state, station.latitude, station.longitude, price, _country(station))


def _country(station: CodedStation) -> Country:
    return country_of(station.state, latitude=station.latitude, longitude=station.longitude)


def _decision_key(one: PriceImport, price: FilePrice) -> tuple[str, str | None, str, str, float, datetime]:
    code_set, code = code_of_row(price.place, one.profile.code_set)
    return price.kind, price.station.station_id, code_set, code, price.price, price.effective_at
