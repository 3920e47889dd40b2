"""Price files of vendors: which prices they give, and which wait for a time or for a person."""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.database.connections import Connection
from domain.files.csvfiles import UnreadableFile
from domain.files.profiles import Column, FileProfile
from domain.stations.held_prices import (
    NeedsOperator,
    NeedsStation,
    UnknownHeldPrice,
    accept_price,
    held_prices,
    refuse_price,
)
from domain.stations.stored_prices import apply_coming_prices
from tests.domain.stations.price_lists import (
    LOVES,
    OPIS,
    Import,
    add_station,
    loves_row,
    offered,
    reasons,
    stations,
)
from tests.factories import DOT, Fleet, make_fleet
from tests.repeatable import examples

pytestmark = pytest.mark.usefixtures("no_stations")


def test_a_file_of_loves_gives_a_station_its_retail_price_and_the_companys_net_price(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    report = imported(loves_row())

    assert (report.created, report.held, report.rejected) == (1, 0, [])
    assert stations(connection) == {"loves-305": 3.999}
    assert offered(connection, fleet, now) == {"loves-305": 3.499}
    assert offered(connection, make_fleet(connection), now) == {"loves-305": 3.999}


def test_a_file_of_a_companys_own_changes_no_retail_price_and_adds_no_station(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    add_station(connection, "ours", price=4.0, at=now)

    report = imported(loves_row(), loves_row("306", card="LV306", place=(41.7, -86.5)), retail=False)

    assert stations(connection) == {"ours": 4.0}
    assert offered(connection, fleet, now) == {"ours": 3.499}
    assert [row.line for row in report.rejected] == [3]


def test_all_codes_of_a_row_lead_to_the_station_at_its_place(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    add_station(connection, "ours")
    add_station(connection, "beside", brand="Pilot")
    imported(loves_row())
    by_card = FileProfile("card", "prices", {"card_code": Column(("Site",)), "net_price": Column(("Price",))})

    report = imported("lv305,3.6", header="Site,Price", profile=by_card, at=now + timedelta(hours=1))

    assert report.rejected == []
    assert stations(connection) == {"beside": None, "ours": 3.999}
    assert offered(connection, fleet, now + timedelta(hours=1)) == {"ours": 3.6}


def test_prices_of_tomorrow_wait_for_their_time(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    imported(loves_row())
    tomorrow = now + timedelta(days=1)

    imported(loves_row(retail="4.099", net="3.599", at=tomorrow.isoformat()))

    assert (apply_coming_prices(connection, now=now), stations(connection)) == (0, {"loves-305": 3.999})
    assert offered(connection, fleet, now) == {"loves-305": 3.499}
    assert (apply_coming_prices(connection, now=tomorrow), stations(connection)) == (1, {"loves-305": 4.099})
    assert offered(connection, fleet, tomorrow) == {"loves-305": 3.599}
    assert offered(connection, make_fleet(connection), tomorrow) == {"loves-305": 4.099}


def test_a_net_price_counts_for_seven_days(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    imported(loves_row(retail="0"))

    assert offered(connection, fleet, now + timedelta(days=7)) == {"loves-305": 3.499}
    assert offered(connection, fleet, now + timedelta(days=7, seconds=1)) == {}


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (loves_row(retail="", net=""), "it has no price"),
        (loves_row(net="349.9"), "is it in cents?"),
        (loves_row(net="-3.5"), "no price of a gallon"),
        (loves_row(at="2020-01-01"), "prices count for 7 days"),
        (loves_row(at="2090-01-01"), "more than 60 days ahead"),
        (loves_row(place=(0, 0)), "no station is known as 305, Love's, Elkhart, IN"),
    ],
    ids=["none", "cents", "negative", "old", "far", "nowhere"],
)
def test_a_row_that_cannot_be_right_is_refused(connection: Connection, imported: Import, row: str, fault: str) -> None:
    report = imported(row)

    assert [(one.line, fault in one.message) for one in report.rejected] == [(2, True)]
    assert stations(connection) == {}


def test_a_station_that_comes_twice_counts_once(connection: Connection, fleet: Fleet, imported: Import) -> None:
    report = imported(loves_row(), loves_row(net="3.399"))

    assert "is already on line 2" in report.rejected[0].message


def test_a_leap_is_held_and_used_only_once_it_is_accepted(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    imported(loves_row())
    later = now + timedelta(hours=1)

    report = imported(loves_row(net="2.499", at=later.isoformat()), at=later)

    assert report.held == 1
    assert offered(connection, fleet, later) == {"loves-305": 3.499}
    (held,) = held_prices(connection, fleet.company_id)
    assert held.reason == "2.499 is 29 % less than the price before, 3.499"
    accept_price(connection, fleet.company_id, held.id, DOT, may_change_retail=False, now=later)
    assert offered(connection, fleet, later) == {"loves-305": 2.499}
    with pytest.raises(UnknownHeldPrice):
        refuse_price(connection, fleet.company_id, held.id, DOT, now=later)


def test_a_refused_price_is_not_held_again(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    imported(loves_row())
    row, later = loves_row(net="2.499", at=now.isoformat()), now + timedelta(hours=1)
    imported(row, at=later)
    refuse_price(connection, fleet.company_id, held_prices(connection, fleet.company_id)[0].id, DOT, now=later)

    report = imported(row, at=later)

    assert (report.held, report.unchanged, reasons(connection, fleet)) == (0, 1, [])
    assert offered(connection, fleet, later) == {"loves-305": 3.499}


def test_prices_unlike_those_of_neighbors_or_of_the_state_or_of_retail_are_held(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    for number in range(5):
        add_station(connection, f"near {number}", (41.6 + number / 100, -85.9), "Pilot", price=4.0, at=now)
    for number in range(5):
        add_station(connection, f"far {number}", (39 + number / 10, -87.0), "Pilot", price=4.0, at=now)

    imported(
        loves_row("1", retail="5.2", net="", card="", place=(41.7, -85.7)),
        loves_row("2", retail="5.5", net="", card="", place=(38.1, -86.1)),
        loves_row("3", retail="4.0", net="2.0", card="", place=(38.6, -86.1)),
    )

    assert reasons(connection, fleet) == [
        "5.200 is 30 % more than the usual price of 6 stations near it, 4.000",
        "5.500 is 38 % more than the usual price of 13 stations in IN, 4.000",
        "2.000 is 50 % less than the retail price, 4.000",
    ]
    assert stations(connection)["loves-1"] is None


@pytest.mark.parametrize("known", ["its own", "its neighbors'"])
@pytest.mark.parametrize("takes_retail", [True, False])
def test_a_net_price_beside_a_doubtful_retail_price_is_compared_with_the_known_one(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime, known: str, takes_retail: bool
) -> None:
    for number in range(5):
        add_station(connection, f"near {number}", (41.6 + number / 100, -85.9), "Pilot", price=4.0, at=now)
    add_station(connection, "ours", price=4.0 if known == "its own" else None, at=now)

    report = imported(loves_row(retail="2.2", net="1.9"), retail=takes_retail)

    assert "1.900 is 52 % less than the retail price, 4.000" in reasons(connection, fleet)
    assert report.held == len(reasons(connection, fleet)) == (2 if takes_retail else 1)
    assert offered(connection, fleet, now).get("ours") == (4.0 if known == "its own" else None)
    imported(loves_row(retail="5.9", net="3.9", at=now.isoformat()), retail=takes_retail)
    assert offered(connection, fleet, now)["ours"] == 3.9


def test_only_an_operator_accepts_a_retail_price(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    imported(loves_row())
    imported(loves_row(retail="6.999", net="", at=now.isoformat()))
    (held,) = held_prices(connection, fleet.company_id)

    with pytest.raises(NeedsOperator):
        accept_price(connection, fleet.company_id, held.id, DOT, may_change_retail=False, now=now)
    with pytest.raises(UnknownHeldPrice):
        accept_price(connection, make_fleet(connection).company_id, held.id, DOT, may_change_retail=True, now=now)
    accept_price(connection, fleet.company_id, held.id, DOT, may_change_retail=True, now=now)
    assert stations(connection) == {"loves-305": 6.999}


def test_a_file_without_places_is_matched_by_exit_and_town_and_then_by_its_code(
    connection: Connection, imported: Import, now: datetime
) -> None:
    add_station(connection, "a", address="I-80, Exit 92")
    add_station(connection, "b", address="I-80, Exit 101")

    report = imported('7,LOVES #305,"I-80/90, EXIT 92 & SR-19",Elkhart,IN,301,3.89', header=OPIS, profile="opis")
    imported("7,,,,,301,3.95", header=OPIS, profile="opis", at=now + timedelta(hours=1))

    assert (report.rejected, report.held) == ([], 0)
    assert stations(connection) == {"a": 3.95, "b": None}


def test_where_only_the_town_matches_a_person_says_which_station_is_meant(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    add_station(connection, "b", address="I-80, Exit 101")
    add_station(connection, "a", address="I-80, Exit 92")
    row = '7,LOVES #305,"SR-19",Elkhart,IN,301,3.89'

    report = imported(row, "8,PILOT,SR-1,Nowhere,IN,301,3.9", header=OPIS, profile="opis")

    (held,) = held_prices(connection, fleet.company_id)
    assert (held.candidates, held.reason, report.held) == (["a", "b"], "its town matches, but not its exit", 1)
    assert [one.line for one in report.rejected] == [3]
    with pytest.raises(NeedsStation):
        accept_price(connection, fleet.company_id, held.id, DOT, may_change_retail=True, now=now)
    accept_price(connection, fleet.company_id, held.id, DOT, station_id="b", may_change_retail=True, now=now)
    assert stations(connection) == {"a": None, "b": 3.89}
    imported(row.replace("3.89", "3.91"), header=OPIS, profile="opis", at=now + timedelta(hours=1))
    assert stations(connection) == {"a": None, "b": 3.91}


def test_a_file_that_is_misread_as_a_whole_is_refused_as_a_whole(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    rows = [loves_row(str(number), place=(30 + number / 100, -90.0), card="") for number in range(1_001)]
    imported(*rows)

    with pytest.raises(UnreadableFile, match="1,001 prices are unlike those before"):
        imported(*(row.replace("3.499,0.60", "1.499,0.60") for row in rows), at=now + timedelta(minutes=1))
    assert held_prices(connection, fleet.company_id) == []


def test_a_file_of_doubts_is_not_read_to_its_end(connection: Connection, imported: Import) -> None:
    add_station(connection, "loves-305", price=3.95)
    rows = [f"{loves_row()},?"] * 2_000

    with pytest.raises(UnreadableFile, match=r"^1,\d+ prices are unlike those before"):
        imported(*rows, header=f"{LOVES},Product")


def test_a_file_with_retail_prices_only_is_an_operators(imported: Import) -> None:
    with pytest.raises(UnreadableFile, match="an operator imports it"):
        imported("7,A,B,C,IN,301,3.95", header=OPIS, profile="opis", retail=False)


FILES = st.lists(
    st.tuples(st.integers(-100, 30), st.sampled_from([3.2, 3.4, 3.6])),
    min_size=1,
    max_size=6,
    unique_by=lambda it: it[0],
)


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, st.randoms(use_true_random=False))
def test_an_older_file_never_overwrites_newer_prices_in_whatever_order_files_come(
    connection: Connection,
    fleet: Fleet,
    imported: Import,
    now: datetime,
    files: list[tuple[int, float]],
    random: object,
) -> None:
    """The prices afterwards are those of the newest file that holds, however often and in whatever order they come."""
    store = uuid4().hex[:8]
    place = (41.735, -85.97)
    connection.execute("DELETE FROM stations")
    connection.execute("DELETE FROM station_codes")
    connection.execute("DELETE FROM coming_prices")
    connection.execute("DELETE FROM quotes")
    shuffled = [*files, *files]
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    for hours, price in shuffled:
        at = (now + timedelta(hours=hours)).isoformat()
        imported(loves_row(store, str(price + 0.4), str(price), at, place, card=""))
    apply_coming_prices(connection, now=now)

    due = [file for file in files if file[0] <= 0]
    expected = max(due)[1] if due else None
    assert stations(connection)[f"loves-{store.upper().lstrip('0')}"] == (expected and round(expected + 0.4, 6))
    assert list(offered(connection, fleet, now).values()) == ([expected] if due else [])


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0.5, 25).map(lambda price: round(price, 3)))
def test_a_held_price_is_never_used(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime, price: float
) -> None:
    connection.execute("DELETE FROM quotes")
    connection.execute("DELETE FROM held_prices")
    imported(loves_row(retail=""))

    report = imported(loves_row(retail="", net=str(price)), at=now + timedelta(seconds=1))

    seen = offered(connection, fleet, now + timedelta(seconds=1))["loves-305"]
    assert seen == (3.499 if report.held else price)
    assert report.held == (abs(price - 3.499) / 3.499 > 0.2)


def test_the_same_file_twice_changes_nothing(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    rows = [
        loves_row(at=now.isoformat()),
        loves_row(at=(now + timedelta(hours=5)).isoformat()),
        loves_row("306", "9.9", "9.0", now.isoformat(), (41.74, -86.4), "LV306"),
    ]
    imported(*rows)

    def everything() -> list[list[tuple[object, ...]]]:
        tables = ("stations", "quotes", "coming_prices", "held_prices", "station_codes")
        return [connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall() for table in tables]

    before = everything()
    report = imported(*rows, at=now + timedelta(minutes=1))

    assert (report.created, report.updated, everything() == before) == (0, 0, True)
