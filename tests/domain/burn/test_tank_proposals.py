"""A tank that gauge and fuel cards contradict is proposed to a person, who takes it or keeps the declared one."""

from datetime import datetime, timedelta

import pytest

from domain.audit.entries import Actor
from domain.burn.history import read_burn_history
from domain.burn.tank_proposals import NoSuchProposal, keep_tank, proposed_tanks, take_tank, tank_proposal
from domain.database.connections import Connection
from domain.needs.company_needs import find_needs
from domain.needs.need import Summary
from tests.domain.burn.trips import MPH, card_fill, driven, learn
from tests.factories import Fleet, make_fleet
from tests.rows import named

ANN = Actor("ann@example.com")
PURCHASES = {400.0: 90.0, 800.0: 80.0}


@pytest.fixture
def fleet(connection: Connection, now: datetime) -> Fleet:
    """Truck 101 is declared with 280 gallons and takes 240; truck 102 has no fills."""
    fleet = make_fleet(connection)
    connection.execute(
        "UPDATE vehicles SET mpg = NULL, fuel_tank_capacity_gallons = 280 WHERE company_id = %s", (fleet.company_id,)
    )
    for number in range(3):
        start = now - timedelta(days=4 * (3 - number))
        driven(
            *(connection, fleet, fleet.live, start),
            miles=1200,
            mpg=6.0,
            capacity_gallons=240.0,
            begins=75.0,
            bought=PURCHASES,
            seed=number,
        )
        for mile, gallons in PURCHASES.items():
            card_fill(connection, fleet, fleet.live, start + timedelta(hours=mile / MPH), gallons)
    learn(connection, fleet, fleet.live, now)
    return fleet


def tank_of(connection: Connection, fleet: Fleet) -> float:
    query = "SELECT fuel_tank_capacity_gallons AS tank FROM vehicles WHERE id = %s"
    (row,) = named(connection).execute(query, (fleet.trucks[0],)).fetchall()
    return float(row.tank)


def learned_mpg(connection: Connection, fleet: Fleet) -> float:
    history = read_burn_history(connection, fleet.live, fleet.trucks[0])
    assert history is not None
    assert history.learned is not None
    return history.learned.mpg


def actions(connection: Connection, fleet: Fleet) -> list[tuple[str, str]]:
    query = "SELECT action, reason FROM audit_log WHERE company_id = %s"
    return [(row.action, row.reason) for row in named(connection).execute(query, (fleet.company_id,)).fetchall()]


def test_the_tank_that_is_proposed_is_taken(connection: Connection, fleet: Fleet, now: datetime) -> None:
    (proposal,) = proposed_tanks(connection, fleet.company_id, limit=9)
    assert (proposal.vehicle_id, proposal.fills, proposal.declared_gallons) == (fleet.trucks[0], 6, 280)
    assert proposal.tank_gallons == pytest.approx(240, rel=0.04)
    assert tank_of(connection, fleet) == 280, "nothing is changed silently"
    assert learned_mpg(connection, fleet) == pytest.approx(6.0 * 240 / 280, rel=0.04), "the range by the gauge is right"

    take_tank(connection, fleet.company_id, fleet.trucks[0], proposal.tank_gallons, ANN)
    assert tank_of(connection, fleet) == proposal.tank_gallons
    learn(connection, fleet, fleet.live, now)
    assert proposed_tanks(connection, fleet.company_id, limit=9) == []
    assert learned_mpg(connection, fleet) == pytest.approx(6.0, rel=0.03)
    assert actions(connection, fleet) == [("burn.take_tank", f"{proposal.tank_gallons:g} gal instead of 280 gal")]


def test_the_declared_tank_is_kept_until_fills_tell_another_one(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    proposal = tank_proposal(connection, fleet.live, fleet.trucks[0])
    assert proposal is not None
    keep_tank(connection, fleet.company_id, fleet.trucks[0], proposal.tank_gallons, ANN)
    learn(connection, fleet, fleet.live, now)
    assert tank_proposal(connection, fleet.live, fleet.trucks[0]) is None
    assert tank_of(connection, fleet) == 280
    assert [action for action, _ in actions(connection, fleet)] == ["burn.keep_tank"]
    connection.execute("UPDATE learned_burns SET tank_gallons = 190 WHERE company_id = %s", (fleet.company_id,))
    assert tank_proposal(connection, fleet.live, fleet.trucks[0]) is not None


def test_only_what_is_proposed_is_decided(connection: Connection, fleet: Fleet) -> None:
    other = make_fleet(connection)
    for company_id, truck, gallons in (
        (fleet.company_id, 0, 100.0),
        (fleet.company_id, 1, 240.0),
        (other.company_id, 0, 240.0),
    ):
        for decide in (take_tank, keep_tank):
            with pytest.raises(NoSuchProposal):
                decide(connection, company_id, fleet.trucks[truck], gallons, ANN)
    assert (tank_of(connection, fleet), actions(connection, fleet)) == (280, [])


def test_the_company_is_told_of_it(connection: Connection, fleet: Fleet, now: datetime) -> None:
    def told(of: Fleet) -> dict[str, object]:
        return dict(find_needs(connection, of.live, kinds=("tank_differs",), now=now))

    need = told(fleet)["tank_differs"]
    assert isinstance(need, Summary)
    assert need.what.startswith("the tank of truck 101 seems to hold 24")
    assert (need.path, need.more) == (f"/vehicles/one?id={fleet.shown_trucks[0]}", 0)
    assert told(make_fleet(connection)) == {}
