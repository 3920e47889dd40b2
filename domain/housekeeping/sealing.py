"""Seals stored contacts, channels of notices, credentials of connectors and price sources, secrets of one-time codes
and of webhook endpoints that are in the clear or under an older key."""

from uuid import UUID

from domain.accounts.companies import MESSAGE_URLS
from domain.accounts.contacts import Contacts, Sealed
from domain.accounts.users import TOTP_SECRETS
from domain.connectors.connectors import CREDENTIALS
from domain.database.connections import Connection
from domain.database.statements import Scalar
from domain.fleet.drivers import DRIVER_CONTACTS
from domain.notices.subscriptions import CHANNELS
from domain.signing.signing_keys import PRIVATE_KEYS
from domain.stations.price_sources import SOURCE_SECRETS
from domain.webhooks.endpoints import ENDPOINT_SECRETS, FORMER_ENDPOINT_SECRETS

_OF_LOCKED_COMPANIES = (MESSAGE_URLS, DRIVER_CONTACTS)
"""Every other change of these holds its company's row."""
_OTHERS = (TOTP_SECRETS, ENDPOINT_SECRETS, FORMER_ENDPOINT_SECRETS, CHANNELS, CREDENTIALS, SOURCE_SECRETS, PRIVATE_KEYS)

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
    """Seals what is stored in the clear or under an older key; does nothing without a key."""
    if contacts.prefix is None:
        return Sealed()
    companies = _LOCK_COMPANIES.all(connection, {"prefix": contacts.prefix})
    outcomes = [column.seal(connection, contacts, companies) for column in _OF_LOCKED_COMPANIES]
    outcomes += [column.seal(connection, contacts) for column in _OTHERS]
    return Sealed(sum(one.sealed for one in outcomes), sum(one.unreadable for one in outcomes))
