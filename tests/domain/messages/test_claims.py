"""A message is handed over by one worker at a time, whatever crashes or changes meanwhile (decision 20)."""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.database.connections import Connection, Database
from domain.fleet.drivers import DriverRow
from domain.ids import shown_id
from domain.lifecycle import RouteStatus
from domain.messages.due_messages import due_messages, list_messages, send_refused_messages
from domain.messages.message_life import MessageClaim, MessageStatus
from domain.messages.resending import CannotResend, requeue
from domain.queue.jobs import send_message_job
from domain.routes.intake.fleet_changes import edit_driver, import_drivers
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, store_pushes
from domain.routes.reading.lookups import read_routes
from domain.routes.transitions import cancel_route
from domain.settings import Settings
from tests.domain.helpers import corrected_by_hand, planned_by_hand, route_row, status_of
from tests.domain.messages.loads import NO_ANSWER, REFUSED, Load, contact, message, message_url
from tests.factories import DOT, Fleet, route_input
from tests.gateway import Gateway
from tests.jobs import jobs_of
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


def test_a_crash_after_the_gateway_s_answer_sends_the_same_message_again_once_the_claim_ran_out(
    database: Database, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    load = Load.planned(database, settings, now, gateway.url)
    assert load.hand_over(load.claimed()) is None  # the worker crashes here

    with database.transaction() as connection:
        assert load.message_id not in due_messages(connection, now=now + timedelta(seconds=19))
        assert load.message_id in due_messages(connection, now=now + timedelta(seconds=21))
    assert load.claim(seconds=19) is None
    again = load.claimed(seconds=21)
    assert load.hand_over(again) is None
    assert load.settle(again, seconds=21) is MessageStatus.SENT

    assert load.status is RouteStatus.ACTIVE
    first, second = gateway.received
    assert first["message"] == second["message"]
    assert shown_id("msg", load.message_id) in first["message"]


def test_only_one_of_several_workers_claims_a_message(load: Load) -> None:
    with ThreadPoolExecutor(4) as threads:
        steps = list(threads.map(lambda _: load.claim(), range(4)))

    assert [isinstance(step, MessageClaim) for step in steps].count(True) == 1
    assert steps.count(None) == 3


def test_no_row_is_locked_while_the_gateway_is_called(load: Load) -> None:
    load.claim()

    with load.database.transaction() as connection:
        for table, id_ in (("messages", load.message_id), ("routes", load.route_id)):
            assert (
                named(connection).execute(f"SELECT FROM {table} WHERE id = %s FOR UPDATE NOWAIT", (id_,)).rowcount == 1
            )


def test_a_worker_that_stood_still_until_its_claim_ran_out_sends_nothing_that_another_one_has_sent(
    database: Database, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    load = Load.planned(database, settings, now, gateway.url)
    stood_still = load.claimed()
    other = load.claimed(seconds=21)
    assert load.settle(other, load.hand_over(other), seconds=22) is MessageStatus.SENT

    assert load.settle(stood_still, load.hand_over_late(stood_still), seconds=23) is None
    assert len(gateway.received) == 1
    assert load.row().status == MessageStatus.SENT


def test_a_message_that_waited_too_long_in_its_worker_is_sent_by_the_next_attempt(
    database: Database, settings: Settings, now: datetime, gateway: Gateway
) -> None:
    load = Load.planned(database, settings, now, gateway.url)
    stood_still = load.claimed()
    assert load.settle(stood_still, load.hand_over_late(stood_still), seconds=21) is MessageStatus.PENDING
    assert "stood still" in load.row().error
    assert load.row().claimed_until is None, "the driver does not have it"

    again = load.claimed(seconds=60)
    assert load.settle(again, load.hand_over(again), seconds=60) is MessageStatus.SENT
    assert len(gateway.received) == 1


def test_an_outcome_counts_only_for_its_own_claim(load: Load) -> None:
    lost = load.claimed()
    load.claim(seconds=30)  # by another worker, for the claim ran out

    assert load.settle(lost, REFUSED, seconds=31) is None
    assert load.row().error is None


def test_a_message_that_crashes_each_worker_is_repeated_only_a_few_times(load: Load) -> None:
    seconds, attempts = 0.0, 0
    while isinstance(load.claim(seconds=seconds), MessageClaim):
        attempts += 1
        seconds = (load.row().retry_at - load.now).total_seconds()

    row = load.row()
    assert (row.status, row.error, row.attempts) == ("failed", "no attempt has come to an end", attempts)
    assert attempts in (8, 9)
    assert seconds >= 86_400


def test_a_message_too_late_for_another_attempt_keeps_the_error_of_the_one_before(load: Load) -> None:
    load.settle(load.claimed(), REFUSED)

    assert load.claim(seconds=86_400 + 60) is MessageStatus.FAILED
    assert load.jobs == []

    assert load.row().error == REFUSED.sentence


MENDED = "json://mended.invalid/"


def mend_by_hand(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    row = DriverRow(name="Ann Lee", contact=MENDED)
    edit_driver(connection, fleet.company_id, fleet.drivers[0], row, DOT, keep_contact=False)


def mend_by_file(connection: Connection, fleet: Fleet, tmp_path: Path) -> None:
    path = tmp_path / "drivers.csv"
    path.write_text(f"name,contact\nAnn Lee,{MENDED}\n")
    import_drivers(connection, fleet.company_id, path)


@pytest.mark.parametrize("mend", [mend_by_hand, mend_by_file])
def test_a_refused_message_goes_out_once_the_contact_is_mended(
    load: Load, tmp_path: Path, mend: Callable[[Connection, Fleet, Path], None]
) -> None:
    for seconds in range(5):
        load.settle(load.claimed(seconds=seconds * 10_000), REFUSED, seconds=seconds * 10_000)
    waits_until = load.row().retry_at
    with load.database.transaction() as connection:
        mend(connection, load.fleet, tmp_path)
        assert jobs_of(connection) == [send_message_job(load.message_id, load.fleet.company_id)]
    assert load.row().retry_at < waits_until
    assert load.claimed(seconds=40_001).url == MENDED


@pytest.mark.parametrize("case", ["in doubt", "another driver", "same contact"])
def test_other_messages_go_on_waiting_when_a_contact_is_mended(load: Load, tmp_path: Path, case: str) -> None:
    load.settle(load.claimed(), NO_ANSWER if case == "in doubt" else REFUSED)
    before = load.row()
    with load.database.transaction() as connection:
        if case == "same contact":
            contact(connection, load.fleet, MENDED)
        if case == "another driver":
            send_refused_messages(connection, load.fleet.company_id, [load.fleet.drivers[1]])
            send_refused_messages(connection, load.fleet.company_id, None)
        else:
            mend_by_file(connection, load.fleet, tmp_path)
        assert jobs_of(connection) == []
    assert load.row() == before


def test_a_refused_message_goes_out_once_the_message_url_of_its_company_is_mended(load: Load) -> None:
    load.settle(load.claimed(), REFUSED)
    with load.database.transaction() as connection:
        contact(connection, load.fleet, "")
        message_url(connection, load.fleet, MENDED)
        send_refused_messages(connection, load.fleet.company_id, None)
        assert jobs_of(connection) == [send_message_job(load.message_id, load.fleet.company_id)]


# --- Changes while a message is on its way -----------------------------------------------------------------------


def test_an_update_during_a_delivery_is_accepted_and_the_next_message_says_corrected(load: Load) -> None:
    first = load.message_id
    on_its_way = load.claimed()
    second = load.change()

    assert load.row(first).status == "pending"
    assert load.claim(second) is None, "the driver must not get the correction first"
    assert load.settle(on_its_way, seconds=1) is MessageStatus.SENT
    assert load.jobs == [send_message_job(second)]
    assert load.row(first).status == "sent"
    assert load.status == "planned", "that was not its plan"

    correction = load.claimed(second, seconds=1)
    assert correction.text.startswith("CORRECTED fuel plan for changed, truck 101\n")
    assert load.settle(correction, seconds=2) is MessageStatus.SENT
    assert load.status == "active"


def test_a_message_refused_after_a_change_is_not_retried_and_needs_no_correction(load: Load) -> None:
    first = load.message_id
    on_its_way = load.claimed()
    second = load.change()

    assert load.settle(on_its_way, REFUSED, seconds=1) is MessageStatus.FAILED
    assert load.jobs == [send_message_job(second)]
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


def test_a_message_that_one_of_several_recipients_took_makes_the_next_one_a_correction(load: Load) -> None:
    on_its_way = load.claimed()
    on_its_way.recipients.note("+13125550101")
    load.settle(on_its_way, REFUSED, seconds=1)
    second = load.change()

    assert load.claimed(second, seconds=2).text.startswith("CORRECTED fuel plan")


def test_a_gateway_that_never_answers_in_time_gets_a_message_only_a_few_times(load: Load) -> None:
    seconds, attempts = 0.0, 0
    while load.row().status == "pending":
        load.settle(load.claimed(seconds=seconds), NO_ANSWER, seconds=seconds + 5)
        attempts += 1
        if (retry_at := load.row().retry_at) is not None:
            seconds = (retry_at - load.now).total_seconds()

    assert attempts == 8
    assert load.row().claimed_until is not None, "the driver may have it"


@pytest.mark.parametrize(
    "answers",
    [
        {"hangs_up": True},
        {"headers": {"Content-Length": "100"}, "body": b"{"},
        *({"status": status} for status in (504, 520, 524)),
    ],
)
def test_a_gateway_that_takes_a_message_and_breaks_off_may_have_delivered_it(
    database: Database, settings: Settings, now: datetime, gateway: Gateway, answers: dict[str, Any]
) -> None:
    """It hangs up, or in the middle of its answer, or its proxy gets no answer from it."""
    load = Load.planned(database, settings, now, gateway.url)
    for name, value in answers.items():
        setattr(gateway, name, value)
    seconds = 0.0
    while load.row().status == "pending":
        claimed = load.claimed(seconds=seconds)
        load.settle(claimed, load.hand_over(claimed), seconds=seconds)
        if (retry_at := load.row().retry_at) is not None:
            seconds = (retry_at - load.now).total_seconds()

    assert len(gateway.received) == 8, "the driver may have it each time"
    with database.transaction() as connection, pytest.raises(CannotResend, match="ask the driver first"):
        requeue(connection, load.fleet.live, load.route_id, load.message_id, even_if_in_doubt=False, now=now)
    assert load.claimed(load.change(), seconds=seconds).text.startswith("CORRECTED fuel plan")


@pytest.mark.parametrize("status", [400, 429, 500, 502, 503])
def test_a_gateway_that_refuses_has_delivered_nothing(
    database: Database, settings: Settings, now: datetime, gateway: Gateway, status: int
) -> None:
    load = Load.planned(database, settings, now, gateway.url)
    gateway.status = status
    claimed = load.claimed()
    assert load.settle(claimed, load.hand_over(claimed)) is MessageStatus.PENDING
    assert load.row().claimed_until is None


def test_a_gateway_that_nobody_reaches_has_delivered_nothing(
    database: Database, settings: Settings, now: datetime
) -> None:
    load = Load.planned(database, settings, now, "json://127.0.0.1:9/")
    claimed = load.claimed()
    assert load.settle(claimed, load.hand_over(claimed)) is MessageStatus.PENDING
    assert load.row().claimed_until is None
    assert load.claimed(load.change(), seconds=60).text.startswith("Fuel plan")


def test_another_driver_gets_a_first_message_and_no_correction(load: Load) -> None:
    load.settle(load.claimed())
    with load.database.transaction() as connection:
        connection.execute("UPDATE routes SET status = 'error' WHERE id = %s", (load.route_id,))
        connection.execute(
            "UPDATE drivers SET contact = 'json://gateway.invalid/' WHERE company_id = %s", (load.fleet.company_id,)
        )

    assert load.claimed(load.change(driver={"name": "Bo Diaz"})).text.startswith("Fuel plan")


def test_a_cancel_does_not_stop_a_message_that_is_on_its_way(load: Load) -> None:
    on_its_way = load.claimed()
    with load.database.transaction() as connection:
        assert cancel_route(connection, load.fleet.live, load.route_id, now=load.now) == "cancel"
    canceled = load.route_id

    assert load.settle(on_its_way, seconds=1) is MessageStatus.SENT
    with load.database.transaction() as connection:
        assert status_of(connection, canceled) is RouteStatus.CANCELED
    assert load.claimed(load.change()).text.startswith("CORRECTED fuel plan")
    assert load.route_id != canceled


def test_a_load_that_comes_back_under_another_external_id_is_a_correction_too(
    database: Database, settings: Settings, now: datetime
) -> None:
    load = Load.planned(database, settings, now, "json://gateway.invalid/", reference="PO-1")
    with database.transaction() as connection:
        set_policy(connection, load.fleet.company_id, Policy(superseding=True), DOT)
    on_its_way = load.claimed()
    second = load.change(externalId="LOAD-B", reference="PO-1")

    assert load.claim(second) is None
    load.settle(on_its_way, seconds=1)
    assert load.claimed(second, seconds=1).text.startswith("CORRECTED fuel plan for PO-1")


def test_a_canceled_route_s_message_whose_worker_crashed_is_not_sent_again(load: Load) -> None:
    load.claim()
    with load.database.transaction() as connection:
        cancel_route(connection, load.fleet.live, load.route_id, now=load.now)

    assert load.claim(seconds=30) is MessageStatus.FAILED
    assert load.row().claimed_until is not None, "it may have gone out"


# --- Corrections -------------------------------------------------------------------------------------------------


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

    assert load.settle(load.claimed(correction, seconds=late), REFUSED, seconds=late) is MessageStatus.FAILED

    with load.database.transaction() as connection:
        route = route_row(connection, load.route_id)
    assert (route.status, route.correction_id, route.corrected_at) == ("active", None, None)


def test_a_route_completed_during_a_correction_shows_the_plan_that_the_driver_has(load: Load) -> None:
    load.settle(load.claimed())
    claimed = load.claimed(correction_of(load))
    with load.database.transaction() as connection:
        connection.execute("UPDATE routes SET status = 'completed' WHERE id = %s", (load.route_id,))

    load.settle(claimed)

    with load.database.transaction() as connection:
        route = route_row(connection, load.route_id)
    assert (route.status, route.plan_id) == ("completed", load.row(claimed.message_id).plan_id)


def versions(load: Load) -> list[str | None]:
    """The versions of the route from which its ETag is made."""
    with load.database.transaction() as connection:
        (route,) = read_routes([(load.fleet.live, load.route_id)]).on(connection)
        return [route.version if route is not None else None]


# --- All at once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_driver_can_always_tell_which_plan_holds_while_pushes_and_messages_run_at_once(
    database: Database, settings: Settings, now: datetime, seed: int
) -> None:
    """Pushes, workers of unequal speed that sometimes fail, and the sweep run at once on one route."""
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
                (pushed,) = store_pushes(connection, [Push(load.fleet.live, body)], now=now)
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
                if isinstance(step, MessageClaim):
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
