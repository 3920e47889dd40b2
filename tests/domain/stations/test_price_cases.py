"""Price lists in layouts that people have, read as their owner would: without naming a profile."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from domain.database.connections import Connection
from domain.files.csvfiles import ImportReport
from domain.files.profiles import Column, FileProfile
from domain.files.reading import open_profiled, recognize
from domain.stations.held_prices import held_prices
from domain.stations.price_files import store_price_file
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN, PRICE_FIELDS
from domain.stations.price_rows import PriceReport
from domain.stations.price_units import ExchangeRates
from domain.stations.stations import store_station_rows
from domain.stations.stored_prices import apply_coming_prices
from tests.domain.csv_files import CsvFile
from tests.domain.stations.price_lists import of_chicago, stations
from tests.factories import Fleet
from tests.rows import named

CASES = Path(__file__).parents[2] / "cases" / "prices"
NOON = datetime(2026, 11, 25, 18, tzinfo=UTC)
"""Noon in Chicago."""
RATES = ExchangeRates(cad_per_usd=1.4)
OURS = {
    "L305": ("Love's Travel Stop #305", "Love's", "Elkhart", "IN", 41.735, -85.97),
    "L210": ("Love's #210", "Love's", "Gary", "IN", 41.6, -87.33),
    "K17": ("Circle K #4411", "Circle K", "Elkhart", "IN", 41.7355, -85.9705),
    "T21": ("TA Tuscaloosa #21", "TA", "Tuscaloosa", "AL", 33.2, -87.5),
    "T319": ("Petro Shorter #319", "Petro", "Shorter", "AL", 32.4, -85.9),
    "T487": ("Petro Mebane #487", "Petro", "Mebane", "NC", 36.1, -79.3),
    "T912": ("TA Express Birmingham #912", "TA Express", "Birmingham", "AL", 33.5, -86.8),
    "P206": ("Pilot Travel Center #206", "Pilot", "Loxley", "AL", 30.6, -87.7),
    "P207": ("Pilot Travel Center #207", "Pilot", "Loxley", "AL", 30.7, -87.7),
    "F790": ("Flying J #790", "Flying J", "Winnipeg", "MB", 49.9, -97.3),
    "P803": ("Pilot #803", "Pilot", "Portage la Prairie", "MB", 49.97, -98.29),
    "P789": ("Flying J #789", "Flying J", "Winnipeg", "MB", 49.8, -97.2),
    "F813": ("Flying J #813", "Flying J", "Airdrie", "AB", 51.3, -114.0),
    "53936": ("Esso Atmore", "Esso", "Atmore", "AB", 54.8, -112.6),
    "59467": ("Esso Laval", "Esso", "Laval", "QC", 45.6, -73.7),
    "C1": ("Petro-Pass Deer Lake", "Petro-Canada", "Deer Lake", "NL", 49.2, -57.4),
    "C2": ("Petro Deer Lake", "Petro", "Deer Lake", "NL", 49.3, -57.4),
    "W7": ("Woodshed", None, "Big Cabin", "OK", 36.5, -95.2),
    "T20": ("TA Clear Lake", "TA", "Clear Lake", "IA", 43.1, -93.4),
    "C1234": ("Casey's #1234", "Casey's", "Nappanee", "IN", 41.44, -86.0),
    "C1235": ("Casey's #1235", "Casey's", "Warsaw", "IN", 41.24, -85.85),
    "C1236": ("Casey's #1236", "Casey's", "Selma", "AL", 32.41, -87.02),
}
ADDRESSES = {"W7": "I-44, Exit 283", "T20": "I-35, Exit 92"}

Take = Callable[..., PriceReport]


@pytest.fixture(autouse=True)
def _ours(connection: Connection) -> None:
    connection.execute("DELETE FROM stations")
    for station_id, values in OURS.items():
        connection.execute(
            "INSERT INTO stations (station_id, name, brand, city, state, latitude, longitude, address)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (station_id, *values, ADDRESSES.get(station_id)),
        )


@pytest.fixture
def take(connection: Connection, fleet: Fleet) -> Take:
    def run(name: str | Path, at: datetime = NOON, rates: ExchangeRates = RATES) -> PriceReport:
        path = CASES / name
        return store_price_file(
            connection,
            of_chicago(connection, fleet),
            path,
            recognize(path, list(BUILT_IN.values()), PRICE_FIELDS),
            takes_retail=True,
            limits=OutlierLimits(rates=rates),
            now=at,
        )

    return run


def priced(connection: Connection) -> dict[str, float]:
    return {name: round(price, 3) for name, price in stations(connection).items() if price is not None}


def net(connection: Connection, fleet: Fleet) -> dict[str, float]:
    rows = (
        named(connection)
        .execute("SELECT station_id, net_price FROM quotes WHERE company_id = %s", (fleet.company_id,))
        .fetchall()
    )
    return {row.station_id: round(row.net_price, 4) for row in rows}


@pytest.mark.parametrize(
    ("name", "nets"),
    [
        ("loves_broker.csv", {"L305": 3.811, "L210": 3.872}),
        ("loves_broker_renamed.csv", {"L305": 3.811, "L210": 3.872}),
        ("ta_broker.csv", {"T21": 3.699, "T319": 3.799, "T487": 3.649, "T912": 3.709}),
        ("ta_broker_renamed.csv", {"T21": 3.699}),
        ("ta_customer.csv", {"T319": 3.799, "T21": 3.699}),
        ("flying_j_canada.csv", {"F813": 5.4321}),
        ("caseys.csv", {"C1234": 3.787}),
        ("rack_cost.csv", {}),
        ("relay_discounts.csv", {"P206": 3.849}),
    ],
)
def test_net_prices_reach_the_station_of_their_chain(
    connection: Connection, fleet: Fleet, take: Take, name: str, nets: dict[str, float]
) -> None:
    report = take(name)

    assert (net(connection, fleet), report.held) == (nets, 0)


@pytest.mark.parametrize(
    ("name", "retail"),
    [
        ("canada.csv", {"P803": 5.405, "P789": 5.378}),
        ("units_in_names.csv", {"P803": 5.405, "P789": 5.378}),
        ("commas.csv", {"P803": 5.405, "P789": 5.378}),
        ("loves_list.csv", {"L305": 4.299, "L210": 4.359}),
        ("esso_cents.csv", {"53936": 5.286, "59467": 6.127}),
        ("opis_repeats.csv", {"W7": 3.007, "T20": 3.359}),
        ("pilot_public.csv", {"P206": 4.499, "P803": 5.405}),
        ("loves_search.csv", {"L305": 4.299, "L210": 4.359}),
        ("caseys.csv", {"C1234": 4.099, "C1235": 4.199, "C1236": 4.199}),
        ("rack_cost.csv", {"P206": 4.499}),
        ("price_per_gallon.csv", {"L305": 4.299}),
        ("last_updated.csv", {"P206": 4.499}),
    ],
)
def test_retail_prices_reach_their_station(
    connection: Connection, take: Take, name: str, retail: dict[str, float]
) -> None:
    take(name)

    assert priced(connection) == retail


@pytest.mark.parametrize("sign", ["Retail", "Street Price", "Pump Price", "Posted Price", "Diesel Retail"])
@pytest.mark.parametrize("other", ["Price", "Fuel Price", "Price per Gallon"])
def test_the_price_on_the_sign_goes_before_any_other(
    connection: Connection, take: Take, tmp_path: Path, sign: str, other: str
) -> None:
    """The other one may be a customer's, and became the retail price that all companies share."""
    path = tmp_path / "prices.csv"
    path.write_text(f"Name,City,State,{other},{sign}\nPilot Travel Center #206,Loxley,AL,3.999,4.499\n")

    take(path)

    assert priced(connection) == {"P206": 4.499}


def test_a_column_without_a_name_hides_no_column_named_by_a_sign(
    connection: Connection, fleet: Fleet, take: Take, tmp_path: Path
) -> None:
    """Both were called the same, so the numbers of the stores and the chain were lost where each line ends with a
    delimiter."""
    path = tmp_path / "ta.csv"
    lines = (CASES / "ta_broker.csv").read_text().splitlines()
    path.write_text("".join(f"{line},\n" for line in lines))

    take(path)

    assert net(connection, fleet) == {"T21": 3.699, "T319": 3.799, "T487": 3.649, "T912": 3.709}


@pytest.mark.parametrize(("updated", "refused"), [("2 hours ago", 0), ("8:05 AM", 0), ("Yes", 0), ("3 days ago", 1)])
def test_words_for_a_time_of_today_refuse_no_price(csv_file: CsvFile, updated: str, refused: int) -> None:
    path = csv_file("Brand,Store,City,State,Retail Price,Updated", f"Love's,305,Elkhart,IN,4.299,{updated}")
    report = ImportReport()
    profile = recognize(path, list(BUILT_IN.values()), PRICE_FIELDS)
    with open_profiled(path, profile, PRICE_FIELDS, ZoneInfo("UTC"), report) as file:
        assert len(list(file.records)) == 1 - refused
    assert report.refused == refused


@pytest.mark.parametrize(
    "updated",
    [
        *("11/24/2026 8:00 AM CST", '"11/24/2026, 8:00:00 AM"', "11/24/2026 at 9:00 am EST", '"Nov 24, 2026 8:00 AM"'),
        *('"Tue, 24 Nov 2026 14:00:00 GMT"', "2026-11-24 9:00 AM EST", "24-Nov-26 14:00 Z"),
        *("2026-11-24T11:00 -0300", "2026-11-24T11:00 -3", "11/24/2026-08:00 - 11/25/2026"),
        *("11/24/26 8:00AM", "2026/11/24 08:00", "2026-11-24 8:00", "Tue Nov 24 2026 08:00:00", "2026-11-24 14:00 UTC"),
        *('"11/24/2026, 8:00:00\u202fAM"', '"Tuesday, November 24, 2026 8:00 a.m."', "11/24/26\xa0 08:00:00"),
    ],
)
def test_times_of_updates_are_read(csv_file: CsvFile, updated: str) -> None:
    path = csv_file("Brand,Store,City,State,Retail Price,Updated", f"Love's,305,Elkhart,IN,4.299,{updated}")
    profile = recognize(path, list(BUILT_IN.values()), PRICE_FIELDS)
    with open_profiled(path, profile, PRICE_FIELDS, ZoneInfo("America/Chicago"), ImportReport()) as file:
        assert [one.values["effective_at"] for one in file.records] == [datetime(2026, 11, 24, 14, tzinfo=UTC)]


def test_rows_of_other_products_are_passed_over_and_repeats_are_told(take: Take) -> None:
    assert sorted(row.line for row in take("ta_customer.csv").passed_rows) == [4, 6]
    assert [row.line for row in take("esso_cents.csv").passed_rows] == [6]
    repeats = take("opis_repeats.csv")
    told = [(row.line, "is already on line 2" in row.message) for row in sorted(repeats.rejected)]
    assert told == [(3, True), (4, False)]


def test_a_feed_without_codes_finds_stations_by_number_and_town(
    connection: Connection, fleet: Fleet, take: Take
) -> None:
    report = take("fts_price_feed.csv")

    assert net(connection, fleet) == {"P206": 4.099, "F790": 5.0265}
    assert priced(connection) == {"P206": 4.399, "F790": 5.378}
    assert [row.line for row in report.rejected] == [5]
    assert {one.station_id for one in held_prices(connection, fleet.company_id)} == {"P207"}


@pytest.mark.parametrize(
    ("names", "nets"),
    [
        ("Retail Price,Effective Price", {"P206": 3.849}),
        ("Street Price,Effective Price", {"P206": 3.849}),
        ("Gross Price,Fuel Price", {}),
    ],
)
def test_the_price_before_a_discount_is_the_retail_price(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, take: Take, names: str, nets: dict[str, float]
) -> None:
    # Names of `relay_discounts.csv`. A `Fuel Price` alone is that of the sign, in a broker's list.
    report = take(
        csv_file(
            f"Name,Brand,Store Number,City,State,{names},Price Updated At",
            "Pilot #206,Pilot,206,Loxley,AL,4.299,3.849,2026-11-25",
            "Love's #305,Love's,305,Elkhart,IN,4.299,3.849,2026-11-10",
        )
    )

    assert (priced(connection), net(connection, fleet)) == ({"P206": 4.299}, nets)
    assert [row.message for row in report.rejected] == ["the price is of 2026-11-10: prices count for 7 days"]


def test_prices_of_loves_are_of_the_time_in_the_title(take: Take) -> None:
    assert [row.message for row in take("loves_search.csv", NOON + timedelta(days=9)).rejected] == [
        "the price is of 2026-11-25: prices count for 7 days"
    ] * 2


def test_a_store_without_pumps_for_trucks_is_no_truck_stop(connection: Connection, take: Take) -> None:
    """Its diesel is for cars, and it would have become a truck stop."""
    passed = [(row.line, row.message) for row in take("loves_search.csv").passed_rows]

    assert passed == [(6, "a Country Store is no truck stop")]
    assert "loves-77" not in stations(connection)


@pytest.mark.parametrize(("name", "price"), [("final_price.csv", 3.849), ("ambest.csv", 3.799)])
def test_a_final_price_is_the_customers_and_so_is_one_without_its_savings(
    connection: Connection, fleet: Fleet, take: Take, name: str, price: float
) -> None:
    """Their rows name neither a brand nor an exit, so a person says whose store it is."""
    take(name)

    held = {one.kind: one.price for one in held_prices(connection, fleet.company_id)}
    assert held == {"net": price, "retail": 4.099}


@pytest.mark.parametrize(
    ("heading", "cells"),
    [
        ("Retail PPG,Net PPG", "4.099,3.787"),
        ("Retail PPU,Disc PPU", "4.099,3.787"),
        ("Price per Liter,Net Price ($/L)", "1.0829,1.0004"),
    ],
)
def test_prices_may_be_called_by_their_unit(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, heading: str, cells: str
) -> None:
    path = csv_file(f"Brand,Site Name,City,State,{heading}", f"Casey's,Casey's #1234,Nappanee,IN,{cells}")
    profile = recognize(path, list(BUILT_IN.values()), PRICE_FIELDS)
    store_price_file(
        connection, *(of_chicago(connection, fleet), path, profile), takes_retail=True, limits=OutlierLimits(), now=NOON
    )

    assert net(connection, fleet) == {"C1234": pytest.approx(3.787, abs=0.001)}
    assert priced(connection) == {"C1234": pytest.approx(4.099, abs=0.001)}


@pytest.mark.parametrize(
    ("heading", "cells", "told"),
    [
        ("Retail Price,Savings", "4.099,0.312", 3.787),
        ("Retail Price,Savings,Your Price", "4.099,0.312,3.600", 3.6),
        ("Retail Price,Savings", "4.099,-0.287", None),
        ("Retail Price,Savings", "4.099,45.00", None),
        ("Retail Price,Savings", "4.099,0", None),
        ("Retail Price ($/L),Savings ($/L)", "1.099,0.100", 3.7816),
        ("Retail Price,Savings", "x,0.312", None),
    ],
)
def test_savings_tell_the_net_price_where_no_column_has_it(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, heading: str, cells: str, told: float | None
) -> None:
    path = csv_file(f"Brand,Site Name,City,State,{heading}", f"Casey's,Casey's #1234,Nappanee,IN,{cells}")
    profile = recognize(path, list(BUILT_IN.values()), PRICE_FIELDS)
    store_price_file(
        connection,
        *(of_chicago(connection, fleet), path, profile),
        takes_retail=False,
        limits=OutlierLimits(rates=RATES),
        now=NOON,
    )

    assert net(connection, fleet) == ({} if told is None else {"C1234": told})


def test_sites_that_are_named_by_their_town_wait_for_a_person(connection: Connection, fleet: Fleet, take: Take) -> None:
    report = take("petro_pass.csv")

    assert (report.held, [row.line for row in report.rejected]) == (1, [9])
    (held,) = held_prices(connection, fleet.company_id)
    assert (round(held.price, 2), held.candidates) == (5.43, ["C1"])


# --- Pilot's report of each morning ------------------------------------------------------------------------------


@pytest.fixture
def pilots(connection: Connection) -> None:
    connection.execute("DELETE FROM stations")
    store_station_rows(connection, CASES / "pilot" / "stations.csv", now=NOON)
    connection.execute("UPDATE stations SET station_id = 'W-1' WHERE station_id = 'pilot-75'")


@pytest.mark.usefixtures("pilots")
def test_dsl_counts_from_its_day_on_and_def_is_nothing(connection: Connection, fleet: Fleet, take: Take) -> None:
    report = take("pilot/pilot_def_first.xlsx")

    assert (report.created, report.held, report.rejected, len(report.passed_rows)) == (3, 0, [], 2)
    assert priced(connection) == {}, "it is of tomorrow"
    apply_coming_prices(connection, now=NOON + timedelta(hours=13))
    assert priced(connection) == {"pilot-602": 5.099, "W-1": 5.299, "pilot-764": 5.099}
    assert net(connection, fleet) == {"pilot-602": 4.4877, "W-1": 4.6694, "pilot-764": 4.3788}


@pytest.mark.usefixtures("pilots")
def test_an_old_report_replaces_nothing(connection: Connection, fleet: Fleet, take: Take) -> None:
    connection.execute(
        "UPDATE stations SET name = 'Pilot #907', city = 'Miles City', state = 'MT' WHERE station_id = 'W-1'"
    )
    take("pilot/pilot_tomorrow.xlsx", NOON + timedelta(days=2))

    report = take("pilot/pilot_old.xlsx", NOON + timedelta(days=2))

    assert ([row.line for row in report.rejected], priced(connection)) == ([7], {"W-1": 4.599})
    assert net(connection, fleet) == {"W-1": 4.299}


@pytest.mark.usefixtures("pilots")
def test_a_profile_that_a_company_kept_before_tells_products_and_days_too(connection: Connection, fleet: Fleet) -> None:
    kept = FileProfile(
        "ours",
        "prices",
        {
            "code": Column(("Site",)),
            "city": Column(("City",)),
            "state": Column(("ST",)),
            "net_price": Column(("Your Price",)),
        },
        constants={"brand": "Pilot"},
        code_set="pilot",
    )

    def taken(name: str) -> PriceReport:
        path, company_id = CASES / "pilot" / name, of_chicago(connection, fleet)
        return store_price_file(
            connection, company_id, path, kept, takes_retail=False, limits=OutlierLimits(), now=NOON
        )

    assert len(taken("pilot_def_first.xlsx").passed_rows) == 2
    assert net(connection, fleet) == {"pilot-602": 4.4877, "W-1": 4.6694, "pilot-764": 4.3788}
    assert "prices count for 7 days" in taken("pilot_old.xlsx").rejected[0].message
