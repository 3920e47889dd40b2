"""Seals drivers' contacts and companies' message URLs, which hold secrets of gateways.

The key is not in the database. Without a key they are stored as they are, and the log says so. With several keys, the
newest first, a key can be replaced: contacts that an older key sealed can still be read, and `housekeeping` seals them
with the newest key."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, NotNull, Statement
from domain.errors import FuelrouteError
from domain.settings import Settings
from domain.telemetry.logs import get_logger

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

log = get_logger(__name__)

_SEALED = "sealed:"
"""The beginning of a sealed contact, before the fingerprint of its key. No Apprise URL begins so."""


def is_sealed(contact: str) -> bool:
    return contact.startswith(_SEALED)


class UnreadableContact(FuelrouteError):
    """The contact is sealed with a key that this process does not have."""

    def __init__(self) -> None:
        super().__init__(
            "the contact is sealed with another key: FUELROUTE_CONTACT_KEY must name the one it was stored with"
        )


class StoredContact(NamedTuple):
    """A stored contact, and the id of its driver or company."""

    id: UUID
    contact: NotNull[str]


class Sealed(NamedTuple):
    """The number of stored contacts that were sealed again, and of those that could not be opened."""

    sealed: int = 0
    unreadable: int = 0


class Contacts:
    """Seals and opens contacts with the keys of a process."""

    def __init__(self, keys: str | None = None) -> None:
        self._keys = [key.strip() for key in (keys or "").split(",") if key.strip()]
        self._has_warned = False

    @classmethod
    def of(cls, settings: Settings) -> "Contacts":
        return cls(settings.contact_keys())

    @cached_property
    def _fernet(self) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet  # loads OpenSSL: only where there is something to open

        return MultiFernet([Fernet(key) for key in self._keys])

    @cached_property
    def fingerprints(self) -> list[str]:
        """The fingerprint of each key, the newest first. It does not reveal the key."""
        return [hashlib.sha256(key.encode()).hexdigest()[:8] for key in self._keys]

    @property
    def fingerprint(self) -> str | None:
        """The newest key's fingerprint; None without a key."""
        return self.fingerprints[0] if self.fingerprints else None

    @cached_property
    def prefix(self) -> str | None:
        """The beginning of contacts that are sealed with the newest key; None without a key."""
        return f"{_SEALED}{self.fingerprint}:" if self._keys else None

    def seal(self, contact: str | None) -> str | None:
        """Seals a contact with the newest key, if there is one. A contact that is sealed already stays as it is."""
        if contact is None or is_sealed(contact):
            return contact
        if not self._keys:
            if not self._has_warned:
                log.warning("contacts.stored_in_clear", hint="set FUELROUTE_CONTACT_KEY; see `fuelroute settings`")
            self._has_warned = True
            return contact
        return self._sealed(contact)

    def _sealed(self, contact: str) -> str:
        return f"{self.prefix}{self._fernet.encrypt(contact.encode()).decode()}"

    def open(self, stored: str | None) -> str | None:
        """The opened contact. Raises UnreadableContact if this process does not have its key."""
        if stored is None or not is_sealed(stored):
            return stored
        from cryptography.fernet import InvalidToken

        if not self._keys:
            raise UnreadableContact
        try:
            return self._fernet.decrypt(stored.rpartition(":")[2]).decode()
        except InvalidToken:
            raise UnreadableContact from None

    def open_or_keep(self, stored: str | None) -> str | None:
        """The opened contact, or the sealed one if it cannot be opened."""
        try:
            return self.open(stored)
        except UnreadableContact:
            return stored

    def seal_anew(self, stored: Sequence[StoredContact]) -> list[tuple[str, UUID]]:
        """Seals contacts that are stored in the clear or under an older key with the newest key. Returns each with its
        id; contacts that cannot be opened are left out."""
        opened = [(self.open_or_keep(row.contact), row.id) for row in stored]
        return [(self._sealed(contact), id_) for contact, id_ in opened if contact and not is_sealed(contact)]


IN_CLEAR = Contacts()
"""The contacts of a process without a key."""


class SealedColumn:
    """A column of sealed texts. What it holds in the clear or under an older key is sealed with the newest one.
    `company` is the table's column with the id of the company."""

    def __init__(self, table: str, column: str, *, company: str = "company_id", skips_locked: bool = False) -> None:
        self._stored = Statement(
            StoredContact,
            f"SELECT id, {column} AS contact FROM {table} WHERE NOT starts_with({column}, %(prefix)s)"
            f" AND (%(company_ids)s::uuid[] IS NULL OR {company} = ANY(%(company_ids)s))"
            f" ORDER BY id FOR NO KEY UPDATE{' SKIP LOCKED' if skips_locked else ''}",
        )
        self._store = Command(f"UPDATE {table} SET {column} = %s WHERE id = %s")

    def seal(self, connection: Connection, contacts: Contacts, company_ids: Sequence[UUID] | None = None) -> Sealed:
        """Seals the texts of these companies; None: of all."""
        stored = self._stored.all(connection, {"prefix": contacts.prefix, "company_ids": company_ids})
        anew = contacts.seal_anew(stored)
        with connection.cursor() as cursor:
            cursor.executemany(self._store.text, anew)
        return Sealed(len(anew), len(stored) - len(anew))
