"""Types and helpers of the tests of passes."""

from collections.abc import Callable
from typing import Any

from domain.database.connections import Connection
from scheduler.passes import Passes

Enqueued = Callable[[], list[tuple[str, dict[str, Any]]]]


def in_transaction(passes: Passes, arrange: Callable[[Connection], Any]) -> Any:
    with passes.database.transaction() as connection:
        return arrange(connection)
