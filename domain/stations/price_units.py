"""Converts prices in the money and unit of their country to US dollars a gallon.

A file says the currency and the unit in columns, in the name of its column of prices, or by an option. Otherwise the
country of the station decides: Canada sells in Canadian dollars a litre, Mexico in pesos a litre. The rates of exchange
are settings; without one a price cannot be converted, and it waits."""

import re
from functools import lru_cache
from typing import NamedTuple

from domain.languages.units import LITRES_IN_GALLON, Country
from domain.settings import Settings
from domain.stations.state_names import US_STATES, letters_of, plain_state

LITRES_IN_IMPERIAL_GALLON = 4.54609


class UnitOfPrice(NamedTuple):
    """The money and the amount of fuel of a price."""

    currency: str = "USD"
    unit: str = "gallon"
    """`gallon`, `litre` or `imperial gallon`."""
    is_cents: bool = False

    @property
    def shown(self) -> str:
        money = f"{self.currency} cents" if self.is_cents else self.currency
        return f"{money} a {self.unit}"


US_DOLLARS_A_GALLON = UnitOfPrice()
_OF_COUNTRY = {"US": UnitOfPrice(), "CA": UnitOfPrice("CAD", "litre"), "MX": UnitOfPrice("MXN", "litre")}

_LIKELY_A_LITRE = {"CAD": (0.5, 4.0), "MXN": (10.0, 60.0)}
"""Plausible prices of a litre of diesel. Another price shows that the file has another unit, but not which."""
_CENTS_A_LITRE = (50.0, 400.0)
"""Prices that can only be cents a litre, as in many lists in Canada: 195.5 is one."""


class ExchangeRates(NamedTuple):
    """Units of a currency for one US dollar; None if not set."""

    cad_per_usd: float | None = None
    mxn_per_usd: float | None = None

    @classmethod
    def of(cls, settings: Settings) -> "ExchangeRates":
        return cls(settings.cad_per_usd, settings.mxn_per_usd)

    def per_usd(self, currency: str) -> float | None:
        return {"USD": 1.0, "CAD": self.cad_per_usd, "MXN": self.mxn_per_usd}[currency]


NO_RATES = ExchangeRates()


class ToldPrice(NamedTuple):
    """A price in US dollars a gallon, or the written price with the reason why it cannot be converted."""

    price: float
    unit: UnitOfPrice = US_DOLLARS_A_GALLON
    doubt: str = ""
    read_in: UnitOfPrice = US_DOLLARS_A_GALLON
    """The money and unit of the written price."""


def in_dollars(price: float, unit: UnitOfPrice, rates: ExchangeRates, *, is_told: bool = True) -> ToldPrice:
    """Converts a price. `is_told`: the file says its unit. Otherwise the unit is the country's, and the price must be
    plausible in it."""
    if not is_told and unit.currency == "CAD" and _CENTS_A_LITRE[0] <= price <= _CENTS_A_LITRE[1]:
        unit = unit._replace(is_cents=True)
    read_in = unit
    price, unit = (price / 100, unit._replace(is_cents=False)) if unit.is_cents else (price, unit)
    if unit == US_DOLLARS_A_GALLON:
        return ToldPrice(price, read_in=read_in)
    likely = _LIKELY_A_LITRE.get(unit.currency)
    if not is_told and likely is not None and not likely[0] <= price <= likely[1]:
        doubt = f"{price:.3f} is no price of a litre in {unit.currency}: its file must say its currency and unit"
        return ToldPrice(price, unit, doubt)
    rate = rates.per_usd(unit.currency)
    if rate is None:
        setting = f"FUELROUTE_{unit.currency}_PER_USD"
        doubt = f"{price:.3f} is in {unit.shown}, and no rate of exchange is set: see {setting}"
        return ToldPrice(price, unit, doubt)
    litres = {"gallon": LITRES_IN_GALLON, "litre": 1.0, "imperial gallon": LITRES_IN_IMPERIAL_GALLON}[unit.unit]
    return ToldPrice(round(price / rate / litres * LITRES_IN_GALLON, 6), read_in=read_in)


# --- What files say ----------------------------------------------------------------------------------------------

_CURRENCIES = {
    "USD": "usd us us$ usdollar usdollars dollarus",
    "CAD": "cad ca ca$ c$ cdn cdn$ can$ cad$ canadiandollar canadiandollars",
    "MXN": "mxn mxp mx mx$ peso pesos mexicanpeso mexicanpesos",
}
_UNITS = {
    "gallon": "gallon gallons gal gals gl g usgallon usgallons usgal usg ppg pergallon",
    "litre": "litre litres liter liters ltr ltrs lt l perlitre perliter ppl",
    "imperial gallon": "imperialgallon imperialgallons impgal imperialgal ig ukgallon",
}
_CURRENCY_OF = {spelling: currency for currency, spellings in _CURRENCIES.items() for spelling in spellings.split()}
_UNIT_OF = {spelling: unit for unit, spellings in _UNITS.items() for spelling in spellings.split()}


@lru_cache(maxsize=1_000)
def read_currency(text: str) -> str:
    """The code of a currency: `US$` is USD. Raises ValueError for an unknown one."""
    found = _CURRENCY_OF.get(re.sub(r"[^a-z$]", "", text.casefold()))
    if found is None:
        raise ValueError(f"{text[:40]!r} is no currency that is known: USD, CAD or MXN")
    return found


@lru_cache(maxsize=1_000)
def read_unit(text: str) -> tuple[str, bool]:
    """The unit, and whether the price is in cents: `$/L` is a litre, `cents per litre` is a litre in cents. Raises
    ValueError for an unknown one."""
    plain = text.casefold()
    is_cents = bool(re.search(r"\bcents?\b|¢|\bcpl\b|\bcpg\b|^c\s*/", plain))
    words = re.sub(r"\bcpl\b", "litre", re.sub(r"\bcpg\b", "gallon", plain))
    letters = re.sub(r"[^a-z]", "", re.sub(r"\bcents?\b|\bdollars?\b|\b(?:per|a)\b|^[^/]*/", " ", words))
    found = _UNIT_OF.get(letters)
    if found is None:
        raise ValueError(f"{text[:40]!r} is no unit of fuel that is known: gallon or litre")
    return found, is_cents


@lru_cache(maxsize=100)
def unit_in_heading(heading: str) -> tuple[str | None, str | None, bool]:
    """The currency, the unit and whether it is cents, from a column's name: `Price (CAD/L)`."""
    words = re.findall(r"[a-z$]+|¢", heading.casefold())
    currency = next((_CURRENCY_OF[word] for word in words if len(word) > 2 and word in _CURRENCY_OF), None)
    litre = {"l", "ltr", "litre", "litres", "liter", "liters", "cpl", "ppl", "lt"}
    gallon = {"gal", "gals", "gallon", "gallons", "ppg", "cpg"}
    unit = "litre" if litre & set(words) else "gallon" if gallon & set(words) else None
    return currency, unit, bool({"cpl", "cpg", "cents", "cent", "¢"} & set(words))


def unit_of_price(currency: str, unit: str, country: Country) -> tuple[UnitOfPrice, bool]:
    """The unit of a price by the texts of its file, or by the country if they are empty; and whether the file said it.
    Raises ValueError for an unknown one."""
    if not currency and not unit:
        return _OF_COUNTRY[country], False
    code = read_currency(currency) if currency else ""
    amount, is_cents = read_unit(unit) if unit else ("", False)
    usual = _OF_COUNTRY[country]
    if not code:
        code = usual.currency
    if not amount:
        amount = "gallon" if code == "USD" else "litre"
    return UnitOfPrice(code, amount, is_cents), True


# --- Countries ---------------------------------------------------------------------------------------------------

_PROVINCES = frozenset({"AB", "BC", "MB", "NB", "NL", "NS", "NT", "NU", "ON", "PE", "QC", "SK", "YT"})
_MEXICAN_TEXT = """
AGU AGS BCN BCS CAM CHP CHH CHIH CMX CDMX COA COAH COL DUR DGO GUA GTO GRO HID JAL MEX MIC MOR NAY NLE OAX PUE
QRO ROO SLP SIN SON TAB TAM TAMPS TLA VER YUC ZAC BJ BS CP CH CI CU DF DG EM GJ GR HG JA MX NX OX PU QA QR SI
SL SO TL TM VZ YU ZT
"""
_MEXICAN = frozenset(_MEXICAN_TEXT.split())
_COUNTRIES: dict[str, Country] = {
    **dict.fromkeys(("ca", "can", "canada", "cdn"), "CA"),
    **dict.fromkeys(("mx", "mex", "mexico"), "MX"),
    **dict.fromkeys(("us", "usa", "unitedstates", "unitedstatesofamerica"), "US"),
}
_BORDERS = (32.8, 41.6)
"""Degrees north between which there is only the United States."""

_SOUTHERN = 34.0
"""Degrees north below which `BC` and `NL` are Baja California and Nuevo Leon, not British Columbia and Newfoundland."""


def country_of(
    state: str | None, country: str = "", latitude: float | None = None, longitude: float | None = None
) -> Country:
    """The country of a station by its country's name, its state, or its place if no state is given."""
    if not country and state in US_STATES:
        return "US"  # nearly all stations
    told = _COUNTRIES.get(letters_of(country)) if country else None
    if told is not None:
        return told
    found = _country_of_state((state or "").strip())
    if state and state.strip():
        return "MX" if found == "CA" and latitude is not None and latitude < _SOUTHERN else found
    return _country_of_place(latitude, longitude)


def _country_of_state(state: str) -> Country:
    code = plain_state(state)
    if code in _PROVINCES:
        return "CA"
    return "MX" if code in _MEXICAN else "US"


def _country_of_place(latitude: float | None, longitude: float | None) -> Country:
    """The country by the borders of states. Most places lie so far from a border that the borders need not be read."""
    if latitude is None or _BORDERS[0] < latitude < _BORDERS[1]:
        return "US"
    from domain.roads import Point
    from domain.roads.states import default_states

    state = default_states().at(Point(latitude, longitude or 0.0))
    return "MX" if state == "MX" else _country_of_state(state)
