"""Text that a TMS pushes, or that a file holds, reaches a terminal as text: it steers nothing and forges no line."""

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table

from deploy.explain import print_explanation
from deploy.terminal import Terminal
from domain.database.connections import Database
from domain.text import printable
from tests.deploy.commands import Cli
from tests.domain.helpers import imported, planned_by_hand
from tests.factories import Fleet

HOSTILE = "Yard\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnorw\u2066\r[red]x[/nothing]"
FORGED = f"{HOSTILE}\nrte_forged completed"


def steers(text: str) -> list[str]:
    return [character for character in text if character != "\n" and printable(character) != character]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ann Lee, 5% off: José Müller 東京 🚚", "Ann Lee, 5% off: José Müller 東京 🚚"),
        ("a\x1b[31mb", r"a\u001b[31mb"),
        ("a\r\nb\tc\x00", r"a\u000d\u000ab\u0009c\u0000"),
        ("\x9b\u202e\u2066\u2029\ud800", r"\u009b\u202e\u2066\u2029\ud800"),
    ],
)
def test_control_characters_are_printed_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def test_escaping_does_not_change_what_a_json_document_says() -> None:
    document = json.dumps({"name": FORGED}, ensure_ascii=False, indent=2)

    assert json.loads(printable(document, keep="\n")) == {"name": FORGED}
    assert steers(printable(document, keep="\n")) == []


def test_printed_text_never_controls_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(width=200, force_terminal=False)
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)

    terminal.print(HOSTILE, style="bold")
    terminal.print(table)
    terminal.rule(HOSTILE)

    printed = capsys.readouterr().out
    assert steers(printed) == []
    assert "[red]x[/nothing]" in printed


def test_output_to_a_terminal_keeps_its_colors(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal(width=80, force_terminal=True, color_system="standard").print("wrong", style="red")

    assert capsys.readouterr().out == "\x1b[31mwrong\x1b[0m\n"


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_pushed_text_is_harmless_in_the_output_of_every_command(
    cli: Cli,
    fleet: Fleet,
    database: Database,
    now: datetime,
    form: tuple[str, ...],
) -> None:
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now)
        planned_by_hand(connection, route_id, now=now)
        connection.execute("UPDATE messages SET text = %s WHERE route_id = %s", (HOSTILE, route_id))
    company = ("--company", fleet.shown_company_id)
    for command in (
        ("keys", "create", *company, "--name", FORGED, "--environment", "live", "--scope", "routes:read"),
        ("keys", "list", *company),
        ("messages", "list", *company),
        ("mappings", "add", *company, "--kind", "unit_number", "--value", FORGED, "--to", fleet.shown_trucks[0]),
        ("companies", "set", fleet.shown_company_id, "--name", FORGED),
    ):
        result = cli(*command, *form)

        assert result.status == 0, result.err
        assert steers(result.out + result.err) == [], command
        assert not [line for line in result.out.splitlines() if line.startswith("rte_forged")], command


def test_an_explanation_of_hostile_stations_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    candidate = {
        "mile": 1.0,
        "station_id": FORGED,
        "name": FORGED,
        "state": "TX",
        "net_price": 3.0,
        "adjusted_price": 3.0,
        "detour_miles_in": 0.1,
        "detour_miles_out": 0.1,
        "gallons": 0.0,
        "why": "dearer",
        "detail": f"{FORGED} costs less",
        "extra_cost": 1.0,
    }
    inputs = ["distance_miles", "capacity_gallons", "usable_gallons", "mpg", "start_gallons", "reserve_gallons"]
    inputs += ["margin_gallons"]
    inputs += ["end_gallons", "min_purchase_gallons", "stop_cost", "max_detour_miles", "leftover_value_per_gallon"]
    origin = {"source": FORGED, "at": None, "percent": 50.0, "fallback_reason": FORGED}
    prices: dict[str, Any] = {
        "imported_at": None,
        "oldest_at": None,
        "stations_left_out": {},
        "stations_without_tax_rate": 0,
    }
    sources = dict.fromkeys(("fuel", "position", "roads", "capacity_gallons", "mpg"), origin)
    moments = {"made_at": "2026-01-01T00:00:00+00:00", "departure": "2026-01-01T00:00:00+00:00"}
    explanation: Any = {
        "inputs": {**dict.fromkeys(inputs, 1.0), "max_stops": None, "objective": "pump"},
        "sources": {**sources, **moments, "prices": prices},
        "versions": [],
        "menu": [
            {
                **{"total_cost": 1.0, "extra_cost": 1.0, "extra_at_pumps": -1.0},
                **{"text": FORGED, "reason": FORGED, "status": "open", "station_ids": []},
            }
        ],
        "ends_early": None,
        "candidates_total": 1,
        "relaxed": [
            {"limit": "reserve_gallons", "policy": 30.0, "used": 1.0},
            {"limit": "highest_floor_gallons", "policy": 200.0, "used": 41.2},
        ],
        "mileage_error": {"share_percent": 5.0, "by_level": True, "margin_percent": 19.27},
        "candidates": [candidate],
        "infeasible": {"from_mile": 0.0, "to_mile": 1.0, "reason": FORGED},
    }

    print_explanation(explanation, Terminal(width=400))

    printed = capsys.readouterr().out
    assert steers(printed) == []
    assert not [line for line in printed.splitlines() if line.lstrip().startswith("rte_forged")]
    assert "-$1.00" in printed
    assert "1 candidate  never imported" in printed
    assert "1 candidate in the corridor" in printed
    assert "[red]x[/nothing]" in printed
    (reserve,) = [line.rstrip().split(None, 3) for line in printed.splitlines() if line.startswith("reserve ")]
    assert reserve == ["reserve", "1.0", "gal", "relaxed; the company's policy is 30"]
    explanation["inputs"]["reserve_gallons"], explanation["inputs"]["margin_gallons"] = 30.0, -12.0
    print_explanation(explanation, Terminal(width=400))
    printed += capsys.readouterr().out
    words = " ".join(printed.split())
    assert "until the first stop 18.0 gal relaxed; the company's policy is 30 reserve 30.0 gal the company's" in words
    assert "kept beyond it 19.27 % of the gallons since the stop before the company's policy: 5 % of trips may" in words
    assert "of that at most 41.2 gal in all relaxed, so that the truck reaches fuel" in words


def test_refused_rows_of_a_hostile_file_are_harmless(cli: Cli, fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text(f'unit_number,vin\n"{FORGED}",short\n"{FORGED}",1XKAD49X0CJ000201\n"{FORGED}",1XKAD49X0CJ000202\n')

    result = cli("vehicles", "import", "--company", fleet.shown_company_id, str(file))

    assert result.status == 2
    assert steers(result.out + result.err) == []
    assert not [line for line in result.err.splitlines() if line.startswith("rte_forged")]


def test_a_sentence_stays_one_line(cli: Cli) -> None:
    result = cli("drive", f"rte_{FORGED}")

    assert "\\x1b" in result.sentence


def test_stop_names_are_harmless_while_a_truck_drives(capsys: pytest.CaptureFixture[str]) -> None:
    """The names go through Rich's progress bar, which would take brackets for markup."""
    code = (
        "import sys; from rich.progress import Progress, TextColumn; from deploy.terminal import Terminal\n"
        "from domain.text import printable\n"
        "with Progress(TextColumn('{task.description:40.40}', markup=False), console=Terminal()) as bar:\n"
        "    bar.add_task(printable(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", code, HOSTILE], capture_output=True, text=True, check=True)

    assert steers(done.stdout) == []
    assert "\\u001b" in done.stdout
