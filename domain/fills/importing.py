"""Stores the fills of a file, matches them, and compares their routes again.

A file is stored in batches, each in a transaction of its own. A stored transaction is recognized by its key. So a file
may be sent again, by two people at once, or after the process died in the middle."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from msgspec.structs import asdict, replace

from domain.accounts.companies import lock_company
from domain.database.connections import Connection, Tenant, as_array, as_json
from domain.database.index_order import in_index_order
from domain.database.statements import Command, Statement
from domain.fills.card_files import CORRECTED, TWICE, FileFill, FileReading
from domain.fills.finding import Matches, ToMatch, match_fills
from domain.fills.known_purchases import (
    PURCHASE_COLUMNS,
    Candidates,
    Telling,
    keep_telling,
    read_candidates,
    read_tellings,
    replace_figures,
)
from domain.fills.local_times import utc_of_local
from domain.fills.matching import KnownStation, KnownStations
from domain.fills.repeated import CardPurchase, Sameness, may_be_corrected, plain_number
from domain.fills.reversals import pair_reversals, take_back_figures
from domain.fills.row_places import StateOf
from domain.fills.stored_verdicts import update_verdicts
from domain.ids import new_id
from domain.roads import Point
from domain.stations.station_codes import CARD_CODES

BATCH_FILLS = 500


class StoredFills(NamedTuple):
    """The outcome of a batch, counted in fills."""

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
    """All stations, with the company's codes of its card; retired ones too, because trucks may have fueled there while
    they were in service."""
    return KnownStations(
        (KnownStation(*row[:5], Point(*row[5:])) for row in _STATIONS.all(connection)),
        {row.code: row.station_id for row in _CARD_CODES.all(connection, (company_id, CARD_CODES))},
    )


def states_by_stations(connection: Connection, company_id: UUID) -> StateOf:
    """Tells the states of places by the known stations, which are read if a row without a state comes."""
    stations = lru_cache(lambda: read_stations(connection, company_id))
    return lambda name, city: stations().state_of(name, city)


_INSERTED = (
    *("id", "key", "transaction_number", "invoice_number", "card_last_four", "driver_name", "twin_id", "has_time"),
    "has_zone",
    *("unit_number", "location_name", "station_code", "city", "state", "item", "fuel", "gallons", "paid_cents"),
    *("currency", "bought_at", "time_zone", "vehicle_id", "station_id", "route_id", "score", "miles_from_truck"),
    *("review", "flags"),
)
_INSERTED_COLUMNS = ", ".join(_INSERTED)
_INSERT = Command(
    f"""
    INSERT INTO fills (company_id, environment, profile, file_id, {_INSERTED_COLUMNS})
    SELECT %(company_id)s, %(environment)s, %(profile)s, %(file_id)s, {_INSERTED_COLUMNS}
    FROM jsonb_populate_recordset(NULL::fills, %(fills)s)
    """
)


class _Settled(NamedTuple):
    id: UUID
    route_id: UUID | None


_KNOWN = Statement(
    CardPurchase,
    f"""
    SELECT {PURCHASE_COLUMNS}
    FROM fills f WHERE company_id = %(company_id)s AND environment = %(environment)s AND key = ANY(%(keys)s::text[])
    ORDER BY key
    """,
)
"""The order is that of the unique index. After a first import PostgreSQL has no statistics, and other indexes that
begin with the same columns look as good to it; with them it would read all fills of the company."""
_BY_ID = Statement(CardPurchase, f"SELECT {PURCHASE_COLUMNS} FROM fills f WHERE company_id = %s AND id = ANY(%s)")
MATCHED = """
    bought_at = %(bought_at)s, time_zone = %(time_zone)s, vehicle_id = %(vehicle_id)s, station_id = %(station_id)s,
    route_id = %(route_id)s, score = %(score)s, miles_from_truck = %(miles_from_truck)s, review = %(review)s::text[],
    flags = %(flags)s::text[]
"""
_CHANGE = Command(
    f"""
    UPDATE fills SET unit_number = %(unit_number)s, gallons = %(gallons)s, paid_cents = %(paid_cents)s,
        currency = %(currency)s, has_time = %(has_time)s, has_zone = %(has_zone)s, {MATCHED}, twin_id = NULL,
        decided_by = NULL, decided_at = NULL
    WHERE id = %(id)s
    """
)
"""The card has corrected a transaction, so a person's decisions about its old figures are open again."""
_SETTLE = Statement(
    _Settled,
    "UPDATE fills SET review = array_remove(review, %s), twin_id = NULL WHERE id = %s RETURNING id, route_id",
)

_ASK = Statement(
    _Settled,
    "UPDATE fills SET review = array_append(array_remove(review, %s), %s), decided_by = NULL, decided_at = NULL"
    " WHERE id = %s AND counter_id IS NULL RETURNING id, route_id",
)
"""The figures of a fill may have been corrected by others that were taken back, so a person decides whether they
count."""


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
    batch = _Batch(connection, tenant, profile, fills)
    rows = batch.unknown_rows(fills)
    if rows:
        to_match = [batch.to_match(fill) for fill in rows]
        matches = match_fills(connection, tenant, to_match, stations, far_miles=far_miles)
        batch.take([_Row(fill, one, _purchase(profile, fill, one)) for fill, one in zip(rows, matches, strict=True)])
        batch.write()
    update_verdicts(connection, batch.routes)
    return StoredFills(batch.created, batch.updated, len(fills) - batch.created - batch.updated)


def finish_fills(connection: Connection, tenant: Tenant) -> None:
    """Pair reversals with the fills that they take back, in any order, once all batches are stored."""
    lock_company(connection, tenant.company_id)
    update_verdicts(connection, pair_reversals(connection, tenant))


class _Row(NamedTuple):
    """A row of the file that differs from the stored fills."""

    fill: FileFill
    matches: Matches
    purchase: CardPurchase


class _Batch:
    """Rows of a file on their way into the table: each is a new fill, a correction, or known already."""

    def __init__(self, connection: Connection, tenant: Tenant, profile: str, fills: Sequence[FileFill]) -> None:
        self._connection, self._tenant = connection, tenant
        self._reading = (fills[0].reading if fills else None) or FileReading()
        self._of_file = {**tenant._asdict(), "profile": profile, "file_id": self._reading.id}
        keys = [fill.key for fill in fills] + [fill.repeats for fill in fills if fill.repeats]
        with in_index_order(connection):
            self._known = {row.key: row for row in _KNOWN.all(connection, {**tenant._asdict(), "keys": as_array(keys)})}
        told = read_tellings(connection, tenant, keys)
        self._tellings = {(one.key, one.gallons, one.paid_cents): one for one in told}
        others = self._by_id({one.fill_id for one in told})
        self._ids = {key: row.id for key, row in self._known.items()} | {one.key: one.fill_id for one in told}
        self._targets = dict(self._known)
        for one in told:
            before = self._targets.get(one.key)
            if one.fill_id in others and (before is None or before.counter_id is not None):
                self._targets[one.key] = others[one.fill_id]  # a purchase that still counts goes first
        self._inserts: list[dict[str, Any]] = []
        self.created = self.updated = 0
        self.routes: set[UUID] = set()

    def _by_id(self, ids: set[UUID]) -> dict[UUID, CardPurchase]:
        rows = _BY_ID.all(self._connection, (self._tenant.company_id, list(ids))) if ids else []
        return {row.id: row for row in rows}

    def unknown_rows(self, fills: Sequence[FileFill]) -> list[FileFill]:
        """The rows that no earlier row equals."""
        rest = []
        for fill in fills:
            stored, told = self._known.get(fill.key), self._tellings.get((fill.key, fill.gallons, fill.paid_cents))
            if stored is not None and fill.is_currency_assumed:
                fill = replace(fill, currency=stored.currency)
            if told is not None:
                self._claim(told.claimed)
            elif stored is not None and not _differs(fill, stored):
                self._claim(stored.id)
            else:
                rest.append(fill)
        return rest

    def to_match(self, fill: FileFill) -> ToMatch:
        stored = self._targets.get(fill.key)
        keeps = stored is not None and stored.unit_number == fill.unit_number
        former = stored.vehicle_id if stored is not None and keeps else None
        return ToMatch(fill, fill.local_time, doubts=fill.doubts, former_vehicle_id=former)

    def take(self, rows: Sequence[_Row]) -> None:
        """Find out what each row is: first by its key or a number, then by equal figures of a purchase, then the
        rest."""
        rest = [row for row in rows if not self._is_change_of_its_own(row)]
        if not rest:
            return
        candidates = read_candidates(self._connection, self._tenant, self._reading.id, [row.purchase for row in rest])
        for by_number in (True, False):
            rest = [row for row in rest if not self._is_told_again(row, candidates, by_number)]
        for row in sorted(rest, key=lambda row: row.fill.gallons > 0):  # reversals first: they may take the others back
            self._correct_or_add(row, candidates)

    def _is_change_of_its_own(self, row: _Row) -> bool:
        """True for a row with a known key and unchanged figures: its unit or its time was corrected."""
        stored = self._known.get(row.fill.key)
        if stored is None or not _has_figures(row.fill, stored):
            return False
        self._claim(stored.id)
        self._change(stored, row)
        return True

    def _is_told_again(self, row: _Row, candidates: Candidates, by_number: bool) -> bool:
        found = candidates.closest(row.purchase, self._reading.known, Sameness.SAME, by_number=by_number)
        if found is None:
            return False
        self._claim(found.id)
        self._ids[row.fill.key] = candidates.telling_of(found, row.fill.key).fill_id
        gallons, cents = row.fill.gallons, row.fill.paid_cents
        self._keep(candidates.telling_of(found, row.fill.key)._replace(gallons=gallons, paid_cents=cents))
        return True

    def _correct_or_add(self, row: _Row, candidates: Candidates) -> None:
        target = self._targets.get(row.fill.key)
        if target is None:
            found = candidates.closest(row.purchase, self._reading.known, Sameness.CORRECTED)
            target = self._by_id({found.id}).get(found.id) if found is not None else None
        if target is not None and target.id not in self._reading.known:
            if row.fill.gallons < 0 or may_be_corrected(row.purchase, target):
                self._correct(target, row)
            else:
                self._reading.asked[target.id] = self._add(row, twin_id=target.id)
            return
        first = self._ids.get(row.fill.repeats) if row.fill.repeats is not None else None
        if first is not None:
            self._add(row, twin_id=first)
            return
        twin = candidates.closest(row.purchase, self._reading.known, Sameness.DOUBTFUL)
        if twin is not None:
            self._reading.asked[twin.id] = self._add(row, twin_id=twin.id)
        else:
            self._add(row)

    def _correct(self, target: CardPurchase, row: _Row) -> None:
        """Store the card's new figures of a transaction. A purchase that was taken back stays so, and a reversal takes
        back the figures that it states: the new figures then make a new fill."""
        fill = row.fill
        if target.counter_id is not None or fill.gallons < 0:
            self._add(row)
            return
        self._claim(target.id)
        self._ids[fill.key] = target.id
        self.write()  # a reversal of the same file may be among them
        back = take_back_figures(self._connection, self._tenant, row.purchase, target.id)
        if back is not None:
            self._keep(Telling(fill.key, fill.gallons, fill.paid_cents, target.id, True, True))
            if back.file_id == self._reading.id:  # nothing tells whether the card had replaced the stored figures
                self._routes_of(_ASK.all(self._connection, (CORRECTED, CORRECTED, target.id)))
            return
        own = Telling(target.key, target.gallons, target.paid_cents, target.id)
        replace_figures(self._connection, self._tenant, own)
        self._keep(Telling(fill.key, fill.gallons, fill.paid_cents, target.id))
        self._change(target, row)

    def _add(self, row: _Row, *, twin_id: UUID | None = None) -> UUID:
        fill, fill_id = row.fill, new_id()
        values = self._values(row, fill_id)
        values["twin_id"] = twin_id
        if fill.key in self._targets:  # another purchase has its key
            values["key"] = fill_id.hex
            self._keep(Telling(fill.key, fill.gallons, fill.paid_cents, fill_id))
        if twin_id is not None:
            values["review"] = [*row.matches.review, TWICE]
        self._inserts.append(values)
        self._ids[fill.key] = fill_id
        self.created += 1
        self._note(row.matches.route_id)
        return fill_id

    def _change(self, stored: CardPurchase, row: _Row) -> None:
        values = self._values(row, stored.id)
        if stored.counter_id is not None:
            values["review"] = []  # it does not count, so nothing is open
        _CHANGE.execute(self._connection, values)
        self._note(stored.route_id)
        self._note(row.matches.route_id)
        self.updated += 1

    def _values(self, row: _Row, fill_id: UUID) -> dict[str, Any]:
        has_zone = row.fill.local_time.tzinfo is not None
        return asdict(row.fill) | row.matches._asdict() | {"id": fill_id, "has_zone": has_zone}

    def _claim(self, fill_id: UUID) -> None:
        """Note that this stored fill is a row of the file. Another row that was taken for it is then another
        purchase."""
        self._reading.known.add(fill_id)
        asked = self._reading.asked.pop(fill_id, None)
        if asked is not None:
            self._routes_of(_SETTLE.all(self._connection, (TWICE, asked)))

    def _keep(self, telling: Telling) -> None:
        keep_telling(self._connection, self._tenant, telling)

    def _routes_of(self, changed: Iterable[_Settled]) -> None:
        for one in changed:
            self._note(one.route_id)

    def _note(self, route_id: UUID | None) -> None:
        self.routes |= {route_id} if route_id is not None else set()

    def write(self) -> None:
        if self._inserts:
            fills = [{name: one[name] for name in _INSERTED} for one in self._inserts]
            _INSERT.execute(self._connection, self._of_file | {"fills": as_json(fills)})
        self._inserts = []


def _differs(fill: FileFill, stored: CardPurchase) -> bool:
    """True if the file differs from the stored fill."""
    if not _has_figures(fill, stored):
        return True
    if fill.unit_number != stored.unit_number and plain_number(fill.unit_number) != plain_number(stored.unit_number):
        return True
    return fill.has_time and utc_of_local(fill.local_time, stored.time_zone) != stored.bought_at


def _has_figures(fill: FileFill, stored: CardPurchase) -> bool:
    return (fill.gallons, fill.paid_cents, fill.currency) == (stored.gallons, stored.paid_cents, stored.currency)


def _purchase(profile: str, fill: FileFill, matches: Matches) -> CardPurchase:
    return CardPurchase(
        id=_NO_ID,
        profile=profile,
        key=fill.key,
        transaction_number=fill.transaction_number,
        invoice_number=fill.invoice_number,
        card_last_four=fill.card_last_four,
        unit_number=fill.unit_number,
        vehicle_id=matches.vehicle_id,
        station_id=matches.station_id,
        route_id=matches.route_id,
        city=fill.city,
        state=fill.state,
        fuel=fill.fuel,
        gallons=fill.gallons,
        paid_cents=fill.paid_cents,
        currency=fill.currency,
        bought_at=matches.bought_at,
        time_zone=matches.time_zone,
        has_time=fill.has_time,
        counter_id=None,
    )


_NO_ID = UUID(int=0)
