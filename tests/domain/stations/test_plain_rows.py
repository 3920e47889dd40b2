"""Plain rows of a price file are read by columns, and equal cells lead to one station at once: nothing else changes."""

import tracemalloc
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from domain.database.connections import Connection
from domain.stations import file_prices, station_finding
from domain.stations.file_prices import FilePrices
from domain.stations.station_codes import RowPlace
from domain.stations.station_finding import CodedStation, StationFinder
from tests.domain.stations.price_lists import ELKHART, Import, add_station
from tests.factories import Fleet
from tests.repeatable import examples

HEADER = (
    "Loves Store No.,Billing Card Station Code,City,State,Retail Price,Best Discounted Price,Effective Date,"
    "Product,Latitude,Longitude,Currency,Unit"
)
FAR = (41.08, -85.13)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["305", "305", "0305", "411", "77", ""]),
        st.sampled_from(["", "", "LV305", "LV411"]),
        st.sampled_from(["Elkhart", "Fort Wayne"]),
        st.sampled_from(["IN", "IN", "in", ""]),
        st.sampled_from(["3.999", "3.899", "", "0", "349.9", "9.5", "?"]),
        st.sampled_from(["3.499", "3.499", "3.399", "", "4.9", "45"]),
        st.sampled_from([0, 0, 1, 30]),
        st.sampled_from(["Diesel", "Diesel", "#1 Diesel", "DEF", "?", ""]),
        st.sampled_from([f"{ELKHART[0]},{ELKHART[1]}", f"{FAR[0]},{FAR[1]}", ","]),
    ),
    min_size=1,
    max_size=12,
)
UNPLACED = ("305", "", "", "", "3.999", "3.499", 0, "Diesel", ",")
ELSEWHERE = ("305", "", "Fort Wayne", "IN", "3.999", "3.499", 0, "Diesel", f"{FAR[0]},{FAR[1]}")


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS)
@example([UNPLACED, ELSEWHERE, (*UNPLACED[:6], 1, *UNPLACED[7:])]).via("a code that gets another station")
def test_rows_that_are_read_together_mean_what_each_means_by_itself(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime, rows: Sequence[tuple[Any, ...]]
) -> None:
    """A row that says its money is read by itself. The seventh cell is the age of the price in days."""
    told: list[Any] = []
    lines = [",".join([*row[:6], (now - timedelta(days=row[6])).isoformat(), *row[7:]]) for row in rows]
    for money in (",", "USD,gallon"):
        with connection.transaction(force_rollback=True):
            connection.execute("DELETE FROM stations")
            add_station(connection, "loves-305", price=3.95)
            add_station(connection, "fort-wayne", FAR, city="Fort Wayne")
            report = imported(*(f"{line},{money}" for line in lines), header=HEADER)
            told.append((report.as_json(), *stored(connection, fleet)))

    assert told[0] == told[1]


def stored(connection: Connection, fleet: Fleet) -> list[list[tuple[Any, ...]]]:
    of_company = (fleet.company_id,)
    return [
        connection.execute("SELECT station_id, retail_price, priced_at FROM stations ORDER BY 1").fetchall(),
        connection.execute(
            "SELECT station_id, effective_at, net_price FROM quotes WHERE company_id = %s ORDER BY 1, 2", of_company
        ).fetchall(),
        connection.execute(
            "SELECT kind, station_id, code, place, price, effective_at, reason FROM held_prices WHERE company_id = %s"
            " ORDER BY id",
            of_company,
        ).fetchall(),
        connection.execute(
            "SELECT code_set, code, station_id FROM station_codes WHERE company_id = %s ORDER BY 1, 2", of_company
        ).fetchall(),
    ]


@pytest.mark.parametrize(("retail", "net"), [("", "30"), ("30", ""), ("349.9", "3.499"), ("3.999", "30")])
def test_prices_of_thirty_dollars_or_more_are_refused(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime, retail: str, net: str
) -> None:
    """They are in cents, or of something else."""
    add_station(connection, "loves-305", price=3.95)
    report = imported(f"305,,Elkhart,IN,{retail},{net},{now.isoformat()},Diesel,,,,", header=HEADER)

    assert [row.message.partition(" is ")[2] for row in report.rejected] == [
        "no price of a gallon in dollars: is it in cents? A profile says which unit a column has"
    ]
    assert (report.created, report.held) == (0, 0)


def test_a_further_row_of_a_station_takes_forty_bytes() -> None:
    prices = FilePrices(takes_retail=True)
    station = CodedStation("loves-305", "Love's 305", "Love's", None, "Elkhart", "IN", *ELKHART, None, None)
    site = prices.site(station, RowPlace("305", "", "", "Love's", "", "Elkhart", "IN", *ELKHART))
    moment = datetime(2026, 11, 26, tzinfo=UTC)
    prices.add(1, site, moment, "", 3.5, 4.0)

    tracemalloc.start()
    for line in range(2, 10_002):
        prices.add(line, site, moment, "", 3.5, 4.0)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert grown < 10_000 * 40


def elkhart(code: str, address: str) -> RowPlace:
    return RowPlace(code, "", "", "Love's", address, "Elkhart", "IN", *ELKHART)


def test_the_words_of_ever_new_rows_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit a row is shown in the words of an earlier one with its code."""
    monkeypatch.setattr(file_prices, "_MOST_PLACES", 2)
    prices = FilePrices(takes_retail=True)
    station = CodedStation("loves-305", "Love's 305", "Love's", None, "Elkhart", "IN", *ELKHART, None, None)

    sites = [prices.site(station, elkhart("305", f"Pump {number}")) for number in range(9)]
    other_code = prices.site(station, elkhart("0305", "Pump 9"))
    without_code = [prices.site(station, elkhart("", f"Pump {number}")) for number in range(2)]

    assert sites == [0, *[1] * 8]
    assert [other_code, *without_code] == [2, 3, 4], "a held price is known by these"


def test_a_file_whose_rows_are_all_different_fills_no_memory(
    connection: Connection, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(station_finding, "_MOST_SITES", 3)
    finder = StationFinder(connection, fleet.company_id, "loves")

    assert [finder.note_site(("305", number), number) for number in range(10)] == list(range(10))
    assert len(finder.sites) <= 3
