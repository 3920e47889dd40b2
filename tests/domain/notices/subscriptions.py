"""Subscriptions for tests, and the notices to them."""

import ipaddress
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import IN_CLEAR, Contacts
from domain.database.connections import Connection
from domain.notices.noticing import Told, tell_company
from domain.notices.subscriptions import Subscription, SubscriptionValues, add_subscription
from tests.factories import DOT
from tests.rows import named

HERE = AllowedHosts(networks=(ipaddress.ip_network("127.0.0.0/8"),))
"""Gateways on this machine, which an operator must allow."""

END_AFTER = timedelta(minutes=10)
URL = "json://user:secret@hooks.example.com/fuelroute"

VALUES = SubscriptionValues(
    name="The night desk",
    kinds=("vehicle_unmapped", "error"),
    url=URL,
    after_minutes=0,
    quiet_from=None,
    quiet_until=None,
    time_zone="America/Chicago",
)


def subscribe(
    connection: Connection,
    company_id: UUID,
    *,
    user_id: UUID | None = None,
    contacts: Contacts = IN_CLEAR,
    **values: Any,
) -> Subscription:
    return add_subscription(
        connection, company_id, user_id, VALUES._replace(**values), DOT, allowed=HERE, contacts=contacts
    )


def look(connection: Connection, company_id: UUID, now: datetime) -> Told:
    """Do for one company as the scheduler's pass does."""
    return tell_company(connection, company_id, console="https://console.example.com", end_after=END_AFTER, now=now)


def look_until_over(connection: Connection, company_id: UUID, now: datetime) -> Told:
    """Look twice, so that what is gone counts as over at `now`."""
    look(connection, company_id, now - END_AFTER)
    return look(connection, company_id, now)


def notices_of(connection: Connection, company_id: UUID) -> list[Any]:
    return (
        named(connection).execute("SELECT * FROM notices WHERE company_id = %s ORDER BY id", (company_id,)).fetchall()
    )
