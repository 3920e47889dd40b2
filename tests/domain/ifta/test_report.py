"""The report of a quarter, from routes that were pushed, planned and driven, and whose plans retention deleted."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from domain.accounts.companies import UnknownCompany
from domain.database.connections import Connection
from domain.housekeeping import retention
from domain.ids import new_id
from domain.ifta.driven_routes import find_quarter_routes
from domain.ifta.quarters import Quarter, UnknownQuarter
from domain.ifta.report import QuarterReport, make_quarter_report
from domain.planning import stored_plans
from domain.planning.fuel_plan import ComputedPlan
from domain.planning.plan_tasks import load_plan_task, road_ahead
from domain.roads.highways import HighwayRoads
from domain.routes import transitions
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, store_pushes
from domain.routes.plans import first_plan
from domain.settings import Settings
from domain.stations.corridor_offers import StationPlaces, offers_along
from domain.stations.stations import store_station_rows
from domain.stations.taxes import store_tax_rows
from tests.domain.helpers import deliver, driven_without_a_plan, imported, route_row
from tests.domain.trucks import hours, minutes, stand_at
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet, route_input
from tests.rows import named

DEMO = Path(__file__).parents[3] / "deploy" / "demo"
STOPS = [JOLIET, PERRYSBURG, NEWARK]
NEW_YEAR = datetime(2027, 1, 1, 6, tzinfo=UTC)
"""Midnight in Chicago, as UTC."""

Q4, Q1 = Quarter(2026, 4), Quarter(2027, 1)


@pytest.fixture
def fleet(connection: Connection) -> Fleet:
    connection.execute("DELETE FROM stations")
    connection.execute("DELETE FROM fuel_taxes")
    return make_fleet(connection, time_zone="America/Chicago")


@pytest.fixture
def taxes(connection: Connection, fleet: Fleet, csv_file: Callable[..., Path]) -> None:
    rates = ("IL,0.74,0,2026-01-01", "IN,0.61,0,2026-01-01", "OH,0.47,0,2026-01-01", "PA,0.74,0,2026-01-01")
    later = ("OH,0.99,0,2026-10-02", "NJ,0.57,0.10,2027-01-01")  # after the first day of the last quarter
    file = csv_file("state,rate_per_gallon,surcharge_per_gallon,valid_from", *rates, *later)
    store_tax_rows(connection, file, now=NEW_YEAR)


@pytest.fixture
def csv_file(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: str) -> Path:
        path = tmp_path / "rows.csv"
        path.write_text("\n".join([*lines, ""]))
        return path

    return write


def drive(
    connection: Connection, settings: Settings, fleet: Fleet, start: datetime, *, stops: int = 3
) -> tuple[UUID, ComputedPlan]:
    """A live route, planned at its first stop and driven to so many of its stops, nine hours apart."""
    store_station_rows(connection, DEMO / "stations.csv", now=start)
    route_id = imported(connection, fleet.live, now=start, start=start, stops=STOPS)
    stand_at(connection, settings, fleet, JOLIET, start)
    task = load_plan_task(connection, route_id, now=start + minutes(5))
    assert task is not None
    road = road_ahead(task, HighwayRoads())
    corridor = offers_along(connection, fleet.company_id, road, 5.0, StationPlaces(), now=start)
    plan = stored_plans.plan_for_task(task, road, corridor, now=start)
    assert isinstance(plan, ComputedPlan)
    first_plan.finish_plan(connection, task, corridor, plan, now=start + minutes(5))
    (message,) = named(connection).execute("SELECT id FROM messages WHERE route_id = %s", (route_id,)).fetchall()
    deliver(connection, message.id, settings=settings, now=start + minutes(6))
    for stop, place in enumerate(STOPS[1:stops], start=1):
        stand_at(connection, settings, fleet, place, start + hours(9 * stop))
    return route_id, plan


def report_of(connection: Connection, fleet: Fleet, quarter: Quarter, now: datetime = NEW_YEAR) -> QuarterReport:
    return make_quarter_report(connection, find_quarter_routes(connection, fleet.company_id, quarter), now=now)


def by_state(report: QuarterReport, column: str) -> dict[str, Any]:
    return {line.state: getattr(line, column) for line in report.states}


@pytest.mark.usefixtures("taxes")
def test_a_driven_route_counts_with_the_miles_and_gallons_of_its_plan(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    route_id, plan = drive(connection, settings, fleet, NEW_YEAR - hours(30))
    told: list[int] = []

    found = find_quarter_routes(connection, fleet.company_id, Q4)
    report = make_quarter_report(connection, found, now=NEW_YEAR, progress=told.append)

    assert found.route_ids == [route_id]
    assert told == [1]
    assert (report.quarter, report.first_day, report.last_day) == ("2026Q4", date(2026, 10, 1), date(2026, 12, 31))
    assert (report.routes, report.legs, report.legs_rebuilt, report.legs_without_plan) == (1, 2, 0, 0)
    assert report.ended
    assert set(by_state(report, "miles")) == {"IL", "IN", "OH", "PA", "NJ"}
    assert report.totals.miles == pytest.approx(plan.trip.distance_miles, abs=0.05)
    assert report.totals.gallons_burned == pytest.approx(plan.trip.distance_miles / 6.5, abs=0.05)
    assert report.totals.gallons_planned == pytest.approx(plan.total_gallons)
    (bought,) = {stop.station.state for stop in plan.stops}
    assert {state for state, gallons in by_state(report, "gallons_planned").items() if gallons} == {bought}


@pytest.mark.usefixtures("taxes")
def test_tax_is_owed_on_gallons_burned_and_only_the_rate_is_credited(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    drive(connection, settings, fleet, NEW_YEAR)

    report = report_of(connection, fleet, Q1, now=NEW_YEAR + timedelta(days=30))

    lines = {line.state: line for line in report.states}
    assert not report.ended
    for line in lines.values():
        assert line.tax_per_gallon is not None
        assert line.surcharge_per_gallon is not None
        credited = line.tax_per_gallon * (line.gallons_burned - line.gallons_planned)
        assert line.tax_dollars == pytest.approx(credited + line.surcharge_per_gallon * line.gallons_burned, abs=0.006)
    assert (lines["OH"].tax_per_gallon, lines["NJ"].surcharge_per_gallon) == (0.99, 0.10)
    assert any(line.gallons_planned > 0 for line in lines.values())
    assert report.totals.tax_dollars == pytest.approx(sum(line.tax_dollars or 0 for line in lines.values()))


@pytest.mark.usefixtures("taxes")
def test_rates_are_those_of_the_quarter_s_first_day(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    drive(connection, settings, fleet, NEW_YEAR - hours(30))

    report = report_of(connection, fleet, Q4)

    assert by_state(report, "tax_per_gallon") == {"IL": 0.74, "IN": 0.61, "NJ": None, "OH": 0.47, "PA": 0.74}
    assert by_state(report, "tax_dollars")["NJ"] is None
    assert report.totals.tax_dollars is None, "New Jersey is a member"


@pytest.mark.usefixtures("taxes")
def test_miles_of_no_member_leave_the_tax_known(
    connection: Connection, fleet: Fleet, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive(connection, settings, fleet, NEW_YEAR - hours(30))
    monkeypatch.setattr("domain.ifta.report.NO_MEMBERS", frozenset(("NJ",)))  # no road of the test leads to Mexico

    report = report_of(connection, fleet, Q4)

    taxes = [line.tax_dollars for line in report.states if line.state != "NJ"]
    assert report.totals.tax_dollars == pytest.approx(sum(tax for tax in taxes if tax is not None))
    assert report.totals.tax_credited_dollars is not None


def test_miles_on_a_ferry_owe_no_tax_and_leave_that_of_the_provinces_known(
    connection: Connection, fleet: Fleet, csv_file: Callable[..., Path]
) -> None:
    rates = ("NS,0.3,0,2026-01-01", "NL,0.2,0,2026-01-01")
    store_tax_rows(connection, csv_file("state,rate_per_gallon,surcharge_per_gallon,valid_from", *rates), now=NEW_YEAR)
    halifax, st_johns = {"latitude": 44.64, "longitude": -63.57}, {"latitude": 47.56, "longitude": -52.71}
    stops = [{"name": "Halifax", **halifax}, {"name": "St. John's", **st_johns}]
    driven_without_a_plan(connection, fleet, NEW_YEAR - hours(30), stops=stops)

    report = report_of(connection, fleet, Q4)

    taxes = by_state(report, "tax_dollars")
    assert taxes.pop("elsewhere") is None
    assert set(taxes) == {"NS", "NL"}
    assert report.totals.tax_dollars == pytest.approx(sum(taxes.values()))


def test_a_leg_over_new_year_counts_where_it_ends_in_the_company_s_time_zone(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    _, plan = drive(connection, settings, fleet, NEW_YEAR - hours(10))  # Perrysburg an hour before, Newark after

    old, new = (report_of(connection, fleet, quarter) for quarter in (Q4, Q1))

    assert (old.routes, old.legs, new.routes, new.legs) == (1, 1, 1, 1)
    assert set(by_state(old, "miles")) == {"IL", "IN", "OH"}
    assert set(by_state(new, "miles")) == {"OH", "PA", "NJ"}
    assert old.totals.miles + new.totals.miles == pytest.approx(plan.trip.distance_miles, abs=0.05)
    assert old.totals.gallons_planned + new.totals.gallons_planned == pytest.approx(plan.total_gallons)


def test_only_driven_legs_of_the_company_s_live_routes_count(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    start = NEW_YEAR - timedelta(days=3)
    route_id, _ = drive(connection, settings, fleet, start, stops=2)
    (timeline,) = named(connection).execute("SELECT timeline FROM plans WHERE route_id = %s", (route_id,)).fetchone()  # type: ignore[misc]
    mile = next(entry["mile"] for entry in timeline if entry["stop"] == 1)

    report = report_of(connection, fleet, Q4)

    assert (report.routes, report.legs) == (1, 1)
    assert report.totals.miles == pytest.approx(mile, abs=0.05)
    assert report_of(connection, make_fleet(connection), Q4).states == []
    for table in ("routes", "visits", "plans"):
        column = "id" if table == "routes" else "route_id"
        connection.execute(f"UPDATE {table} SET environment = 'sandbox' WHERE {column} = %s", (route_id,))
    assert report_of(connection, fleet, Q4).states == []


def test_a_plan_without_its_explanation_keeps_its_miles_and_gallons(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    route_id, plan = drive(connection, settings, fleet, NEW_YEAR - hours(30))
    before = report_of(connection, fleet, Q4)
    later = NEW_YEAR + timedelta(days=365)
    connection.execute("UPDATE routes SET updated_at = %s WHERE id = %s", (NEW_YEAR, route_id))
    assert retention.forget_explanations(connection, days=90, now=later, limit=1_000) >= 1

    report = report_of(connection, fleet, Q4, now=later)

    assert (report.legs, report.legs_rebuilt, report.legs_without_plan) == (2, 2, 0)
    assert report.totals.miles == pytest.approx(before.totals.miles, abs=0.05)
    assert report.totals.gallons_planned == pytest.approx(plan.total_gallons)
    assert by_state(report, "miles") == pytest.approx(by_state(before, "miles"), abs=3)
    assert by_state(report, "gallons_planned") == by_state(before, "gallons_planned")


def test_a_leg_without_a_plan_has_the_miles_of_the_embedded_roads(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    route_id, plan = drive(connection, settings, fleet, NEW_YEAR - hours(30))
    connection.execute("UPDATE messages SET status = 'failed' WHERE route_id = %s", (route_id,))
    connection.execute("UPDATE routes SET plan_id = NULL WHERE id = %s", (route_id,))

    report = report_of(connection, fleet, Q4)

    assert (report.legs, report.legs_rebuilt, report.legs_without_plan) == (2, 0, 2)
    assert report.totals.miles == pytest.approx(plan.trip.distance_miles, rel=0.01)
    assert report.totals.gallons_planned == 0


BOSTON = {"name": "Boston dock", "latitude": 42.361, "longitude": -71.057}


@pytest.mark.parametrize("stops", [STOPS, [JOLIET, BOSTON, PERRYSBURG, NEWARK], [JOLIET, PERRYSBURG, BOSTON]])
def test_a_purchase_counts_as_long_as_its_leg_does(
    connection: Connection, fleet: Fleet, settings: Settings, stops: list[dict[str, Any]]
) -> None:
    """A route ended in error on its way, and was pushed again with the same stops or others."""
    connection.execute("UPDATE companies SET assumed_fuel_percent = 20 WHERE id = %s", (fleet.company_id,))
    start = NEW_YEAR - hours(30)
    route_id, _ = drive(connection, settings, fleet, start, stops=2)
    before = report_of(connection, fleet, Q4)
    assert before.totals.gallons_planned > 0
    later = start + hours(11)

    transitions.end_routes(connection, [route_id], "it broke down", now=later)
    assert report_of(connection, fleet, Q4) == before
    again = route_input(start, externalId=route_row(connection, route_id).external_id, stops=stops)
    store_pushes(connection, [Push(fleet.live, again)], now=later)
    import_routes(connection, [route_id], now=later)

    assert report_of(connection, fleet, Q4) == before


def test_a_plan_from_before_the_route_started_again_does_not_count(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    start = NEW_YEAR - timedelta(days=9)
    route_id, _ = drive(connection, settings, fleet, start, stops=2)
    transitions.end_routes(connection, [route_id], "it broke down", now=start + hours(11))
    anew = start + timedelta(days=4)
    again = route_input(anew, externalId=route_row(connection, route_id).external_id, stops=STOPS)
    store_pushes(connection, [Push(fleet.live, again)], now=start + hours(12))
    import_routes(connection, [route_id], now=start + hours(12))
    assert report_of(connection, fleet, Q4).legs == 0

    stand_at(connection, settings, fleet, JOLIET, anew)
    stand_at(connection, settings, fleet, PERRYSBURG, anew + hours(9))

    report = report_of(connection, fleet, Q4)
    assert (report.legs, report.legs_without_plan, report.totals.gallons_planned) == (1, 1, 0)


def test_a_quarter_in_which_nothing_was_driven_is_empty(connection: Connection, fleet: Fleet) -> None:
    report = report_of(connection, fleet, Q4, now=NEW_YEAR - timedelta(seconds=1))

    assert (report.states, report.routes, report.totals.miles, report.totals.tax_dollars) == ([], 0, 0, 0)
    assert not report.ended
    with pytest.raises(UnknownCompany):
        find_quarter_routes(connection, new_id(), Q4)


def test_quarters_follow_one_another() -> None:
    quarters = [Quarter(year, number) for year in (2026, 2027) for number in (1, 2, 3, 4)]
    for one, following in pairwise(quarters):
        assert one.next_day == following.first_day
        assert Quarter.parse(str(one)) == one
    assert (Q4.first_day, Q4.next_day) == (date(2026, 10, 1), date(2027, 1, 1))


@pytest.mark.parametrize(
    "text", ["2026Q5", "2026Q0", "2026q4", "2026", "Q4", "26Q4", "2026Q44", " 2026Q4", "２026Q4", ""]
)
def test_text_that_names_no_quarter_is_refused(text: str) -> None:
    with pytest.raises(UnknownQuarter, match="give a year and one of Q1 to Q4, such as 2026Q4"):
        Quarter.parse(text)
