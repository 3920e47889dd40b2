"""Prices in other money and by the litre: converted by a rate that is set, or held."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.database.connections import Connection
from domain.languages.units import Country
from domain.stations.held_prices import NeedsRate, accept_price, held_prices
from domain.stations.price_files import store_price_file
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN, with_unit
from domain.stations.price_rows import PriceLook, PriceReport
from domain.stations.price_units import (
    NO_RATES,
    ExchangeRates,
    UnitOfPrice,
    country_of,
    in_dollars,
    read_unit,
    unit_in_heading,
    unit_of_price,
)
from domain.stations.written_prices import foreign_prices
from tests.domain.stations.price_lists import of_chicago, reasons, stations
from tests.factories import DOT, Fleet

RATES = ExchangeRates(cad_per_usd=1.4, mxn_per_usd=18.0)
PLACES = {"MB": (49.9, -97.3), "ON": (43.2, -79.8), "IN": (41.7, -86.0), "BC": (49.3, -121.5), "NLE": (25.7, -100.3)}


@pytest.fixture(autouse=True)
def _no_stations(connection: Connection) -> None:
    connection.execute("DELETE FROM stations")
    for state, place in PLACES.items():
        connection.execute(
            "INSERT INTO stations (station_id, name, brand, city, state, latitude, longitude)"
            " VALUES (%s, 'Flying J #1', 'Flying J', 'Town', %s, %s, %s)",
            (state, state, *place),
        )


class Files:
    def __init__(self, connection: Connection, fleet: Fleet, now: datetime, folder: Path) -> None:
        self.connection, self.fleet, self.now, self.folder = connection, fleet, now, folder

    def take(
        self, header: str, *rows: str, rates: ExchangeRates = RATES, currency: str = "", unit: str = "", hours: int = 0
    ) -> PriceReport:
        path = self.folder / "prices.csv"
        path.write_text("\n".join([header, *rows]))
        return store_price_file(
            self.connection,
            of_chicago(self.connection, self.fleet),
            path,
            with_unit(BUILT_IN["generic"], currency, unit),
            takes_retail=True,
            limits=OutlierLimits(rates=rates),
            now=self.now + timedelta(hours=hours),
        )

    def price(self, station_id: str) -> float | None:
        price = stations(self.connection)[station_id]
        return round(price, 3) if price is not None else None


@pytest.fixture
def files(connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path) -> Files:
    return Files(connection, fleet, now, tmp_path)


@pytest.mark.parametrize(
    ("header", "row", "option", "station_id", "dollars"),
    [
        ("station_id,state,price", "MB,MB,1.999", {}, "MB", 5.405),
        ("station_id,price", "MB,1.999", {}, "MB", 5.405),
        ("station_id,state,price", "MB,Manitoba,1.999", {}, "MB", 5.405),
        ("station_id,price,currency,unit", "MB,7.567,CAD,gallon", {}, "MB", 5.405),
        ("station_id,price,currency,unit", "IN,1.999,CAD,L", {}, "IN", 5.405),
        ("station_id,price,currency,unit", "MB,199.9,cad,cents per litre", {}, "MB", 5.405),
        ("station_id,price,currency,unit", "MB,4.999,US$,gal", {}, "MB", 4.999),
        ("station_id,price,unit", "IN,1.1,$/litre", {}, "IN", 4.164),
        ("station_id,Price (CAD/L)", "MB,1.999", {}, "MB", None),
        ("station_id,price", "MB,5.1", {"currency": "USD"}, "MB", 5.1),
        ("station_id,price", "MB,199.9", {"unit": "cents/litre"}, "MB", 5.405),
        ("station_id,price", "NLE,24.5", {}, "NLE", 5.152),
        ("station_id,state,latitude,longitude,price", "NLE,NL,25.7,-100.3,24.5", {}, "NLE", 5.152),
        ("station_id,price", "IN,3.999", {}, "IN", 3.999),
    ],
)
def test_a_price_is_told_in_us_dollars_a_gallon(
    files: Files, header: str, row: str, option: dict[str, str], station_id: str, dollars: float | None
) -> None:
    if dollars is None:
        header, dollars = header.replace("Price (CAD/L)", "Retail Price"), 5.405
        assert unit_in_heading("Price (CAD/L)") == ("CAD", "litre", False)

    report = files.take(header, row, currency=option.get("currency", ""), unit=option.get("unit", ""))

    assert (files.price(station_id), report.rejected, report.held) == (dollars, [], 0)


def test_without_a_rate_a_price_is_held_until_one_is_set(connection: Connection, fleet: Fleet, files: Files) -> None:
    report = files.take("station_id,price", "MB,1.999", "IN,3.999", rates=NO_RATES)

    assert (report.held, files.price("MB"), files.price("IN")) == (1, None, 3.999)
    (held,) = held_prices(connection, fleet.company_id)
    assert (held.price, held.shown_unit) == (1.999, "CAD a litre")
    assert held.reason == "1.999 is in CAD a litre, and no rate of exchange is set: see FUELROUTE_CAD_PER_USD"
    with pytest.raises(NeedsRate):
        accept_price(connection, fleet.company_id, held.id, DOT, may_change_retail=True, now=files.now)
    accept_price(connection, fleet.company_id, held.id, DOT, may_change_retail=True, now=files.now, rates=RATES)
    assert files.price("MB") == 5.405


@pytest.mark.parametrize("row", ["MB,5.4", "NLE,3.9", "BC,0.2"])
def test_a_price_that_is_none_of_a_litre_there_is_held(
    connection: Connection, fleet: Fleet, files: Files, row: str
) -> None:
    assert files.take("station_id,price", row).held == 1
    assert "its file must say its currency and unit" in reasons(connection, fleet)[0]


@pytest.mark.parametrize("row", ["IN,3.999,EUR,gallon", "IN,3.999,USD,barrel"])
def test_money_and_units_that_are_not_known_are_refused(files: Files, row: str) -> None:
    report = files.take("station_id,price,currency,unit", row)

    assert ("that is known" in report.rejected[0].message, files.price("IN")) == (True, None)


@pytest.mark.parametrize("known_in_the_states", [0, 8])
def test_a_price_is_compared_with_what_its_own_country_pays(
    connection: Connection, fleet: Fleet, files: Files, known_in_the_states: int
) -> None:
    """0.75 CAD a litre is $2.03 a gallon: too little where Canada pays $5.40, though it would do at $3.90."""
    for number in range(8):
        for state, place, price in [("ON", (43.2, -79.8), 5.4), ("OH", (40.0, -82.0), 3.9)]:
            if state == "ON" or number < known_in_the_states:
                connection.execute(
                    "INSERT INTO stations VALUES (%s, 'S', NULL, NULL, NULL, %s, %s, %s, %s, %s)",
                    (f"{state}{number}", state, *place, price, files.now),
                )

    report = files.take("station_id,price", "MB,0.75")

    assert (report.held, files.price("MB")) == (1, None)
    assert reasons(connection, fleet) == ["2.028 is far below the usual price, 5.400"]


def test_a_price_by_the_litre_in_the_states_is_held(connection: Connection, fleet: Fleet, files: Files) -> None:
    for number in range(8):
        connection.execute(
            "INSERT INTO stations VALUES (%s, 'S', NULL, NULL, NULL, 'OH', 40, -82, 3.9, %s)", (f"s{number}", files.now)
        )

    assert files.take("station_id,price", "IN,1.05").held == 1
    assert reasons(connection, fleet) == ["1.050 is far below the usual price, 3.900"]


@pytest.mark.parametrize(
    ("state", "place", "country"),
    [
        ("ON", None, "CA"),
        ("Québec", None, "CA"),
        ("CA", None, "US"),
        ("NL", (48.9, -57.9), "CA"),
        ("NL", (25.7, -100.3), "MX"),
        ("BC", (32.5, -117.0), "MX"),
        ("Nuevo León", None, "MX"),
        ("", (49.9, -97.1), "CA"),
        ("", (43.65, -79.4), "CA"),
        ("", (25.67, -100.3), "MX"),
        ("", (41.5, -88.1), "US"),
        ("", (47.6, -122.3), "US"),
        ("", None, "US"),
    ],
)
def test_the_country_is_told_by_state_or_place(state: str, place: tuple[float, float] | None, country: Country) -> None:
    latitude, longitude = place or (None, None)
    assert country_of(state, "", latitude, longitude) == country


def test_units_are_read_as_files_write_them() -> None:
    assert {read_unit(text) for text in ("L", "litres", "$/L", "per liter", "USD/Litre")} == {("litre", False)}
    assert {read_unit(text) for text in ("c/L", "cpl", "cents per litre", "¢/L")} == {("litre", True)}
    assert {read_unit(text) for text in ("gal", "US Gallon", "$/gal", "PPG")} == {("gallon", False)}


@given(st.floats(0.01, 100), st.floats(0.95, 2.5), st.sampled_from(["gallon", "litre", "imperial gallon"]))
def test_conversion_goes_both_ways(price: float, rate: float, unit: str) -> None:
    litres = {"gallon": 3.785411784, "litre": 1.0, "imperial gallon": 4.54609}[unit]

    told = in_dollars(price, UnitOfPrice("CAD", unit), ExchangeRates(cad_per_usd=rate))

    assert told.price * rate / 3.785411784 * litres == pytest.approx(price, abs=1e-4)


def test_the_country_decides_only_what_the_file_leaves_open() -> None:
    assert unit_of_price("", "", "CA") == (UnitOfPrice("CAD", "litre"), False)
    assert unit_of_price("CAD", "", "US") == (UnitOfPrice("CAD", "litre"), True)
    assert unit_of_price("", "litre", "US") == (UnitOfPrice("USD", "litre"), True)
    assert unit_of_price("USD", "", "CA") == (UnitOfPrice("USD", "gallon"), True)


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("Retail Price", {"state": "MT"}, ""),
        ("Retail Price", {"state": "MB"}, "$5.405 a gallon, from 1.999 CAD a litre"),
        ("Price (CAD/gal)", {"state": "MB"}, "$1.428 a gallon, from 1.999 CAD a gallon"),
        ("Price (cents/L)", {"state": "MB", "retail_price": 199.9}, "$5.405 a gallon, from 199.9 CAD cents a litre"),
        ("Retail Price", {"state": "MB", "retail_price": 199.9}, "$5.405 a gallon, from 199.9 CAD cents a litre"),
        ("Retail Price", {"state": "MB", "retail_price": 9.9}, "9.900 is no price of a litre in CAD: its file must"),
    ],
)
def test_a_foreign_price_is_shown_with_the_money_and_unit_in_which_it_is_read(
    column: str, values: dict[str, Any], expected: str
) -> None:
    shown = foreign_prices({"retail_price": 1.999} | values, {"retail_price": column}, None, RATES)

    assert shown.get("retail_price", "").startswith(expected)
    assert list(shown) == (["retail_price"] if expected else [])


@pytest.mark.parametrize(
    ("station_id", "price", "expected"),
    [
        ("MB", 1.999, {"retail_price": "$5.405 a gallon, from 1.999 CAD a litre"}),
        ("NLE", 24.5, {"retail_price": "$5.152 a gallon, from 24.5 MXN a litre"}),
        ("IN", 3.999, {}),
        ("unknown", 3.999, {}),
    ],
)
def test_a_row_without_a_state_is_shown_as_it_is_read_by_the_country_of_its_station(
    connection: Connection, fleet: Fleet, station_id: str, price: float, expected: dict[str, str]
) -> None:
    look = PriceLook(connection, fleet.company_id, BUILT_IN["generic"], RATES)

    assert look.foreign_prices({"code": station_id, "retail_price": price}, {"retail_price": "price"}) == expected
