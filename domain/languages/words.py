"""Says a text in a driver's language, with numbers, dates and units as the driver writes them.

English is the language of the source, so an English text is its own key in the catalogues. Texts that are written where
no `Words` are at hand are marked with `text_to_say`."""

from dataclasses import dataclass
from datetime import datetime

from domain.languages.catalogues import catalogue
from domain.languages.formats import number_format, written_clock, written_day, written_weekday, written_zone
from domain.languages.tags import Language, read_tag
from domain.languages.units import US_UNITS, Country, Units
from domain.settings import get_settings


def text_to_say(text: str) -> str:
    """Marks a text that is said later, so that the catalogues get it."""
    return text


@dataclass(frozen=True)
class Words:
    """A language, and the units of a country. Values are put into a text by name: `{place}`."""

    language: Language = Language.ENGLISH
    units: Units = US_UNITS

    def text(self, text: str) -> str:
        """The text as its catalogue has it, with the names of its values in braces."""
        return catalogue(self.language).gettext(text)

    def say(self, text: str, **values: object) -> str:
        return self.text(text).format(**values)

    def say_many(self, one: str, several: str, count: int, **values: object) -> str:
        """The form for a count, which is the value `count`."""
        return catalogue(self.language).ngettext(one, several, count).format(count=count, **values)

    def number(self, value: float, decimals: int = 0) -> str:
        """A number without a separator of thousands, as messages are short."""
        return number_format(self.language).number(value, decimals)

    def money(self, us_dollars: float, decimals: int = 2) -> str:
        """An amount in the money of the country, or in US dollars where no rate of exchange is set."""
        return self._amount(self.units.money(us_dollars), decimals)

    def price_of_volume(self, us_dollars_per_gallon: float) -> str:
        """The price of a gallon where volumes are in gallons, else of a litre."""
        return self._amount(self.units.price_of_volume(us_dollars_per_gallon), 3)

    def _amount(self, value: float, decimals: int) -> str:
        return number_format(self.language).amount(value, decimals, self.units.currency, self.units.country)

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
        """A moment in its own time zone: `Fri Nov 20 04:00 CST`."""
        return f"{self.day(at)} {self.clock(at)} {written_zone(at, self.language)}"

    def day(self, at: datetime) -> str:
        return written_day(at.date(), self.language)

    def weekday(self, at: datetime) -> str:
        return written_weekday(at.date(), self.language)

    def clock(self, at: datetime) -> str:
        return written_clock(at.hour, at.minute, self.language)


ENGLISH = Words()


def words_for(language: str | None, time_zone: str) -> Words:
    """The words for a driver of a company in that time zone. `language` is as it is stored with the driver, or as he
    chose it on the page. A driver without one reads English, in US units. Otherwise the country of the units is the one
    that the language names, or else the company's, by its time zone."""
    tag = read_tag(language) if language else None
    if tag is None:
        return ENGLISH
    return Words(tag.language, units_in(tag.country or _country_of_zone(time_zone)))


def units_in(country: Country) -> Units:
    """The units of a country, with the installation's rate of exchange."""
    settings = get_settings()
    rates: dict[Country, float | None] = {"US": 1.0, "CA": settings.cad_per_usd, "MX": settings.mxn_per_usd}
    return Units(country, rates[country])


def _country_of_zone(time_zone: str) -> Country:
    """The country in which a time zone lies; the United States for one that lies in none, such as UTC."""
    from babel.core import get_global

    name = get_global("zone_aliases").get(time_zone, time_zone)
    territory = get_global("zone_territories").get(name)
    return "CA" if territory == "CA" else "MX" if territory == "MX" else "US"


def capitalized(text: str) -> str:
    """The text as the beginning of a line."""
    return f"{text[:1].upper()}{text[1:]}"


def purchase_in_words(gallons: float, fill_to_percent: int | None, words: Words = ENGLISH) -> str:
    """A purchase as people read it: `fill to 60 % (97.0 gal)`, or `97.0 gal` where no level is told."""
    volume = words.volume(gallons)
    if fill_to_percent is None:
        return volume
    return words.say("fill to {percent} % ({volume})", percent=fill_to_percent, volume=volume)
