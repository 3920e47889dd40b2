"""Reads what decides the prices at some stations in a span from now on: a company's deals and quotes, the retail prices
to come, and the taxes that begin."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import NamedTuple, Protocol
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.database.connections import Connection, as_json
from domain.database.statements import NotNull, Statement
from domain.stations.arrival_prices import (
    DatedDeal,
    DatedPrice,
    DatedTax,
    PriceChange,
    PriceStep,
    StationPrices,
    change_before,
    price_on_arrival,
)
from domain.stations.prices import STALE_AFTER, Deal, fresh_retail, net_price

_EARLIEST = datetime.min.replace(tzinfo=UTC)


class PriceSpan(NamedTuple):
    """The time from now until a moment, with its days in the company's time zone."""

    zone: ZoneInfo
    now: datetime
    until: datetime

    @property
    def today(self) -> date:
        return self.now.astimezone(self.zone).date()

    @property
    def last_day(self) -> date:
        return self.until.astimezone(self.zone).date()


class PricedStation(Protocol):
    """The fields of a station that its price depends on."""

    @property
    def station_id(self) -> str: ...
    @property
    def brand(self) -> str | None: ...
    @property
    def state(self) -> str | None: ...
    @property
    def retail_price(self) -> float | None: ...
    @property
    def priced_at(self) -> datetime | None: ...
    @property
    def tax_per_gallon(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class DatedPrices:
    """The prices of some stations in a span. `changing` has the stations, brands and states where one changes."""

    span: PriceSpan
    deals: dict[str, list[DatedDeal]] = field(default_factory=dict)
    """Deals of single stations, by station."""
    brand_deals: dict[str, list[DatedDeal]] = field(default_factory=dict)
    quotes: dict[str, list[DatedPrice]] = field(default_factory=dict)
    coming: dict[str, list[DatedPrice]] = field(default_factory=dict)
    taxes: dict[str, list[DatedTax]] = field(default_factory=dict)
    changing: set[str] = field(default_factory=set)
    changing_brands: set[str] = field(default_factory=set)

    def changes_at(self, station: PricedStation) -> bool:
        """True if the station's price or tax may change in the span."""
        return (
            station.station_id in self.changing
            or station.brand in self.changing_brands
            or (station.state or "").upper() in self.taxes
        )

    def deals_at(self, station: PricedStation) -> list[DatedDeal]:
        return self.deals.get(station.station_id, []) + self.brand_deals.get(station.brand or "", [])

    def of_today(self, station: PricedStation) -> PriceStep:
        """The price of now."""
        deals = [one.deal for one in self.deals_at(station)]
        deals += (Deal(net_price=one.price) for one in self.quotes.get(station.station_id, ()))
        retail = fresh_retail(station.retail_price, station.priced_at, now=self.span.now)
        return PriceStep(self.span.now, net_price(retail, deals), station.tax_per_gallon)

    def on_arrival(self, station: PricedStation, arrival: datetime | None) -> tuple[PriceStep, PriceChange | None]:
        """The price when the truck arrives, and the change before. An arrival of None is beyond the span."""
        zone, now, until = self.span
        at = max(now, min(arrival or until, until))
        steps = self._prices_at(station).steps(zone=zone, now=now, until=until)
        return price_on_arrival(steps, at), change_before(steps, at, zone)

    def _prices_at(self, station: PricedStation) -> StationPrices:
        retail, priced_at, now = station.retail_price, station.priced_at, self.span.now
        coming = [
            one
            for one in self.coming.get(station.station_id, ())
            if one.since > now or priced_at is None or priced_at <= one.since or priced_at > now
        ]
        return StationPrices(
            [DatedPrice(_EARLIEST, fresh_retail(retail, priced_at, now=now)), *coming],
            self.quotes.get(station.station_id, ()),
            self.deals_at(station),
            [DatedTax(date.min, station.tax_per_gallon), *self.taxes.get((station.state or "").upper(), ())],
        )

    def add_deal(self, row: "_Deal") -> None:
        if row.effective_at is not None:
            self.quotes[row.station_id or ""] = [DatedPrice(row.effective_at, row.net_price)]
            return
        dated = DatedDeal(Deal(row.discount_per_gallon, row.net_price), row.valid_from, row.valid_to)
        deals, changing = (
            (self.deals, self.changing) if row.station_id is not None else (self.brand_deals, self.changing_brands)
        )
        place = row.station_id or row.brand or ""
        deals.setdefault(place, []).append(dated)
        if not (dated.holds_on(self.span.today) and dated.holds_on(self.span.last_day)):
            changing.add(place)


class _Deal(NamedTuple):
    station_id: str | None
    brand: str | None
    discount_per_gallon: float | None
    net_price: float | None
    valid_from: date | None
    valid_to: date | None
    effective_at: datetime | None
    """The moment from which on a quote holds; None for a deal."""


_DEALS = Statement(
    _Deal,
    """
    SELECT station_id, brand, discount_per_gallon, net_price, valid_from, valid_to, NULL AS effective_at
    FROM (SELECT d.* FROM jsonb_array_elements_text(%(ids)s) AS asked (station_id)
          CROSS JOIN LATERAL (SELECT * FROM deals WHERE company_id = %(company_id)s
                              AND station_id = asked.station_id OFFSET 0) AS d
          UNION ALL
          SELECT * FROM deals WHERE company_id = %(company_id)s AND station_id IS NULL) AS negotiated
    WHERE coalesce(valid_from, %(today)s) <= %(last_day)s AND coalesce(valid_to, %(today)s) >= %(today)s
    UNION ALL
    SELECT newest.station_id, NULL, NULL, newest.net_price, NULL, NULL, newest.effective_at
    FROM jsonb_array_elements_text(%(ids)s) AS asked (station_id)
    CROSS JOIN LATERAL (
        SELECT station_id, net_price, effective_at FROM quotes
        WHERE company_id = %(company_id)s AND station_id = asked.station_id AND effective_at <= %(until)s
        ORDER BY effective_at DESC LIMIT 1) AS newest
    WHERE newest.effective_at >= %(now)s::timestamptz - %(stale)s::interval
    """,
)
"""The company's deals that hold on a day of the span, at these stations and for brands, and the last quote at each
station."""


class _Moment(NamedTuple):
    station_id: NotNull[str]
    since: datetime
    price: float


_COMING = Statement(
    _Moment,
    """
    SELECT asked.station_id, p.effective_at AS since, p.retail_price AS price
    FROM jsonb_array_elements_text(%(ids)s) AS asked (station_id)
    CROSS JOIN LATERAL (SELECT * FROM coming_prices WHERE station_id = asked.station_id
                        AND effective_at <= %(until)s OFFSET 0) AS p
    ORDER BY p.effective_at
    """,
)
_QUOTES = Statement(
    _Moment,
    """
    SELECT asked.station_id, q.effective_at AS since, q.net_price AS price
    FROM jsonb_array_elements_text(%(ids)s) AS asked (station_id)
    CROSS JOIN LATERAL (
        (SELECT * FROM quotes WHERE company_id = %(company_id)s AND station_id = asked.station_id
         AND effective_at <= %(now)s AND effective_at >= %(now)s::timestamptz - %(stale)s::interval
         ORDER BY effective_at DESC LIMIT 1)
        UNION ALL
        SELECT * FROM quotes WHERE company_id = %(company_id)s AND station_id = asked.station_id
        AND effective_at > %(now)s AND effective_at <= %(until)s) AS q
    ORDER BY q.effective_at
    """,
)
"""The quote of now, if it is fresh, and those to come: for stations with one to come."""


class _Tax(NamedTuple):
    state: str
    valid_from: date
    rate_per_gallon: float


_TAXES = Statement(
    _Tax,
    "SELECT state, valid_from, rate_per_gallon FROM fuel_taxes"
    " WHERE valid_from > %(today)s AND valid_from <= %(last_day)s ORDER BY valid_from",
)


def read_dated_prices(
    connection: Connection, company_id: UUID, station_ids: Sequence[str], span: PriceSpan
) -> DatedPrices:
    """The prices at these stations in the span. Quotes to come are read only for stations that have one."""
    asked = {
        "company_id": company_id,
        "now": span.now,
        "until": span.until,
        "today": span.today,
        "last_day": span.last_day,
        "stale": STALE_AFTER,
        "ids": as_json(station_ids),
    }
    deals, coming, taxes = (  # sent together
        _DEALS.execute(connection, asked),
        _COMING.execute(connection, asked),
        _TAXES.execute(connection, asked),
    )
    found = DatedPrices(span)
    for row in deals:
        found.add_deal(row)
    for price in coming:
        found.coming.setdefault(price.station_id, []).append(DatedPrice(price.since, price.price))
        found.changing.add(price.station_id)
    for tax in taxes:
        found.taxes.setdefault(tax.state, []).append(DatedTax(tax.valid_from, tax.rate_per_gallon))
    quoted = [id for id, quotes in found.quotes.items() if quotes[-1].since > span.now]
    if quoted:
        found.changing.update(quoted)
        found.quotes.update((id, []) for id in quoted)
        for price in _QUOTES.all(connection, {**asked, "ids": as_json(quoted)}):
            found.quotes[price.station_id].append(DatedPrice(price.since, price.price))
    return found
