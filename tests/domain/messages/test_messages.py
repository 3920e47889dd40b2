"""Messages to drivers: their channel, and that each goes out once (decision 20)."""

import itertools
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.accounts.companies import Policy, set_policy
from domain.database import Connection, Database
from domain.ids import shown_id
from domain.lifecycle import RouteStatus
from domain.messages import message_life
from domain.messages.due_messages import due_messages, list_messages
from domain.messages.gateways import Fault
from domain.messages.message_life import Claim, MessageStatus, channel_of
from domain.queue.jobs import send_message_job
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, store_pushes
from domain.routes.plans import delivery
from domain.routes.plans.delivery import DeliveryOutcome
from domain.routes.reading.lookups import read_routes
from domain.routes.transitions import cancel_route
from domain.settings import Settings
from tests.domain.helpers import (
    corrected_by_hand,
    deliver,
    imported,
    planned_by_hand,
    route_row,
    status_of,
)
from tests.factories import Fleet, make_fleet, route_input
from tests.gateway import Gateway, running_gateway
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with running_gateway() as gateway:
        yield gateway


def message(connection: Connection, message_id: UUID) -> Any:
    (row,) = named(connection).execute("SELECT * FROM messages WHERE id = %s", (message_id,)).fetchall()
    return row


def contact(connection: Connection, fleet: Fleet, url: str) -> None:
    connection.execute("UPDATE drivers SET contact = %s WHERE id = %s", (url, fleet.drivers[0]))


def message_url(connection: Connection, fleet: Fleet, url: str) -> None:
    connection.execute("UPDATE companies SET message_url = %s WHERE id = %s", (url, fleet.company_id))


# --- Channels --------------------------------------------------------------------------------------------------


def test_without_any_channel_the_message_goes_to_the_outbox_and_the_route_becomes_active(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)

    status, jobs = deliver(connection, message_id, settings=settings, now=now)

    row = message(connection, message_id)
    assert (status, jobs) == (MessageStatus.SENT, [])
    assert (row.status, row.channel, row.sent_at, row.retry_at) == ("sent", "outbox", now, None)
    assert status_of(connection, route_id) is RouteStatus.ACTIVE


def test_a_message_is_delivered_once(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    contact(connection, fleet, gateway.url)
    message_id = planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)

    outcomes = [deliver(connection, message_id, settings=settings, now=now)[0] for _ in range(3)]

    assert outcomes == [MessageStatus.SENT, None, None]
    assert len(gateway.received) == 1


def test_the_sandbox_contacts_nobody_and_still_moves_on(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    contact(connection, fleet, gateway.url)
    message_url(connection, fleet, gateway.url)
    route_id = imported(connection, fleet.sandbox, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)

    status, _ = deliver(connection, message_id, settings=settings, now=now)

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

    assert deliver(connection, message_id, settings=settings, now=now)[0] is MessageStatus.SENT
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
    set_policy(connection, fleet.company_id, Policy(message_url=""))
    message_id = planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)

    assert deliver(connection, message_id, settings=settings, now=now)[0] is MessageStatus.SENT


# --- Gateways that fail ----------------------------------------------------------------------------------------


def test_a_refused_message_stays_pending_and_its_route_planned(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    gateway.status = 503
    contact(connection, fleet, gateway.url)
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)

    assert deliver(connection, message_id, settings=settings, now=now)[0] is MessageStatus.PENDING

    row = message(connection, message_id)
    assert (row.status, row.attempts, row.retry_at) == ("pending", 1, now + timedelta(seconds=30))
    assert row.error == "the gateway did not accept the message"
    assert status_of(connection, route_id) is RouteStatus.PLANNED


def test_a_retry_waits_until_it_is_due(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    gateway.status = 503
    contact(connection, fleet, gateway.url)
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)
    deliver(connection, message_id, settings=settings, now=now)
    gateway.status = 200

    early, due = now + timedelta(seconds=29), now + timedelta(seconds=30)
    assert deliver(connection, message_id, settings=settings, now=early)[0] is None
    assert message_id not in due_messages(connection, now=early)
    assert message_id in due_messages(connection, now=due)
    assert deliver(connection, message_id, settings=settings, now=due)[0] is MessageStatus.SENT
    assert status_of(connection, route_id) is RouteStatus.ACTIVE
    assert message(connection, message_id).error is None


def test_retries_back_off_to_half_an_hour_and_end_after_a_day(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    gateway.status = 503
    contact(connection, fleet, gateway.url)
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)

    moments, status = [now], deliver(connection, message_id, settings=settings, now=now)[0]
    while status is MessageStatus.PENDING:
        moments.append(message(connection, message_id).retry_at)
        status = deliver(connection, message_id, settings=settings, now=moments[-1])[0]

    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(moments)]
    assert status is MessageStatus.FAILED
    assert gaps[:6] == [30, 60, 120, 240, 480, 960]
    assert set(gaps[6:]) == {1800}
    assert timedelta(hours=23) < moments[-1] - now <= timedelta(hours=24)
    row = message(connection, message_id)
    assert (row.status, row.retry_at, row.attempts) == ("failed", None, len(moments))
    assert status_of(connection, route_id) is RouteStatus.PLANNED
    assert deliver(connection, message_id, settings=settings, now=now + timedelta(days=2))[0] is None


@pytest.mark.parametrize("url", ["json://driver:secret@127.0.0.1:9/token-secret", "nonsense-secret"])
def test_what_went_wrong_is_told_without_the_url_s_secrets(
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


# --- Claims ----------------------------------------------------------------------------------------------------


@dataclass
class Load:
    """A planned route that other connections can see, and its first message, toward the gateway."""

    database: Database
    settings: Settings
    fleet: Fleet
    now: datetime
    route_id: UUID = field(init=False)
    message_id: UUID = field(init=False)

    @classmethod
    def planned(cls, database: Database, settings: Settings, now: datetime, url: str, **changes: Any) -> "Load":
        allowing = settings.model_copy(update={"message_allowed_hosts": "127.0.0.1", "message_timeout_seconds": 5})
        with database.transaction() as connection:
            load = cls(database, allowing, make_fleet(connection), now)
            contact(connection, load.fleet, url)
            load.plan_route(connection, externalId="LOAD", **changes)
        return load

    def plan_route(self, connection: Connection, **changes: Any) -> UUID:
        self.route_id = imported(connection, self.fleet.live, now=self.now, **changes)
        self.message_id = planned_by_hand(connection, self.route_id, now=self.now)
        return self.message_id

    def claim(self, message_id: UUID | None = None, *, seconds: float = 0) -> Claim | DeliveryOutcome:
        now = self.now + timedelta(seconds=seconds)
        with self.database.transaction() as connection:
            return delivery.start_delivery(connection, message_id or self.message_id, settings=self.settings, now=now)

    def claimed(self, message_id: UUID | None = None, *, seconds: float = 0) -> Claim:
        claimed = self.claim(message_id, seconds=seconds)
        assert isinstance(claimed, Claim)
        return claimed

    def settle(self, claimed: Claim, fault: Fault | None = None, *, seconds: float = 0) -> DeliveryOutcome:
        now = self.now + timedelta(seconds=seconds)
        with self.database.transaction() as connection:
            return delivery.finish_delivery(connection, claimed, fault, settings=self.settings, now=now)

    def change(self, **changes: Any) -> UUID:
        """Pushes the route anew, imports and plans it. Returns the new message."""
        with self.database.transaction() as connection:
            return self.plan_route(connection, **{"externalId": "LOAD", "reference": "changed", **changes})

    def row(self, message_id: UUID | None = None) -> Any:
        with self.database.transaction() as connection:
            return message(connection, message_id or self.message_id)

    @property
    def status(self) -> RouteStatus:
        with self.database.transaction() as connection:
            return status_of(connection, self.route_id)


REFUSED = Fault("the gateway did not accept the message")
NO_ANSWER = Fault("the gateway did not answer within 5 s", in_doubt=True)


@pytest.fixture
def load(database: Database, settings: Settings, now: datetime) -> Load:
    return Load.planned(database, settings, now, "json://gateway.invalid/")


def test_a_crash_after_the_gateway_s_answer_sends_the_same_message_again_once_the_claim_ran_out(
    database: Database, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    load = Load.planned(database, settings, now, gateway.url)
    assert message_life.hand_over(load.claimed(), load.settings) is None  # and there it ends

    with database.transaction() as connection:
        assert load.message_id not in due_messages(connection, now=now + timedelta(seconds=19))
        assert load.message_id in due_messages(connection, now=now + timedelta(seconds=21))
    assert load.claim(seconds=19) == DeliveryOutcome(None, [])
    again = load.claimed(seconds=21)
    assert message_life.hand_over(again, load.settings) is None
    assert load.settle(again, seconds=21).status is MessageStatus.SENT

    assert load.status is RouteStatus.ACTIVE
    first, second = gateway.received
    assert first["message"] == second["message"]
    assert shown_id("msg", load.message_id) in first["message"]


def test_of_two_workers_one_delivers_and_the_other_passes_by(load: Load) -> None:
    with ThreadPoolExecutor(4) as threads:
        steps = list(threads.map(lambda _: load.claim(), range(4)))

    assert [isinstance(step, Claim) for step in steps].count(True) == 1
    assert steps.count(DeliveryOutcome(None, [])) == 3


def test_nothing_is_locked_while_the_gateway_is_spoken_to(load: Load) -> None:
    load.claim()

    with load.database.transaction() as connection:
        for table, id_ in (("messages", load.message_id), ("routes", load.route_id)):
            assert (
                named(connection).execute(f"SELECT FROM {table} WHERE id = %s FOR UPDATE NOWAIT", (id_,)).rowcount == 1
            )


def test_an_outcome_counts_for_its_own_claim_only(load: Load) -> None:
    lost = load.claimed()
    load.claim(seconds=30)  # by another worker, for the claim ran out

    assert load.settle(lost, REFUSED, seconds=31) == DeliveryOutcome(None, [])
    assert load.row().error is None


def test_a_message_that_ends_each_worker_is_repeated_a_few_times_only(load: Load) -> None:
    seconds, attempts = 0.0, 0
    while isinstance(load.claim(seconds=seconds), Claim):
        attempts += 1
        seconds = (load.row().retry_at - load.now).total_seconds()

    row = load.row()
    assert (row.status, row.error, row.attempts) == ("failed", "no attempt has come to an end", attempts)
    assert attempts in (8, 9)
    assert seconds >= 86_400


def test_a_message_that_is_late_for_its_last_attempt_keeps_what_the_one_before_came_to(load: Load) -> None:
    load.settle(load.claimed(), REFUSED)

    assert load.claim(seconds=86_400 + 60) == DeliveryOutcome(MessageStatus.FAILED, [])

    assert load.row().error == REFUSED.sentence


# --- Changes while a message is on its way -----------------------------------------------------------------------


def test_an_update_while_the_message_is_on_its_way_is_taken_and_the_next_one_says_corrected(load: Load) -> None:
    first = load.message_id
    on_its_way = load.claimed()
    second = load.change()

    assert load.row(first).status == "pending"
    assert load.claim(second) == DeliveryOutcome(None, []), "the driver must not get the correction first"
    assert load.settle(on_its_way, seconds=1) == DeliveryOutcome(MessageStatus.SENT, [send_message_job(second)])
    assert load.row(first).status == "sent"
    assert load.status == "planned", "that was not its plan"

    correction = load.claimed(second, seconds=1)
    assert correction.text.startswith("CORRECTED fuel plan for changed, truck 101\n")
    assert load.settle(correction, seconds=2).status is MessageStatus.SENT
    assert load.status == "active"


def test_what_was_refused_while_the_route_changed_is_not_tried_again_and_needs_no_correction(load: Load) -> None:
    first = load.message_id
    on_its_way = load.claimed()
    second = load.change()

    assert load.settle(on_its_way, REFUSED, seconds=1) == DeliveryOutcome(
        MessageStatus.FAILED, [send_message_job(second)]
    )
    assert load.row(first).error == "The route was changed before delivery"
    assert load.claimed(second, seconds=1).text.startswith("Fuel plan for changed")


@pytest.mark.parametrize("crashed", [True, False])
def test_a_message_that_may_have_gone_out_makes_the_next_one_a_correction(load: Load, crashed: bool) -> None:
    on_its_way = load.claimed()
    if not crashed:
        load.settle(on_its_way, NO_ANSWER, seconds=5)
        load.settle(load.claimed(seconds=40), REFUSED, seconds=41)  # which says nothing of the attempt before
    second = load.change()

    assert load.claimed(second, seconds=60).text.startswith("CORRECTED fuel plan")


def test_a_gateway_that_never_answers_in_time_gets_a_message_a_few_times_only(load: Load) -> None:
    seconds, attempts = 0.0, 0
    while load.row().status == "pending":
        load.settle(load.claimed(seconds=seconds), NO_ANSWER, seconds=seconds + 5)
        attempts += 1
        if (retry_at := load.row().retry_at) is not None:
            seconds = (retry_at - load.now).total_seconds()

    assert attempts == 8
    assert load.row().claimed_until is not None, "the driver may have it"


def test_another_driver_gets_no_correction_of_what_he_never_had(load: Load) -> None:
    load.settle(load.claimed())
    with load.database.transaction() as connection:
        connection.execute("UPDATE routes SET status = 'error' WHERE id = %s", (load.route_id,))
        connection.execute(
            "UPDATE drivers SET contact = 'json://gateway.invalid/' WHERE company_id = %s", (load.fleet.company_id,)
        )

    assert load.claimed(load.change(driver={"name": "Bo Diaz"})).text.startswith("Fuel plan")


def test_a_cancel_while_the_message_is_on_its_way_leaves_it_to_its_sender(load: Load) -> None:
    on_its_way = load.claimed()
    with load.database.transaction() as connection:
        assert cancel_route(connection, load.fleet.live, load.route_id, now=load.now)[0] == "cancel"
    canceled = load.route_id

    assert load.settle(on_its_way, seconds=1).status is MessageStatus.SENT
    with load.database.transaction() as connection:
        assert status_of(connection, canceled) is RouteStatus.CANCELED
    assert load.claimed(load.change()).text.startswith("CORRECTED fuel plan")
    assert load.route_id != canceled


def test_a_load_that_comes_back_under_another_external_id_is_a_correction_too(
    database: Database, settings: Settings, now: datetime
) -> None:
    load = Load.planned(database, settings, now, "json://gateway.invalid/", reference="PO-1")
    with database.transaction() as connection:
        set_policy(connection, load.fleet.company_id, Policy(superseding=True))
    on_its_way = load.claimed()
    second = load.change(externalId="LOAD-B", reference="PO-1")

    assert load.claim(second) == DeliveryOutcome(None, [])
    load.settle(on_its_way, seconds=1)
    assert load.claimed(second, seconds=1).text.startswith("CORRECTED fuel plan for PO-1")


def test_a_canceled_route_s_message_whose_sender_is_gone_is_not_sent_again(load: Load) -> None:
    load.claim()
    with load.database.transaction() as connection:
        cancel_route(connection, load.fleet.live, load.route_id, now=load.now)

    assert load.claim(seconds=30).status is MessageStatus.FAILED  # type: ignore[union-attr]
    assert load.row().claimed_until is not None, "it may have gone out"


# --- Corrections -----------------------------------------------------------------------------------------------


def correction_of(load: Load, **plan: Any) -> UUID:
    """A better plan for an active route, and its message."""
    with load.database.transaction() as connection:
        return corrected_by_hand(connection, load.route_id, now=load.now, **plan)


def test_a_correction_is_the_route_s_plan_once_it_is_sent(load: Load) -> None:
    load.settle(load.claimed())
    correction = correction_of(load, totalDistanceMiles=801.5)
    with load.database.transaction() as connection:
        before = route_row(connection, load.route_id)
    (version,) = versions(load)

    claimed = load.claimed(correction)
    assert claimed.text.startswith("CORRECTED fuel plan")
    load.settle(claimed, REFUSED)
    with load.database.transaction() as connection:
        assert route_row(connection, load.route_id).plan_id == before.plan_id
    assert versions(load) == [version], "nothing that is shown has changed"

    load.settle(load.claimed(correction, seconds=60), seconds=60)
    with load.database.transaction() as connection:
        after = route_row(connection, load.route_id)
    assert after.plan_id == load.row(correction).plan_id
    assert (after.distance_miles, after.correction_id) == (801.5, None)
    assert after.corrected_at == load.now + timedelta(seconds=60)
    assert versions(load) != [version]


def test_a_correction_that_fails_for_good_leaves_the_plan_and_allows_another_one(load: Load) -> None:
    load.settle(load.claimed())
    correction = correction_of(load)
    late = 86_400 * 2

    assert load.settle(load.claimed(correction, seconds=late), REFUSED, seconds=late).status is MessageStatus.FAILED

    with load.database.transaction() as connection:
        route = route_row(connection, load.route_id)
    assert (route.status, route.correction_id, route.corrected_at) == ("active", None, None)


def test_a_route_completed_while_its_correction_is_on_its_way_shows_what_the_driver_has(load: Load) -> None:
    load.settle(load.claimed())
    claimed = load.claimed(correction_of(load))
    with load.database.transaction() as connection:
        connection.execute("UPDATE routes SET status = 'completed' WHERE id = %s", (load.route_id,))

    load.settle(claimed)

    with load.database.transaction() as connection:
        route = route_row(connection, load.route_id)
    assert (route.status, route.plan_id) == ("completed", load.row(claimed.message_id).plan_id)


def versions(load: Load) -> list[str | None]:
    """What the ETag of the route's answer is made of."""
    with load.database.transaction() as connection:
        (route,) = read_routes([(load.fleet.live, load.route_id)]).on(connection)
        return [route.version if route is not None else None]


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


# --- All at once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_pushed_while_messages_are_sent_the_driver_can_tell_which_plan_holds(
    database: Database, settings: Settings, now: datetime, seed: int
) -> None:
    """Pushes, workers of unequal speed that sometimes fail, and the sweep, all at once on one route."""
    load = Load.planned(database, settings, now, "json://gateway.invalid/")
    chance = random.Random(seed)
    handed_over: list[tuple[UUID, str, bool]] = []

    def status() -> str:
        with database.transaction() as connection:
            return status_of(connection, load.route_id)

    def push() -> None:
        for number in range(12):
            time.sleep(chance.random() / 50)
            with database.transaction() as connection:
                body = route_input(now, externalId="LOAD", reference=f"PO-{number}")
                ((pushed,), _) = store_pushes(connection, [Push(load.fleet.live, body)], now=now)
                if pushed.effect == "replace":
                    import_routes(connection, [load.route_id], now=now)
                    planned_by_hand(connection, load.route_id, now=now)

    def work() -> None:
        while status() != "active":
            with database.transaction() as connection:
                waiting = [row for row in list_messages(connection, load.fleet.company_id) if row.status == "pending"]
            for row in waiting:
                with database.transaction() as connection:  # its pause after a refusal is over
                    connection.execute("UPDATE messages SET retry_at = %s WHERE id = %s", (now, row.id))
                step = load.claim(row.id)
                if isinstance(step, Claim):
                    time.sleep(chance.random() / 50)
                    taken = chance.random() < 0.4
                    handed_over.append((step.message_id, step.text, taken))
                    load.settle(step, None if taken else REFUSED)

    with ThreadPoolExecutor(4) as threads:
        for one in [threads.submit(push), *(threads.submit(work) for _ in range(3))]:
            one.result(60)

    taken = [(message_id, text) for message_id, text, was_taken in handed_over if was_taken]
    openings = [text.partition(" plan for ")[0] for _, text in taken]
    assert openings == ["Fuel"] + ["CORRECTED fuel"] * (len(taken) - 1)
    assert len({message_id for message_id, _ in taken}) == len(taken), "none is sent twice"
    with database.transaction() as connection:
        assert route_row(connection, load.route_id).plan_id == message(connection, taken[-1][0]).plan_id
