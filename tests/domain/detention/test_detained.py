"""Trucks that are kept at a stop: found once, also when late, and never without a proof."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from psycopg.errors import LockNotAvailable
from pyhanko.keys import load_certs_from_pemder_data
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.validation import validate_pdf_signature
from pyhanko_certvalidator import ValidationContext

from domain.accounts.companies import set_policy
from domain.accounts.contacts import IN_CLEAR, Contacts, UnreadableContact
from domain.accounts.policy import Policy
from domain.contract.shapes import Position
from domain.database.connections import Connection, Database
from domain.detention.detained import find_detained
from domain.detention.dwells import Dwell, keep_free_time, read_dwell
from domain.detention.statement import facts, pdf_statement
from domain.housekeeping.retention import forget_evidence
from domain.routes.progress.tracking import process_vehicles
from domain.routes.visits import (
    WITHOUT_EVIDENCE,
    JudgedStay,
    judge_detention_again,
    load_visits,
    note_detention_judged,
    store_visits,
)
from domain.settings import Settings
from domain.signing.signing_keys import signing_key
from domain.telematics.arrivals import ManualStopEvent
from domain.webhooks.events import CapturedEvent, prepare_payloads
from tests.domain.helpers import imported, north_of, place_of, post, visits_of
from tests.domain.webhooks.endpoints import events_of, make_endpoint
from tests.factories import DOT, JOLIET, NEWARK, Fleet, make_fleet

RADIUS = 250.0
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


class Truck:
    """Truck 101 at Joliet, whose appointment is from one hour after its arrival on, for two hours."""

    def __init__(self, connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> None:
        self.connection, self.fleet, self.settings, self.arrived_at = connection, fleet, settings, now
        self.opens_at = now + timedelta(hours=1)
        window = {"start": self.opens_at.isoformat(), "end": (self.opens_at + timedelta(hours=2)).isoformat()}
        self.push(stops=[{**JOLIET, "arrivalWindow": window}, NEWARK])

    def push(self, **changes: Any) -> None:
        self.route_id = imported(self.connection, self.fleet.live, now=self.arrived_at, externalId="LOAD-1", **changes)

    def stand(self, hours: float, *, stop: dict[str, Any] = JOLIET, meters: float = 20.0) -> None:
        """Sends a fix every 10 minutes so long, and one more a minute before, so that it has arrived."""
        minutes = [0.0, 3.0, *range(10, round(hours * 60) + 1, 10)]
        self.send(minutes, stop=stop, meters=meters)

    def drive_off(self, at_hours: float) -> None:
        self.send([at_hours * 60, at_hours * 60 + 2, at_hours * 60 + 4], meters=4_000.0, speed_mph=50.0)

    def send(self, minutes: Any, *, stop: dict[str, Any] = JOLIET, meters: float, speed_mph: float = 0.0) -> None:
        place = north_of(place_of(stop), meters)
        fixes = [
            Position(
                latitude=place.latitude,
                longitude=place.longitude,
                recorded_at=self.arrived_at + timedelta(minutes=one),
                unit_number="101",
                speed_mph=speed_mph,
            )
            for one in minutes
        ]
        now = self.arrived_at + timedelta(minutes=max(minutes))
        post(self.connection, self.fleet.live, fixes, now=now)
        process_vehicles(self.connection, "live", self.fleet.trucks, settings=self.settings, now=now)

    def end_route(self) -> None:
        """The route is completed with the arrival, so its truck is followed no more."""
        self.connection.execute(
            "UPDATE visits SET departed_at = NULL, departure_evidence = NULL WHERE route_id = %s", (self.route_id,)
        )
        self.connection.execute(
            "UPDATE routes SET status = 'completed', completed_at = arrived_at, retry_at = NULL WHERE id = %s",
            (self.route_id,),
        )

    def sweep(self, hours: float, *, limit: int = 500) -> int:
        now = self.arrived_at + timedelta(hours=hours)
        return find_detained(self.connection, radius_meters=RADIUS, now=now, limit=limit)

    def allow(self, *, minutes: float) -> None:
        """The policy's free time is another one from now on."""
        set_policy(self.connection, self.fleet.company_id, Policy(detention_free_minutes=minutes), DOT)

    def stored(self) -> Any:
        asked = "SELECT free_minutes, is_detained FROM dwells WHERE route_id = %s"
        return self.connection.execute(asked, (self.route_id,)).fetchone()

    @property
    def is_to_judge(self) -> bool:
        asked = "SELECT is_to_judge FROM visits WHERE route_id = %s AND stop = 0"
        (found,) = self.connection.execute(asked, (self.route_id,)).fetchall()
        return bool(found[0])

    @property
    def dwell(self) -> Dwell:
        dwell = read_dwell(self.connection, self.fleet.company_id, self.route_id, 0, radius_meters=RADIUS)
        assert dwell is not None
        return dwell

    @property
    def told(self) -> dict[str, str]:
        return dict(facts(self.dwell))


@pytest.fixture
def truck(connection: Connection, fleet: Fleet, settings: Settings, now: datetime) -> Truck:
    connection.execute("UPDATE visits SET is_to_judge = false WHERE is_to_judge")  # other tests have left some
    return Truck(connection, fleet, settings, now)


def test_a_truck_is_detained_once_its_free_time_has_ended_and_a_webhook_says_so_once(truck: Truck) -> None:
    endpoint = make_endpoint(truck.connection, truck.fleet.live, "https://a.example.com", "stop.detained").endpoint
    truck.stand(2.9)
    assert truck.sweep(2.9) == 0, "an early truck waits for its window"

    truck.send([181, 190], meters=20.0)
    assert [truck.sweep(3.2), truck.sweep(3.3)] == [1, 0]

    (event,) = events_of(truck.connection, endpoint.id)
    captured = CapturedEvent(event.id, event.type, event.at, event.route_id, None, event.stop)
    body = json.loads(prepare_payloads(truck.connection, truck.fleet.live, [captured])[event.id])
    assert body["type"] == "stop.detained"
    assert (body["detention"]["stop"], body["detention"]["freeMinutes"]) == (0, 120)
    assert datetime.fromisoformat(body["detention"]["freeUntil"]) == truck.opens_at + timedelta(hours=2)


def test_a_late_pass_finds_a_truck_that_has_left_meanwhile(truck: Truck) -> None:
    endpoint = make_endpoint(truck.connection, truck.fleet.live, "https://a.example.com", "stop.detained").endpoint
    truck.stand(4.0)
    truck.drive_off(4.2)

    assert truck.sweep(30) == 1
    assert events_of(truck.connection, endpoint.id) == [], "an event of yesterday is no news"
    assert truck.dwell.departure is not None
    assert truck.dwell.minutes_beyond == 72
    assert truck.told["Early by"] == "60 minutes; not counted"


def test_a_truck_that_left_in_time_or_fell_silent_is_not_detained(truck: Truck) -> None:
    truck.stand(2.0)
    assert truck.sweep(9) == 0, "nothing shows that it is still there"
    assert truck.dwell.minutes_beyond == 0

    truck.drive_off(2.2)
    truck.send([600, 605], stop=NEWARK, meters=90_000.0, speed_mph=60.0)
    assert truck.sweep(11) == 0


@pytest.mark.parametrize("is_last_stop", [False, True])
def test_a_silence_in_which_a_truck_left_proves_no_minute(truck: Truck, is_last_stop: bool) -> None:
    """It was last seen at the stop an hour after its arrival, and ten hours later it is 56 miles away."""
    endpoint = make_endpoint(truck.connection, truck.fleet.live, "https://a.example.com", "stop.detained").endpoint
    truck.stand(1.0)
    truck.send([600, 602, 604], meters=90_000.0, speed_mph=60.0)
    if is_last_stop:
        truck.end_route()

    assert [truck.sweep(10.1), truck.sweep(10.2)] == [0, 0]
    assert not truck.is_to_judge
    assert events_of(truck.connection, endpoint.id) == []
    assert truck.dwell.minutes_beyond == 0
    assert "at the latest" in truck.told["Departed"]
    assert truck.dwell.stay.last_at == truck.arrived_at + timedelta(hours=1)


def test_a_stop_is_judged_once_the_tracker_has_sent_the_fixes_of_its_silence(truck: Truck) -> None:
    """Back in the net, a tracker sends where it is, and then what it kept meanwhile."""
    truck.stand(1.0)
    truck.send([600, 602, 604], meters=4_000.0, speed_mph=50.0)
    assert truck.sweep(10.1) == 0

    truck.send(range(70, 599, 10), meters=20.0)
    assert (truck.sweep(10.13), truck.dwell.minutes_beyond) == (1, 420)
    truck.connection.execute("DELETE FROM positions WHERE company_id = %s", (truck.fleet.company_id,))
    assert truck.dwell.minutes_beyond == 420


def test_a_silence_takes_no_minute_that_was_proven_before_it(truck: Truck) -> None:
    truck.stand(3.5)
    truck.send([600, 602, 604], meters=90_000.0, speed_mph=60.0)

    assert truck.sweep(10.1) == 1
    assert truck.dwell.minutes_beyond == 30
    assert truck.told["Last seen at the stop"].startswith(f"{truck.arrived_at + timedelta(hours=3.5):%Y-%m-%d %H:%M}")


def test_a_silence_proves_no_minute_once_positions_and_evidence_are_deleted(truck: Truck) -> None:
    truck.stand(3.5)
    truck.send([600, 602, 604], meters=90_000.0, speed_mph=60.0)
    truck.connection.execute("DELETE FROM positions WHERE company_id = %s", (truck.fleet.company_id,))
    assert truck.dwell.minutes_beyond == 30
    truck.connection.execute(f"UPDATE visits SET {WITHOUT_EVIDENCE} WHERE route_id = %s", (truck.route_id,))

    assert truck.dwell.minutes_beyond == 30
    assert "at the latest" in truck.told["Departed"]


def test_a_departure_of_which_the_positions_are_deleted_stays(truck: Truck) -> None:
    truck.stand(4.0)
    truck.drive_off(4.2)
    truck.connection.execute("DELETE FROM positions WHERE company_id = %s", (truck.fleet.company_id,))

    assert truck.sweep(4.3) == 1
    assert truck.dwell.minutes_beyond == 72


def test_a_truck_that_is_on_its_way_out_when_its_free_time_ends_is_not_detained(truck: Truck) -> None:
    """Its departure takes a second fix above 5 mph; the free time ends before that."""
    truck.stand(2.9)
    truck.send([179], meters=4_000.0, speed_mph=50.0)
    truck.send([180.5], meters=4_500.0, speed_mph=4.0)
    assert truck.sweep(3.01) == 0

    truck.send([181, 183], meters=6_000.0, speed_mph=50.0)
    assert truck.sweep(3.1) == 0
    assert truck.dwell.minutes_beyond == 0


@pytest.mark.parametrize("is_last_stop", [False, True])
def test_an_entered_arrival_that_no_position_confirms_is_no_proof(truck: Truck, is_last_stop: bool) -> None:
    """The truck is still on its way, or the stop is stored at a wrong place."""
    truck.connection.execute(
        "INSERT INTO visits (company_id, environment, route_id, stop, vehicle_id, arrived_at, arrival_evidence)"
        " SELECT company_id, environment, id, 0, vehicle_id, %s, %s FROM routes WHERE id = %s",
        (
            truck.arrived_at,
            '{"rule": "", "fixes": [], "source": "dispatcher", "by": "dee@example.com", "reason": "a call",'
            ' "markedAt": "2026-11-28T18:00:00Z"}',
            truck.route_id,
        ),
    )
    truck.send([10, 200, 240], meters=40_000.0, speed_mph=50.0)
    if is_last_stop:
        truck.end_route()

    assert truck.sweep(4.1) == 0
    assert truck.is_to_judge is not is_last_stop, "it is judged once"
    assert truck.dwell.minutes_beyond is None


def test_a_parked_truck_whose_position_drifts_is_detained(truck: Truck) -> None:
    truck.stand(2.9)
    truck.send([178, 185], meters=600.0)

    assert truck.sweep(3.2) == 1


def test_after_the_last_stop_fixes_tell_whether_the_truck_left(truck: Truck) -> None:
    truck.stand(1.0)
    truck.drive_off(1.2)
    truck.send([300, 305], meters=90_000.0, speed_mph=60.0)
    truck.end_route()

    assert truck.sweep(6) == 0
    dwells = truck.connection.execute("SELECT is_detained FROM dwells WHERE route_id = %s", (truck.route_id,))
    assert dwells.fetchall() == [(False,)], "it is judged once"
    assert truck.dwell.departure is not None
    assert truck.dwell.departure.at == truck.arrived_at + timedelta(hours=1.2)


def test_after_the_last_stop_a_truck_that_stays_is_detained(truck: Truck) -> None:
    truck.stand(3.5)
    truck.end_route()

    assert truck.sweep(4) == 1
    assert truck.dwell.minutes_beyond == 30
    assert truck.told["Last seen at the stop"]


def test_after_the_last_stop_a_second_tracker_that_is_elsewhere_takes_no_truck_away(truck: Truck) -> None:
    truck.stand(1.0)
    truck.end_route()
    truck.send([61, 62], meters=400_000.0, speed_mph=60.0)
    truck.send(range(63, 211, 3), meters=20.0)

    assert truck.sweep(4) == 1


def test_a_stop_that_cannot_be_judged_holds_up_no_other(truck: Truck, settings: Settings) -> None:
    """Nothing tells whether its truck stayed: the fixes that it sent are gone."""
    truck.stand(3.5)
    truck.connection.execute("DELETE FROM positions WHERE company_id = %s", (truck.fleet.company_id,))
    later = Truck(truck.connection, make_fleet(truck.connection), settings, truck.arrived_at + timedelta(hours=1))
    later.stand(3.5)

    assert later.sweep(3.6, limit=1) == 1


def test_a_stop_that_was_left_in_time_is_looked_at_again_only_when_it_changes(truck: Truck) -> None:
    truck.stand(2.0)
    truck.sweep(2.1)
    assert truck.is_to_judge, "it is still there"

    truck.drive_off(2.2)
    truck.sweep(2.3)
    assert not truck.is_to_judge

    truck.connection.execute("UPDATE visits SET departed_at = NULL WHERE route_id = %s", (truck.route_id,))
    truck.send([240, 242, 244], meters=4_000.0, speed_mph=50.0)
    assert truck.is_to_judge, "another departure"


def test_a_stop_that_changes_while_a_pass_reads_it_is_judged_by_the_next_one(truck: Truck) -> None:
    truck.stand(2.0)
    truck.drive_off(2.2)
    arrived_at, departed_at = truck.connection.execute(
        "SELECT arrived_at, departed_at FROM visits WHERE route_id = %s", (truck.route_id,)
    ).fetchone() or (None, None)
    assert arrived_at is not None
    read = JudgedStay(truck.route_id, 0, arrived_at, departed_at)

    truck.connection.execute("UPDATE visits SET departed_at = NULL WHERE route_id = %s", (truck.route_id,))
    note_detention_judged(truck.connection, [read])
    assert truck.is_to_judge

    note_detention_judged(truck.connection, [read._replace(departed_at=None)])
    assert not truck.is_to_judge


def test_a_departure_that_was_implied_is_judged_once_somebody_has_seen_it(truck: Truck) -> None:
    truck.stand(4.0)
    truck.drive_off(4.2)
    evidence = "UPDATE visits SET departure_evidence = %s WHERE route_id = %s"
    truck.connection.execute(evidence, ('{"rule": "", "fixes": [], "source": "implied", "stop": 1}', truck.route_id))
    assert truck.sweep(4.3) == 0
    assert not truck.is_to_judge

    visits = load_visits(truck.connection, [truck.route_id])
    (visit,) = visits[truck.route_id].values()
    seen = replace(visit, departure=ManualStopEvent("dee@example.com", "the yard's camera", truck.arrived_at))
    store_visits(truck.connection, {truck.route_id: {0: seen}}, now=truck.arrived_at)
    assert truck.sweep(4.4) == 1


def test_a_departure_that_nothing_showed_stays_so_when_evidence_is_forgotten(truck: Truck) -> None:
    truck.stand(1.0)
    truck.end_route()
    truck.connection.execute(
        "UPDATE visits SET departed_at = %s, departure_evidence = %s WHERE route_id = %s",
        (
            truck.arrived_at + timedelta(hours=9),
            '{"rule": "", "fixes": [], "source": "implied", "stop": 1}',
            truck.route_id,
        ),
    )
    truck.connection.execute("DELETE FROM positions WHERE company_id = %s", (truck.fleet.company_id,))
    later = truck.arrived_at + timedelta(days=92)
    assert forget_evidence(truck.connection, days=90, now=later, limit=1_000) >= 1

    assert truck.dwell.arrival.rule == ""
    assert truck.dwell.minutes_beyond is None
    assert "at the latest" in truck.told["Departed"]


def test_a_stop_whose_appointment_was_moved_to_an_earlier_hour_is_judged_again(truck: Truck) -> None:
    truck.stand(2.5)
    truck.drive_off(2.7)
    assert truck.sweep(2.8) == 0
    assert not truck.is_to_judge

    truck.push(stops=[JOLIET, NEWARK])
    assert truck.sweep(2.9) == 1
    assert truck.sweep(3.0) == 0
    assert not truck.is_to_judge


def test_a_truck_that_parks_at_its_first_stop_overnight_is_kept_only_beyond_its_start(truck: Truck) -> None:
    """Its own rest was claimed as detention."""
    start = truck.arrived_at + timedelta(hours=10)
    truck.push(stops=[JOLIET, NEWARK], scheduledStart=start.isoformat())

    truck.stand(9.8)
    assert (truck.sweep(9.8), truck.dwell.minutes_beyond) == (0, 0)
    truck.stand(10.5)

    assert (truck.sweep(10.5), truck.dwell.free.ends_at, truck.dwell.minutes_beyond) == (1, start, 30)


def test_so_is_a_truck_whose_first_place_is_that_of_two_stops(truck: Truck) -> None:
    start = truck.arrived_at + timedelta(hours=10)
    truck.push(stops=[JOLIET, {**JOLIET, "name": "Joliet dock 9"}, NEWARK], scheduledStart=start.isoformat())

    truck.stand(9.8)
    assert truck.sweep(9.8) == 0
    second = read_dwell(truck.connection, truck.fleet.company_id, truck.route_id, 1, radius_meters=RADIUS)
    assert second is not None
    assert second.free.ends_at == start


def test_a_truck_that_parked_there_and_leaves_in_time_is_looked_at_no_more(truck: Truck) -> None:
    truck.push(stops=[JOLIET, NEWARK], scheduledStart=(truck.arrived_at + timedelta(hours=10)).isoformat())
    truck.stand(9.8)
    truck.drive_off(9.9)

    assert (truck.sweep(10.5), truck.is_to_judge) == (0, False)


def test_a_statement_names_the_other_stops_of_the_same_stay(truck: Truck) -> None:
    window = {"start": truck.opens_at.isoformat()}
    truck.route_id = imported(
        truck.connection,
        truck.fleet.live,
        now=truck.arrived_at,
        externalId="LOAD-2",
        stops=[{**JOLIET, "arrivalWindow": window}, {**JOLIET, "name": "Joliet dock 9"}, NEWARK],
    )
    for stop in (0, 1):
        truck.connection.execute(
            "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at)"
            " SELECT company_id, environment, id, %s, %s FROM routes WHERE id = %s",
            (stop, truck.arrived_at, truck.route_id),
        )

    assert truck.told["One stay with"] == "stop 2, at the same place: this time is claimed once for all of them"


def test_a_policy_that_changes_later_counts_from_the_next_pass_on(truck: Truck) -> None:
    truck.stand(3.5)
    truck.sweep(3.6)
    truck.allow(minutes=60)
    assert truck.dwell.free_minutes == 120

    assert truck.sweep(3.7) == 1
    assert (truck.dwell.free_minutes, truck.dwell.minutes_beyond) == (60, 90)


@pytest.mark.parametrize("minutes", [60, 150])
def test_who_was_told_of_a_stop_is_not_told_again_when_the_free_time_changes(truck: Truck, minutes: float) -> None:
    endpoint = make_endpoint(truck.connection, truck.fleet.live, "https://a.example.com", "stop.detained").endpoint
    truck.stand(3.5)
    truck.sweep(3.6)

    truck.allow(minutes=minutes)
    truck.sweep(3.7)
    truck.send([230, 240], meters=20.0)
    truck.sweep(4.1)

    assert len(events_of(truck.connection, endpoint.id)) == 1
    assert truck.stored() == (minutes, True)
    assert truck.dwell.free.ends_at == truck.opens_at + timedelta(minutes=minutes)


def test_a_longer_free_time_takes_back_what_a_shorter_one_had_found(truck: Truck) -> None:
    truck.stand(3.5)
    truck.drive_off(3.6)
    assert truck.sweep(3.7) == 1

    truck.allow(minutes=180)
    assert truck.sweep(3.8) == 0
    assert truck.stored() == (180, False)
    assert truck.dwell.minutes_beyond == 0
    assert not truck.is_to_judge


def test_a_stop_that_was_left_in_time_is_told_once_a_shorter_free_time_makes_it_detained(truck: Truck) -> None:
    endpoint = make_endpoint(truck.connection, truck.fleet.live, "https://a.example.com", "stop.detained").endpoint
    truck.stand(2.5)
    truck.drive_off(2.7)
    assert truck.sweep(2.8) == 0

    truck.allow(minutes=60)
    assert [truck.sweep(2.9), truck.sweep(3.0)] == [1, 0]
    assert len(events_of(truck.connection, endpoint.id)) == 1


def test_after_the_last_stop_too(truck: Truck) -> None:
    endpoint = make_endpoint(truck.connection, truck.fleet.live, "https://a.example.com", "stop.detained").endpoint
    truck.stand(2.5)
    truck.drive_off(2.7)
    truck.send([300, 305], meters=90_000.0, speed_mph=60.0)
    truck.end_route()
    assert truck.sweep(6) == 0
    assert truck.stored() == (120, False)

    truck.allow(minutes=60)
    assert truck.sweep(6.1) == 1
    assert len(events_of(truck.connection, endpoint.id)) == 1


def test_a_signed_statement_keeps_its_free_time_and_the_stop_is_judged_by_it(truck: Truck) -> None:
    endpoint = make_endpoint(truck.connection, truck.fleet.live, "https://a.example.com", "stop.detained").endpoint
    truck.stand(2.5)
    keep_free_time(truck.connection, truck.fleet.company_id, truck.dwell, now=truck.arrived_at)
    truck.allow(minutes=60)
    assert truck.sweep(2.6) == 0
    keep_free_time(truck.connection, truck.fleet.company_id, truck.dwell, now=truck.arrived_at + timedelta(hours=3))

    truck.send([170, 180, 190], meters=20.0)
    assert [truck.sweep(3.2), truck.sweep(3.3)] == [1, 0]
    assert (truck.dwell.free_minutes, truck.dwell.minutes_beyond) == (120, 10)
    assert truck.dwell.signed_at == truck.arrived_at
    assert len(events_of(truck.connection, endpoint.id)) == 1
    truck.allow(minutes=30)
    truck.sweep(3.4)
    assert truck.stored() == (120, True)


def test_the_statement_of_an_earlier_arrival_binds_no_later_one(truck: Truck) -> None:
    truck.stand(2.5)
    keep_free_time(truck.connection, truck.fleet.company_id, truck.dwell, now=truck.arrived_at)
    truck.connection.execute("UPDATE dwells SET arrived_at = arrived_at - interval '1 minute'")
    truck.send([170, 180, 190], meters=20.0)
    assert truck.sweep(3.2) == 1
    assert truck.dwell.signed_at is None

    truck.allow(minutes=60)
    truck.sweep(3.3)
    assert truck.dwell.free_minutes == 60


def test_visits_that_are_to_be_judged_again_change_behind_the_locks_of_their_routes(
    database: Database, settings: Settings, now: datetime
) -> None:
    with database.transaction() as connection:
        truck = Truck(connection, make_fleet(connection), settings, now)
        truck.stand(2.5)
        note_detention_judged(connection, [JudgedStay(truck.route_id, 0, truck.arrived_at, None)])
    with database.transaction() as one, database.transaction() as other:
        one.execute("SELECT FROM routes WHERE id = %s FOR UPDATE", (truck.route_id,))
        other.execute("SET LOCAL lock_timeout = '20ms'")
        with pytest.raises(LockNotAvailable), other.transaction():
            judge_detention_again(other, truck.fleet.company_id, since=now - timedelta(days=7), least_minutes=60)


def test_a_policy_of_one_company_and_a_change_of_anything_else_have_nothing_judged_again(truck: Truck) -> None:
    truck.stand(2.5)
    truck.drive_off(2.7)
    truck.sweep(2.8)
    other = make_fleet(truck.connection)
    set_policy(truck.connection, other.company_id, Policy(detention_free_minutes=30), DOT)
    set_policy(truck.connection, truck.fleet.company_id, Policy(answer_by_miles=30), DOT)

    assert truck.sweep(2.9) == 0
    assert not truck.is_to_judge


def test_a_statement_is_signed_and_a_change_of_it_shows(truck: Truck) -> None:
    truck.stand(4.0)
    truck.drive_off(4.2)
    key = signing_key(truck.connection, IN_CLEAR, now=truck.arrived_at)
    assert signing_key(truck.connection, IN_CLEAR, now=truck.arrived_at) == key, "it is made once"
    file = pdf_statement(truck.dwell, key)

    assert file.startswith(b"%PDF-")
    assert is_intact(file, key.certificate)
    changed = file.replace(b"/Title", b"/Tilte", 1)
    assert changed != file
    assert not is_intact(changed, key.certificate)
    assert b"PRIVATE" not in file


def is_intact(file: bytes, certificate: str) -> bool:
    (signature,) = PdfFileReader(BytesIO(file)).embedded_signatures
    trusted = ValidationContext(trust_roots=list(load_certs_from_pemder_data(certificate.encode())))
    return bool(validate_pdf_signature(signature, signer_validation_context=trusted).bottom_line)


def test_the_private_key_is_sealed_where_contacts_are(connection: Connection, now: datetime) -> None:
    connection.execute("DELETE FROM signing_keys")
    contacts = Contacts("A" * 43 + "=")
    key = signing_key(connection, contacts, now=now)

    (stored,) = connection.execute("SELECT private_key FROM signing_keys").fetchall()
    assert "PRIVATE KEY" in key.private_key
    assert "PRIVATE KEY" not in stored[0]
    with pytest.raises(UnreadableContact):
        signing_key(connection, IN_CLEAR, now=now)


def test_another_company_reads_nothing(truck: Truck) -> None:
    truck.stand(1.0)
    other = make_fleet(truck.connection)

    assert visits_of(truck.connection, truck.route_id)
    assert read_dwell(truck.connection, other.company_id, truck.route_id, 0, radius_meters=RADIUS) is None
    assert read_dwell(truck.connection, truck.fleet.company_id, UUID(int=1), 0, radius_meters=RADIUS) is None
    assert read_dwell(truck.connection, truck.fleet.company_id, truck.route_id, 1, radius_meters=RADIUS) is None
