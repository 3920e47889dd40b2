"""Retention of finished routes: each kind of data is forgotten some days after the end of the route.

Each function forgets up to `limit` rows and returns how many. The API answers a route the same until the route itself
is removed. Positions are forgotten by `feed`.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, Scalar
from domain.ids import first_id_of
from domain.replay.driven_trips import forget_inputs, keep_inputs
from domain.routes.visits import WITHOUT_EVIDENCE
from domain.savings.statements import keep_for_statement

_LONG_FINISHED = """
    route.status IN ('completed', 'canceled', 'error') AND route.updated_at < %(before)s
"""


def _blanking(table: str, *columns: str, emptied: str | None = None) -> str:
    """SQL that empties the columns in a portion of the rows; `emptied` has their assignments where not all become NULL.
    An empty first column marks rows that are done. Without OFFSET 0 PostgreSQL may read all routes that are older than
    these rows' to join them in order."""
    return f"""
        UPDATE {table} SET {emptied or ", ".join(f"{column} = NULL" for column in columns)} WHERE ctid = ANY(ARRAY(
            SELECT it.ctid FROM {table} it CROSS JOIN LATERAL (
                SELECT FROM routes route WHERE route.id = it.route_id AND {_LONG_FINISHED} OFFSET 0) AS finished
            WHERE it.{columns[0]} IS NOT NULL AND it.route_id < %(oldest_id)s
            ORDER BY it.route_id LIMIT %(limit)s FOR UPDATE OF it SKIP LOCKED))
    """


_BLANK_EVIDENCE = Command(_blanking("visits", "arrival_evidence", emptied=WITHOUT_EVIDENCE))
_TO_FORGET = Scalar(
    UUID,
    f"""
    SELECT it.route_id FROM plans it JOIN routes route ON route.id = it.route_id
    WHERE it.explanation IS NOT NULL AND it.route_id < %(oldest_id)s AND {_LONG_FINISHED}
    ORDER BY it.route_id LIMIT %(limit)s FOR KEY SHARE OF route SKIP LOCKED FOR UPDATE OF it SKIP LOCKED
    """,
)
"""The routes stay until their inputs are kept: an erasure that deletes them waits before it comes to their plans."""
_BLANK_EXPLANATIONS = Command(
    "UPDATE plans SET explanation = NULL WHERE route_id = ANY(%s) AND explanation IS NOT NULL"
)
_BLANK_TEXTS = Command(_blanking("messages", "text", "error", "taken_by"))
_BLANK_EVENTS = Command(_blanking("route_events", "detail"))
_BLANK_PLACES = Command(_blanking("driver_answers", "latitude", "longitude"))

_LOCK_FINISHED = Scalar(
    UUID,
    f"SELECT id FROM routes route WHERE id < %(oldest_id)s AND {_LONG_FINISHED}"
    " ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED",
)
_DELETE = [
    *(
        Command(f"DELETE FROM {table} WHERE route_id = ANY(%s)")
        for table in (
            *("webhook_events", "messages", "route_events", "visits", "savings", "habit_costs"),
            *("stop_verdicts", "sandbox_drives"),
            *("driven_roads", "trip_burns", "driver_answers", "told_stops", "plan_choices", "plans", "driver_links"),
            *("dwells", "trip_inputs"),
        )
    ),
    Command("DELETE FROM routes WHERE id = ANY(%s)"),
]


def forget_evidence(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Removes the fixes and the rule behind each visit. The times of the visit stay, and that nothing showed one."""
    return _BLANK_EVIDENCE.execute(connection, _portion(now, days, limit)).rowcount


def forget_places(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Removes the places of the phones with which drivers answered. The answers stay."""
    return _BLANK_PLACES.execute(connection, _portion(now, days, limit)).rowcount


def forget_explanations(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Removes road line, candidates and inputs of plans. The plans stay, and packed what a replay of a driven trip
    needs."""
    of_plans = _TO_FORGET.all(connection, _portion(now, days, limit))
    route_ids = list(dict.fromkeys(of_plans))
    keep_inputs(connection, route_ids)
    _BLANK_EXPLANATIONS.execute(connection, (route_ids,))
    return len(of_plans)


def forget_trip_inputs(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Removes the packed inputs of driven trips. Replays leave them out from then on."""
    return len(forget_inputs(connection, _portion(now, days, limit)))


def forget_texts(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Removes the texts to drivers. The record of each message and its time stay."""
    return _BLANK_TEXTS.execute(connection, _portion(now, days, limit)).rowcount


def forget_event_details(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Removes the reasons and errors of a route's events. The kind of each event, its time and its person stay."""
    return _BLANK_EVENTS.execute(connection, _portion(now, days, limit)).rowcount


_FORGET_LINKS = Command(
    "DELETE FROM driver_links WHERE id = ANY(ARRAY(SELECT id FROM driver_links WHERE expires_at < %(before)s"
    " ORDER BY expires_at LIMIT %(limit)s))"
)


def forget_links(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes links to drivers' pages that expired that long ago."""
    return _FORGET_LINKS.execute(connection, _portion(now, days, limit)).rowcount


def forget_routes(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes routes with all that belongs to them. Their figures stay for a statement that is still to be made."""
    ids = _LOCK_FINISHED.all(connection, _portion(now, days, limit))
    keep_for_statement(connection, ids, now=now)
    delete_routes(connection, ids)
    return len(ids)


def delete_routes(connection: Connection, route_ids: Sequence[UUID]) -> None:
    """Deletes routes with all that belongs to them. The caller has locked them."""
    for delete in _DELETE:
        delete.execute(connection, (list(route_ids),))


def _portion(now: datetime, days: float, limit: int) -> dict[str, object]:
    """The parameters of a portion. An id holds the time when its row was made. A route that is too young cannot have
    been finished long enough, so the primary key finds the rest."""
    before = now - timedelta(days=days)
    return {"before": before, "oldest_id": first_id_of(before), "limit": limit}


_FORGET_FILLS = Command(
    "WITH gone AS (DELETE FROM fills WHERE id = ANY(ARRAY(SELECT id FROM fills WHERE id < %(oldest_id)s"
    " AND bought_at < %(before)s ORDER BY id LIMIT %(limit)s)) RETURNING id), told AS (DELETE FROM fill_tellings t"
    " USING gone WHERE t.fill_id = gone.id) SELECT FROM gone"
)


def forget_fills(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes fills. Figures computed from them stay with their routes."""
    return _FORGET_FILLS.execute(connection, _portion(now, days, limit)).rowcount
