"""Records are listed, shown and taken away, and what is taken away can be imported again."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from domain.database.connections import Database
from domain.stations.stations import store_station_rows
from tests.deploy.commands import NO_COMPANY, Cli
from tests.factories import STATIONS, Fleet

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

OF_COMPANY = ("vehicles", "drivers", "deals")


@pytest.fixture
def all_kinds(cli: Cli, fleet: Fleet, database: Database, now: datetime, csv_file: Callable[..., str]) -> None:
    """A company with records of every kind."""
    with database.transaction() as connection:
        store_station_rows(connection, STATIONS, now=now)
    company = ("--company", fleet.shown_company_id)
    for kind, lines in {
        "drivers": ("name,contact", "Cy Wu,mailtos://u:secret@example.com"),
        "deals": ("brand,net_price,valid_from", "Roadhawk,3.1,2026-01-01"),
        "taxes": ("state,rate_per_gallon,valid_from", "OH,0.47,2026-01-01"),
    }.items():
        assert cli(kind, "import", *(company if kind in OF_COMPANY else ()), csv_file(*lines)).status == 0


@pytest.mark.usefixtures("all_kinds")
@pytest.mark.parametrize("kind", ["vehicles", "drivers", "deals", "stations", "taxes"])
def test_an_export_is_imported_again_and_changes_nothing(cli: Cli, fleet: Fleet, tmp_path: Path, kind: str) -> None:
    company = ("--company", fleet.shown_company_id) if kind in OF_COMPANY else ()
    file = tmp_path / "export.csv"
    assert cli(kind, "export", *company, str(file)).status == 0
    assert cli(kind, "export", *company, "-").out.splitlines() == file.read_text().splitlines()
    assert "secret" not in file.read_text()

    report = cli(kind, "import", *company, str(file), "--json").document

    assert (report["created"], report["updated"], report["rejected"]) == (0, 0, [])
    assert report["unchanged"] == len(file.read_text().splitlines()) - 1 > 0


@pytest.mark.usefixtures("all_kinds")
@pytest.mark.parametrize("kind", ["companies", "vehicles", "drivers", "deals", "stations", "taxes"])
def test_each_record_of_a_list_is_shown_by_its_key(cli: Cli, fleet: Fleet, kind: str) -> None:
    company = ("--company", fleet.shown_company_id) if kind in OF_COMPANY else ()
    listed = cli(kind, "list", *company, "--limit", "1", "--json").document
    (first,) = listed["data"]
    names = {"stations": ("station_id",), "taxes": ("state", "valid_from")}.get(kind, ("id",))
    key = [str(first[name]) for name in names]

    assert cli(kind, "show", *company, *key, "--json").document == first
    shown = cli(kind, "show", *company, *key).out
    assert all(name.replace("_", " ") in shown for name in first)
    assert "secret" not in shown
    assert key[0] in cli(kind, "list", *company, "--limit", "1").out
    unknown = ["nobody", *key[1:]]
    assert f"see `fuelroute {kind} list`" in cli(kind, "show", *company, *unknown).sentence


def test_a_list_is_searched_and_has_pages(cli: Cli, fleet: Fleet) -> None:
    of_company = ("vehicles", "list", "--company", fleet.shown_company_id)
    assert cli(*of_company).out.splitlines()[-1] == "2 vehicles"
    assert cli(*of_company, "--limit", "1").out.splitlines()[-1] == "1 of 2 vehicles"
    second = cli(*of_company, "--limit", "1", "--offset", "1", "--json").document
    assert ([one["unit_number"] for one in second["data"]], second["total"], second["has_more"]) == (["102"], 2, False)
    assert [one["id"] for one in cli(*of_company, "--search", "102", "--json").document["data"]] == [
        fleet.shown_trucks[1]
    ]
    assert [one["burn"] for one in second["data"]] == [
        {"mpg": 6.5, "kind": "declared", "text": "6.5 mpg, from the vehicle"}
    ]
    assert cli(*of_company, "--retired").out.splitlines()[-1] == "0 vehicles"


def test_a_lost_company_is_found_by_its_name(cli: Cli) -> None:
    made = cli(
        "companies", "create", "--name", "Lost & Found 7", "--message-url", "mailtos://u:secret@example.com", "--json"
    ).document

    (found,) = cli("companies", "list", "--search", "found 7", "--json").document["data"]

    assert (found["id"], found["has_message_url"]) == (made["id"], True)
    assert "secret" not in str(found)


def test_the_lists_of_an_unknown_company_say_so(cli: Cli) -> None:
    for kind in OF_COMPANY:
        assert "there is no company" in cli(kind, "list", "--company", NO_COMPANY).sentence
    assert "cannot write" in cli("stations", "export", "/nowhere/stations.csv").sentence
