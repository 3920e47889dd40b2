"""A notice that is due is claimed, handed over and settled, at most once; a gateway that refuses is asked again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from pydantic import SecretStr

from domain import clock
from domain.accounts.contacts import IN_CLEAR, Contacts
from domain.database.connections import Connection
from domain.ids import new_id
from domain.messages.gateways import Fault
from domain.notices.notice_life import RETRIED_FOR, NoticeClaim, claim_notice, hand_over_notice, settle_notice
from domain.notices.notice_log import MOST_TESTS, TESTS_WITHIN, forget_notices, list_notices, send_test_notice
from domain.notices.noticing import DOUBT
from domain.notices.subscriptions import (
    SUBSCRIPTIONS,
    UnknownSubscription,
    UnusableSubscription,
    change_subscription,
    disable_subscription,
)
from domain.settings import Settings
from tests.domain.notices.subscriptions import HERE, URL, VALUES, look, notices_of, subscribe
from tests.factories import DOT, Fleet, make_fleet
from tests.gateway import Gateway
from tests.jobs import jobs_of

NOW = datetime(2026, 11, 24, 18, tzinfo=UTC)
SENDER = {"company": "Acme", "console": "https://c"}
SOON = NOW + timedelta(minutes=1)
hand_over = partial(hand_over_notice, tell_time=lambda: NOW)
KEY = "w1sC0B0Xc6b1Hf3nV2pQ7m9yJ4tK8uL5aZ0eR6dG3hI="


def due(connection: Connection, fleet: Fleet, now: datetime = NOW) -> NoticeClaim | None:
    """Claims a test, which is as any other notice."""
    subscription = subscribe(connection, fleet.company_id)
    send_test_notice(connection, fleet.company_id, subscription.id, DOT, company="Acme", console="https://c", now=now)
    (job,) = jobs_of(connection)
    return claim_notice(connection, fleet.company_id, job.payload["notice_id"], settings=Settings(), now=now)


def must(claimed: NoticeClaim | None) -> NoticeClaim:
    assert claimed is not None
    return claimed


def test_a_claimed_notice_is_claimed_by_nobody_else(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    claimed = must(due(connection, fleet))
    for later in (timedelta(), timedelta(days=1)):
        again = claim_notice(connection, fleet.company_id, claimed.notice_id, settings=settings, now=NOW + later)
        assert again is None


def test_nobody_claims_a_notice_of_another_company(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    subscription = subscribe(connection, fleet.company_id)
    send_test_notice(connection, fleet.company_id, subscription.id, DOT, company="Acme", console="https://c", now=NOW)
    (job,) = jobs_of(connection)
    other = make_fleet(connection).company_id
    assert claim_notice(connection, other, job.payload["notice_id"], settings=settings, now=NOW) is None


def test_an_attempt_that_was_cut_off_is_in_doubt_and_not_repeated(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    claimed = must(due(connection, fleet))
    assert not look(connection, fleet.company_id, claimed.until - timedelta(seconds=1)).due
    assert not look(connection, fleet.company_id, claimed.until).due
    (notice,) = notices_of(connection, fleet.company_id)
    assert (notice.status, notice.error) == ("doubtful", DOUBT)
    assert settle_notice(connection, claimed, None, now=claimed.until) is None, "its worker comes too late"
    assert notices_of(connection, fleet.company_id) == [notice]


def test_a_worker_that_stood_still_until_its_claim_ran_out_sends_nothing(
    connection: Connection, fleet: Fleet, settings: Settings, gateway: Gateway
) -> None:
    claimed = replace(must(due(connection, fleet)), stored_url=gateway.url)
    allowed = settings.model_copy(update={"message_allowed_hosts": "127.0.0.0/8"})
    fault = hand_over_notice(claimed, allowed, tell_time=lambda: claimed.until)
    assert gateway.received == []
    assert settle_notice(connection, claimed, fault, now=claimed.until) == "pending", "nothing went out"


def test_a_gateway_that_refuses_is_asked_again_for_hours(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    claimed: NoticeClaim | None = must(due(connection, fleet))
    now, waits = NOW, []
    while settle_notice(connection, must(claimed), Fault("it said no"), now=now) == "pending":
        (notice,) = notices_of(connection, fleet.company_id)
        waits.append((notice.retry_at - now).total_seconds())
        early = notice.retry_at - timedelta(seconds=1)
        assert claim_notice(connection, fleet.company_id, notice.id, settings=settings, now=early) is None
        now = notice.retry_at
        (notice_id,) = look(connection, fleet.company_id, now).due
        claimed = claim_notice(connection, fleet.company_id, notice_id, settings=settings, now=now)

    assert waits[:4] == [30, 60, 120, 240]
    assert max(waits) == 1800
    (notice,) = notices_of(connection, fleet.company_id)
    assert (notice.status, notice.error, notice.attempts) == ("failed", "it said no", len(waits) + 1)
    assert RETRIED_FOR - timedelta(hours=1) < now - NOW <= RETRIED_FOR
    assert not look(connection, fleet.company_id, now + timedelta(days=1)).due


def test_notices_that_wait_are_due_once_the_channel_is_mended(
    connection: Connection, fleet: Fleet, settings: Settings
) -> None:
    claimed = must(due(connection, fleet))
    settle_notice(connection, claimed, Fault("it said no"), now=NOW)
    assert not look(connection, fleet.company_id, NOW).due

    (subscription,) = SUBSCRIPTIONS.all(connection, fleet.company_id)
    for url in (None, URL + "/mended"):
        assert not look(connection, fleet.company_id, NOW).due
        change_subscription(
            *(connection, fleet.company_id, subscription.id, VALUES._replace(url=url), DOT),
            allowed=HERE,
            contacts=IN_CLEAR,
            now=NOW,
        )

    (notice_id,) = look(connection, fleet.company_id, NOW).due
    again = must(claim_notice(connection, fleet.company_id, notice_id, settings=settings, now=NOW))
    assert again.stored_url == URL + "/mended"


def test_the_next_attempt_knows_who_has_the_text(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    claimed = must(due(connection, fleet))
    claimed.recipients.note("ann@example.com")
    assert settle_notice(connection, claimed, Fault("it refused bob"), now=NOW) == "pending"
    later = NOW + timedelta(minutes=1)
    again = must(claim_notice(connection, fleet.company_id, claimed.notice_id, settings=settings, now=later))
    assert again.recipients.have("ann@example.com")
    assert not again.recipients.have("bob@example.com")


def test_a_time_out_on_an_open_connection_is_in_doubt(connection: Connection, fleet: Fleet, settings: Settings) -> None:
    claimed = must(due(connection, fleet))
    assert settle_notice(connection, claimed, Fault("no answer", in_doubt=True), now=NOW) == "doubtful"


def test_the_gateway_gets_the_text_by_the_rules_of_drivers_messages(settings: Settings, gateway: Gateway) -> None:
    claimed = NoticeClaim(new_id(), gateway.url, "Title\nFirst line\nhttps://c/routes", 0, NOW, until=SOON)
    inside = hand_over(claimed, settings)
    assert inside is not None
    assert "is not on the public internet" in inside.sentence
    assert gateway.received == []

    allowed = settings.model_copy(update={"message_allowed_hosts": "127.0.0.0/8"})
    assert hand_over(claimed, allowed) is None
    (received,) = gateway.received
    assert (received["title"], received["message"]) == ("Title", "First line\nhttps://c/routes")
    gateway.status = 500
    refused = hand_over(claimed, allowed)
    assert refused == Fault("the gateway did not accept the message")


def test_a_request_without_an_answer_is_in_doubt_and_one_that_never_left_is_not(
    connection: Connection, fleet: Fleet, settings: Settings, gateway: Gateway
) -> None:
    allowed = settings.model_copy(update={"message_allowed_hosts": "127.0.0.0/8"})
    claimed = must(due(connection, fleet))
    away = hand_over(replace(claimed, stored_url="json://127.0.0.1:9/"), allowed)
    assert settle_notice(connection, claimed, away, now=NOW) == "pending"

    later = NOW + timedelta(minutes=1)
    again = must(claim_notice(connection, fleet.company_id, claimed.notice_id, settings=settings, now=later))
    gateway.hangs_up = True
    unanswered = hand_over(replace(again, stored_url=gateway.url), allowed)
    assert len(gateway.received) == 1
    assert settle_notice(connection, again, unanswered, now=later) == "doubtful"


def test_a_sealed_channel_is_opened_by_its_key_alone(
    connection: Connection, fleet: Fleet, settings: Settings, gateway: Gateway
) -> None:
    subscribe(connection, fleet.company_id, url=gateway.url, contacts=Contacts(KEY))
    (row,) = connection.execute("SELECT url FROM notice_subscriptions WHERE company_id = %s", (fleet.company_id,))
    assert row[0].startswith("sealed:")
    claimed = NoticeClaim(new_id(), row[0], "Title\nBody", 0, NOW, until=SOON)
    allowed = settings.model_copy(update={"message_allowed_hosts": "127.0.0.0/8"})
    fault = hand_over(claimed, allowed)
    assert fault is not None
    assert "sealed with another key" in fault.sentence
    assert hand_over(claimed, allowed.model_copy(update={"contact_key": SecretStr(KEY)})) is None


def test_a_test_needs_an_enabled_subscription_of_the_company(connection: Connection, fleet: Fleet) -> None:
    subscription = subscribe(connection, fleet.company_id)
    words = {"company": "Acme", "console": "https://c", "now": NOW}
    with pytest.raises(UnknownSubscription):
        send_test_notice(connection, make_fleet(connection).company_id, subscription.id, DOT, **words)  # type: ignore[arg-type]
    disable_subscription(connection, fleet.company_id, subscription.id, DOT, now=NOW)
    with pytest.raises(UnusableSubscription):
        send_test_notice(connection, fleet.company_id, subscription.id, DOT, **words)  # type: ignore[arg-type]


def test_old_notices_are_forgotten_but_those_of_lasting_needs(connection: Connection, fleet: Fleet) -> None:
    subscribe(connection, fleet.company_id)
    now = datetime.now(UTC)
    must(due(connection, fleet, now))
    connection.execute(
        "INSERT INTO notices (id, company_id, subscription_id, kind, part, opened_at)"
        " VALUES (%s, %s, %s, 'error', 'beginning', now())",
        (new_id(), fleet.company_id, new_id()),
    )
    assert len(list_notices(connection, fleet.company_id, limit=10)) == 2
    forget_notices(connection, days=1, now=now, limit=1000)
    assert len(list_notices(connection, fleet.company_id, limit=10)) == 2
    forget_notices(connection, days=1, now=now + timedelta(days=2), limit=1000)
    (kept,) = list_notices(connection, fleet.company_id, limit=10)
    assert kept.kind == "error"


def test_tests_of_a_company_have_a_bound_that_passes(connection: Connection, fleet: Fleet) -> None:
    one, other = subscribe(connection, fleet.company_id), subscribe(connection, fleet.company_id)
    stranger = make_fleet(connection).company_id
    for number in range(MOST_TESTS):
        send_test_notice(connection, fleet.company_id, (one, other)[number % 2].id, DOT, now=NOW, **SENDER)
    with pytest.raises(UnusableSubscription, match=f"{MOST_TESTS} tests were sent within 10 minutes"):
        send_test_notice(connection, fleet.company_id, one.id, DOT, now=clock.now(), **SENDER)
    send_test_notice(connection, stranger, subscribe(connection, stranger).id, DOT, now=NOW, **SENDER)
    send_test_notice(connection, fleet.company_id, one.id, DOT, now=clock.now() + 2 * TESTS_WITHIN, **SENDER)
