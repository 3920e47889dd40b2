"""Routes in the order of their last changes, for callers who follow them: `GET /v1/routes?updatedSince=...`.

`routes.changed_in` is the transaction that last changed a route. Transactions get their numbers in order but commit in
any order. So a list ends before the oldest transaction that still runs (`_SETTLED`): whatever commits later has a
higher number than every listed route, and the next list has it. A caller who goes on with the cursor of the last answer
misses no change, whatever commits meanwhile.

A list that begins at a time begins at the newest mark before that time (`mark`). A mark names the oldest transaction
that ran when it was made, so each change after it belongs to that transaction or a later one. All of them are listed,
also those whose `updated_at` is before that time: their transaction may have committed after it, so no earlier list
had them. A caller gets changes of the minute before its time too, and misses none.

Each cell counts its own transactions. A company that was moved brings cursors of its former cell: such a list begins
again at the cursor's time, so that the caller gets some changes twice and misses none. So does a list whose cursor is
ahead of all transactions: a restore, or a standby that had not got everything, counts on from an earlier number.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.contract.checking import Invalid
from domain.contract.shapes import FieldFault, RouteList, RouteQuery
from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.routes.reading.lookups import read_routes
from domain.settings import get_settings

MOST_CHANGES_COUNTED = 1_000
"""Most changes counted in a `total`: for a caller who comes back after a year each page would count a million
routes."""

MARKS_KEPT_DAYS = 90
"""Days for which marks are kept. A list that begins earlier reads the whole history of the company."""

LONGEST_TRANSACTION = timedelta(days=1)
"""A limit that no transaction which changes a route exceeds. A list that begins before the first mark, or in another
cell, leaves out routes last changed this long before its time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ID = UUID(int=0)
_CURSOR = re.compile(r"1 (-?\d{1,18}) (\d{1,18}) ([0-9a-f]{32})(?: c(\d{1,4}))?", re.ASCII)
"""The form of a cursor: its version, `since` in microseconds of Unix time, `transaction`, the id, and the cell that
counts the transactions unless it is the first."""
_FIRST_CELL = 1


class PlaceInChanges(NamedTuple):
    """A place in the list of changes: the next page begins after it."""

    since: datetime
    """Changes committed at this time or later are listed."""
    transaction: int
    id: UUID


_START = Scalar(
    NotNull[int],
    """
    SELECT coalesce((SELECT oldest_transaction FROM change_marks WHERE marked_at <= %s
                     ORDER BY marked_at DESC LIMIT 1), 0)
    """,
)
_SETTLED = "(SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8)"
_IS_AHEAD = Scalar(NotNull[bool], f"SELECT %s::int8 > {_SETTLED} AND NOT pg_is_in_recovery()")
"""A replica may not have got a cursor's transaction yet."""
_CHANGED = f"""
    SELECT r.changed_in AS transaction, r.id FROM routes r
    WHERE r.company_id = %(company_id)s AND r.environment = %(environment)s
    AND (r.changed_in, r.id) > (%(transaction)s, %(id)s) AND r.changed_in < {_SETTLED}
    AND r.updated_at >= %(since)s::timestamptz - %(longest_transaction)s::interval
    ORDER BY r.changed_in, r.id LIMIT {MOST_CHANGES_COUNTED}
"""


class _Change(NamedTuple):
    transaction: int
    id: UUID
    total: NotNull[int]


_CHANGES = Statement(
    _Change,
    f"""
    WITH changed AS MATERIALIZED ({_CHANGED})
    SELECT transaction, id, (SELECT count(*) FROM changed) AS total FROM changed
    ORDER BY transaction, id LIMIT %(limit)s
    """,
)
_MARK = Command(
    """
    INSERT INTO change_marks (marked_at, oldest_transaction)
    SELECT clock_timestamp(), pg_snapshot_xmin(pg_current_snapshot())::text::int8
    WHERE NOT EXISTS (SELECT FROM change_marks WHERE marked_at > clock_timestamp() - %s::interval)
    """
)
"""The snapshot is older than the time beside it, so a transaction that changes a route after that time still runs at
the snapshot or begins later."""
_FORGET_MARKS = Command("DELETE FROM change_marks WHERE marked_at < %s")


def list_changes(connection: Connection, tenant: Tenant, query: RouteQuery) -> RouteList:
    """The next routes after the query's cursor, or the first since its time, in the order of their last changes. Raises
    Invalid for an unreadable cursor, or if the query asks for anything else but a limit."""
    after = _place_of(connection, query)
    asked = {**tenant._asdict(), **after._asdict(), "longest_transaction": LONGEST_TRANSACTION, "limit": query.limit}
    changes = _CHANGES.all(connection, asked)
    found = read_routes([(tenant, change.id) for change in changes]).on(connection)
    if changes:
        after = after._replace(transaction=changes[-1].transaction, id=changes[-1].id)
    return RouteList(
        data=[versioned.route for versioned in found if versioned is not None],
        total=changes[0].total if changes else 0,
        limit=query.limit,
        offset=0,
        next_cursor=_write(after),
    )


def follows_changes(query: RouteQuery) -> bool:
    return query.updated_since is not None or query.cursor is not None


def mark(connection: Connection, *, every: timedelta) -> None:
    """Stores which transactions run now, unless a mark is younger than `every`."""
    _MARK.execute(connection, (every,))


def forget_marks(connection: Connection, *, now: datetime) -> None:
    _FORGET_MARKS.execute(connection, (now - timedelta(days=MARKS_KEPT_DAYS),))


def _place_of(connection: Connection, query: RouteQuery) -> PlaceInChanges:
    alone = RouteQuery(limit=query.limit, updated_since=query.updated_since, cursor=query.cursor)
    if query != alone:
        raise _invalid("updatedSince" if query.cursor is None else "cursor", "It goes with `limit` and nothing else")
    if query.cursor is None:
        assert query.updated_since is not None  # noqa: S101 (one of the two leads here)
        return _begin_at(connection, query.updated_since)
    if query.updated_since is not None:
        raise _invalid("cursor", "Send the cursor alone: it has the time of `updatedSince` in it")
    place, cell = _read(query.cursor)
    if cell != get_settings().cell or _IS_AHEAD.one(connection, (place.transaction,)):
        return _begin_at(connection, place.since)
    return place


def _begin_at(connection: Connection, since: datetime) -> PlaceInChanges:
    return PlaceInChanges(since, _START.one(connection, (since,)), _NO_ID)


def _write(place: PlaceInChanges) -> str:
    since = (place.since - _EPOCH) // timedelta(microseconds=1)
    cell = get_settings().cell
    of_cell = "" if cell == _FIRST_CELL else f" c{cell}"
    text = f"1 {since} {place.transaction} {place.id.hex}{of_cell}"
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read(cursor: str) -> tuple[PlaceInChanges, int]:
    """The place in a cursor, and the cell by whose transactions it counts."""
    try:
        text = urlsafe_b64decode(f"{cursor}{'=' * (-len(cursor) % 4)}").decode("ascii")
        parts = _CURSOR.fullmatch(text)
        if parts is not None:
            since, transaction, route_id, cell = parts.groups()
            time = _EPOCH + timedelta(microseconds=int(since))
            return PlaceInChanges(time, int(transaction), UUID(route_id)), int(cell or _FIRST_CELL)
    except (ValueError, OverflowError):  # no base64, no ASCII, or no time
        pass
    raise _invalid("cursor", "It must be the `nextCursor` of an earlier answer") from None


def _invalid(name: str, message: str) -> Invalid:
    return Invalid([FieldFault(field=name, message=message)])
