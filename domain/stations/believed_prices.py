"""Prices of stations and deals that a person sends: converted to US dollars a gallon, and compared with known prices.

A price that cannot be converted, or that is unlike any price of diesel, is not stored. The person is told why, and may
send it again, marked as checked."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.errors import FuelrouteError
from domain.files.csvfiles import UnreadableFile
from domain.languages.units import Country
from domain.settings import get_settings
from domain.stations.chains import BrandMatch, brand_match, brand_of
from domain.stations.price_outliers import FEWEST_IN_COUNTRY, believable_range, unbelievable
from domain.stations.price_units import (
    US_DOLLARS_A_GALLON,
    ExchangeRates,
    ToldPrice,
    UnitOfPrice,
    country_of,
    in_dollars,
    unit_of_price,
)
from domain.stations.prices import STALE_AFTER
from domain.stations.state_names import US_STATES
from domain.stations.station_finding import SAME_PLACE_MILES, CodedStation, miles_between

MOST_DISCOUNT_SHARE = 0.35
"""Largest share of the price that a discount may have. Real ones are less than a fifth."""
LEAST_NET_SHARE, MOST_NET_SHARE = 0.4, 1.35
"""Lowest and highest net price, as a share of the retail price. Some contracts are of other times."""
MOST_DISCOUNT = 1.5
"""Largest discount in dollars a gallon, where no price is known."""
CLOCKS_APART = timedelta(days=1)
"""Most time by which a price may seem to be of a time to come: clocks and time zones of senders differ."""


class NotBelieved(FuelrouteError):
    """A price, a discount or a place is not stored; the text says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}. If it is right, say that you have checked it")


class UnitOption(NamedTuple):
    """The currency and unit for prices whose file does not say them; empty for those of the country."""

    currency: str = ""
    unit: str = ""


NO_OPTION = UnitOption()


def unit_option(currency: str, unit: str) -> UnitOption:
    """The option by its two texts. Raises UnreadableFile, with the reason, if one is unknown."""
    try:
        unit_of_price(currency, unit, "US")
    except ValueError as error:
        raise UnreadableFile(str(error)) from None
    return UnitOption(currency, unit)


class SentPrice(NamedTuple):
    """A price or a discount as a person sent it."""

    amount: float
    currency: str = ""
    unit: str = ""
    is_checked: bool = False
    """True if a person has checked it."""


def says_checked(text: str | None, price: float) -> bool:
    """True for `yes`, and for the price itself: a person who changes an exported price has not checked the new one
    yet."""
    if text is None:
        return False
    try:
        return text.strip().lower() in ("yes", "y") or float(text) == price
    except ValueError:
        return False


class _Usual(NamedTuple):
    price: float | None
    stations: int


_USUAL = Statement(
    _Usual,
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY retail_price) AS price, count(*)::int AS stations FROM stations"
    " WHERE retail_price IS NOT NULL AND retired_at IS NULL AND priced_at > %s AND priced_at <= %s",
)


class _Priced(NamedTuple):
    station_id: str
    state: str | None
    latitude: float
    longitude: float
    retail_price: float | None
    priced_at: datetime | None


_PRICED = Statement(
    _Priced,
    "SELECT station_id, state, latitude, longitude, retail_price, priced_at FROM stations WHERE station_id = ANY(%s)",
)


_RETIRED = Statement(
    CodedStation, f"SELECT {', '.join(CodedStation._fields)} FROM stations WHERE retired_at IS NOT NULL"
)


def usual_price(connection: Connection, *, now: datetime) -> float | None:
    """The median of the prices of stations that count today; None where too few are known."""
    usual = _USUAL.one(connection, (now - STALE_AFTER, now))
    return usual.price if usual.stations >= FEWEST_IN_COUNTRY else None


class PriceJudge:
    """Converts prices to US dollars a gallon, and says what makes them doubtful."""

    def __init__(
        self,
        connection: Connection,
        *,
        now: datetime,
        believe: bool = False,
        option: UnitOption = NO_OPTION,
        stations: Iterable[str] = (),
    ) -> None:
        """`believe`: a person has checked the prices. `stations` are those that deals are for."""
        self.believes, self._option, self._now = believe, option, now
        self._rates = ExchangeRates.of(get_settings())
        self._usual = usual_price(connection, now=now)
        self._lowest, self._highest = believable_range(self._usual)
        named = sorted(set(stations))
        self._stations = {one.station_id: one for one in _PRICED.all(connection, (named,))} if named else {}

    def is_plain(self, price: float, state: str | None) -> bool:
        """True for a price that needs no further check, as nearly all: in a known state, and near the usual price."""
        return self._lowest <= price <= self._highest and state in US_STATES and self._option == NO_OPTION

    def station_price(self, sent: SentPrice, state: str | None, place: tuple[float, float]) -> tuple[float, str]:
        """The price in US dollars a gallon, and the doubt, empty without one."""
        told = self._in_dollars(sent, country_of(state, "", *place))
        return told.price, told.doubt or ("" if self._believes(sent) else unbelievable(told.price, self._usual))

    def time_doubt(self, priced_at: datetime | None) -> str:
        """The doubt about the time of a price, empty without one. A price of a time to come would not become too old
        before that time."""
        if priced_at is None or priced_at <= self._now + CLOCKS_APART:
            return ""
        return f"priced_at: {priced_at:%Y-%m-%d} has not come yet"

    def net_price(self, sent: SentPrice, station_id: str | None) -> tuple[float, str]:
        """The net price of a deal, for one station or a brand, in US dollars a gallon, and the doubt, empty without
        one."""
        station = self._stations.get(station_id or "")
        told = self._in_dollars(sent, _country(station))
        if told.doubt or self._believes(sent):
            return told.price, told.doubt
        retail = self._fresh(station) or self._usual
        if retail is None:
            return told.price, unbelievable(told.price, None)
        if LEAST_NET_SHARE <= told.price / retail <= MOST_NET_SHARE * (1 if self._fresh(station) else 1.5):
            return told.price, ""
        return told.price, f"{told.price:.3f} is far from the {'retail' if station else 'usual'} price, {retail:.3f}"

    def discount(self, sent: SentPrice, station_id: str | None) -> tuple[float, str]:
        """A discount in US dollars a gallon, and the doubt, empty without one."""
        station = self._stations.get(station_id or "")
        written, is_told = self._unit(_country(station), sent)
        if not is_told and written != US_DOLLARS_A_GALLON:
            doubt = f"{sent.amount:.3f} may be US dollars a gallon or {written.shown}: say its currency and unit"
            return sent.amount, doubt
        told = in_dollars(sent.amount, written, self._rates)
        if told.doubt or self._believes(sent):
            return told.price, told.doubt
        price = self._fresh(station) or self._usual
        most = price * MOST_DISCOUNT_SHARE if price is not None else MOST_DISCOUNT
        return told.price, f"{told.price:.3f} a gallon is no usual discount" if told.price > most else ""

    def _believes(self, sent: SentPrice) -> bool:
        return self.believes or sent.is_checked

    def _in_dollars(self, sent: SentPrice, country: Country) -> ToldPrice:
        written, is_told = self._unit(country, sent)
        return in_dollars(sent.amount, written, self._rates, is_told=is_told)

    def _unit(self, country: Country, sent: SentPrice) -> tuple[UnitOfPrice, bool]:
        return unit_of_price(sent.currency or self._option.currency, sent.unit or self._option.unit, country)

    def _fresh(self, station: _Priced | None) -> float | None:
        if station is None or station.priced_at is None or station.priced_at < self._now - STALE_AFTER:
            return None
        return station.retail_price


def _country(station: _Priced | None) -> Country:
    return "US" if station is None else country_of(station.state, "", station.latitude, station.longitude)


# --- Retired stations --------------------------------------------------------------------------------------------

_Square = tuple[int, int]


def _square(latitude: float, longitude: float) -> _Square:
    return round(latitude * 100), round(longitude * 100)


RetiredFinder = Callable[[str, str, str | None, str | None, float, float], str | None]
"""Finds a retired station by the id, name, brand, town and place of another; returns its id."""


class RetiredPlaces:
    """The places of retired stations. A file must not add one of them again under another id."""

    def __init__(self, connection: Connection) -> None:
        self._near: dict[_Square, list[CodedStation]] = {}
        for one in _RETIRED.all(connection, ()):
            north, east = _square(one.latitude, one.longitude)
            for row in (north - 1, north, north + 1):
                for column in (east - 1, east, east + 1):
                    self._near.setdefault((row, column), []).append(one)

    def finder(self) -> RetiredFinder | None:
        """A function that finds the retired station at the place of a file's station; None if no station is retired."""
        return self._same if self._near else None

    def _same(
        self, station_id: str, name: str, brand: str | None, city: str | None, latitude: float, longitude: float
    ) -> str | None:
        near = self._near.get(_square(latitude, longitude))
        if near is None:
            return None
        theirs = brand_of(brand or "", name, city or "")
        for one in near:
            if (
                one.station_id != station_id
                and miles_between(one.latitude, one.longitude, latitude, longitude) <= SAME_PLACE_MILES
                and brand_match(brand_of(one.brand or "", one.name, one.city or ""), theirs) is BrandMatch.SAME
            ):
                return one.station_id
        return None
