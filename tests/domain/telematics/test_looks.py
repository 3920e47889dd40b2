"""The rule of due looks is the same in Python and in SQL."""

from datetime import datetime

from domain.burn.shortfalls import NextLook
from domain.database.connections import Connection
from domain.telematics.looks import IS_DUE
from tests.domain.trucks import minutes


def test_a_look_is_due_with_the_same_fixes_in_python_as_in_sql(connection: Connection, now: datetime) -> None:
    look = NextLook(now, below_percent=40.0, by=now + minutes(30))
    found = set()
    for after in (-1, 0, 1, 29, 30, 31):
        for percent in (None, 0.0, 1.0, 1.5, 39.9, 40.0, 90.0):
            row = connection.execute(
                f"""
                SELECT {IS_DUE} IS TRUE
                FROM (VALUES (%s::timestamptz, %s::float8)) AS fix (recorded_at, fuel_percent),
                     (VALUES (%s::timestamptz, %s::float8, %s::timestamptz))
                         AS truck (look_from, look_below_percent, look_by)
                """,
                (now + minutes(after), percent, *look),
            ).fetchone()
            is_due = look.is_due(now + minutes(after), percent)
            assert row == (is_due,), (after, percent)
            found.add(is_due)
    assert found == {True, False}
