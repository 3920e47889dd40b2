"""A company's day: its routes by status, and the steps to its first plan."""

from datetime import UTC, datetime

from domain.database.connections import Connection
from domain.routes.reading.overview import read_set_up, routes_by_status
from domain.savings.spans import Span
from tests.domain.helpers import imported, planned_by_hand
from tests.factories import Fleet

NOW = datetime(2026, 11, 23, 18, tzinfo=UTC)


def test_the_routes_of_a_day_are_counted_in_the_companys_zone(connection: Connection, fleet: Fleet) -> None:
    """In Chicago the 23rd ends at 06:00 UTC of the 24th."""
    for start in (datetime(2026, 11, 24, 5, 59, tzinfo=UTC), datetime(2026, 11, 24, 6, 0, tzinfo=UTC)):
        imported(connection, fleet.live, now=NOW, start=start, externalId=start.isoformat())
    for day in (23, 24):
        one = Span(NOW.date().replace(day=day), NOW.date().replace(day=day), "America/Chicago")
        assert routes_by_status(connection, fleet.live, one) == {"draft": 1}


def test_a_company_without_routes_is_not_set_up(connection: Connection, fleet: Fleet) -> None:
    set_up = read_set_up(connection, fleet.company_id, now=NOW)
    assert set_up._replace(stations=None) == (True, True, None, False, False, False, False)
    route_id = imported(connection, fleet.live, now=NOW)
    set_up = read_set_up(connection, fleet.company_id, now=NOW)
    assert (set_up.routes, set_up.plans) == (True, False)
    planned_by_hand(connection, route_id, now=NOW)
    assert read_set_up(connection, fleet.company_id, now=NOW).plans
