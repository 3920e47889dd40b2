"""Makes and drops indexes of tables in use, without blocking writes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from alembic import op


def create_index_concurrently(name: str, table: str, columns: Sequence[str], **options: Any) -> None:
    """Creates an index while the table is written. It stands alone in its migration: it has no transaction, so a
    failure would keep what stands before it and lose what stands after it. A run that was stopped leaves an invalid
    index behind; the next run drops it and begins again."""
    with _outside_transaction():
        op.drop_index(name, table, if_exists=True, postgresql_concurrently=True)
        op.create_index(name, table, columns, postgresql_concurrently=True, **options)


@contextmanager
def _outside_transaction() -> Iterator[None]:
    """Lifts the limit of waits for locks: these statements wait for the end of each transaction that uses the table,
    and no request waits behind them."""
    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = 0")
        try:
            yield
        finally:
            op.execute("RESET lock_timeout")
