"""The effect of a cancel depends on the status of its route, on real PostgreSQL (decision 6)."""

from datetime import datetime

import pytest

from domain.database.connections import Connection
from domain.lifecycle import RouteStatus
from domain.routes.transitions import cancel_route
from tests.domain.helpers import imported, planned_by_hand, route_row, status_of
from tests.factories import Fleet, make_fleet
from tests.rows import named


@pytest.mark.parametrize("status", list(RouteStatus))
def test_the_effect_of_a_cancel_depends_on_the_status(
    connection: Connection, fleet: Fleet, now: datetime, status: RouteStatus
) -> None:
    route_id = imported(connection, fleet.live, now=now)
    connection.execute("UPDATE routes SET status = %s WHERE id = %s", (status, route_id))

    effect = cancel_route(connection, fleet.live, route_id, now=now)

    row = route_row(connection, route_id)
    if status in (RouteStatus.ACTIVE, RouteStatus.COMPLETED, RouteStatus.ERROR):
        assert (effect, row.status) == ("refuse", status)
    elif status is RouteStatus.CANCELED:
        assert (effect, row.status) == ("already_canceled", "canceled")
    else:
        assert (effect, row.status, row.closed_reason) == ("cancel", "canceled", "Canceled via API")
        assert (row.pending_reason, row.pending_detail, row.retry_at) == (None, None, None)


def test_a_route_of_another_company_or_environment_cannot_be_canceled(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now)

    for tenant in (fleet.sandbox, make_fleet(connection).live):
        assert cancel_route(connection, tenant, route_id, now=now) is None
    assert status_of(connection, route_id) is RouteStatus.DRAFT


def test_a_cancel_discards_the_message_that_is_not_out_yet(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now)
    message_id = planned_by_hand(connection, route_id, now=now)

    cancel_route(connection, fleet.live, route_id, now=now)

    (message,) = named(connection).execute("SELECT status, error FROM messages WHERE id = %s", (message_id,)).fetchall()
    assert message.status == "failed"
    assert "canceled" in message.error
