"""Completed trips whose rows another transaction holds, or whose results find no space: they wait for the next pass."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg.errors import DatabaseError, DeadlockDetected, DiskFull, LockNotAvailable

from domain.driven_lanes import learning
from scheduler import passes as scheduled
from scheduler.passes import Passes
from tests.domain.burn.trips import driven
from tests.domain.driven_lanes.driving import QUICKEST, completed, fixes_along
from tests.domain.savings.sent_plans import store_sent_plan
from tests.factories import make_fleet

WAITING = {
    "learn_burn": "SELECT count(*) FROM trip_burns WHERE measured_at IS NULL",
    "see_fuel_stops": "SELECT count(*) FROM trip_burns WHERE stops_seen_at IS NULL",
    "learn_roads": "SELECT count(*) FROM driven_roads WHERE road IS NULL",
    "compare_habits": "SELECT count(*) FROM habit_costs WHERE driven_at IS NULL",
}


@pytest.mark.parametrize("error", [LockNotAvailable, DeadlockDetected, DiskFull])
@pytest.mark.parametrize(
    ("name", "owner", "function"),
    [
        ("learn_burn", scheduled, "learn_truck"),
        ("see_fuel_stops", scheduled, "record_trip"),
        ("learn_roads", learning, "store_road"),
        ("compare_habits", scheduled, "drive_waiting"),
    ],
)
def test_what_is_held_or_finds_no_space_stays_due(
    passes: Passes,
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    owner: Any,
    function: str,
    error: type[DatabaseError],
) -> None:
    with passes.database.transaction() as connection:
        connection.execute("TRUNCATE trip_burns, learned_burns, driven_lanes, habit_costs CASCADE")
        fleet = make_fleet(connection)
        driven(connection, fleet, fleet.sandbox, now - timedelta(days=3))
        completed(connection, fleet, fleet.sandbox, fixes_along(QUICKEST, now - timedelta(days=9)))
        store_sent_plan(connection, fleet.live, None, now=now)

    def held(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(scheduled, "_ROADS_SECONDS", 300.0)  # a busy machine takes its time
    run: Callable[[], dict[str, int]] = getattr(passes, name)
    before = waiting(passes, name)
    assert before > 0
    with monkeypatch.context() as locked:
        locked.setattr(owner, function, held)
        with suppress(DiskFull):  # the pass fails
            run()
    assert waiting(passes, name) == before
    run()
    assert waiting(passes, name) == 0


def waiting(passes: Passes, name: str) -> int:
    with passes.database.transaction() as connection:
        ((found,),) = connection.execute(WAITING[name]).fetchall()
    return int(found)
