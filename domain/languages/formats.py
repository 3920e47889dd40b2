"""Writes numbers, money and times as a language does, from the Unicode CLDR through Babel.

English stays as messages have always been. No number has a separator of thousands, spaces are plain ones, and clocks
have 24 hours, as logs of duty have."""

import re
from datetime import datetime
from functools import cache
from typing import NamedTuple

from domain.languages.tags import Language
from domain.languages.units import CURRENCY_OF, Country

_DIGITS = re.compile(r"[#,.0]+")
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


def written_day(at: datetime, language: Language) -> str:
    """The day in its own time zone: `Fri Nov 20`."""
    return f"{at:%a %b %d}" if language is Language.ENGLISH else _by_skeleton("MMMEd", at, language)


def written_weekday(at: datetime, language: Language) -> str:
    return f"{at:%a}" if language is Language.ENGLISH else _by_skeleton("E", at, language)


def written_clock(at: datetime, language: Language) -> str:
    return f"{at:%H:%M}" if language is Language.ENGLISH else _by_skeleton("Hm", at, language)


def written_zone(at: datetime, language: Language) -> str:
    """The short name of the time zone, such as `CST`, or `HNC` in French. CLDR has none in some languages, and drivers
    know the English one."""
    name = f"{at:%Z}"
    if language is not Language.FRENCH:
        return name
    from babel.dates import format_datetime

    own = format_datetime(at, "z", tzinfo=at.tzinfo, locale=_LOCALES[language])
    return own if own.isalpha() else name


def _by_skeleton(skeleton: str, at: datetime, language: Language) -> str:
    from babel.dates import format_skeleton

    return _plain(format_skeleton(skeleton, at, tzinfo=at.tzinfo, locale=_LOCALES[language]))
