"""The station that a row of a price file means: never one of another brand, whatever its code or place says."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.database.connections import Connection
from domain.files.profiles import Column, FileProfile
from domain.stations.chains import BrandMatch, brand_match, brand_of, store_number
from domain.stations.held_prices import accept_price, held_prices
from domain.stations.station_codes import keep_codes, plain_code
from domain.stations.stations import set_stations_retired
from tests.domain.stations.price_lists import OPIS, Import, add_station, loves_row, reasons, stations
from tests.factories import DOT, Fleet
from tests.rows import named

BESIDE = (41.7365, -85.971)
"""Some 200 m from the Love's of the file."""

pytestmark = pytest.mark.usefixtures("no_stations")


def named_station(
    connection: Connection,
    station_id: str,
    name: str,
    brand: str | None = None,
    city: str = "Elkhart",
    state: str = "IN",
    place: tuple[float, float] = BESIDE,
) -> None:
    connection.execute(
        "INSERT INTO stations (station_id, name, brand, city, state, latitude, longitude)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s)",
        (station_id, name, brand, city, state, *place),
    )


def code_of(connection: Connection, fleet: Fleet, code: str, code_set: str = "loves") -> str | None:
    row = (
        named(connection)
        .execute(
            "SELECT station_id FROM station_codes WHERE company_id = %s AND code_set = %s AND code = %s",
            (fleet.company_id, code_set, code),
        )
        .fetchone()
    )
    return row.station_id if row is not None else None


@pytest.mark.parametrize(
    ("name", "brand"),
    [
        ("Circle K #4411", "Circle K"),
        ("Casey's General Store", "Casey's"),
        ("Casey's", None),
        ("Joe's Truck Plaza", None),
        ("Maverik #512", "Maverik"),
        ("Buc-ee's", None),
        ("Elkhart Fuel", "QuikTrip"),
        ("Petro-Canada", "Petro-Canada"),
        ("Loveland Fuel Stop", "Independent"),
    ],
)
@pytest.mark.parametrize("by_operator", [True, False])
def test_a_chains_price_never_lands_on_a_station_of_another_brand(
    connection: Connection, fleet: Fleet, imported: Import, name: str, brand: str | None, by_operator: bool
) -> None:
    named_station(connection, "other", name, brand)

    report = imported(loves_row(), retail=by_operator)

    assert stations(connection) == ({"loves-305": 3.999, "other": None} if by_operator else {"other": None})
    assert code_of(connection, fleet, "305") == ("loves-305" if by_operator else None)
    assert len(report.rejected) == (0 if by_operator else 1)


def test_a_station_that_tells_no_brand_is_for_a_person(connection: Connection, fleet: Fleet, imported: Import) -> None:
    named_station(connection, "nobody", "Elkhart Truck Stop")

    report = imported(loves_row())

    assert (report.held, stations(connection)) == (2, {"nobody": None})
    assert set(reasons(connection, fleet)) == {"nothing tells the brand of the station at its place"}


def test_a_code_that_was_learnt_for_another_brand_goes_to_the_true_station_once_it_is_there(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    named_station(connection, "other", "Circle K #4411", "Circle K")
    keep_codes(connection, fleet.company_id, [("loves", "305", "other"), ("card", "LV305", "other")])

    assert imported(loves_row(), retail=False).rejected != []
    named_station(connection, "true", "Love's Travel Stop", "Love's", place=(41.735, -85.97))
    imported(loves_row())

    assert stations(connection) == {"other": None, "true": 3.999}
    assert (code_of(connection, fleet, "305"), code_of(connection, fleet, "LV305", "card")) == ("true", "true")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("TA", "KWIK STAR"), ("Love's", "PILOT"), ("Woodshed", "JOES PLAZA"), ("Petro", "PETRO CANADA")],
)
def test_another_brand_at_the_same_exit_is_another_station(
    connection: Connection, imported: Import, ours: str, theirs: str
) -> None:
    add_station(connection, "ours", brand=ours)

    report = imported(f'7,{theirs},"I-80, EXIT 92",Elkhart,IN,301,3.89', header=OPIS, profile="opis")

    assert stations(connection) == {"ours": None}
    assert "no station is known" in report.rejected[0].message


@pytest.mark.parametrize(
    ("one", "other", "like"),
    [
        ("Casey's", "CASEYS GENERAL STORE", BrandMatch.SAME),
        ("TravelCenters of America", "TA Express", BrandMatch.SAME),
        ("PFJ", "Flying J", BrandMatch.SAME),
        ("Kwik Star", "KWIK TRIP", BrandMatch.SAME),
        ("Sapp Bros.", "SAPP BROTHERS", BrandMatch.SAME),
        ("Joe's Truck Plaza", "JOES TRAVEL CENTER", BrandMatch.SAME),
        ("Joe's Truck Plaza", "Joe & Ann's Diner Plaza", BrandMatch.SAME),
        ("Big Joe's", "Big Bear", BrandMatch.OTHER),
        ("Petro-Canada", "Petro", BrandMatch.OTHER),
        ("Circle K", "Love's", BrandMatch.OTHER),
        ("Joe's Travel Center", "TA", BrandMatch.OTHER),
        ("Pilot Travel Center", "TravelCenters of America", BrandMatch.OTHER),
        ("Truck Stop", "Love's", BrandMatch.UNKNOWN),
        ("", "Love's", BrandMatch.UNKNOWN),
    ],
)
def test_brands_are_compared_by_chain_or_by_their_own_words(one: str, other: str, like: BrandMatch) -> None:
    assert (
        brand_match(brand_of(one, ""), brand_of(other, ""))
        == like
        == brand_match(brand_of(other, ""), brand_of(one, ""))
    )


NAMES = st.text(st.sampled_from("abcJO'- #12éß&"), max_size=12)


@given(NAMES, NAMES)
def test_likeness_does_not_depend_on_which_is_ours(one: str, other: str) -> None:
    assert brand_match(brand_of(one, ""), brand_of(other, "")) is brand_match(brand_of(other, ""), brand_of(one, ""))
    assert brand_match(brand_of(one, ""), brand_of(one, "")) is not BrandMatch.OTHER


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("Pilot Travel Center #075", "75"),
        ("Flying J 746", "746"),
        ("LOVES STORE 305", "305"),
        ("Plaza Exit 92", ""),
        ("Stop at I-80", ""),
        ("One9", ""),
        ("Love's 305", "305"),
        ("Pilot Travel Center 075", "75"),
        ("TA Exit 92", ""),
        ("Stop Hwy 20", ""),
        ("Stop I-80", ""),
        ("Love's #12 Exit 305", "12"),
        ("Love's Store 000", "0"),
        ("305", "305"),
        ("Stop 1234567", ""),
        ("Plaza of Elkhart", ""),
    ],
)
def test_the_number_of_a_store_stands_in_its_name(name: str, number: str) -> None:
    assert store_number(name) == number


# --- Chain, number and town --------------------------------------------------------------------------------------

PILOT = "Site,City,ST,Retail Price,Your Price"


def test_a_station_with_an_id_of_ones_own_is_known_by_chain_number_and_town(
    connection: Connection, imported: Import
) -> None:
    named_station(connection, "W-17", "Pilot Travel Center #075", "Pilot", "St. Paul", "MN")
    named_station(connection, "W-18", "Pilot Travel Center #602", "Pilot", "St. Paul", "MN")
    named_station(connection, "loves-75", "Love's #75", "Love's", "St. Paul", "MN")

    report = imported("75,Saint Paul,MN,3.999,3.499", header=PILOT, profile="pilot", retail=False)

    assert (report.created, report.held, report.rejected) == (1, 0, [])


def test_a_number_of_the_chain_in_another_town_is_no_match(connection: Connection, imported: Import) -> None:
    named_station(connection, "W-17", "Pilot Travel Center #75", "Pilot", "Gary")

    report = imported("75,Elkhart,IN,3.999,3.499", header=PILOT, profile="pilot", retail=False)

    assert (report.created, len(report.rejected)) == (0, 1)


def test_the_station_at_its_place_with_another_number_is_for_a_person(
    connection: Connection, fleet: Fleet, imported: Import
) -> None:
    named_station(connection, "W-17", "Love's #210", "Love's")

    assert imported(loves_row()).held == 2
    assert reasons(connection, fleet)[0] == "the station of its brand at its place has another number than 305"


# --- Codes are hints ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "city", "state", "place", "reason"),
    [
        ("Love's", "Gary", "IN", (41.6, -87.3), "which is far from its place"),
        ("Love's", "Elkhart", "TX", (31.7, -85.9), "which is far from its place"),
        ("Love's #210", "Elkhart", "IN", BESIDE, "which has another number"),
        ("Elkhart Stop", "Elkhart", "IN", BESIDE, "and nothing tells the brand of that station"),
    ],
)
def test_a_code_whose_station_disagrees_with_the_row_is_held(
    connection: Connection,
    fleet: Fleet,
    imported: Import,
    name: str,
    city: str,
    state: str,
    place: tuple[float, float],
    reason: str,
) -> None:
    named_station(connection, "known", name, None, city, state, place)
    keep_codes(connection, fleet.company_id, [("loves", "305", "known")])

    report = imported(loves_row(card=""))

    assert (report.held, stations(connection)) == (2, {"known": None})
    assert reasons(connection, fleet)[0] == f"its code means known, {reason}"


def test_an_id_is_compared_with_brand_and_town_too(connection: Connection, fleet: Fleet, imported: Import) -> None:
    named_station(connection, "17", "Pilot #17", "Pilot")
    header = "station_id,brand,city,state,retail_price"

    report = imported(
        "17,Love's,Elkhart,IN,3.9",
        "17,Pilot,Gary,IN,3.8",
        "0017,Pilot,Elkhart,IN,3.7",
        header=header,
        profile="generic",
    )

    assert (report.held, stations(connection)) == (2, {"17": 3.7})
    assert reasons(connection, fleet) == [
        "its code means 17, a station of another brand",
        "its code means 17, which is in Elkhart",
    ]


def test_what_a_person_decided_is_believed(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    named_station(connection, "nobody", "Elkhart Truck Stop")
    imported(loves_row(retail=""))
    (held,) = held_prices(connection, fleet.company_id)
    accept_price(connection, fleet.company_id, held.id, DOT, station_id="nobody", may_change_retail=True, now=now)
    keep_codes(connection, fleet.company_id, [("loves", "305", "elsewhere")])

    report = imported(loves_row(), at=now + timedelta(hours=1))

    assert (report.held, stations(connection)) == (0, {"nobody": 3.999})


def test_a_companys_code_goes_before_a_station_that_happens_to_have_it_as_its_id(
    connection: Connection, fleet: Fleet, imported: Import
) -> None:
    named_station(connection, "305", "Pilot #9", "Pilot")
    named_station(connection, "true", "Love's", "Love's")
    keep_codes(connection, fleet.company_id, [("card", "305", "true")], is_decided=True)
    by_card = FileProfile("card", "prices", {"card_code": Column(("Site",)), "retail_price": Column(("Price",))})

    imported("#0305,3.6", header="Site,Price", profile=by_card)

    assert stations(connection) == {"305": None, "true": 3.6}


@given(st.text(st.sampled_from("0#aB12 "), max_size=8))
def test_a_plain_code_is_plain(code: str) -> None:
    plain = plain_code(code)
    assert plain_code(plain) == plain
    if plain.strip("0# "):
        assert plain_code(f"#00{code.lower()}") == plain


# --- Retired stations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("station_id", ["loves-305", "ours"])
def test_a_retired_station_stays_retired_and_comes_under_no_other_id(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime, station_id: str
) -> None:
    named_station(connection, station_id, "Love's #305", "Love's")
    imported(loves_row())
    set_stations_retired(connection, [station_id], DOT, now=now)

    report = imported(loves_row(), at=now + timedelta(hours=1))

    rows = named(connection).execute("SELECT station_id, retired_at FROM stations").fetchall()
    assert [(row.station_id, row.retired_at) for row in rows] == [(station_id, now)]
    assert [(one.line, one.message) for one in report.passed_rows] == [
        (2, f"{station_id} is retired: import it by its id to bring it back")
    ]
    assert (report.created, report.held, report.rejected) == (0, 0, [])


def test_another_brand_may_follow_a_retired_station(connection: Connection, imported: Import, now: datetime) -> None:
    named_station(connection, "ours", "Pilot #9", "Pilot")
    set_stations_retired(connection, ["ours"], DOT, now=now)

    imported(loves_row())

    assert stations(connection) == {"loves-305": 3.999, "ours": None}


def test_a_station_in_use_goes_before_a_retired_one_at_the_same_place(
    connection: Connection, fleet: Fleet, imported: Import, now: datetime
) -> None:
    named_station(connection, "old", "Love's", "Love's")
    imported(loves_row())
    set_stations_retired(connection, ["old"], DOT, now=now)
    named_station(connection, "new", "Love's", "Love's")

    imported(loves_row(), at=now + timedelta(hours=1))

    assert stations(connection) == {"new": 3.999, "old": 3.999}
    assert code_of(connection, fleet, "305") == "new"
