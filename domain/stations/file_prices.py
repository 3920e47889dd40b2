"""The prices of a file by columns: a file has a million rows, and an object for each price would fill the memory."""

from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from domain.stations.station_codes import RowPlace
from domain.stations.station_finding import CodedStation
from domain.stations.written_prices import PriceKind, diesel_rank

Places: TypeAlias = NDArray[np.intp]

NO_PLACES: Places = np.empty(0, np.intp)
PRICE_KINDS: tuple[PriceKind, PriceKind] = ("net", "retail")


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
    is_swapped: bool
    """True if the net price of its row is far above the retail price."""


class FilePrices:
    """The prices in the order of the file."""

    def __init__(self) -> None:
        self.kinds, self.swapped, self.ranks = array("b"), array("b"), array("b")
        self.lines, self.numbers, self.times, self._products = array("q"), array("q"), array("q"), array("q")
        """`numbers` and `times` are places in `stations` and `moments`."""
        self.prices, self.besides = array("d"), array("d")
        """The retail price of a row is NaN where it has none."""
        self.stations: list[CodedStation] = []
        self.moments: list[datetime] = []
        self._number_of: dict[str, int] = {}
        self._time_of: dict[datetime, int] = {}
        self._names: list[str] = []
        self._name_of: dict[str, int] = {}
        self._places: list[RowPlace] = []
        self._last_places: list[RowPlace] = []

    def __len__(self) -> int:
        return len(self.prices)

    def __getitem__(self, index: int) -> FilePrice:
        beside = self.besides[index]
        return FilePrice(
            PRICE_KINDS[self.kinds[index]],
            self.lines[index],
            self.stations[self.numbers[index]],
            self._places[index],
            self.prices[index],
            self.moments[self.times[index]],
            self._names[self._products[index]],
            beside if beside == beside else None,
            bool(self.swapped[index]),
        )

    def add(
        self,
        line: int,
        station: CodedStation,
        place: RowPlace,
        effective_at: datetime,
        product: str,
        told: Sequence[tuple[PriceKind, float]],
        retail_beside: float | None,
        *,
        is_swapped: bool,
    ) -> None:
        """Add the prices of one row."""
        number = self._number_of.get(station.station_id)
        if number is None:
            number = self._number_of[station.station_id] = len(self.stations)
            self.stations.append(station)
            self._last_places.append(place)
        elif self._last_places[number] == place:
            place = self._last_places[number]  # one object for all rows of a station
        else:
            self._last_places[number] = place
        if (time := self._time_of.get(effective_at)) is None:
            time = self._time_of[effective_at] = len(self.moments)
            self.moments.append(effective_at)
        if (name := self._name_of.get(product)) is None:
            name = self._name_of[product] = len(self._names)
            self._names.append(product)
        rank, beside = diesel_rank(product) if product else 0, _NAN if retail_beside is None else retail_beside
        for kind, price in told:
            self.kinds.append(0 if kind == "net" else 1)
            self.swapped.append(is_swapped)
            self.ranks.append(rank)
            self.lines.append(line)
            self.numbers.append(number)
            self.times.append(time)
            self._products.append(name)
            self.prices.append(price)
            self.besides.append(beside)
            self._places.append(place)

    def divided(self, among: Places, now: datetime) -> tuple[Places, Places, Places]:
        """The places of net prices, of retail prices that hold at `now`, and of those that hold later."""
        is_retail = np.frombuffer(self.kinds, np.int8)[among] == 1
        is_later = np.array([moment > now for moment in self.moments], np.bool_)[
            np.frombuffer(self.times, np.int64)[among]
        ]
        return among[~is_retail], among[is_retail & ~is_later], among[is_retail & is_later]

    def told(self, places: Places) -> Iterator[tuple[str, datetime, float]]:
        """The station, the moment and the price at each place."""
        ids = [station.station_id for station in self.stations]
        for place in places.tolist():
            yield ids[self.numbers[place]], self.moments[self.times[place]], self.prices[place]


_NAN = float("nan")
