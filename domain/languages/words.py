"""Says a text in a driver's language, with numbers, dates and units as the driver writes them.

English is the language of the source, so an English text is its own key in the catalogues. Texts that are written where
no `Words` are at hand are marked with `text_to_say`."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from domain.languages.units import US_UNITS, Units


class Language(StrEnum):
    ENGLISH = "en"


OWN_NAMES = {Language.ENGLISH: "English"}
"""The languages that a driver can choose, each by its own name, for the page's switch."""


def text_to_say(text: str) -> str:
    """Marks a text that is said later, so that the catalogues get it."""
    return text


@dataclass(frozen=True)
class Words:
    """A language, and the units of a country. Values are put into a text by name: `{place}`."""

    language: Language = Language.ENGLISH
    units: Units = US_UNITS

    def translated(self, text: str) -> str:
        """The text in this language, its placeholders as they are."""
        return text

    def say(self, text: str, **values: object) -> str:
        return self.translated(text).format(**values)

    def say_many(self, one: str, several: str, count: int, **values: object) -> str:
        """The form for a count, which is the value `count`."""
        return (one if count == 1 else several).format(count=count, **values)

    def number(self, value: float, decimals: int = 0) -> str:
        """A number without a separator of thousands, as messages are short."""
        return f"{value:.{decimals}f}"

    def money(self, us_dollars: float, decimals: int = 2) -> str:
        return self._in_currency(self.units.money(us_dollars), decimals)

    def price_of_volume(self, us_dollars_per_gallon: float) -> str:
        """The price of a gallon where volumes are in gallons, else of a litre."""
        return self._in_currency(self.units.price_of_volume(us_dollars_per_gallon), 3)

    def _in_currency(self, amount: float, decimals: int) -> str:
        return f"${self.number(amount, decimals)}"

    def volume(self, gallons: float) -> str:
        number = self.number(self.units.volume(gallons), 1)
        return self._with_unit(number, text_to_say("{number} gal"), text_to_say("{number} L"))

    def distance(self, miles: float) -> str:
        return self._with_unit(self.road_number(miles), text_to_say("{number} mi"), text_to_say("{number} km"))

    def mile(self, miles: float) -> str:
        """A place on the road, such as `mile 130`."""
        return self._with_unit(self.road_number(miles), text_to_say("mile {number}"), text_to_say("km {number}"))

    def _with_unit(self, number: str, of_us: str, metric: str) -> str:
        return self.say(metric if self.units.is_metric else of_us, number=number)

    def road_number(self, miles: float) -> str:
        """The number of a mile alone, or of a kilometer."""
        return self.number(self.units.distance(miles))

    def moment(self, at: datetime) -> str:
        """A moment in its own time zone: `Fri Nov 20 04:00 CST`. Clocks have 24 hours, as logs of duty have."""
        return f"{at:%a %b %d %H:%M %Z}"

    def weekday(self, at: datetime) -> str:
        return f"{at:%a}"

    def clock(self, at: datetime) -> str:
        return f"{at:%H:%M}"


ENGLISH = Words()


def capitalized(text: str) -> str:
    """The text as the beginning of a line."""
    return f"{text[:1].upper()}{text[1:]}"


def purchase_in_words(gallons: float, fill_to_percent: int | None, words: Words = ENGLISH) -> str:
    """A purchase as people read it: `fill to 60 % (97.0 gal)`, or `97.0 gal` where no level is told."""
    volume = words.volume(gallons)
    if fill_to_percent is None:
        return volume
    return words.say("fill to {percent} % ({volume})", percent=fill_to_percent, volume=volume)
