"""The offers to a company along a road: the stations that the road passes, each with the price that the company pays
today. All is read in one snapshot, so that no plan sees half an import."""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.database.connections import Connection, as_json
from domain.database.statements import Statement
from domain.roads import Road
from domain.stations.closures import CLOSED_STATIONS
from domain.stations.corridor import StationIndex, StationPass
from domain.stations.offers import Offer, Station
from domain.stations.prices import STALE_AFTER, Deal, fresh_retail, net_price
from domain.stations.second_ways import ComparedWay, compared_ways


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
    retail_price: float | None
    priced_at: datetime | None
    tax_per_gallon: float | None


_STATIONS = Statement(
    _Station,
    """
    SELECT s.station_id, s.name, s.brand, s.address, s.city, s.state, s.latitude, s.longitude, s.retail_price,
           s.priced_at, tax.rate_per_gallon AS tax_per_gallon
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
) -> Corridor:
    """The offers of all stations within the detour limit that have a price for the company, one for each pass. Closed
    stations are among them, since the planner knows when the truck is there.

    The connection's transaction must be a snapshot.
    """
    company = _COMPANY.one(connection, (company_id,))
    index = network.index(connection, company.newest_stations)
    passes = index.passes(road, max_detour_miles)
    asked = {
        "company_id": company_id,
        "today": now.astimezone(ZoneInfo(company.time_zone)).date(),
        "now": now,
        "stale": STALE_AFTER,
        "ids": as_json(sorted({index.station_ids[one.station_index] for one in passes})),
    }
    stations, deals_today = _STATIONS.execute(connection, asked), _DEALS.execute(connection, asked)  # sent together
    closures = CLOSED_STATIONS.execute(connection, asked)
    rows, deals, closed_until = stations.fetchall(), _by_place(deals_today), dict(closures.fetchall())
    priced = {}
    left_out: Counter[str] = Counter()
    for row in rows:
        retail = fresh_retail(row.retail_price, row.priced_at, now=now)
        own = deals.get((row.station_id, None), []) + (deals.get((None, row.brand), []) if row.brand else [])
        price = net_price(retail, own)
        if price is None:
            left_out["without_price" if row.retail_price is None else "price_too_old"] += 1
        else:
            priced[row.station_id] = (row, price, closed_until.get(row.station_id))
    offers = [
        _offer(one, *priced[index.station_ids[one.station_index]])
        for one in passes
        if index.station_ids[one.station_index] in priced
    ]
    seen = [row.priced_at for row, *_ in priced.values() if row.priced_at is not None]
    prices = CorridorPrices(
        company.imported_at,
        min(seen, default=None),
        max(seen, default=None),
        dict(left_out),
        sum(row.tax_per_gallon is None for row, *_ in priced.values()),
    )
    return Corridor(offers, company.price_set, prices, compared_ways(connection, road, max_detour_miles, index))


class _DealRow(NamedTuple):
    station_id: str | None
    brand: str | None
    discount_per_gallon: float | None
    net_price: float | None


_DEALS = Statement(
    _DealRow,
    """
    SELECT station_id, brand, discount_per_gallon, net_price
    FROM (SELECT d.* FROM jsonb_array_elements_text(%(ids)s) AS asked (station_id)
          CROSS JOIN LATERAL (SELECT * FROM deals WHERE company_id = %(company_id)s
                              AND station_id = asked.station_id OFFSET 0) AS d
          UNION ALL
          SELECT * FROM deals WHERE company_id = %(company_id)s AND station_id IS NULL) AS negotiated
    WHERE coalesce(valid_from, %(today)s) <= %(today)s AND coalesce(valid_to, %(today)s) >= %(today)s
    UNION ALL
    SELECT newest.station_id, NULL, NULL, newest.net_price
    FROM jsonb_array_elements_text(%(ids)s) AS asked (station_id)
    CROSS JOIN LATERAL (
        SELECT station_id, net_price, effective_at FROM quotes
        WHERE company_id = %(company_id)s AND station_id = asked.station_id AND effective_at <= %(now)s
        ORDER BY effective_at DESC LIMIT 1) AS newest
    WHERE newest.effective_at >= %(now)s::timestamptz - %(stale)s::interval
    """,
)
"""The company's deals that hold today, at these stations and for brands, and its newest quotes at these stations. A
quote for tomorrow does not count yet."""


def _by_place(deals: Iterable[_DealRow]) -> dict[tuple[str | None, str | None], list[Deal]]:
    """The deals by station and brand; one of the two is None."""
    places: dict[tuple[str | None, str | None], list[Deal]] = {}
    for deal in deals:
        places.setdefault((deal.station_id, deal.brand), []).append(Deal(deal.discount_per_gallon, deal.net_price))
    return places


def _offer(one: StationPass, row: _Station, price: float, closed_until: datetime | None) -> Offer:
    station = Station(
        row.station_id, row.name, row.brand, row.address, row.city, row.state, row.latitude, row.longitude
    )
    return Offer(station, one.mile, one.detour_miles, price, row.tax_per_gallon, closed_until)
