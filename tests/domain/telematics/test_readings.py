"""The trail of a truck for a map: plausible fixes of one environment, in the order of their times, thinned."""

from datetime import UTC, datetime, timedelta

import pytest

from domain.database.connections import Connection, Tenant
from domain.roads import Point
from domain.telematics import readings
from domain.telematics.readings import read_trail
from tests.factories import make_fleet

NOON = datetime.now(UTC) - timedelta(hours=6)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def test_a_trail_has_the_plausible_fixes_of_its_time_and_its_environment(connection: Connection) -> None:
    fleet = make_fleet(connection)
    truck, other = fleet.trucks[0], fleet.trucks[1]

    def store(tenant: Tenant, minutes: float, *, vehicle_id: object = truck, implausible: bool = False) -> None:
        connection.execute(
            "INSERT INTO positions (company_id, environment, vehicle_id, recorded_at, latitude, longitude, implausible)"
            " VALUES (%s, %s, %s, %s, %s, -90, %s)",
            (tenant.company_id, tenant.environment, vehicle_id, at(minutes), 40 + minutes / 100, implausible),
        )

    for minutes in (5, 1, 3, 9):
        store(fleet.live, minutes)
    store(fleet.sandbox, 2)
    store(fleet.live, 2.5, vehicle_id=other)
    store(fleet.live, 4, implausible=True)

    assert read_trail(connection, fleet.live, truck, at(1), at(5)) == [Point(40 + one / 100, -90) for one in (1, 3, 5)]
    assert read_trail(connection, fleet.live, truck, at(2), None) == [Point(40 + one / 100, -90) for one in (3, 5, 9)]
    assert read_trail(connection, fleet.sandbox, truck, at(0), None) == [Point(40.02, -90)]


def test_a_long_trail_is_thinned_evenly_and_keeps_its_newest_place(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = make_fleet(connection)
    monkeypatch.setattr(readings, "MOST_PLACES", 10)
    connection.execute(
        "INSERT INTO positions (company_id, environment, vehicle_id, recorded_at, latitude, longitude)"
        " SELECT %s, 'live', %s, %s::timestamptz + number * interval '1 second', number, 0"
        " FROM generate_series(0, 60) number",
        (fleet.company_id, fleet.trucks[0], NOON),
    )
    latitudes = [place.latitude for place in read_trail(connection, fleet.live, fleet.trucks[0], NOON, None)]
    assert latitudes == [0, 7, 14, 21, 28, 35, 42, 49, 56, 60]
