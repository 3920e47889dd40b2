"""Numbers, money, units and times as drivers write them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.languages.tags import Language, read_tag, tidy_language
from domain.languages.units import LITRES_IN_GALLON, Units
from domain.languages.words import ENGLISH, Words, words_for
from domain.settings import Settings

CHICAGO = ZoneInfo("America/Chicago")
FRIDAY = datetime(2026, 11, 20, 10, tzinfo=UTC).astimezone(CHICAGO)
SPANISH, PUNJABI = Words(Language.SPANISH), Words(Language.PUNJABI)
QUEBEC = Words(Language.FRENCH, Units("CA", 1.4))


def test_english_is_written_as_messages_always_were() -> None:
    assert ENGLISH.volume(97.04) == "97.0 gal"
    assert ENGLISH.price_of_volume(3.4551) == "$3.455"
    assert ENGLISH.money(1520.5) == "$1520.50"
    assert ENGLISH.mile(130.4) == "mile 130"
    assert ENGLISH.distance(12) == "12 mi"
    assert ENGLISH.moment(FRIDAY) == "Fri Nov 20 04:00 CST"


def test_a_driver_in_canada_reads_litres_kilometers_and_his_own_dollars() -> None:
    assert QUEBEC.volume(100) == "378,5 L"
    assert QUEBEC.price_of_volume(3.4551) == "1,278 $"
    assert QUEBEC.money(345.51) == "483,71 $"
    assert QUEBEC.mile(130.4) == "km 210"
    assert QUEBEC.moment(FRIDAY) == "ven. 20 nov. 04 h 00 HNC"


def test_without_a_rate_of_exchange_a_price_stays_in_us_dollars_and_says_so() -> None:
    assert Words(Language.FRENCH, Units("CA", None)).price_of_volume(3.4551) == "0,913 $ US"
    assert Words(Language.ENGLISH, Units("CA", None)).money(345.51) == "US$345.51"
    assert Words(Language.SPANISH, Units("MX", None)).money(345.51) == "US$345.51"
    assert Words(Language.SPANISH, Units("MX", 18.0)).money(10) == "$180.00"


def test_spanish_and_punjabi_of_the_united_states() -> None:
    assert SPANISH.moment(FRIDAY) == "vie, 20 de nov 04:00 CST"
    assert SPANISH.price_of_volume(3.4551) == PUNJABI.price_of_volume(3.4551) == "$3.455"
    assert PUNJABI.moment(FRIDAY) == "ਸ਼ੁੱਕਰ, 20 ਨਵੰ 04:00 CST"
    assert PUNJABI.volume(97) == "97.0 ਗੈਲਨ"


@given(st.sampled_from(Language), st.floats(1, 300), st.floats(1, 9), st.floats(0.5, 2))
def test_volume_times_price_is_the_cost_in_all_units(
    language: Language, gallons: float, price: float, rate: float
) -> None:
    for units in (Units(), Units("CA", rate), Units("CA", None)):
        cost = units.volume(gallons) * units.price_of_volume(price)
        assert cost == pytest.approx(units.money(gallons * price))
    assert Units("CA", 1.0).volume(1) == LITRES_IN_GALLON


@pytest.mark.parametrize(
    ("written", "tag"),
    [
        ("Punjabi", "pa"),
        ("ਪੰਜਾਬੀ", "pa"),
        ("fr_CA", "fr-CA"),
        ("Canadian French", "fr-CA"),
        ("Spanish (Mexico)", "es-MX"),
        ("es-419", "es"),
        ("ESPAÑOL", "es"),
        ("English/Spanish", "en"),
        ("en-us", "en-US"),
        ("Somali", "Somali"),
        ("pa-Arab", "pa-Arab"),
        ("N/A", "N/A"),
    ],
)
def test_a_language_is_stored_by_its_tag_and_an_unknown_one_as_it_is(written: str, tag: str) -> None:
    assert tidy_language(written) == tag


@given(st.text())
def test_a_stored_language_is_tidy(written: str) -> None:
    assert tidy_language(tidy_language(written)) == tidy_language(written)


@pytest.mark.parametrize(
    ("language", "time_zone", "country"),
    [
        (None, "America/Toronto", "US"),
        ("Somali", "America/Toronto", "US"),
        ("en", "America/Toronto", "CA"),
        ("fr", "America/Montreal", "CA"),
        ("fr-US", "America/Toronto", "US"),
        ("pa", "America/Chicago", "US"),
        ("pa-CA", "America/Chicago", "CA"),
        ("es", "America/Monterrey", "MX"),
        ("es", "UTC", "US"),
    ],
)
def test_the_units_are_of_the_country_that_is_named_or_else_of_the_company(
    language: str | None, time_zone: str, country: str
) -> None:
    words = words_for(language, time_zone)

    assert words.units.country == country
    tag = read_tag(language or "")
    assert words.language == (tag.language if tag is not None else Language.ENGLISH)


def test_the_rate_of_exchange_is_the_one_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("domain.languages.words.get_settings", lambda: Settings(cad_per_usd=1.4))

    assert words_for("fr-CA", "UTC").units == Units("CA", 1.4)
    assert words_for("es-MX", "UTC").units == Units("MX", None)
