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
    assert set_up._replace(stations=None) == (False, True, False, None, False, False, False, False)
    route_id = imported(connection, fleet.live, now=NOW)
    set_up = read_set_up(connection, fleet.company_id, now=NOW)
    assert (set_up.routes, set_up.plans) == (True, False)
    planned_by_hand(connection, route_id, now=NOW)
    assert read_set_up(connection, fleet.company_id, now=NOW).plans


def test_drivers_are_set_up_once_the_messages_of_one_have_an_address(connection: Connection, fleet: Fleet) -> None:
    def are_set_up() -> bool | None:
        return read_set_up(connection, fleet.company_id, now=NOW).drivers

    driver, company = (fleet.drivers[0],), (fleet.company_id,)
    connection.execute("UPDATE drivers SET contact = 'json://ann' WHERE id = %s", driver)
    assert are_set_up()
    connection.execute("UPDATE drivers SET contact = '' WHERE id = %s", driver)
    assert not are_set_up()
    connection.execute("UPDATE companies SET message_url = 'json://all' WHERE id = %s", company)
    assert are_set_up()
    connection.execute("UPDATE drivers SET retired_at = %s WHERE company_id = %s", (NOW, *company))
    assert not are_set_up()
