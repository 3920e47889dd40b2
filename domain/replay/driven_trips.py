"""Reads the driven trips of a span with their inputs: from the explanation of a plan while it is kept, from the packed
inputs after that. And packs the inputs of trips whose explanations are about to be forgotten.

**The plan that counts.** A trip may have several versions of its plan. The last one made before the truck left its
first stop counts, since it has the whole road, and the level with which the truck left. Without one, the first version
counts. Plans for stops that were pushed anew since then do not count."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.planning.explanation import unpack_explanation
from domain.planning.what_if import KeptTrip, inputs_of
from domain.replay.packed_inputs import pack_inputs, unpack_inputs
from domain.replay.solving import TripOutcome, with_brands
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

_COUNTING_PLAN = """
    SELECT made.id, made.explanation FROM (
        SELECT p.id, p.explanation, coalesce(p.as_of, p.generated_at) AS at,
               coalesce(p.as_of, p.generated_at) <= coalesce(first.departed_at, 'infinity') AS in_time
        FROM plans p LEFT JOIN LATERAL (
            SELECT departed_at FROM visits v WHERE v.route_id = p.route_id ORDER BY v.stop LIMIT 1) AS first ON true
        WHERE p.route_id = r.id AND p.revision = r.revision AND p.document IS NOT NULL) AS made
    ORDER BY made.in_time DESC, CASE WHEN made.in_time THEN made.at END DESC, made.at, made.id LIMIT 1
"""
"""The plan that counts of a route `r`. A truck that skipped its first stop began at the first one that it reached."""


class DrivenTrip(NamedTuple):
    """A completed route with the kept inputs of its plan, in one of two forms or in none."""

    route_id: UUID
    planned_at: datetime
    unit_number: str | None
    origin: str
    destination: str
    explanation: bytes | None
    packed: bytes | None


_DRIVEN = f"""
    SELECT s.route_id, s.planned_at, v.unit_number, s.origin, s.destination, counting.explanation, kept.packed
    FROM savings s
    JOIN routes r ON r.id = s.route_id AND r.status = 'completed'
    LEFT JOIN vehicles v ON v.id = s.vehicle_id
    LEFT JOIN LATERAL ({_COUNTING_PLAN}) AS counting ON true
    LEFT JOIN trip_inputs kept ON kept.route_id = s.route_id
    WHERE s.company_id = %(company_id)s AND s.environment = %(environment)s
"""
_TRIPS = Statement(DrivenTrip, f"{_DRIVEN} AND s.route_id = ANY(%(route_ids)s) ORDER BY s.planned_at, s.route_id")
_TRIPS_BETWEEN = Statement(
    DrivenTrip,
    f"""
    {_DRIVEN}
      AND s.planned_at >= %(first_at)s AND s.planned_at <= %(last_at)s
      AND (s.planned_at, s.route_id) >= (%(first_at)s, %(first_id)s)
      AND (s.planned_at, s.route_id) <= (%(last_at)s, %(last_id)s)
    ORDER BY s.planned_at, s.route_id
    """,
)


def read_trips(connection: Connection, tenant: Tenant, route_ids: Sequence[UUID]) -> list[DrivenTrip]:
    """The driven trips of these routes, in the order of their plans."""
    return _TRIPS.all(connection, {**tenant._asdict(), "route_ids": list(route_ids)})


def read_trips_between(
    connection: Connection, tenant: Tenant, first: tuple[datetime, UUID], last: tuple[datetime, UUID]
) -> list[DrivenTrip]:
    """The driven trips from the first to the last of a portion, in the order of their plans."""
    (first_at, first_id), (last_at, last_id) = first, last
    return _TRIPS_BETWEEN.all(
        connection,
        {**tenant._asdict(), "first_at": first_at, "first_id": first_id, "last_at": last_at, "last_id": last_id},
    )


def read_inputs(trip: DrivenTrip) -> KeptTrip | TripOutcome:
    """The inputs of a trip, or why there are none."""
    try:
        if trip.explanation is not None:
            return inputs_of(unpack_explanation(trip.explanation))
        return unpack_inputs(trip.packed) if trip.packed is not None else TripOutcome.FORGOTTEN
    except Exception as error:  # one trip must not hold up a quarter
        log.warning("replay.inputs_unreadable", route_id=trip.route_id, error=repr(error))
        return TripOutcome.UNREADABLE


class _Brand(NamedTuple):
    station_id: str
    brand: str | None


_BRANDS = Statement(_Brand, "SELECT station_id, brand FROM stations WHERE station_id = ANY(%s)")


def with_present_brands(
    connection: Connection, read: Mapping[UUID, KeptTrip | TripOutcome]
) -> dict[UUID, KeptTrip | TripOutcome]:
    """The inputs, where plans of earlier versions kept no brands with those that their stations have now."""
    old = {id: one for id, one in read.items() if isinstance(one, KeptTrip) and one.deals is None}
    ids = {station.station_id for one in old.values() for station in one.stations}
    brands = dict(_BRANDS.execute(connection, (sorted(ids),)).fetchall()) if ids else {}
    return {**read, **{id: with_brands(one, brands) for id, one in old.items()}}


# --- Kept when an explanation is forgotten ---------------------------------------------------------------------


class _Explained(NamedTuple):
    route_id: UUID
    company_id: UUID
    environment: str
    plan_id: UUID
    explanation: NotNull[bytes]


_TO_KEEP = Statement(
    _Explained,
    f"""
    SELECT s.route_id, s.company_id, s.environment, counting.id AS plan_id, counting.explanation
    FROM savings s
    JOIN routes r ON r.id = s.route_id AND r.status = 'completed'
    CROSS JOIN LATERAL ({_COUNTING_PLAN}) AS counting
    WHERE s.route_id = ANY(%s) AND counting.explanation IS NOT NULL
      AND NOT EXISTS (SELECT FROM trip_inputs kept WHERE kept.route_id = s.route_id)
    ORDER BY s.route_id
    """,
)
_KEEP = Command(
    "INSERT INTO trip_inputs (route_id, company_id, environment, plan_id, packed)"
    " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (route_id) DO NOTHING"
)


def keep_inputs(connection: Connection, route_ids: Iterable[UUID]) -> int:
    """Pack the inputs of driven trips whose explanations are about to be forgotten. Returns how many were kept."""
    kept = 0
    for one in _TO_KEEP.all(connection, (list(route_ids),)):
        packed = _packed(one)
        if packed is not None:
            _KEEP.execute(connection, (one.route_id, one.company_id, one.environment, one.plan_id, packed))
            kept += 1
    return kept


def _packed(one: _Explained) -> bytes | None:
    """The packed inputs; None where the explanation cannot be read."""
    try:
        inputs = inputs_of(unpack_explanation(one.explanation))
        packed = pack_inputs(inputs)
        return packed if unpack_inputs(packed) == inputs else None
    except Exception as error:  # one trip must not hold up retention
        log.warning("replay.inputs_not_kept", route_id=one.route_id, error=repr(error))
        return None


_FORGET = Scalar(
    UUID,
    """
    DELETE FROM trip_inputs WHERE route_id = ANY(ARRAY(
        SELECT kept.route_id FROM trip_inputs kept JOIN routes r ON r.id = kept.route_id
        WHERE kept.route_id < %(oldest_id)s AND r.updated_at < %(before)s
        ORDER BY kept.route_id LIMIT %(limit)s)) RETURNING route_id
    """,
)


def forget_inputs(connection: Connection, oldest: Mapping[str, object]) -> Sequence[UUID]:
    """Delete the inputs of trips that ended long ago."""
    return _FORGET.all(connection, oldest)
