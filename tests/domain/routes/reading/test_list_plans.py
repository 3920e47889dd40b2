"""Lists of routes are read from an index, also where PostgreSQL plans before it knows the parameters, as the API's
connections have it (`BY_KEY`), and behind the second wall."""

from collections.abc import Iterator
from datetime import datetime

import pytest

from domain.contract.shapes import RouteQuery
from domain.database.connections import Connection
from domain.database.visibility import of_tenants
from domain.lifecycle import RouteStatus
from domain.routes.reading.lookups import _list_for
from domain.tables.routes import Routes
from tests.conftest import own_database
from tests.domain.database.test_statements import in_libpq_style
from tests.domain.helpers import go_behind_the_wall, imported
from tests.factories import make_fleet
from tests.rows import nodes

COPIED = ", ".join(name for name in Routes.model_fields if name not in ("id", "external_id", "scheduled_start"))
SOME_TIME = datetime.fromisoformat("2026-01-01T00:00:00Z")


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    """A company with 3,001 routes, seen behind the second wall."""
    with own_database("list_plans") as database, database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=SOME_TIME)
        connection.execute(
            f"INSERT INTO routes (id, external_id, scheduled_start, {COPIED})"
            f" SELECT gen_random_uuid(), 'L' || n, scheduled_start + n * interval '1 min', {COPIED}"
            " FROM routes, generate_series(1, 3000) AS n WHERE id = %s",
            (route_id,),
        )
        connection.execute("ANALYZE routes")
        go_behind_the_wall(connection, of_tenants([fleet.live]))
        yield connection


@pytest.mark.parametrize(
    "query",
    [
        RouteQuery(),
        RouteQuery(start_from=SOME_TIME),
        RouteQuery(start_to=SOME_TIME),
        RouteQuery(status=RouteStatus.DRAFT),
        RouteQuery(status=RouteStatus.DRAFT, start_from=SOME_TIME),
    ],
    ids=["all", "from", "to", "status", "status and from"],
)
def test_a_page_of_a_long_list_is_read_in_order_from_an_index(connection: Connection, query: RouteQuery) -> None:
    """All routes are the company's, as where a fleet runs its own service: no condition leaves some out."""
    statement = in_libpq_style(_list_for(query).page.text)
    ((explained,),) = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {statement}").fetchall()

    (page,) = [node for node in nodes(explained[0]["Plan"]) if node.get("Subplan Name") == "CTE page"]
    scans = [node for node in nodes(page) if node.get("Relation Name") == "routes"]
    assert [scan.get("Index Name") for scan in scans] in (["routes_by_start"], ["routes_by_status"])
    assert "scheduled_start" in scans[0]["Index Cond"]
    assert "IS NULL" not in scans[0].get("Filter", ""), "a filter with OR hides the index"
    assert "Sort" not in [node["Node Type"] for node in nodes(page)]
