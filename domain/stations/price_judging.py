"""Judges the prices of a file by those before and beside them. The doubtful ones are held for a person."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from domain.files.csvfiles import UnreadableFile
from domain.stations.price_outliers import (
    PlacedPrice,
    UsualPrices,
    net_fault,
    usual_of_countries,
)
from domain.stations.price_rows import (
    DoubtfulPrice,
    FilePrice,
    PriceImport,
    PriceReport,
)
from domain.stations.price_units import Country, country_of
from domain.stations.prices import fresh_retail
from domain.stations.station_codes import code_of_row
from domain.stations.station_finding import CodedStation
from domain.stations.written_prices import (
    PriceKind,
    diesel_rank,
)

MOST_OF_RETAIL = 1.1
"""Highest net price, as a multiple of the retail price beside it."""
MOST_HELD = 1_000
"""Most held prices of one file. More are too many for a person; the file was misread."""


def judge_prices(one: PriceImport) -> None:
    """Moves doubtful prices to `doubts`, and leaves the others in `prices`, in the order of the file."""
    taken: list[FilePrice] = []
    of_countries = usual_of_countries(_known_prices(one))
    usual = {kind: UsualPrices(_usual(one, kind), of_countries) for kind in ("retail", "net")}
    outcomes: dict[int, str] = {}
    swapped = _lines_above_retail(one)
    for price in _without_repeats(one, outcomes):
        before, before_at = _before(one, price)
        if before_at is not None and price.effective_at < before_at:
            outcomes.setdefault(price.line, "unchanged")
            continue
        fresh = fresh_retail(before, before_at, now=one.now)
        reason = usual[price.kind].fault(_placed(price.station, price.price), fresh, one.limits)
        if not reason and price.kind == "net":
            reason = net_fault(price.price, _retail_beside(one, price), one.limits)
        if not reason and price.line in swapped:
            reason = "the net price of its row is far above the retail price: they may be swapped"
        decided = one.decided.get(_decision_key(one, price)) if reason else "accepted"
        if decided == "refused":
            outcomes.setdefault(price.line, "unchanged")
        elif decided != "accepted":
            outcomes[price.line] = "held"
            one.doubts.append(
                DoubtfulPrice(
                    price.kind, price.station.station_id, price.place, (), price.price, price.effective_at, reason
                )
            )
        else:
            taken.append(price)
            outcome = "unchanged" if before == price.price else "created" if before is None else "updated"
            if outcomes.get(price.line) in (None, "unchanged"):
                outcomes[price.line] = outcome
    one.prices = taken
    if len(one.doubts) > MOST_HELD:
        raise UnreadableFile(
            f"{len(one.doubts):,} prices are unlike those before or beside them: check the columns and units of the "
            "profile. Nothing is imported"
        )
    for name in ("created", "updated", "unchanged"):
        setattr(one.report, name, sum(outcome == name for outcome in outcomes.values()))


def _without_repeats(one: PriceImport, outcomes: dict[int, str]) -> list[FilePrice]:
    """The prices in the order of the file, each station once. Among several kinds of diesel the usual one counts."""
    if len({price.station.station_id for price in one.prices}) == len({price.line for price in one.prices}):
        return one.prices  # nearly all files
    first: dict[_PriceKey, FilePrice] = {}
    repeats: dict[int, list[tuple[FilePrice, FilePrice]]] = {}
    for price in sorted(one.prices, key=lambda price: (diesel_rank(price.product), price.line)):
        counts = first.setdefault(_key(price), price)
        if counts.line != price.line:
            repeats.setdefault(price.line, []).append((price, counts))
    for line, pairs in repeats.items():
        outcomes[line] = "repeated"
        _tell_repeat(one.report, line, pairs)
    return [price for price in one.prices if first[_key(price)] is price]


_PriceKey = tuple[PriceKind, str, datetime]


def _key(price: FilePrice) -> _PriceKey:
    return price.kind, price.station.station_id, price.effective_at


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


def _lines_above_retail(one: PriceImport) -> set[int]:
    """The lines whose net price is above their retail price. Contracts by cost are a few cents above it at most."""
    nets = (price for price in one.prices if price.kind == "net")
    return {net.line for net in nets if net.price > MOST_OF_RETAIL * one.retail_of_line.get(net.line, net.price)}


def _retail_beside(one: PriceImport, price: FilePrice) -> float | None:
    """The retail price beside a net price, or the fresh one of its station."""
    told = one.retail_of_line.get(price.line)
    return told or fresh_retail(price.station.retail_price, price.station.priced_at, now=one.now)


def _known_prices(one: PriceImport) -> Iterator[tuple[Country, float]]:
    for station in one.finder.stations.values():
        stored = fresh_retail(station.retail_price, station.priced_at, now=one.now)
        if stored is not None:
            yield country_of(station.state, latitude=station.latitude), stored


def _usual(one: PriceImport, kind: str) -> Iterator[PlacedPrice]:
    """The usual prices: those of the file, and stored ones of other stations."""
    in_file = set()
    for price in one.prices:
        if price.kind == kind:
            in_file.add(price.station.station_id)
            yield _placed(price.station, price.price)
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


def _placed(station: CodedStation, price: float) -> PlacedPrice:
    return PlacedPrice((station.state or "").upper(), station.latitude, station.longitude, price)


def _before(one: PriceImport, price: FilePrice) -> tuple[float | None, datetime | None]:
    """The stored price and its time. A stored time in the future is a mistake, and counts as none."""
    if price.kind == "net":
        quote = one.quotes.get(price.station.station_id)
        return (quote.net_price, quote.effective_at) if quote is not None else (None, None)
    stored_at = price.station.priced_at
    return price.station.retail_price, stored_at if stored_at is None or stored_at <= one.now else None


def _decision_key(one: PriceImport, price: FilePrice) -> tuple[str, str | None, str, str, float, datetime]:
    code_set, code = code_of_row(price.place, one.profile.code_set)
    return price.kind, price.station.station_id, code_set, code, price.price, price.effective_at
