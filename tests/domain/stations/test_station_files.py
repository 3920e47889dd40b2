"""Imports of stations, deals and taxes from CSV files: what they keep and change."""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import Rollback
from psycopg.errors import LockNotAvailable

from domain.database.connections import Connection, Database
from domain.database.options import SERVING
from domain.files.csvfiles import ImportReport, UnreadableFile
from domain.settings import Settings
from domain.stations import deals, price_files
from domain.stations.deals import DealRow, TooManyDeals, delete_deal, store_deal, store_deal_rows
from domain.stations.listings import DEALS as DEALS_LISTED
from domain.stations.price_files import store_price_file
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN
from domain.stations.price_sets import begin_price_set, lock_prices, take_price_changes
from domain.stations.stations import store_station_rows
from domain.stations.taxes import store_tax_rows
from tests.domain.csv_files import CsvFile, counts, rejected
from tests.factories import DOT, Fleet, make_fleet
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


HEADER = "station_id,name,brand,address,city,state,latitude,longitude,retail_price,priced_at"


@pytest.fixture
def stations_of(database: Database, csv_file: CsvFile, now: datetime) -> Callable[..., ImportReport]:
    """Imports stations in a transaction of their own; `{}` in a row is an id that no other test has."""
    unique = uuid4().hex

    def load(*rows: str, at: datetime = now, header: str = HEADER) -> ImportReport:
        path = csv_file(header, *(row.replace("{}", unique) for row in rows))
        with database.transaction() as connection:
            return store_station_rows(connection, path, now=at)

    load.unique = unique  # type: ignore[attr-defined]
    return load


def station(database: Database, stations_of: Any, suffix: str = "") -> Any:
    with database.transaction() as connection:
        (row,) = (
            named(connection)
            .execute("SELECT * FROM stations WHERE station_id = %s", (stations_of.unique + suffix,))
            .fetchall()
        )
        return row


def test_a_station_without_a_time_of_its_price_was_priced_now(
    database: Database, stations_of: Callable[..., ImportReport], now: datetime
) -> None:
    stations_of(
        "{},A,Pilot,,Gary,IN,41.6,-87.3,3.899,",
        "{}-2,B,,,,,41.6,-87.4,3.899,2026-03-01T08:00:00-06:00",
        "{}-3,C,,,,,41.6,-87.5,,2026-03-01T08:00:00-06:00",
    )

    assert (station(database, stations_of).retail_price, station(database, stations_of).priced_at) == (3.899, now)
    assert station(database, stations_of, "-2").priced_at == datetime(2026, 3, 1, 14, tzinfo=UTC)
    assert station(database, stations_of, "-3").priced_at is None


def test_a_price_seen_again_is_unchanged_and_its_time_is_kept(
    database: Database, stations_of: Callable[..., ImportReport], now: datetime
) -> None:
    row = "{},A,Pilot,,Gary,IN,41.6,-87.3,3.899,"
    later = now + timedelta(hours=6)

    assert counts(stations_of(row)) == (1, 0, 0)
    assert counts(stations_of(row, at=later)) == (0, 0, 1)
    assert station(database, stations_of).priced_at == later
    assert counts(stations_of(row.replace("3.899", "3.799"), "{}-2,B,,,,,41.6,-87.4,,")) == (1, 1, 0)


def test_a_file_changes_only_the_columns_that_it_has(
    database: Database, stations_of: Callable[..., ImportReport], now: datetime
) -> None:
    stations_of("{},A,Pilot,1 Exit Rd,Gary,IN,41.6,-87.3,3.899,")
    later = now + timedelta(hours=6)

    places = stations_of(
        "{},A Plaza,41.6,-87.3", "{}-2,B,41.7,-87.3", at=later, header="station_id,name,latitude,longitude"
    )
    row, new = station(database, stations_of), station(database, stations_of, "-2")
    assert counts(places) == (1, 1, 0)
    assert (row.name, row.brand, row.address, row.city, row.state) == ("A Plaza", "Pilot", "1 Exit Rd", "Gary", "IN")
    assert (row.retail_price, row.priced_at) == (3.899, now)
    assert (new.brand, new.retail_price, new.priced_at) == (None, None, None)

    prices = "station_id,name,latitude,longitude,retail_price"
    assert counts(stations_of("{},A Plaza,41.6,-87.3,3.899", at=later, header=prices)) == (0, 0, 1)
    row = station(database, stations_of)
    assert (row.brand, row.retail_price, row.priced_at) == ("Pilot", 3.899, later)
    times = "station_id,name,latitude,longitude,priced_at"
    assert counts(stations_of("{},A Plaza,41.6,-87.3,2020-01-01T00:00:00Z", header=times)) == (0, 0, 1)
    assert station(database, stations_of).priced_at == later
    emptied = "station_id,name,latitude,longitude,brand,retail_price"
    report = stations_of("{},A Plaza,41.6,-87.3,,", "{}-2,B,41.7,-87.3,,", at=later, header=emptied)
    assert (counts(report), report.removed) == ((0, 1, 1), {"brand": 1, "retail_price": 1})
    row = station(database, stations_of)
    assert (row.brand, row.city, row.retail_price, row.priced_at) == (None, "Gary", None, None)


def test_a_price_of_a_time_to_come_is_told_and_not_stored(
    database: Database, stations_of: Callable[..., ImportReport], now: datetime
) -> None:
    """It would count until then, and for a week more: a year that is mistyped is a price that never becomes too old."""
    row = "{},A,Pilot,,Gary,IN,41.6,-87.3,%s,%s"
    stations_of(row % ("3.899", ""))

    report = stations_of(row % ("3.599", (now + timedelta(days=365)).isoformat()))

    assert list(rejected(report)) == [2]
    assert "has not come yet: the station is stored without this price" in rejected(report)[2]
    assert (station(database, stations_of).retail_price, station(database, stations_of).priced_at) == (3.899, now)
    ahead = now + timedelta(hours=20)  # a clock of another time zone
    assert counts(stations_of(row % ("3.599", ahead.isoformat()))) == (0, 1, 0)


@pytest.mark.parametrize("mark", ["#N/A", "N/A", "NULL"])
def test_a_mark_for_no_value_removes_no_price(
    database: Database, stations_of: Callable[..., ImportReport], now: datetime, mark: str
) -> None:
    header = "station_id,name,latitude,longitude,retail_price"
    stations_of("{},A,41.6,-87.3,3.899", header=header)

    report = stations_of(f"{{}},A,41.6,-87.3,{mark}", at=now + timedelta(hours=1), header=header)

    assert list(rejected(report)) == [2]
    assert station(database, stations_of).retail_price == 3.899


def test_an_older_price_does_not_replace_a_newer_one(
    database: Database, stations_of: Callable[..., ImportReport], now: datetime
) -> None:
    row = "{},A,Pilot,,Gary,IN,41.6,-87.3,%s,%s"
    older, newer = now - timedelta(days=2), now - timedelta(days=1)
    stations_of(row % ("3.899", newer.isoformat()))

    for price in ("3.5", ""):
        report = stations_of((row % (price, older.isoformat())).replace("Pilot", "Love's"))
        assert counts(report) == ((0, 1, 0) if price else (0, 0, 1)), "the brand has no time"
        stored = station(database, stations_of)
        assert (stored.brand, stored.retail_price, stored.priced_at) == ("Love's", 3.899, newer)
    stations_of(row % ("3.6", newer.isoformat()))
    assert station(database, stations_of).retail_price == 3.6, "of the same time, the last one counts"
    stations_of(row % ("3.7", (now + timedelta(days=300)).isoformat()))
    stations_of(row % ("3.8", ""))
    stored = station(database, stations_of)
    assert (stored.retail_price, stored.priced_at) == (3.8, now), "a time that has not come yet is a mistake"


def test_stations_that_break_a_rule_are_listed_by_line(stations_of: Callable[..., ImportReport]) -> None:
    report = stations_of(
        "{},A,,,,,41.6,-87.3,3.899,",
        "{}-2,B,,,,,0,0,3.899,",
        "{}-3,C,,,,,91,-87.3,3.899,",
        "{}-4,D,,,,,41.6,-87.3,-1,",
        "{}-5,E,,,,,41.6,-87.3,100,",
        "{}-6,F,,,,,41.6,-87.3,3.9,yesterday",
        "{}-7,,,,,,41.6,-87.3,3.9,",
        "{}-8,H,,,,,north,-87.3,3.9,",
        "{}-9,I,,,,,41.6,-87.3,nan,",
        "{},A again,,,,,41.6,-87.3,3.9,",
    )

    assert counts(report) == (1, 0, 0)
    assert set(rejected(report)) == set(range(3, 12))
    assert "is already on line 2" in rejected(report)[11]


def test_a_deal_keeps_its_last_day_when_the_file_has_no_such_column(
    connection: Connection, csv_file: CsvFile, now: datetime
) -> None:
    fleet = make_fleet(connection)

    def load(header: str, row: str) -> ImportReport:
        return store_deal_rows(connection, fleet.company_id, csv_file(header, row), now=now)

    assert counts(load("station_id,discount_per_gallon,valid_to", "S1,0.25,2026-12-31")) == (1, 0, 0)
    swapped = load("station_id,net_price", "S1,3.10")
    assert (counts(swapped), swapped.removed) == ((0, 1, 0), {})

    query = "SELECT discount_per_gallon, net_price, valid_to FROM deals WHERE company_id = %s"
    assert [tuple(row) for row in named(connection).execute(query, (fleet.company_id,)).fetchall()] == [
        (None, 3.1, date(2026, 12, 31))
    ]
    endless = load("station_id,net_price,valid_to", "S1,3.10,")
    assert (counts(endless), endless.removed) == ((0, 1, 0), {"valid_to": 1})
    assert [row.valid_to for row in named(connection).execute(query, (fleet.company_id,)).fetchall()] == [None]


def test_deals_are_upserted_by_station_or_brand(database: Database, csv_file: CsvFile, now: datetime) -> None:
    with database.transaction() as connection:
        fleet, other = make_fleet(connection), make_fleet(connection)

    def load(company: Fleet, *rows: str) -> ImportReport:
        with database.transaction() as connection:
            path = csv_file("station_id,brand,discount_per_gallon,net_price", *rows)
            return store_deal_rows(connection, company.company_id, path, now=now)

    assert counts(load(fleet, "S1,,0.25,", "S2,,,3.10", ",Pilot,0.40,")) == (3, 0, 0)
    assert counts(load(fleet, "S1,,0.25,", "S2,,0.30,", ",Pilot,,3.20")) == (0, 2, 1)
    assert counts(load(other, "S1,,0.10,")) == (1, 0, 0)

    report = load(fleet, "S1,Pilot,0.1,", ",,0.1,", "S1,,,", "S1,,0.1,3.0", "S1,,-0.1,", "S3,,0.1,", "S3,,0.2,")
    assert counts(report) == (1, 0, 0)
    assert set(rejected(report)) == {2, 3, 4, 5, 6, 8}

    with database.transaction() as connection:
        rows = (
            named(connection)
            .execute(
                "SELECT station_id, brand, discount_per_gallon, net_price FROM deals WHERE company_id = %s"
                " ORDER BY station_id, brand",
                (fleet.company_id,),
            )
            .fetchall()
        )
    assert [tuple(row) for row in rows] == [
        ("S1", None, 0.25, None),
        ("S2", None, 0.3, None),
        ("S3", None, 0.1, None),
        (None, "Pilot", None, 3.2),
    ]


def test_two_imports_of_prices_at_once_wait_for_one_another(
    database: Database, csv_file: CsvFile, now: datetime
) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
    path = csv_file("brand,net_price", *(f"brand {number},3.1" for number in range(50)))

    def one(_: int) -> tuple[int, int, int]:
        with database.transaction() as connection:
            return counts(store_deal_rows(connection, fleet.company_id, path, now=now))

    with ThreadPoolExecutor(3) as threads:
        assert sorted(threads.map(one, range(3))) == [(0, 0, 50), (0, 0, 50), (50, 0, 0)]


DEALS = "brand,net_price"


def deal(brand: str) -> DealRow:
    return DealRow(brand=brand, net_price=3.1)


def edited(database: Database, company_id: UUID, brand: str, now: datetime) -> int | None:
    """An edit of a person, who does not wait: another change that holds the lock is refused within a second."""
    with database.transaction(limits=SERVING) as connection:
        return store_deal(connection, company_id, None, deal(brand), DOT, now=now)


@pytest.mark.parametrize("kind", ["stations", "deals", "taxes", "price file"])
def test_while_a_file_is_read_others_change_prices(
    database: Database, csv_file: CsvFile, now: datetime, kind: str
) -> None:
    with database.transaction() as connection:
        mine, other = make_fleet(connection), make_fleet(connection)
    edits: list[int | None] = []

    def read_on(_: int) -> None:
        edits.append(edited(database, other.company_id, f"while {len(edits)} {kind}", now))

    with database.transaction() as connection:
        if kind == "stations":
            path = csv_file(HEADER, f"{uuid4().hex},A,,,,,41.6,-87.3,,")
            store_station_rows(connection, path, now=now, progress=read_on)
        elif kind == "deals":
            store_deal_rows(connection, mine.company_id, csv_file(DEALS, "A,3", "B,3"), now=now, progress=read_on)
        elif kind == "taxes":
            store_tax_rows(
                connection, csv_file("state,rate_per_gallon,valid_from", "OH,0.4,2020-01-01"), now=now, progress=read_on
            )
        else:
            store_price_file(
                connection,
                mine.company_id,
                csv_file("Station Id,Net Price", "nowhere,3.1"),
                BUILT_IN["generic"],
                takes_retail=True,
                limits=OutlierLimits(),
                now=now,
                progress=read_on,
            )
        raise Rollback  # others have no use for it

    assert edits, "the edits were made while the rows were read"


def test_a_file_is_judged_once_more_when_prices_have_changed_meanwhile(
    database: Database, csv_file: CsvFile, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are judged without holding up others; then the same file came from somebody else."""
    unique = uuid4().hex
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        connection.execute(
            "INSERT INTO stations (station_id, name, latitude, longitude) VALUES (%s, 'A', 41, -87)", (unique,)
        )
    path = csv_file("Station Id,Net Price", f"{unique},3.499")

    def store() -> ImportReport:
        with database.transaction() as connection:
            return store_price_file(
                connection,
                fleet.company_id,
                path,
                BUILT_IN["generic"],
                takes_retail=False,
                limits=OutlierLimits(),
                now=now,
            )

    others = list[ImportReport]()

    def other_comes_first(connection: Connection, company_id: UUID | None) -> None:
        monkeypatch.setattr(price_files, "lock_prices", lock_prices)
        others.append(store())
        lock_prices(connection, company_id)

    monkeypatch.setattr(price_files, "lock_prices", other_comes_first)
    report = store()

    assert (others[0].created, others[0].unchanged) == (1, 0)
    assert (report.created, report.unchanged, report.rejected) == (0, 1, [])


def test_a_company_s_import_that_is_being_stored_holds_up_nobody_else_s_deals(
    database: Database, csv_file: CsvFile, now: datetime
) -> None:
    with database.transaction() as connection:
        mine, other = make_fleet(connection), make_fleet(connection)

    with database.transaction() as storing:
        store_deal_rows(storing, mine.company_id, csv_file(DEALS, "A,3"), now=now)
        assert edited(database, other.company_id, "another company's", now) is not None
        with pytest.raises(LockNotAvailable):
            edited(database, mine.company_id, "its own", now)
        with pytest.raises(LockNotAvailable), database.transaction(limits=SERVING) as connection:
            begin_price_set(connection, "stations", None, now=now)

    assert edited(database, mine.company_id, "its own", now) is not None


def test_the_newest_price_set_of_each_kind_is_kept(connection: Connection, now: datetime) -> None:
    """Sets that wait for reviews stay, too. Each plan looks for the newest set that its company sees; on the way it
    would read those of all other companies, of years."""
    mine, other = make_fleet(connection).company_id, make_fleet(connection).company_id
    kinds = (("stations", None), ("taxes", None), ("deals", mine), ("deals", other), ("deals", mine))
    ((before,),) = connection.execute("SELECT coalesce(max(id), 0) FROM price_sets").fetchall()
    for kind, company_id in kinds:
        begin_price_set(connection, kind, company_id, now=now)
    seen = "SELECT kind, company_id FROM price_sets WHERE id > %s ORDER BY id"
    assert connection.execute(seen, (before,)).fetchall() == list(kinds), "all wait for reviews"

    take_price_changes(connection, None)
    begin_price_set(connection, "deals", mine, now=now)
    begin_price_set(connection, "stations", None, now=now)

    kept = [("taxes", None), ("deals", other), ("deals", mine), ("stations", None)]
    assert connection.execute(seen, (before,)).fetchall() == kept


def test_a_company_has_so_many_deals_at_most(
    database: Database, csv_file: CsvFile, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deals, "get_settings", lambda: Settings(deals_per_company=3))
    rows: list[int] = []
    with database.transaction() as connection:
        mine, other = make_fleet(connection), make_fleet(connection)
    long = csv_file(DEALS, *(f"{number},3" for number in range(50)))
    with pytest.raises(TooManyDeals, match="a company has 3 deals at most"), database.transaction() as connection:
        store_deal_rows(connection, mine.company_id, long, now=now, progress=rows.append)
    assert len(rows) == 4, "the rest of the file is not even read"

    with database.transaction() as connection:
        store_deal_rows(connection, mine.company_id, csv_file(DEALS, "A,3", "B,3"), now=now)
    with pytest.raises(TooManyDeals), database.transaction() as connection:
        store_deal_rows(connection, mine.company_id, csv_file(DEALS, "B,4", "C,3", "D,3"), now=now)
    with database.transaction() as connection:
        report = store_deal_rows(connection, mine.company_id, csv_file(DEALS, "A,4", "B,4", "C,3"), now=now)
    assert counts(report) == (1, 2, 0)
    with pytest.raises(TooManyDeals):
        edited(database, mine.company_id, "D", now)
    assert edited(database, other.company_id, "D", now) == 1


def test_deals_are_numbered_within_their_company(database: Database, csv_file: CsvFile, now: datetime) -> None:
    with database.transaction() as connection:
        mine, other = make_fleet(connection), make_fleet(connection)
        store_deal_rows(connection, other.company_id, csv_file(DEALS, *(f"{one},3" for one in range(20))), now=now)
        store_deal_rows(connection, mine.company_id, csv_file(DEALS, "A,3", "B,3"), now=now)
        store_deal_rows(connection, mine.company_id, csv_file(DEALS, "A,4", "B,3", "C,3"), now=now)
        assert store_deal(connection, mine.company_id, None, deal("D"), DOT, now=now) == 4
        stored = list(DEALS_LISTED.all(connection, {"company_id": mine.company_id}))
        assert store_deal(connection, mine.company_id, 3, deal("E"), DOT, now=now) == 3
        assert not delete_deal(connection, mine.company_id, 20, DOT, now=now)
        assert delete_deal(connection, mine.company_id, 4, DOT, now=now)

    assert sorted(one.id for one in stored) == [1, 2, 3, 4]
    assert {one.brand: one.id for one in stored}["C"] == 3


def test_a_deal_of_an_earlier_release_keeps_its_id_as_number(connection: Connection, fleet: Fleet) -> None:
    (row,) = named(connection).execute(
        "INSERT INTO deals (company_id, brand, net_price) VALUES (%s, 'A', 3) RETURNING id", (fleet.company_id,)
    )
    now = datetime.now(UTC)

    found = DEALS_LISTED.read(connection, {"company_id": fleet.company_id}, id=row.id)
    assert found is not None
    assert found.brand == "A"
    assert store_deal(connection, fleet.company_id, row.id, deal("B"), DOT, now=now) == row.id
    assert store_deal(connection, fleet.company_id, None, deal("C"), DOT, now=now) == row.id + 1


def processor_seconds(connection: Connection) -> float:
    """Processor time of this process, and of its session in PostgreSQL."""
    used = Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return time.process_time() + sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def test_twenty_thousand_deals_come_again_within_seconds(database: Database, csv_file: CsvFile, now: datetime) -> None:
    """PostgreSQL compared each row of the file with each deal: more than a minute of its processor."""
    path = csv_file(DEALS, *(f"brand {number},3.1" for number in range(20_000)))
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        store_deal_rows(connection, fleet.company_id, path, now=now)
    with database.transaction() as connection:
        started = processor_seconds(connection)
        assert counts(store_deal_rows(connection, fleet.company_id, path, now=now)) == (0, 0, 20_000)
        assert processor_seconds(connection) - started < 20


def test_a_deal_may_have_days_and_several_periods(connection: Connection, fleet: Fleet, csv_file: CsvFile) -> None:
    header = "station_id,brand,discount_per_gallon,net_price,valid_from,valid_to"
    rows = ("S1,,0.25,,2026-01-01,2026-06-30", "S1,,0.30,,2026-07-01,", "S1,,0.10,,,")

    def load(*rows: str) -> ImportReport:
        return store_deal_rows(connection, fleet.company_id, csv_file(header, *rows), now=datetime.now(UTC))

    assert counts(load(*rows)) == (3, 0, 0)
    assert counts(load(*rows)) == (0, 0, 3)
    assert counts(load("S1,,0.30,,2026-07-01,2026-12-31")) == (0, 1, 0)

    report = load("S1,,0.1,,2026-02-01,2026-01-31", "S2,,0.1,,tomorrow,", "S3,,0.1,,2026-02-01,", rows[1], rows[1])
    assert counts(report) == (1, 1, 0)
    assert set(rejected(report)) == {2, 3, 6}
    assert "valid_to is before valid_from" in rejected(report)[2]
    assert "valid_from" in rejected(report)[3]
    assert rejected(report)[6] == "station_id 'S1', valid_from '2026-07-01' is already on line 5"


def test_days_and_amounts_may_be_written_as_a_spreadsheet_does(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    """An exported file that Excel has saved as CSV again: each of its rows was refused for its days."""
    header = "station_id,discount_per_gallon,net_price,valid_from,valid_to"

    def load(*rows: str) -> ImportReport:
        return store_deal_rows(connection, fleet.company_id, csv_file(header, *rows), now=datetime.now(UTC))

    assert counts(load("S1,0.25,,2026-01-01,2026-06-30", "S2,,3.389,2026-07-04,")) == (2, 0, 0)
    assert counts(load("S1, $0.25 , $-   ,1/1/2026,6/30/26", "S2,-,$3.389 ,46207,")) == (0, 0, 2)
    assert rejected(load("S1,CA$0.25,,1/1/2026,", 'S2,,"3,389",7/4/2026,')) == {
        2: "discount_per_gallon: Expected a number",
        3: "net_price: Expected a number < 100.0",
    }
    with pytest.raises(UnreadableFile, match="valid_from and valid_to: '20/11/2026' has the day before the month"):
        load("S1,0.25,,05/11/2026,", "S2,,3.389,20/11/2026,")
    with pytest.raises(UnreadableFile, match="'31/12/2026' has the day before the month, and '01/10/2026' would be"):
        load("S1,0.25,,01/10/2026,", "S2,,3.389,01/10/2026,31/12/2026")  # else S1 holds from January on


def test_taxes_are_upserted_by_state_and_first_day(connection: Connection, csv_file: CsvFile, now: datetime) -> None:
    connection.execute("DELETE FROM fuel_taxes")

    def load(*rows: str, header: str = "state,rate_per_gallon,valid_from") -> ImportReport:
        return store_tax_rows(connection, csv_file(header, *rows), now=now)

    assert counts(load("IL,0.738,2026-01-01", "IN,0.59,2026-01-01", "IL,0.744,2026-07-01")) == (3, 0, 0)
    assert counts(load("IL,0.738,2026-01-01", "IN,0.61,2026-01-01")) == (0, 1, 1)

    report = load("Illinois,0.7,2026-01-01", "OH,-0.1,2026-01-01", "OH,0.47,", "OH,,2026-01-01", "PA,0,2026-01-01")
    assert counts(report) == (1, 0, 0)
    assert set(rejected(report)) == {2, 3, 4, 5}
    assert list(rejected(load("NM,2.1,2026-01-01"))) == [2], "a slip of the decimal point"

    with_surcharge = "state,rate_per_gallon,surcharge_per_gallon,valid_from"
    report = load("VA,0.32,0.14,2026-01-01", "PA,0,,2026-01-01", "KY,0.23,-0.1,2026-01-01", header=with_surcharge)
    assert counts(report) == (1, 0, 1)
    assert set(rejected(report)) == {4}
    assert counts(load("VA,0.32,0.15,2026-01-01", header=with_surcharge)) == (0, 1, 0)
    rows = named(connection).execute("SELECT * FROM fuel_taxes WHERE state IN ('PA', 'VA') ORDER BY state").fetchall()
    assert [(row.rate_per_gallon, row.surcharge_per_gallon) for row in rows] == [(0, 0), (0.32, 0.15)]

    assert counts(load("VA,0.33,2026-01-01", "MD,0.4,2026-01-01")) == (1, 1, 0)
    rows = named(connection).execute("SELECT * FROM fuel_taxes WHERE state IN ('MD', 'VA') ORDER BY state").fetchall()
    assert [(row.rate_per_gallon, row.surcharge_per_gallon) for row in rows] == [(0.4, 0), (0.33, 0.15)]

    assert counts(load("VA,0.34,2026-04-01", "VA,0.31,2025-10-01", "MD,0.41,2026-04-01")) == (3, 0, 0)
    rows = named(connection).execute("SELECT * FROM fuel_taxes WHERE state = 'VA' ORDER BY valid_from").fetchall()
    assert [row.surcharge_per_gallon for row in rows] == [0, 0.15, 0.15], "the surcharge of the day before goes on"


def test_readers_see_all_of_an_import_or_nothing(
    database: Database, stations_of: Callable[..., ImportReport], csv_file: CsvFile, now: datetime
) -> None:
    row = "{},A,Pilot,,Gary,IN,41.6,-87.3,3.899,"
    stations_of(row)

    with database.transaction() as writing:
        path = csv_file(HEADER, row.replace("{}", stations_of.unique).replace("3.899", "3.1"))  # type: ignore[attr-defined]
        store_station_rows(writing, path, now=now)
        assert station(database, stations_of).retail_price == 3.899

    assert station(database, stations_of).retail_price == 3.1


def test_a_hundred_thousand_stations_take_seconds(
    connection: Connection, csv_file: CsvFile, now: datetime, record_property: Callable[[str, object], None]
) -> None:
    unique = uuid4().hex
    path = csv_file(
        HEADER,
        *(
            f"{unique}-{number},Stop {number},Pilot,1 Exit Rd,Gary,IN,{25 + number % 2000 / 100},"
            f"{-120 + number % 500 / 10},{3 + number % 100 / 100},"
            for number in range(100_000)
        ),
        "bad,row",
    )
    seen: list[int] = []

    started = processor_seconds(connection)
    report = store_station_rows(connection, path, now=now, progress=seen.append)
    seconds = processor_seconds(connection) - started

    record_property("seconds", seconds)
    assert counts(report) == (100_000, 0, 0)
    assert set(rejected(report)) == {100_002}
    assert sum(seen) == 100_001
    assert seconds < 60  # about 2 s on an idle machine; this machine may be busy
