"""The feed stores, drops or rejects positions."""

from datetime import datetime, timedelta

import pytest

from domain.database.connections import Connection
from domain.ids import new_id
from tests.domain.helpers import positions_at, post
from tests.domain.trucks import dropped, minutes, position, stored_fixes
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet
from tests.rows import named


def test_an_unknown_vehicle_is_rejected_by_its_index_and_the_others_are_stored(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    feed = post(
        connection,
        fleet.live,
        [position(now, unit_number="101"), position(now, unit_number="999"), position(now, unit_number="102")],
        now=now,
    )

    assert feed.accepted == 2
    assert [(fault.index, fault.message) for fault in feed.rejected] == [(1, "unitNumber: unknown vehicle '999'")]
    assert stored_fixes(connection, fleet) == 2


def test_an_ambiguous_vin_is_rejected_not_guessed(connection: Connection, fleet: Fleet, now: datetime) -> None:
    vin = "1XKAD49X0CJ000101"
    connection.execute(
        "INSERT INTO vehicles (id, company_id, unit_number, vin) VALUES (%s, %s, '301', %s)",
        (new_id(), fleet.company_id, vin),
    )

    feed = post(connection, fleet.live, [position(now, unit_number=None, vin=vin)], now=now)

    assert [fault.message for fault in feed.rejected] == [f"vin: fits more than one vehicle '{vin}'"]


def test_references_to_different_vehicles_are_rejected(connection: Connection, fleet: Fleet, now: datetime) -> None:
    feed = post(connection, fleet.live, [position(now, unit_number="101", vehicle_id=fleet.shown_trucks[1])], now=now)

    assert [fault.message for fault in feed.rejected] == ["the references name different vehicles"]


def test_a_vehicle_is_known_by_unit_number_vin_and_id(connection: Connection, fleet: Fleet, now: datetime) -> None:
    feed = post(
        connection,
        fleet.live,
        [
            position(now, unit_number="101"),
            position(now - minutes(1), vin="1XKAD49X0CJ000101"),
            position(now - minutes(2), vehicle_id=fleet.shown_trucks[0]),
        ],
        now=now,
    )

    assert (feed.accepted, feed.rejected, feed.dropped) == (3, [], {})


@pytest.mark.parametrize("name", ["unit_number", "vin"])
def test_a_mapping_beats_the_stored_value(connection: Connection, fleet: Fleet, now: datetime, name: str) -> None:
    value = {"unit_number": "101", "vin": "1XKAD49X0CJ000101"}[name]
    connection.execute(
        "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, %s, %s, %s)",
        (fleet.company_id, name, value, fleet.trucks[1]),
    )

    post(connection, fleet.live, [position(now, **{name: value})], now=now)

    (row,) = named(connection).execute(
        "SELECT vehicle_id FROM positions WHERE vehicle_id = ANY(%s)", (list(fleet.trucks),)
    )
    assert row.vehicle_id == fleet.trucks[1]


def test_a_vehicle_or_mapping_of_another_company_is_unknown(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    other = make_fleet(connection)
    connection.execute("UPDATE vehicles SET unit_number = 'theirs' WHERE id = %s", (other.trucks[0],))
    connection.execute(
        "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, 'unit_number', 'mapped', %s)",
        (other.company_id, other.trucks[0]),
    )

    feed = post(
        connection,
        fleet.live,
        [
            position(now, vehicle_id=other.shown_trucks[0]),
            position(now, unit_number="theirs"),
            position(now, unit_number="mapped"),
        ],
        now=now,
    )

    assert (feed.accepted, len(feed.rejected)) == (0, 3)
    assert stored_fixes(connection, other) == 0


def test_a_repeat_is_accepted_counted_and_stored_once(connection: Connection, fleet: Fleet, now: datetime) -> None:
    post(connection, fleet.live, [position(now, unit_number="101")], now=now)

    feed = post(
        connection,
        fleet.live,
        [
            position(now, unit_number="101"),
            position(now, vehicle_id=fleet.shown_trucks[0]),
            position(now, unit_number="102"),
        ],
        now=now,
    )

    assert (feed.accepted, feed.rejected, feed.dropped) == (3, [], {"repeated": 2})
    assert stored_fixes(connection, fleet) == 2
    assert dropped(connection, fleet) == {"repeated": 2}


def test_an_inaccurate_fix_is_accepted_counted_and_not_stored(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    feed = post(connection, fleet.live, [position(now, unit_number="101", accuracy_meters=201.0)], now=now)

    assert (feed.accepted, feed.dropped) == (1, {"inaccurate": 1})
    assert stored_fixes(connection, fleet) == 0
    assert dropped(connection, fleet) == {"inaccurate": 1}


def test_a_time_ahead_is_dropped_live_and_kept_in_the_sandbox(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    ahead = [position(now + minutes(6), unit_number="101")]

    assert post(connection, fleet.live, ahead, now=now).dropped == {"in_the_future": 1}
    assert post(connection, fleet.sandbox, ahead, now=now).dropped == {}
    assert stored_fixes(connection, fleet) == 1


def test_the_last_position_is_the_newest_and_not_the_last_received(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    for place, minutes_later in ((JOLIET, 0), (NEWARK, 10), (PERRYSBURG, 5)):
        at = now + timedelta(minutes=minutes_later)
        post(connection, fleet.live, positions_at(place, at, count=2), now=now + timedelta(minutes=15))

    track = named(connection).execute("SELECT * FROM tracks WHERE vehicle_id = %s", (fleet.trucks[0],)).fetchone()
    assert track is not None
    assert (track.latitude, track.longitude) == (NEWARK["latitude"], NEWARK["longitude"])
    assert (track.oldest_at, track.newest_at) == (now, now + timedelta(minutes=10, seconds=30))
