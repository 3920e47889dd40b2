"""What is forgotten of finished routes, and when: each kind after days of its own, counted from the end of the route.

Each function forgets up to `limit` rows and returns how many. The API answers a route the same until the route itself
is removed. Positions are forgotten by `feed`.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from domain.database import Connection

_LONG_FINISHED = """
    route.status IN ('completed', 'canceled', 'error') AND route.updated_at < %(before)s
"""
_BELONGS_TO_ONE = f"""
    SELECT it.ctid FROM {{table}} it JOIN routes route ON route.id = it.route_id
    WHERE it.{{column}} IS NOT NULL AND it.route_id < %(oldest_id)s AND {_LONG_FINISHED}
    ORDER BY it.route_id LIMIT %(limit)s FOR UPDATE OF it SKIP LOCKED
"""  # noqa: S608 (constants of this module)


def forget_evidence(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """The fixes and the rule behind each visit. The visit's times stay."""
    return _blank(connection, "visits", "arrival_evidence", "departure_evidence", days=days, now=now, limit=limit)


def forget_explanations(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Road line, candidates and inputs of plans. What was planned stays."""
    return _blank(connection, "plans", "explanation", days=days, now=now, limit=limit)


def forget_texts(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """What was written to drivers. That and when it was stays."""
    return _blank(connection, "messages", "text", "error", days=days, now=now, limit=limit)


def forget_routes(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Routes with all that belongs to them."""
    rows = connection.execute(
        f"SELECT id FROM routes route WHERE id < %(oldest_id)s AND {_LONG_FINISHED}"  # noqa: S608
        " ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED",
        {**_before(now, days), "limit": limit},
    ).fetchall()
    delete_routes(connection, [row.id for row in rows])
    return len(rows)


def delete_routes(connection: Connection, route_ids: Sequence[str]) -> None:
    """With all that belongs to them. The caller has locked them."""
    for table in ("messages", "visits", "plans"):
        connection.execute(f"DELETE FROM {table} WHERE route_id = ANY(%s)", (list(route_ids),))  # noqa: S608
    connection.execute("DELETE FROM routes WHERE id = ANY(%s)", (list(route_ids),))


def _blank(connection: Connection, table: str, *columns: str, days: float, now: datetime, limit: int) -> int:
    assignments = ", ".join(f"{column} = NULL" for column in columns)
    chosen = _BELONGS_TO_ONE.format(table=table, column=columns[0])
    return connection.execute(
        f"UPDATE {table} SET {assignments} WHERE ctid = ANY(ARRAY({chosen}))",  # noqa: S608
        {**_before(now, days), "limit": limit},
    ).rowcount


def _before(now: datetime, days: float) -> dict[str, object]:
    """Ids tell when they were made: none of a route that young can have been finished for so long. The primary keys
    lead to the others."""
    before = now - timedelta(days=days)
    return {"before": before, "oldest_id": f"rte_{int(before.timestamp() * 1000):012x}"}
