"""The one route that a truck is on."""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from domain.lifecycle import RouteStatus
from domain.telematics.arrivals import TruckRoute, current_route

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def id_of(name: str) -> UUID:
    """Ids sort as the names do."""
    return UUID(bytes=name.encode().ljust(16))


def truck_route(name: str, hours: float, status: RouteStatus = RouteStatus.DRAFT, arrived: bool = False) -> TruckRoute:
    return TruckRoute(
        id_of(name), status, NOON + timedelta(hours=hours), NOON - timedelta(hours=1) if arrived else None
    )


def chosen(*routes: TruckRoute) -> str | None:
    found = {(route.route_id if route else None) for route in (current_route(r, NOON) for r in _orders(routes))}
    assert len(found) == 1, "the order in which the routes come must not matter"
    route_id = found.pop()
    return route_id.bytes.decode().rstrip() if route_id is not None else None


def _orders(routes: Sequence[TruckRoute]) -> list[tuple[TruckRoute, ...]]:
    return list(itertools.permutations(routes))


def test_a_truck_without_routes_is_on_no_route() -> None:
    assert chosen() is None


def test_the_earliest_draft_is_the_one_a_truck_is_on() -> None:
    assert chosen(truck_route("later", 5), truck_route("earlier", 2)) == "earlier"


def test_drafts_with_the_same_start_are_ordered_by_id() -> None:
    assert chosen(truck_route("b", 2), truck_route("a", 2)) == "a"


@pytest.mark.parametrize("status", [RouteStatus.PLANNED, RouteStatus.ACTIVE])
def test_a_started_route_stops_an_earlier_draft_from_starting(status: RouteStatus) -> None:
    assert chosen(truck_route("draft", -5), truck_route("started", 2, status, arrived=True)) == "started"


def test_a_draft_whose_truck_has_arrived_counts_as_started() -> None:
    assert chosen(truck_route("arrived", 4, arrived=True), truck_route("draft", 2)) == "arrived"


def test_of_two_started_routes_the_truck_is_on_the_one_that_it_began_first() -> None:
    first = truck_route("planned", 5, RouteStatus.PLANNED, arrived=True)
    second = truck_route("active", -5, RouteStatus.ACTIVE, arrived=True)
    later = second._replace(arrived_at=NOON)

    assert chosen(first, later) == "planned"


def test_a_draft_a_day_past_its_start_gives_way_to_the_next() -> None:
    assert chosen(truck_route("stale", -24.1), truck_route("next", 2)) == "next"
    assert chosen(truck_route("late", -23.9), truck_route("next", 2)) == "late"


def test_a_stale_draft_may_start_when_there_is_no_other() -> None:
    assert chosen(truck_route("stale", -100)) == "stale"


def test_a_stale_draft_may_start_while_the_next_one_is_days_ahead() -> None:
    assert chosen(truck_route("delayed by a day", -25), truck_route("next week", 6 * 24)) == "delayed by a day"
