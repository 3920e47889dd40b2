"""When a key was last used is written now and then, and again after the database was away."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from domain.accounts.keys import create_key, list_keys
from domain.database.connections import Database
from domain.lifecycle import Environment
from domain.settings import Settings
from ingress.api.key_use import KeyUse
from tests.factories import DOT, make_fleet


def new_keys(database: Database, count: int) -> tuple[UUID, list[UUID]]:
    """A company and its keys."""
    with database.transaction() as connection:
        company_id = make_fleet(connection).company_id
        return company_id, [
            create_key(connection, company_id, DOT, name="TMS", environment=Environment.LIVE, scopes=["routes:read"]).id
            for _ in range(count)
        ]


def last_used(database: Database, company_id: UUID) -> Sequence[datetime | None]:
    with database.transaction() as connection:
        return [key.last_used_at for key in list_keys(connection, company_id)]


def test_used_keys_are_written_when_key_use_closes(database: Database) -> None:
    company_id, (first, _) = new_keys(database, 2)
    with KeyUse(database) as use:
        use.note([first, first])

    used, unused = last_used(database, company_id)
    assert used is not None
    assert datetime.now(UTC) - used < timedelta(minutes=1)
    assert unused is None


def test_keys_that_could_not_be_written_are_written_the_next_time(database: Database, settings: Settings) -> None:
    company_id, (key_id,) = new_keys(database, 1)
    not_yet_open = Database.of(settings)
    use = KeyUse(not_yet_open)
    use.note([key_id])
    use.write()
    assert last_used(database, company_id) == [None]

    with not_yet_open:
        use.write()

    assert last_used(database, company_id) != [None]
