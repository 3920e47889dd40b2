"""Lists of routes, held against a plain model: every total exact, every page a slice of the whole. One route for each
externalId, each tenant its own.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec
import psycopg
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.accounts.keys import create_key, revoke_key
from domain.contract.shapes import Route, RouteQuery
from domain.database.connections import Connection, Database, Tenant
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.routes.reading.counts import fold
from domain.routes.reading.lookups import ask_external_ids, ask_routes, ask_versions, list_routes
from domain.routes.transitions import cancel_route
from tests.domain.helpers import imported
from tests.factories import DOT, Fleet, make_fleet
from tests.repeatable import examples
from tests.rows import stored_id

STARTS = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hours) for hours in range(0, 56, 8)]
"""On three days, from a midnight to a midnight."""
EXTERNAL_IDS = ["A", "B", "C", "D", "E", "F"]


class Stored(NamedTuple):
    """A route as the model knows it; of those with one externalId all but the last are canceled."""

    external_id: str
    sandbox: bool
    status: RouteStatus
    truck: int | None
    start: datetime


stored_routes = st.lists(
    st.builds(
        Stored,
        st.sampled_from(EXTERNAL_IDS),
        st.sampled_from([False, False, True]),
        st.sampled_from(RouteStatus),
        st.sampled_from([None, 0, 1]),
        st.sampled_from(STARTS),
    ),
    max_size=15,
)


def store(connection: Connection, fleet: Fleet, routes: list[Stored], folded: int) -> list[tuple[UUID, Stored]]:
    """Stores them one after the other. Gives each with its id, as it stands in the end. The counts of so many are
    folded."""
    stored: dict[UUID, Stored] = {}
    for number, route in enumerate(routes):
        if number == folded:
            fold(connection, limit=1_000)
        for route_id, before in stored.items():
            if (before.sandbox, before.external_id) == (route.sandbox, route.external_id):
                connection.execute("UPDATE routes SET status = 'canceled' WHERE id = %s", (route_id,))
                stored[route_id] = before._replace(status=RouteStatus.CANCELED)
        route_id = new_id()
        connection.execute(
            "INSERT INTO routes (id, company_id, environment, external_id, scheduled_start, stops, status,"
            " pending_reason, pending_detail, vehicle_id) VALUES (%s, %s, %s, %s, %s, '[]', %s, 'error', '', %s)",
            (
                route_id,
                *(fleet.sandbox if route.sandbox else fleet.live),
                route.external_id,
                route.start,
                route.status,
                fleet.trucks[route.truck] if route.truck is not None else None,
            ),
        )
        stored[route_id] = route
    return list(stored.items())


@given(
    routes=stored_routes,
    status=st.none() | st.sampled_from(RouteStatus),
    truck=st.sampled_from([None, None, 0, 1]),
    start_from=st.none() | st.sampled_from(STARTS),
    start_to=st.none() | st.sampled_from(STARTS),
    external_id=st.none() | st.sampled_from(EXTERNAL_IDS),
    limit=st.integers(1, 5),
    folded=st.integers(0, 15),
)
@hypothesis_settings(max_examples=examples(50), deadline=None)
def test_every_total_is_exact_and_every_page_a_slice(
    database: Database,
    routes: list[Stored],
    status: RouteStatus | None,
    truck: int | None,
    start_from: datetime | None,
    start_to: datetime | None,
    external_id: str | None,
    limit: int,
    folded: int,
) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        of_tenant = [
            (route_id, route) for route_id, route in store(connection, fleet, routes, folded) if not route.sandbox
        ]
        newest = {route.external_id: route_id for route_id, route in of_tenant}
        listed = [
            route_id
            for route_id, route in sorted(of_tenant, key=lambda one: (-one[1].start.timestamp(), one[0]))
            if status in (None, route.status)
            and truck in (None, route.truck)
            and (start_from is None or route.start >= start_from)
            and (start_to is None or route.start < start_to)
            and external_id in (None, route.external_id)
            and (external_id is None or newest[external_id] == route_id)
        ]

        for offset in [*range(len(listed) + 2), 2**80]:
            query = RouteQuery(
                limit=limit,
                offset=offset,
                status=status,
                vehicle_id=fleet.shown_trucks[truck] if truck is not None else None,
                start_from=start_from,
                start_to=start_to,
                external_id=external_id,
            )
            page = list_routes(connection, fleet.live, query)

            assert [stored_id(route.id) for route in page.data] == listed[offset : offset + limit]
            assert (page.total, page.limit, page.offset) == (len(listed), limit, offset)
        raise psycopg.Rollback


def key_of(connection: Connection, tenant: Tenant) -> UUID:
    return create_key(connection, tenant.company_id, DOT, name="k", environment=tenant.environment, scopes=[]).id


def found_ids(routes: list[Route | None]) -> list[UUID | None]:
    return [stored_id(route.id) if route is not None else None for route in routes]


def test_routes_are_found_by_external_id_each_with_its_own_tenant(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    other = make_fleet(connection)
    tenants = [fleet.live, fleet.sandbox, other.live]
    ids = [imported(connection, tenant, now=now, externalId="LOAD") for tenant in tenants]
    alone = imported(connection, other.live, now=now, externalId="ALONE")

    keys = [key_of(connection, tenant) for tenant in tenants]
    wanted = [(key, external_id) for external_id in ("LOAD", "ALONE", "", "load") for key in keys]

    assert found_ids(ask_external_ids(wanted).on(connection)) == [*ids, None, None, alone, *[None] * 6]
    assert found_ids(ask_external_ids([wanted[0], wanted[1], wanted[0]]).on(connection)) == [ids[0], ids[1], ids[0]]
    assert ask_external_ids([]).on(connection) == []


def test_a_key_that_is_not_valid_any_more_finds_nothing(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    keys = [key_of(connection, fleet.live) for _ in range(2)]
    revoke_key(connection, keys[0], DOT)

    by_id = [(key, route_id) for key in keys]
    assert [found is not None for found in ask_routes(by_id).on(connection)] == [False, True]
    assert [found is not None for found in ask_versions(by_id).on(connection)] == [False, True]
    assert found_ids(ask_external_ids([(key, "LOAD") for key in keys]).on(connection)) == [None, route_id]


def test_the_newest_route_with_an_external_id_is_found_through_cancels_and_fresh_pushes(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    key = key_of(connection, fleet.live)
    for _ in range(3):
        fresh = imported(connection, fleet.live, now=now, externalId="LOAD")
        assert found_ids(ask_external_ids([(key, "LOAD")]).on(connection)) == [fresh]

        cancel_route(connection, fleet.live, fresh, now=now)

        (canceled,) = ask_external_ids([(key, "LOAD")]).on(connection)
        assert canceled is not None
        assert (stored_id(canceled.id), canceled.status) == (fresh, RouteStatus.CANCELED)
        assert list_routes(connection, fleet.live, RouteQuery(external_id="LOAD")).data == [canceled]


A_DAY, DAYS = 120, 50
"""A company has so many routes on each of so many days."""


@pytest.fixture
def busy(connection: Connection, fleet: Fleet) -> Fleet:
    connection.execute(
        "INSERT INTO routes (id, company_id, environment, external_id, scheduled_start, stops, status)"
        " SELECT gen_random_uuid(), %(company_id)s, 'live', n, %(first)s + n * interval '24 hours' / %(a_day)s, '[]',"
        " CASE WHEN n %% 4 = 0 THEN 'completed' ELSE 'canceled' END FROM generate_series(0, %(last)s) AS n",
        {"company_id": fleet.company_id, "first": STARTS[0], "a_day": A_DAY, "last": A_DAY * DAYS - 1},
    )
    fold(connection, limit=1_000)
    connection.execute("ANALYZE routes")
    return fleet


def entries_read(connection: Connection) -> int:
    """The entries of `routes` and its indexes that this transaction has read so far."""
    row = connection.execute(
        "SELECT sum(pg_stat_get_xact_tuples_returned(it)) FROM ("
        "SELECT 'routes'::regclass AS it UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid = 'routes'::regclass)"
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("query", "total"),
    [
        (RouteQuery(), DAYS * A_DAY),
        (RouteQuery(status=RouteStatus.COMPLETED), DAYS * A_DAY // 4),
        (RouteQuery(start_from=STARTS[1], start_to=STARTS[-1]), 2 * A_DAY - A_DAY // 3),
    ],
)
def test_a_page_and_its_total_read_only_the_rows_of_a_few_days(
    connection: Connection, busy: Fleet, query: RouteQuery, total: int
) -> None:
    """Wherever in the list it is: else the far pages of a large company take long."""
    for offset in (0, 200, 777, 1_490, 3_210, 5_990, 2**62):
        before = entries_read(connection)

        page = list_routes(connection, busy.live, msgspec.structs.replace(query, limit=20, offset=offset))

        read = entries_read(connection) - before
        assert (offset, page.total, len(page.data)) == (offset, total, max(0, min(20, total - offset)))
        assert read <= 3 * A_DAY, offset
