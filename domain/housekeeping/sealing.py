"""Seals stored contacts, channels of notices, credentials of connectors and price sources, secrets of one-time codes
and of webhook endpoints that are in the clear or under an older key."""

from domain.accounts.companies import lock_to_seal, seal_message_urls
from domain.accounts.contacts import Contacts, Sealed
from domain.accounts.users import seal_totp_secrets
from domain.connectors.connectors import seal_credentials
from domain.database.connections import Connection
from domain.fleet.drivers import seal_contacts
from domain.notices.subscriptions import seal_channels
from domain.stations.price_sources import seal_source_secrets
from domain.webhooks.endpoints import seal_secrets


def seal_stored(connection: Connection, contacts: Contacts) -> Sealed:
    """Seals what is stored in the clear or under an older key; does nothing without a key. Companies are locked first:
    every other change of drivers holds their company's row."""
    if contacts.prefix is None:
        return Sealed()
    companies = lock_to_seal(connection, contacts.prefix)
    urls = seal_message_urls(connection, companies, contacts)
    drivers = seal_contacts(connection, companies, contacts)
    secrets = seal_totp_secrets(connection, contacts)
    endpoints = seal_secrets(connection, contacts)
    channels = seal_channels(connection, contacts)
    credentials = seal_credentials(connection, contacts)
    sources = seal_source_secrets(connection, contacts)
    all_of_them = (urls, drivers, secrets, endpoints, channels, credentials, sources)
    return Sealed(sum(one.sealed for one in all_of_them), sum(one.unreadable for one in all_of_them))
