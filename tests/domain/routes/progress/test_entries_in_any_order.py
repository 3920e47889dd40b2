"""Entries of dispatchers in any order, with positions, plans and attempts between them, give one message."""

from datetime import datetime
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.database.connections import Connection, Database
from domain.lifecycle import RouteStatus
from domain.messages.resending import CannotResend
from domain.planning.plan_tasks import load_plan_task
from domain.routes.events import ImpossibleStep
from domain.routes.progress import dispatcher_entries
from domain.settings import Settings
from domain.telematics.manual_stop_events import ImpossibleStopEvent, VisitEnd
from tests.domain.helpers import (
    deliver,
    imported,
    planned_by_hand,
    positions_at,
    post,
    route_row,
    status_of,
    visits_of,
)
from tests.domain.trucks import hours, minutes, process, stand_at
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet
from tests.repeatable import examples
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


_STEPS = st.lists(
    st.sampled_from(
        [
            "arrive 0",
            "arrive 1",
            "arrive 2",
            "leave 0",
            "leave 1",
            "see 0",
            "see 1",
            "see 2",
            "plan",
            "send",
            "again",
            "anew",
        ]
    ),
    min_size=3,
    max_size=14,
)

_PLACES = (JOLIET, PERRYSBURG, NEWARK)


@pytest.mark.slow
@hypothesis_settings(
    deadline=None, max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(_STEPS)
def test_entries_in_any_order_and_repetition_give_one_message(
    database: Database, settings: Settings, now: datetime, steps: list[str]
) -> None:
    """Entries, positions, plans, attempts, and plans or messages that are asked for again."""
    with database.pipelined_transaction() as connection:
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=now, stops=list(_PLACES))
        moment = now
        arrived: dict[int, datetime] = {}
        for step in [*steps, "plan", "send"]:
            moment += minutes(30)
            _take(connection, fleet, settings, route_id, step, moment)
            for stop, (arrived_at, _) in visits_of(connection, route_id).items():
                assert arrived_at <= arrived.setdefault(stop, arrived_at)
        assert sorted(arrived.values()) == [arrived[stop] for stop in sorted(arrived)]
        messages = named(connection).execute("SELECT * FROM messages WHERE route_id = %s", (route_id,)).fetchall()
        assert len([one for one in messages if one.status == "sent"]) == bool(arrived)
        assert (status_of(connection, route_id) is RouteStatus.COMPLETED) == (2 in arrived)


def _take(
    connection: Connection, fleet: Fleet, settings: Settings, route_id: UUID, step: str, moment: datetime
) -> None:
    what, _, number = step.partition(" ")
    waiting = (
        named(connection)
        .execute("SELECT id FROM messages WHERE route_id = %s ORDER BY created_at", (route_id,))
        .fetchall()
    )
    try:
        match what:
            case "arrive" | "leave":
                end: VisitEnd = "arrival" if what == "arrive" else "departure"
                dispatcher_entries.enter_stop_event(
                    connection, fleet.live, route_id, int(number), end, moment, DOT, settings=settings, now=moment
                )
                process(connection, settings, fleet, now=moment)
            case "see":
                stand_at(connection, settings, fleet, _PLACES[int(number)], moment - minutes(2))
            case "plan":
                if load_plan_task(connection, route_id, now=moment) is not None:
                    planned_by_hand(connection, route_id, now=moment)
            case "send":
                for message in waiting:
                    deliver(connection, message.id, settings=settings, now=moment)
            case "again":
                for message in waiting:
                    dispatcher_entries.send_again(
                        connection, fleet.live, route_id, message.id, DOT, driver_was_asked=True, now=moment
                    )
            case "anew":
                dispatcher_entries.plan_again(connection, fleet.live, route_id, DOT, now=moment)
    except (ImpossibleStep, ImpossibleStopEvent, CannotResend):
        pass


@pytest.mark.slow
@hypothesis_settings(
    deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=5), st.integers(0, 4))
def test_entries_where_positions_would_show_the_truck_give_the_same_states(
    database: Database, settings: Settings, now: datetime, stays: list[tuple[int, bool]], sent_after: int
) -> None:
    """Two companies with the same route. One truck sends positions, at these stops and outside of them; of the other
    one somebody says the same."""
    with database.pipelined_transaction() as connection:
        seen, said = make_fleet(connection), make_fleet(connection)
        seen_id, said_id = (imported(connection, one.live, now=now, stops=list(_PLACES)) for one in (seen, said))
        moment = now
        for number, (stop, leaves) in enumerate(stays):
            moment += hours(10)  # from coast to coast
            post(connection, seen.live, positions_at(_PLACES[stop], moment, count=9), now=moment + minutes(5))
            process(connection, settings, seen, now=moment + minutes(5))
            moment += minutes(5)
            if leaves:
                outside = {**_PLACES[stop], "latitude": _PLACES[stop]["latitude"] + 0.01}
                moment += minutes(20)
                post(connection, seen.live, positions_at(outside, moment, count=2, speed_mph=40), now=moment)
                process(connection, settings, seen, now=moment + minutes(1))
            _say_what_was_seen(connection, said, said_id, visits_of(connection, seen_id), settings, moment)
            if number == sent_after:
                for fleet, route_id in ((seen, seen_id), (said, said_id)):
                    _take(connection, fleet, settings, route_id, "plan", moment)
                    _take(connection, fleet, settings, route_id, "send", moment)
            one, other = (route_row(connection, route_id) for route_id in (seen_id, said_id))
            for column in ("status", "arrived_at", "completed_at"):
                assert getattr(one, column) == getattr(other, column)
            assert (one.review_at is None) == (other.review_at is None)
            assert visits_of(connection, seen_id) == visits_of(connection, said_id)


def _say_what_was_seen(
    connection: Connection,
    fleet: Fleet,
    route_id: UUID,
    visits: dict[int, tuple[datetime, datetime | None]],
    settings: Settings,
    now: datetime,
) -> None:
    for stop, (arrived_at, departed_at) in visits.items():
        ends: list[tuple[VisitEnd, datetime | None]] = [("arrival", arrived_at), ("departure", departed_at)]
        for end, moment in ends:
            if moment is not None:
                dispatcher_entries.enter_stop_event(
                    connection, fleet.live, route_id, stop, end, moment, DOT, settings=settings, now=now + minutes(2)
                )
