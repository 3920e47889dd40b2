"""The prices of a file by columns: a file has a million rows, and an object for each row would fill the memory."""

from array import array
from collections.abc import Hashable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from domain.stations.station_codes import RowPlace
from domain.stations.station_finding import CodedStation
from domain.stations.written_prices import PriceKind, diesel_rank

Places: TypeAlias = NDArray[np.intp]
"""Places in the columns: which of the rows."""
Flags: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Indexes: TypeAlias = NDArray[np.uint32]

PRICE_KINDS: tuple[PriceKind, PriceKind] = ("net", "retail")
NO_PRICE = float("nan")
ROWS_AT_ONCE = 1 << 16
"""Rows that are looked at together: figures beside all prices of a file would take many times their memory."""


_MOST_PLACES = 100_000
"""Most places that are kept as their rows word them, some 700 bytes each. After these a row with a known code is shown
in the words of an earlier row of its station."""


class FilePrice(NamedTuple):
    """One price of a row whose station is known, in US dollars a gallon."""

    kind: PriceKind
    line: int
    station: CodedStation
    place: RowPlace
    price: float
    effective_at: datetime
    product: str
    retail_beside: float | None
    """The retail price of its row."""


_Value = TypeVar("_Value", bound=Hashable)


def _numbers(values: Sequence[_Value], known: dict[_Value, int], kept: list[_Value]) -> list[int]:
    """The number of each value. A new one is added to `known` and `kept`."""
    for value in dict.fromkeys(values):
        if value not in known:
            known[value] = len(kept)
            kept.append(value)
    return [known[value] for value in values]


def _has_same_codes(one: RowPlace, other: RowPlace) -> bool:
    """True if a held price of one would be known by the same code as that of the other."""
    return (one.code, one.card_code) == (other.code, other.card_code) != ("", "")


class FilePrices:
    """The rows with prices in the order of the file, 32 bytes each; and their stations, moments and products."""

    def __init__(self, *, takes_retail: bool) -> None:
        self._takes_retail = takes_retail
        self._lines, self._sites, self._times, self._products = array("I"), array("I"), array("I"), array("I")
        self._net, self._retail = array("d"), array("d")
        self.stations: list[CodedStation] = []
        self.moments: list[datetime] = []
        self.products: list[str] = []
        self._places: list[RowPlace] = []
        """Each site is a station in the words of some rows."""
        self._station_of = array("I")
        self._site_of: dict[str, int] = {}
        self._time_of: dict[datetime, int] = {}
        self._product_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def site(self, station: CodedStation, place: RowPlace) -> int:
        """The number of a station in the words of a row. The rows of a station mostly have the same words."""
        last = self._site_of.get(station.station_id)
        if last is None:
            self._station_of.append(len(self.stations))
            self.stations.append(station)
        elif self._places[last] == place or (
            len(self._places) >= _MOST_PLACES and _has_same_codes(self._places[last], place)
        ):
            return last
        else:
            self._station_of.append(self._station_of[last])
        site = self._site_of[station.station_id] = len(self._places)
        self._places.append(place)
        return site

    def add(
        self, line: int, site: int, effective_at: datetime, product: str, net: float | None, retail: float | None
    ) -> None:
        """Add the prices of a row. A retail price that is not taken still stands beside the net price."""
        self.add_all([line], [site], [effective_at], [product], [net], [retail])

    def add_all(
        self,
        lines: Sequence[int],
        sites: Sequence[int],
        effective_at: Sequence[datetime],
        products: Sequence[str],
        nets: Sequence[float | None],
        retails: Sequence[float | None],
    ) -> None:
        """Add the prices of several rows, as `add` does with those of one."""
        self._lines.extend(lines)
        self._sites.extend(sites)
        self._times.extend(_numbers(effective_at, self._time_of, self.moments))
        self._products.extend(_numbers(products, self._product_of, self.products))
        self._net.extend([NO_PRICE if price is None else price for price in nets])
        self._retail.extend([NO_PRICE if price is None else price for price in retails])

    # --- Columns ---------------------------------------------------------------------------------------------------

    @property
    def numbers(self) -> Indexes:
        """The place of each row's station in `stations`."""
        return np.frombuffer(self._station_of, np.uint32)[np.frombuffer(self._sites, np.uint32)]

    @property
    def times(self) -> Indexes:
        """The place of each row's moment in `moments`."""
        return np.frombuffer(self._times, np.uint32)

    @property
    def ranks(self) -> NDArray[np.int8]:
        """The rank of each row's product among the kinds of diesel."""
        ranks = [diesel_rank(product) if product else 0 for product in self.products]
        return np.array(ranks, np.int8)[np.frombuffer(self._products, np.uint32)]

    @property
    def retail_beside(self) -> Floats:
        return np.frombuffer(self._retail, np.float64)

    def prices(self, kind: PriceKind) -> Floats:
        """The prices that are taken; NaN where a row has none."""
        if kind == "net":
            return np.frombuffer(self._net, np.float64)
        return self.retail_beside if self._takes_retail else np.full(len(self), NO_PRICE)

    def price(self, row: int, kind: PriceKind) -> FilePrice:
        site, beside = self._sites[row], self._retail[row]
        return FilePrice(
            kind,
            self._lines[row],
            self.stations[self._station_of[site]],
            self._places[site],
            self._net[row] if kind == "net" else beside,
            self.moments[self._times[row]],
            self.products[self._products[row]],
            beside if beside == beside else None,
        )

    def are_distinct(self) -> bool:
        """True if no station comes twice with the same moment."""
        keys = (self.numbers.astype(np.uint64) << np.uint64(32)) | self.times
        keys.sort()
        return not bool((keys[1:] == keys[:-1]).any())

    def told(self, net: Flags, retail: Flags) -> Iterator[tuple[str, str, float | None, float | None]]:
        """The station, the moment in ISO 8601, and the prices of the rows that have one of them: a net price where
        `net` is true, a retail price where `retail` is."""
        ids = [station.station_id for station in self.stations]
        written = [moment.isoformat() for moment in self.moments]  # COPY writes a time of each row more slowly
        everything = np.flatnonzero(net | retail)
        for begin in range(0, len(everything), ROWS_AT_ONCE):
            rows = everything[begin : begin + ROWS_AT_ONCE]
            stations = [ids[number] for number in self.numbers[rows].tolist()]
            moments = [written[time] for time in self.times[rows].tolist()]
            nets, retails = (
                [price if price == price else None for price in np.where(taken[rows], prices[rows], NO_PRICE).tolist()]
                for taken, prices in ((net, self.prices("net")), (retail, self.prices("retail")))
            )
            yield from zip(stations, moments, nets, retails, strict=True)
