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
    next_rise,
    price_on_arrival,
)
from domain.stations.chains import brand_key
from domain.stations.prices import STALE_AFTER, Deal, PriceParts, fresh_retail

_EARLIEST = datetime.min.replace(tzinfo=UTC)


class PriceSpan(NamedTuple):
    """The time from now until a moment, with its first and last day in the company's time zone."""

    zone: ZoneInfo
    now: datetime
    until: datetime
    today: date
    last_day: date

    @classmethod
    def of(cls, zone: ZoneInfo, now: datetime, until: datetime) -> "PriceSpan":
        return cls(zone, now, until, now.astimezone(zone).date(), until.astimezone(zone).date())


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
    """The prices of some stations in a span, by the id of a station, the words of a brand, or a state. `changing` has
    the stations and brands where one changes; `today` and `brand_today` have the deals and quotes that hold now."""

    span: PriceSpan
    today: dict[str, list[Deal]] = field(default_factory=dict)
    brand_today: dict[str, list[Deal]] = field(default_factory=dict)
    deals: dict[str, list[DatedDeal]] = field(default_factory=dict)
    brand_deals: dict[str, list[DatedDeal]] = field(default_factory=dict)
    quotes: dict[str, list[DatedPrice]] = field(default_factory=dict)
    coming: dict[str, list[DatedPrice]] = field(default_factory=dict)
    taxes: dict[str, list[DatedTax]] = field(default_factory=dict)
    changing: set[str] = field(default_factory=set)
    changing_brands: set[str] = field(default_factory=set)

    def changing_at(self, stations: Sequence[PricedStation]) -> list[bool]:
        """Tell for each of the stations if its price or tax may change in the span."""
        if not (self.changing or self.changing_brands or self.taxes):
            return [False] * len(stations)
        return [
            one.station_id in self.changing
            or brand_key(one.brand) in self.changing_brands
            or (one.state or "").upper() in self.taxes
            for one in stations
        ]

    def price_of_now(self, station: PricedStation) -> PriceParts:
        deals = self.today.get(station.station_id, [])
        if of_brand := self.brand_today.get(brand_key(station.brand)):
            deals = deals + of_brand
        return PriceParts(fresh_retail(station.retail_price, station.priced_at, now=self.span.now), deals)

    def price_on_arrival(
        self, station: PricedStation, arrival: datetime | None
    ) -> tuple[PriceStep, PriceParts, PriceChange | None, datetime | None]:
        """The price when the truck arrives and what it is made from, the change before, and when it rises next. An
        arrival of None is beyond the span."""
        zone, now, until = self.span[:3]
        at = max(now, min(arrival or until, until))
        prices = self._prices_at(station)
        steps = prices.steps(zone=zone, now=now, until=until)
        step = price_on_arrival(steps, at)
        parts = prices.parts_at(max(step.since, at), zone)
        return step, parts, change_before(steps, at, zone), next_rise(steps, at)

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
            self.deals.get(station.station_id, []) + self.brand_deals.get(brand_key(station.brand), []),
            [DatedTax(date.min, station.tax_per_gallon), *self.taxes.get((station.state or "").upper(), ())],
        )

    def add(self, row: "_Dated") -> None:
        if row.kind == "tax" and row.first_day is not None:
            self.taxes.setdefault(row.place, []).append(DatedTax(row.first_day, row.price))
        elif row.kind == "retail" and row.since is not None:
            self.coming.setdefault(row.place, []).append(DatedPrice(row.since, row.price))
            self.changing.add(row.place)
        elif row.kind == "quote" and row.since is not None:
            self.quotes[row.place] = [DatedPrice(row.since, row.price)]
            self.today.setdefault(row.place, []).append(Deal(net_price=row.price))
        elif row.kind == "station":
            self._add_deal(row, self.deals, self.today, self.changing)
        elif row.kind == "brand":
            self._add_deal(row, self.brand_deals, self.brand_today, self.changing_brands)

    def _add_deal(
        self, row: "_Dated", deals: dict[str, list[DatedDeal]], today: dict[str, list[Deal]], changing: set[str]
    ) -> None:
        brand = row.place if row.kind == "brand" else None
        deal = DatedDeal(Deal(row.discount_per_gallon, row.price, row.number, brand), row.first_day, row.last_day)
        place = brand_key(brand) or row.place
        deals.setdefault(place, []).append(deal)
        if deal.holds_on(self.span.today):
            today.setdefault(place, []).append(deal.deal)
        if not (deal.holds_on(self.span.today) and deal.holds_on(self.span.last_day)):
            changing.add(place)


class _Dated(NamedTuple):
    kind: NotNull[str]
    """`station` and `brand` for deals; `quote`, `retail` and `tax`."""
    place: NotNull[str]
    """The id of a station, a brand or a state."""
    discount_per_gallon: float | None
    price: float | None
    first_day: date | None
    last_day: date | None
    since: datetime | None
    number: int | None
    """The number of a deal, by which people know it."""


_DATED = Statement(
    _Dated,
    """
    SELECT CASE WHEN station_id IS NULL THEN 'brand' ELSE 'station' END AS kind, coalesce(station_id, brand) AS place,
           discount_per_gallon, net_price AS price, valid_from AS first_day, valid_to AS last_day, NULL AS since,
           coalesce(number, id) AS number
    FROM (SELECT d.* FROM jsonb_array_elements_text(%(ids)s) AS asked (station_id)
          CROSS JOIN LATERAL (SELECT * FROM deals WHERE company_id = %(company_id)s
                              AND station_id = asked.station_id OFFSET 0) AS d
          UNION ALL
          SELECT * FROM deals WHERE company_id = %(company_id)s AND station_id IS NULL) AS negotiated
    WHERE coalesce(valid_from, %(today)s) <= %(last_day)s AND coalesce(valid_to, %(today)s) >= %(today)s
    UNION ALL
    SELECT 'quote', newest.station_id, NULL, newest.net_price, NULL, NULL, newest.effective_at, NULL
    FROM jsonb_array_elements_text(%(ids)s) AS asked (station_id)
    CROSS JOIN LATERAL (
        SELECT station_id, net_price, effective_at FROM quotes
        WHERE company_id = %(company_id)s AND station_id = asked.station_id AND effective_at <= %(until)s
        ORDER BY effective_at DESC LIMIT 1) AS newest
    WHERE newest.effective_at >= %(now)s::timestamptz - %(stale)s::interval
    UNION ALL
    SELECT 'retail', station_id, NULL, retail_price, NULL, NULL, effective_at, NULL FROM coming_prices
    WHERE station_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s))) AND effective_at <= %(until)s
    UNION ALL
    SELECT 'tax', state, NULL, rate_per_gallon, valid_from, NULL, NULL, NULL FROM fuel_taxes
    WHERE valid_from > %(today)s AND valid_from <= %(last_day)s
    """,
)
"""The company's deals that hold on a day of the span, at these stations and for brands; the last quote and the retail
prices to come at each of the stations; and the taxes that begin."""


class _Quote(NamedTuple):
    station_id: NotNull[str]
    since: datetime
    price: float


_QUOTES = Statement(
    _Quote,
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
    found = DatedPrices(span)
    for row in _DATED.execute(connection, asked):
        found.add(row)
    for prices in found.coming.values():
        prices.sort()
    for taxes in found.taxes.values():
        taxes.sort()
    quoted = [id for id, quotes in found.quotes.items() if quotes[-1].since > span.now]
    if quoted:
        found.changing.update(quoted)
        found.quotes.update((id, []) for id in quoted)
        for quote in _QUOTES.all(connection, {**asked, "ids": as_json(quoted)}):
            found.quotes[quote.station_id].append(DatedPrice(quote.since, quote.price))
    return found
