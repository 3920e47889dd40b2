"""Codes of stations, and the stations that they mean to a company.

Chains and cards number stations in their own ways. Each way is a code set: `loves`, `pilot`, `ta`, `opis`, `card`. A
person's decision is kept beside codes that were matched, and goes before them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from domain.database.connections import Connection
from domain.database.staging import stage
from domain.database.statements import Statement

CARD_CODES = "card"
"""The code set of the company's fuel card."""

NAME_CODES = "name"
"""The code set of rows without a code: their name, street and town."""


class RowPlace(Struct, frozen=True, gc=False):
    """A row's station in the file's words."""

    code: str
    card_code: str
    name: str
    brand: str
    address: str
    city: str
    state: str
    latitude: float | None
    longitude: float | None


class StoredCode(NamedTuple):
    code_set: str
    code: str
    station_id: str
    is_decided: bool


_CODES = Statement(
    StoredCode,
    "SELECT code_set, code, station_id, is_decided FROM station_codes WHERE company_id = %s AND code_set = ANY(%s)",
)


def read_codes(connection: Connection, company_id: UUID, code_sets: Sequence[str]) -> list[StoredCode]:
    return _CODES.all(connection, (company_id, list(code_sets)))


def keep_codes(
    connection: Connection, company_id: UUID, codes: Iterable[tuple[str, str, str]], *, is_decided: bool = False
) -> None:
    """Keep codes with their stations: code set, code, station. `is_decided`: a person decided so."""
    rows = list(codes)
    if not rows:
        return
    stage(connection, "station_codes", ("code_set", "code", "station_id"), rows)
    connection.execute(
        "INSERT INTO station_codes (company_id, code_set, code, station_id, is_decided)"
        " SELECT %(company_id)s, code_set, code, station_id, %(is_decided)s FROM staged_station_codes"
        " ORDER BY code_set, code ON CONFLICT (company_id, code_set, code) DO UPDATE"
        " SET station_id = excluded.station_id, is_decided = excluded.is_decided"
        " WHERE excluded.is_decided OR NOT station_codes.is_decided",
        {"company_id": company_id, "is_decided": is_decided},
    )


def plain_code(code: str) -> str:
    """A code without the parts that spreadsheets and people add or lose: leading zeros, a number sign, small
    letters."""
    text = code.upper().strip().lstrip("# ")
    return text.lstrip("#0 ") or text


def name_code(place: RowPlace) -> str:
    parts = (place.name or place.brand, place.address, place.city, place.state)
    return " ".join(filter(None, parts)).strip()[:200]


def code_of_row(place: RowPlace, code_set: str) -> tuple[str, str]:
    """The code set and the code by which a held price is known."""
    if place.code:
        return code_set, place.code
    return (CARD_CODES, place.card_code) if place.card_code else (NAME_CODES, name_code(place))
