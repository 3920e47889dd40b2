"""One purchase counts once, in whatever report, file and spelling it comes; two true purchases stay two."""

import itertools
from pathlib import Path

import pytest

from domain.database.connections import Connection
from domain.fills.cells import is_rounded
from domain.fills.fill_lists import FillList, list_fills
from domain.fills.reviewing import Decision, decide
from tests.domain.csv_files import CsvFile
from tests.domain.fills.cards import NOW, efs, fills, import_fills, write_efs
from tests.factories import DOT, Fleet

CASES = Path(__file__).parents[2] / "cases" / "fills_identity"


def import_case(connection: Connection, fleet: Fleet, name: str, *, profile: str = "efs") -> tuple[int, int, int]:
    sums, refused = import_fills(connection, fleet.live, CASES / name, profile=profile)
    assert refused == {}
    return sums


def rename_truck(connection: Connection, fleet: Fleet, unit_number: str) -> None:
    connection.execute("UPDATE vehicles SET unit_number = %s WHERE id = %s", (unit_number, fleet.trucks[0]))


def gallons(connection: Connection, fleet: Fleet) -> list[float]:
    """The gallons that count."""
    return [
        one.gallons
        for one in fills(connection, fleet.live)
        if one.counter_id is None and not {"twice", "reversal", "corrected"} & set(one.review)
    ]


@pytest.mark.parametrize("files", list(itertools.permutations(["same.csv", "same.xlsx"])))
@pytest.mark.parametrize("is_known", [True, False])
def test_a_spreadsheet_that_lost_zeros_tells_of_the_same_purchase(
    connection: Connection, fleet: Fleet, files: tuple[str, ...], is_known: bool
) -> None:
    rename_truck(connection, fleet, "691" if is_known else "9")
    sums = [import_case(connection, fleet, name) for name in files * 2]
    assert sums == [(1, 0, 0), (0, 0, 1), (0, 0, 1), (0, 0, 1)]
    assert gallons(connection, fleet) == [141.7]


@pytest.mark.parametrize(
    "files", list(itertools.permutations(["portal.csv", "place_renamed.csv", "efs_transexport_52.csv"]))
)
def test_reports_of_one_card_tell_of_one_purchase(connection: Connection, fleet: Fleet, files: tuple[str, ...]) -> None:
    rename_truck(connection, fleet, "574")
    assert sum(import_case(connection, fleet, name)[0] for name in files * 2) == 1
    assert gallons(connection, fleet) == [190.0]


@pytest.mark.parametrize("files", list(itertools.permutations(["statement.csv", "statement_of_one_truck.csv"])))
@pytest.mark.parametrize("trucks", [["41", "42"], []])
def test_the_number_of_a_statement_is_of_many_purchases(
    connection: Connection, fleet: Fleet, files: tuple[str, ...], trucks: list[str]
) -> None:
    """A later file may have the purchases of one truck alone, and of the same day."""
    for vehicle_id, unit_number in zip(fleet.trucks, trucks, strict=False):
        connection.execute("UPDATE vehicles SET unit_number = %s WHERE id = %s", (unit_number, vehicle_id))
    assert sum(import_case(connection, fleet, name, profile="generic")[0] for name in files * 2) == 3
    assert sorted(gallons(connection, fleet)) == [61.25, 80.5, 100.5]


def test_another_profile_tells_of_the_same_purchase(connection: Connection, fleet: Fleet) -> None:
    for profile in ("generic", "efs", "generic"):
        import_case(connection, fleet, "portal.csv", profile=profile)
    assert gallons(connection, fleet) == [190.0]


def test_a_row_that_was_stored_by_an_earlier_release_is_known(connection: Connection, fleet: Fleet) -> None:
    rename_truck(connection, fleet, "574")
    import_case(connection, fleet, "portal.csv")
    connection.execute("UPDATE fills SET invoice_number = NULL, file_id = NULL")
    for name in ("portal.csv", "place_renamed.csv", "efs_transexport_52.csv"):
        assert import_case(connection, fleet, name) == (0, 0, 1)
    assert gallons(connection, fleet) == [190.0]


@pytest.mark.parametrize(
    "lines",
    [
        (efs(), efs(invoice="2")),
        (efs(), efs(time="09:11")),
        (efs(invoice="", db=""), efs(invoice="", db="")),
        (efs(invoice=""), efs(invoice="")),
        (efs(time=""), efs(time="", invoice="2")),
    ],
)
@pytest.mark.parametrize("again", [0, 1])
def test_two_purchases_of_one_file_are_two_however_often_it_comes(
    connection: Connection, fleet: Fleet, tmp_path: Path, lines: tuple[str, str], again: int
) -> None:
    first, second = lines
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", lines[again]))
    for order in ((first, second), (second, first)):
        import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *order))
    assert gallons(connection, fleet) == [100.0, 100.0]
    assert all(one.review == [] for one in fills(connection, fleet.live))


@pytest.mark.parametrize("before", [[], [efs()], [efs(invoice="", location="LAKESIDE #1")]])
@pytest.mark.parametrize("between", [[], [efs(invoice=f"9{one}", time="17:37") for one in range(600)]])
def test_a_row_that_is_pasted_twice_into_a_file_waits_beside_the_first(
    connection: Connection, fleet: Fleet, tmp_path: Path, before: list[str], between: list[str]
) -> None:
    lines = [efs(), *between, efs()]
    for own in (before, lines, lines):
        import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *own))
    rows = [one for one in fills(connection, fleet.live) if one.bought_at.hour == 14]
    first, second = rows
    assert (first.review, second.review, second.twin_id) == ([], ["twice"], first.id)

    decide(connection, fleet.company_id, second.id, Decision(is_twice=True), DOT, far_miles=5, now=NOW)
    assert import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *lines))[0][:2] == (0, 0)


@pytest.mark.parametrize(
    "lines",
    [
        (efs(), efs(qty="-100.00", amount="-345.50"), efs()),
        (efs(), efs(), efs(qty="-100.00", amount="-345.50")),
        (efs(qty="-100.00", amount="-345.50", time="11:40"), efs(), efs()),
    ],
)
def test_a_purchase_that_was_taken_back_and_made_again_counts_once_without_a_question(
    connection: Connection, fleet: Fleet, tmp_path: Path, lines: tuple[str, ...]
) -> None:
    for _ in range(2):
        import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", *lines))
    assert gallons(connection, fleet) == [100.0]
    assert all(one.review == [] for one in fills(connection, fleet.live))


def renamed(**changes: str) -> str:
    """The purchase of `efs()` as another report tells of it: without its number, with another name of the place."""
    return efs(invoice="", location="LAKESIDE #1", **changes)


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (renamed(), True),
        (renamed(time=""), True),
        (renamed(time="08:10"), True),  # the clock of another zone
        (renamed(time="09:15"), True),
        (renamed(qty="100.04", amount="345.51"), True),
        (renamed(unit=""), True),
        (renamed(card="7.08305E+15"), True),
        (renamed(time="", date="2026-11-21"), False),  # posted a day later
        (renamed(time="13:37"), False),
        (renamed(city="GOSHEN"), False),
        (renamed(card="", unit="TRK 101"), False),
        (efs(invoice="99", time="09:12"), False),
        (renamed(amount="365.50", price="3.655", disc_amt="0", disc_cost="0"), False),  # before the discount
        (efs(state="MI", city="NILES"), False),  # the office's state, or a slip
        (renamed(amount="480.25", price="4.8025", unit_price="5.0025", currency="CAD/Gallons"), False),  # as billed
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_an_alike_purchase_of_another_file_is_the_same_or_waits(
    connection: Connection, fleet: Fleet, tmp_path: Path, other: str, is_same: bool, backwards: bool
) -> None:
    for line in ([other, efs()] if backwards else [efs(), other]) * 2:
        import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", line))
    rows = fills(connection, fleet.live)
    assert len(gallons(connection, fleet)) == 1
    assert len(rows) == (1 if is_same else 2)
    assert is_same or sorted(one.twin_id is not None for one in rows) == [False, True]


@pytest.mark.parametrize(
    "other",
    [
        efs(invoice="99", date="2026-11-21"),
        efs(invoice="99", time="17:37"),
        efs(invoice="99", qty="98.2", amount="339.28"),
        efs(invoice="99", unit="102"),
        efs(invoice="99", state="OH"),
        efs(invoice="12345", item="ULSR"),
        renamed(date="2026-11-23"),
    ],
)
def test_another_purchase_of_another_file_counts(
    connection: Connection, fleet: Fleet, tmp_path: Path, other: str
) -> None:
    for line in [efs(), other] * 2:
        import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", line))
    assert len(gallons(connection, fleet)) == 2


def test_an_amount_that_is_told_anew_without_a_number_waits(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    """A report that was made again after the rebate."""
    for changes in ({}, {"amount": "325.50", "price": "3.255", "disc_amt": "40.00", "disc_cost": "0.40"}):
        import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs(invoice="", **changes)))
    assert gallons(connection, fleet) == [100.0]
    (waiting,) = list_fills(connection, fleet.live, FillList.REVIEW, limit=10)
    assert waiting.review == ["twice"]


def test_a_person_says_that_it_is_the_same_purchase(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    other = write_efs(tmp_path / "other.csv", efs(invoice="99", time="09:12"))
    import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", efs()))
    import_fills(connection, fleet.live, other)
    (waiting,) = list_fills(connection, fleet.live, FillList.REVIEW, limit=10)

    decide(connection, fleet.company_id, waiting.id, Decision(is_twice=True), DOT, far_miles=5, now=NOW)

    assert import_fills(connection, fleet.live, other) == ((0, 0, 1), {})
    assert len(fills(connection, fleet.live)) == 1


def test_a_person_says_whether_an_alike_purchase_is_another_one(
    connection: Connection, fleet: Fleet, tmp_path: Path
) -> None:
    for line in (efs(), efs(invoice="99", time="09:12")):
        import_fills(connection, fleet.live, write_efs(tmp_path / "efs.csv", line))
    (waiting,) = list_fills(connection, fleet.live, FillList.REVIEW, limit=10)
    assert waiting.review == ["twice"]

    decide(connection, fleet.company_id, waiting.id, Decision(), DOT, far_miles=5, now=NOW)

    assert gallons(connection, fleet) == [100.0, 100.0]


@pytest.mark.parametrize(
    ("files", "counted"),
    [
        (["portal.csv", "wex_posted.csv"], [190.0]),
        (["wex_posted.csv", "portal.csv", "efs_transexport_52.csv"], [190.0]),
        (["ledger.csv", "ledger.csv"], [109.0]),
        (["two_pumps.csv", "two_pumps.csv"], [95.0]),
    ],
)
def test_files_of_the_world_add_up(
    connection: Connection, fleet: Fleet, files: list[str], counted: list[float]
) -> None:
    rename_truck(connection, fleet, "574")
    for name in files:
        import_case(connection, fleet, name)
    assert gallons(connection, fleet) == counted


@pytest.mark.parametrize("backwards", [False, True])
def test_a_log_for_fuel_tax_tells_of_the_card_s_purchase(connection: Connection, fleet: Fleet, backwards: bool) -> None:
    rename_truck(connection, fleet, "574")
    files = [("portal.csv", "efs"), ("ifta_log.csv", "generic")]
    for name, profile in reversed(files) if backwards else files:
        import_case(connection, fleet, name, profile=profile)
    assert gallons(connection, fleet) == [190.0]


@pytest.mark.parametrize("number", ["3.9E+10", "7083050030485890000"])
def test_numbers_that_a_spreadsheet_has_rounded_name_no_purchase(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, number: str
) -> None:
    """WEX's ids of eleven digits are 3.9E+10 once a spreadsheet has saved them. The second purchase took the place of
    the first one, as its correction."""
    for row in ("09:10,****1191,{},101,100,400.00", "10:10,****1191,{},102,80,320.00"):
        heading = "Transaction Date,Transaction Time,Card Number,Trans ID,Unit,Units,Net Cost,State,Merchant Name"
        path = csv_file(heading, f"11/20/2026,{row.format(number)},LA,PILOT 335")
        assert import_fills(connection, fleet.live, path, profile="generic") == ((1, 0, 0), {})
    assert [(one.unit_number, one.transaction_number) for one in fills(connection, fleet.live)] == [
        ("101", None),
        ("102", None),
    ]


@pytest.mark.parametrize(
    ("number", "is_one"), [("4E+10", True), ("3,9E+10", True), ("3.9E10", True), ("4E1234", False), ("7e9", False)]
)
def test_a_number_with_an_e_in_it_is_not_rounded(number: str, is_one: bool) -> None:
    """A spreadsheet writes a sign before the power, and a program a point. A code of letters and digits has neither."""
    assert is_rounded(number) is is_one


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    "other", ["42,09:10,80.50,321.92", "41,17:42,80.50,321.92"], ids=["another truck", "another time"]
)
def test_other_figures_under_the_number_of_a_statement_wait(
    connection: Connection, fleet: Fleet, csv_file: CsvFile, other: str, is_known: bool
) -> None:
    """A supplier numbers its statement, not its deliveries, and a portal exports them truck by truck. The second
    delivery of the day took the place of the first one, as its correction."""
    rename_truck(connection, fleet, "41" if is_known else "9")
    heading, first = "Invoice #,Date,Vehicle,Time,Gallons,Ext. Price,State,Fuel Type", "41,09:10,100.50,401.90"
    for row in (first, other, other):
        path = csv_file(heading, f"88120,11/21/2026,{row},MI,ULSD")
        assert import_fills(connection, fleet.live, path, profile="generic")[1] == {}
    assert [(one.gallons, "twice" in one.review) for one in fills(connection, fleet.live)] == [
        (100.5, False),
        (80.5, True),
    ]


def test_rows_of_one_statement_are_two_purchases_in_any_order(
    connection: Connection, fleet: Fleet, csv_file: CsvFile
) -> None:
    heading, first, second = "Invoice #,Date,Vehicle,Gallons,Ext. Price,State", "41,100.50,401.90", "42,80.50,321.92"
    for rows in ([first], [second, first], [first, second]):
        import_fills(
            connection,
            fleet.live,
            csv_file(heading, *(f"88120,11/21/2026,{row},MI" for row in rows)),
            profile="generic",
        )
    assert sorted(gallons(connection, fleet)) == [80.5, 100.5]
