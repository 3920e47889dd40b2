"""The cells' file: where the database of each cell is, for the command that moves companies between them."""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from domain.accounts.contacts import Contacts
from domain.addresses import postgres_address
from domain.errors import FuelrouteError

_KNOWN = {"database_url", "replication_url", "contact_key_file"}


class UnusableCells(FuelrouteError):
    """The file of the cells lacks something that is needed; the text says what to do."""


class CellAddress(NamedTuple):
    """A cell, as its administrator reaches it. The addresses hold passwords."""

    number: int
    database_url: str
    """The service's database, as a superuser."""
    replication_url: str
    """The service's database as the servers of other cells reach it, as a user who may replicate."""
    contacts: Contacts
    """The keys with which the cell's processes open contacts and secrets."""


def read_cells(file: Path) -> dict[int, CellAddress]:
    """The cells of a file, such as

        [1]
        database_url = "postgresql://postgres:...@db.c1/fuelroute"
        replication_url = "postgresql://replicator:...@10.0.1.5/fuelroute"    # unless it is the same
        contact_key_file = "/etc/fuelroute/c1.key"                            # where contacts are sealed

    Raises UnusableCells."""
    try:
        document = tomllib.loads(file.read_text())
    except (OSError, UnicodeError) as error:
        raise UnusableCells(f"cannot read {file}: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    except tomllib.TOMLDecodeError as error:
        raise UnusableCells(f"{file} is no TOML: {error}") from None
    cells = [_cell(file, name, values) for name, values in document.items()]
    return {cell.number: cell for cell in cells}


def _cell(file: Path, name: str, values: Any) -> CellAddress:
    if not (name.isascii() and name.isdecimal() and 1 <= int(name) <= 9999 and isinstance(values, dict)):
        raise UnusableCells(f"{file}: {name!r} is no cell; a cell is a table such as [2]")
    unknown = sorted(values.keys() - _KNOWN)
    if unknown or not all(isinstance(value, str) for value in values.values()):
        raise UnusableCells(f"{file}: cell {name} takes texts named {', '.join(sorted(_KNOWN))}, not {unknown}")
    if "database_url" not in values:
        raise UnusableCells(f"{file}: cell {name} needs a database_url")
    try:
        url = postgres_address(str(values["database_url"]))
        replication_url = postgres_address(str(values.get("replication_url", url)))
    except ValueError as error:
        raise UnusableCells(f"{file}: the address of cell {name} {error}") from None
    return CellAddress(int(name), url, replication_url, _contacts(file, name, values.get("contact_key_file")))


def _contacts(file: Path, name: str, key_file: str | None) -> Contacts:
    if key_file is None:
        return Contacts()
    try:
        return Contacts((file.parent / key_file).read_text())
    except (OSError, UnicodeError):
        raise UnusableCells(f"{file}: cannot read the contact_key_file of cell {name}") from None
