"""The pass that reads the roads of completed routes: each once, and none fails with another."""

from datetime import datetime, timedelta

from domain.driven_lanes import learning
from domain.driven_lanes.lanes import list_lanes
from scheduler.passes import Passes
from tests.domain.driven_lanes.driving import QUICKEST, completed, fixes_along
from tests.factories import make_fleet


def test_the_pass_learns_each_road_once_and_gives_up_those_that_cannot_be_read(passes: Passes, now: datetime) -> None:
    with passes.database.transaction() as connection:
        connection.execute("TRUNCATE driven_lanes CASCADE")
        fleet = make_fleet(connection)
        days = [now - timedelta(days=days) for days in (9, 7, 5, 3)]
        good = [completed(connection, fleet, fleet.sandbox, fixes_along(QUICKEST, day)) for day in days[:3]]
        bad = completed(connection, fleet, fleet.sandbox, fixes_along(QUICKEST, days[3])[:2])
        late = completed(connection, fleet, fleet.live, fixes_along(QUICKEST, days[0]))
    assert passes.learn_roads() == {"roads_learned": 3, "roads_refused": 1}
    assert passes.learn_roads() == {"roads_learned": 0, "roads_refused": 0}

    with passes.database.transaction() as connection:
        (lane,) = list_lanes(connection, fleet.sandbox, limit=10)
        assert {trip["routeId"] for trip in lane.agreeing} == {str(one) for one in good}
        assert learning.read_trip(connection, bad) is None
        assert learning.read_trip(connection, late) is not None
