"""Stores the fills of a file, matches them, and figures their routes anew.

A file is stored in batches, each in a transaction of its own. A transaction that is stored already is recognized by its
key. So a file may be sent again, by two people at once, or after the process died in the middle.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from domain.accounts.companies import lock_company
from domain.database import Connection, Tenant
from domain.fills.card_files import FileFill
from domain.fills.figuring import figure_routes
from domain.fills.finding import ToMatch, match_fills
from domain.fills.local_times import utc_of_local
from domain.fills.matching import KnownStation, KnownStations
from domain.fills.reversals import pair_reversals
from domain.ids import new_id
from domain.index_order import in_index_order
from domain.roads import Point
from domain.statements import Command, Statement
from domain.stations.station_codes import CARD_CODES

BATCH_FILLS = 500


class StoredFills(NamedTuple):
    """The outcome of a batch, in fills."""

    created: int
    updated: int
    unchanged: int


class _Station(NamedTuple):
    station_id: str
    name: str
    brand: str | None
    city: str | None
    state: str | None
    latitude: float
    longitude: float


_STATIONS = Statement(
    _Station, "SELECT station_id, name, brand, city, state, latitude, longitude FROM stations ORDER BY station_id"
)


class _CardCode(NamedTuple):
    code: str
    station_id: str


_CARD_CODES = Statement(_CardCode, "SELECT code, station_id FROM station_codes WHERE company_id = %s AND code_set = %s")


def read_stations(connection: Connection, company_id: UUID) -> KnownStations:
    """All stations, with the company's codes of its card. Retired ones too: a truck may have fueled there while they
    were in service."""
    return KnownStations(
        (KnownStation(*row[:5], Point(*row[5:])) for row in _STATIONS.all(connection)),
        {row.code: row.station_id for row in _CARD_CODES.all(connection, (company_id, CARD_CODES))},
    )


def fill_batches(fills: Iterable[FileFill]) -> Iterator[list[FileFill]]:
    rest = iter(fills)
    while batch := list(islice(rest, BATCH_FILLS)):
        yield batch


_STORED = (
    *("id", "company_id", "environment", "profile", "key", "transaction_number", "invoice_number", "card_last_four"),
    *("driver_name", "file_id", "twin_id", "has_time", "unit_number", "location_name", "station_code", "city", "state"),
    *("item", "fuel", "gallons", "paid_cents", "currency", "bought_at", "time_zone", "vehicle_id", "station_id"),
    *("route_id", "score", "miles_from_truck", "review", "flags"),
)
_INSERT = Command(
    f"INSERT INTO fills ({', '.join(_STORED)}) VALUES ({', '.join(f'%({name})s' for name in _STORED)})"  # noqa: S608
)


class _StoredFill(NamedTuple):
    id: UUID
    key: str
    bought_at: datetime
    time_zone: str
    unit_number: str | None
    fuel: str
    gallons: float
    paid_cents: int
    currency: str
    route_id: UUID | None
    counter_id: UUID | None
    decided_by: str | None


_KNOWN = Statement(
    _StoredFill,
    """
    SELECT f.id, f.key, f.bought_at, f.time_zone, f.unit_number, f.fuel, f.gallons, f.paid_cents, f.currency,
           f.route_id, f.counter_id, f.decided_by
    FROM fills f WHERE company_id = %(company_id)s AND environment = %(environment)s AND key = ANY(%(keys)s)
    ORDER BY key
    """,
)
"""In the order of the unique index: a first import leaves PostgreSQL without statistics, and the other indexes begin
with the same columns. They then look as good, and have it read all fills of the company."""
_FREE = Command("UPDATE fills SET counter_id = NULL WHERE id = ANY(%s)")
MATCHED = """
    bought_at = %(bought_at)s, time_zone = %(time_zone)s, vehicle_id = %(vehicle_id)s, station_id = %(station_id)s,
    route_id = %(route_id)s, score = %(score)s, miles_from_truck = %(miles_from_truck)s, review = %(review)s::text[],
    flags = %(flags)s::text[]
"""
_CHANGE = Command(
    f"""
    UPDATE fills SET unit_number = %(unit_number)s, gallons = %(gallons)s, paid_cents = %(paid_cents)s,
        currency = %(currency)s, has_time = %(has_time)s, {MATCHED},
        counter_id = NULL, decided_by = NULL, decided_at = NULL
    WHERE id = %(id)s
    """  # noqa: S608 (constants of this module)
)
"""The card has corrected a transaction: what a person decided about its old figures is open again."""


def store_fills(
    connection: Connection,
    tenant: Tenant,
    profile: str,
    fills: Sequence[FileFill],
    stations: KnownStations,
    *,
    far_miles: float,
) -> StoredFills:
    """Store a batch in the caller's transaction. Locks the company's row, then routes. Raises UnknownCompany,
    RetiredCompany."""
    lock_company(connection, tenant.company_id)
    keys = [fill.key for fill in fills]
    with in_index_order(connection):
        known = {row.key: row for row in _KNOWN.all(connection, {**tenant._asdict(), "keys": keys})}
    new = [fill for fill in fills if fill.key not in known]
    changed = [fill for fill in fills if fill.key in known and _differs(fill, known[fill.key])]
    matches = match_fills(
        connection, tenant, [_to_match(fill) for fill in new + changed], stations, far_miles=far_miles
    )
    routes = {one.route_id for one in matches if one.route_id is not None}
    rows = [
        {
            **fill._asdict(),
            **one._asdict(),
            **tenant._asdict(),
            "profile": profile,
            "file_id": fill.reading.id if fill.reading is not None else None,
            "twin_id": None,
            "id": known[fill.key].id if fill.key in known else new_id(),
        }
        for fill, one in zip(new + changed, matches, strict=True)
    ]
    with connection.cursor() as cursor:
        cursor.executemany(_INSERT.text, rows[: len(new)])
    for row, fill in zip(rows[len(new) :], changed, strict=True):
        before = known[fill.key]
        _FREE.execute(connection, ([before.counter_id],))
        _CHANGE.execute(connection, row)
        routes |= {before.route_id} if before.route_id is not None else set()
    figure_routes(connection, routes)
    return StoredFills(len(new), len(changed), len(fills) - len(new) - len(changed))


def finish_fills(connection: Connection, tenant: Tenant) -> None:
    """Pair reversals with the fills that they take back, whichever came first, once all batches are stored."""
    lock_company(connection, tenant.company_id)
    figure_routes(connection, pair_reversals(connection, tenant))


def _differs(fill: FileFill, stored: _StoredFill) -> bool:
    """True if the file tells other figures than are stored."""
    now = (fill.unit_number, fill.gallons, fill.paid_cents, fill.currency)
    return now != (stored.unit_number, stored.gallons, stored.paid_cents, stored.currency) or (
        fill.has_time and utc_of_local(fill.local_time, stored.time_zone) != stored.bought_at
    )


def _to_match(fill: FileFill) -> ToMatch:
    return ToMatch(**{name: getattr(fill, name) for name in ToMatch._fields[:13]}, doubts=fill.doubts)
