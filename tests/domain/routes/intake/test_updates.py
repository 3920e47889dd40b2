"""An update of a route keeps the visits of the stops that stay (decision 4)."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.contract.shapes import RouteStopInput
from domain.database.connections import Connection
from domain.routes.intake.imports import import_routes
from domain.routes.intake.updates import stops_that_stay
from tests.domain.helpers import imported, route_row, visits_of
from tests.domain.routes.intake.pushing import BOSTON, push, visit
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet
from tests.jobs import jobs_of


def test_an_update_keeps_the_visits_of_the_stops_that_stay(connection: Connection, fleet: Fleet, now: datetime) -> None:
    stops = [JOLIET, PERRYSBURG, NEWARK]
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD", stops=stops)
    visit(connection, route_id, 0, now)
    visit(connection, route_id, 1, now + timedelta(hours=4))

    push(connection, fleet.live, {"externalId": "LOAD", "stops": [JOLIET, BOSTON, PERRYSBURG, NEWARK]}, now=now)

    assert visits_of(connection, route_id) == {0: (now, None), 2: (now + timedelta(hours=4), None)}
    assert route_row(connection, route_id).arrived_at == now


def test_an_update_deletes_the_visits_of_the_stops_that_it_removes(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    visit(connection, route_id, 0, now)

    push(connection, fleet.live, {"externalId": "LOAD", "stops": [BOSTON, PERRYSBURG]}, now=now)

    assert visits_of(connection, route_id) == {}
    assert route_row(connection, route_id).arrived_at is None


def test_a_renamed_stop_keeps_its_visits(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    visit(connection, route_id, 0, now)

    push(connection, fleet.live, {"externalId": "LOAD", "stops": [{**JOLIET, "name": "Gate 4"}, NEWARK]}, now=now)

    assert visits_of(connection, route_id) == {0: (now, None)}


def test_an_updated_route_whose_truck_has_arrived_is_planned_again_after_its_import(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    visit(connection, route_id, 0, now)
    push(connection, fleet.live, {"externalId": "LOAD", "stops": [JOLIET, BOSTON]}, now=now)

    import_routes(connection, [route_id], now=now)
    jobs = jobs_of(connection)

    assert [job.name for job in jobs] == ["plans.build"]


def test_a_visit_of_the_start_does_not_become_one_of_the_destination(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
    visit(connection, route_id, 0, now)

    push(connection, fleet.live, {"externalId": "LOAD", "stops": [PERRYSBURG, JOLIET]}, now=now)

    assert 1 not in visits_of(connection, route_id)


places = st.sampled_from([RouteStopInput("stop", latitude, 0.0) for latitude in range(4)])
stop_lists = st.lists(places, max_size=6)


@hypothesis_settings(deadline=None)
@given(stop_lists, stop_lists)
def test_stops_that_stay_are_the_same_places_in_the_same_order(
    old: list[RouteStopInput], new: list[RouteStopInput]
) -> None:
    moves = stops_that_stay(old, new)

    assert list(moves) == sorted(moves)
    targets = list(moves.values())
    assert targets == sorted(set(targets))
    assert all(old[source] == new[target] for source, target in moves.items())


@hypothesis_settings(deadline=None)
@given(stop_lists, st.lists(st.tuples(st.integers(0, 6), st.integers(10, 19)), max_size=4))
def test_all_stops_stay_when_stops_are_only_added(old: list[RouteStopInput], added: list[tuple[int, int]]) -> None:
    new = list(old)
    for position, latitude in added:
        new.insert(position, RouteStopInput("stop", latitude, 0.0))

    assert set(stops_that_stay(old, new)) == set(range(len(old)))
    assert stops_that_stay(old, old) == {position: position for position in range(len(old))}
