"""Fixes of trucks far from every stop, or that stand at one, are not loaded, and everything is as if they were."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.burn.shortfalls import NextLook
from domain.contract.shapes import Position
from domain.database.connections import Connection
from domain.documents import PlaceDocument
from domain.lifecycle import Environment
from domain.roads import Point, great_circle_miles
from domain.roads.sphere import METERS_PER_MILE
from domain.settings import Settings
from domain.telematics import fix_batches, fixes_to_visits
from domain.telematics.arrivals import Fix, Visit
from domain.telematics.fix_batches import DrivenStretch, ReceivedFix, load_fix_batches, load_stretches
from domain.telematics.fixes_to_visits import (
    FuelVisit,
    OpenRoute,
    believed_fixes,
    fuel_visits_after,
    moves_nothing,
    visits_after,
)
from domain.telematics.tracks import Track
from tests.domain.helpers import post
from tests.domain.trucks import HOME, active_route, minutes, process
from tests.factories import Fleet
from tests.repeatable import examples

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
EARLY = timedelta(hours=12)
TRUCK_ID = UUID(int=1)


def stretch_of(fixes: list[Fix]) -> DrivenStretch:
    latitudes, longitudes = [fix.latitude for fix in fixes], [fix.longitude for fix in fixes]
    bounds = min(latitudes), max(latitudes), min(longitudes), max(longitudes)
    return DrivenStretch(TRUCK_ID, fixes[0].recorded_at, fixes[-1].recorded_at, *bounds)


Degrees = tuple[float, float]
OFF = st.tuples(st.floats(-0.01, 0.01), st.floats(-0.01, 0.01))


@pytest.mark.slow
@hypothesis_settings(deadline=None, max_examples=examples(300), derandomize=True)
@example((0.0, 179.999), [(0.0, 0.002)], [(0.0, 0.0)], -3.0, 250.0)  # across the antimeridian
@example((60.0, 0.0), [(0.0, 0.003)], [(0.0, 0.0)], -3.0, 250.0)  # a degree of longitude is half as long
@example((41.4, -88.1), [(0.0, 0.0)], [(0.01, 0.0)] * 5, 3.0, 250.0)  # departed earlier than is known
@example((41.4, -88.1), [(0.0, 0.0)], [(0.001, 0.0), (0.0, 0.002)] * 3, None, 250.0)  # it stands there
@example((0.0, 179.999), [(0.0, 0.001)], [(0.0, 0.0), (0.0, 0.002)], None, 1000.0)
@given(
    st.sampled_from([(41.4, -88.1), (0.0, 179.999), (-70.0, -179.999), (88.995, 10.0), (89.9, 0.0)]),
    st.lists(OFF, min_size=1, max_size=3),
    st.lists(OFF, min_size=1, max_size=8),
    st.none() | st.floats(-3, 3),
    st.sampled_from([100.0, 250.0, 1000.0]),
)
def test_a_stretch_that_moves_nothing_changes_no_visit(
    place: Degrees, stops: list[Degrees], way: list[Degrees], departed: float | None, radius_meters: float
) -> None:
    def at(off: Degrees) -> Point:
        return Point(place[0] + off[0], (place[1] + off[1] + 180) % 360 - 180)

    points = [at(stop) for stop in stops]
    route = OpenRoute(
        *(UUID(int=2), UUID(int=3), "live", TRUCK_ID, "active", NOON),
        [PlaceDocument(latitude=stop.latitude, longitude=stop.longitude) for stop in points],
        *(NOON, NOON - EARLY),
    )
    fixes = [Fix(NOON + minutes(number), *at(off), speed_mph=30.0) for number, off in enumerate(way)]
    track = Track("(0,1)", TRUCK_ID, NOON, NOON - EARLY, NOON + EARLY, *at(way[-1]), None, None)
    departed_at = NOON + minutes(departed) if departed is not None else None
    before = {0: Visit(NOON - minutes(9), departed_at=departed_at)}
    if moves_nothing(route, before, stretch_of(fixes), radius_meters=radius_meters):
        newest = DrivenStretch.of_newest(track, NOON + minutes(10))
        assert moves_nothing(route, before, newest, radius_meters=radius_meters)
        assert all(
            (great_circle_miles(stop, fix.point) * METERS_PER_MILE <= radius_meters)
            is (departed is None and stop is points[0])
            for stop in points
            for fix in fixes
        )
        received = [ReceivedFix(fix, fix.recorded_at) for fix in fixes]
        with patch.object(fixes_to_visits, "_stay", return_value=False):
            after = visits_after(route, track, before, received, early=EARLY, radius_meters=radius_meters)
        assert after == before


@pytest.mark.parametrize(
    ("arrived", "miles", "reached", "expected"),
    [
        (-1, 0.1, 1, True),
        (-1, 0.2, 1, False),  # it drifts out of the radius
        (1, 0.1, 1, False),  # it came within the stretch
        (-1, 0.1, 2, False),  # it has reached another stop since
    ],
)
def test_a_truck_that_stands_at_its_last_stop_moves_nothing(
    arrived: float, miles: float, reached: int, expected: bool
) -> None:
    stops = [PlaceDocument(latitude=41.0 + number, longitude=-88.0) for number in range(4)]
    route = OpenRoute(*(UUID(int=2), UUID(int=3), "live", TRUCK_ID, "active", NOON), stops, *(NOON, NOON - EARLY))
    before = {0: Visit(NOON - minutes(90), departed_at=NOON - minutes(80)), 1: Visit(NOON + minutes(arrived))}
    if reached > 1:
        before[reached] = Visit(NOON - minutes(9), departed_at=NOON - minutes(8))
    fixes = [Fix(NOON + minutes(number), 42.0 + miles / 69 * number / 5, -88.0) for number in range(6)]
    assert moves_nothing(route, before, stretch_of(fixes), radius_meters=250) is expected


@pytest.mark.parametrize(
    ("latitude", "arrived", "departed", "expected"),
    [
        (42.0, None, None, True),
        (41.5, None, None, False),  # the stretch leads along it
        (42.0, -50, None, False),  # the truck has not left it yet
        (42.0, -50, -40, True),
        (42.0, -50, 5, False),  # it may have left sooner
    ],
)
def test_a_stretch_far_from_every_fuel_stop_moves_nothing(
    latitude: float, arrived: float | None, departed: float | None, expected: bool
) -> None:
    def text(moment: float | None) -> str | None:
        return (NOON + minutes(moment)).isoformat() if moment is not None else None

    fuel = FuelVisit(latitude=latitude, longitude=-88.0, arrivedAt=text(arrived), departedAt=text(departed))
    route = OpenRoute(
        *(UUID(int=2), UUID(int=3), "live", TRUCK_ID, "active", NOON),
        [PlaceDocument(latitude=40.0, longitude=-88.0)],
        *(NOON, NOON - EARLY),
        [fuel],
    )
    track = Track("(0,1)", TRUCK_ID, NOON, NOON - EARLY, NOON + EARLY, 41.53, -88.0, None, None)
    fixes = [Fix(NOON + minutes(number), 41.5 + 0.01 * number, -88.0, speed_mph=0.0) for number in range(4)]
    before = {0: Visit(NOON - minutes(90), departed_at=NOON - minutes(80))}

    assert moves_nothing(route, before, stretch_of(fixes), radius_meters=250) is expected
    received = [ReceivedFix(fix, fix.recorded_at) for fix in fixes]
    if expected:
        with patch.object(fixes_to_visits, "_stay", return_value=False):
            assert fuel_visits_after(route, track, before, received, early=EARLY, radius_meters=250) is None


@hypothesis_settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    st.sampled_from([0.0, 41.0, 60.0]),
    st.lists(st.tuples(st.sampled_from([1, 30, 900]), st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=9),
    st.sampled_from([0.005, 0.05, 0.5]),
)
def test_no_fix_of_a_stretch_is_implausible(
    connection: Connection,
    fleet: Fleet,
    now: datetime,
    latitude: float,
    steps: list[tuple[int, float, float]],
    degrees: float,
) -> None:
    with connection.transaction(force_rollback=True):
        moment, north, east, fixes = now - minutes(290), latitude, -88.0, list[Position]()
        stood = 6 * [(900, 0.0, 0.0)]  # after fewer fixes there is no stretch
        for seconds, more_north, more_east in stood + steps:
            moment += timedelta(seconds=seconds)
            north, east = north + degrees * more_north, east + degrees * more_east
            fixes.append(Position(north, east, moment, unit_number="101", fuel_percent=50 + 20 * more_east))
        post(connection, fleet.live, fixes, now=now)
        first_at = fixes[0].recorded_at
        look = NextLook(now - minutes(150), below_percent=45.0, by=now - minutes(5))
        track = Track("(0,1)", fleet.trucks[0], first_at, first_at, moment, north, east, None, None)
        track = track._replace(look_from=look.since, look_below_percent=look.below_percent, look_by=look.by)
        since = {track.vehicle_id: fixes[6 + len(steps) // 2].recorded_at}
        stretches = load_stretches(connection, Environment.LIVE, [track], since, portion=50)
        (batch,) = load_fix_batches(connection, Environment.LIVE, [track], since, portion=50).values()
        believed, flags = believed_fixes(batch.fixes)
        if stretches:
            assert not flags
            due = [one.fix.recorded_at for one in believed if look.is_due(one.fix.recorded_at, one.fuel_percent)]
            expected = stretch_of([one.fix for one in believed])
            assert [*stretches.values()] == [
                expected._replace(vehicle_id=track.vehicle_id, due_at=due[-1] if due else None)
            ]
        elif all(seconds == 900 for seconds, *_ in steps):
            assert degrees == 0.5, "an ordinary way is a stretch"


@pytest.mark.parametrize(("degrees", "comes_back"), [(0.01, False), (0.01, True), (0.0, False)])
def test_the_fixes_of_a_truck_on_its_road_or_standing_are_not_loaded(
    connection: Connection,
    fleet: Fleet,
    settings: Settings,
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
    degrees: float,
    comes_back: bool,
) -> None:
    active_route(connection, settings, fleet, now=now)
    fixes = [
        Position(
            HOME.latitude,
            HOME.longitude + degrees * number,
            now + minutes(4 + number),
            unit_number="101",
            speed_mph=31.0,
        )
        for number in range(1, 31)
    ]
    if comes_back:
        fixes.append(Position(HOME.latitude, HOME.longitude, now + minutes(70), unit_number="101"))
    post(connection, fleet.live, fixes[:5], now=now + minutes(9))
    process(connection, settings, fleet, now=now + minutes(9))
    post(connection, fleet.live, fixes[5:], now=now + minutes(71))
    connection.execute("UPDATE tracks SET unprocessed_from = %s", (fixes[20].recorded_at,))
    loaded, asked_for = list[UUID](), list[UUID]()

    def loads(connection: Connection, environment: str, of: list[Track], *rest: Any, portion: int) -> object:
        loaded.extend(track.vehicle_id for track in of)
        return load_fix_batches(connection, environment, of, *rest, portion=portion)

    def asks(connection: Connection, environment: str, of: list[Track], *rest: Any, portion: int) -> object:
        asked_for.extend(track.vehicle_id for track in of)
        return load_stretches(connection, environment, of, *rest, portion=portion)

    monkeypatch.setattr(fix_batches, "load_fix_batches", loads)
    monkeypatch.setattr(fix_batches, "load_stretches", asks)
    process(connection, settings, fleet, now=now + minutes(71))
    assert (loaded, asked_for) == ([fleet.trucks[0]] * comes_back, [fleet.trucks[0]] * (not comes_back))


def test_a_truck_that_was_silent_for_days_is_judged_with_its_fixes_before(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    moments = [now - timedelta(days=days) for days in (40, 9, 8, 7, 6, 5, 4)] + [now - minutes(1), now]
    others = [now - minutes(number) for number in range(7, -1, -1)]
    fixes = [Position(41.0, -88.0, moment, unit_number="101") for moment in moments]
    fixes += [Position(41.0, -88.0, moment, unit_number="102") for moment in others]
    post(connection, fleet.live, fixes, now=now)
    of = [
        Track("(0,1)", vehicle_id, now, oldest_at, now, 41.0, -88.0, None, None)
        for vehicle_id, oldest_at in zip(fleet.trucks, (moments[0], others[0]), strict=False)
    ]
    since = dict.fromkeys(fleet.trucks[:2], now - minutes(1))

    batches = load_fix_batches(connection, Environment.LIVE, of, since, portion=50)
    loaded = [[one.fix.recorded_at for one in batches[vehicle_id].fixes] for vehicle_id in fleet.trucks[:2]]
    assert loaded == [moments[1:], others]
    assert [*load_stretches(connection, Environment.LIVE, of, since, portion=50)] == [fleet.trucks[1]]
