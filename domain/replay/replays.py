"""Replays as they are stored: asked for, stopped, resumed, forgotten. `portions.py` solves them."""

from datetime import date, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from domain.audit.entries import Action, Actor, record_about
from domain.database.connections import Connection, Tenant, as_json
from domain.database.fence import is_at_work
from domain.database.owned import Owned
from domain.database.statements import Command, Scalar, Statement
from domain.errors import FuelrouteError, Unknown
from domain.ids import first_id_of, new_id
from domain.queue.jobs import Job, after_commit, run_replay_job
from domain.replay.networks import require_known_names
from domain.replay.results import ReplaySummary, as_summary
from domain.replay.terms import ReplayTerms
from domain.savings.spans import Span

PORTION_TRIPS = 100
MOST_UNFINISHED = 3
"""Most replays of a company that are under way at once."""
CHAINS = 2
"""Jobs of one replay that workers do side by side."""
KEPT_REPLAY_DAYS = 400
"""Days for which a replay is kept."""


class UnknownReplay(Unknown):
    def __init__(self, shown: str) -> None:
        super().__init__(f"the company has no replay {shown}")


class NothingToReplay(FuelrouteError):
    """No trip of the span was driven to its end."""

    def __init__(self, span: Span) -> None:
        super().__init__(f"no trip was planned and driven to its end from {span.first_day} to {span.last_day}")


class TooManyReplays(FuelrouteError):
    def __init__(self) -> None:
        super().__init__(f"{MOST_UNFINISHED} replays are under way: wait for one of them, or stop it")


class StoredReplay(NamedTuple):
    """A replay as it is stored."""

    id: UUID
    company_id: UUID
    environment: str
    first_day: date
    last_day: date
    time_zone: str
    terms: dict[str, Any]
    trips: int
    by_workers: bool
    asked_by: str
    created_at: datetime
    stopped_at: datetime | None
    finished_at: datetime | None
    summary: dict[str, Any] | None

    @property
    def read_terms(self) -> ReplayTerms:
        return msgspec.convert(self.terms, ReplayTerms)

    @property
    def read_summary(self) -> ReplaySummary | None:
        return as_summary(self.summary) if self.summary is not None else None

    @property
    def days(self) -> dict[str, date]:
        """Its first and last day, by name."""
        return {"first_day": self.first_day, "last_day": self.last_day}

    @property
    def status(self) -> str:
        """The status in a word: finished, stopped, or running."""
        return "finished" if self.finished_at else "stopped" if self.stopped_at else "running"


REPLAYS = Owned(StoredReplay, "replays", kind="rpl", unknown=UnknownReplay)

_NEWEST = Statement(
    StoredReplay,
    f"SELECT {REPLAYS.columns.removesuffix('summary')} NULL::jsonb AS summary FROM replays"
    " WHERE company_id = %s ORDER BY created_at DESC, id DESC LIMIT %s",
)


def newest_replays(connection: Connection, company_id: UUID, limit: int) -> list[StoredReplay]:
    """The last replays of a company, without their summaries: each may take hundreds of kilobytes."""
    return _NEWEST.all(connection, (company_id, limit))


# --- Asked for, stopped, resumed ---------------------------------------------------------------------------------

_COUNT_UNFINISHED = Scalar(
    int,
    "SELECT count(*) FROM replays WHERE company_id = %(company_id)s AND id IS DISTINCT FROM %(but)s::uuid"
    " AND finished_at IS NULL AND stopped_at IS NULL"
    " AND (by_workers OR created_at > %(now)s::timestamptz - interval '1 day')",
)
_INSERT = Command(
    "INSERT INTO replays (id, company_id, environment, first_day, last_day, time_zone, terms, trips, by_workers,"
    " asked_by, created_at) VALUES (%s, %s, %s, %s, %s, %s, %s, 0, %s, %s, %s)"
)
_CUT = Scalar(
    int,
    """
    WITH ordered AS (
        SELECT s.planned_at, s.route_id,
               (row_number() OVER (ORDER BY s.planned_at, s.route_id) - 1) / %(size)s AS number
        FROM savings s JOIN routes r ON r.id = s.route_id AND r.status = 'completed'
        WHERE s.company_id = %(company_id)s AND s.environment = %(environment)s
          AND s.planned_at >= %(start)s AND s.planned_at < %(end)s
    ), cut AS (
        INSERT INTO replay_portions (replay_id, number, company_id, environment, first_at, first_id, last_at, last_id,
                                     trips, route_ids)
        SELECT %(replay_id)s, number, %(company_id)s, %(environment)s, min(planned_at),
               (array_agg(route_id ORDER BY planned_at, route_id))[1], max(planned_at),
               (array_agg(route_id ORDER BY planned_at DESC, route_id DESC))[1], count(*),
               array_agg(route_id ORDER BY planned_at, route_id)
        FROM ordered GROUP BY number RETURNING trips
    )
    UPDATE replays SET trips = (SELECT coalesce(sum(trips), 0) FROM cut) WHERE id = %(replay_id)s RETURNING trips
    """,
)
"""Cuts the trips of a replay into portions. Returns the number of trips."""


def start_replay(
    connection: Connection,
    tenant: Tenant,
    span: Span,
    terms: ReplayTerms,
    by: Actor,
    *,
    by_workers: bool,
    now: datetime,
) -> UUID:
    """Store a replay that workers, or the command that asks, then solve. Raises NothingToReplay, TooManyReplays,
    and UnusableTerm for a brand, a place or a deal that does not exist."""
    _require_few(connection, tenant.company_id, now=now)
    require_known_names(connection, tenant.company_id, terms)
    replay_id = new_id()
    document = as_json(msgspec.to_builtins(terms))
    days = span.first_day, span.last_day, span.time_zone
    cut = {"replay_id": replay_id, "size": PORTION_TRIPS, "start": span.start, "end": span.end, **tenant._asdict()}
    with connection.transaction():  # a caller may tell of the refusal and commit: nothing of it stays
        _INSERT.execute(connection, (replay_id, *tenant, *days, document, by_workers, by.name, now))
        if not _CUT.one(connection, cut):
            raise NothingToReplay(span)
    record_about(connection, by, Action("replays.start"), "rpl", replay_id, company_id=tenant.company_id)
    if by_workers:
        after_commit(connection, *_jobs(replay_id, tenant.company_id))
    return replay_id


def _require_few(connection: Connection, company_id: UUID, but: UUID | None = None, *, now: datetime) -> None:
    """Refuse one replay more than may be under way, `but` for itself. A command that died leaves its replay running,
    which counts for a day."""
    asked = {"company_id": company_id, "but": but, "now": now}
    if _COUNT_UNFINISHED.one(connection, asked) >= MOST_UNFINISHED:
        raise TooManyReplays


def _jobs(replay_id: UUID, company_id: UUID) -> list[Job]:
    return [run_replay_job(replay_id, chain, company_id) for chain in range(CHAINS)]


_STOP = Command("UPDATE replays SET stopped_at = %s WHERE id = %s AND finished_at IS NULL AND stopped_at IS NULL")
_RESUME = Command("UPDATE replays SET stopped_at = NULL, by_workers = %s WHERE id = %s AND finished_at IS NULL")
_GIVE_BACK = Command("UPDATE replay_portions SET taken_until = NULL WHERE replay_id = %s AND results IS NULL")


def stop_replay(connection: Connection, company_id: UUID, replay_id: UUID, by: Actor, *, now: datetime) -> None:
    """Stop a replay; what is solved stays. Raises UnknownReplay."""
    REPLAYS.lock(connection, company_id, replay_id)
    if _STOP.execute(connection, (now, replay_id)).rowcount:
        record_about(connection, by, Action("replays.stop"), "rpl", replay_id, company_id=company_id)


def resume_replay(
    connection: Connection, company_id: UUID, replay_id: UUID, by: Actor, *, by_workers: bool, now: datetime
) -> None:
    """Go on with a replay that was stopped, or whose command died. Raises UnknownReplay, TooManyReplays."""
    if REPLAYS.lock(connection, company_id, replay_id).finished_at is None:
        _require_few(connection, company_id, replay_id, now=now)
    if not _RESUME.execute(connection, (by_workers, replay_id)).rowcount:
        return
    _GIVE_BACK.execute(connection, (replay_id,))
    record_about(connection, by, Action("replays.resume"), "rpl", replay_id, company_id=company_id)
    if by_workers:
        after_commit(connection, *_jobs(replay_id, company_id))


class DueReplay(NamedTuple):
    id: UUID
    company_id: UUID


_DUE = Statement(
    DueReplay,
    f"""
    SELECT r.id, r.company_id FROM replays r
    WHERE r.by_workers AND r.finished_at IS NULL AND r.stopped_at IS NULL AND {is_at_work("r.company_id")}
      AND (NOT EXISTS (SELECT FROM replay_portions p WHERE p.replay_id = r.id AND p.results IS NULL) OR EXISTS (
        SELECT FROM replay_portions p WHERE p.replay_id = r.id AND p.results IS NULL
        AND (p.taken_until IS NULL OR p.taken_until < %s)))
    ORDER BY r.created_at, r.id LIMIT 100
    """,
)


def due_replays(connection: Connection, *, now: datetime) -> list[Job]:
    """The jobs of replays that workers have to go on with."""
    return [job for one in _DUE.all(connection, (now,)) for job in _jobs(one.id, one.company_id)]


class ReplayProgress(NamedTuple):
    """The trips of a replay, those that are solved, and the portions that are not."""

    trips: int
    solved: int
    portions_left: int


_PROGRESS = Statement(
    ReplayProgress,
    "SELECT r.trips, coalesce(sum(p.trips) FILTER (WHERE p.results IS NOT NULL), 0)::int AS solved,"
    " count(p.number) FILTER (WHERE p.results IS NULL) AS portions_left"
    " FROM replays r LEFT JOIN replay_portions p ON p.replay_id = r.id WHERE r.id = %s GROUP BY r.id",
)


def progress_of(connection: Connection, replay_id: UUID) -> ReplayProgress:
    return _PROGRESS.one(connection, (replay_id,))


_LOCK_OLD = Scalar(
    UUID,
    "SELECT id FROM replays WHERE id < %(oldest_id)s ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED",
)
_FORGET_PORTIONS = Command("DELETE FROM replay_portions WHERE replay_id = ANY(%s)")
_FORGET = Command("DELETE FROM replays WHERE id = ANY(%s)")


def forget_replays(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Delete replays that were asked for long ago. The trips that they read stay."""
    old = _LOCK_OLD.all(connection, {"oldest_id": first_id_of(now - timedelta(days=days)), "limit": limit})
    _FORGET_PORTIONS.execute(connection, (old,))
    return _FORGET.execute(connection, (old,)).rowcount
