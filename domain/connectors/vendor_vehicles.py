"""Vehicles that vendors name, and the vehicles of ours that they are.

A person's link goes first, then what is exactly the same: an external id (a vehicle id or a unit number of ours), the
VIN, the name as a unit number. What fits none or several is kept for the matching screen. The result of a comparison
holds for some minutes, so that a page costs one look at stored rows; a vehicle without a match is compared each time.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.connectors.connectors import UnusableConnector, lock_connector
from domain.connectors.vendor import VendorVehicle
from domain.database import Connection, as_json
from domain.fleet.records import require_in_service
from domain.ids import read_id
from domain.statements import Command, Statement
from domain.telematics.feed import vehicles_named
from domain.text import printable

MOST_UNMATCHED = 2_000
"""Vehicles of a connector without a match that are kept. A vendor that names more has another company's fleet."""

_HOLDS_FOR = timedelta(minutes=10)
_SEEN_EVERY = timedelta(minutes=2)
_LONGEST = 200

_BY_PERSON = "person"


class _Known(NamedTuple):
    vehicle_key: str
    name: str | None
    vin: str | None
    external_ids: str | None
    vehicle_id: UUID | None
    matched_by: str | None
    seen_at: datetime


_KNOWN = Statement(
    _Known,
    "SELECT vehicle_key, name, vin, external_ids, vehicle_id, matched_by, seen_at FROM connector_vehicles"
    " WHERE company_id = %s AND connector_id = %s AND vehicle_key = ANY(%s)",
)


class _Named(NamedTuple):
    """The vendor's words for a vehicle, as they are stored."""

    name: str | None
    vin: str | None
    external_ids: str | None

    @classmethod
    def of(cls, vehicle: VendorVehicle) -> "_Named":
        return cls(_tidied(vehicle.name), _tidied(vehicle.vin), _tidied("\n".join(vehicle.external_ids)))

    def references(self) -> list[tuple[str, tuple[str, str]]]:
        """The references to look up, the surest first, each with how it matches."""
        found: list[tuple[str, tuple[str, str]]] = []
        for one in (self.external_ids or "").split("\n"):
            kind = "vehicle_id" if read_id("veh", one) is not None else "unit_number"
            found.append(("external_id", (kind, one)))
        found += [("vin", ("vin", (self.vin or "").upper())), ("unit_number", ("unit_number", self.name or ""))]
        return [one for one in found if one[1][1]]


def _tidied(text: str | None) -> str | None:
    return printable((text or "").strip(), keep="\n")[:_LONGEST].strip() or None


def match_vehicles(
    connection: Connection, company_id: UUID, connector_id: UUID, vehicles: Sequence[VendorVehicle], *, now: datetime
) -> dict[str, UUID | None]:
    """Our vehicle for each of the vendor's, by key; None: a person has to say. Stores what is new."""
    named = {one.key: _Named.of(one) for one in vehicles if one.key and one.key == _tidied(one.key)}
    known = {row.vehicle_key: row for row in _KNOWN.all(connection, (company_id, connector_id, list(named)))}
    # a webhook may name a vehicle by its key alone: the names that are known stay
    named |= {key: _Named(row.name, row.vin, row.external_ids) for key, row in known.items() if not any(named[key])}
    matched: dict[str, UUID | None] = {}
    doubtful: dict[str, _Named] = {}
    for key, names in named.items():
        row = known.get(key)
        if row is not None and _still_holds(row, names, now):
            matched[key] = row.vehicle_id
        else:
            doubtful[key] = names
    if not doubtful:
        return matched
    compared = _compare(connection, company_id, doubtful, known)
    matched |= {key: vehicle_id for key, (vehicle_id, _) in compared.items()}
    changed = {key for key in doubtful if _is_news(known.get(key), doubtful[key], compared[key], now)}
    _store(connection, company_id, connector_id, {key: doubtful[key] for key in changed}, compared, now)
    return matched


def _still_holds(row: _Known, names: _Named, now: datetime) -> bool:
    if row.vehicle_id is None or now - row.seen_at > _HOLDS_FOR:
        return False
    return (row.name, row.vin, row.external_ids) == names


def _is_news(row: _Known | None, names: _Named, found: tuple[UUID | None, str | None], now: datetime) -> bool:
    if row is None or (row.name, row.vin, row.external_ids) != names:
        return True
    return (row.vehicle_id, row.matched_by) != found or now - row.seen_at > _SEEN_EVERY


def _compare(
    connection: Connection, company_id: UUID, doubtful: Mapping[str, _Named], known: Mapping[str, _Known]
) -> dict[str, tuple[UUID | None, str | None]]:
    """The vehicle for each key, and how it was found. A link whose vehicle was retired leads nowhere any more."""
    links = {
        key: row.vehicle_id
        for key, row in known.items()
        if key in doubtful and row.matched_by == _BY_PERSON and row.vehicle_id is not None
    }
    in_service = _in_service(connection, company_id, links.values())
    references = {reference for names in doubtful.values() for _, reference in names.references()}
    found = vehicles_named(connection, company_id, references)
    compared: dict[str, tuple[UUID | None, str | None]] = {}
    for key, names in doubtful.items():
        link = links.get(key)
        if link is not None and link in in_service:
            compared[key] = (link, _BY_PERSON)
            continue
        hits = ((found[reference], how) for how, reference in names.references() if reference in found)
        compared[key] = next(hits, (None, None))
    return compared


class _VehicleId(NamedTuple):
    id: UUID


_IN_SERVICE = Statement(
    _VehicleId, "SELECT id FROM vehicles WHERE company_id = %s AND id = ANY(%s) AND retired_at IS NULL"
)


def _in_service(connection: Connection, company_id: UUID, vehicle_ids: Iterable[UUID]) -> set[UUID]:
    wanted = list(vehicle_ids)
    return {row.id for row in _IN_SERVICE.all(connection, (company_id, wanted))} if wanted else set()


class _Count(NamedTuple):
    number: int


_COUNT_UNMATCHED = Statement(
    _Count,
    "SELECT count(*) AS number FROM connector_vehicles WHERE company_id = %s AND connector_id = %s"
    " AND vehicle_id IS NULL",
)
_STORE = Command(
    """
    INSERT INTO connector_vehicles AS known (connector_id, vehicle_key, company_id, name, vin, external_ids, vehicle_id,
                                             matched_by, seen_at)
    SELECT %s, new.vehicle_key, %s, new.name, new.vin, new.external_ids, new.vehicle_id, new.matched_by, %s
    FROM jsonb_to_recordset(%s) AS new (vehicle_key text, name text, vin text, external_ids text, vehicle_id uuid,
                                        matched_by text)
    ORDER BY new.vehicle_key
    ON CONFLICT (connector_id, vehicle_key) DO UPDATE SET
        name = excluded.name, vin = excluded.vin, external_ids = excluded.external_ids,
        vehicle_id = CASE WHEN known.matched_by = 'person' AND known.seen_at >= excluded.seen_at
                     THEN known.vehicle_id ELSE excluded.vehicle_id END,
        matched_by = CASE WHEN known.matched_by = 'person' AND known.seen_at >= excluded.seen_at
                     THEN known.matched_by ELSE excluded.matched_by END,
        seen_at = greatest(known.seen_at, excluded.seen_at)
    """
)


def _store(
    connection: Connection,
    company_id: UUID,
    connector_id: UUID,
    changed: Mapping[str, _Named],
    compared: Mapping[str, tuple[UUID | None, str | None]],
    now: datetime,
) -> None:
    room = MOST_UNMATCHED
    if any(compared[key][0] is None for key in changed):
        room -= _COUNT_UNMATCHED.one(connection, (company_id, connector_id)).number
    rows = []
    for key, names in changed.items():
        vehicle_id, matched_by = compared[key]
        if vehicle_id is None:
            room -= 1
            if room < 0:
                continue
        rows.append({"vehicle_key": key, **names._asdict(), "vehicle_id": vehicle_id, "matched_by": matched_by})
    if rows:
        _STORE.execute(connection, (connector_id, company_id, now, as_json(rows)))


# --- People ------------------------------------------------------------------------------------------------------


class ConnectorVehicle(NamedTuple):
    """A vehicle that a vendor names, as people see it."""

    vehicle_key: str
    name: str | None
    vin: str | None
    vehicle_id: UUID | None
    unit_number: str | None
    """The unit number of our vehicle."""
    matched_by: str | None
    newest_at: datetime | None
    """When our vehicle's newest position was recorded, by whatever way it came."""


_LIST = Statement(
    ConnectorVehicle,
    """
    SELECT it.vehicle_key, it.name, it.vin, it.vehicle_id, v.unit_number, it.matched_by, t.newest_at
    FROM connector_vehicles it
    JOIN connectors c ON c.id = it.connector_id
    LEFT JOIN vehicles v ON v.company_id = it.company_id AND v.id = it.vehicle_id
    LEFT JOIN tracks t ON t.vehicle_id = it.vehicle_id AND t.environment = c.environment
    WHERE it.company_id = %(company_id)s AND it.connector_id = %(connector_id)s
      AND CASE %(only)s WHEN 'unmatched' THEN it.vehicle_id IS NULL
                        WHEN 'silent' THEN it.vehicle_id IS NOT NULL
                             AND (t.newest_at IS NULL OR t.newest_at < %(silent_since)s::timestamptz)
                        ELSE true END
    ORDER BY it.name, it.vehicle_key LIMIT %(limit)s
    """,
)

UNHEARD_AFTER = timedelta(hours=1)
"""A truck whose newest position is older is silent. Parked trucks of most vendors report once an hour or less often."""


def list_connector_vehicles(
    connection: Connection, company_id: UUID, connector_id: UUID, *, only: str = "all", now: datetime, limit: int = 200
) -> list[ConnectorVehicle]:
    """The vehicles that a connector's vendor names: `all`, `unmatched` or `silent` ones."""
    parameters = {
        "company_id": company_id,
        "connector_id": connector_id,
        "only": only,
        "silent_since": now - UNHEARD_AFTER,
        "limit": limit,
    }
    return _LIST.all(connection, parameters)


class VehicleCounts(NamedTuple):
    """The numbers of vehicles that a connector's vendor names."""

    connector_id: UUID
    matched: int
    unmatched: int
    silent: int


_COUNTS = Statement(
    VehicleCounts,
    """
    SELECT it.connector_id, count(it.vehicle_id) AS matched, count(*) FILTER (WHERE it.vehicle_id IS NULL) AS unmatched,
           count(*) FILTER (WHERE it.vehicle_id IS NOT NULL AND (t.newest_at IS NULL
                                  OR t.newest_at < %s::timestamptz)) AS silent
    FROM connector_vehicles it
    JOIN connectors c ON c.id = it.connector_id
    LEFT JOIN tracks t ON t.vehicle_id = it.vehicle_id AND t.environment = c.environment
    WHERE it.company_id = %s GROUP BY it.connector_id
    """,
)


def count_connector_vehicles(connection: Connection, company_id: UUID, *, now: datetime) -> dict[UUID, VehicleCounts]:
    """The counts of each connector that has named a vehicle."""
    return {row.connector_id: row for row in _COUNTS.all(connection, (now - UNHEARD_AFTER, company_id))}


_LINK = Command(
    "UPDATE connector_vehicles SET vehicle_id = %s, matched_by = CASE WHEN %s::uuid IS NOT NULL THEN 'person' END,"
    " seen_at = %s WHERE company_id = %s AND connector_id = %s AND vehicle_key = %s"
)


def link_vehicle(
    connection: Connection,
    company_id: UUID,
    connector_id: UUID,
    vehicle_key: str,
    vehicle_id: UUID | None,
    *,
    now: datetime,
) -> None:
    """A person says which of our vehicles the vendor's is; None takes the link back. Positions that come in from now on
    are the vehicle's. Raises UnknownConnector, UnknownTarget, UnusableConnector."""
    lock_connector(connection, company_id, connector_id)
    if vehicle_id is not None:
        require_in_service(connection, company_id, "vehicle", vehicle_id)
    parameters = (vehicle_id, vehicle_id, now, company_id, connector_id, vehicle_key)
    if _LINK.execute(connection, parameters).rowcount != 1:
        raise UnusableConnector(f"the connector has named no vehicle {vehicle_key!r}")
