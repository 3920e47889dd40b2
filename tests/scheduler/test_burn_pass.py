"""The pass that measures the burn of completed trips: each truck once, and none fails with another."""

from datetime import datetime, timedelta

import pytest

from domain.burn import learning
from domain.burn.stored_figures import figure_for_plan
from scheduler.passes import Passes
from tests.domain.burn.trips import driven
from tests.factories import make_fleet


def test_the_pass_learns_each_truck_once_and_gives_up_one_that_cannot_be_measured(
    passes: Passes, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    with passes.database.transaction() as connection:
        connection.execute("TRUNCATE trip_burns, learned_burns")
        fleet = make_fleet(connection)
        connection.execute("UPDATE vehicles SET mpg = NULL WHERE company_id = %s", (fleet.company_id,))
        for number, days in enumerate((9, 6, 3)):
            driven(connection, fleet, fleet.sandbox, now - timedelta(days=days), seed=number)
        driven(connection, fleet, fleet.sandbox, now - timedelta(days=3), truck=1)
        driven(connection, fleet, fleet.live, now - timedelta(days=3))

    monkeypatch.setattr("scheduler.passes._ROADS_SECONDS", 300.0)  # a busy machine takes its time
    assert passes.learn_burn() == {"trucks_learned": 2, "trips_believed": 4, "trips_doubted": 0}
    nothing = {"trucks_learned": 0, "trips_believed": 0, "trips_doubted": 0}
    assert passes.learn_burn() == nothing
    with passes.database.transaction() as connection:
        assert figure_for_plan(connection, fleet.sandbox, fleet.trucks[0]).kind == "learned"
        assert figure_for_plan(connection, fleet.live, fleet.trucks[0]).kind == "default"
        driven(connection, fleet, fleet.sandbox, now - timedelta(days=1), truck=1)
    with monkeypatch.context() as broken:
        broken.setattr(learning, "measure_trip", None)
        assert passes.learn_burn() == nothing
    assert passes.learn_burn() == nothing, "it waits no longer"
