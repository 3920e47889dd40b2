"""Many fixes: processed in portions, one by one or together, they make the same visits."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.contract.shapes import Position
from domain.database.connections import Connection
from domain.queue.jobs import in_batches, process_positions_job
from domain.routes.plans.first_plan import due_plans
from domain.settings import Settings
from domain.telematics import fix_batches, fixes_to_visits, tracks
from tests.domain.helpers import imported, north_of, positions_at, post, visits_of
from tests.domain.trucks import HOME, hours, process, stand_at
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet
from tests.jobs import jobs_after
from tests.repeatable import examples


def fixes_loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by the number of fixes that each processing loads from now on."""
    loaded: list[int] = []
    believed = fixes_to_visits.believed_fixes

    def counted(window: Any) -> Any:
        loaded.append(len(window))
        return believed(window)

    monkeypatch.setattr(fixes_to_visits, "believed_fixes", counted)
    return loaded


def test_one_old_fix_does_not_open_a_month_of_positions(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = positions_at(NEWARK, now - timedelta(days=29), count=1000, seconds_apart=2400, speed_mph=50)
    post(connection, fleet.live, drive, now=now)
    imported(connection, fleet.live, now=now)
    stand_at(connection, settings, fleet, JOLIET, now)
    loaded = fixes_loaded(monkeypatch)

    old = positions_at(JOLIET, now - timedelta(days=29, minutes=1), count=1)
    assert jobs_after(connection, lambda: post(connection, fleet.live, old, now=now)) == []
    connection.execute(
        "UPDATE tracks SET unprocessed_from = %s WHERE vehicle_id = %s", (now - timedelta(days=29), fleet.trucks[0])
    )
    process(connection, settings, fleet, now=now)

    assert max(loaded, default=0) < 50


def test_a_truck_with_many_fixes_is_processed_in_portions_to_the_same_visits(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fix_batches, "_MAX_FIXES", 60)
    loaded = fixes_loaded(monkeypatch)
    route_id = imported(connection, fleet.live, now=now, start=now, stops=[JOLIET, PERRYSBURG, NEWARK])
    arrivals = [now, now + hours(5), now + hours(20)]
    for stop, at in zip((JOLIET, PERRYSBURG, NEWARK), arrivals, strict=True):
        post(connection, fleet.live, positions_at(stop, at, count=100, seconds_apart=10), now=arrivals[-1] + hours(1))

    rounds = 0
    while jobs := process(connection, settings, fleet, now=now):
        assert jobs == [process_positions_job("live", [fleet.trucks[0]])]
        lost = tracks.lost_processing(connection, now=now + timedelta(seconds=9))
        assert fleet.trucks[0] not in lost.get(("live", fleet.company_id), [])
        rounds += 1

    assert rounds == 4
    assert max(loaded) <= 60 + 61  # what is new, and ten minutes before it
    assert [visit[0] for visit in visits_of(connection, route_id).values()] == arrivals
    assert route_id in due_plans(connection, now=now + timedelta(seconds=10))


def test_a_truck_that_sends_many_fixes_a_second_is_processed_to_the_end(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fix_batches, "_MAX_FIXES", 60)
    monkeypatch.setattr(fix_batches, "_MAX_CONTEXT_FIXES", 30)
    loaded = fixes_loaded(monkeypatch)
    imported(connection, fleet.live, now=now)
    post(connection, fleet.live, positions_at(JOLIET, now, count=1000, seconds_apart=0.01), now=now)

    rounds = 1
    while process(connection, settings, fleet, now=now):
        rounds += 1

    assert (rounds, max(loaded)) == (17, 90)


# --- Laws --------------------------------------------------------------------------------------------------------


GAPS_SECONDS = (20, 60, 120, 181, 400, 1500)


@st.composite
def drives(draw: st.DrawFn) -> list[tuple[float, float, float | None]]:
    """Seconds, meters north of the first stop, speed: a truck that wanders up and down a road of three stops."""
    seconds, meters = 0.0, 0.0
    fixes = []
    for gap, ahead, mph in draw(
        st.lists(
            st.tuples(
                st.sampled_from(GAPS_SECONDS),
                st.sampled_from([0.0, 0.0, 60.0, -60.0, 280.0, -280.0, 700.0, 5000.0, -5000.0]),
                st.sampled_from([None, 0.0, 3.0, 20.0, 55.0]),
            ),
            min_size=1,
            max_size=25,
        )
    ):
        seconds += gap
        meters = max(-1000.0, min(meters + max(-50 * gap, min(ahead, 50 * gap)), 12_000.0))
        fixes.append((seconds, meters, mph))
    return fixes


Drive = list[tuple[float, float, float | None]]


def visits_after(
    connection: Connection, settings: Settings, drive: Drive, stops_meters: tuple[float, ...], *, size: int
) -> dict[int, tuple[datetime, datetime | None]]:
    """The visits of a route along that road when the drive's fixes come in and are processed so many at a time."""
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    stops = [
        {"name": f"stop {meters}", "latitude": there.latitude, "longitude": there.longitude}
        for meters in stops_meters
        for there in [north_of(HOME, meters)]
    ]
    fixes = [
        Position(
            latitude=there.latitude,
            longitude=there.longitude,
            recorded_at=now + timedelta(seconds=seconds),
            unit_number="101",
            speed_mph=mph,
        )
        for seconds, meters, mph in drive
        for there in [north_of(HOME, meters)]
    ]
    with connection.transaction(force_rollback=True):
        fleet = make_fleet(connection)
        route_id = imported(connection, fleet.live, now=now, start=now, stops=stops)
        for batch in in_batches(fixes, size):
            moment = batch[-1].recorded_at
            post(connection, fleet.live, batch, now=moment)
            while process_positions_job("live", [fleet.trucks[0]]) in process(connection, settings, fleet, now=moment):
                pass  # the rest, where there are more than are processed at once
        return visits_of(connection, route_id)


@hypothesis_settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(drives(), st.integers(1, 5))
def test_fixes_processed_one_by_one_or_together_give_the_same_visits(
    connection: Connection, settings: Settings, drive: Drive, size: int
) -> None:
    stops_meters = (0.0, 5000.0, 10_000.0)
    together = visits_after(connection, settings, drive, stops_meters, size=1000)

    assert visits_after(connection, settings, drive, stops_meters, size=size) == together
    arrivals = [together[stop][0] for stop in sorted(together)]
    assert arrivals == sorted(arrivals)


@hypothesis_settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(drives(), st.integers(1, 5))
def test_fixes_processed_in_portions_or_together_give_the_same_visits(
    connection: Connection, settings: Settings, drive: Drive, portion: int
) -> None:
    stops_meters = (0.0, 5000.0, 10_000.0)
    together = visits_after(connection, settings, drive, stops_meters, size=1000)

    with patch.multiple(fix_batches, _MAX_FIXES=portion, _MIN_PORTION=portion):
        assert visits_after(connection, settings, drive, stops_meters, size=1000) == together


def test_overlapping_stops_are_reached_alike_however_the_fixes_come(connection: Connection, settings: Settings) -> None:
    drive: Drive = [(20, 60, None), *((1500.0 + seconds, 120.0, None) for seconds in range(20, 141, 20))]

    together = visits_after(connection, settings, drive, (0.0, 350.0, 5000.0), size=1000)

    assert visits_after(connection, settings, drive, (0.0, 350.0, 5000.0), size=1) == together
