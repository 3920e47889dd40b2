"""The navigation counts the same cases that Overview shows and that notices tell of."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from domain.database.connections import Connection, Database, Tenant
from domain.database.options import BY_KEY
from domain.lifecycle import Environment
from domain.needs.company_needs import COMPANY_NEEDS, find_needs
from domain.needs.need_counts import MOST_CASES, count_needs, count_needs_briefly
from domain.needs.route_needs import RoutesInNeed
from tests.domain.helpers import imported, positions_at, post
from tests.domain.planted import Planted
from tests.factories import JOLIET, Fleet, make_fleet

NOW = datetime(2026, 11, 23, 18, tzinfo=UTC)
_OPENED = (
    "UPDATE price_sources SET paused_at = NULL WHERE company_id = %s",
    "UPDATE held_prices SET status = 'held' WHERE company_id = %s",
    "UPDATE fills SET review = '{unit}', time_zone = 'UTC' WHERE company_id = %s",
    "UPDATE learned_burns b SET vehicle_id = v.id, tank_gallons = 300 FROM vehicles v"
    " WHERE v.company_id = b.company_id AND b.company_id = %s",
    "UPDATE vehicles SET retired_at = NULL, fuel_tank_capacity_gallons = 200 WHERE company_id = %s",
)


def found(connection: Connection, tenant: Tenant) -> dict[str, int]:
    """The number of cases of each need, by the functions that name them."""
    needs = find_needs(connection, tenant, kinds=[need.kind for need in COMPANY_NEEDS], now=NOW)
    return {kind: one.routes if isinstance(one, RoutesInNeed) else one.more + 1 for kind, one in needs.items()}


def test_what_is_counted_is_what_is_named(connection: Connection) -> None:
    company_id: UUID = Planted(connection).companies[0]
    for statement in _OPENED:
        connection.execute(statement, (company_id,))
    tenant = Tenant(company_id, Environment.LIVE)

    counts = count_needs(connection, tenant, now=NOW)

    assert counts == found(connection, tenant)
    assert counts.keys() >= {"price_file_late", "prices_held", "fills_to_review", "tank_differs"}


def test_the_count_stops_at_a_hundred(connection: Connection) -> None:
    fleet = make_fleet(connection)
    for number in range(MOST_CASES + 2):
        imported(connection, fleet.live, now=NOW, externalId=f"N-{number}", vehicle={"unitNumber": "9999"})
    imported(connection, fleet.sandbox, now=NOW, vehicle={"unitNumber": "9999"})

    assert count_needs(connection, fleet.live, now=NOW)["vehicle_unmapped"] == MOST_CASES
    assert "vehicle_unmapped" not in count_needs(connection, make_fleet(connection).live, now=NOW)


def test_routes_on_their_way_are_counted(connection: Connection, fleet: Fleet) -> None:
    before = NOW - timedelta(hours=2)
    imported(connection, fleet.live, now=before)
    post(connection, fleet.live, positions_at(JOLIET, before, count=1), now=before)
    connection.execute("UPDATE routes SET status = 'planned' WHERE company_id = %s", (fleet.company_id,))

    counts = count_needs(connection, fleet.live, now=NOW)

    assert counts == found(connection, fleet.live)
    assert counts["silent"] == 1


def test_a_brief_count_leaves_the_limit_and_the_prepared_statements(connection: Connection, fleet: Fleet) -> None:
    def state() -> tuple[object, object]:
        prepared = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
        return [connection.execute(f"SHOW {one}").fetchone() for one in ("statement_timeout", *BY_KEY)], prepared

    connection.execute("SELECT 'prepared'", prepare=True)
    before = state()

    assert count_needs_briefly(connection, fleet.live, now=NOW, milliseconds=600_000) is not None
    assert state() == before


def test_plans_are_made_once(connection: Connection, fleet: Fleet) -> None:
    for _ in range(8):  # psycopg prepares a statement that it has sent five times
        count_needs(connection, fleet.live, now=NOW)
    plans = connection.execute(
        "SELECT generic_plans, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%stop_unanswered%'"
        " OR statement LIKE '%ifta_changed%'"
    ).fetchall()
    assert all(generic and not custom for generic, custom in plans), plans
    assert len(plans) == 2


def test_a_count_that_takes_long_is_given_up(database: Database, connection: Connection, fleet: Fleet) -> None:
    before = connection.execute("SHOW statement_timeout").fetchone()
    with database.transaction() as other:
        other.execute("LOCK TABLE ifta_filings")
        assert count_needs_briefly(connection, fleet.live, now=NOW, milliseconds=20) is None

    assert connection.execute("SHOW statement_timeout").fetchone() == before
