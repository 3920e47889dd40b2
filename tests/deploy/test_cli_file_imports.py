"""The one command that imports any file: `fuelroute import FILE`."""

import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.deploy.commands import NO_COMPANY, Cli
from tests.domain.fills.cards import EFS_HEADER, efs
from tests.factories import Fleet

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads
CASES = Path(__file__).parents[1] / "cases"
TRUCKS = ["Unit #,VIN,Make,Mileage", "301,1FUJGBDV8NLBT3011,Freightliner,98000", "302,short,Kenworth,1"]
TWO_KINDS = ["station_id,name,latitude,longitude,retail_price,net_price", "S1,Stop,41.5,-87.3,3.9,3.5"]


def test_a_list_of_trucks_goes_in_by_itself_and_again_changes_nothing(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str]
) -> None:
    company = ("--company", fleet.shown_company_id)
    file = csv_file(*TRUCKS)

    asked = cli("import", file, *company)
    assert (asked.status, "This is a file of vehicles" in asked.out) == (1, True)
    assert "give --yes, or --as vehicles" in asked.err
    assert "line 3 would be refused" in asked.err
    assert "Columns that are not used: Mileage." in asked.err

    taken = cli("import", file, *company, "--yes", "--json")
    assert (taken.status, taken.document["kind"], taken.document["created"]) == (2, "vehicles", 1)
    again = cli("import", csv_file(*TRUCKS[:2]), *company, "--yes")
    assert (again.status, "all of it is stored already: 1 row" in again.out) == (0, True)


def test_a_look_says_what_the_file_is_and_stores_nothing(cli: Cli, fleet: Fleet, csv_file: Callable[..., str]) -> None:
    look = cli("import", csv_file(EFS_HEADER, efs()), "--company", fleet.shown_company_id, "--look", "--json").document

    assert (look["kind"], look["profile"], look["sure"]) == ("fills", "efs", True)
    row = look["rows"][0]
    assert (row["gallons"], row["paid"], row["currency"]) == ("100", "345.50", "USD")
    assert cli("fills", "list", "--company", fleet.shown_company_id).out == "no fill\n"


@pytest.mark.parametrize(
    ("heading", "day", "is_told"),
    [
        ("Tran Date,Tran Time", "2026-11-20,14:05", False),
        ("Transaction Date/Time", "11/20/2026 2:05:00 PM", False),  # one column for both
        ("Tran Date", "11/20/2026", True),
        ("Tran Date,Tran Time", "2026-11-20,", True),
    ],
)
def test_a_look_tells_that_purchases_have_no_time_of_day(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str], heading: str, day: str, is_told: bool
) -> None:
    columns = "Unit,Location Name,City,State,Item,Qty,Amt"
    file = csv_file(f"{heading},{columns}", f"{day},101,Pilot,Loxley,AL,ULSD,100,389.90")

    look = cli("import", file, "--company", fleet.shown_company_id, "--look", "--json").document

    assert any("no time of day" in one for one in look["unclear"]) is is_told


@pytest.mark.parametrize(
    ("column", "cells", "is_told"),
    [
        ("Amt", "MB,642.18", True),
        ("Amt (CAD)", "MB,642.18", False),
        ("Amt,Currency", "MB,642.18,CAD", False),
        ("Amt,GST", "MB,642.18,21.40", False),
        ("Amt", "AL,642.18", False),
    ],
)
def test_a_look_tells_that_nothing_says_the_currency_of_canada(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str], column: str, cells: str, is_told: bool
) -> None:
    state, _, amount = cells.partition(",")
    file = csv_file(
        f"Tran Date,Tran Time,Unit,City,Item,Litres,State,{column}",
        f"2026-11-20,14:05,101,Anywhere,ULSD,400,{state},{amount}",
    )

    look = cli("import", file, "--company", fleet.shown_company_id, "--look", "--json").document

    assert any("currency of purchases in Canada" in one for one in look["unclear"]) is is_told


def test_the_currency_that_a_person_has_said_is_remembered(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str]
) -> None:
    columns = "Tran Date,Tran Time,Unit,City,Item,Litres,State,Amt,Invoice"
    first = csv_file(columns, "2026-11-20,14:05,101,Anywhere,ULSD,400,MB,642.18,1")
    company = ("--company", fleet.shown_company_id)

    assert cli("import", first, *company, "--yes", "--json").document["created"] == 1
    answer = cli("import", first, *company, "--as", "fills", "--currency", "CAD", "--json").document
    (shown,) = [line for line in cli("fills", "list", *company).out.splitlines() if "642.18" in line]
    assert "CAD" in shown
    assert answer["updated"] == 1
    next_one = csv_file(columns, "2026-11-21,14:05,101,Anywhere,ULSD,400,MB,642.18,2")
    look = cli("import", next_one, *company, "--look", "--json").document

    assert [row["currency"] for row in look["rows"]] == ["CAD"]
    assert not any("currency" in one for one in look["unclear"])


@pytest.mark.parametrize(("days", "is_told"), [(-9, True), (1, False)])
def test_a_look_tells_that_loads_have_started_long_ago(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str], days: int, is_told: bool
) -> None:
    load = f"A,101,Ann Lee,{datetime.now(UTC) + timedelta(days=days):%Y-%m-%d} 08:00"
    columns = "Load #,Truck,Driver,Scheduled Start,Location Name,Latitude,Longitude"
    file = csv_file(columns, f"{load},Joliet,41.4,-88.1", f"{load},Newark,40.7,-74.1")

    look = cli("import", file, "--company", fleet.shown_company_id, "--look", "--json").document

    assert (look["kind"], len(look["rows"])) == ("routes", 1)
    assert any("loads that are delivered are pushed" in one for one in look["unclear"]) is is_told


def test_a_file_of_two_kinds_is_not_imported_until_somebody_decides_which_is_remembered(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str]
) -> None:
    company = ("--company", fleet.shown_company_id)
    file = csv_file(*TWO_KINDS)

    assert "choose one of prices, stations" in cli("import", file, *company, "--yes", "--json").sentence
    cli("import", file, *company, "--as", "prices", "--no-retail", "--json")
    look = cli("import", file, *company, "--look", "--json").document
    assert (look["kind"], look["sure"]) == ("prices", True)
    assert "was imported so before" in look["why"]


def test_the_column_that_a_person_names_is_remembered(cli: Cli, fleet: Fleet) -> None:
    routes = (str(CASES / "routes" / "appointments.csv"), "--company", fleet.shown_company_id, "--json")

    asked = cli("import", *routes, "--look").document
    named = cli("import", *routes, "--map", "scheduledStart=Appt Date").document
    known = cli("import", *routes, "--yes").document

    assert (asked["kind"], asked["rows"], asked["asked"]["scheduledStart"][0]) == ("routes", [], "Appt Date")
    assert "scheduledStart may be 'Appt Date'" in asked["unclear"][0]
    assert (named["created"], known["unchanged"]) == (2, 2)
    assert "--map is for files of routes" in cli("import", *routes, "--as", "fills", "--map", "vin=VIN").sentence


class Typed(io.StringIO):
    """Lines that a person types at a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_person_at_the_terminal_is_asked_for_the_kind_and_the_column(
    cli: Cli, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = ("import", str(CASES / "routes" / "appointments.csv"), "--company", fleet.shown_company_id)

    monkeypatch.setattr(sys, "stdin", Typed("routes\n1\nn\n"))
    refused = cli(*routes)
    monkeypatch.setattr(sys, "stdin", Typed("trips\nroutes\n1\ny\n"))
    done = cli(*routes)

    assert (refused.status, "nothing is imported" in refused.err) == (1, True)
    assert "choose one of the list, by its name or number" in done.err
    assert "1  Appt Date" in done.err
    assert "Which column is the start (scheduledStart)?" in done.err
    assert (done.status, "This is a file of routes" in done.out, "2 created" in done.out) == (0, True, True)


@pytest.mark.parametrize(
    ("case", "more", "sentence"),
    [
        ("kinds/signed_out.csv", (), "download the file again"),
        ("fills/dkv.csv", ("--yes",), "choose one of vehicles"),
        ("fills_identity/wex_posted.csv", ("--as", "fills"), "fit the profiles efs and fleet-one"),
        ("fleet/trucks.csv", ("--as", "lorries"), "there is no kind 'lorries'"),
        ("fleet/trucks.csv", ("--profile", "efs"), "say with --as"),
        ("routes/samsara_upload.csv", ("--as", "routes"), "the file lacks columns"),
        ("no_such_file.csv", (), "cannot read"),
    ],
)
def test_what_cannot_be_imported_is_told_in_a_sentence(
    cli: Cli, fleet: Fleet, case: str, more: tuple[str, ...], sentence: str
) -> None:
    result = cli("import", str(CASES / case), "--company", fleet.shown_company_id, *more, "--json")

    assert sentence in result.sentence


def test_a_foreign_company_and_a_missing_one_are_told(cli: Cli) -> None:
    trucks = str(CASES / "fleet" / "trucks.csv")

    assert "no company" in cli("import", trucks, "--company", NO_COMPANY, "--yes", "--json").sentence
    assert "say which one" in cli("import", trucks, "--yes", "--json").sentence
