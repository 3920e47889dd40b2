"""The page Compliance and its files: the outcome of told fuel stops, and drivers only for those who may see them."""

import csv
import io
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from domain.burn.learning import let_trips_wait
from domain.burn.unseen_trips import EndedTrip
from domain.compliance.recording import record_trip
from domain.ids import new_id, shown_id
from domain.lifecycle import AnswerKind, RefusalReason, Role
from domain.savings.recording import record_savings
from domain.stations.closures import closures_in_force
from tests.domain.driver_page.given import trip_with_plan
from tests.factories import Fleet
from tests.ingress.console.conftest import World, words


@pytest.fixture
def span(world: World, fleet: Fleet, now: datetime) -> dict[str, Any]:
    """The days of a trip that has ended: Ann Lee fueled at Lakeside, and refused Keystone."""
    with world.database.transaction() as connection:
        trip = trip_with_plan(connection, fleet.live, now=now)
        trip.take(trip.given(AnswerKind.FUELED))
        trip.take(trip.refused(RefusalReason.NO_PARKING, sequence=1))
        trip.end()
        connection.execute("UPDATE routes SET completed_at = %s WHERE id = %s", (now, trip.route_id))
        connection.execute("UPDATE driver_answers SET station_id = place WHERE route_id = %s", (trip.route_id,))
        connection.execute(
            "UPDATE plans SET station_ids = '{Lakeside Travel Plaza,Keystone Fuel}' WHERE id = %s", (trip.plan_id,)
        )
        record_savings(connection, trip.route_id)
        let_trips_wait(connection, [trip.route_id])
        ended = EndedTrip(trip.route_id, fleet.company_id, "live", fleet.trucks[0], now, now)
        record_trip(connection, ended, now=now)
    day = timedelta(days=1)
    return {"from": f"{now - day:%Y-%m-%d}", "to": f"{now + day:%Y-%m-%d}"}


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text.lstrip("\ufeff"))))


def test_stops_are_shown_in_lines_and_one_by_one(world: World, fleet: Fleet, span: dict[str, Any]) -> None:
    browser = world.browser(Role.DISPATCHER, fleet)
    html = browser.look("/compliance", **span)
    page = words(html)
    assert html.partition("<h2>Stops</h2>")[2].count("<time ") == 2, "each stop says when its plan was made"
    assert "50.0 % of the fuel stops were followed: 1 of 2; 0 were missed, 1 refused." in page
    assert "cannot: there is no parking" in page
    assert "Ann Lee" in words(browser.look("/compliance", by="driver", **span))
    assert "as planned" in words(browser.look("/compliance", by="choice", **span))
    rows = rows_of(browser.get("/compliance.csv", params={**span, "by": "reason"}).text)
    assert {row["reason"]: row["refused"] for row in rows} == {"no_parking": "1", "": "0"}
    stops = rows_of(browser.get("/compliance.csv", params=span).text)
    assert [(one["place"], one["outcome"], one["driver_name"]) for one in stops] == [
        ("Lakeside Travel Plaza", "followed", "Ann Lee"),
        ("Keystone Fuel", "refused", "Ann Lee"),
    ]


def test_a_page_has_a_hundred_drivers_and_the_file_has_all(world: World, fleet: Fleet, span: dict[str, Any]) -> None:
    with world.database.transaction() as connection:
        connection.execute(
            "INSERT INTO told_stops (route_id, number, company_id, environment, planned_at, driver_id, plan_id, place,"
            " planned_gallons, planned_cents) SELECT route_id, number + n, company_id, environment, planned_at,"
            " gen_random_uuid(), plan_id, place, planned_gallons, planned_cents"
            " FROM told_stops, generate_series(2, 120) AS n WHERE company_id = %s AND number = 1",
            (fleet.company_id,),
        )
    browser = world.browser(Role.DISPATCHER, fleet)
    html = browser.look("/compliance", by="driver", **span)
    assert html.count('<td data-label="Driver">') == 100
    assert "Of 120 drivers the 100 with most stops." in words(html)
    assert "Of 119 more nothing is known." in words(html), "the sums are those of all"
    assert len(rows_of(browser.get("/compliance.csv", params={**span, "by": "driver"}).text)) == 120


def test_viewers_see_no_drivers(world: World, fleet: Fleet, span: dict[str, Any]) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    for by in ("chain", "driver"):
        page = words(browser.look("/compliance", by=by, **span))
        assert "50.0 % of the fuel stops were followed" in page
        assert "Ann Lee" not in page
    assert browser.get("/compliance.csv", params={**span, "by": "driver"}).status_code == 403
    (first, _) = rows_of(browser.get("/compliance.csv", params=span).text)
    assert "driver_id" not in first
    assert "Ann Lee" not in first.values()


def test_another_company_sees_nothing_of_it(world: World, span: dict[str, Any]) -> None:
    browser = world.browser(Role.OWNER)
    assert "No live route that ended in these days" in words(browser.look("/compliance", **span))
    assert browser.get("/compliance", params={"from": "2026-99-01"}).status_code == 400


def test_a_dispatcher_closes_the_station_that_a_driver_found_closed(world: World, fleet: Fleet, now: datetime) -> None:
    browser, station = world.browser(Role.DISPATCHER, fleet), f"KEY-{new_id().hex}"
    with world.database.transaction() as connection:
        connection.execute(
            "INSERT INTO stations (station_id, name, latitude, longitude) VALUES (%s, 'Keystone', 41.0, -78.4)",
            (station,),
        )
        trip = trip_with_plan(connection, fleet.live, now=now)
        connection.execute("UPDATE plans SET station_ids = %s WHERE id = %s", (["other", station], trip.plan_id))
        trip.take(trip.refused(RefusalReason.CLOSED, sequence=1))
    path = f"/routes/{shown_id('rte', trip.route_id)}"
    page = browser.look(path)
    assert "The driver found Keystone Fuel closed" in words(page)
    fields: dict[str, Any] = {
        "id": quote(station, safe=""),
        "route": shown_id("rte", trip.route_id),
        "reason": "he called",
    }
    until = f"{now + timedelta(hours=9):%Y-%m-%dT%H:%M}"
    assert browser.submit("/stations/close", **fields, until=until).status_code == 303
    with world.database.transaction() as connection:
        closed = closures_in_force(connection, fleet.company_id, station_id=station, now=now)
    assert [one.company_id for one in closed] == [fleet.company_id]
    viewer = world.browser(Role.VIEWER, fleet)
    assert "The driver found" not in words(viewer.look(path))
