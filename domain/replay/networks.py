"""The brands and the deals that terms may name, and the deals that no trip bought by."""

from datetime import date
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import NotNull, Scalar, Statement
from domain.replay.results import ReplaySummary
from domain.replay.solving import deal_in_words
from domain.replay.terms import ALL_DEALS, QUOTES, ReplayTerms, UnusableTerm, is_number
from domain.stations.chains import brand_key
from domain.stations.prices import Deal

MOST_DEALS = 500
"""Deals that a page or a command lists."""

_BRANDS = Scalar(NotNull[str], "SELECT DISTINCT brand FROM stations WHERE brand IS NOT NULL ORDER BY brand")


def known_brands(connection: Connection) -> list[str]:
    """The brands of all stations, retired ones included."""
    return _BRANDS.all(connection)


_STATIONS = Scalar(str, "SELECT station_id FROM stations WHERE station_id = ANY(%s)")


_LAST_NUMBER = Scalar(
    NotNull[int], "SELECT coalesce(max(coalesce(number, id)), 0)::int FROM deals WHERE company_id = %s"
)


def require_known_names(connection: Connection, company_id: UUID, terms: ReplayTerms) -> None:
    """Refuse a brand or a place of a deal that no station has, and a number that no deal of the company has had: one
    that is misspelt would change nothing, and seem to be worth nothing. Lower numbers may be those of deals that are
    gone. Raises UnusableTerm."""
    brands = [*terms.before.brands, *terms.after.brands]
    deals = [*terms.before.without_deals, *terms.after.without_deals]
    places = [name for name in deals if not is_number(name) and name not in (ALL_DEALS, QUOTES)]
    known = set(map(brand_key, known_brands(connection))) if brands or places else set()
    stations = set(_STATIONS.all(connection, (places,))) if places else set()
    for brand in brands:
        if brand_key(brand) not in known:
            raise UnusableTerm(f"no station has the brand {brand!r}")
    for place in places:
        if place not in stations and brand_key(place) not in known:
            raise UnusableTerm(f"no station has the brand or the id {place!r}")
    last = _LAST_NUMBER.one(connection, (company_id,))
    for number in filter(is_number, deals):
        if number.startswith("0") or float(number) > last:
            raise UnusableTerm(f"the company has no deal {number}")


class _Deal(NamedTuple):
    number: int
    station_id: str | None
    brand: str | None
    discount_per_gallon: float | None
    net_price: float | None


_OF_COMPANY = """
    SELECT coalesce(number, id)::int AS number, station_id, brand, discount_per_gallon, net_price FROM deals
    WHERE company_id = %(company_id)s
"""
_IN_ORDER = "ORDER BY brand IS NULL, brand, station_id, number LIMIT %(limit)s"
_DEALS = Statement(_Deal, f"{_OF_COMPANY} {_IN_ORDER}")
_UNUSED = Statement(
    _Deal,
    f"{_OF_COMPANY} AND NOT coalesce(number, id) = ANY(%(used)s) AND coalesce(valid_from <= %(last_day)s, true)"
    f" AND coalesce(valid_to >= %(first_day)s, true) {_IN_ORDER}",
)


class NamedDeal(NamedTuple):
    """A deal of the company as it is now, by its number and in words."""

    number: int
    name: str


def deals_of(connection: Connection, company_id: UUID) -> list[NamedDeal]:
    """The deals of a company, those of brands first, `MOST_DEALS` at most."""
    return [_named(one) for one in _DEALS.all(connection, {"company_id": company_id, "limit": MOST_DEALS})]


def never_used(
    connection: Connection, company_id: UUID, summary: ReplaySummary, *, first_day: date, last_day: date
) -> list[NamedDeal]:
    """The deals of the company that held on one of these days, and by whose price no trip of a replay bought,
    `MOST_DEALS` at most."""
    asked = {
        "company_id": company_id,
        "used": [line.number for line in summary.deals],
        "first_day": first_day,
        "last_day": last_day,
        "limit": MOST_DEALS,
    }
    return [_named(one) for one in _UNUSED.all(connection, asked)]


def _named(row: _Deal) -> NamedDeal:
    deal = Deal(row.discount_per_gallon, row.net_price, row.number, row.brand)
    return NamedDeal(row.number, deal_in_words(deal, row.station_id or ""))
