"""A row may say that it does not count: by a flag, a status or a kind of transaction."""

from pathlib import Path

import pytest

from domain.database.connections import Connection
from domain.files.csvfiles import ImportReport
from domain.fills.card_files import open_fill_file
from domain.fills.profiles import CARDS, card_profile, card_profile_of
from tests.domain.fills.cards import NOW, fills, import_fills
from tests.factories import Fleet

HEADING = "Date,Unit,City,State,Product,Invoice,Gallons,Amount"


def written(folder: Path, *rows: tuple[str, str], invoice: int = 5) -> Path:
    """A file with such a column and cell beside each purchase."""
    path = folder / "card.csv"
    column = rows[0][0]
    lines = [f"11/2{day}/2026,101,X,TX,ULSD,{invoice},100,350.00,{cell}" for day, (_, cell) in enumerate(rows)]
    path.write_text("\n".join([f"{HEADING},{column}", *lines]) + "\n")
    return path


def read(path: Path, profile: str = "auto") -> tuple[list[float], int | None, list[str]]:
    report = ImportReport(passed_over=0)
    with open_fill_file(path, card_profile_of(path, profile), report, now=NOW) as file:
        return [one.gallons for one in file.fills], report.passed_over, [one.message for one in report.rejected]


@pytest.mark.parametrize(
    ("column", "cell", "gallons"),
    [
        ("Status", "Voided", [-100.0]),
        ("Transaction Status", "REVERSED", [-100.0]),
        ("Void", "VOID", [-100.0]),
        ("Is Canceled", "true", [-100.0]),
        ("Transaction Type", "Fuel Refund", [-100.0]),
        ("Transaction Type", "Credit", [-100.0]),
        ("Type", "Reversal", [-100.0]),
        ("Status", "Declined", []),
        ("Status", "Rejected - over limit", []),
        ("Status", "Not Approved", []),
        ("Status", "Posted", [100.0]),
        ("Status", "", [100.0]),
        ("Status", "Not voided", [100.0]),
        ("Status", "Authorized", [100.0]),
        ("Status", "Pending", [100.0]),
        ("Status", "Exported to QB", [100.0]),
        ("Transaction Type", "Fuel", [100.0]),
        ("Type", "Credit Card", [100.0]),
        ("Void", "-", [100.0]),
    ],
)
def test_a_row_says_whether_it_counts(tmp_path: Path, column: str, cell: str, gallons: list[float]) -> None:
    path = written(tmp_path, (column, cell))
    for profile in ("auto", "generic", "fleet-one"):
        assert read(path, profile) == (gallons, 0 if gallons else 1, [])


@pytest.mark.parametrize("status", ["AUTHORIZED", "Pending", "Pre-Authorization"])
@pytest.mark.parametrize(("product", "gallons"), [("", "1.00"), ("ULSD", "")])
def test_the_hold_of_a_pump_is_no_purchase(tmp_path: Path, status: str, product: str, gallons: str) -> None:
    path = tmp_path / "card.csv"
    path.write_text(f"{HEADING},Status\n11/20/2026,101,X,TX,{product},5,{gallons},150.00,{status}\n")
    assert read(path) == ([], 1, [])


def test_every_card_knows_states_of_transactions() -> None:
    for name in CARDS:
        assert {"canceled", "status", "kind"} <= set(card_profile(name).columns)


@pytest.mark.parametrize("in_one_file", [True, False])
def test_a_purchase_that_is_told_as_void_later_does_not_count(
    connection: Connection, fleet: Fleet, tmp_path: Path, in_one_file: bool
) -> None:
    posted, voided = ("Status", "Posted"), ("Status", "Voided")
    for rows in ([posted, voided],) if in_one_file else ([posted], [voided]):
        import_fills(connection, fleet.live, written(tmp_path, *rows), profile="generic")
    assert [(one.gallons, one.counter_id is not None) for one in fills(connection, fleet.live)] in (
        [(100.0, True), (-100.0, True)],
        [(-100.0, True), (100.0, True)],
    )
