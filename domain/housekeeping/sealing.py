"""Seals stored contacts, channels of notices, credentials of connectors and price sources, secrets of one-time codes
and of webhook endpoints that are in the clear or under an older key."""

from uuid import UUID

from domain.accounts.companies import seal_message_urls
from domain.accounts.contacts import Contacts, Sealed
from domain.accounts.users import seal_totp_secrets
from domain.connectors.connectors import seal_credentials
from domain.database.connections import Connection
from domain.database.statements import Scalar
from domain.fleet.drivers import seal_contacts
from domain.notices.subscriptions import seal_channels
from domain.stations.price_sources import seal_source_secrets
from domain.webhooks.endpoints import seal_secrets

_LOCK_COMPANIES = Scalar(
    UUID,
    """
    SELECT id FROM companies c
    WHERE NOT starts_with(message_url, %(prefix)s)
       OR EXISTS (SELECT FROM drivers d WHERE d.company_id = c.id AND NOT starts_with(contact, %(prefix)s))
    ORDER BY id FOR NO KEY UPDATE
    """,
)
"""Companies with a message URL, or a driver with a contact, that does not begin with the newest key's prefix."""


def seal_stored(connection: Connection, contacts: Contacts) -> Sealed:
    """Seals what is stored in the clear or under an older key; does nothing without a key. Companies are locked first:
    every other change of drivers holds their company's row."""
    if contacts.prefix is None:
        return Sealed()
    companies = _LOCK_COMPANIES.all(connection, {"prefix": contacts.prefix})
    urls = seal_message_urls(connection, companies, contacts)
    drivers = seal_contacts(connection, companies, contacts)
    secrets = seal_totp_secrets(connection, contacts)
    endpoints = seal_secrets(connection, contacts)
    channels = seal_channels(connection, contacts)
    credentials = seal_credentials(connection, contacts)
    sources = seal_source_secrets(connection, contacts)
    all_of_them = (urls, drivers, secrets, endpoints, channels, credentials, sources)
    return Sealed(sum(one.sealed for one in all_of_them), sum(one.unreadable for one in all_of_them))
