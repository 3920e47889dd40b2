"""Commands that report fuel tax and savings."""

import csv
from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.database.connections import Database
from domain.ids import shown_id
from domain.lifecycle import RefusalReason
from domain.replay.portions import finish_replay, solve_next_portion
from domain.settings import Settings
from tests.deploy.commands import Cli
from tests.domain.driver_page.given import trip_with_plan
from tests.domain.helpers import deliver, driven_without_a_plan, imported, planned_by_hand
from tests.domain.planning.plans import NOW
from tests.domain.replay.driven import ask_for_replay
from tests.factories import Fleet

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


def test_the_miles_of_a_quarter_are_reported_by_state(
    cli: Cli, fleet: Fleet, database: Database, tmp_path: Path
) -> None:
    with database.transaction() as connection:
        driven_without_a_plan(connection, fleet, datetime(2026, 11, 20, 12, tzinfo=UTC))
    file = tmp_path / "ifta.csv"
    arguments = ("ifta", "report", "--company", fleet.shown_company_id, "--quarter", "2026Q4")

    shown, document = cli(*arguments, "--csv", str(file)), cli(*arguments, "--json").document

    assert shown.status == 0
    assert "planned, not bought" in shown.out
    assert "1 leg of 1 route in 2026Q4 (2026-10-01 to 2026-12-31, UTC)" in shown.out
    assert "1 leg without a plan" in shown.out
    assert f"wrote {file}" in shown.out.replace("\n", "")
    assert document["company_id"] == fleet.shown_company_id
    assert (document["basis"].partition(":")[0], document["legs_without_plan"]) == ("planned, not bought", 1)
    assert {line["state"] for line in document["states"]} == {"IL", "IN", "OH", "PA", "NJ"}
    assert document["totals"]["miles"] == pytest.approx(sum(line["miles"] for line in document["states"]))
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["state"] for row in rows] == [line["state"] for line in document["states"]]
    assert [float(row["miles"]) for row in rows] == [line["miles"] for line in document["states"]]
    assert {row["quarter"] for row in rows} == {"2026Q4"}
    for row in rows:
        assert row["state"] in shown.out


def test_the_report_of_a_quarter_without_driven_miles_says_so(cli: Cli, fleet: Fleet) -> None:
    arguments = ("ifta", "report", "--company", fleet.shown_company_id, "--quarter", "2025Q1")

    assert cli(*arguments).out == "no leg was driven in 2025Q1\n"
    assert cli(*arguments, "--json").document["states"] == []
    ahead = cli("ifta", "report", "--company", fleet.shown_company_id, "--quarter", "2099Q4").out
    assert ahead == "no leg was driven in 2099Q4 so far: the quarter is not over\n"


def test_a_quarter_is_filed_compared_and_reopened(cli: Cli, fleet: Fleet, database: Database) -> None:
    with database.transaction() as connection:
        driven_without_a_plan(connection, fleet, datetime(2026, 8, 20, 12, tzinfo=UTC))
    which = ("--company", fleet.shown_company_id, "--quarter", "2026Q3")
    assert "is not filed" in cli("ifta", "compare", *which).err
    assert "2026Q3 is filed" in cli("ifta", "file", *which, "--reason", "confirmation 4711").out
    assert "nothing has changed" in cli("ifta", "compare", *which).out
    assert cli("ifta", "report", *which, "--json").document["filed"]["changes"] == []
    assert "is open again" in cli("ifta", "reopen", *which, "--reason", "to amend it").out
    assert "filed" not in cli("ifta", "report", *which, "--json").document


def send_live(database: Database, fleet: Fleet, settings: Settings, load: str, saved: float) -> None:
    """An active live route of truck 101, with a plan of November 20 that its driver has."""
    planned_at = datetime(2026, 11, 20, 12, tzinfo=UTC)
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=planned_at, externalId=load)
        message_id = planned_by_hand(connection, route_id, now=planned_at, savingsTotal=saved)
        deliver(connection, message_id, settings=settings, now=planned_at)


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads
def test_the_savings_of_plans_are_reported(
    cli: Cli, fleet: Fleet, database: Database, settings: Settings, tmp_path: Path
) -> None:
    send_live(database, fleet, settings, "=LOAD1", 31.5)
    send_live(database, fleet, settings, "=LOAD2", 10.07)
    file = tmp_path / "savings.csv"
    arguments = ("savings", "report", "--company", fleet.shown_company_id, "--from", "2026-11-01", "--to", "2026-11-30")

    for by in ("week", "truck", "driver", "lane", "plan"):
        shown, document = (
            cli(*arguments, "--by", by, "--csv", str(file)),
            cli(*arguments, "--by", by, "--json").document,
        )
        assert shown.status == 0
        assert "planned, not bought" in shown.out
        assert "2 plans from 2026-11-01 to 2026-11-30 (UTC)" in shown.out
        assert "41.57" in shown.out
        assert document["totals"]["saved"] == 41.57
        assert sum(line["saved"] for line in document["lines"]) == pytest.approx(41.57)
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        assert [float(row["saved"]) for row in rows] == [line["saved"] for line in document["lines"]]
    assert {row["external_id"] for row in rows} == {"'=LOAD1", "'=LOAD2"}
    assert cli(*arguments, "--environment", "sandbox").out == "no plan counts from 2026-11-01 to 2026-11-30\n"


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
def test_a_statement_of_savings_is_made_once_and_shown(
    cli: Cli, fleet: Fleet, database: Database, settings: Settings, tmp_path: Path
) -> None:
    planned_at = datetime(2026, 9, 20, 12, tzinfo=UTC)
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=planned_at)
        deliver(
            connection,
            planned_by_hand(connection, route_id, now=planned_at, savingsTotal=31.5),
            settings=settings,
            now=planned_at,
        )
        connection.execute("UPDATE habit_costs SET driven_at = planned_at WHERE route_id = %s", (route_id,))
        connection.execute("UPDATE savings SET chosen_cents = 450 WHERE route_id = %s", (route_id,))
    pdf, lines = tmp_path / "savings.pdf", tmp_path / "savings.csv"
    arguments = ("savings", "statement", "--company", fleet.shown_company_id, "--month", "2026-09")
    assert "has no statement" in cli(*arguments).err
    document = cli(*arguments, "--make", "--pdf", str(pdf), "--csv", str(lines), "--json").document
    assert (document["totals"]["saved"], document["since_then"]) == (31.5, "nothing")
    assert document["totals"]["chosen_extra"] is None, "a statement does not keep what choices cost"
    assert pdf.read_bytes().startswith(b"%PDF")
    assert len(lines.read_text().splitlines()) == 2
    assert "never changes" in cli(*arguments, "--make").err
    shown = cli(*arguments).out
    assert "Saved as planned: $31.50" in shown
    assert "cheapest: Fills up at the cheapest truck stop that the tank still reaches." in shown


def test_the_compliance_of_drivers_is_reported(cli: Cli, fleet: Fleet, database: Database, tmp_path: Path) -> None:
    at, file = datetime(2026, 11, 20, 12, tzinfo=UTC), tmp_path / "compliance.csv"
    arguments = ("compliance", "report", "--company", fleet.shown_company_id, "--from", "2026-11-01")
    assert cli(*arguments, "--to", "2026-11-30").out == "no fuel stop was told from 2026-11-01 to 2026-11-30\n"
    with database.transaction() as connection:
        trip = trip_with_plan(connection, fleet.live, now=at)
        connection.execute("UPDATE plans SET station_ids = '{A,B}' WHERE id = %s", (trip.plan_id,))
        trip.take(trip.refused(RefusalReason.QUEUE))
        connection.execute(
            "UPDATE driver_answers SET left_out_until = %s, station_id = 'A' WHERE route_id = %s", (at, trip.route_id)
        )

    for by, first in (("chain", ""), ("reason", "queue"), ("choice", "planned"), ("driver", "Ann Lee")):
        document = cli(*arguments, "--to", "2026-11-30", "--by", by, "--json").document
        (line,) = document["lines"]
        assert line["name" if by == "driver" else by] == first
        assert (line["stops"], line["refused"], line["followed_percent"]) == (1, 1, 0.0)
    shown = cli(*arguments, "--to", "2026-11-30", "--by", "stop", "--csv", str(file))
    assert "Lakeside" in shown.out
    with file.open(newline="") as lines:
        assert [row["outcome"] for row in csv.DictReader(lines)] == ["refused"]


def test_a_finished_replay_is_shown_again_and_written(
    cli: Cli, fleet: Fleet, database: Database, tmp_path: Path
) -> None:
    with database.transaction() as connection:
        replay_id = ask_for_replay(connection, fleet, now=NOW, trips=2)
    while solve_next_portion(database.transaction, replay_id, now=NOW) is not None:
        pass
    assert finish_replay(database.transaction, replay_id, now=NOW)
    file = tmp_path / "trips.csv"
    arguments = ("replay", "--company", fleet.shown_company_id, "--id", shown_id("rpl", replay_id))
    document = cli(*arguments, "--csv", str(file), "--json").document
    assert (document["status"], document["trips"], document["compared"]) == ("finished", 2, 2)
    with file.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert sum(float(row["costs_more"]) for row in rows) == pytest.approx(document["costs_more"])
    shown = cli(*arguments).out
    assert "after: without-deal=all" in shown
    assert "2 trips compared" in shown
