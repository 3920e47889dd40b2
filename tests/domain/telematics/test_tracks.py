"""Trucks whose positions wait: found when their job is lost, counted and locked in one order."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

from domain.database.connections import Connection, Database
from domain.ids import new_id
from domain.lifecycle import Environment
from domain.routes.progress.tracking import process_vehicles
from domain.settings import Settings
from domain.telematics import feed, tracks
from domain.telematics.rechecks import recheck_trucks
from tests.conftest import make_database, own_database
from tests.domain.helpers import imported, positions_at, post
from tests.domain.trucks import dropped, minutes, process
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet
from tests.jobs import jobs_of
from tests.rows import named, rows_read
from tests.service import eventually


def test_processing_that_has_waited_counts_as_lost_however_often_the_truck_posts(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime
) -> None:
    imported(connection, fleet.live, now=now)

    def lost(seconds: float) -> bool:
        found = tracks.lost_processing(connection, now=now + timedelta(seconds=seconds))
        return fleet.trucks[0] in found.get(("live", fleet.company_id), [])

    for seconds in range(0, 30, 5):
        moment = now + timedelta(seconds=seconds)
        post(connection, fleet.live, positions_at(JOLIET, moment, count=1), now=moment)
        assert lost(seconds) is (seconds >= 10)
    process(connection, settings, fleet, now=now)
    assert not lost(300)


def test_implausible_fixes_are_counted_in_the_order_of_the_companies(settings: Settings, now: datetime) -> None:
    def count(connection: Connection, fleet: Fleet) -> None:
        feed.count_dropped(connection, fleet.live, {"implausible": 1}, now=now)

    with own_database("counts") as database, ThreadPoolExecutor(1) as threads:
        with database.transaction() as connection:
            first, second = (make_fleet(connection) for _ in range(2))
            # the trucks are in the other order
            truck, later_truck = second.trucks[0], new_id()
            connection.execute("UPDATE vehicles SET id = %s WHERE id = %s", (later_truck, first.trucks[0]))
            for fleet in (first, second):
                imported(connection, fleet.live, now=now)
                wild = [(PERRYSBURG, -2), (JOLIET, -1), (PERRYSBURG, 0)]
                fixes = [fix for stop, at in wild for fix in positions_at(stop, now + minutes(at), count=1)]
                post(connection, fleet.live, fixes, now=now)

        def process_both() -> None:
            with database.transaction() as connection:
                process_vehicles(connection, Environment.LIVE, [truck, later_truck], settings=settings, now=now)

        with database.transaction() as holder:
            count(holder, first)
            processing = threads.submit(process_both)
            eventually(lambda: named(holder).execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
            count(holder, second)
        processing.result()

        with database.transaction() as connection:
            assert [dropped(connection, fleet) for fleet in (first, second)] == [{"implausible": 2}] * 2


def test_rechecked_trucks_are_locked_in_the_same_order_as_the_feed_locks_them(now: datetime) -> None:
    def free(connection: Connection) -> list[UUID]:
        rows = (
            named(connection)
            .execute("SELECT vehicle_id FROM tracks ORDER BY vehicle_id FOR UPDATE SKIP LOCKED")
            .fetchall()
        )
        return [row.vehicle_id for row in rows]

    with Database(make_database("tracks")) as database, ThreadPoolExecutor(1) as threads:
        with database.transaction() as connection:
            fleet = make_fleet(connection)
            units = [f"T{number}" for number in range(40)]
            connection.execute(
                "INSERT INTO vehicles (id, company_id, unit_number) SELECT id, %s, unit"
                " FROM unnest(%s::uuid[], %s::text[]) AS truck (id, unit)",
                (fleet.company_id, [new_id() for _ in units], units),
            )
            routes = [imported(connection, fleet.live, now=now, vehicle={"unitNumber": unit}) for unit in units]
            for unit in reversed(units):  # as the table holds them
                post(connection, fleet.live, positions_at(NEWARK, now, count=1, unit_number=unit), now=now)
            first, *others = free(connection)

        def look_again() -> None:
            with database.transaction() as connection:
                recheck_trucks(connection, routes, now=now)

        with database.transaction() as holder:
            holder.execute("SELECT FROM tracks WHERE vehicle_id = %s FOR UPDATE", (first,))
            looking = threads.submit(look_again)
            eventually(lambda: named(holder).execute("SELECT FROM pg_locks WHERE NOT granted").rowcount, bool)
            with database.transaction() as connection:
                assert free(connection) == others
        looking.result()


def test_feed_and_arrivals_read_by_key_though_they_were_planned_for_empty_tables(
    settings: Settings, now: datetime
) -> None:
    tables = ("mappings", "messages", "positions", "routes", "tracks", "vehicles", "visits")
    units = [f"T{number:03}" for number in range(20)]

    def arrive(connection: Connection, fleet: Fleet, trucks: Sequence[UUID], names: Sequence[str]) -> None:
        fixes = [fix for name in names for fix in positions_at(JOLIET, now, unit_number=name)]
        assert post(connection, fleet.live, fixes, now=now + minutes(2)).accepted == len(fixes)
        jobs_of(connection)
        process_vehicles(connection, Environment.LIVE, trucks, settings=settings, now=now + minutes(2))
        jobs = jobs_of(connection)
        assert {job.name for job in jobs} == {"plans.build"}
        assert len(jobs) == len(trucks)

    with own_database("by_key") as database:
        with database.transaction() as connection:
            fleet = make_fleet(connection)
            imported(connection, fleet.live, now=now)
        with database.pipelined_transaction() as connection:
            arrive(connection, fleet, fleet.trucks[:1], ["101"])
        with database.transaction() as connection:
            company = {"company": fleet.company_id, "like": fleet.trucks[0], "now": now}
            for insert in (
                "INSERT INTO vehicles (id, company_id, unit_number)"
                " SELECT gen_random_uuid(), %(company)s, 'T' || lpad(n::text, 3, '0')"
                " FROM generate_series(0, 999) AS n",
                "INSERT INTO routes (id, company_id, environment, external_id, scheduled_start, stops, status,"
                " vehicle_id, imported_at)"
                " SELECT gen_random_uuid(), v.company_id, 'live', v.unit_number, r.scheduled_start, r.stops, 'draft',"
                " v.id, %(now)s FROM vehicles v, routes r WHERE v.unit_number LIKE 'T%%' AND r.vehicle_id = %(like)s",
                "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at)"
                " SELECT company_id, environment, id, 1, %(now)s FROM routes WHERE external_id > 'T019'",
                "INSERT INTO tracks (company_id, vehicle_id, environment, oldest_at, newest_at, latitude, longitude)"
                " SELECT company_id, id, 'live', %(now)s, %(now)s, 30, -100 FROM vehicles WHERE unit_number > 'T019'",
                "INSERT INTO positions (company_id, environment, vehicle_id, recorded_at, latitude, longitude)"
                " SELECT company_id, 'live', id, %(now)s, 30, -100 FROM vehicles WHERE unit_number > 'T019'",
            ):
                connection.execute(insert, company)
            found = connection.execute(
                "SELECT id FROM vehicles WHERE unit_number = ANY(%s) AND company_id = %s", (units, fleet.company_id)
            ).fetchall()
        with database.pipelined_transaction() as connection:
            arrive(connection, fleet, [vehicle_id for (vehicle_id,) in found], units)
            read = rows_read(connection)
        assert {table: read[table] for table in tables if read[table] >= 600} == {}
