"""Prices of stations and deals that a person sends: what is not believed is told, and nothing else is changed by it."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from domain.database.connections import Connection
from domain.files.csvfiles import ImportReport
from domain.settings import get_settings
from domain.stations.believed_prices import NotBelieved, UnitOption
from domain.stations.deals import DealFileRow, store_deal, store_deal_rows
from domain.stations.stations import (
    StationFileRow,
    insert_station,
    set_stations_retired,
    store_station,
    store_station_rows,
)
from tests.domain.csv_files import CsvFile, rejected
from tests.domain.stations.price_lists import stations
from tests.factories import DOT, Fleet
from tests.rows import named

STATIONS = "station_id,name,brand,city,state,latitude,longitude,retail_price"
Load = Callable[..., ImportReport]

pytestmark = pytest.mark.usefixtures("no_stations")


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FUELROUTE_CAD_PER_USD", "1.4")
    monkeypatch.setenv("FUELROUTE_MXN_PER_USD", "18")
    get_settings.cache_clear()
    yield
    get_settings.cache_clear()


@pytest.fixture
def load(connection: Connection, csv_file: CsvFile, now: datetime) -> Load:
    def run(
        *rows: str, header: str = STATIONS, hours: int = 0, option: UnitOption | None = None, **more: bool
    ) -> ImportReport:
        path = csv_file(header, *rows)
        return store_station_rows(
            connection,
            path,
            now=now + timedelta(hours=hours),
            unit=option or UnitOption(),
            believe=more.get("believe", False),
        )

    return run


@pytest.fixture
def deal(connection: Connection, fleet: Fleet, csv_file: CsvFile, now: datetime) -> Load:
    def run(
        *rows: str, header: str = "station_id,brand,discount_per_gallon,net_price", believe: bool = False
    ) -> ImportReport:
        return store_deal_rows(connection, fleet.company_id, csv_file(header, *rows), now=now, believe=believe)

    return run


def known(connection: Connection, now: datetime, price: float = 3.9, count: int = 8) -> None:
    """Stations whose prices tell what is usual."""
    for number in range(count):
        connection.execute(
            "INSERT INTO stations (station_id, name, state, latitude, longitude, retail_price, priced_at)"
            " VALUES (%s, 'Stop', 'OH', 40, -82, %s, %s)",
            (f"known {number}", price, now),
        )


@pytest.mark.parametrize("price", ["0.05", "0.5", "1.05", "9.9", "39.9"])
def test_an_unbelievable_price_is_not_stored_and_told(
    connection: Connection, load: Load, now: datetime, price: str
) -> None:
    known(connection, now)

    report = load(f"a,A,Pilot,Gary,IN,41.6,-87.3,{price}", "b,B,Pilot,Gary,IN,41.7,-87.3,3.999")

    assert "the station is stored without this price" in rejected(report)[2]
    assert (report.created, stations(connection)["a"], stations(connection)["b"]) == (2, None, 3.999)
    load(f"a,A,Pilot,Gary,IN,41.6,-87.3,{price}", believe=True)
    assert stations(connection)["a"] == float(price)


@pytest.mark.parametrize(("price", "is_stored"), [("0.05", False), ("0.99", False), ("1.5", True), ("10.5", False)])
def test_where_nothing_is_known_bounds_decide(connection: Connection, load: Load, price: str, is_stored: bool) -> None:
    assert load(f"a,A,Pilot,Gary,IN,41.6,-87.3,{price}").created == 1
    assert stations(connection) == {"a": float(price) if is_stored else None}


def test_a_leap_keeps_the_price_of_yesterday_until_somebody_has_looked(connection: Connection, load: Load) -> None:
    load("a,A,Pilot,Gary,IN,41.6,-87.3,7.999")

    report = load("a,B,Pilot,Gary,IN,41.6,-87.3,2.999", hours=24)

    assert rejected(report)[2].startswith("2.999 is too unlike the price before, 7.999")
    assert (report.updated, stations(connection)) == (1, {"a": 7.999})
    header = f"{STATIONS},checked_price"
    load("a,B,Pilot,Gary,IN,41.6,-87.3,2.999,3.1", header=header, hours=24)
    assert stations(connection) == {"a": 7.999}
    assert load("a,B,Pilot,Gary,IN,41.6,-87.3,2.999,2.999", header=header, hours=24).rejected == []
    assert stations(connection) == {"a": 2.999}


@pytest.mark.usefixtures("rates")
@pytest.mark.parametrize(
    ("row", "more", "dollars"),
    [
        ("a,A,Pilot,Winnipeg,MB,49.9,-97.1,1.999", "", 5.405),
        ("a,A,Pilot,Winnipeg,Manitoba,49.9,-97.1,1.999", "", 5.405),
        ("a,A,Pilot,Winnipeg,,49.9,-97.1,1.999", "", 5.405),
        ("a,A,Pilot,Winnipeg,MB,49.9,-97.1,5.4,USD,gallon", ",currency,unit", 5.4),
        ("a,A,Pilot,Winnipeg,MB,49.9,-97.1,199.9,CAD,cents/L", ",currency,unit", 5.405),
        ("a,A,Pilot,Gary,IN,41.6,-87.3,1.999,CAD,litre", ",currency,unit", 5.405),
        ("a,A,Pilot,Monterrey,NLE,25.7,-100.3,24.5", "", 5.152),
    ],
)
def test_prices_of_other_countries_are_converted(
    connection: Connection, load: Load, row: str, more: str, dollars: float
) -> None:
    assert load(row, header=STATIONS + more).rejected == []
    assert round(stations(connection)["a"] or 0, 3) == dollars


def test_without_a_rate_they_wait(connection: Connection, load: Load) -> None:
    report = load("a,A,Pilot,Winnipeg,MB,49.9,-97.1,1.999")

    assert "no rate of exchange is set: see FUELROUTE_CAD_PER_USD" in rejected(report)[2]
    assert (report.created, stations(connection)) == (1, {"a": None})


@pytest.mark.usefixtures("rates")
def test_an_option_tells_the_unit_of_a_file(connection: Connection, load: Load) -> None:
    load("a,A,Pilot,Winnipeg,MB,49.9,-97.1,5.1", option=UnitOption("USD", "gallon"))
    assert stations(connection) == {"a": 5.1}


def test_money_that_is_not_known_is_refused(load: Load) -> None:
    report = load("a,A,Pilot,Gary,IN,41.6,-87.3,3.9,EUR", header=f"{STATIONS},currency")
    assert (report.created, "is no currency that is known" in rejected(report)[2]) == (0, True)


# --- Retired stations --------------------------------------------------------------------------------------------


def test_a_retired_station_comes_back_under_its_own_id_only(connection: Connection, load: Load, now: datetime) -> None:
    load("a,Pilot #9,Pilot,Gary,IN,41.6,-87.3,3.999")
    set_stations_retired(connection, ["a"], DOT, now=now)

    report = load("b,PILOT TRAVEL CENTER,,Gary,IN,41.6005,-87.3005,3.999", "c,Love's,,Gary,IN,41.6005,-87.3,3.9")

    assert rejected(report) == {2: "this station is retired as 'a': import it by that id to bring it back"}
    assert set(stations(connection)) == {"a", "c"}
    load("a,Pilot #9,Pilot,Gary,IN,41.6,-87.3,3.999")
    rows = named(connection).execute("SELECT retired_at FROM stations WHERE station_id = 'a'").fetchall()
    assert [row.retired_at for row in rows] == [None]


def test_a_station_that_is_known_stays_beside_a_retired_one(connection: Connection, load: Load, now: datetime) -> None:
    load("a,Pilot,Pilot,Gary,IN,41.6,-87.3,3.999", "b,Pilot,Pilot,Gary,IN,41.6005,-87.3,3.999")
    set_stations_retired(connection, ["a"], DOT, now=now)

    assert load("b,Pilot,Pilot,Gary,IN,41.6005,-87.3,3.899").rejected == []
    assert stations(connection)["b"] == 3.899


# --- Deals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row", ["known 1,,3.50,", "known 1,,,0.349", "known 1,,,0.5", ",Pilot,3.5,", ",Pilot,,0.349", "new,,2,"]
)
def test_a_deal_that_nobody_gets_is_refused_until_somebody_has_looked(
    connection: Connection, deal: Load, now: datetime, row: str
) -> None:
    known(connection, now)

    report = deal(row)

    assert (report.created, list(rejected(report))) == (0, [2])
    assert deal(row, believe=True).created == 1


def test_a_refused_deal_is_no_repeat(connection: Connection, deal: Load, now: datetime) -> None:
    known(connection, now)

    report = deal(",Pilot,,39.9", ",Pilot,,3.1", ",Pilot,,3.2")

    assert report.created == 1
    assert list(rejected(report)) == [2, 4]
    assert rejected(report)[4] == "brand 'Pilot' is already on line 3"


@pytest.mark.parametrize("row", ["known 1,,0.50,", "known 1,,,3.2", ",Pilot,0.6,", ",Pilot,,3.1", "new,,0.3,"])
def test_usual_deals_are_stored(connection: Connection, deal: Load, now: datetime, row: str) -> None:
    known(connection, now)
    assert deal(row).created == 1


@pytest.mark.usefixtures("rates")
def test_deals_in_canada_are_told_in_us_dollars_a_gallon(
    connection: Connection, fleet: Fleet, load: Load, deal: Load
) -> None:
    load("a,A,Pilot,Winnipeg,MB,49.9,-97.1,1.999")
    unit = "station_id,discount_per_gallon,currency,unit"

    assert deal("a,1.849", header="station_id,net_price").created == 1
    assert rejected(deal("a,0.05", header="station_id,discount_per_gallon")) == {
        2: "0.050 may be US dollars a gallon or CAD a litre: say its currency and unit"
    }
    assert deal("a,0.05,CAD,L", header=unit).updated == 1
    (row,) = (
        named(connection)
        .execute("SELECT discount_per_gallon FROM deals WHERE company_id = %s", (fleet.company_id,))
        .fetchall()
    )
    assert row.discount_per_gallon == pytest.approx(0.05 / 1.4 * 3.785411784, abs=1e-6)


# --- Places ------------------------------------------------------------------------------------------------------


def placed(connection: Connection) -> dict[str, tuple[float, float]]:
    rows = named(connection).execute("SELECT station_id, latitude, longitude FROM stations").fetchall()
    return {row.station_id: (row.latitude, row.longitude) for row in rows}


def test_a_file_moves_no_known_station_far_away_unless_somebody_has_looked(
    connection: Connection, load: Load, now: datetime
) -> None:
    """Another list that numbers its stations from 1 would move them to the places of its own."""
    load("1,A,Pilot,Gary,IN,41.6,-87.3,3.999", "2,B,Pilot,Ashland,NE,41.04,-96.37,3.999")
    header = f"{STATIONS},closed_until,checked_price"
    rows = (
        f"1,X,Shell,Waco,TX,31.5,-97.1,3.1,{now + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ},3.1",
        "2,B,Pilot,Ashland,NE,41.09,-96.33,3.899,,",
    )

    report = load(*rows, header=header)

    assert rejected(report) == {
        2: "31.5, -97.1 is more than 5 miles from where this station is known, 41.6, -87.3:"
        " the station is left as it is"
    }
    assert placed(connection) == {"1": (41.6, -87.3), "2": (41.09, -96.33)}
    assert stations(connection) == {"1": 3.999, "2": 3.899}
    assert connection.execute("SELECT station_id FROM station_closures WHERE station_id = '1'").fetchall() == []
    assert load(*rows, header=header, believe=True).rejected == []
    assert placed(connection)["1"] == (31.5, -97.1)


def test_a_file_moves_no_known_station_six_miles_aslant(connection: Connection, load: Load) -> None:
    load("1,A,Pilot,Gary,IN,41.6,-87.3,3.999")

    report = load("1,A,Pilot,Gary,IN,41.67,-87.23,3.999")

    assert [one.line for one in report.rejected] == [2]
    assert placed(connection) == {"1": (41.6, -87.3)}


def test_a_place_far_away_that_is_typed_is_stored_once_checked(connection: Connection, now: datetime) -> None:
    insert_station(connection, StationFileRow("a", "A", 41.6, -87.3, "Pilot"), DOT, now=now)
    moved = StationFileRow("a", "A", 41.6, -86.3, "Pilot")

    with pytest.raises(NotBelieved, match=r"known, 41\.6, -87\.3\. If it is right, say that you have checked it"):
        store_station(connection, moved, DOT, now=now, believe=True)
    store_station(connection, moved, DOT, now=now, believe_place=True)
    assert placed(connection) == {"a": (41.6, -86.3)}


def test_a_leap_of_a_usual_price_is_stored_once_somebody_has_checked_it(
    connection: Connection, csv_file: CsvFile, now: datetime
) -> None:
    """The console sends a file without currency and unit."""

    def send(price: str, checked: str) -> ImportReport:
        path = csv_file(f"{STATIONS},checked_price", f"a,A,Pilot,Gary,IN,41.6,-87.3,{price},{checked}")
        return store_station_rows(connection, path, now=now)

    send("7.999", "")
    assert len(send("2.999", "").rejected) == 1
    assert send("2.999", "2.999").rejected == []
    assert stations(connection) == {"a": 2.999}


# --- One price ---------------------------------------------------------------------------------------------------


def test_one_price_by_hand_is_judged_alike(connection: Connection, fleet: Fleet, now: datetime) -> None:
    known(connection, now)
    row = StationFileRow("a", "A", 41.6, -87.3, "Pilot", retail_price=0.05)

    with pytest.raises(NotBelieved, match="say that you have checked it"), connection.transaction():
        insert_station(connection, row, DOT, now=now)
    assert "a" not in stations(connection)
    insert_station(connection, row, DOT, now=now, believe=True)
    with pytest.raises(NotBelieved), connection.transaction():
        store_station(connection, row, DOT, now=now)
    with pytest.raises(NotBelieved):
        store_deal(connection, fleet.company_id, None, DealFileRow("a", discount_per_gallon=3.5), DOT, now=now)
    assert store_deal(
        connection, fleet.company_id, None, DealFileRow("a", discount_per_gallon=3.5), DOT, now=now, believe=True
    )
