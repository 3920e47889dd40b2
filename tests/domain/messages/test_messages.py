"""Messages to drivers have a channel, go out once, and are tried again when a gateway fails (decision 20)."""

import itertools
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.accounts.companies import set_policy
from domain.accounts.contact_urls import channel_of
from domain.accounts.policy import Policy
from domain.accounts.tokens import hash_of_token
from domain.database.connections import Connection
from domain.driver_page.page import ask_trips
from domain.ids import shown_id
from domain.lifecycle import RouteStatus
from domain.messages.due_messages import due_messages, list_messages
from domain.messages.message_life import MessageStatus
from domain.settings import Settings
from tests.domain.helpers import deliver, imported, planned_by_hand, status_of
from tests.domain.messages.loads import contact, message, message_url
from tests.factories import DOT, Fleet, make_fleet
from tests.gateway import Gateway
from tests.jobs import jobs_of

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


# --- Channels --------------------------------------------------------------------------------------------------


def test_a_message_without_any_channel_goes_to_the_outbox_and_its_route_becomes_active(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)

    status = deliver(connection, message_id, settings=settings, now=now)

    row = message(connection, message_id)
    assert (status, jobs_of(connection)) == (MessageStatus.SENT, [])
    assert (row.status, row.channel, row.sent_at, row.retry_at) == ("sent", "outbox", now, None)
    assert status_of(connection, route_id) is RouteStatus.ACTIVE


def test_a_message_is_delivered_once(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    contact(connection, fleet, gateway.url)
    message_id = planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)

    outcomes = [deliver(connection, message_id, settings=settings, now=now) for _ in range(3)]

    assert outcomes == [MessageStatus.SENT, None, None]
    assert len(gateway.received) == 1


def test_the_sandbox_sends_no_message_and_its_route_becomes_active(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    contact(connection, fleet, gateway.url)
    message_url(connection, fleet, gateway.url)
    route_id = imported(connection, fleet.sandbox, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)

    status = deliver(connection, message_id, settings=settings, now=now)

    assert status is MessageStatus.SUPPRESSED
    assert gateway.received == []
    assert status_of(connection, route_id) is RouteStatus.ACTIVE
    assert "Lakeside Travel Plaza" in message(connection, message_id).text


def test_a_gateway_gets_the_text_and_the_message_s_id(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    contact(connection, fleet, gateway.url)
    route_id = imported(connection, fleet.live, now=now, reference="PO <4711> & co")
    message_id = planned_by_hand(connection, route_id, now=now)

    deliver(connection, message_id, settings=settings, now=now)

    (received,) = gateway.received
    assert received["title"] == "Fuel plan for PO <4711> & co, truck 101"
    assert "1. Lakeside Travel Plaza, 100 Exit Rd, Elkhart, IN" in received["message"]
    assert shown_id("msg", message_id) in received["message"]
    assert message(connection, message_id).channel == "json"


def test_the_driver_s_contact_comes_before_the_company_s_url(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    message_url(connection, fleet, "json://127.0.0.1:9/")
    contact(connection, fleet, gateway.url)
    message_id = planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)

    assert deliver(connection, message_id, settings=settings, now=now) is MessageStatus.SENT
    assert len(gateway.received) == 1


def test_the_company_s_url_serves_drivers_without_contact(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    message_url(connection, fleet, gateway.url)
    message_id = planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)

    deliver(connection, message_id, settings=settings, now=now)

    assert len(gateway.received) == 1


def test_a_company_url_that_was_emptied_leads_to_the_outbox_again(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    message_url(connection, fleet, "json://127.0.0.1:9/")
    set_policy(connection, fleet.company_id, Policy(message_url=""), DOT)
    message_id = planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)

    assert deliver(connection, message_id, settings=settings, now=now) is MessageStatus.SENT


# --- Gateways that fail ----------------------------------------------------------------------------------------


def test_a_refused_message_stays_pending_and_its_route_planned(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    gateway.status = 503
    contact(connection, fleet, gateway.url)
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)

    assert deliver(connection, message_id, settings=settings, now=now) is MessageStatus.PENDING

    row = message(connection, message_id)
    assert (row.status, row.attempts, row.retry_at) == ("pending", 1, now + timedelta(seconds=30))
    assert row.error == "the gateway did not accept the message"
    assert status_of(connection, route_id) is RouteStatus.PLANNED


def test_a_retry_is_not_made_before_it_is_due(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    gateway.status = 503
    contact(connection, fleet, gateway.url)
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)
    deliver(connection, message_id, settings=settings, now=now)
    gateway.status = 200

    early, due = now + timedelta(seconds=29), now + timedelta(seconds=30)
    assert deliver(connection, message_id, settings=settings, now=early) is None
    assert message_id not in due_messages(connection, now=early)
    assert message_id in due_messages(connection, now=due)
    assert deliver(connection, message_id, settings=settings, now=due) is MessageStatus.SENT
    assert status_of(connection, route_id) is RouteStatus.ACTIVE
    assert message(connection, message_id).error is None


def test_retries_back_off_to_half_an_hour_and_end_after_a_day(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    gateway.status = 503
    contact(connection, fleet, gateway.url)
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)

    moments, status = [now], deliver(connection, message_id, settings=settings, now=now)
    while status is MessageStatus.PENDING:
        moments.append(message(connection, message_id).retry_at)
        status = deliver(connection, message_id, settings=settings, now=moments[-1])

    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(moments)]
    assert status is MessageStatus.FAILED
    assert gaps[:6] == [30, 60, 120, 240, 480, 960]
    assert set(gaps[6:]) == {1800}
    assert timedelta(hours=23) < moments[-1] - now <= timedelta(hours=24)
    row = message(connection, message_id)
    assert (row.status, row.retry_at, row.attempts) == ("failed", None, len(moments))
    assert status_of(connection, route_id) is RouteStatus.PLANNED
    assert deliver(connection, message_id, settings=settings, now=now + timedelta(days=2)) is None


@pytest.mark.parametrize("url", ["json://driver:secret@127.0.0.1:9/token-secret", "nonsense-secret"])
def test_the_error_of_an_attempt_holds_no_secret_of_the_url(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, url: str
) -> None:
    contact(connection, fleet, url)
    message_id = planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)

    deliver(connection, message_id, settings=settings, now=now)

    error = message(connection, message_id).error
    assert error
    assert "secret" not in error


@hypothesis_settings(deadline=None)
@given(
    st.sampled_from(["json", "mailtos", "twilio", "slack", "HTTPS"]),
    st.text(alphabet="0123456789", min_size=4),
    st.sampled_from(
        ["{scheme}://{secret}@host/", "{scheme}://user:{secret}@host", "{scheme}://host/{secret}?a={secret}"]
    ),
)
def test_a_channel_s_name_never_shows_a_secret(scheme: str, secret: str, shape: str) -> None:
    assert channel_of(shape.format(scheme=scheme, secret=secret)) == scheme.lower()


# --- The list --------------------------------------------------------------------------------------------------


def test_messages_are_listed_for_their_company_only(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    other = make_fleet(connection)
    planned_by_hand(connection, imported(connection, other.live, now=now), now=now)
    ids = []
    for tenant in (fleet.live, fleet.sandbox):
        ids.append(planned_by_hand(connection, imported(connection, tenant, now=now), now=now))
        deliver(connection, ids[-1], settings=settings, now=now)

    rows = list_messages(connection, fleet.company_id)

    assert [(row.id, row.status, row.channel) for row in rows] == [
        (ids[0], "sent", "outbox"),
        (ids[1], "suppressed", "sandbox"),
    ]


# --- The link to the driver's page -----------------------------------------------------------------------------

PAGE = "https://drive.example.com"


def link_of(text: str) -> str:
    """The line before the message's id."""
    return text.split("\n")[-2]


def test_a_message_has_a_link_of_its_own_in_each_attempt_and_the_stored_text_a_mask(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    gateway.status = 503
    contact(connection, fleet, gateway.url)
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)
    with_page = settings.model_copy(update={"driver_page_url": f"{PAGE}/"})

    deliver(connection, message_id, settings=with_page, now=now)
    gateway.status = 200
    deliver(connection, message_id, settings=with_page, now=now + timedelta(hours=1))

    first, second = (
        link_of(one["message"]).removeprefix(f"Your trip on a page: {PAGE}/d/") for one in gateway.received
    )
    assert first != second
    for token in (first, second):
        (trip,) = ask_trips([hash_of_token(token)], hours=24, now=now).on(connection)
        assert trip is not None
        assert trip.link.route_id == route_id
    stored = message(connection, message_id).text
    assert link_of(stored) == f"Your trip on a page: {PAGE}/d/***"
    assert stored.count("/d/") == 1


def test_without_an_address_of_the_page_the_text_has_no_link_even_if_it_had_one(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    gateway.status = 503
    contact(connection, fleet, gateway.url)
    message_id = planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)
    before = message(connection, message_id).text
    with_page = settings.model_copy(update={"driver_page_url": PAGE})

    deliver(connection, message_id, settings=with_page, now=now)
    deliver(connection, message_id, settings=settings, now=now + timedelta(hours=1))

    assert message(connection, message_id).text == before


def test_neither_the_outbox_nor_the_sandbox_gets_a_link(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    with_page = settings.model_copy(update={"driver_page_url": PAGE})
    for tenant in (fleet.live, fleet.sandbox):
        message_id = planned_by_hand(connection, imported(connection, tenant, now=now), now=now)
        deliver(connection, message_id, settings=with_page, now=now)
        assert PAGE not in message(connection, message_id).text
    links = connection.execute("SELECT FROM driver_links WHERE company_id = %s", (fleet.company_id,))
    assert links.fetchall() == []
