"""One process polls a connector, and one that lost its lease stores nothing."""

from datetime import datetime, timedelta

import pytest

from domain.connectors.connectors import pause_connector, remove_connector, resume_connector
from domain.connectors.leases import LEASE_SECONDS, LeaseLost, lease_connectors, release_leases, renew_leases
from domain.connectors.page_storage import note_failure
from domain.connectors.vendor import VendorPage
from domain.database.connections import Connection
from tests.domain.connectors.helpers import added, leased, taken
from tests.factories import DOT, Fleet

TOKEN = {"token": "a-token"}
EMPTY = VendorPage([], [], "next")
AFTER = timedelta(seconds=LEASE_SECONDS + 1)


def test_a_leased_connector_is_free_again_after_its_lease(connection: Connection, fleet: Fleet, now: datetime) -> None:
    connector = added(connection, fleet.live, "samsara", "", TOKEN)
    first = leased(connection, connector, now=now)
    assert connector.id not in {
        one.id for one in lease_connectors(connection, by="b", kinds=["samsara"], most=99, now=now)
    }

    second = leased(connection, connector, now=now + AFTER)

    assert second.lease_number == first.lease_number + 1
    with pytest.raises(LeaseLost):
        taken(connection, first, EMPTY, now=now + AFTER)
    taken(connection, second, EMPTY, now=now + AFTER)


def test_a_lease_that_ran_out_holds_until_another_takes_it(connection: Connection, fleet: Fleet, now: datetime) -> None:
    lease = leased(connection, added(connection, fleet.live, "samsara", "", TOKEN), now=now)
    assert renew_leases(connection, [lease], now=now + AFTER) == {lease.id}
    taken(connection, lease, EMPTY, now=now + AFTER)


def test_pausing_ends_the_lease_and_resuming_goes_on_at_the_cursor(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    connector = added(connection, fleet.live, "samsara", "", TOKEN)
    lease = leased(connection, connector, now=now)
    taken(connection, lease, EMPTY, now=now)
    assert pause_connector(connection, fleet.company_id, connector.id, DOT, now=now)
    assert not pause_connector(connection, fleet.company_id, connector.id, DOT, now=now)
    assert renew_leases(connection, [lease], now=now) == set()
    with pytest.raises(LeaseLost):
        note_failure(connection, lease, "x", "y", due_at=now, now=now)
    assert lease_connectors(connection, by="b", kinds=["samsara"], most=99, now=now) == []

    assert resume_connector(connection, fleet.company_id, connector.id, DOT)

    assert leased(connection, connector, now=now).cursor == "next"


def test_a_released_or_removed_connector_is_not_renewed(connection: Connection, fleet: Fleet, now: datetime) -> None:
    connector = added(connection, fleet.live, "samsara", "", TOKEN)
    lease = leased(connection, connector, now=now)
    release_leases(connection, [lease])
    assert renew_leases(connection, [lease], now=now) == set()
    again = leased(connection, connector, now=now)
    remove_connector(connection, fleet.company_id, connector.id, DOT)
    assert renew_leases(connection, [again], now=now) == set()
    with pytest.raises(LeaseLost):
        taken(connection, again, EMPTY, now=now)


def test_connectors_of_kinds_that_this_release_does_not_know_are_let_be(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    connector = added(connection, fleet.live, "samsara", "", TOKEN)
    found = lease_connectors(connection, by="b", kinds=["traccar"], most=99, now=now)
    assert connector.id not in {one.id for one in found}
