"""The page IFTA: the quarter of the company, its figures, and its file."""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from domain.ifta import driven_routes
from domain.ifta.filings import compare_filing
from domain.ifta.quarters import Quarter
from domain.ifta.report import make_quarter_report
from domain.lifecycle import Role
from domain.stations.taxes import TaxRow, delete_tax, store_tax
from ingress.console.pages.money.ifta import MOST_ROUTES
from tests.domain.burn.trips import card_fill
from tests.domain.helpers import driven_without_a_plan
from tests.factories import DOT, Fleet
from tests.ingress.console.conftest import Fields, World, words
from tests.ingress.console.records import seen_on

AUTUMN = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
def driven(world: World) -> Fleet:
    """A company with a route that was driven from Joliet to Newark in 2026Q4."""
    fleet = world.new_fleet(time_zone="America/Chicago")
    with world.database.transaction() as connection:
        driven_without_a_plan(connection, fleet, AUTUMN)
    return fleet


def test_a_quarter_s_states_are_those_of_the_report(world: World, driven: Fleet) -> None:
    with world.database.transaction() as connection:
        found = driven_routes.find_quarter_routes(connection, driven.company_id, Quarter(2026, 4))
        report = make_quarter_report(connection, found, now=datetime.now(UTC))
    browser = world.browser(Role.VIEWER, driven)
    page = words(browser.look("/ifta", quarter="2026Q4"))
    assert "Planned, not bought" in page
    assert "1 leg of 1 route, Oct 1, 2026 to Dec 31, 2026 (America/Chicago)" in page
    assert "1 leg without a plan" in page
    answer = browser.get("/ifta.csv", params={"quarter": "2026Q4"})
    assert answer.headers["content-disposition"] == 'attachment; filename="ifta-2026Q4.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [(row["state"], float(row["miles"])) for row in rows] == [(line.state, line.miles) for line in report.states]
    for line in report.states:
        assert f"{line.state} {line.miles:,.2f} {line.gallons_burned:,.2f}" in page
    assert f"All {report.totals.miles:,.2f}" in page


@pytest.fixture
def rate_of_indiana(world: World) -> Iterator[None]:
    """A rate for one of the states. All companies share it, so it ends with the test."""
    row = TaxRow("IN", 0.61, date(2026, 10, 1))
    with world.database.transaction() as connection:
        store_tax(connection, None, row, DOT, now=datetime.now(UTC))
    yield
    with world.database.transaction() as connection:
        delete_tax(connection, row.state, row.valid_from, DOT, now=datetime.now(UTC))


@pytest.mark.usefixtures("rate_of_indiana")
def test_a_tax_is_told_in_dollars(world: World, driven: Fleet) -> None:
    page = words(world.browser(Role.VIEWER, driven).look("/ifta", quarter="2026Q4"))
    assert "$0.6100 $0.0000 $" in page


def test_fills_are_shown_beside_a_tax_that_is_not_known(world: World, driven: Fleet) -> None:
    with world.database.transaction() as connection:
        card_fill(connection, driven, driven.live, AUTUMN, 60.0)
        connection.execute("UPDATE fills SET state = 'OH' WHERE company_id = %s", (driven.company_id,))
    _, _, with_fills = words(world.browser(Role.VIEWER, driven).look("/ifta", quarter="2026Q4")).partition(
        "With the fills of fuel cards"
    )
    assert "All 0.00 60.00 60.00 not known" in with_fills


def test_the_quarter_before_this_one_is_shown_first(world: World) -> None:
    browser = world.browser(Role.VIEWER)
    page = browser.look("/ifta")
    today = datetime.now(UTC)
    last = Quarter(today.year, (today.month + 2) // 3 - 1) if today.month > 3 else Quarter(today.year - 1, 4)
    assert f"<option selected>{last}</option>" in page
    assert page.count("<option") == 8
    assert f"No leg was driven in {last}." in words(page)


def test_another_company_s_miles_are_left_out(world: World, driven: Fleet) -> None:
    assert driven.company_id
    for role in (Role.VIEWER, Role.OWNER):
        assert "No leg was driven in 2026Q4" in words(world.browser(role).look("/ifta", quarter="2026Q4"))
    assert world.browser().get("/ifta").headers["location"] == "/sign-in?next=/ifta"
    assert world.browser(Role.OPERATOR).get("/ifta.csv").headers["location"] == "/companies"


_DRIVE_AGAIN = """
    WITH copies AS (
        INSERT INTO routes
        SELECT (jsonb_populate_record(driven, jsonb_build_object(
            'id', gen_random_uuid(), 'external_id', 'again ' || number))).*
        FROM routes driven, generate_series(1, %(times)s) number
        WHERE driven.company_id = %(company_id)s
        RETURNING id, company_id, environment, arrived_at)
    INSERT INTO visits (company_id, environment, route_id, stop, arrived_at)
    SELECT company_id, environment, id, stop, arrived_at FROM copies, generate_series(0, 1) stop
"""
"""Drives the one route of a company that often again."""


def test_a_report_of_many_routes_names_the_command_instead(world: World, driven: Fleet) -> None:
    with world.database.transaction() as connection:
        connection.execute(_DRIVE_AGAIN, {"company_id": driven.company_id, "times": MOST_ROUTES})
    browser = world.browser(Role.VIEWER, driven)
    page = words(browser.look("/ifta", quarter="2026Q4"))
    assert f"fuelroute ifta report --company {driven.shown_company_id} --quarter 2026Q4 --csv ifta.csv" in page
    answer = browser.get("/ifta.csv", params={"quarter": "2026Q4"})
    assert (answer.status_code, "Make it with the command" in answer.text) == (400, True)


@pytest.mark.parametrize("path", ["/ifta", "/ifta.csv"])
@pytest.mark.parametrize("quarter", ["2026Q5", "0001Q1", "next", "２０２６Q1", "2026Q4\n2026Q1", "'; --"])
def test_an_unreadable_quarter_is_refused_with_a_sentence(world: World, path: str, quarter: str) -> None:
    answer = world.browser(Role.VIEWER).get(path, params={"quarter": quarter})
    assert (answer.status_code, "Go back and choose one, such as 2026Q4." in answer.text) == (400, True)


def test_an_owner_marks_a_quarter_as_filed_and_reopens_it_with_a_reason(world: World) -> None:
    fleet = world.new_fleet(time_zone="America/Chicago")
    today = datetime.now(UTC)
    this_quarter = Quarter.of((today - timedelta(days=1)).date())  # Chicago's day, or the one before
    quarter = Quarter.of(this_quarter.first_day - timedelta(days=1))
    at = datetime(quarter.first_day.year, quarter.first_day.month, 20, tzinfo=UTC)
    with world.database.transaction() as connection:
        driven_without_a_plan(connection, fleet, at)
    viewer, owner, which = world.browser(Role.VIEWER, fleet), world.browser(Role.OWNER, fleet), str(quarter)
    assert "Mark the quarter as filed" not in viewer.look("/ifta", quarter=which)
    assert viewer.submit("/ifta/file", quarter=which, reason="so").status_code == 403
    assert owner.submit("/ifta/file", quarter=which, reason=" ").status_code == 400
    assert owner.submit("/ifta/file", reason="no quarter is named").status_code == 400

    form: Fields = {"quarter": which, "reason": "confirmation 4711", "seen": seen_on(owner, f"/ifta?quarter={which}")}
    with world.database.transaction() as connection:
        connection.execute(_DRIVE_AGAIN, {"company_id": fleet.company_id, "times": 1})
    refused = owner.submit("/ifta/file", **form)
    assert (refused.status_code, "The figures have changed since" in refused.text) == (409, True)
    assert "Marked as filed" not in owner.look("/ifta", quarter=which)
    form["seen"] = seen_on(owner, f"/ifta?quarter={which}")
    assert owner.submit("/ifta/file", **form).status_code == 303
    before = viewer.get("/ifta.csv", params={"quarter": which}).text
    with world.database.transaction() as connection:
        connection.execute("DELETE FROM visits WHERE company_id = %s AND stop = 1", (fleet.company_id,))
        compare_filing(connection, fleet.company_id, quarter, fills_kept_days=None, now=today)
    page = words(viewer.look("/ifta", quarter=which))
    assert "Marked as filed by" in page
    assert "OH -" in page
    assert "look whether the return has to be amended" in page
    assert viewer.get("/ifta.csv", params={"quarter": which}).text == before
    assert owner.submit("/ifta/file", quarter=which, reason="again").status_code == 409

    assert owner.submit("/ifta/reopen", quarter=which, reason="to amend it").status_code == 303
    assert viewer.get("/ifta.csv", params={"quarter": which}).text != before
