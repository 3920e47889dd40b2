"""Retention of positions: a partition for each day of live positions, and the removal of old ones. Housekeeping calls
it."""

from datetime import date, datetime, timedelta

from psycopg import sql

from domain.database.connections import Connection
from domain.database.daily_partitions import maintain_daily_partitions
from domain.database.statements import Command

_FOR_EVER = 36_500


def maintain_partitions(connection: Connection, *, retention_days: float, now: datetime) -> int:
    """Makes the partitions of the next days, and removes those that are older than the retention.

    Positions of all other days are in the partition `positions_live_other`; see `forget_positions`. Returns how many
    partitions were removed.
    """
    return maintain_daily_partitions(connection, "positions_live", _make_partition, days=retention_days, now=now)


def make_past_partitions(connection: Connection, *, oldest: date, now: datetime) -> None:
    """Makes the missing partitions from the oldest day on, for a company from another cell with positions as old as
    that."""
    days = (now.date() - oldest).days
    maintain_daily_partitions(
        connection, "positions_live", _make_partition, days=_FOR_EVER, now=now, days_before_first=-days
    )


def forget_positions(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Removes old rows outside of their day's partition, up to `limit` of each kind: live positions of other days,
    positions of the sandbox, and tracks without positions. A position of the sandbox ages from the day it came in,
    because its own time is simulated and may lie in any year. A live one is old when either its own time or its arrival
    here is. Returns how many were removed."""
    when = {"oldest": now - timedelta(days=days), "limit": limit}
    return sum(statement.execute(connection, when).rowcount for statement in _FORGET)


_FORGET = (
    Command(
        """
        DELETE FROM positions_live_other WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM positions_live_other WHERE least(recorded_at, received_at) < %(oldest)s LIMIT %(limit)s))
        """
    ),
    Command(
        """
        DELETE FROM positions_sandbox WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM positions_sandbox WHERE received_at < %(oldest)s LIMIT %(limit)s))
        """
    ),
    Command(
        """
        DELETE FROM tracks WHERE (vehicle_id, environment) IN (
            SELECT vehicle_id, environment FROM tracks t
            WHERE (environment = 'sandbox' OR newest_at < %(oldest)s) AND unprocessed_from IS NULL AND NOT EXISTS (
                SELECT FROM positions p WHERE p.vehicle_id = t.vehicle_id AND p.environment = t.environment)
            LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
        """
    ),
)


def _make_partition(connection: Connection, table: str, day: date) -> None:
    """Makes the partition of a day. Positions of that day that came in earlier move into it. Other transactions that
    store positions wait before they choose a partition. A transaction that has chosen `positions_live_other` already,
    and waits for it, fails when the day has left that partition. Those that read positions wait before they learn which
    partitions there are: one that knew them before would find the positions that move in neither partition."""
    connection.execute("LOCK TABLE positions IN SHARE ROW EXCLUSIVE MODE")
    connection.execute("LOCK TABLE ONLY positions_live IN ACCESS EXCLUSIVE MODE")
    name, bounds = sql.Identifier(table), (day, day + timedelta(days=1))
    connection.execute(sql.SQL("CREATE TABLE {} (LIKE positions INCLUDING DEFAULTS)").format(name))
    connection.execute(
        sql.SQL(
            "WITH early AS (DELETE FROM positions_live_other WHERE recorded_at >= %s AND recorded_at < %s RETURNING *)"
            " INSERT INTO {} SELECT * FROM early"
        ).format(name),
        bounds,
    )
    connection.execute(
        sql.SQL("ALTER TABLE positions_live ATTACH PARTITION {} FOR VALUES FROM ({}) TO ({})").format(
            name, *(sql.Literal(f"{bound}T00:00:00Z") for bound in bounds)
        )
    )
