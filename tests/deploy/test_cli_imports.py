"""Commands that import files, add mappings and list messages."""

import re
from collections.abc import Callable
from datetime import datetime
from os import mkfifo
from pathlib import Path
from typing import Any

import pytest

from domain.database.connections import Database
from domain.ids import shown_id
from domain.queue.job_queue import JobQueue
from domain.settings import get_settings
from domain.wording import counted
from tests.deploy.commands import Cli
from tests.domain.fills.cards import EFS_HEADER, efs
from tests.domain.helpers import deliver, imported, planned_by_hand
from tests.factories import Fleet

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads
IMPORTS = [
    ("vehicles", ["unit_number,vin,mpg", "201,1XKAD49X0CJ000201,6.5", "202,short,7"]),
    ("drivers", ["name,external_id", "Cy Oh,D-9", ",D-10"]),
    ("deals", ["station_id,brand,discount_per_gallon,net_price", "S1,,0.25,", "S2,,,"]),
]


@pytest.mark.parametrize(("what", "lines"), IMPORTS)
def test_an_import_with_refused_rows_keeps_the_others_and_exits_with_2(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str], what: str, lines: list[str]
) -> None:
    result = cli(what, "import", "--company", fleet.shown_company_id, csv_file(*lines), "--json")

    assert result.status == 2
    assert {name: result.document[name] for name in ("created", "updated", "unchanged")} == {
        "created": 1,
        "updated": 0,
        "unchanged": 0,
    }
    (rejected,) = result.document["rejected"]
    assert rejected["line"] == 3
    assert rejected["message"]


@pytest.mark.parametrize(("what", "lines"), IMPORTS)
def test_an_import_prints_what_it_did_and_which_lines_it_refused(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str], what: str, lines: list[str]
) -> None:
    refused = cli(what, "import", "--company", fleet.shown_company_id, csv_file(*lines))
    assert refused.status == 2
    assert refused.out == f"{what}: 1 created, 0 updated, 0 unchanged\n"
    assert "line 3: " in refused.err

    clean = cli(what, "import", "--company", fleet.shown_company_id, csv_file(*lines[:2]))
    assert (clean.status, clean.out) == (0, f"{what}: 0 created, 0 updated, 1 unchanged\n")


@pytest.mark.parametrize("what", [what for what, _ in IMPORTS])
def test_an_empty_file_is_told(cli: Cli, fleet: Fleet, csv_file: Callable[..., str], what: str) -> None:
    told = cli(what, "import", "--company", fleet.shown_company_id, csv_file("", "")).sentence

    assert "is empty; its first line must name the columns" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ("import", "--company", "COMPANY"),
        ("vehicles", "import", "--company", "COMPANY"),
        ("stations", "import"),
        ("prices", "import", "--company", "COMPANY"),
        ("fills", "import", "--company", "COMPANY"),
        ("push", "--dry-run"),
    ],
)
def test_a_pipe_or_a_device_is_not_imported(cli: Cli, fleet: Fleet, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """They are read more than once, and /dev/zero never ends."""
    mkfifo(tmp_path / "pipe")
    given = [fleet.shown_company_id if one == "COMPANY" else one for one in arguments]

    for file in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path)):
        assert f"{file} is a folder, a pipe or a device: give a file" in cli(*given, file).sentence


def test_the_card_and_the_chain_are_recognized_by_the_headings(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str]
) -> None:
    card = csv_file(EFS_HEADER, efs())
    shown = cli("fills", "import", "--company", fleet.shown_company_id, card)
    again = cli("fills", "import", "--company", fleet.shown_company_id, card, "--json")
    chain = csv_file("Store No.,City,State,Retail Price,Best Discounted Price", "99801,Gary,IN,4.1,3.9")
    prices = cli("prices", "import", "--company", fleet.shown_company_id, "--no-retail", chain)
    unknown = cli("fills", "import", "--company", fleet.shown_company_id, csv_file("When,Truck", "1,2"))

    assert "read as: EFS" in shown.out
    assert again.document["profile"] == "efs"
    assert "read by the profile loves" in prices.out
    assert (unknown.status, "no profile fits this file" in unknown.err) == (1, True)


def test_a_refused_row_names_no_column_when_no_single_one_is_at_fault(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str]
) -> None:
    result = cli("vehicles", "import", "--company", fleet.shown_company_id, csv_file("unit_number,vin,mpg", ",,6.5"))

    assert result.err.splitlines() == [
        "line 2: unit_number or vin is needed",
        "1 row was refused; the others are imported",
    ]


@pytest.mark.parametrize(("count", "said"), [(0, "0 routes"), (1, "1 route"), (2, "2 routes")])
def test_a_count_of_one_is_printed_in_the_singular(count: int, said: str) -> None:
    assert counted(count, "route") == said
    assert counted(count, "row was", "rows were").endswith("row was" if count == 1 else "rows were")


def test_taxes_are_imported_for_all_companies(cli: Cli, csv_file: Callable[..., str]) -> None:
    lines = ["state,rate_per_gallon,valid_from", "ZZ,0.74,2026-01-01", "Illinois,0.74,2026-01-01"]

    result = cli("taxes", "import", csv_file(*lines), "--json")

    assert (result.status, [row["line"] for row in result.document["rejected"]]) == (2, [3])
    assert "2 rows" not in cli("taxes", "import", csv_file(*lines[:2])).err
    assert cli("taxes", "import", csv_file("state,rate_per_gallon")).status == 1


def test_the_objective_and_the_value_of_leftover_fuel_are_set(cli: Cli, fleet: Fleet) -> None:
    def set_(*options: str) -> Any:
        return cli("companies", "set", fleet.shown_company_id, *options, "--json")

    assert (set_().document["objective"], set_().document["leftover_value_per_gallon"]) == ("pump", 0)
    assert set_("--objective", "tax-adjusted").document["objective"] == "tax-adjusted"
    assert set_("--leftover-value-per-gallon", "2.5").document["leftover_value_per_gallon"] == 2.5
    assert set_("--objective", "cheapest").status == 2


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_stations_are_imported_for_all_companies(cli: Cli, csv_file: Callable[..., str], form: tuple[str, ...]) -> None:
    path = csv_file("station_id,name,latitude,longitude,retail_price", "cli-1,A,-50,10,3.5", "cli-2,B,-800,10,3.5")

    result = cli("stations", "import", path, *form)

    assert result.status == 2
    if form:
        assert [row["line"] for row in result.document["rejected"]] == [3]
    else:
        assert result.out.startswith("stations: ")


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_an_import_of_stations_counts_the_prices_that_it_removed(
    cli: Cli, csv_file: Callable[..., str], form: tuple[str, ...]
) -> None:
    header = "station_id,name,latitude,longitude,retail_price"
    rows = [f"cli-blank-{number},A,-50,{number}," for number in (1, 2)]
    cli("stations", "import", csv_file(header, *(f"{row}3.5" for row in rows)))

    told = cli("stations", "import", csv_file(header, *rows), *form)

    assert told.status == 0
    if form:
        assert told.document["removed"] == {"retail_price": 2}
        assert "removed" not in cli("stations", "import", csv_file(header, *rows), *form).document
    else:
        assert told.out == "stations: 0 created, 2 updated, 0 unchanged\n"
        assert "stored values that the file removed: retail_price of 2 rows\n" in told.err


def test_an_import_wakes_the_routes_that_waited(
    cli: Cli,
    fleet: Fleet,
    database: Database,
    jobs: JobQueue,
    csv_file: Callable[..., str],
    now: datetime,
) -> None:
    with database.transaction() as connection:
        imported(connection, fleet.live, now=now, vehicle={"unitNumber": "201"})

    assert cli("vehicles", "import", "--company", fleet.shown_company_id, csv_file("unit_number", "201")).status == 0

    assert jobs.backlog("imports") == 1


def test_an_import_succeeds_without_redis(
    cli: Cli,
    fleet: Fleet,
    database: Database,
    csv_file: Callable[..., str],
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with database.transaction() as connection:
        imported(connection, fleet.live, now=now, vehicle={"unitNumber": "201"})
    monkeypatch.setenv("FUELROUTE_REDIS_URL", "redis://127.0.0.1:9/0")

    result = cli("vehicles", "import", "--company", fleet.shown_company_id, csv_file("unit_number", "201"), "--json")

    assert (result.status, result.document["created"]) == (0, 1)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_mapping_prints_how_many_routes_waited_for_it(
    cli: Cli, fleet: Fleet, database: Database, now: datetime, form: tuple[str, ...]
) -> None:
    with database.transaction() as connection:
        imported(connection, fleet.live, now=now, vehicle={"unitNumber": "theirs"})

    result = cli(
        *("mappings", "add", "--company", fleet.shown_company_id, "--kind", "unit_number", "--value", "theirs"),
        *("--to", fleet.shown_trucks[0], *form),
    )

    assert result.status == 0
    if form:
        assert result.document == {
            "kind": "unit_number",
            "value": "theirs",
            "to": fleet.shown_trucks[0],
            "waiting_routes": 1,
        }
    else:
        assert f"'theirs' now means {fleet.shown_trucks[0]}; 1 held route is imported" in result.out


def test_messages_are_listed_with_their_text(cli: Cli, fleet: Fleet, database: Database, now: datetime) -> None:
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now)
        message_id = planned_by_hand(connection, route_id, now=now)
        deliver(connection, message_id, settings=get_settings(), now=now)

    (listed,) = cli("messages", "list", "--company", fleet.shown_company_id, "--json").document
    assert {name: listed[name] for name in ("id", "route_id", "driver_id", "status", "channel", "environment")} == {
        "id": shown_id("msg", message_id),
        "route_id": shown_id("rte", route_id),
        "driver_id": fleet.shown_drivers[0],
        "status": "sent",
        "channel": "outbox",
        "environment": "live",
    }
    assert "Lakeside Travel Plaza" in listed["text"]
    assert listed["sent_at"].endswith("Z")

    text = cli("messages", "list", "--company", fleet.shown_company_id).out
    assert "Lakeside Travel Plaza" in text
    assert re.search(r" sent \(outbox\)  \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ ", text)
    assert text.splitlines()[-1] == "1 message"


def test_lines_of_a_card_that_are_no_purchases_of_fuel_are_told_apart_from_refused_ones(
    cli: Cli, fleet: Fleet, csv_file: Callable[..., str]
) -> None:
    lines = [efs(), efs(invoice="2", item="STAX", qty="0", amount="6.10"), "Totals,,,,,,,,,,,,,,,100.00,,,345.50"]
    company = ("fills", "import", "--company", fleet.shown_company_id)
    first = cli(*company, csv_file(EFS_HEADER, *lines))
    assert first.status == 0
    assert "2 lines were passed over: no purchases of fuel" in first.out

    again = cli(*company, csv_file(EFS_HEADER, *lines, efs(date="never")), "--json")
    assert again.status == 2
    assert (again.document["unchanged"], again.document["passed_over"]) == (1, 2)
    assert [row["line"] for row in again.document["rejected"]] == [5]


def test_a_card_without_a_unit_is_assigned_once(cli: Cli, fleet: Fleet, csv_file: Callable[..., str]) -> None:
    company = ("--company", fleet.shown_company_id)
    cli("fills", "import", *company, csv_file(EFS_HEADER, efs(card="*0541", unit="")))
    (waiting,) = cli("fills", "review", *company, "--json").document["fills"]
    assert "card …0541 of ANN LEE" in waiting["open"]
    assert "ANN LEE" in cli("fills", "cards", *company).out

    assert cli("fills", "assign", *company, "0541").status == 1
    assert cli("fills", "assign", *company, "0541", "--unit", "nobody's").status == 1
    done = cli("fills", "assign", *company, "0541", "--unit", "101", "--from", "2026-01-01", "--json")

    assert done.document == {"card": "0541", "settled": 1}
    (assigned,) = cli("fills", "cards", *company, "--json").document["assigned"]
    assert (assigned["card"], assigned["from"], assigned["vehicle_id"]) == ("0541", "2026-01-01", fleet.shown_trucks[0])
    assert "unit 101" not in cli("fills", "review", *company).out
