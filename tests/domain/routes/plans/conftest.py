"""Workers make plans, and their statements find their rows by key."""

import pytest

from domain.database.connections import Connection
from domain.database.options import BY_KEY
from domain.database.visibility import set_locally


@pytest.fixture
def connection(connection: Connection) -> Connection:
    """A transaction whose statements keep their plans, as a worker's do. These tests repeat the same statements for
    each fix of a truck. To plan them anew each time took PostgreSQL longer than to run them."""
    set_locally(connection, BY_KEY)
    return connection
