"""Whatever lets a truck go has it looked at again: it may stand at its next first stop and send nothing more
(decision 10). One test drives every statement by which a route leaves its truck."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from domain.database.connections import Connection
from domain.lifecycle import RouteStatus
from domain.queue.jobs import build_plan_job
from domain.routes import transitions
from domain.routes.intake import holds
from domain.routes.intake.failed_imports import record_failed_import
from domain.routes.intake.fleet_changes import add_mapping
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, store_pushes
from domain.routes.intake.retiring import match_again_lately_retired, retire
from domain.settings import Settings
from tests.domain.database.test_statements import MODULES
from tests.domain.helpers import deliver, imported, planned_by_hand, status_of
from tests.domain.test_one_writer import statements_of
from tests.domain.trucks import hours, process, stand_at
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet, route_input
from tests.jobs import jobs_after

FIRST: dict[str, Any] = {"externalId": "FIRST", "reference": "PO-1"}


class Truck(NamedTuple):
    """Truck 101 was at the first stop of FIRST. Now it stands at the first stop of its next route, with its engine off:
    it has sent its last position."""

    connection: Connection
    fleet: Fleet
    settings: Settings
    first: UUID
    following: UUID
    now: datetime

    def push(self, start: datetime, *, external_id: str = "FIRST", unit_number: str = "101") -> None:
        body = route_input(
            start, externalId=external_id, reference="PO-1", stops=STOPS, vehicle={"unitNumber": unit_number}
        )
        (result,) = store_pushes(self.connection, [Push(self.fleet.live, body)], now=self.now)
        import_routes(self.connection, [result.route_id], now=self.now)


STOPS = [JOLIET, PERRYSBURG]
NEXT_STOPS = [NEWARK, PERRYSBURG]


@pytest.fixture(params=["draft", "arrived", "planned", "active"])
def truck(request: pytest.FixtureRequest, connection: Connection, settings: Settings, now: datetime) -> Truck:
    """FIRST in every status in which it has the truck."""
    fleet = make_fleet(connection, superseding=True)
    begun = now - hours(14)
    first = imported(connection, fleet.live, now=begun, start=now - hours(2), stops=STOPS, **FIRST)
    following = imported(connection, fleet.live, now=begun, start=now, stops=NEXT_STOPS, driver={"name": "Bo Diaz"})
    if request.param != "draft":
        stand_at(connection, settings, fleet, JOLIET, begun)
    if request.param in ("planned", "active"):
        message = planned_by_hand(connection, first, now=begun)
        if request.param == "active":
            deliver(connection, message, settings=settings, now=begun)
    expected = {"arrived": "draft"}.get(request.param, request.param)
    assert status_of(connection, first) is RouteStatus(expected)
    stand_at(connection, settings, fleet, NEWARK, now - hours(1))  # so it is silent for an hour
    return Truck(connection, fleet, settings, first, following, now)


STATUSES = ("draft", "arrived", "planned", "active")
Way = Callable[[Truck], object]


def canceled(truck: Truck) -> None:
    transitions.cancel_route(truck.connection, truck.fleet.live, truck.first, now=truck.now)


def superseded(truck: Truck) -> None:
    truck.push(truck.now + timedelta(days=3), external_id="SECOND")


def ended(truck: Truck) -> None:
    transitions.end_routes(truck.connection, [truck.first], "it is over", now=truck.now)


def driver_retired(truck: Truck) -> None:
    driver_id = truck.fleet.drivers[0]
    retire(truck.connection, truck.fleet.company_id, "driver", driver_id, DOT, force=True, now=truck.now)
    import_routes(truck.connection, [truck.first], now=truck.now)


def found_retired(truck: Truck) -> None:
    """The pass imports the route, after an import that ran while the driver was retired."""
    truck.connection.execute("UPDATE drivers SET retired_at = %s WHERE id = %s", (truck.now, truck.fleet.drivers[0]))
    again = match_again_lately_retired(truck.connection, now=truck.now)
    import_routes(truck.connection, again, now=truck.now)


def moved(truck: Truck) -> None:
    truck.push(truck.now - hours(2), unit_number="102")


def moved_by_a_mapping(truck: Truck) -> None:
    add_mapping(truck.connection, truck.fleet.company_id, "unit_number", "101", truck.fleet.trucks[1], DOT)
    truck.push(truck.now - hours(2.5))


def postponed(truck: Truck) -> None:
    truck.push(truck.now + timedelta(days=3))


def postponed_beyond_the_window(truck: Truck) -> None:
    truck.push(truck.now + timedelta(days=30))


def held_for_its_truck(truck: Truck) -> None:
    truck.push(truck.now, unit_number="999")


def expired_while_held(truck: Truck) -> None:
    truck.push(truck.now - timedelta(days=8), unit_number="999")
    holds.expire_held_routes(truck.connection, expiry_days=7, now=truck.now)


def failed_to_be_imported(truck: Truck) -> None:
    body = route_input(truck.now, externalId="FIRST", stops=STOPS)
    store_pushes(truck.connection, [Push(truck.fleet.live, body)], now=truck.now)
    record_failed_import(truck.connection, truck.first, max_attempts=1, now=truck.now)


def canceled_before_its_import(truck: Truck) -> None:
    body = route_input(truck.now, externalId="FIRST", stops=STOPS)
    store_pushes(truck.connection, [Push(truck.fleet.live, body)], now=truck.now)
    canceled(truck)


def attempts_used_up(truck: Truck) -> None:
    transitions.planning_failed(truck.connection, truck.first, max_attempts=1, now=truck.now)


def without_a_feasible_plan(truck: Truck) -> None:
    plan_id = truck.first  # of no stored plan: only the route is looked at
    transitions.no_plan_feasible(truck.connection, truck.first, plan_id, 300.0, "too far", now=truck.now)


def silent_for_weeks(truck: Truck) -> None:
    truck.connection.execute("UPDATE visits SET stored_at = %s", (truck.now - timedelta(days=15),))
    truck.connection.execute("UPDATE routes SET imported_at = %s", (truck.now - timedelta(days=15),))
    transitions.expire_started_routes(truck.connection, expiry_days=14, now=truck.now)


def completed(truck: Truck) -> None:
    truck.connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at, vehicle_id)"
        " SELECT company_id, environment, id, 1, %s, vehicle_id FROM routes WHERE id = %s",
        (truck.now - hours(2), truck.first),
    )
    transitions.complete_routes(truck.connection, [truck.first], now=truck.now)


WAYS: dict[Way, tuple[str, ...]] = {
    canceled: ("draft", "arrived", "planned"),
    superseded: ("draft", "arrived", "planned"),
    ended: STATUSES,
    driver_retired: STATUSES,
    found_retired: ("draft", "arrived", "planned"),
    moved: ("draft", "arrived", "planned"),
    moved_by_a_mapping: ("draft", "arrived", "planned"),
    postponed: ("draft", "arrived", "planned"),
    postponed_beyond_the_window: ("draft", "arrived", "planned"),
    held_for_its_truck: ("draft", "arrived", "planned"),
    expired_while_held: ("draft", "arrived", "planned"),
    failed_to_be_imported: ("draft", "arrived", "planned"),
    canceled_before_its_import: ("draft", "arrived", "planned"),
    attempts_used_up: ("arrived",),
    without_a_feasible_plan: ("arrived",),
    silent_for_weeks: ("arrived", "planned", "active"),
    completed: ("active",),
}
"""Each way of letting go of a truck, and the statuses in which it is possible."""

DRIVEN_BY: dict[str, tuple[Way, ...]] = {
    "holds._EXPIRE": (expired_while_held,),
    "failed_imports._FAIL": (failed_to_be_imported,),
    "failed_imports._GIVE_UP": (failed_to_be_imported,),
    "imports._HOLD": (postponed_beyond_the_window, held_for_its_truck),
    "transitions.CANCEL": (canceled, superseded, canceled_before_its_import),
    "transitions._COMPLETE": (completed,),
    "transitions._END": (ended, driver_retired),
    "transitions._EXPIRE_STARTED": (silent_for_weeks,),
    "transitions._NO_PLAN": (without_a_feasible_plan,),
    "transitions._PLANNING_ENDED": (attempts_used_up,),
    "transitions._START_OVER": (driver_retired, found_retired),
    "updates._REPLACE": (moved, moved_by_a_mapping, postponed),
}
"""Each statement that takes a route from its truck, and the ways above that pass through it."""
LEAVES = re.compile(
    r"UPDATE routes\b.*?\bSET\b(?:(?!\bWHERE\b).)*?\bstatus = (?!'(?:draft|planned|active)')", re.DOTALL
)


def test_every_statement_that_takes_a_route_from_its_truck_is_tested_here() -> None:
    found = {
        f"{module.__name__.rpartition('.')[2]}.{name}"
        for module in MODULES
        for name, value in vars(module).items()
        for statement in statements_of(value)
        if LEAVES.search(statement.text)
    }
    assert found - {"superseding.CANCEL"} == DRIVEN_BY.keys()
    assert {way for ways in DRIVEN_BY.values() for way in ways} <= WAYS.keys()


@pytest.mark.parametrize(
    ("truck", "way"),
    [(status, way) for way, statuses in WAYS.items() for status in statuses],
    indirect=["truck"],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_freed_truck_starts_the_route_at_whose_first_stop_it_stands(truck: Truck, way: Way) -> None:
    jobs = jobs_after(truck.connection, lambda: way(truck))

    assert truck.fleet.trucks[0] in [one for job in jobs for one in job.payload.get("vehicle_ids", ())]
    started = process(truck.connection, truck.settings, truck.fleet, now=truck.now)
    assert started == [build_plan_job(truck.following)]
