"""After a restore no driver gets a message twice: what may have been sent since the backup waits for a person."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import IN_CLEAR
from domain.accounts.sessions import begin_session, find_session
from domain.accounts.users import create_user, make_password_link, set_password_by_link
from domain.connectors.connectors import ConnectorValues, add_connector
from domain.database.connections import Connection, Database
from domain.lifecycle import Role
from domain.messages.due_messages import due_messages
from domain.messages.resending import CannotResend
from domain.messages.withholding import list_withheld_messages
from domain.needs import overdue
from domain.operations.restores import AfterRestore, record_restore
from domain.queue.jobs import send_message_job
from domain.routes.plans.withheld_messages import discard_withheld, release_withheld
from domain.routes.progress import dispatcher_entries
from domain.settings import Settings
from tests.conftest import own_database
from tests.domain.helpers import deliver, imported, planned_by_hand, status_of
from tests.domain.messages.loads import contact, message
from tests.factories import DOT, Fleet
from tests.jobs import jobs_of
from tests.vendors.motive import running_motive
from tests.vendors.vendor import HOST

EARLY = timedelta(hours=12)


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """A restore concerns all rows that there are."""
    with own_database("restores") as opened:
        yield opened


def restore(connection: Connection, now: datetime, *, withhold: bool = True) -> AfterRestore:
    return record_restore(connection, restored_to=now - timedelta(minutes=5), early=EARLY, withhold=withhold, now=now)


def planned(connection: Connection, fleet: Fleet, now: datetime, *, sandbox: bool = False, **body: Any) -> UUID:
    tenant = fleet.sandbox if sandbox else fleet.live
    return planned_by_hand(connection, imported(connection, tenant, now=now, **body), now=now)


def withheld(connection: Connection, fleet: Fleet) -> list[UUID]:
    return [row.id for row in list_withheld_messages(connection, fleet.company_id)]


def test_a_message_that_was_pending_in_the_backup_is_withheld_until_it_is_released(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    message_id = planned(connection, fleet, now)
    assert restore(connection, now).withheld_messages == 1

    later = now + timedelta(days=1)
    assert deliver(connection, message_id, settings=settings, now=later) is None
    assert message_id not in due_messages(connection, now=later)
    assert withheld(connection, fleet) == [message_id]

    messages = release_withheld(connection, fleet.company_id, None, DOT, as_corrections=False, now=later)
    jobs = jobs_of(connection)

    assert [row.id for row in messages] == [message_id]
    assert jobs == [send_message_job(message_id, fleet.company_id)]
    assert deliver(connection, message_id, settings=settings, now=later) == "sent"
    assert message(connection, message_id).text.startswith("Fuel plan")
    assert withheld(connection, fleet) == []


def test_a_released_message_goes_out_in_the_cab_though_it_was_tried_before_the_backup(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    """Whoever released it has asked the driver."""
    allowing = settings.model_copy(update={"connector_allowed_hosts": HOST})
    with running_motive() as motive:
        values = ConnectorValues("motive", {"token": motive.token}, url=motive.url)
        add_connector(connection, fleet.live, values, DOT, allowed=AllowedHosts.read(HOST), contacts=IN_CLEAR)
        contact(connection, fleet, "motive://4242")
        message_id = planned(connection, fleet, now)
        motive.fail("limit")
        assert deliver(connection, message_id, settings=allowing, now=now) == "pending"
        restore(connection, now)

        release_withheld(connection, fleet.company_id, None, DOT, as_corrections=False, now=now)
        assert deliver(connection, message_id, settings=allowing, now=now) == "sent"
        assert len(motive.messages) == 1


def test_a_message_made_after_the_restore_is_withheld_if_its_route_could_have_started_before(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    restore(connection, now)

    could = planned(connection, fleet, now, externalId="A", start=now + EARLY)
    could_not = planned(connection, fleet, now, externalId="B", start=now + EARLY + timedelta(minutes=1))

    assert withheld(connection, fleet) == [could]
    assert deliver(connection, could, settings=settings, now=now) is None
    assert deliver(connection, could_not, settings=settings, now=now) == "sent"


def test_the_sandbox_is_not_withheld(connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> None:
    before = planned(connection, fleet, now, sandbox=True, externalId="A")
    restore(connection, now)
    after = planned(connection, fleet, now, sandbox=True, externalId="B")

    assert [deliver(connection, one, settings=settings, now=now) for one in (before, after)] == ["suppressed"] * 2


def test_nothing_is_withheld_when_nothing_was_sent_after_the_backup(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    before = planned(connection, fleet, now, externalId="A")
    assert restore(connection, now, withhold=False).withholds_until is None
    after = planned(connection, fleet, now, externalId="B")

    assert [deliver(connection, one, settings=settings, now=now) for one in (before, after)] == ["sent"] * 2


def test_a_message_that_is_released_as_a_correction_says_so(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    message_id = planned(connection, fleet, now)
    restore(connection, now)

    release_withheld(connection, fleet.company_id, [message_id], DOT, as_corrections=True, now=now)

    assert deliver(connection, message_id, settings=settings, now=now) == "sent"
    assert message(connection, message_id).text.startswith("CORRECTED fuel plan")


def test_a_discarded_message_never_goes_out_and_is_sent_again_only_after_asking_the_driver(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    message_id = planned(connection, fleet, now)
    restore(connection, now)
    route_id = message(connection, message_id).route_id
    with pytest.raises(CannotResend, match="withheld after a restore"):
        send_again(connection, fleet, route_id, message_id, now)

    discard_withheld(connection, fleet.company_id, None, DOT, now=now)

    assert message(connection, message_id).status == "failed"
    assert status_of(connection, route_id) == "planned"
    assert deliver(connection, message_id, settings=settings, now=now + timedelta(days=1)) is None
    with pytest.raises(CannotResend, match="ask the driver first"):
        send_again(connection, fleet, route_id, message_id, now)


def test_the_load_that_is_planned_again_meanwhile_gets_a_correction_that_is_withheld_too(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    first = planned(connection, fleet, now, externalId="A")
    restore(connection, now)

    second = planned(connection, fleet, now, externalId="A", reference="changed")

    assert withheld(connection, fleet) == [second]
    assert message(connection, first).status == "failed"
    release_withheld(connection, fleet.company_id, None, DOT, as_corrections=False, now=now)
    assert deliver(connection, second, settings=settings, now=now) == "sent"
    assert message(connection, second).text.startswith("CORRECTED fuel plan"), "the driver may have the first one"


def test_another_company_releases_nothing(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    message_id = planned(connection, fleet, now)
    restore(connection, now)

    assert release_withheld(connection, UUID(int=1), [message_id], DOT, as_corrections=False, now=now) == []
    assert discard_withheld(connection, UUID(int=1), None, DOT, now=now) == []
    assert withheld(connection, fleet) == [message_id]


def test_every_session_and_every_link_for_a_password_ends(connection: Connection, fleet: Fleet, now: datetime) -> None:
    email = f"{fleet.company_id}@example.com"
    user_id = create_user(connection, DOT, email=email, role=Role.VIEWER, company_id=fleet.company_id)
    token = begin_session(connection, user_id, address="192.0.2.1", now=now)
    link = make_password_link(connection, user_id, now=now)

    assert restore(connection, now).ended_sessions >= 1

    assert find_session(connection, token, now=now) is None
    assert not set_password_by_link(connection, link, "correct horse battery", now=now)


def test_withheld_messages_are_a_figure_of_their_own(connection: Connection, fleet: Fleet, now: datetime) -> None:
    def figures(then: datetime) -> tuple[int, int]:
        counts = overdue.count(connection, now=then)
        return counts["unsent"].rows, counts["withheld-messages"].rows

    before = figures(now + timedelta(hours=1))
    planned(connection, fleet, now)
    restore(connection, now)

    assert figures(now + timedelta(hours=1)) == (before[0], before[1] + 1)


def send_again(connection: Connection, fleet: Fleet, route_id: UUID, message_id: UUID, now: datetime) -> None:
    dispatcher_entries.send_again(connection, fleet.live, route_id, message_id, DOT, driver_was_asked=False, now=now)
