"""Vehicles that vendors name, and the vehicles of ours that they are.

A person's link comes first, then exactly equal references: an external id (a vehicle id or a unit number of ours), the
VIN, the name as a unit number; `matching.py` has the rule. A vehicle that fits none or several of ours, or is in doubt,
is kept for the matching screen with the reason. The result of a comparison holds for some minutes, so that a page costs
one reading of stored rows; a vehicle without a match is compared each time."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.audit.entries import Action, Actor, record_about
from domain.connectors.connectors import CONNECTORS, UnusableConnector
from domain.connectors.matching import BY_PERSON, Before, Compared, Named, Ours, judge, tidied
from domain.connectors.vendor import VendorVehicle
from domain.database.connections import Connection, as_json
from domain.database.statements import Command, Scalar, Statement
from domain.fleet.records import require_in_service
from domain.telematics.feed import vehicles_named

MOST_UNMATCHED = 2_000
"""Most unmatched vehicles that a connector keeps. A vendor that names more has another company's fleet."""

_HOLDS_FOR = timedelta(minutes=10)
_SEEN_EVERY = timedelta(minutes=2)
_TWINS_WITHIN = timedelta(days=1)
"""Two vehicles of the vendor that were seen within this time and match one of ours are told. Most often one of them is
an old, silent tracker; else they send the truck to and fro."""


class _Known(NamedTuple):
    vehicle_key: str
    name: str | None
    vin: str | None
    external_ids: str | None
    vehicle_id: UUID | None
    matched_by: str | None
    seen_at: datetime
    doubt: str | None


_KNOWN = Statement(
    _Known,
    "SELECT vehicle_key, name, vin, external_ids, vehicle_id, matched_by, seen_at, doubt FROM connector_vehicles"
    " WHERE company_id = %s AND connector_id = %s AND vehicle_key = ANY(%s)",
)


def match_vehicles(
    connection: Connection,
    company_id: UUID,
    connector_id: UUID,
    vehicles: Sequence[VendorVehicle],
    *,
    names_parts: bool = False,
    now: datetime,
) -> dict[str, UUID | None]:
    """Our vehicle for each of the vendor's, by key; None if a person has to decide. Stores new ones. `names_parts`: the
    vendor names only a part of its vehicles, as in webhooks; then the other known ones still count."""
    named: dict[str, Named] = {}
    for one in vehicles:
        if one.key and one.key == tidied(one.key):  # a list of events names one again, perhaps in part
            names = Named.of(one)
            named[one.key] = Named(*map(_newest, names, named.get(one.key, names)))
    known = {row.vehicle_key: row for row in _KNOWN.all(connection, (company_id, connector_id, list(named)))}
    for key, known_one in known.items():
        if names_parts or not any(named[key]):
            before = (known_one.name, known_one.vin, known_one.external_ids)
            named[key] = Named(*map(_newest, named[key], before))
    matched: dict[str, UUID | None] = {}
    doubtful: dict[str, Named] = {}
    for key, names in named.items():
        row = known.get(key)
        if row is not None and _still_holds(row, names, now):
            matched[key] = row.vehicle_id
        else:
            doubtful[key] = names
    if not doubtful:
        return matched
    compared = _compare(connection, company_id, doubtful, known)
    matched |= {key: found.vehicle_id for key, found in compared.items()}
    changed = {key for key in doubtful if _is_news(known.get(key), doubtful[key], compared[key], now)}
    _store(connection, company_id, connector_id, {key: doubtful[key] for key in changed}, compared, now)
    return matched


def _newest(new: str | None, old: str | None) -> str | None:
    return new or old


def _still_holds(row: _Known, names: Named, now: datetime) -> bool:
    if row.vehicle_id is None or now - row.seen_at > _HOLDS_FOR:
        return False
    return (row.name, row.vin, row.external_ids) == names


def _before(row: _Known | None) -> Before | None:
    return None if row is None or row.vehicle_id is None else Before(row.vehicle_id, row.matched_by)


def _is_news(row: _Known | None, names: Named, found: Compared, now: datetime) -> bool:
    if row is None or (row.name, row.vin, row.external_ids) != names:
        return True
    return (row.vehicle_id, row.matched_by, row.doubt) != found or now - row.seen_at > _SEEN_EVERY


def _compare(
    connection: Connection, company_id: UUID, doubtful: Mapping[str, Named], known: Mapping[str, _Known]
) -> dict[str, Compared]:
    """The vehicle for each key, and the kind of match. A link to a retired vehicle no longer counts."""
    references = {reference for names in doubtful.values() for _, reference in names.references()}
    references |= {reference for names in doubtful.values() for reference in names.others()}
    found = vehicles_named(connection, company_id, references)
    links = {row.vehicle_id for row in known.values() if row.matched_by == BY_PERSON}
    ours = _in_service(connection, company_id, {*found.values(), *(one for one in links if one is not None)})
    return {key: judge(names, _before(known.get(key)), found, ours) for key, names in doubtful.items()}


_IN_SERVICE = Statement(
    Ours,
    "SELECT id, unit_number, vin FROM vehicles WHERE company_id = %s AND id = ANY(%s) AND retired_at IS NULL",
)


def _in_service(connection: Connection, company_id: UUID, vehicle_ids: Iterable[UUID]) -> dict[UUID, Ours]:
    wanted = list(vehicle_ids)
    return {row.id: row for row in _IN_SERVICE.all(connection, (company_id, wanted))} if wanted else {}


_COUNT_UNMATCHED = Scalar(
    int, "SELECT count(*) FROM connector_vehicles WHERE company_id = %s AND connector_id = %s AND vehicle_id IS NULL"
)
_STORE = Command(
    """
    INSERT INTO connector_vehicles AS known (connector_id, vehicle_key, company_id, name, vin, external_ids, vehicle_id,
                                             matched_by, doubt, seen_at)
    SELECT %s, new.vehicle_key, %s, new.name, new.vin, new.external_ids, new.vehicle_id, new.matched_by, new.doubt, %s
    FROM jsonb_to_recordset(%s) AS new (vehicle_key text, name text, vin text, external_ids text, vehicle_id uuid,
                                        matched_by text, doubt text)
    ORDER BY new.vehicle_key
    ON CONFLICT (connector_id, vehicle_key) DO UPDATE SET
        name = excluded.name, vin = excluded.vin, external_ids = excluded.external_ids,
        doubt = excluded.doubt,
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
    changed: Mapping[str, Named],
    compared: Mapping[str, Compared],
    now: datetime,
) -> None:
    room = MOST_UNMATCHED
    if any(compared[key].vehicle_id is None for key in changed):
        room -= _COUNT_UNMATCHED.one(connection, (company_id, connector_id))
    rows = []
    for key, names in changed.items():
        if compared[key].vehicle_id is None:
            room -= 1
            if room < 0:
                continue
        rows.append({"vehicle_key": key, **names._asdict(), **compared[key]._asdict()})
    if rows:
        _STORE.execute(connection, (connector_id, company_id, now, as_json(rows)))


# --- People ------------------------------------------------------------------------------------------------------


class ConnectorVehicle(NamedTuple):
    """A vehicle that a vendor names, for people."""

    vehicle_key: str
    name: str | None
    vin: str | None
    vehicle_id: UUID | None
    unit_number: str | None
    """The unit number of our vehicle; None without a match."""
    matched_by: str | None
    newest_at: datetime | None
    """When our vehicle's newest position was recorded, from any source; None without one."""
    doubt: str | None
    """Why there is no match, or what contradicts the match; None without a doubt."""


_LIST = Statement(
    ConnectorVehicle,
    """
    WITH twins AS (
        SELECT vehicle_id, array_agg(vehicle_key ORDER BY vehicle_key) AS keys,
               array_agg(coalesce(name, vehicle_key) ORDER BY vehicle_key) AS names
        FROM connector_vehicles
        WHERE company_id = %(company_id)s AND connector_id = %(connector_id)s AND vehicle_id IS NOT NULL
          AND seen_at > %(twins_since)s
        GROUP BY vehicle_id HAVING count(*) > 1)
    SELECT it.vehicle_key, it.name, it.vin, it.vehicle_id, v.unit_number, it.matched_by, t.newest_at, told.doubt
    FROM connector_vehicles it
    JOIN connectors c ON c.id = it.connector_id
    LEFT JOIN vehicles v ON v.company_id = it.company_id AND v.id = it.vehicle_id
    LEFT JOIN tracks t ON t.vehicle_id = it.vehicle_id AND t.environment = c.environment
    LEFT JOIN twins ON twins.vehicle_id = it.vehicle_id AND it.seen_at > %(twins_since)s
    CROSS JOIN LATERAL (SELECT CASE twins.keys[1] WHEN it.vehicle_key THEN 2 ELSE 1 END AS place) AS other
    CROSS JOIN LATERAL (SELECT coalesce(it.doubt, twins.names[place] || ' (' || twins.keys[place]
                                                  || ') is the same vehicle of yours') AS doubt) AS told
    WHERE it.company_id = %(company_id)s AND it.connector_id = %(connector_id)s
      AND CASE %(only)s WHEN 'unmatched' THEN it.vehicle_id IS NULL
                        WHEN 'silent' THEN it.vehicle_id IS NOT NULL
                             AND (t.newest_at IS NULL OR t.newest_at < %(silent_since)s::timestamptz)
                        WHEN 'doubtful' THEN it.vehicle_id IS NOT NULL AND told.doubt IS NOT NULL
                        ELSE true END
    ORDER BY it.name, it.vehicle_key LIMIT %(limit)s
    """,
)

UNHEARD_AFTER = timedelta(hours=1)
"""A truck without a position for this time is silent. Parked trucks of most vendors report once an hour or less
often."""


def list_connector_vehicles(
    connection: Connection, company_id: UUID, connector_id: UUID, *, only: str = "all", now: datetime, limit: int = 200
) -> list[ConnectorVehicle]:
    """A connector's vehicles: `all`, `unmatched`, `silent`, or `doubtful` ones, whose match something contradicts."""
    parameters = {
        "company_id": company_id,
        "connector_id": connector_id,
        "only": only,
        "silent_since": now - UNHEARD_AFTER,
        "twins_since": now - _TWINS_WITHIN,
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
    " doubt = NULL, seen_at = %s WHERE company_id = %s AND connector_id = %s AND vehicle_key = %s"
)


def link_vehicle(
    connection: Connection,
    company_id: UUID,
    connector_id: UUID,
    vehicle_key: str,
    vehicle_id: UUID | None,
    by: Actor,
    *,
    now: datetime,
) -> None:
    """Stores a person's link from the vendor's vehicle to one of ours; None removes the link. Positions that come in
    from now on are the vehicle's. Raises UnknownConnector, UnknownTarget, and UnusableConnector if the vendor has not
    named the vehicle."""
    CONNECTORS.lock(connection, company_id, connector_id)
    if vehicle_id is not None:
        require_in_service(connection, company_id, "vehicle", vehicle_id)
    parameters = (vehicle_id, vehicle_id, now, company_id, connector_id, vehicle_key)
    if _LINK.execute(connection, parameters).rowcount != 1:
        raise UnusableConnector(f"the connector has named no vehicle {vehicle_key!r}")
    record_about(connection, by, Action("connectors.link"), "con", connector_id, company_id=company_id)
