"""The outcome of the fuel stops that drivers were told, by the best proof there is; and the cost of refusals."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from domain.burn.learning import let_trips_wait
from domain.burn.unseen_trips import EndedTrip, unseen_trips
from domain.compliance.recording import record_trip
from domain.compliance.report import (
    ComparedStop,
    ComplianceBy,
    ComplianceFigures,
    ComplianceLine,
    compared_stops,
    compliance_lines,
)
from domain.database.connections import Connection, Tenant, as_json
from domain.fleet.drivers import blank_driver
from domain.housekeeping.retention import delete_routes
from domain.ids import new_id
from domain.lifecycle import AnswerKind, RefusalReason
from domain.savings.recording import record_savings
from domain.savings.spans import Span
from tests.domain.driver_page.given import AnsweredTrip, trip_with_plan
from tests.domain.helpers import positions_at, post
from tests.factories import PLAN, Fleet, make_fleet

LAKESIDE, KEYSTONE = ({"latitude": one["latitude"], "longitude": one["longitude"]} for one in PLAN["stops"])
HOUR = timedelta(hours=1)


@pytest.fixture
def trip(connection: Connection, fleet: Fleet, now: datetime) -> AnsweredTrip:
    connection.execute(
        "INSERT INTO stations (station_id, name, brand, latitude, longitude)"
        " VALUES ('LAKE', 'Lakeside', 'Prairie Star', 41.7, -86.0), ('KEY', 'Keystone', NULL, 41.0, -78.4)"
    )
    trip = trip_with_plan(connection, fleet.live, now=now)
    connection.execute("UPDATE plans SET station_ids = '{LAKE,KEY}' WHERE id = %s", (trip.plan_id,))
    return trip


def complete(
    trip: AnsweredTrip, fleet: Fleet, *levels: tuple[dict[str, float], float | None], apart: timedelta = HOUR / 2
) -> None:
    """The trip ends; its truck sent these levels."""
    for number, (place, percent) in enumerate(levels, 1):
        at = trip.now + number * apart
        post(trip.connection, fleet.live, positions_at(place, at, fuel_percent=percent), now=at)
    trip.connection.execute(
        "UPDATE routes SET status = 'completed', completed_at = %s WHERE id = %s", (trip.now + 9 * HOUR, trip.route_id)
    )
    record_savings(trip.connection, trip.route_id)
    let_trips_wait(trip.connection, [trip.route_id])
    waiting = {one.route_id: one for one in unseen_trips(trip.connection, now=trip.now + HOUR * 10_000, limit=10_000)}
    ended: EndedTrip = waiting[trip.route_id]._replace(started_at=trip.now, ended_at=trip.now + 9 * HOUR)
    assert record_trip(trip.connection, ended, now=trip.now) == 2
    left = unseen_trips(trip.connection, now=trip.now + HOUR * 10_000, limit=10_000)
    assert trip.route_id not in {one.route_id for one in left}


def span_of(trip: AnsweredTrip) -> Span:
    day = trip.now.date()
    return Span(day - timedelta(days=1), day + timedelta(days=1), "UTC")


def stops(trip: AnsweredTrip, tenant: Tenant) -> list[ComparedStop]:
    return list(compared_stops(trip.connection, tenant, span_of(trip)))


def outcomes(trip: AnsweredTrip, tenant: Tenant) -> list[tuple[str, str]]:
    return [(one.outcome, one.proof) for one in stops(trip, tenant)]


def lines(trip: AnsweredTrip, fleet: Fleet, by: ComplianceBy) -> list[ComplianceLine]:
    return compliance_lines(trip.connection, fleet.live, span_of(trip), by)


AWAY = {"latitude": 41.85, "longitude": -86.0}
BEFORE = {"latitude": 41.55, "longitude": -86.0}
BEYOND = {"latitude": 42.2, "longitude": -86.0}


def test_levels_and_answers_prove_what_came_of_a_stop(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.given(AnswerKind.FUELED, sequence=1))
    complete(trip, fleet, (BEFORE, 30), (LAKESIDE, 30), (LAKESIDE, 80), (AWAY, 79))
    assert outcomes(trip, fleet.live) == [("followed", "level"), ("followed", "answer")]
    (chain, other) = sorted(lines(trip, fleet, ComplianceBy.CHAIN), key=lambda line: line.name or "")
    assert (chain.name, other.name) == ("", "Prairie Star")
    assert chain.figures == ComplianceFigures(1, 0, 0, 0, 0, 1)
    assert other.figures.followed_percent == 100.0


def test_the_cards_fill_counts_more_than_level_and_word(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.given(AnswerKind.FUELED))
    complete(trip, fleet, (BEFORE, 30), (LAKESIDE, 30), (LAKESIDE, 80), (AWAY, 79))
    verdict: dict[str, Any] = {"route_id": trip.route_id, "company_id": fleet.company_id, "now": trip.now}
    trip.connection.execute(
        "INSERT INTO stop_verdicts (route_id, number, company_id, environment, planned_at, vehicle_id, driver_id,"
        " verdict, place, planned_gallons, planned_cents, bought_gallons, paid_cents, price_cents, gallons_cents,"
        " place_cents) SELECT %(route_id)s, 1, %(company_id)s, 'live', %(now)s, vehicle_id, driver_id, 'partly', 'x',"
        " 1, 1, 1, 1, 1, 1, 1 FROM routes WHERE id = %(route_id)s",
        verdict,
    )
    assert outcomes(trip, fleet.live)[0] == ("partly", "fill")


def test_a_level_that_did_not_rise_proves_more_than_his_word(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.given(AnswerKind.FUELED))
    complete(trip, fleet, (BEFORE, 30), (LAKESIDE, 30), (LAKESIDE, 30), (AWAY, 29))
    assert outcomes(trip, fleet.live) == [("missed", "level"), ("unknown", "")]


def test_a_silence_in_which_the_truck_may_have_stood_proves_nothing(trip: AnsweredTrip, fleet: Fleet) -> None:
    """Its next fix is far beyond, with a full tank."""
    trip.take(trip.given(AnswerKind.FUELED, sequence=0))
    complete(trip, fleet, (BEFORE, 30), (BEYOND, 95), apart=3 * HOUR)
    assert outcomes(trip, fleet.live) == [("followed", "answer"), ("unknown", "")]


def test_a_silence_up_to_the_last_stop_proves_nothing_of_a_station_beside_it(trip: AnsweredTrip, fleet: Fleet) -> None:
    """The departure that the last stop shows is that of the first fix after the silence."""
    left_at, seen_until = trip.now + 8 * HOUR, trip.now
    post(trip.connection, fleet.live, positions_at(BEFORE, seen_until), now=seen_until)
    for at in (left_at, left_at + HOUR / 60):
        post(trip.connection, fleet.live, positions_at(AWAY, at), now=at)
    trip.connection.execute(
        "INSERT INTO visits (route_id, company_id, environment, stop, arrived_at, departed_at, departure_evidence)"
        " VALUES (%s, %s, 'live', 0, %s, %s, %s) ON CONFLICT (route_id, stop) DO UPDATE"
        " SET departed_at = excluded.departed_at, departure_evidence = excluded.departure_evidence",
        (trip.route_id, fleet.company_id, seen_until, left_at, as_json({"seenUntil": seen_until.isoformat()})),
    )
    trip.connection.execute(
        "UPDATE routes SET status = 'completed', completed_at = %s WHERE id = %s", (left_at, trip.route_id)
    )
    record_savings(trip.connection, trip.route_id)
    let_trips_wait(trip.connection, [trip.route_id])
    waiting = {one.route_id: one for one in unseen_trips(trip.connection, now=trip.now + HOUR * 10_000, limit=10_000)}
    assert record_trip(trip.connection, waiting[trip.route_id], now=left_at + HOUR) == 2
    assert outcomes(trip, fleet.live)[0] == ("unknown", "")


def test_the_stops_of_a_driver_who_was_erased_before_the_comparison_are_not_kept(
    trip: AnsweredTrip, fleet: Fleet
) -> None:
    blank_driver(trip.connection, fleet.company_id, fleet.drivers[0])
    complete(trip, fleet, (BEFORE, 30), (LAKESIDE, 30), (LAKESIDE, 80), (AWAY, 79))
    assert outcomes(trip, fleet.live) == []


def test_without_levels_the_place_of_the_truck_proves_it(trip: AnsweredTrip, fleet: Fleet) -> None:
    complete(trip, fleet, (BEFORE, None), (LAKESIDE, None), (LAKESIDE, None), (AWAY, None))
    assert outcomes(trip, fleet.live)[0] == ("followed", "place")
    (line,) = lines(trip, fleet, ComplianceBy.DRIVER)
    assert (line.id, line.name) == (fleet.drivers[0], "Ann Lee")
    assert line.figures == ComplianceFigures(1, 0, 0, 0, 1, 0)


@pytest.mark.parametrize("both", [False, True])
def test_a_refusal_stands_beside_the_dollars_that_its_new_plan_cost_more(
    trip: AnsweredTrip, fleet: Fleet, both: bool
) -> None:
    """`both`: he refuses the second stop as well before he has a new plan, so one plan answers to two refusals."""
    if both:
        trip.take(trip.refused(RefusalReason.QUEUE, sequence=1))
    trip.take(trip.refused(RefusalReason.NO_PARKING), after=HOUR / 60)
    take_dearer_plan(trip)
    complete(trip, fleet)

    refused = next(one for one in stops(trip, fleet.live) if one.reason == "no_parking")
    assert (refused.number, refused.place, refused.outcome) == (None, "Lakeside Travel Plaza", "refused")
    # 593.00 for 160 gallons instead of 520.50 for 150: the ten gallons more are still in the tank, at 3.70625 each
    assert refused.priced_cents == 7250 - 3706
    (line,) = (one for one in lines(trip, fleet, ComplianceBy.REASON) if one.name == "no_parking")
    assert (line.figures.refused, line.priced, line.cents) == (1, 1, 3544)
    assert sum(one.cents for one in lines(trip, fleet, ComplianceBy.REASON)) == 3544, "one plan is paid once"


def test_the_dollars_of_a_new_plan_stay_with_the_refusal_that_is_not_taken_back(
    trip: AnsweredTrip, fleet: Fleet
) -> None:
    trip.take(trip.refused(RefusalReason.QUEUE, sequence=1))
    trip.take(trip.refused(RefusalReason.NO_PARKING), after=HOUR / 60)
    take_dearer_plan(trip)
    trip.take(trip.given(), after=2 * HOUR)

    assert [(one.reason, one.priced_cents) for one in stops(trip, fleet.live)] == [("queue", 3544)]


def take_dearer_plan(trip: AnsweredTrip) -> None:
    """Stores the plan that was made for all of his refusals, and that he was told."""
    closures = {str(one.id): one.station_id for one in trip.answers}
    new = new_id()
    dearer = {**PLAN["stops"][0], "name": "Elsewhere", "gallonsToFill": 110.0, "totalCost": 418.0}
    trip.connection.execute(
        "INSERT INTO plans (id, company_id, environment, route_id, revision, generated_at, document, timeline,"
        " fuel_percent, cause, station_ids) SELECT %s, company_id, environment, id, revision, %s, %s, '[]', 50, %s,"
        " '{OTHER,KEY}' FROM routes WHERE id = %s",
        (
            *(new, trip.now + HOUR, as_json({**PLAN, "stops": [dearer, PLAN["stops"][1]], "totalCost": 593.0})),
            *(as_json({"kind": "refused", "fuelStopsPassed": 0, "closures": closures}), trip.route_id),
        ),
    )
    trip.connection.execute(
        "INSERT INTO messages (id, company_id, environment, route_id, plan_id, driver_id, status)"
        " SELECT %s, company_id, environment, id, %s, driver_id, 'sent' FROM routes WHERE id = %s",
        (new_id(), new, trip.route_id),
    )
    trip.connection.execute("UPDATE routes SET plan_id = %s WHERE id = %s", (new, trip.route_id))


def test_a_refusal_counts_once_and_not_when_it_is_taken_back(trip: AnsweredTrip, fleet: Fleet) -> None:
    trip.take(trip.refused(sequence=1))
    trip.take(trip.refused(RefusalReason.QUEUE, sequence=1), after=HOUR)
    assert [(one.outcome, one.reason) for one in stops(trip, fleet.live)] == [("refused", "queue")]
    trip.take(trip.given(sequence=1), after=2 * HOUR)
    assert stops(trip, fleet.live) == []


def test_it_tells_of_one_company_and_one_environment_and_goes_with_the_route(trip: AnsweredTrip, fleet: Fleet) -> None:
    complete(trip, fleet)
    other = make_fleet(trip.connection)
    assert len(stops(trip, fleet.live)) == 2
    assert stops(trip, fleet.sandbox) == stops(trip, other.live) == []
    delete_routes(trip.connection, [trip.route_id])
    assert stops(trip, fleet.live) == []
