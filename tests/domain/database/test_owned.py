"""Nobody else finds or locks what a company owns, and each company owns a limited number of it."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

import pytest

from domain.accounts.contacts import IN_CLEAR
from domain.connectors.connectors import CONNECTORS, MOST_CONNECTORS, UnusableConnector
from domain.database.connections import Connection
from domain.database.owned import Owned
from domain.errors import FuelrouteError, Unknown
from domain.ids import new_id
from domain.notices.subscriptions import MOST_SUBSCRIPTIONS, SUBSCRIPTIONS, UnusableSubscription
from domain.stations.price_sources import (
    MOST_SOURCES,
    SOURCES,
    NewSource,
    SourceAddress,
    UnusableSource,
    add_source,
)
from domain.webhooks.endpoints import ENDPOINTS, MOST_ENDPOINTS, UnusableEndpoint
from tests.domain.connectors.helpers import added
from tests.domain.notices.subscriptions import subscribe
from tests.domain.webhooks.endpoints import make_endpoint
from tests.factories import DOT, Fleet, make_fleet

Add = Callable[[Connection, Fleet], UUID]


def an_endpoint(connection: Connection, fleet: Fleet) -> UUID:
    return make_endpoint(connection, fleet.live).endpoint.id


def a_connector(connection: Connection, fleet: Fleet) -> UUID:
    return added(connection, fleet.live, "samsara", "", {"token": "secret"}).id


def a_subscription(connection: Connection, fleet: Fleet) -> UUID:
    return subscribe(connection, fleet.company_id).id


def a_source(connection: Connection, fleet: Fleet) -> UUID:
    source = NewSource(new_id().hex, "folder", "auto", SourceAddress("/prices"), None, takes_retail=True)
    return add_source(connection, fleet.company_id, source, DOT, contacts=IN_CLEAR, now=datetime.now(UTC))


@pytest.mark.parametrize(
    ("owned", "add"),
    [(ENDPOINTS, an_endpoint), (CONNECTORS, a_connector), (SUBSCRIPTIONS, a_subscription), (SOURCES, a_source)],
    ids=["endpoints", "connectors", "subscriptions", "sources"],
)
def test_what_a_company_owns_is_unknown_to_others(
    connection: Connection, fleet: Fleet, owned: Owned[tuple[object, ...]], add: Add
) -> None:
    own_id, stranger = add(connection, fleet), make_fleet(connection).company_id

    assert own_id in owned.find(connection, fleet.company_id, own_id)
    assert own_id in owned.lock(connection, fleet.company_id, own_id)
    assert owned.all(connection, stranger) == []
    for look in (owned.find, owned.lock):
        with pytest.raises(Unknown):
            look(connection, stranger, own_id)
    with pytest.raises(Unknown, match="'theirs'"):
        owned.read_id("theirs")


@pytest.mark.parametrize(
    ("add", "most", "full"),
    [
        (an_endpoint, MOST_ENDPOINTS, UnusableEndpoint),
        (a_connector, MOST_CONNECTORS, UnusableConnector),
        (a_subscription, MOST_SUBSCRIPTIONS, UnusableSubscription),
        (a_source, MOST_SOURCES, UnusableSource),
    ],
    ids=["endpoints", "connectors", "subscriptions", "sources"],
)
def test_a_company_owns_a_limited_number(
    connection: Connection, fleet: Fleet, add: Add, most: int, full: type[FuelrouteError]
) -> None:
    for _ in range(most):
        add(connection, fleet)

    with pytest.raises(full, match=rf"\b{most}\b.*remove one"):
        add(connection, fleet)
    add(connection, make_fleet(connection))
