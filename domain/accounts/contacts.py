"""Drivers' contacts and companies' message URLs hold secrets of gateways: they are stored sealed, with a key that the
database does not have. Without a key they are stored as they are, and the log says so.

Several keys, the newest first, let one be replaced: what an older one sealed is still read, and sealed anew by
housekeeping.
"""

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING

from psycopg import sql

from domain.database import Connection
from domain.errors import Trouble
from domain.observability import get_logger
from domain.settings import Settings

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

log = get_logger(__name__)

_SEALED = "sealed:"
"""What is sealed begins with this and the mark of its key. No Apprise URL does."""


def is_sealed(contact: str) -> bool:
    return contact.startswith(_SEALED)


class UnreadableContact(Trouble):
    """Sealed with a key that this process does not have."""

    def __init__(self) -> None:
        super().__init__(
            "the contact is sealed with another key: FUELROUTE_CONTACT_KEY must name the one it was stored with"
        )


class Contacts:
    """Seals and opens contacts with the keys of a process."""

    def __init__(self, keys: str | None = None) -> None:
        self._keys = [key.strip() for key in (keys or "").split(",") if key.strip()]
        self._told = False

    @classmethod
    def of(cls, settings: Settings) -> "Contacts":
        return cls(settings.contact_keys())

    @cached_property
    def _fernet(self) -> "MultiFernet":
        from cryptography.fernet import Fernet, MultiFernet  # loads OpenSSL: only where there is something to open

        return MultiFernet([Fernet(key) for key in self._keys])

    @property
    def _mark(self) -> str:
        return f"{_SEALED}{hashlib.sha256(self._keys[0].encode()).hexdigest()[:8]}:"

    def seal(self, contact: str | None) -> str | None:
        """As it is to be stored. What could not be opened stays as it was."""
        if contact is None or is_sealed(contact):
            return contact
        if not self._keys:
            if not self._told:
                log.warning("contacts.stored_in_clear", hint="set FUELROUTE_CONTACT_KEY; see `fuelroute settings`")
            self._told = True
            return contact
        return self._mark + self._fernet.encrypt(contact.encode()).decode()

    def open(self, stored: str | None) -> str | None:
        """The contact itself. Raises UnreadableContact."""
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
        """The contact itself, or the sealed one where it cannot be opened."""
        try:
            return self.open(stored)
        except UnreadableContact:
            return stored

    def seal_stored(self, connection: Connection) -> tuple[int, int]:
        """Seals what is stored in the clear or under an older key. Returns how many were, and how many could not be
        opened."""
        if not self._keys:
            return 0, 0
        sealed = unreadable = 0
        for table, column in (("drivers", "contact"), ("companies", "message_url")):
            names = {"table": sql.Identifier(table), "column": sql.Identifier(column)}
            rows = connection.execute(
                sql.SQL(
                    "SELECT id, {column} AS stored FROM {table} WHERE NOT starts_with({column}, %s)"
                    " ORDER BY id FOR NO KEY UPDATE"
                ).format(**names),
                (self._mark,),
            ).fetchall()
            opened = [(row.id, str(self.open_or_keep(row.stored))) for row in rows]
            renewed = [(self.seal(contact), id_) for id_, contact in opened if not is_sealed(contact)]
            with connection.cursor() as cursor:
                cursor.executemany(sql.SQL("UPDATE {table} SET {column} = %s WHERE id = %s").format(**names), renewed)
            sealed += len(renewed)
            unreadable += len(rows) - len(renewed)
        return sealed, unreadable


IN_CLEAR = Contacts()
"""Of a process without a key."""
