"""Plans are made with the learned figure, and name the trips that it comes from."""

from datetime import datetime, timedelta

import pytest

from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.database.connections import Connection
from domain.ids import shown_id
from domain.settings import Settings
from domain.stations.stations import store_station_rows
from tests.domain.burn.trips import driven, learn
from tests.domain.driven_lanes.test_plans import plan
from tests.factories import DOT, STATIONS, Fleet


def test_a_plan_takes_the_learned_figure_and_explains_it(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    before = plan(connection, fleet, settings, now).explanation()
    assert before["inputs"]["burn"] == {"mpg": 6.5, "kind": "declared", "text": "6.5 mpg, from the vehicle"}

    ids = [driven(connection, fleet, fleet.live, now - timedelta(days=days), seed=days, mpg=5.2) for days in (3, 6, 9)]
    learn(connection, fleet, fleet.live, now)
    after = plan(connection, fleet, settings, now + timedelta(hours=1)).explanation()
    burn = after["inputs"]["burn"]
    assert (burn["kind"], burn["instead_of_mpg"]) == ("learned", 6.5)
    assert after["inputs"]["mpg"] == burn["mpg"] == pytest.approx(5.2, rel=0.04)
    assert after["sources"]["mpg"]["source"] == "3 trips of the truck, 2,700 mi"
    assert [trip["route_id"] for trip in burn["trips"]] == [shown_id("rte", one) for one in ids]


def test_a_truck_whose_trips_differ_keeps_a_margin_unless_the_policy_wants_none(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    connection.execute("DELETE FROM stations")
    store_station_rows(connection, STATIONS, now=now)
    for days, mpg in ((3, 5.0), (6, 5.4), (9, 5.2)):
        driven(connection, fleet, fleet.live, now - timedelta(days=days), seed=days, mpg=mpg)
    learn(connection, fleet, fleet.live, now)
    made = plan(connection, fleet, settings, now + timedelta(hours=1))
    error = made.explanation()["mileage_error"]
    assert error["beyond_policy"]
    assert error["share_percent"] < 50

    set_policy(connection, fleet.company_id, Policy(margin_dollars=0), DOT)
    cheapest = plan(connection, fleet, settings, now + timedelta(hours=2))
    assert "mileage_error" not in cheapest.explanation()
    assert cheapest.objective <= made.objective <= cheapest.objective + 3
