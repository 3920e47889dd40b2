"""Writes numbers, money and times as a language does, from the Unicode CLDR through Babel.

English stays as messages have always been. No number has a separator of thousands, spaces are plain ones, and clocks
have 24 hours, as logs of duty have."""

import re
from datetime import date, datetime, time, tzinfo
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from domain.languages.tags import Language
from domain.languages.units import CURRENCY_OF, Country

_DIGITS = re.compile(r"[#,.0]+")
_SOME_DAY = date(2000, 1, 1)
_KEPT = 8_000
"""Days and times of day that are kept as they are written: each page names many, and Babel takes long for each."""
_UNICODE_SPACES = re.compile("[\u00a0\u2009\u202f]")

_LOCALES = {Language.SPANISH: "es_US", Language.FRENCH: "fr_CA", Language.PUNJABI: "pa_Guru"}
"""The customs of the drivers who speak it in North America."""


class NumberFormat(NamedTuple):
    decimal_sign: str
    money: str
    """A pattern such as `{symbol}{number}`."""
    us_dollars: str
    """The sign of US dollars where another dollar, or the peso, is the driver's own money."""

    def number(self, value: float, decimals: int) -> str:
        return f"{value:.{decimals}f}".replace(".", self.decimal_sign)

    def amount(self, value: float, decimals: int, currency: str, country: Country) -> str:
        symbol = "$" if currency == CURRENCY_OF[country] else self.us_dollars
        return self.money.format(symbol=symbol, number=self.number(value, decimals))


@cache
def number_format(language: Language) -> NumberFormat:
    if language is Language.ENGLISH:
        return NumberFormat(".", "{symbol}{number}", "US$")
    from babel import Locale
    from babel.numbers import get_currency_symbol, get_decimal_symbol

    # The sign of US dollars from abroad: in the United States it is the plain one.
    locale, abroad = Locale.parse(_LOCALES[language]), "es" if language is Language.SPANISH else _LOCALES[language]
    pattern = _plain(locale.currency_formats["standard"].pattern)
    return NumberFormat(
        get_decimal_symbol(locale),
        _DIGITS.sub("{number}", pattern).replace("¤", "{symbol}"),
        _plain(get_currency_symbol("USD", abroad)),
    )


def _plain(text: str) -> str:
    return _UNICODE_SPACES.sub(" ", text)


@lru_cache(maxsize=_KEPT)
def written_day(day: date, language: Language) -> str:
    """The day, such as `Fri Nov 20`."""
    return f"{day:%a %b %d}" if language is Language.ENGLISH else _by_skeleton("MMMEd", day, language)


@lru_cache(maxsize=_KEPT)
def written_weekday(day: date, language: Language) -> str:
    return f"{day:%a}" if language is Language.ENGLISH else _by_skeleton("E", day, language)


@lru_cache(maxsize=_KEPT)
def written_clock(hour: int, minute: int, language: Language) -> str:
    if language is Language.ENGLISH:
        return f"{hour:02}:{minute:02}"
    return _by_skeleton("Hm", _SOME_DAY, language, time(hour, minute))


def written_zone(at: datetime, language: Language) -> str:
    """The short name of the time zone, such as `CST`, or `HNC` in French. CLDR has none in some languages, and drivers
    know the English one."""
    name = at.tzname() or ""
    return _french_zone(at.tzinfo, name, is_summer_time=bool(at.dst())) if language is Language.FRENCH else name


@lru_cache(maxsize=_KEPT)
def _french_zone(zone: tzinfo | None, name: str, *, is_summer_time: bool) -> str:
    from babel.dates import get_timezone_name

    variant: Literal["daylight", "standard"] = "daylight" if is_summer_time else "standard"
    own = get_timezone_name(zone, "short", locale=_LOCALES[Language.FRENCH], zone_variant=variant)
    return own if own.isalpha() else name


def _by_skeleton(skeleton: str, day: date, language: Language, clock: time = time()) -> str:
    from babel.dates import format_skeleton

    return _plain(format_skeleton(skeleton, datetime.combine(day, clock), locale=_LOCALES[language]))
