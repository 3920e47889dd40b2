"""Rows of a file are staged a portion at a time."""

from collections.abc import Iterator

import pytest
from psycopg.pq import TransactionStatus

from domain.database import staging
from domain.database.connections import Connection


@pytest.mark.parametrize("count", [0, 1, 3, 4, 7])
def test_rows_are_read_while_no_statement_runs(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A COPY that was open while a large file was read ended by its time limit."""
    monkeypatch.setattr(staging, "_ROWS_AT_ONCE", 3)

    def rows() -> Iterator[tuple[str]]:
        for number in range(count):
            assert connection.info.transaction_status == TransactionStatus.INTRANS
            yield (f"station {number}",)

    for _ in range(2):
        staging.stage(connection, "stations", ["station_id"], rows())

        staged = connection.execute("SELECT station_id FROM staged_stations").fetchall()
        assert sorted(staged) == [(f"station {number}",) for number in range(count)]
