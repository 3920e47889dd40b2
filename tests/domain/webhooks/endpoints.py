"""Endpoints for tests, and the events that were captured."""

import ipaddress
from typing import Any
from uuid import UUID

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import IN_CLEAR, Contacts
from domain.database.connections import Connection, Tenant
from domain.webhooks.endpoints import EndpointChanges, NewSecret, add_endpoint
from tests.factories import DOT
from tests.rows import named

HERE = AllowedHosts(networks=(ipaddress.ip_network("127.0.0.0/8"),))
"""Endpoints on this machine, which an operator must allow."""


def make_endpoint(
    connection: Connection,
    tenant: Tenant,
    url: str = "https://tms.example.com/hooks",
    *event_types: str,
    contacts: Contacts = IN_CLEAR,
) -> NewSecret:
    values = EndpointChanges(url=url, event_types=event_types)
    return add_endpoint(connection, tenant, values, DOT, allowed=HERE, contacts=contacts)


def events_of(connection: Connection, endpoint_id: UUID) -> list[Any]:
    """The events on their way to an endpoint, in their order."""
    return (
        named(connection)
        .execute(
            "SELECT e.*, d.number, d.status, d.attempts, d.error, d.retry_at FROM webhook_deliveries d"
            " JOIN webhook_events e ON e.id = d.event_id WHERE d.endpoint_id = %s ORDER BY d.number",
            (endpoint_id,),
        )
        .fetchall()
    )


def types_of(connection: Connection, endpoint_id: UUID) -> list[str]:
    return [event.type for event in events_of(connection, endpoint_id)]


def end_deliveries(connection: Connection, company_id: UUID) -> None:
    """No courier of a running service touches the company's deliveries from now on."""
    connection.execute(
        "UPDATE webhook_deliveries SET status = 'failed', ended_at = clock_timestamp() WHERE company_id = %s",
        (company_id,),
    )
