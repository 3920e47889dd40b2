"""The number of routes by company, environment, status and day of the scheduled start, kept up to date without counting
routes.

Triggers on `routes` write the changes of each statement into `route_count_deltas`, in the statement's own transaction.
So committed changes are counted, and rolled back ones are not. Each transaction only adds rows, so none waits for
another's counter. `fold` sums the deltas up in `route_counts`. A reader adds counts and deltas in one statement, so a
count is exact at any moment, even while deltas are folded."""

from typing import NamedTuple
from uuid import UUID

from domain.database.connections import COUNTING_LOCKS, Connection
from domain.database.statements import Command, Scalar, Statement

COUNTED_COLUMNS = "(TABLE route_counts UNION ALL TABLE route_count_deltas)"
"""All parts of all counts, to be summed up."""


_FOLD = Scalar(
    int,
    """
    WITH folded AS (
        DELETE FROM route_count_deltas WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM route_count_deltas LIMIT %s FOR UPDATE SKIP LOCKED))
        RETURNING company_id, environment, status, day, routes
    ), kept AS (
        INSERT INTO route_counts AS kept (company_id, environment, status, day, routes)
        SELECT company_id, environment, status, day, sum(routes) FROM folded
        GROUP BY company_id, environment, status, day HAVING sum(routes) <> 0
        ORDER BY company_id, environment, status, day
        ON CONFLICT (company_id, environment, status, day) DO UPDATE SET routes = kept.routes + excluded.routes)
    SELECT count(*) FROM folded
    """,
)


def fold(connection: Connection, *, limit: int) -> int:
    """Adds up to `limit` deltas to the counts, and returns how many. Deltas that another fold has locked are
    skipped."""
    return _FOLD.one(connection, (limit,))


class Difference(NamedTuple):
    """A count that was wrong."""

    company_id: UUID
    environment: str
    status: str
    routes: int
    """The routes that the count lacked; negative if it had too many."""


_ONE_AT_A_TIME = Command(f"SELECT FROM pg_advisory_xact_lock({COUNTING_LOCKS}, 0)")
_FORGET_EMPTY = Command(
    "DELETE FROM route_counts WHERE ctid = ANY(ARRAY("
    "SELECT ctid FROM route_counts WHERE routes = 0 FOR UPDATE SKIP LOCKED))"
)
_DIFFERING = f"""
        SELECT company_id, environment, status, day, sum(routes) AS routes FROM (
            SELECT company_id, environment, status, day, -routes AS routes FROM {COUNTED_COLUMNS} AS parts
            UNION ALL
            SELECT company_id, environment, status, date_bin('1 day', scheduled_start, timestamptz 'epoch'), count(*)
            FROM routes GROUP BY 1, 2, 3, 4) AS counted
        GROUP BY company_id, environment, status, day HAVING sum(routes) <> 0
"""
_BY_STATUS = """
    SELECT company_id, environment, status, sum(routes)::int8 AS routes FROM differing
    GROUP BY company_id, environment, status ORDER BY company_id, environment, status
"""
_RECONCILE = Statement(
    Difference,
    f"""
    WITH differing AS (
        INSERT INTO route_count_deltas (company_id, environment, status, day, routes) {_DIFFERING}
        RETURNING company_id, environment, status, routes)
    {_BY_STATUS}
    """,
)
_COMPARE = Statement(Difference, f"WITH differing AS ({_DIFFERING}) {_BY_STATUS}")


def find_differences(connection: Connection) -> list[Difference]:
    """Counts all routes and returns the differences from the stored counts. Nothing is corrected."""
    return _COMPARE.all(connection)


_FORGET_COUNTS = [
    Command(f"DELETE FROM {table} WHERE company_id = %s") for table in ("route_count_deltas", "route_counts")
]
_COUNT_ANEW = Command(
    """
    INSERT INTO route_counts (company_id, environment, status, day, routes)
    SELECT company_id, environment, status, date_bin('1 day', scheduled_start, timestamptz 'epoch'), count(*)
    FROM routes WHERE company_id = %s GROUP BY 1, 2, 3, 4
    """
)


def count_anew(connection: Connection, company_id: UUID) -> None:
    """Counts the routes of a company while nothing changes them: triggers have not counted the routes that replication
    brought."""
    for forget in _FORGET_COUNTS:
        forget.execute(connection, (company_id,))
    _COUNT_ANEW.execute(connection, (company_id,))


def reconcile(connection: Connection) -> list[Difference]:
    """Counts all routes, corrects the stored counts, and returns the differences.

    One statement sees the routes and their counts as of one moment. It adds each difference as one more delta, so it
    delays no other transaction, and changes made meanwhile count as well. A second run at the same time waits."""
    _ONE_AT_A_TIME.execute(connection)
    differences = _RECONCILE.all(connection)
    _FORGET_EMPTY.execute(connection)
    return differences
