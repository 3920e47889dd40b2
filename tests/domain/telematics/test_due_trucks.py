"""New positions make trucks due; finding them costs little."""

from datetime import datetime, timedelta
from uuid import UUID

from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.contract.shapes import Position
from domain.database.connections import Connection
from domain.lifecycle import RouteStatus
from domain.queue.jobs import SWEEP_GRACE, Job, process_positions_job
from domain.settings import Settings
from domain.telematics.arrivals import TruckRoute, current_route
from domain.telematics.tracks import lost_processing
from tests.conftest import own_database
from tests.domain.helpers import imported, north_of, positions_at, post
from tests.domain.trucks import HOME, active_route, hours, minutes, position, process, stand_at
from tests.factories import JOLIET, NEWARK, Fleet, make_fleet
from tests.jobs import jobs_of
from tests.repeatable import examples
from tests.rows import named, rows_read


def heard_of(connection: Connection, settings: Settings, fleet: Fleet, at: datetime) -> None:
    """Truck 101 has sent a fix from far away, so that its next one is not the first after a silence."""
    away = north_of(HOME, 100_000)
    post(connection, fleet.live, [Position(away.latitude, away.longitude, at, unit_number="101")], now=at)
    process(connection, settings, fleet, now=at)
    jobs_of(connection)


def test_a_truck_without_an_open_route_causes_no_job(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now, vehicle={"unitNumber": "102"})
    heard_of(connection, settings, fleet, now - minutes(1))

    post(connection, fleet.live, [position(now, unit_number="101")], now=now)
    assert jobs_of(connection) == []


def test_the_first_fix_after_a_silence_waits_for_the_sweep_because_its_route_may_be_imported_meanwhile(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    def found_by_the_sweep(at: datetime, *, live: bool = True) -> bool:
        tenant = fleet.live if live else fleet.sandbox
        post(connection, tenant, positions_at(JOLIET, at, count=1), now=at)
        assert jobs_of(connection) == []
        lost = lost_processing(connection, now=at + SWEEP_GRACE).get((tenant.environment, fleet.company_id))
        process(connection, settings, fleet, now=at, live=live)
        return lost == [fleet.trucks[0]]

    assert found_by_the_sweep(now)
    assert not found_by_the_sweep(now + minutes(13))
    assert found_by_the_sweep(now + minutes(28))
    assert found_by_the_sweep(now, live=False)
    assert not found_by_the_sweep(now + hours(5), live=False)  # its time is simulated: the import looks at any track


def test_the_last_fix_of_a_parked_truck_that_is_sent_again_with_those_of_others_makes_nothing_wait(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    """Many systems send the last position of each truck every minute."""
    parked = now - minutes(60)
    heard_of(connection, settings, fleet, parked)
    away = north_of(HOME, 100_000)

    def send_all(at: datetime) -> list[UUID]:
        last = Position(away.latitude, away.longitude, parked, unit_number="101")
        post(connection, fleet.live, [last, position(at, unit_number="102")], now=at)
        waiting = lost_processing(connection, now=at + SWEEP_GRACE).get(("live", fleet.company_id), [])
        process(connection, settings, fleet, now=at)
        return waiting

    assert send_all(now) == [fleet.trucks[1]]
    assert send_all(now + minutes(1)) == []


def test_the_trucks_of_open_routes_are_processed_by_one_job(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    imported(connection, fleet.live, now=now)
    imported(connection, fleet.live, now=now, vehicle={"unitNumber": "102"})

    post(connection, fleet.live, [position(now, unit_number="101"), position(now, unit_number="102")], now=now)

    (job,) = jobs_of(connection)
    assert job.payload["environment"] == "live"
    assert sorted(job.payload["vehicle_ids"]) == sorted(fleet.trucks)


def test_a_large_fleet_is_processed_by_several_jobs(connection: Connection, fleet: Fleet, now: datetime) -> None:
    connection.execute(
        "INSERT INTO vehicles (id, company_id, unit_number)"
        " SELECT gen_random_uuid(), %s, 'T' || number FROM generate_series(1, 100) AS number",
        (fleet.company_id,),
    )
    fixes = []
    for number in range(1, 101):
        imported(connection, fleet.live, now=now, vehicle={"unitNumber": f"T{number}"})
        fixes += positions_at(JOLIET, now, count=1, unit_number=f"T{number}")

    post(connection, fleet.live, fixes, now=now)

    jobs = jobs_of(connection)
    assert sorted(len(job.payload["vehicle_ids"]) for job in jobs) == [36, 64]


def test_a_truck_that_waits_for_long_adds_no_job_with_every_post(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    now = now.replace(second=1)  # since a full minute, it would wait for the sweep
    imported(connection, fleet.live, now=now)

    def jobs(seconds: float) -> int:
        moment = now + timedelta(seconds=seconds)
        post(connection, fleet.live, positions_at(JOLIET, moment, count=1), now=moment)
        return len(jobs_of(connection))

    assert [jobs(seconds) for seconds in (0, 30, 60, 65, 3600)] == [1, 1, 1, 0, 0]
    process(connection, settings, fleet, now=now)
    assert jobs(3605) == 1


def test_fixes_far_from_every_stop_are_stored_and_not_processed(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now, stops=[JOLIET, NEWARK])
    heard_of(connection, settings, fleet, now - minutes(10))

    def jobs(meters: float, at: datetime) -> list[Job]:
        place = north_of(HOME, meters)
        stop = {"latitude": place.latitude, "longitude": place.longitude}
        post(connection, fleet.live, positions_at(stop, at, count=1), now=at)
        return jobs_of(connection)

    processed = [process_positions_job("live", [fleet.trucks[0]])]
    assert jobs(5000, now) == jobs(2000, now + minutes(1)) == []
    assert jobs(249, now + minutes(2)) == processed
    process(connection, settings, fleet, now=now + minutes(2))
    stand_at(connection, settings, fleet, JOLIET, now + minutes(3))
    assert jobs(5000, now + minutes(10)) == processed  # it may be leaving
    stand_at(
        connection, settings, fleet, {"latitude": HOME.latitude + 0.1, "longitude": HOME.longitude}, now + hours(1)
    )
    assert jobs(50_000, now + hours(1) + minutes(10)) == []
    assert jobs(60_000, now + minutes(9)) == processed  # late, and older than the departure


def test_a_fix_that_may_not_wait_gets_its_job_though_the_sweep_is_late(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    active_route(connection, settings, fleet, now=now)
    connection.execute(
        "UPDATE tracks SET unprocessed_from = %s, unprocessed_since = %s WHERE vehicle_id = %s",
        (now, (now + minutes(5)).replace(second=0, microsecond=0), fleet.trucks[0]),
    )

    post(connection, fleet.live, positions_at(JOLIET, now + minutes(40), count=1), now=now + minutes(40))

    assert jobs_of(connection) == [process_positions_job("live", [fleet.trucks[0]])]


def drafts_of(connection: Connection, fleet: Fleet, count: int, *, stops: int, now: datetime) -> None:
    """Drafts of truck 101 that start one after the other, each with so many stops far away."""
    far = [{"name": f"stop {number}", "latitude": 30.0, "longitude": -100 + number / 10} for number in range(stops)]
    for number in range(count):
        imported(connection, fleet.live, now=now, start=now + minutes(5 * number), stops=far)


def test_the_cost_of_fixes_does_not_grow_with_the_drafts_of_their_truck(now: datetime) -> None:
    with (
        own_database("drafts") as database,
        database.transaction() as connection,
    ):  # other tests' statistics are not here
        fleet = make_fleet(connection)

        def routes_read(last: datetime) -> int:
            before = rows_read(connection).get("routes", 0)
            fixes = positions_at(JOLIET, last, count=500, seconds_apart=0.1, speed_mph=60)
            post(connection, fleet.live, fixes, now=now)
            return rows_read(connection)["routes"] - before

        drafts_of(connection, fleet, 4, stops=50, now=now)
        few = routes_read(now - minutes(10))
        drafts_of(connection, fleet, 96, stops=50, now=now)
        many = routes_read(now - minutes(5))

    assert 0 < many <= few


OpenRoutes = list[tuple[float, bool, int]]
"""Hours until the start, whether its truck has arrived, which of five places its first stop is."""


@hypothesis_settings(
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@example([(0.0, False, 0), (5.0, False, 1)], [(0.0, 0)])  # the first of two drafts
@example(
    [(-60.0, False, 0), (-50.0, False, 1), (-30.0, False, 2)], [(0.0, 0)]
)  # the first of more late ones than are read
@given(
    st.lists(
        st.tuples(
            st.sampled_from([-60.0, -30.0, -24.0, -2.0, 0.0, 5.0, 11.0, 12.0, 13.0]), st.booleans(), st.integers(0, 4)
        ),
        max_size=8,
    ),
    st.lists(st.tuples(st.sampled_from([-20.0, -5.0, -1.0, -0.1, 0.0]), st.integers(0, 5)), min_size=1, max_size=4),
)
def test_every_fix_that_can_move_the_current_route_makes_its_truck_due(
    connection: Connection,
    fleet: Fleet,
    settings: Settings,
    now: datetime,
    open_routes: OpenRoutes,
    sent: list[tuple[float, int]],
) -> None:
    """The rule itself, over all open routes: `feed` reads only a few of them."""
    places = [north_of(HOME, 5000.0 * number) for number in range(6)]
    early = hours(12)
    with connection.transaction(force_rollback=True):
        candidates, firsts = [], {}
        for ahead, started, place in open_routes:
            stop = {"name": "first", "latitude": places[place].latitude, "longitude": places[place].longitude}
            route_id = imported(connection, fleet.live, now=now, start=now + hours(ahead), stops=[stop, NEWARK])
            arrived_at = now - hours(1) if started else None
            connection.execute("UPDATE routes SET arrived_at = %s WHERE id = %s", (arrived_at, route_id))
            candidates.append(TruckRoute(route_id, RouteStatus.DRAFT, now + hours(ahead), arrived_at))
            firsts[route_id] = place
        fixes = {now + hours(ahead): place for ahead, place in sent}
        positions = [
            Position(
                latitude=places[place].latitude,
                longitude=places[place].longitude,
                recorded_at=at,
                unit_number="101",
            )
            for at, place in fixes.items()
        ]
        heard_of(connection, settings, fleet, now - minutes(1))
        post(connection, fleet.live, positions, now=now)
        (track,) = named(connection).execute(
            "SELECT unprocessed_from FROM tracks WHERE vehicle_id = %s", (fleet.trucks[0],)
        )

        current = current_route(candidates, max(fixes), early=early)
        wanted = [
            at
            for at, place in fixes.items()
            if current is not None and place == firsts[current.route_id] and current.scheduled_start - at <= early
        ]
        if wanted:
            assert track.unprocessed_from is not None
            assert track.unprocessed_from <= min(wanted)
        if not firsts.keys() or not set(fixes.values()) & set(firsts.values()):
            assert track.unprocessed_from is None
