"""A plan is made again because a dispatcher asks, against real PostgreSQL."""

from datetime import datetime

import pytest

from domain.database.connections import Connection
from domain.ids import new_id
from domain.queue.jobs import Job, build_plan_job, review_plan_job
from domain.routes import events
from domain.routes.events import ImpossibleStep
from domain.routes.plans import reviews
from domain.routes.progress import dispatcher_entries
from domain.routes.transitions import cancel_route
from domain.settings import Settings
from tests.domain.helpers import (
    imported,
    pushed,
    route_row,
)
from tests.domain.routes.trip import SENT, Trip
from tests.domain.trucks import hours, minutes
from tests.factories import DOT, JOLIET, Fleet
from tests.jobs import jobs_after

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.fixture
def trip(connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> Trip:
    return Trip(connection, fleet, settings, now, fleet.live)


def plan_again(trip: Trip) -> list[Job]:
    return jobs_after(
        trip.connection,
        lambda: dispatcher_entries.plan_again(trip.connection, trip.tenant, trip.route_id, DOT, now=trip.now),
    )


def test_the_plan_is_made_again_and_stays_where_nothing_changed(trip: Trip) -> None:
    trip.send()
    assert reviews.begin_review(trip.connection, trip.route_id, now=trip.now) is None

    assert plan_again(trip) == [review_plan_job(trip.route_id)]

    assert reviews.begin_review(trip.connection, trip.route_id, now=trip.now) is not None, "a plan is made in any case"
    assert trip.review() == "confirmed"
    assert len(trip.messages("pending", *SENT)) == 1
    assert trip.review() is None
    route = route_row(trip.connection, trip.route_id)
    assert (route.review_at, route.review_cause) == (None, None)
    asked, kept = events.events_of(trip.connection, trip.fleet.company_id, trip.route_id)
    assert asked == (trip.now, "plan_again", *DOT)
    assert kept == (trip.now, "plan_kept", None, "fuel and prices have not changed enough")


def test_a_plan_made_again_is_sent_only_as_the_one_correction(trip: Trip) -> None:
    trip.send()
    trip.report(JOLIET, 90, 90)
    for _ in range(3):
        plan_again(trip)
    assert trip.review() == "corrected"
    trip.send()
    assert len(trip.messages(*SENT)) == 2
    with pytest.raises(ImpossibleStep, match="no plan to make again"):
        plan_again(trip)


def test_a_plan_that_waits_for_its_next_attempt_is_made_now(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    trip = Trip(connection, fleet, settings, now, fleet.live, planned=False)
    connection.execute("UPDATE routes SET retry_at = %s WHERE id = %s", (now + hours(1), trip.route_id))
    assert plan_again(trip) == [build_plan_job(trip.route_id)]
    assert route_row(connection, trip.route_id).retry_at <= trip.now + minutes(1)


def test_there_is_nothing_to_plan_again_before_the_arrival_and_after_the_end(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    held = pushed(connection, fleet.live, now=now, start=now)
    for one in (route_id, held, new_id()):
        with pytest.raises(ImpossibleStep):
            dispatcher_entries.plan_again(connection, fleet.live, one, DOT, now=now)
    cancel_route(connection, fleet.live, route_id, now=now)
    with pytest.raises(ImpossibleStep):
        dispatcher_entries.plan_again(connection, fleet.live, route_id, DOT, now=now)
    assert events.events_of(connection, fleet.company_id, route_id) == []
