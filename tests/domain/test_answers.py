"""Lists of routes, held against a plain model: every total exact, every page a slice of the whole; one route for each
externalId, each tenant its own.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain import answers
from domain.answers import find_by_external_id, list_routes
from domain.contract import Instant, Route, RouteQuery
from domain.database import Connection, Database
from domain.lifecycle import RouteStatus
from domain.routes import cancel_route
from tests.domain.helpers import pushed
from tests.factories import Fleet, make_fleet

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 5


def day(number: int) -> Instant:
    return Instant.fromtimestamp_utc(FIRST + timedelta(days=number))


def every_page(read: Callable[[int], Any], rows: int) -> list[Any]:
    return [read(offset) for offset in range(rows + 2)]


days = st.none() | st.integers(-1, DAYS).map(day)
stored_routes = st.lists(
    st.tuples(
        st.booleans(),  # sandbox
        st.sampled_from(RouteStatus),
        st.sampled_from([None, 0, 1]),  # truck
        st.integers(0, DAYS - 1),
        st.sampled_from(["A", "B", "C"]),
    ),
    max_size=12,
)


@given(
    routes=stored_routes,
    status=st.none() | st.sampled_from(RouteStatus),
    truck=st.sampled_from([None, 0, 1]),
    start_from=days,
    start_to=days,
    external_id=st.sampled_from([None, None, "A", "B"]),
    limit=st.integers(1, 5),
    near=st.integers(-1, 6),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_total_is_exact_and_every_page_a_slice(
    database: Database,
    routes: list[tuple[bool, RouteStatus, int | None, int, str]],
    status: RouteStatus | None,
    truck: int | None,
    start_from: Instant | None,
    start_to: Instant | None,
    external_id: str | None,
    limit: int,
    near: int,
) -> None: ...
