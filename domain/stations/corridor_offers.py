"""The offers to a company along a road: the stations that the road passes, each with the price that the company pays
when the truck arrives there. All is read in one snapshot, so that no plan sees half an import."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.database.connections import Connection, as_json
from domain.database.statements import Statement
from domain.roads import Road
from domain.stations.arrival_prices import FURTHEST_CHANGE, LATEST_START
from domain.stations.closures import CLOSED_STATIONS
from domain.stations.corridor import StationIndex, StationPass
from domain.stations.dated_prices import DatedPrices, PriceSpan, read_dated_prices
from domain.stations.offers import Offer, Station
from domain.stations.second_ways import ComparedWay, compared_ways

Arrivals = Callable[[Sequence[float]], Sequence[datetime | None]]
"""Tells when a truck arrives at these miles of its road, which are in driving order; None for the year 10000."""


class TooManyPasses(Exception):
    """The road passes more stations than somebody who waits has time for."""

    def __init__(self, passes: int, most: int) -> None:
        super().__init__(f"the road passes {passes:,} truck stops, and {most:,} are looked at, at most")


class CorridorPrices(NamedTuple):
    """The time of the newest import of prices, the age of the offers' prices, and the stations without a price by
    reason."""

    imported_at: datetime | None
    oldest_at: datetime | None
    newest_at: datetime | None
    stations_left_out: dict[str, int]
    stations_without_tax_rate: int


@dataclass(frozen=True, slots=True)
class Corridor:
    """The offers along a road in driving order, the newest import of prices in them, and how old the prices are."""

    offers: Sequence[Offer]
    price_set: int | None
    prices: CorridorPrices
    second_ways: Sequence[ComparedWay] = ()


class _Place(NamedTuple):
    station_id: str
    latitude: float
    longitude: float


_PLACES = Statement(
    _Place,
    "SELECT station_id, latitude, longitude FROM stations WHERE station_id > %s AND retired_at IS NULL"
    " ORDER BY station_id LIMIT %s",
)
_PORTION = 10_000


class StationPlaces:
    """The places of all stations, indexed once in a process and shared by its plans; read again after each import."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen = -1
        self._index = StationIndex.build([], [])

    def index(self, connection: Connection, newest: int) -> StationIndex:
        """The index for the connection's snapshot, in which `newest` is the newest import of stations. It may be of a
        later import, which another plan has seen already."""
        with self._lock:  # other plans wait for the index, instead of reading all stations too
            if newest > self._seen:
                ids, places = list[str](), list[tuple[float, float]]()
                while portion := _PLACES.all(connection, (ids[-1] if ids else "", _PORTION)):
                    ids += (station.station_id for station in portion)
                    places += ((station.latitude, station.longitude) for station in portion)
                self._index, self._seen = StationIndex.build(ids, places), newest
            return self._index


class _Company(NamedTuple):
    time_zone: str
    price_set: int | None
    imported_at: datetime | None
    newest_stations: int


_COMPANY = Statement(
    _Company,
    """
    SELECT c.time_zone, p.id AS price_set, p.imported_at,
           (SELECT coalesce(max(id), 0) FROM price_sets WHERE kind = 'stations') AS newest_stations
    FROM companies c LEFT JOIN LATERAL (
        SELECT id, imported_at FROM price_sets WHERE company_id IS NULL OR company_id = c.id
        ORDER BY id DESC LIMIT 1) AS p ON true
    WHERE c.id = %s
    """,
)


class _Station(NamedTuple):
    station_id: str
    name: str
    brand: str | None
    address: str | None
    city: str | None
    state: str | None
    latitude: float
    longitude: float
    parking_spaces: int | None
    showers: int | None
    hours: str | None
    priced_at: datetime | None
    retail_price: float | None
    tax_per_gallon: float | None


_STATIONS = Statement(
    _Station,
    """
    SELECT s.station_id, s.name, s.brand, s.address, s.city, s.state, s.latitude, s.longitude, s.parking_spaces,
           s.showers, s.hours, s.priced_at, s.retail_price, tax.rate_per_gallon AS tax_per_gallon
    FROM jsonb_array_elements_text(%(ids)s) AS asked (station_id)
    CROSS JOIN LATERAL (
        SELECT * FROM stations WHERE station_id = asked.station_id AND retired_at IS NULL OFFSET 0) AS s
    LEFT JOIN LATERAL (
        SELECT rate_per_gallon FROM fuel_taxes t WHERE t.state = upper(s.state) AND t.valid_from <= %(today)s
        ORDER BY t.valid_from DESC LIMIT 1) AS tax ON true
    """,
)


def offers_along(
    connection: Connection,
    company_id: UUID,
    road: Road,
    max_detour_miles: float,
    network: StationPlaces,
    *,
    now: datetime,
    arrivals: Arrivals | None = None,
    most_passes: int | None = None,
) -> Corridor:
    """The offers of all stations within the detour limit that have a price for the company, one for each pass: at the
    price on arrival, or without `arrivals` at the price of now. Closed stations are among them, since the planner knows
    when the truck is there. Raises TooManyPasses where the road passes more stations than `most_passes`.

    The connection's transaction must be a snapshot.
    """
    company = _COMPANY.one(connection, (company_id,))
    index = network.index(connection, company.newest_stations)
    passes = index.passes(road, max_detour_miles)
    if most_passes is not None and len(passes) > most_passes:
        raise TooManyPasses(len(passes), most_passes)
    ids = sorted({index.station_ids[one.station_index] for one in passes})
    span = PriceSpan.of(ZoneInfo(company.time_zone), now, _until(road, arrivals, now))
    stations = _STATIONS.execute(connection, {"today": span.today, "ids": as_json(ids)})
    closures = CLOSED_STATIONS.execute(connection, {"company_id": company_id, "now": now})
    prices = read_dated_prices(connection, company_id, ids, span)  # sent together with the two before
    rows, closed_until = {row.station_id: row for row in stations}, dict(closures.fetchall())
    by_pass = [(one, rows[id]) for one in passes if (id := index.station_ids[one.station_index]) in rows]
    offers = list(_offers(by_pass, prices, arrivals, closed_until))
    priced = {id: rows[id] for id in dict.fromkeys(offer.station.station_id for offer in offers)}
    seen = [row.priced_at for row in priced.values() if row.priced_at is not None]
    told = CorridorPrices(
        company.imported_at,
        min(seen, default=None),
        max(seen, default=None),
        dict(Counter(_why_left_out(row) for id, row in rows.items() if id not in priced)),
        sum(row.tax_per_gallon is None for row in priced.values()),
    )
    second_ways = compared_ways(connection, road, max_detour_miles, index, passes)
    return Corridor(offers, company.price_set, told, second_ways)


def _until(road: Road, arrivals: Arrivals | None, now: datetime) -> datetime:
    """The time up to which changes of prices are looked for: beyond the arrival at the road's end, for a truck that
    leaves late."""
    if arrivals is None:
        return now
    (end,) = arrivals([road.distance_miles])
    furthest = now + FURTHEST_CHANGE
    return min(max(end, now) + LATEST_START, furthest) if end is not None and end < furthest else furthest


def _offers(
    by_pass: Sequence[tuple[StationPass, _Station]],
    prices: DatedPrices,
    arrivals: Arrivals | None,
    closed_until: Mapping[str, datetime],
) -> Iterator[Offer]:
    """The offers in driving order. At nearly all stations nothing changes, and the time of arrival does not count."""
    changing = prices.changing_at([row for _, row in by_pass])
    miles = [one.mile for (one, _), changes in zip(by_pass, changing, strict=True) if changes]
    times = iter(arrivals(miles) if arrivals is not None and miles else repeat(prices.span.now, len(miles)))
    for (one, row), changes in zip(by_pass, changing, strict=True):
        if changes:
            (_, price, tax), parts, change, rises_at = prices.price_on_arrival(row, next(times))
        else:
            parts, tax, change, rises_at = prices.price_of_now(row), row.tax_per_gallon, None, None
            price = parts.net_price
        if price is not None:
            station = Station._make(row[:_STATION_FIELDS])
            closed = closed_until.get(row.station_id)
            yield Offer(station, one.mile, one.detour_miles, price, tax, closed, change, rises_at, parts)


_STATION_FIELDS = len(Station._fields)
"""A row of a station begins with the fields of a `Station`."""


def _why_left_out(row: _Station) -> str:
    return "without_price" if row.retail_price is None else "price_too_old"
