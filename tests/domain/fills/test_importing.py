"""A card's file is stored by transaction: nothing twice, nothing guessed, no line without its reason."""

from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

from domain.database.connections import Connection
from domain.database.index_order import in_index_order
from domain.files.csvfiles import UnreadableFile
from domain.files.products import Fuel
from domain.fills.fill_lists import FillList, count_fills, list_fills, read_fill
from domain.fills.importing import _KNOWN, read_stations
from domain.fills.matching_again import match_fills_again
from domain.fills.reviewing import BY_RULE, NO_ROUTE, Decision, UnknownFill, UnusableDecision, decide
from domain.housekeeping.erasure import erase_company
from domain.housekeeping.retention import delete_routes, forget_fills
from domain.ifta.driven_routes import find_quarter_routes
from domain.ifta.quarters import Quarter
from domain.ifta.report import make_quarter_report
from domain.savings.report import Dimension, savings_by_line, savings_by_week, total_of
from domain.savings.spans import Span
from domain.settings import Settings
from tests.domain.fills.cards import (
    COMDATA_HEADER,
    EFS_HEADER,
    NOW,
    add_station,
    efs,
    fills,
    import_fills,
    lines_of,
    plaza_and_keystone,
    verdicts,
    write_efs,
)
from tests.domain.helpers import corrected_by_hand, deliver, imported, planned_by_hand, positions_at, post
from tests.factories import DOT, Fleet, make_fleet

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

NINE = datetime(2026, 11, 20, 9, tzinfo=UTC)
"""Truck 101 is at its first stop; the fill of `efs()` is at 14:10 UTC: Elkhart is on Eastern time."""


@pytest.fixture
def stations(connection: Connection) -> None:
    plaza_and_keystone(connection)


def driven(
    connection: Connection, config: Settings, fleet: Fleet, *, at: datetime = NINE, completed: bool = True
) -> UUID:
    """A live route of truck 101 with the plan of the factories, which the driver has."""
    route_id = imported(connection, fleet.live, now=at)
    deliver(connection, planned_by_hand(connection, route_id, now=at), settings=config, now=at)
    connection.execute("UPDATE routes SET arrived_at = %s WHERE id = %s", (at, route_id))
    if completed:
        connection.execute(
            "UPDATE routes SET status = 'completed', completed_at = %s WHERE id = %s",
            (at + timedelta(hours=20), route_id),
        )
    return route_id


@pytest.mark.usefixtures("stations")
def test_a_fill_is_matched_to_truck_station_route_and_planned_stop(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path
) -> None:
    route_id = driven(connection, settings, fleet)

    assert import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs())) == ((1, 0, 0), {})

    (fill,) = fills(connection, fleet.live)
    assert (fill.vehicle_id, fill.station_id, fill.route_id, fill.stop_number) == (fleet.trucks[0], "S1", route_id, 1)
    assert (fill.score, fill.review, fill.fuel, fill.gallons, fill.paid_cents) == (95, [], "tractor", 100.0, 34550)
    assert fill.bought_at == datetime(2026, 11, 20, 14, 10, tzinfo=UTC)
    assert [row.verdict for row in verdicts(connection, fleet.live)] == ["followed", "missed"]


@pytest.mark.usefixtures("stations")
def test_a_file_that_is_sent_twice_changes_nothing(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path
) -> None:
    driven(connection, settings, fleet)
    twins = [efs(invoice=""), efs(invoice="")]
    path = write_efs(tmp_path / "efs.csv", efs(), efs(item="DEFD", qty="8.5", amount="30.00"), *twins)
    assert import_fills(connection, fleet.live, path) == ((4, 0, 0), {})
    before = (fills(connection, fleet.live), verdicts(connection, fleet.live))

    assert import_fills(connection, fleet.live, path) == ((0, 0, 4), {})

    assert (fills(connection, fleet.live), verdicts(connection, fleet.live)) == before
    assert import_fills(connection, fleet.sandbox, path)[0] == (4, 0, 0), "each environment has its own"


@pytest.mark.usefixtures("stations")
def test_only_the_last_four_digits_of_a_card_are_stored(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs()))
    (fill,) = fills(connection, fleet.live)
    assert fill.card_last_four == "7890"
    stored = [str(value) for value in fill]
    assert not any(text.startswith("7083") or "05123456" in text for text in stored), "ids may hold four digits of it"


@pytest.mark.usefixtures("stations")
def test_a_transaction_that_the_card_corrects_takes_its_new_figures(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path
) -> None:
    driven(connection, settings, fleet)
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs()))
    corrected = write_efs(tmp_path / "efs.csv", efs(qty="120.00", amount="414.60"))

    assert import_fills(connection, fleet.live, corrected) == ((0, 1, 0), {})

    (fill,) = fills(connection, fleet.live)
    assert (fill.gallons, fill.paid_cents) == (120.0, 41460)
    first, _ = verdicts(connection, fleet.live)
    assert (first.verdict, first.bought_gallons, first.gallons_cents, first.price_cents) == ("partly", 120.0, 6910, 0)


@pytest.mark.usefixtures("stations")
@pytest.mark.parametrize("reversal_first", [False, True])
def test_a_reversal_and_what_it_takes_back_do_not_count(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path, reversal_first: bool
) -> None:
    driven(connection, settings, fleet)
    files = [efs(), efs(qty="-100.00", amount="-345.50", date="2026-11-21")]
    for line in reversed(files) if reversal_first else files:
        import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", line))

    bought, back = fills(connection, fleet.live)
    assert (bought.counter_id, back.counter_id) == (back.id, bought.id)
    assert (bought.review, back.review) == ([], [])
    assert verdicts(connection, fleet.live) == []


def test_a_reversal_of_nothing_waits_for_a_person(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    lines = [
        efs(invoice="", time="08:00"),
        efs(invoice="", time="09:00"),
        efs(invoice="", qty="-100.00", amount="-345.50", time="10:00"),
    ]
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *lines))
    assert [fill.review for fill in fills(connection, fleet.live)] == [[], [], ["reversal"]], "two fit"


def test_rows_that_cannot_be_read_are_refused_with_line_and_reason(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    lines = [
        efs(date="2026-13-40"),
        efs(qty="-100.00"),
        efs(state="ZZ"),
        efs(item="SCLE"),
        efs(amount="n/a"),
        efs(date="2031-01-01"),
        efs(state="ON", currency="CAD"),
        efs(qty="0"),
        efs(time="25:00"),
        efs(currency="EUR"),
        efs(qty="99999"),
    ]
    counts, rejected = import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *lines, efs()))
    assert counts == (1, 0, 0)
    assert {line: message.split(":")[0] for line, message in rejected.items()} == {
        2: "the date is '2026-13-40'",
        3: "-100.0 bought for 345.50",
        4: "'ZZ' is no state or province",
        6: "Amt",
        7: "2031-01-01 lies in the future",
        8: "a purchase in Canada, and the file does not say whether gallons or litres",
        9: "the quantity is missing or zero",
        10: "the time is '25",
        11: "the currency is 'EUR'",
        12: "99999.0 gallons for 345.50 is more than one purchase can be",
    }


def test_litres_become_gallons(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    path = write_efs(
        tmp_path / "efs.csv", efs(state="ON", city="LONDON", qty="378.54", amount="620.00", currency="CAD")
    )
    import_fills(connection, fleet.live, path, volume="litres")
    (fill,) = fills(connection, fleet.live)
    assert (fill.gallons, fill.currency) == (pytest.approx(100, abs=0.01), "CAD")


def test_litres_that_nobody_mentioned_wait_for_a_person(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs(qty="1000", amount="345.50")))
    assert fills(connection, fleet.live)[0].review == ["price"]


def test_a_row_of_comdata_tells_of_tractor_and_reefer_fuel(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    row = "JJ068,98647,11/20/2026,09:10,17836,560017XXXXXX5373,LEE,101,OH976,LOVES #892,ETNA,OH"
    lines = [
        f"{row},$544.56,140.14,$3.529 ,$494.560 ,14.17,$3.529,$50.00,N,U",
        f"{row.replace('17836', '17837')},$1.00,10.00,$0.10,$1.00,0.00,$0.000,$0.00,Y,U",
        f"{row.replace('17836', '17838')},$50.00,0.00,$0.00,$0.00,0.00,$0.000,$0.00,N,U",
    ]
    path = tmp_path / "comdata.csv"
    path.write_text("\n".join(["Purchases of November", "", COMDATA_HEADER, *lines]), encoding="utf-8-sig")

    assert import_fills(connection, fleet.live, path, profile="comdata") == ((3, 0, 0), {})

    tractor, reefer, canceled = sorted(
        fills(connection, fleet.live), key=lambda fill: (fill.gallons < 0, -fill.gallons)
    )
    assert (tractor.fuel, tractor.gallons, tractor.paid_cents) == ("tractor", 140.14, 49456)
    assert (reefer.fuel, reefer.gallons, reefer.paid_cents) == ("reefer", 14.17, 5000)
    assert (tractor.station_code, tractor.card_last_four, tractor.transaction_number) == ("OH976", "5373", "17836")
    assert (canceled.gallons, canceled.review) == (-10.0, ["reversal"]), "its purchase is not here"


def test_an_unknown_item_waits_and_a_person_says_what_it_is(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path
) -> None:
    plaza_and_keystone(connection)
    route_id = driven(connection, settings, fleet)
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs(item="PROD 7")))
    (fill,) = list_fills(connection, fleet.live, FillList.REVIEW, limit=10)
    assert (fill.review, fill.route_id) == (["fuel"], route_id)
    assert verdicts(connection, fleet.live) == [], "nothing is told of a route while something is open"

    with pytest.raises(UnusableDecision, match="which fuel"):
        decide(connection, fleet.company_id, fill.id, Decision(), DOT, far_miles=5, now=NOW)
    decide(connection, fleet.company_id, fill.id, Decision(fuel=Fuel.TRACTOR), DOT, far_miles=5, now=NOW)

    assert count_fills(connection, fleet.live, FillList.REVIEW) == 0
    assert [row.verdict for row in verdicts(connection, fleet.live)] == ["followed", "missed"]
    decide(connection, fleet.company_id, fill.id, Decision(route=NO_ROUTE), DOT, far_miles=5, now=NOW)
    assert verdicts(connection, fleet.live) == []
    decide(connection, fleet.company_id, fill.id, Decision(route=BY_RULE), DOT, far_miles=5, now=NOW)
    assert len(verdicts(connection, fleet.live)) == 2
    decided = read_fill(connection, fleet.company_id, fill.id)
    assert decided is not None
    assert decided.decided_by == DOT.name


def test_another_company_s_units_and_fills_are_out_of_reach(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    other = make_fleet(connection)
    connection.execute("UPDATE vehicles SET unit_number = 'X9' WHERE id = %s", (other.trucks[0],))
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs(unit="X9")))
    (fill,) = fills(connection, fleet.live)
    assert (fill.vehicle_id, fill.review) == (None, ["unit"])
    assert fills(connection, other.live) == []
    with pytest.raises(UnknownFill):
        decide(connection, other.company_id, fill.id, Decision(), DOT, far_miles=5, now=NOW)
    with pytest.raises(UnusableDecision, match="unit number 'X9'"):
        decide(connection, fleet.company_id, fill.id, Decision(unit_number="X9"), DOT, far_miles=5, now=NOW)


def test_a_fill_waits_for_its_mapping_and_is_matched_then(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path
) -> None:
    plaza_and_keystone(connection)
    route_id = driven(connection, settings, fleet)
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs(unit="TRK 101")))
    connection.execute(
        "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, 'unit_number', 'TRK 101', %s)",
        (fleet.company_id, fleet.trucks[0]),
    )

    done = match_fills_again(connection, fleet.live, read_stations(connection, fleet.company_id), far_miles=5, now=NOW)

    assert done == (None, 1)
    assert fills(connection, fleet.live)[0].route_id == route_id
    assert len(verdicts(connection, fleet.live)) == 2


def test_the_truck_tells_which_of_several_stations_it_was_at(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    add_station(connection, "L1", name="Love's 101", brand="Love's", latitude=41.70)
    add_station(connection, "L2", name="Love's 202", brand="Love's", latitude=41.76)
    at = datetime(2026, 11, 20, 14, 5, tzinfo=UTC)
    post(connection, fleet.live, positions_at({"latitude": 41.76, "longitude": -86.0}, at), now=at + timedelta(hours=1))
    line = efs(location="LOVES TRAVEL STOP")
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", line, efs(location="LOVES", unit="102")))
    seen, unseen = sorted(fills(connection, fleet.live), key=lambda fill: fill.unit_number)
    assert (seen.station_id, seen.score, seen.miles_from_truck) == ("L2", 85, 0.0)
    assert unseen.station_id is None, "truck 102 has sent no position: either may be meant"


def test_fills_larger_than_the_tank_and_far_from_the_truck_are_flagged(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    plaza_and_keystone(connection)
    at = datetime(2026, 11, 20, 14, 5, tzinfo=UTC)
    post(connection, fleet.live, positions_at({"latitude": 41.0, "longitude": -78.4}, at), now=at + timedelta(hours=1))
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs(qty="206.5", amount="713.46")))
    (fill,) = list_fills(connection, fleet.live, FillList.FLAGGED, limit=10)
    assert fill.flags == ["tank", "far"]
    assert fill.miles_from_truck is not None
    assert 395 < fill.miles_from_truck < 400


def test_a_new_plan_that_the_driver_has_is_what_fills_are_compared_with(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path
) -> None:
    plaza_and_keystone(connection)
    route_id = driven(connection, settings, fleet, completed=False)
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs()))
    assert [row.verdict for row in verdicts(connection, fleet.live)] == ["followed"], "the second stop is ahead"

    later = NINE + timedelta(hours=1)
    message = corrected_by_hand(connection, route_id, now=later, stops=[], totalGallons=0.001, totalCost=0)
    deliver(connection, message, settings=settings, now=later)

    assert [row.verdict for row in verdicts(connection, fleet.live)] == ["elsewhere"]


def test_fills_are_erased_with_their_company_and_verdicts_with_their_route(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path
) -> None:
    plaza_and_keystone(connection)
    route_id = driven(connection, settings, fleet)
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs()))
    delete_routes(connection, [route_id])
    assert verdicts(connection, fleet.live) == []
    assert len(fills(connection, fleet.live)) == 1
    assert forget_fills(connection, days=1461, now=datetime(2036, 1, 1, tzinfo=UTC), limit=10_000) > 0
    assert fills(connection, fleet.live) == []
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs()))

    erase_company(lambda: nullcontext(connection), fleet.company_id, now=NOW)
    assert fills(connection, fleet.live) == []


def test_a_file_without_the_columns_of_a_fill_is_refused_whole(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    path = tmp_path / "odd.csv"
    for content in (b"a,b\n1,2\n", b"", b"\x00\x01\x02"):
        path.write_bytes(content)
        with pytest.raises(UnreadableFile):
            import_fills(connection, fleet.live, path)
    assert fills(connection, fleet.live) == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_a_file_is_the_same_in_every_encoding_and_with_any_delimiter(
    connection: Connection, fleet: Fleet, tmp_path: Path, encoding: str
) -> None:
    text = f"{EFS_HEADER}\n{efs(location='MUÑOZ PLAZA')}\n"
    path = tmp_path / "efs.csv"
    path.write_bytes(text.encode())
    assert import_fills(connection, fleet.live, path)[0] == (1, 0, 0)
    path.write_bytes(text.replace(",", ";").encode(encoding))
    assert import_fills(connection, fleet.live, path) == ((0, 0, 1), {})


def test_savings_are_proven_by_fills_and_say_of_how_many_routes(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path
) -> None:
    plaza_and_keystone(connection)
    driven(connection, settings, fleet)
    driven(connection, settings, fleet, at=NINE + timedelta(days=2))
    span = Span(date(2026, 11, 1), date(2026, 11, 30), "UTC")
    assert total_of(savings_by_week(connection, fleet.live, span)).with_fills == 0

    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs()))

    found = total_of(savings_by_week(connection, fleet.live, span))
    assert (found.plans, found.with_fills, found.with_fills_percent) == (2, 1, Decimal(50))
    # 150 gallons for $520.50, $31.50 less than at the average: $3.68 a gallon there
    assert (found.bought_gallons, found.paid, found.proven) == (Decimal(100), Decimal("345.5"), Decimal("22.5"))
    (line,) = savings_by_line(connection, fleet.live, span, Dimension.TRUCK).lines
    assert line.figures == found
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs(qty="-100.00", amount="-345.50")))
    assert total_of(savings_by_week(connection, fleet.live, span)).with_fills == 0


def test_fuel_tax_is_credited_by_fills_for_trucks_that_have_some(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    lines = [
        efs(),
        efs(item="ULSR", invoice="2"),
        efs(invoice="3", unit="nobody"),
        efs(invoice="4", date="2026-09-30", time="23:59"),
        efs(invoice="5", city="TOLEDO", state="OH", qty="50", amount="170.00"),
    ]
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *lines))
    import_fills(connection, fleet.sandbox, write_efs(tmp_path / "efs.csv", efs(invoice="6")))
    driven_routes = find_quarter_routes(connection, fleet.company_id, Quarter(2026, 4))

    report = make_quarter_report(connection, driven_routes, now=NOW)

    assert [(one.state, one.gallons_planned, one.gallons_bought, one.gallons_credited) for one in report.states] == [
        ("IN", 0, 100, 100),
        ("OH", 0, 50, 50),
    ]
    assert [(one.unit_number, one.state, one.source) for one in report.vehicles] == [
        ("101", "IN", "fills"),
        ("101", "OH", "fills"),
    ]
    assert report.vehicles_with_fills == 1


@pytest.mark.usefixtures("stations")
@pytest.mark.parametrize(("day", "time", "quarter"), [("2026-09-30", "23:30", 3), ("2026-10-01", "00:30", 4)])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Honolulu"])
def test_the_quarter_of_a_fill_is_that_of_the_day_on_its_receipt(
    connection: Connection, fleet: Fleet, tmp_path: Path, day: str, time: str, quarter: int, zone: str
) -> None:
    connection.execute("UPDATE companies SET time_zone = %s WHERE id = %s", (zone, fleet.company_id))
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs(date=day, time=time, state="CA")))
    for number in (3, 4):
        driven_routes = find_quarter_routes(connection, fleet.company_id, Quarter(2026, number))
        report = make_quarter_report(connection, driven_routes, now=NOW)
        assert sum(one.gallons_bought for one in report.states) == (100 if number == quarter else 0)


@pytest.mark.parametrize(
    ("written", "state", "gallons", "currency"),
    [
        ("USD/Gallons", "IN", 100.0, "USD"),
        ("USD/Gallon", "IN", 100.0, "USD"),
        ("CAD/Liters", "ON", 26.417, "CAD"),
        ("usd", "IN", 100.0, "USD"),
    ],
)
def test_a_currency_may_name_the_unit_of_the_quantity(
    connection: Connection, fleet: Fleet, tmp_path: Path, written: str, state: str, gallons: float, currency: str
) -> None:
    line = efs(currency=written, state=state)
    sums, rejected = import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", line))
    assert (sums, rejected) == ((1, 0, 0), {})
    (fill,) = fills(connection, fleet.live)
    assert (fill.gallons, fill.currency) == (gallons, currency)


def test_a_first_import_looks_keys_up_by_their_index(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    """The other indexes begin with the company too, and look as good to a PostgreSQL without statistics, which then
    reads all of the company's fills."""
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *lines_of(50)))
    with in_index_order(connection):
        rows = connection.execute(f"EXPLAIN {_KNOWN.text}", {**fleet.live._asdict(), "keys": ["a", "b"]}).fetchall()
    assert "using fills_key" in rows[0][0]


@pytest.mark.usefixtures("stations")
def test_a_row_that_contradicts_itself_waits_until_a_person_decides(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path
) -> None:
    driven(connection, settings, fleet)
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs(amount="245.50")))
    assert verdicts(connection, fleet.live) == []

    match_fills_again(connection, fleet.live, read_stations(connection, fleet.company_id), far_miles=5, now=NOW)
    (fill,) = fills(connection, fleet.live)
    assert fill.review == ["amount"], "matching again does not settle it"

    decide(connection, fleet.company_id, fill.id, Decision(), DOT, far_miles=5, now=NOW)
    assert len(verdicts(connection, fleet.live)) == 2


@pytest.mark.usefixtures("stations")
def test_diesel_for_the_farm_the_trailer_and_the_apu_is_no_tractor_fuel(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    items = ("FARM DIESEL", "DIESEL TRAILER", "APU DIESEL", "UNLEADED")
    lines = [efs(invoice=str(number), item=item, unit="shed") for number, item in enumerate(items, start=1)]
    assert import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *lines)) == ((4, 0, 0), {})

    kept = {fill.item: (fill.fuel, fill.review) for fill in fills(connection, fleet.live)}
    assert kept == {
        "FARM DIESEL": ("other", []),
        "DIESEL TRAILER": ("reefer", ["unit"]),
        "APU DIESEL": ("other", []),
        "UNLEADED": ("other", []),
    }
    report = make_quarter_report(
        connection, find_quarter_routes(connection, fleet.company_id, Quarter(2026, 4)), now=NOW
    )
    assert report.states == []
