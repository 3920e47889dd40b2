"""A station is closed: trucks on their way to it get a new plan, each driver is told once, and no other company is
touched."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from domain.database.connections import Connection
from domain.database.visibility import of_companies
from domain.queue.jobs import review_plan_job
from domain.routes.plans.closed_stations import close_station, make_new_plans, reopen_station
from domain.routes.reading.explanations import read_route_explanation
from domain.settings import Settings
from domain.stations.closures import ImpossibleClosure, closures_in_force
from domain.stations.places import UnknownStation
from domain.stations.stations import set_stations_retired
from tests.domain.helpers import go_behind_the_wall, positions_at
from tests.domain.messages.loads import contact
from tests.domain.routes.journey import Journey, Leg
from tests.domain.routes.trip import Trip
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet, put_demo_stations
from tests.jobs import jobs_of

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

WEEK = timedelta(days=7)


@pytest.fixture
def stations(connection: Connection, now: datetime) -> None:
    put_demo_stations(connection, now=now)


@pytest.fixture
def journey(
    request: Any, connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime
) -> Journey:
    return Journey(connection, fleet, settings, now, live=getattr(request, "param", "live") == "live")


def planned_stations(journey: Journey) -> list[str]:
    """The stations of the plan that the route shows."""
    (shown,) = (one for one in journey.versions() if one.id == journey.route.plan_id)
    ids: list[str] = shown.station_ids
    return ids


def close(journey: Journey, station_id: str, *, for_all: bool = False, until: datetime | None = None) -> int:
    """Closes a station for the journey's company, or for all, and does what follows."""
    company_id = None if for_all else journey.fleet.company_id
    routes = close_station(
        journey.connection, station_id, company_id, until or journey.now + WEEK, DOT, now=journey.now
    )
    journey.run(jobs_of(journey.connection))
    return routes


@pytest.mark.parametrize(("journey", "for_all"), [("live", False), ("sandbox", True)], indirect=["journey"])
def test_a_truck_on_its_way_to_a_closed_station_gets_a_new_plan(journey: Journey, for_all: bool) -> None:
    (station_id,) = planned_stations(journey)
    journey.drive(Leg(0, 40))

    assert close(journey, station_id, for_all=for_all) == 1

    assert journey.causes() == [None, "station_closed"]
    first, second = journey.versions()
    assert second.cause["text"].startswith(first.document["stops"][0]["name"] + " is closed until ")
    assert second.cause["fuelStopsPassed"] == 0
    assert journey.route.plan_id == second.id
    assert station_id not in second.station_ids
    _, corrected = journey.messages()
    assert corrected.text.startswith("CORRECTED fuel plan")
    assert f"\nWhy: {second.cause['text']}\n" in corrected.text
    assert (journey.route.replan, journey.route.review_at) == (None, None)

    explained = read_route_explanation(journey.connection, journey.route_id)
    assert explained is not None
    assert station_id in [one["station_id"] for one in explained["sources"]["prices"]["closed"]]
    assert station_id not in [one["station_id"] for one in explained["candidates"]]


@pytest.mark.parametrize("journey", ["live", "sandbox"], indirect=True)
def test_a_truck_that_waits_at_its_first_stop_gets_a_new_plan(journey: Journey) -> None:
    (station_id,) = planned_stations(journey)
    assert close(journey, station_id) == 1
    assert journey.causes() == [None, "station_closed"]
    assert station_id not in planned_stations(journey)
    assert len(journey.messages()) == 2


def test_a_second_tracker_that_was_left_at_home_brings_no_passed_stop_ahead(journey: Journey) -> None:
    (station_id,) = planned_stations(journey)
    journey.drive(Leg(0, 300), fueled=journey.fueled())
    left_at_home = positions_at(JOLIET, journey.now + timedelta(seconds=30), count=1)
    journey.run(journey.report(left_at_home))

    assert close(journey, station_id) == 0
    assert len(journey.messages()) == 1


def test_the_driver_is_told_once_whatever_is_repeated(journey: Journey) -> None:
    (station_id,) = planned_stations(journey)
    until = journey.now + WEEK
    assert close(journey, station_id, until=until) == 1
    assert close(journey, station_id, until=until) == 0
    assert close(journey, station_id, until=until + WEEK) == 0, "the driver has another plan by now"
    assert make_new_plans(journey.connection, None, now=journey.now) == 0
    assert len(journey.messages()) == 2


def test_a_plan_that_is_not_out_yet_is_replaced(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    trip = Trip(connection, fleet, settings, now, fleet.live)
    (station_id,) = connection.execute(
        "SELECT station_ids FROM plans WHERE route_id = %s", (trip.route_id,)
    ).fetchone() or ([],)
    jobs_of(connection)

    assert close_station(connection, station_id[0], None, now + WEEK, DOT, now=trip.now) >= 1
    assert review_plan_job(trip.route_id) in jobs_of(connection)
    assert trip.review() == "replaced"

    (waiting,) = trip.messages("pending")
    assert waiting.text.startswith("Fuel plan")
    assert "Why:" not in waiting.text, "the driver knows of no other plan"
    assert make_new_plans(connection, fleet.company_id, now=trip.now) == 0


@pytest.mark.parametrize("told", [True, False])
def test_a_new_plan_keeps_the_planned_arrivals_at_stops_behind_the_truck(
    connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime, told: bool
) -> None:
    """A plan that the driver could not be told is replaced, a told one corrected."""
    if not told:
        contact(connection, fleet, "json://127.0.0.1:9/")
    journey = Journey(connection, fleet, settings, now, live=True, stops=[JOLIET, PERRYSBURG, NEWARK], percent=60)
    assert journey.route.status == ("active" if told else "planned")
    journey.drive(Leg(0, 255))
    journey.run(journey.report(positions_at(PERRYSBURG, journey.now + timedelta(minutes=5), fuel_percent=40)))

    close(journey, planned_stations(journey)[0])

    first, second = journey.versions()
    assert second.id == journey.route.plan_id
    planned, planned_anew = (
        {entry["stop"]: entry["plannedArrival"] for entry in version.timeline} for version in (first, second)
    )
    assert (planned_anew[0], planned_anew[1]) == (planned[0], planned[1])
    assert planned_anew[2] != planned[2]


def test_a_lost_job_is_found_by_the_sweep(journey: Journey) -> None:
    (station_id,) = planned_stations(journey)
    close_station(journey.connection, station_id, None, journey.now + WEEK, DOT, now=journey.now)
    jobs_of(journey.connection)  # lost
    journey.run(journey.lost_jobs())
    assert journey.causes() == [None, "station_closed"]


def test_a_plan_that_was_being_made_when_the_station_was_closed_is_made_again(journey: Journey) -> None:
    """Its worker read the stations before, so nothing was asked for. The sweep finds the route."""
    (station_id,) = planned_stations(journey)
    close_station(journey.connection, station_id, None, journey.now + WEEK, DOT, now=journey.now)
    jobs_of(journey.connection)
    journey.connection.execute(
        "UPDATE routes SET replan = NULL, review_at = NULL, review_requests = 0 WHERE id = %s", (journey.route_id,)
    )
    assert make_new_plans(journey.connection, None, now=journey.now) >= 1
    journey.run(jobs_of(journey.connection))
    assert journey.causes() == [None, "station_closed"]
    assert make_new_plans(journey.connection, journey.fleet.company_id, now=journey.now) == 0


def test_a_station_behind_the_truck_is_of_no_interest(journey: Journey) -> None:
    (stop,) = journey.fuel_stops
    (station_id,) = planned_stations(journey)
    journey.drive(Leg(0, stop["milesFromOrigin"] + 60), fueled=journey.fueled())
    assert close(journey, station_id) == 0
    assert journey.causes() == [None]


def test_a_station_that_opens_before_the_truck_is_there_stays_in_the_plan(journey: Journey) -> None:
    (station_id,) = planned_stations(journey)
    assert close(journey, station_id, until=journey.now + timedelta(minutes=30)) == 0
    assert journey.causes() == [None]
    assert station_id in planned_stations(journey)


def test_a_late_truck_keeps_its_plan_if_the_station_opens_before_it_comes(journey: Journey) -> None:
    """Its plan says that it arrives while the station is closed. Asked again from where it is, it does not."""
    (stop,) = journey.fuel_stops
    (station_id,) = planned_stations(journey)
    planned = datetime.fromisoformat(stop["estimatedArrival"])
    journey.drive(Leg(0, 10))
    journey.now = planned - timedelta(minutes=10)
    journey.run(journey.report(journey.fixes(Leg(10, 12))))
    close(journey, station_id, until=planned + timedelta(minutes=20))
    assert journey.causes() == [None, "station_closed"]
    assert len(journey.messages()) == 1


def test_a_company_closes_a_station_for_itself_alone(
    connection: Connection, fleet: Fleet, stations: None, settings: Settings, now: datetime
) -> None:
    mine, other = (Journey(connection, one, settings, now) for one in (fleet, make_fleet(connection)))
    (station_id,) = planned_stations(mine)
    assert planned_stations(other) == [station_id]
    jobs_of(connection)
    go_behind_the_wall(connection, of_companies([fleet.company_id]))

    assert close(mine, station_id) == 1

    connection.execute("RESET ROLE")
    assert mine.causes() == [None, "station_closed"]
    assert other.causes() == [None]
    assert closures_in_force(connection, other.fleet.company_id, station_id=station_id, now=now) == []
    later = Journey(connection, make_fleet(connection), settings, now)
    assert planned_stations(later) == [station_id]


def test_a_station_that_is_opened_again_is_in_the_next_plans_and_nobody_is_told(journey: Journey) -> None:
    (station_id,) = planned_stations(journey)
    close(journey, station_id)
    company_id = journey.fleet.company_id
    assert reopen_station(journey.connection, station_id, company_id, DOT, now=journey.now)
    assert not reopen_station(journey.connection, station_id, company_id, DOT, now=journey.now)
    assert jobs_of(journey.connection) == []
    later = Journey(journey.connection, make_fleet(journey.connection), journey.settings, journey.start)
    assert planned_stations(later) == [station_id]
    assert len(journey.messages()) == 2


def test_a_retired_station_can_be_closed_for_the_trucks_on_their_way_to_it(journey: Journey) -> None:
    (station_id,) = planned_stations(journey)
    set_stations_retired(journey.connection, [station_id], DOT, now=journey.now)
    jobs_of(journey.connection)
    assert close(journey, station_id) == 1
    assert journey.causes()[-1] == "station_closed"
    assert len(journey.messages()) == 2


def test_no_station_is_closed_until_a_time_that_makes_no_sense(
    connection: Connection, fleet: Fleet, stations: None, now: datetime
) -> None:
    (station_id,) = connection.execute("SELECT station_id FROM stations LIMIT 1").fetchone() or ("",)
    with pytest.raises(ImpossibleClosure, match="over already"):
        close_station(connection, station_id, None, now, DOT, now=now)
    with pytest.raises(ImpossibleClosure, match="retire"):
        close_station(connection, station_id, None, now + timedelta(days=400), DOT, now=now)
    with pytest.raises(UnknownStation):
        close_station(connection, "nowhere", None, now + WEEK, DOT, now=now)


def test_a_plan_of_an_older_release_is_found_by_the_places_of_its_stops(journey: Journey) -> None:
    (station_id,) = planned_stations(journey)
    journey.connection.execute("UPDATE plans SET station_ids = NULL WHERE route_id = %s", (journey.route_id,))
    assert close(journey, station_id) == 1
    assert journey.causes() == [None, "station_closed"]


def test_where_no_plan_is_possible_without_the_station_the_attempt_is_kept_and_made_once(journey: Journey) -> None:
    (station_id,) = planned_stations(journey)
    journey.connection.execute("DELETE FROM stations WHERE station_id <> %s", (station_id,))
    journey.connection.execute("INSERT INTO price_sets (kind, imported_at) VALUES ('stations', %s)", (journey.now,))
    close(journey, station_id)
    assert journey.causes() == [None, "station_closed"]
    assert journey.versions()[1].document is None
    assert len(journey.messages()) == 1
    assert make_new_plans(journey.connection, journey.fleet.company_id, now=journey.now) == 0
