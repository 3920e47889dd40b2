"""A fix that comes in while a route of its truck is imported: neither transaction sees the other."""

from contextlib import ExitStack
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from domain.database.connections import Connection, Database, Tenant
from domain.queue.jobs import SWEEP_GRACE
from domain.routes.intake.imports import import_routes
from domain.settings import Settings
from domain.telematics.tracks import lost_processing
from tests.domain.helpers import positions_at, post, pushed, visits_of
from tests.domain.trucks import process
from tests.factories import JOLIET, Fleet, make_fleet


class Truck:
    """Truck 101, which sends two slow fixes from the first stop of its pushed route."""

    def __init__(self, database: Database, settings: Settings, now: datetime, fixes: str) -> None:
        self.database, self.settings, self.now = database, settings, now
        self.recorded_at = now - timedelta(days=3 if fixes == "of simulated time" else 0, seconds=30)
        with database.transaction() as connection:
            self.fleet: Fleet = make_fleet(connection)
            self.tenant: Tenant = self.fleet.sandbox if fixes == "of simulated time" else self.fleet.live
            if fixes == "after an hour":
                before = now - timedelta(hours=1)
                post(connection, self.tenant, positions_at(JOLIET, before, count=1), now=before)
                process(connection, settings, self.fleet, now=before)
            self.route_id: UUID = pushed(connection, self.tenant, now=now, start=self.recorded_at)

    def send_fixes(self, connection: Connection) -> None:
        post(connection, self.tenant, positions_at(JOLIET, self.recorded_at, count=2), now=self.now)

    def sweep(self) -> dict[int, datetime]:
        """The arrivals at stops, after the sweep has had the fixes processed that wait."""
        with self.database.transaction() as connection:
            waiting = lost_processing(connection, now=self.now + SWEEP_GRACE)
            assert waiting[self.tenant.environment, self.fleet.company_id] == [self.fleet.trucks[0]]
            process(connection, self.settings, self.fleet, now=self.now, live=self.tenant == self.fleet.live)
            return {stop: arrived_at for stop, (arrived_at, _) in visits_of(connection, self.route_id).items()}


@pytest.fixture(params=["its first ones", "after an hour", "of simulated time"])
def truck(request: pytest.FixtureRequest, database: Database, settings: Settings, now: datetime) -> Truck:
    return Truck(database, settings, now, request.param)


def test_fixes_that_are_stored_before_the_import_commits_count(truck: Truck) -> None:
    with truck.database.transaction() as importing:
        import_routes(importing, [truck.route_id], now=truck.now)
        with truck.database.transaction() as feed:
            truck.send_fixes(feed)

    assert truck.sweep() == {0: truck.recorded_at}


def test_fixes_that_are_stored_around_the_commit_of_the_import_count(truck: Truck) -> None:
    with ExitStack() as feed, truck.database.transaction() as importing:
        import_routes(importing, [truck.route_id], now=truck.now)
        truck.send_fixes(feed.enter_context(truck.database.transaction()))

    assert truck.sweep() == {0: truck.recorded_at}
