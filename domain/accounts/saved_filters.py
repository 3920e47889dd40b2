"""Filters of lists that a user of a company has saved under a name. Operators, who belong to no company, have none."""

from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, Statement
from domain.errors import FuelrouteError

MOST_SAVED_FILTERS = 20
"""Most filters of one user for one list."""
LONGEST_FILTER_NAME = 60
LONGEST_FILTER_QUERY = 2_000


class UnusableFilter(FuelrouteError):
    """A filter cannot be saved; the text says why."""


class SavedFilter(NamedTuple):
    name: str
    query: str
    """The fields of the list's address, encoded as in an address."""


_LIST = Statement(
    SavedFilter,
    "SELECT name, query FROM saved_filters WHERE company_id = %s AND user_id = %s AND list_name = %s"
    " ORDER BY lower(name), name",
)
_LOCK_USER = Command("SELECT FROM users WHERE company_id = %s AND id = %s FOR NO KEY UPDATE")
_REPLACE = Command(
    "UPDATE saved_filters SET query = %s WHERE company_id = %s AND user_id = %s AND list_name = %s AND name = %s"
)
_ADD = Command("INSERT INTO saved_filters (query, company_id, user_id, list_name, name) VALUES (%s, %s, %s, %s, %s)")
_RENAME = Command(
    "UPDATE saved_filters SET name = %s WHERE company_id = %s AND user_id = %s AND list_name = %s AND name = %s"
)
_REMOVE = Command("DELETE FROM saved_filters WHERE company_id = %s AND user_id = %s AND list_name = %s AND name = %s")


def list_saved_filters(connection: Connection, company_id: UUID, user_id: UUID, list_name: str) -> list[SavedFilter]:
    """The user's filters of a list, by name."""
    return _LIST.all(connection, (company_id, user_id, list_name))


def save_filter(connection: Connection, company_id: UUID, user_id: UUID, list_name: str, name: str, query: str) -> None:
    """Saves a filter, in place of one with that name. Raises UnusableFilter, with the reason, if it cannot be saved."""
    name = _checked_name(name)
    if len(query) > LONGEST_FILTER_QUERY:
        raise UnusableFilter("this filter is too long: shorten its words")
    _LOCK_USER.execute(connection, (company_id, user_id))  # two at once are counted one after the other
    if _REPLACE.execute(connection, (query, company_id, user_id, list_name, name)).rowcount:
        return
    if len(list_saved_filters(connection, company_id, user_id, list_name)) >= MOST_SAVED_FILTERS:
        raise UnusableFilter(f"you have {MOST_SAVED_FILTERS} saved filters of this list: remove one first")
    _ADD.execute(connection, (query, company_id, user_id, list_name, name))


def rename_filter(
    connection: Connection, company_id: UUID, user_id: UUID, list_name: str, name: str, new_name: str
) -> bool:
    """Renames a filter. Returns False if there is none with that name. Raises UnusableFilter, with the reason, if the
    new name cannot be used."""
    new_name = _checked_name(new_name)
    _LOCK_USER.execute(connection, (company_id, user_id))
    taken = {one.name for one in list_saved_filters(connection, company_id, user_id, list_name)} - {name}
    if new_name in taken:
        raise UnusableFilter(f"you have a filter “{new_name}” already")
    return _RENAME.execute(connection, (new_name, company_id, user_id, list_name, name)).rowcount == 1


def remove_filter(connection: Connection, company_id: UUID, user_id: UUID, list_name: str, name: str) -> None:
    _REMOVE.execute(connection, (company_id, user_id, list_name, name))


def _checked_name(name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_FILTER_NAME or not name.isprintable():
        raise UnusableFilter(f"a name has 1 to {LONGEST_FILTER_NAME} printable characters")
    return name
