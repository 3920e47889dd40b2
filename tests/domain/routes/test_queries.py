"""Lists of routes, held against a plain model: every total exact, every page a slice of the whole. One route for each
externalId, each tenant its own.
"""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.contract.shapes import Route, RouteQuery
from domain.database import Connection, Database
from domain.ids import new_id
from domain.lifecycle import RouteStatus
from domain.routes import queries
from domain.routes.progress import cancel_route
from domain.routes.queries import find_by_external_id, list_routes
from tests.domain.helpers import imported
from tests.factories import Fleet, make_fleet
from tests.rows import stored_id

DAYS = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(4)]
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
        st.sampled_from(DAYS),
    ),
    max_size=15,
)


def store(connection: Connection, fleet: Fleet, routes: list[Stored]) -> list[tuple[UUID, Stored]]:
    """Stores them one after the other. Gives each with its id, as it stands in the end."""
    stored: dict[UUID, Stored] = {}
    for route in routes:
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
    start_from=st.none() | st.sampled_from(DAYS),
    start_to=st.none() | st.sampled_from(DAYS),
    external_id=st.none() | st.sampled_from(EXTERNAL_IDS),
    limit=st.integers(1, 5),
    near=st.integers(-1, 5),
)
@hypothesis_settings(max_examples=100, deadline=None)
def test_every_total_is_exact_and_every_page_a_slice(
    database: Database,
    routes: list[Stored],
    status: RouteStatus | None,
    truck: int | None,
    start_from: datetime | None,
    start_to: datetime | None,
    external_id: str | None,
    limit: int,
    near: int,
) -> None:
    with database.transaction() as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "NEAR", near)
        fleet = make_fleet(connection)
        of_tenant = [(route_id, route) for route_id, route in store(connection, fleet, routes) if not route.sandbox]
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


def found_ids(routes: list[Route | None]) -> list[UUID | None]:
    return [stored_id(route.id) if route is not None else None for route in routes]


def test_routes_are_found_by_external_id_each_with_its_own_tenant(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    other = make_fleet(connection)
    tenants = [fleet.live, fleet.sandbox, other.live]
    ids = [imported(connection, tenant, now=now, externalId="LOAD") for tenant in tenants]
    alone = imported(connection, other.live, now=now, externalId="ALONE")

    wanted = [(tenant, external_id) for external_id in ("LOAD", "ALONE", "", "load") for tenant in tenants]

    assert found_ids(find_by_external_id(wanted).on(connection)) == [*ids, None, None, alone, *[None] * 6]
    assert found_ids(find_by_external_id([wanted[0], wanted[1], wanted[0]]).on(connection)) == [ids[0], ids[1], ids[0]]
    assert find_by_external_id([]).on(connection) == []


def test_the_newest_route_with_an_external_id_is_found_through_cancels_and_fresh_pushes(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    for _ in range(3):
        fresh = imported(connection, fleet.live, now=now, externalId="LOAD")
        assert found_ids(find_by_external_id([(fleet.live, "LOAD")]).on(connection)) == [fresh]

        cancel_route(connection, fleet.live, fresh, now=now)

        (canceled,) = find_by_external_id([(fleet.live, "LOAD")]).on(connection)
        assert canceled is not None
        assert (stored_id(canceled.id), canceled.status) == (fresh, RouteStatus.CANCELED)
        assert list_routes(connection, fleet.live, RouteQuery(external_id="LOAD")).data == [canceled]
