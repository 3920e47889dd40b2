"""Solves a replay portion by portion, and finishes it.

A portion is a stretch of trips that is solved in about a second. Whoever solves one takes it for some minutes first, so
that several processes work on one replay, and a portion whose process died is solved by another one. Solving a portion
twice gives the same results, and the first ones stay."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from domain.database.connections import Connection, Tenant, Transaction, as_json
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.lifecycle import Environment
from domain.planning.what_if import KeptTrip
from domain.queue.jobs import WorkingAt, never_fatal
from domain.replay.driven_trips import (
    DrivenTrip,
    read_inputs,
    read_trips,
    read_trips_between,
    with_present_brands,
)
from domain.replay.results import ReplayTotals, TripResult, pack_results, summary_document, unpack_results
from domain.replay.solving import Solved, TripOutcome, solve_sides
from domain.replay.terms import ReplayTerms
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

_TAKEN = timedelta(minutes=3)
_READ_PORTIONS = 20
"""Portions that are read at once where all results are added up."""


class _Taken(NamedTuple):
    number: int
    company_id: UUID
    environment: str
    first_at: datetime
    first_id: UUID
    last_at: datetime
    last_id: UUID
    route_ids: list[UUID] | None
    terms: dict[str, Any]
    time_zone: str


_TAKE = Statement(
    _Taken,
    """
    UPDATE replay_portions p SET taken_until = %(until)s FROM replays r
    WHERE r.id = p.replay_id AND p.replay_id = %(replay_id)s AND p.number = (
        SELECT free.number FROM replay_portions free JOIN replays its ON its.id = free.replay_id
        WHERE free.replay_id = %(replay_id)s AND its.stopped_at IS NULL AND free.results IS NULL
          AND (free.taken_until IS NULL OR free.taken_until < %(now)s)
        ORDER BY free.number LIMIT 1 FOR UPDATE OF free SKIP LOCKED)
    RETURNING p.number, p.company_id, p.environment, p.first_at, p.first_id, p.last_at, p.last_id, p.route_ids,
        r.terms, r.time_zone
    """,
)
_STORE = Command("UPDATE replay_portions SET results = %s WHERE replay_id = %s AND number = %s AND results IS NULL")


def solve_next_portion(
    transaction: Transaction, replay_id: UUID, *, working_at: WorkingAt = never_fatal, now: datetime
) -> int | None:
    """Solve a portion that nobody is at work on. Returns how many trips it has; None where none is left to take. A trip
    that kills the process which solves it is left out at last."""
    with transaction() as connection:
        taken = _TAKE.first(connection, {"replay_id": replay_id, "now": now, "until": now + _TAKEN})
        if taken is None:
            return None
        trips = _trips_of(connection, taken)
        read = with_present_brands(connection, {trip.route_id: read_inputs(trip) for trip in trips})
    terms, zone = msgspec.convert(taken.terms, ReplayTerms), ZoneInfo(taken.time_zone)
    results = []
    for trip in trips:
        with working_at(f"replays.run {replay_id} {trip.route_id}") as is_fatal:
            results.append(_result(trip, _solve(trip, read[trip.route_id], terms, is_fatal=is_fatal), zone))
    with transaction() as connection:
        _STORE.execute(connection, (pack_results(results), replay_id, taken.number))
    return len(results)


def _trips_of(connection: Connection, taken: _Taken) -> list[DrivenTrip]:
    tenant = Tenant(taken.company_id, Environment(taken.environment))
    if taken.route_ids is not None:
        return read_trips(connection, tenant, taken.route_ids)
    return read_trips_between(connection, tenant, (taken.first_at, taken.first_id), (taken.last_at, taken.last_id))


def _solve(trip: DrivenTrip, inputs: KeptTrip | TripOutcome, terms: ReplayTerms, *, is_fatal: bool) -> Solved:
    if isinstance(inputs, TripOutcome):
        return Solved(inputs)
    if is_fatal:
        log.warning("replay.trip_kills_workers", route_id=trip.route_id)
        return Solved(TripOutcome.UNREADABLE)
    try:
        return solve_sides(inputs, terms)
    except Exception as error:  # one trip must not hold up a quarter
        log.warning("replay.trip_not_solved", route_id=trip.route_id, error=repr(error))
        return Solved(TripOutcome.UNREADABLE)


def _result(trip: DrivenTrip, solved: Solved, zone: ZoneInfo) -> TripResult:
    day = trip.planned_at.astimezone(zone).date()
    return TripResult(trip.route_id.hex, day, trip.unit_number or "no number", trip.origin, trip.destination, solved)


# --- Results -----------------------------------------------------------------------------------------------------

_RESULTS = Scalar(
    NotNull[bytes],
    "SELECT results FROM replay_portions WHERE replay_id = %s AND results IS NOT NULL ORDER BY number",
)


def results_of(connection: Connection, replay_id: UUID) -> Iterator[TripResult]:
    """The trips that are solved, in the order of their plans, a few portions in memory at a time. Nothing else may run
    on the connection until the last one was taken."""
    for packed in _RESULTS.in_portions(connection, _READ_PORTIONS, (replay_id,)):
        yield from unpack_results(packed)


_LOCK_SOLVED = Scalar(
    UUID,
    """
    SELECT id FROM replays r WHERE id = %s AND finished_at IS NULL
    AND NOT EXISTS (SELECT FROM replay_portions p WHERE p.replay_id = r.id AND p.results IS NULL)
    FOR NO KEY UPDATE SKIP LOCKED
    """,
)
_FINISH = Command("UPDATE replays SET summary = %s, finished_at = %s, stopped_at = NULL WHERE id = %s")


def finish_replay(transaction: Transaction, replay_id: UUID, *, now: datetime) -> bool:
    """Store the totals of a replay whose portions are all solved. False if some are not, or somebody else does it."""
    with transaction() as connection:
        if _LOCK_SOLVED.first(connection, (replay_id,)) is None:
            return False
        totals = ReplayTotals()
        for result in results_of(connection, replay_id):
            totals.add(result)
        _FINISH.execute(connection, (as_json(summary_document(totals.summary())), now, replay_id))
        return True
