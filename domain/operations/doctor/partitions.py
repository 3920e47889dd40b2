"""Checks of the tables with a partition for each day: days that are missing ahead, days that are too old, and rows in
no partition of their day."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta

from domain.database.daily_partitions import DAYS_AHEAD, partition_days
from domain.database.statements import Scalar
from domain.ids import first_id_of
from domain.operations.doctor.checks import Examined, Finding, problem, warning

_SLACK_DAYS = 2
"""Days by which housekeeping, which runs each hour, may be late before that is a fault."""
_COUNTED = 10_000


_OLD_POSITIONS = Scalar(
    int,
    "SELECT count(*) FROM (SELECT FROM positions_live_other"
    " WHERE least(recorded_at, received_at) < %s LIMIT %s) AS old",
)
_OLD_SANDBOX = Scalar(
    int, "SELECT count(*) FROM (SELECT FROM positions_sandbox WHERE received_at < %s LIMIT %s) AS old"
)
_OLD_REQUESTS = Scalar(int, "SELECT count(*) FROM (SELECT FROM request_log_other WHERE id < %s LIMIT %s) AS old")


def check_partitions(seen: Examined) -> Iterator[Finding]:
    settings, today = seen.settings, seen.now.date()
    kept = {"positions_live": settings.position_retention_days, "request_log": settings.request_log_days}
    for table, days in kept.items():
        there = partition_days(seen.connection, table)
        yield from _missing(seen, table, there, today)
        oldest = (seen.now - timedelta(days=days + _SLACK_DAYS)).date()
        old = sorted(name for day, name in there.items() if day < oldest)
        if old:
            yield problem(
                f"Partitions of {table} are older than {days:g} days: {len(old)}",
                "Housekeeping removes them: read the scheduler's log for why it fails",
                tuple(old[: seen.most_examples]),
            )
    yield from _old_rows(seen)


def _missing(seen: Examined, table: str, there: dict[date, str], today: date) -> Iterator[Finding]:
    """The missing partitions. Today is left out, because the request log has no partition for the day on which the
    service was installed."""
    wanted = [today + timedelta(days=ahead) for ahead in range(1, DAYS_AHEAD)]
    missing = [f"{table}_{day:%Y%m%d}" for day in wanted if day not in there]
    if missing:
        yield problem(
            f"Partitions of {table} for the next days are missing: {len(missing)}",
            "Housekeeping makes them: see whether a scheduler leads, and read its log",
            tuple(missing[: seen.most_examples]),
        )


def _old_rows(seen: Examined) -> Iterator[Finding]:
    settings = seen.settings
    positions = _before(seen, settings.position_retention_days)
    requests = first_id_of(_before(seen, settings.request_log_days))
    for table, statement, oldest in (
        ("positions_live_other", _OLD_POSITIONS, positions),
        ("positions_sandbox", _OLD_SANDBOX, positions),
        ("request_log_other", _OLD_REQUESTS, requests),
    ):
        rows = statement.one(seen.connection, (oldest, _COUNTED))
        if rows:
            yield warning(
                f"{table} keeps rows beyond their retention: {rows:,}{' or more' if rows == _COUNTED else ''}",
                "Housekeeping removes them: read the scheduler's log for why it fails",
            )


def _before(seen: Examined, days: float) -> datetime:
    return seen.now - timedelta(days=days + _SLACK_DAYS)
