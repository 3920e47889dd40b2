"""An import attempt that fails is repeated after growing pauses (decision 3)."""

from datetime import datetime, timedelta

from domain.database.connections import Connection
from domain.lifecycle import RouteStatus
from domain.routes.intake.failed_imports import record_failed_import
from domain.routes.intake.imports import import_routes
from tests.domain.helpers import pushed, route_row
from tests.factories import Fleet


def test_a_failed_attempt_is_retried_with_backoff_and_the_last_one_is_an_error(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = pushed(connection, fleet.live, now=now, start=now)
    waits = []
    for _ in range(3):
        outcome = record_failed_import(connection, route_id, max_attempts=4, now=now)
        assert outcome is not None
        assert outcome.status is RouteStatus.PENDING
        row = route_row(connection, route_id)
        assert row.pending_reason == "error"
        waits.append((row.retry_at - now).total_seconds())

    assert waits == [10, 20, 40]
    last = record_failed_import(connection, route_id, max_attempts=4, now=now)
    assert last is not None
    assert last.status is RouteStatus.ERROR
    row = route_row(connection, route_id)
    assert (row.pending_reason, row.pending_detail, row.retry_at) == (None, None, None)
    assert "4 times" in row.closed_reason
    assert record_failed_import(connection, route_id, max_attempts=4, now=now) is None


def test_an_attempt_that_succeeds_resets_the_count_of_failed_ones(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = pushed(connection, fleet.live, now=now, start=now + timedelta(days=30))
    record_failed_import(connection, route_id, max_attempts=8, now=now)

    import_routes(connection, [route_id], now=now)

    row = route_row(connection, route_id)
    assert (row.status, row.attempts, row.retry_at) == ("pending_window", 0, None)


def test_the_backoff_is_capped_at_a_quarter_of_an_hour(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = pushed(connection, fleet.live, now=now, start=now)
    for _ in range(12):
        record_failed_import(connection, route_id, max_attempts=100, now=now)

    assert route_row(connection, route_id).retry_at == now + timedelta(minutes=15)
