"""Closures in files of stations, their end, and their lists."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from domain.database.connections import Connection
from domain.stations.closures import closures_in_force, forget_closures, mark_closed, mark_open
from domain.stations.stations import store_station_rows
from tests.factories import DOT, Fleet

HOUR = timedelta(hours=1)


def stored(connection: Connection, path: Path, now: datetime, *cells: str | None, column: bool = True) -> list[str]:
    """Imports a file with a station for each cell of `closed_until`. Returns the refused rows."""
    lines = ["station_id,name,latitude,longitude" + (",closed_until" if column else "")]
    lines += [f"C{number},Stop,41,-86" + (f",{cell or ''}" if column else "") for number, cell in enumerate(cells)]
    path.write_text("\n".join(lines))
    return [one.message for one in store_station_rows(connection, path, now=now).rejected]


def closed(connection: Connection, now: datetime) -> dict[str, datetime]:
    return {one.station_id: one.closed_until for one in closures_in_force(connection, None, now=now)}


@pytest.fixture
def path(connection: Connection, tmp_path: Path) -> Path:
    connection.execute("DELETE FROM station_closures")
    return tmp_path / "stations.csv"


def test_a_file_closes_stations_and_opens_others(connection: Connection, path: Path, now: datetime) -> None:
    until = now + HOUR
    elsewhere = until.astimezone().isoformat()
    assert stored(connection, path, now, until.isoformat(), elsewhere, None) == []
    assert closed(connection, now) == {"C0": until, "C1": until}
    assert stored(connection, path, now, None, None, None, column=False) == []
    assert closed(connection, now) == {"C0": until, "C1": until}, "a file without the column says nothing"
    assert stored(connection, path, now, None, (now - HOUR).isoformat(), until.isoformat()) == []
    assert closed(connection, now) == {"C2": until}


def test_a_time_in_a_file_that_makes_no_sense_is_told(connection: Connection, path: Path, now: datetime) -> None:
    far = (now + timedelta(days=400)).isoformat()
    faults = stored(connection, path, now, far, "tomorrow", "2026-12-01T08:00:00")
    assert sum("the station is stored without it" in fault for fault in faults) == 1
    assert len(faults) == 3
    assert closed(connection, now) == {}


def test_a_closure_ends_by_itself_and_is_forgotten(
    connection: Connection, fleet: Fleet, path: Path, now: datetime
) -> None:
    stored(connection, path, now, None)
    mark_closed(connection, "C0", fleet.company_id, now + HOUR, DOT, now=now)
    assert [one.company_id for one in closures_in_force(connection, fleet.company_id, now=now)] == [fleet.company_id]
    assert closures_in_force(connection, None, now=now) == []
    assert closures_in_force(connection, fleet.company_id, now=now + HOUR) == []
    assert not mark_open(connection, "C0", fleet.company_id, DOT, now=now + HOUR)
    assert forget_closures(connection, days=1, now=now + timedelta(days=2), limit=10) == 1


def test_the_same_closure_again_changes_nothing(connection: Connection, path: Path, now: datetime) -> None:
    stored(connection, path, now, None)
    assert mark_closed(connection, "C0", None, now + HOUR, DOT, now=now)
    (first,) = closures_in_force(connection, None, now=now)
    assert not mark_closed(connection, "C0", None, now + HOUR, DOT, now=now + HOUR / 2)
    assert mark_closed(connection, "C0", None, now + HOUR, DOT._replace(reason="flooded"), now=now)
    (again,) = closures_in_force(connection, None, now=now)
    assert (again.id, again.reason) == (first.id, "flooded")
    assert mark_closed(connection, "C0", None, now + 2 * HOUR, DOT, now=now)
    (longer,) = closures_in_force(connection, None, now=now)
    assert longer.id != first.id
