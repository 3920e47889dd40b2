"""Deliveries are claimed, sent and settled: in order for each route, at least once, and given up after a day."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain import clock
from domain.accounts.contacts import IN_CLEAR
from domain.database.connections import Connection
from domain.lifecycle import RouteStatus
from domain.routes.reading.lookups import read_routes
from domain.routes.transitions import cancel_route
from domain.settings import Settings
from domain.webhooks import delivery_log
from domain.webhooks.deliveries import (
    ClaimedBatch,
    DeliveryClaim,
    Outcome,
    claim_deliveries,
    due_endpoints,
    release_claims,
    settle_deliveries,
)
from domain.webhooks.delivery_log import (
    MOST_TEST_EVENTS,
    TEST_EVENTS_WITHIN,
    UnknownDelivery,
    forget_events,
    list_deliveries,
    read_delivery,
    replay_delivery,
    replay_failed,
    send_test,
)
from domain.webhooks.endpoints import (
    ENDPOINTS,
    EndpointChanges,
    UnknownEndpoint,
    UnusableEndpoint,
    change_endpoint,
    delivery_jobs,
    disable_endpoint,
    enable_endpoint,
    remove_endpoint,
    rotate_secret,
)
from tests.conftest import own_database
from tests.domain.helpers import imported
from tests.domain.webhooks.endpoints import HERE, events_of, make_endpoint
from tests.factories import DOT, Fleet, make_fleet
from tests.repeatable import examples
from tests.rows import rows_read

MANY = 100


def claim(
    connection: Connection, endpoint_id: UUID, settings: Settings, now: datetime, most: int = MANY
) -> ClaimedBatch:
    batch = claim_deliveries(connection, endpoint_id, most=most, settings=settings, now=now)
    return batch or ClaimedBatch("", [], [])


def outcome(claimed: DeliveryClaim, now: datetime, status: int | None = 204, answer: str | None = None) -> Outcome:
    error = None if status is not None and 200 <= status < 300 else f"it answered {status}"
    return Outcome(claimed, now, 12.3, status, error, answer)


def attempt(
    connection: Connection, endpoint_id: UUID, settings: Settings, now: datetime, status: int | None = 204
) -> list[str]:
    """Claims and settles whatever is due, and returns the types of the events."""
    batch = claim(connection, endpoint_id, settings, now)
    outcomes = [outcome(one, now, status) for one in batch.claimed]
    if outcomes:
        settle_deliveries(connection, endpoint_id, outcomes, settings=settings, now=now)
    return [one.type for one in batch.claimed]


@pytest.fixture
def endpoint_id(connection: Connection, fleet: Fleet) -> UUID:
    return make_endpoint(connection, fleet.live).endpoint.id


@pytest.fixture
def later(connection: Connection, now: datetime) -> datetime:
    """A time at which the events of now are due."""
    return now + timedelta(minutes=1)


def route_with_two_events(connection: Connection, fleet: Fleet, now: datetime) -> UUID:
    route_id = imported(connection, fleet.live, now=now)
    cancel_route(connection, fleet.live, route_id, now=now)
    return route_id


def test_the_next_event_of_a_route_waits_for_the_one_before(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    routes = [route_with_two_events(connection, fleet, now) for _ in range(3)]

    first = claim(connection, endpoint_id, settings, later)
    assert [one.type for one in first.claimed] == ["route.imported"] * 3
    assert claim(connection, endpoint_id, settings, later).claimed == []

    done = [outcome(one, later) for one in first.claimed[:1]]
    settle_deliveries(connection, endpoint_id, done, settings=settings, now=later)
    assert [one.type for one in claim(connection, endpoint_id, settings, later).claimed] == ["route.canceled"]
    assert len(routes) == 3


def test_a_failed_event_keeps_the_rest_of_its_route_back_until_it_is_given_up(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    route_with_two_events(connection, fleet, now)
    waits, moment = [], later
    while (told := attempt(connection, endpoint_id, settings, moment, 500)) == ["route.imported"]:
        first, second = events_of(connection, endpoint_id)
        waits.append((first.retry_at - moment).total_seconds())
        if first.status == "failed":
            break
        assert second.retry_at == first.retry_at
        moment = first.retry_at
    assert told == ["route.imported"]
    assert waits[:7] == [5, 20, 80, 320, 1280, 5120, 3 * 3600]
    assert timedelta(hours=20) < moment - later < timedelta(hours=24)
    assert first.error == "it answered 500"

    assert attempt(connection, endpoint_id, settings, moment) == ["route.canceled"]


def test_the_bytes_of_an_event_never_change(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    (first,) = claim(connection, endpoint_id, settings, later).claimed
    settle_deliveries(connection, endpoint_id, [outcome(first, later, 500)], settings=settings, now=later)
    cancel_route(connection, fleet.live, route_id, now=now)

    (again,) = claim(connection, endpoint_id, settings, later + timedelta(minutes=5)).claimed

    assert (again.event_id, again.payload, again.attempt) == (first.event_id, first.payload, 2)
    (versioned,) = read_routes([(fleet.live, route_id)]).on(connection)
    assert versioned is not None
    assert versioned.route.status is RouteStatus.CANCELED
    assert '"status":"draft"' in first.payload


def test_two_endpoints_get_the_same_bytes(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    other = make_endpoint(connection, fleet.live, "https://b.example.com").endpoint
    imported(connection, fleet.live, now=now)

    (one,) = claim(connection, endpoint_id, settings, later).claimed
    (two,) = claim(connection, other.id, settings, later).claimed

    assert (one.event_id, one.payload) == (two.event_id, two.payload)


def test_a_claim_that_ran_out_is_sent_again_with_the_same_id(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    """Its worker was killed after the request."""
    imported(connection, fleet.live, now=now)
    (lost,) = claim(connection, endpoint_id, settings, later).claimed
    assert due_endpoints(connection, now=lost.until - timedelta(seconds=1)).get(endpoint_id) is None
    assert due_endpoints(connection, now=lost.until)[endpoint_id] == fleet.company_id

    (again,) = claim(connection, endpoint_id, settings, lost.until).claimed
    assert (again.event_id, again.payload) == (lost.event_id, lost.payload)

    settle_deliveries(connection, endpoint_id, [outcome(lost, later, 500)], settings=settings, now=lost.until)
    (event,) = events_of(connection, endpoint_id)
    assert (event.status, event.attempts) == ("pending", 2)  # the late end of the first changed nothing
    settle_deliveries(connection, endpoint_id, [outcome(again, later)], settings=settings, now=lost.until)
    (event,) = events_of(connection, endpoint_id)
    assert event.status == "delivered"


def test_an_event_that_kills_each_process_is_sent_less_and_less_often(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    at, waits = later, []
    for _ in range(9):
        (lost,) = claim(connection, endpoint_id, settings, at).claimed
        (event,) = events_of(connection, endpoint_id)
        waits.append((event.retry_at - lost.until).total_seconds())
        at = event.retry_at
    assert waits.pop(0) == 0
    for wait, wanted in zip(waits, (5, 20, 80, 320, 1_280, 5_120, 10_800, 10_800), strict=True):
        assert wanted / 2 <= wait <= wanted * 3 / 2

    settle_deliveries(connection, endpoint_id, [outcome(lost, at)], settings=settings, now=at)
    (event,) = events_of(connection, endpoint_id)
    assert event.status == "delivered"


def test_a_claim_that_is_released_is_due_at_once(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    batch = claim(connection, endpoint_id, settings, later)

    release_claims(connection, endpoint_id, batch.claimed, now=later)

    (again,) = claim(connection, endpoint_id, settings, later + timedelta(seconds=1)).claimed
    release_claims(connection, endpoint_id, batch.claimed, now=later)
    assert claim(connection, endpoint_id, settings, later + timedelta(seconds=1)).claimed == [], "it is another one's"
    settle_deliveries(connection, endpoint_id, [outcome(again, later)], settings=settings, now=later)
    assert [event.status for event in events_of(connection, endpoint_id)] == ["delivered"]


def test_an_endpoint_that_fails_gets_one_attempt_at_a_time(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    for _ in range(5):
        imported(connection, fleet.live, now=now)
    assert len(attempt(connection, endpoint_id, settings, later, 500)) == 5

    soon = later + timedelta(hours=1)
    assert len(attempt(connection, endpoint_id, settings, soon, 200)) == 1
    assert len(attempt(connection, endpoint_id, settings, soon, 200)) == 4


def test_an_endpoint_that_is_gone_is_disabled_at_once(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    for _ in range(2):
        imported(connection, fleet.live, now=now)
    first, second = claim(connection, endpoint_id, settings, later).claimed

    disabled = settle_deliveries(connection, endpoint_id, [outcome(first, later, 410)], settings=settings, now=later)

    assert disabled is not None
    assert (disabled.company_id, disabled.reason) == (fleet.company_id, "it answered 410 (Gone)")
    (endpoint,) = ENDPOINTS.all(connection, fleet.company_id)
    assert (endpoint.disabled_at, endpoint.disabled_reason) == (later, "it answered 410 (Gone)")
    assert {event.status for event in events_of(connection, endpoint_id)} == {"failed"}
    assert claim(connection, endpoint_id, settings, later + timedelta(days=1)).claimed == []
    assert delivery_jobs(connection, [fleet.company_id]) == []
    again = settle_deliveries(connection, endpoint_id, [outcome(second, later, 410)], settings=settings, now=later)
    assert again is None


def test_what_a_former_url_answers_says_nothing_of_the_endpoint(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    (sent_before,) = claim(connection, endpoint_id, settings, later).claimed
    values = EndpointChanges(url="https://tms.example.com/new")
    change_endpoint(connection, fleet.company_id, endpoint_id, values, DOT, allowed=HERE, now=later)

    gone = outcome(sent_before, later, 410)
    disabled = settle_deliveries(connection, endpoint_id, [gone], settings=settings, now=later)

    assert disabled is None
    (endpoint,) = ENDPOINTS.all(connection, fleet.company_id)
    assert (endpoint.disabled_at, endpoint.failing_since) == (None, None)
    assert attempt(connection, endpoint_id, settings, later) == ["route.imported"]


def test_events_that_wait_are_due_once_the_url_is_mended(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    route_with_two_events(connection, fleet, now)
    for _ in range(7):
        assert attempt(connection, endpoint_id, settings, later, 404) == ["route.imported"]
        later = events_of(connection, endpoint_id)[0].retry_at
    later -= timedelta(hours=2)
    route_with_two_events(connection, fleet, later)
    (under_way,) = claim(connection, endpoint_id, settings, later).claimed

    def change(**values: str) -> None:
        changes = EndpointChanges(**values)
        change_endpoint(connection, fleet.company_id, endpoint_id, changes, DOT, allowed=HERE, now=later)

    change(description="ours", url="https://tms.example.com/hooks")
    assert attempt(connection, endpoint_id, settings, later, 404) == []
    change(url="https://tms.example.com/mended")

    assert due_endpoints(connection, now=later)[endpoint_id] == fleet.company_id
    assert attempt(connection, endpoint_id, settings, later, 404) == ["route.imported"]
    assert events_of(connection, endpoint_id)[0].retry_at == later + timedelta(seconds=5)
    assert events_of(connection, endpoint_id)[2].retry_at == under_way.until


def test_an_attempt_of_before_does_not_disable_what_a_person_has_enabled_again(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    (old,) = claim(connection, endpoint_id, settings, later).claimed
    disable_endpoint(connection, fleet.company_id, endpoint_id, DOT, now=later)
    enable_endpoint(connection, fleet.company_id, endpoint_id, DOT)
    imported(connection, fleet.live, now=now)

    disabled = settle_deliveries(connection, endpoint_id, [outcome(old, later, 410)], settings=settings, now=later)

    assert disabled is None
    (endpoint,) = ENDPOINTS.all(connection, fleet.company_id)
    assert (endpoint.disabled_at, endpoint.failing_since) == (None, None)
    assert [event.status for event in events_of(connection, endpoint_id)] == ["failed", "pending"]


def test_the_late_end_of_a_lost_attempt_keeps_no_event_back(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    route_with_two_events(connection, fleet, now)
    (lost,) = claim(connection, endpoint_id, settings, later).claimed
    (again,) = claim(connection, endpoint_id, settings, lost.until).claimed
    settle_deliveries(connection, endpoint_id, [outcome(again, lost.until)], settings=settings, now=lost.until)

    settle_deliveries(connection, endpoint_id, [outcome(lost, later, 500)], settings=settings, now=lost.until)

    assert ENDPOINTS.all(connection, fleet.company_id)[0].failing_since is None
    assert [one.type for one in claim(connection, endpoint_id, settings, lost.until).claimed] == ["route.canceled"]


def test_an_endpoint_that_took_nothing_for_days_is_disabled(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    attempt(connection, endpoint_id, settings, later, None)
    much_later = later + timedelta(days=5, minutes=1)
    imported(connection, fleet.live, now=now)

    batch = claim(connection, endpoint_id, settings, much_later)
    disabled = settle_deliveries(
        connection, endpoint_id, [outcome(batch.claimed[0], much_later, None)], settings=settings, now=much_later
    )

    assert disabled is not None
    assert disabled.reason == "it has taken nothing for 5 days"


def test_one_delivery_begins_the_days_anew(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    attempt(connection, endpoint_id, settings, later, 500)
    attempt(connection, endpoint_id, settings, later + timedelta(hours=1), 200)
    imported(connection, fleet.live, now=now)
    attempt(connection, endpoint_id, settings, later + timedelta(days=6), 500)

    (endpoint,) = ENDPOINTS.all(connection, fleet.company_id)
    assert endpoint.disabled_at is None
    assert endpoint.failing_since == later + timedelta(days=6)


def test_both_secrets_sign_for_a_day_after_a_rotation(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, later: datetime
) -> None:
    made = make_endpoint(connection, fleet.live)
    imported(connection, fleet.live, now=now)
    rotated = rotate_secret(connection, fleet.company_id, made.endpoint.id, DOT, contacts=IN_CLEAR, now=later)

    batch = claim(connection, made.endpoint.id, settings, later)
    assert batch.secrets == [rotated.secret, made.secret]
    release_claims(connection, made.endpoint.id, batch.claimed, now=later)
    batch = claim(connection, made.endpoint.id, settings, later + timedelta(hours=24))
    assert batch.secrets == [rotated.secret]


def test_an_event_whose_route_is_gone_fails_with_a_sentence(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    connection.execute("DELETE FROM routes WHERE id = %s", (route_id,))

    assert claim(connection, endpoint_id, settings, later).claimed == []
    (event,) = events_of(connection, endpoint_id)
    assert (event.status, event.error) == ("failed", "The route was deleted before the first attempt")


def test_the_log_tells_each_attempt(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    (first,) = claim(connection, endpoint_id, settings, later).claimed
    failed = outcome(first, later, 503, "busy")
    settle_deliveries(connection, endpoint_id, [failed], settings=settings, now=later)
    attempt(connection, endpoint_id, settings, later + timedelta(minutes=1), 201)

    (listed,) = list_deliveries(connection, fleet.company_id, endpoint_id, limit=10)
    assert (listed.type, listed.status, listed.attempts, listed.error) == ("route.imported", "delivered", 2, None)
    details = read_delivery(connection, fleet.company_id, endpoint_id, listed.event_id)
    assert details.payload == first.payload
    assert [(one.status, one.error, one.answer, one.milliseconds) for one in details.attempts] == [
        (503, "it answered 503", "busy", 12.3),
        (201, None, None, 12.3),
    ]
    assert list_deliveries(connection, fleet.company_id, endpoint_id, status="failed", limit=10) == []
    assert list_deliveries(connection, fleet.company_id, endpoint_id, before=listed.number, limit=10) == []


def test_a_replay_sends_the_same_event_again(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    (first,) = claim(connection, endpoint_id, settings, later).claimed
    settle_deliveries(connection, endpoint_id, [outcome(first, later)], settings=settings, now=later)
    assert claim(connection, endpoint_id, settings, later).claimed == []

    replay_delivery(connection, fleet.company_id, endpoint_id, first.event_id, DOT, now=later)

    (again,) = claim(connection, endpoint_id, settings, later).claimed
    assert (again.event_id, again.payload, again.attempt, again.failures) == (first.event_id, first.payload, 2, 0)


def test_what_failed_since_a_time_is_replayed(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    for _ in range(3):
        imported(connection, fleet.live, now=now)
    attempt(connection, endpoint_id, settings, later, 410)
    company_id = fleet.company_id
    enable_endpoint(connection, company_id, endpoint_id, DOT)

    assert replay_failed(connection, company_id, endpoint_id, DOT, since=later + timedelta(days=1), now=later) == 0
    assert replay_failed(connection, company_id, endpoint_id, DOT, since=now - timedelta(days=1), now=later) == 3
    assert len(attempt(connection, endpoint_id, settings, later, 200)) == 3


def test_a_test_event_tells_of_no_route_and_waits_for_none(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    event_id = send_test(connection, fleet.company_id, endpoint_id, DOT, now=now)
    second = send_test(connection, fleet.company_id, endpoint_id, DOT, now=now)

    batch = claim(connection, endpoint_id, settings, later)

    assert [one.event_id for one in batch.claimed] == [event_id, second]
    assert batch.claimed[0].payload.startswith('{"type":"webhook.test","timestamp":')


def test_test_events_of_a_company_have_a_bound(connection: Connection, fleet: Fleet, endpoint_id: UUID) -> None:
    for _ in range(MOST_TEST_EVENTS):
        send_test(connection, fleet.company_id, endpoint_id, DOT, now=clock.now())
    with pytest.raises(UnusableEndpoint, match="10 tests were sent within 10 minutes: wait"):
        send_test(connection, fleet.company_id, endpoint_id, DOT, now=clock.now())
    send_test(connection, fleet.company_id, endpoint_id, DOT, now=clock.now() + 2 * TEST_EVENTS_WITHIN)


def test_another_company_reaches_nothing(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    (event,) = events_of(connection, endpoint_id)
    stranger = make_fleet(connection).company_id

    assert list_deliveries(connection, stranger, endpoint_id, limit=10) == []
    with pytest.raises(UnknownDelivery):
        read_delivery(connection, stranger, endpoint_id, event.id)
    for act in (
        lambda: replay_delivery(connection, stranger, endpoint_id, event.id, DOT, now=now),
        lambda: replay_failed(connection, stranger, endpoint_id, DOT, since=now, now=now),
        lambda: send_test(connection, stranger, endpoint_id, DOT, now=now),
        lambda: rotate_secret(connection, stranger, endpoint_id, DOT, contacts=IN_CLEAR, now=now),
        lambda: remove_endpoint(connection, stranger, endpoint_id, DOT, now=now),
        lambda: disable_endpoint(connection, stranger, endpoint_id, DOT, now=now),
    ):
        with pytest.raises(UnknownEndpoint):
            act()


def test_a_disabled_endpoint_is_sent_nothing_by_hand(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, now: datetime
) -> None:
    disable_endpoint(connection, fleet.company_id, endpoint_id, DOT._replace(reason="moved"), now=now)

    with pytest.raises(UnusableEndpoint, match="enable it first"):
        send_test(connection, fleet.company_id, endpoint_id, DOT, now=now)


def test_a_delivery_that_ends_while_it_is_read_is_not_shown_as_pending_with_the_attempt_that_ended_it(
    settings: Settings, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = delivery_log._FIND.first
    with own_database("reading") as database:
        with database.transaction() as connection:
            fleet = make_fleet(connection)
            endpoint_id = make_endpoint(connection, fleet.live).endpoint.id
            imported(connection, fleet.live, now=now)
        with database.transaction() as connection:
            (one,) = claim(connection, endpoint_id, settings, now + timedelta(minutes=1)).claimed

        def find_and_settle(*arguments: Any) -> Any:
            found = find(*arguments)
            with database.transaction() as other:
                settle_deliveries(other, endpoint_id, [outcome(one, now)], settings=settings, now=now)
            return found

        monkeypatch.setattr(delivery_log._FIND, "first", find_and_settle)
        with database.transaction() as connection:
            details = read_delivery(connection, fleet.company_id, endpoint_id, one.event_id)

    assert (details.delivery.status, len(details.attempts)) in (("pending", 0), ("delivered", 0), ("delivered", 1))


def test_a_removed_endpoint_is_gone_with_its_deliveries(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    (lost,) = claim(connection, endpoint_id, settings, later).claimed

    remove_endpoint(connection, fleet.company_id, endpoint_id, DOT, now=later)
    settle_deliveries(connection, endpoint_id, [outcome(lost, later)], settings=settings, now=later)

    assert ENDPOINTS.all(connection, fleet.company_id) == []
    assert events_of(connection, endpoint_id)[0].status == "failed"


def test_old_events_are_forgotten_with_their_deliveries(
    connection: Connection, fleet: Fleet, endpoint_id: UUID, settings: Settings, now: datetime, later: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    attempt(connection, endpoint_id, settings, later)

    forget_events(connection, days=30, now=later + timedelta(days=29), limit=10_000)
    assert len(events_of(connection, endpoint_id)) == 1
    forget_events(connection, days=30, now=later + timedelta(days=31), limit=10_000)
    assert events_of(connection, endpoint_id) == []


BACKLOG = 3_000


@pytest.mark.parametrize("known", [None, 1, 300], ids=lambda rows: f"statistics of {rows} rows" if rows else "none")
def test_a_long_backlog_is_not_read_for_each_claim(settings: Settings, now: datetime, known: int | None) -> None:
    """Whatever PostgreSQL knew of the table when the backlog began to grow."""
    with own_database("backlog") as database:
        if known is not None:
            with database.transaction() as connection:
                plant_backlog(connection, make_fleet(connection), uuid4(), known)
                connection.execute("ANALYZE webhook_deliveries")
        with database.transaction() as connection:
            fleet = make_fleet(connection)
            endpoint_id = make_endpoint(connection, fleet.live).endpoint.id
            plant_backlog(connection, fleet, endpoint_id, BACKLOG)
        later = now + timedelta(minutes=1)
        with database.pipelined_transaction() as connection:
            batch = claim(connection, endpoint_id, settings, later, most=20)
            assert len(batch.claimed) == 20
            assert rows_read(connection)["webhook_deliveries"] < BACKLOG / 10
        with database.pipelined_transaction() as connection:
            outcomes = [outcome(one, later, 500) for one in batch.claimed]
            settle_deliveries(connection, endpoint_id, outcomes, settings=settings, now=later)
            assert rows_read(connection)["webhook_deliveries"] < BACKLOG / 10
        with database.pipelined_transaction() as connection:
            assert due_endpoints(connection, now=later)[endpoint_id] == fleet.company_id
            assert rows_read(connection)["webhook_deliveries"] < BACKLOG / 10


def plant_backlog(connection: Connection, fleet: Fleet, endpoint_id: UUID, count: int) -> None:
    """Events of routes, three of each, that are all due."""
    connection.execute(
        "INSERT INTO webhook_events (id, company_id, environment, route_id, type, at, payload)"
        " SELECT gen_random_uuid(), %s, 'live', md5((n / 3)::text)::uuid, 'route.held', now(), '{}'"
        " FROM generate_series(0, %s - 1) AS n",
        (fleet.company_id, count),
    )
    connection.execute(
        "INSERT INTO webhook_deliveries"
        " (endpoint_id, event_id, company_id, environment, route_id, queued_at, retry_at)"
        " SELECT %s, id, company_id, environment, route_id, at, at FROM webhook_events WHERE company_id = %s",
        (endpoint_id, fleet.company_id),
    )


# --- The law -----------------------------------------------------------------------------------------------------


@hypothesis_settings(
    max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=st.lists(st.sampled_from(["claim", "claim 1", "succeed", "fail", "wait", "lose"]), min_size=5, max_size=40)
)
def test_no_event_overtakes_the_one_before_it(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, steps: list[str]
) -> None:
    with connection.transaction(force_rollback=True):
        check_order(connection, fleet, settings, now, steps)


def check_order(connection: Connection, fleet: Fleet, settings: Settings, now: datetime, steps: list[str]) -> None:
    """Whatever happens to attempts, at most one event of a route is under way, and each begins after the end of the
    one before it."""
    endpoint_id = make_endpoint(connection, fleet.live).endpoint.id
    for _ in range(3):
        route_with_two_events(connection, fleet, now)
    route_of = {event.number: event.route_id for event in events_of(connection, endpoint_id)}
    moment = now + timedelta(minutes=1)
    held: list[DeliveryClaim] = []
    for step in [*steps, "lose", "wait", *["claim", "succeed"] * 12]:
        if step.startswith("claim"):
            most = 1 if step == "claim 1" else 100
            claimed = claim(connection, endpoint_id, settings, moment, most).claimed
            open_before = {
                event.number: event for event in events_of(connection, endpoint_id) if event.status == "pending"
            }
            for one in claimed:
                earlier = [n for n in open_before if n < one.number and route_of[n] == route_of[one.number]]
                assert earlier == []
            held += claimed
        elif step == "wait":
            moment += timedelta(minutes=30)
        elif step == "lose":
            held = []
            moment += timedelta(minutes=1)
        elif held:
            one = held.pop(0)
            status = 200 if step == "succeed" else 500
            settle_deliveries(connection, endpoint_id, [outcome(one, moment, status)], settings=settings, now=moment)
    assert {event.status for event in events_of(connection, endpoint_id)} == {"delivered"}
