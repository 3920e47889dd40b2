"""The units that a driver thinks in: miles, gallons and US dollars, or those of Canada and Mexico."""

from typing import Literal, NamedTuple

LITRES_IN_GALLON = 3.785411784
KILOMETRES_IN_MILE = 1.609344

Country = Literal["US", "CA", "MX"]

CURRENCY_OF: dict[Country, str] = {"US": "USD", "CA": "CAD", "MX": "MXN"}


class Units(NamedTuple):
    """The units of a country. Fuelroute stores miles, gallons and US dollars, and converts only for reading."""

    country: Country = "US"
    per_usd: float | None = 1.0
    """Units of the country's currency for one US dollar; None where no rate of exchange is set. Then money stays in US
    dollars, and says so."""

    @property
    def is_metric(self) -> bool:
        return self.country != "US"

    @property
    def currency(self) -> str:
        return CURRENCY_OF[self.country] if self.per_usd is not None else "USD"

    def money(self, us_dollars: float) -> float:
        return us_dollars if self.per_usd is None else us_dollars * self.per_usd

    def volume(self, gallons: float) -> float:
        return gallons * LITRES_IN_GALLON if self.is_metric else gallons

    def price_of_volume(self, us_dollars_per_gallon: float) -> float:
        """The price of a gallon or a litre, in `currency`."""
        price = self.money(us_dollars_per_gallon)
        return price / LITRES_IN_GALLON if self.is_metric else price

    def distance(self, miles: float) -> float:
        return miles * KILOMETRES_IN_MILE if self.is_metric else miles


US_UNITS = Units()
