"""`fuelroute drive`; the README's tour drives whole routes."""

from datetime import UTC, datetime, timedelta

from deploy.drive import _feed, _load
from domain.accounts.keys import list_keys
from domain.database import Database
from domain.ids import shown_id
from domain.settings import Settings
from tests.domain.helpers import imported
from tests.factories import make_fleet


def test_the_key_of_a_drive_that_is_killed_expires(settings: Settings, database: Database) -> None:
    now = datetime.now(UTC)
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=now)
    route, _ = _load(database, shown_id("rte", route_id))

    with _feed(settings, database, route, key=None), database.transaction() as connection:
        (key,) = list_keys(connection, fleet.company_id)

    assert key.expires_at is not None
    assert key.expires_at < now + timedelta(days=15)
