"""Drives in the database: which routes are driven, when, how many at once, and by whom."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from domain.accounts.companies import UnusablePolicy, set_policy
from domain.accounts.policy import Policy
from domain.database.connections import Connection, Database
from domain.lifecycle import RouteStatus
from domain.sandbox.drives import begin_drives, drive_on, due_drives, read_drive
from domain.settings import Settings
from tests.conftest import own_database
from tests.domain.helpers import deliver, imported, planned_by_hand, positions_at, post, status_of
from tests.factories import DOT, JOLIET, Fleet, make_fleet
from tests.jobs import jobs_after
from tests.rows import named

EARLY = timedelta(hours=12)


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    """One of the module's own: a drive that another test has left under way would be found with these."""
    with own_database("drives") as database:
        yield database


def begin(connection: Connection, now: datetime, limit: int = 1000) -> int:
    return begin_drives(connection, early=EARLY, limit=limit, now=now)


def drive(connection: Connection, fleet: Fleet, *route_ids: UUID, now: datetime) -> int:
    """Drives on, and returns the number of jobs."""
    return len(
        jobs_after(
            connection,
            lambda: drive_on(connection, fleet.company_id, route_ids, near_meters=250, early=EARLY, now=now),
        )
    )


def driven(connection: Connection) -> set[UUID]:
    rows = named(connection).execute("SELECT route_id FROM sandbox_drives WHERE ended_at IS NULL").fetchall()
    return {row.route_id for row in rows}


@pytest.fixture
def company(connection: Connection) -> Fleet:
    return make_fleet(connection, sandbox_autodrive="60x")


def test_a_driven_company_drives_its_sandbox_and_nothing_live(
    connection: Connection, company: Fleet, fleet: Fleet, now: datetime
) -> None:
    route_id = imported(connection, company.sandbox, now=now)
    imported(connection, company.live, now=now)
    imported(connection, fleet.sandbox, now=now)
    imported(connection, fleet.live, now=now, reference="SANDBOX-DRIVE")

    begin(connection, now)

    assert driven(connection) == {route_id}
    assert begin(connection, now) == 0, "once"


def test_a_truck_drives_one_route_at_a_time_and_the_earliest_first(
    connection: Connection, company: Fleet, now: datetime
) -> None:
    later, first = (imported(connection, company.sandbox, now=now, start=now + timedelta(hours=h)) for h in (5, 3))
    other_truck = imported(connection, company.sandbox, now=now, vehicle={"unitNumber": "102"})

    begin(connection, now)
    assert driven(connection) == {first, other_truck}

    connection.execute("UPDATE routes SET status = 'completed' WHERE id = %s", (first,))
    connection.execute("UPDATE sandbox_drives SET ended_at = %s WHERE route_id = %s", (now, first))
    begin(connection, now)
    assert driven(connection) == {later, other_truck}


def test_simulated_time_begins_shortly_before_the_scheduled_start(
    connection: Connection, company: Fleet, now: datetime
) -> None:
    start = now + timedelta(days=3)
    ahead = imported(connection, company.sandbox, now=now, start=start)
    behind = imported(
        connection, company.sandbox, now=now, start=now - timedelta(days=3), vehicle={"unitNumber": "102"}
    )

    begin(connection, now)

    times = [read_drive(connection, company.company_id, route_id) for route_id in (ahead, behind)]
    assert [shown.simulated_at if shown else None for shown in times] == [start - timedelta(minutes=5), now]


def test_a_route_that_asks_for_it_waits_for_an_earlier_one_of_its_truck(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    earlier = imported(connection, fleet.sandbox, now=now, start=now + timedelta(hours=1))
    asking = imported(connection, fleet.sandbox, now=now, start=now + timedelta(hours=2), reference="SANDBOX-DRIVE")
    begin(connection, now)
    assert driven(connection) == set()

    connection.execute("UPDATE routes SET scheduled_start = %s WHERE id = %s", (now - timedelta(days=2), earlier))
    begin(connection, now)
    assert driven(connection) == {asking}, "a draft more than a day past its start gives way"


def test_a_truck_under_way_begins_nothing(connection: Connection, company: Fleet, now: datetime) -> None:
    under_way = imported(connection, company.sandbox, now=now)
    connection.execute("UPDATE routes SET status = 'active' WHERE id = %s", (under_way,))
    imported(connection, company.sandbox, now=now, start=now + timedelta(hours=3))
    begin(connection, now)
    assert driven(connection) == set()


def test_companies_take_turns(connection: Connection, now: datetime) -> None:
    large, small = (make_fleet(connection, sandbox_autodrive="60x") for _ in range(2))
    for number in range(30):
        connection.execute(
            "INSERT INTO vehicles (id, company_id, unit_number) VALUES (gen_random_uuid(), %s, %s)",
            (large.company_id, f"T{number}"),
        )
        imported(connection, large.sandbox, now=now, vehicle={"unitNumber": f"T{number}"})
    last = imported(connection, small.sandbox, now=now + timedelta(minutes=1))

    assert begin(connection, now, limit=2) == 2
    assert last in driven(connection)
    begin(connection, now)
    due = due_drives(connection, limit=4, now=now)
    assert {company_id: len(ids) for company_id, ids in due.items()} == {large.company_id: 3, small.company_id: 1}


def test_a_turn_posts_positions_and_is_not_taken_twice(connection: Connection, company: Fleet, now: datetime) -> None:
    route_id = imported(connection, company.sandbox, now=now)
    begin(connection, now)

    assert drive(connection, company, route_id, now=now) == 1, "the truck is due"
    assert drive(connection, company, route_id, now=now) == 0

    (stored,) = connection.execute(
        "SELECT count(*) FROM positions WHERE company_id = %s AND environment = 'sandbox'", (company.company_id,)
    ).fetchone() or (0,)
    assert stored == 10


def test_a_drive_that_another_leader_has_locked_is_left_alone(settings: Settings, now: datetime) -> None:
    with own_database("drives") as database:
        with database.transaction() as connection:
            fleet = make_fleet(connection, sandbox_autodrive="60x")
            route_id = imported(connection, fleet.sandbox, now=now)
            begin(connection, now)
        with database.transaction() as one, database.transaction() as other:
            assert drive(one, fleet, route_id, now=now) == 1
            assert drive(other, fleet, route_id, now=now) == 0


def test_nobody_drives_for_another_company(connection: Connection, company: Fleet, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, company.sandbox, now=now)
    begin(connection, now)
    assert drive(connection, fleet, route_id, now=now) == 0
    assert read_drive(connection, fleet.company_id, route_id) is None
    assert read_drive(connection, company.company_id, route_id) is not None


def test_switched_off_a_sandbox_stands_still_and_goes_on_later(
    connection: Connection, company: Fleet, now: datetime
) -> None:
    imported(connection, company.sandbox, now=now)
    begin(connection, now)
    set_policy(connection, company.company_id, Policy(sandbox_autodrive="off"), DOT)
    assert company.company_id not in due_drives(connection, limit=1000, now=now)
    set_policy(connection, company.company_id, Policy(sandbox_autodrive="10"), DOT)
    assert company.company_id in due_drives(connection, limit=1000, now=now)


def test_a_canceled_route_frees_its_truck(connection: Connection, company: Fleet, now: datetime) -> None:
    route_id = imported(connection, company.sandbox, now=now)
    next_one = imported(connection, company.sandbox, now=now, start=now + timedelta(hours=4))
    begin(connection, now)
    connection.execute("UPDATE routes SET status = 'canceled' WHERE id = %s", (route_id,))
    drive(connection, company, route_id, now=now)
    begin(connection, now)
    assert driven(connection) == {next_one}


@pytest.mark.parametrize("start", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)])
def test_extreme_starts_harm_nobody(connection: Connection, company: Fleet, now: datetime, start: datetime) -> None:
    extreme = imported(connection, company.sandbox, now=now)
    connection.execute("UPDATE routes SET scheduled_start = %s WHERE id = %s", (start, extreme))
    other = imported(connection, company.sandbox, now=now, vehicle={"unitNumber": "102"})
    begin(connection, now)
    assert other in driven(connection)
    drive(connection, company, extreme, other, now=now)


def test_a_position_of_the_year_9999_harms_nobody(connection: Connection, company: Fleet, now: datetime) -> None:
    late = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    post(connection, company.sandbox, positions_at(JOLIET, late, count=1), now=now)
    imported(connection, company.sandbox, now=now)
    other = imported(connection, company.sandbox, now=now, vehicle={"unitNumber": "102"})
    begin(connection, now)
    assert driven(connection) == {other}


def test_a_drive_that_fails_costs_the_others_nothing(connection: Connection, company: Fleet, now: datetime) -> None:
    broken, other = (
        imported(connection, company.sandbox, now=now, vehicle={"unitNumber": unit}) for unit in ("101", "102")
    )
    begin(connection, now)
    connection.execute("UPDATE sandbox_drives SET truck = '{}' WHERE route_id = %s", (broken,))
    assert drive(connection, company, broken, other, now=now) == 1
    assert broken not in due_drives(connection, limit=1000, now=now).get(company.company_id, [])


def test_a_route_that_is_pushed_again_after_its_end_is_driven_again(
    connection: Connection, company: Fleet, now: datetime
) -> None:
    route_id = imported(connection, company.sandbox, now=now)
    begin(connection, now)
    connection.execute("UPDATE routes SET status = 'error' WHERE id = %s", (route_id,))
    drive(connection, company, route_id, now=now)
    connection.execute("UPDATE routes SET status = 'draft', revision = revision + 1 WHERE id = %s", (route_id,))
    begin(connection, now)
    assert driven(connection) == {route_id}


@pytest.mark.parametrize(("given", "stored"), [("60x", "60x"), ("60", "60x"), ("OFF", "off"), (" 3600X ", "3600x")])
def test_the_speed_is_given_in_several_ways(connection: Connection, fleet: Fleet, given: str, stored: str) -> None:
    assert set_policy(connection, fleet.company_id, Policy(sandbox_autodrive=given), DOT).sandbox_autodrive == stored


@pytest.mark.parametrize("given", ["", "0", "0x", "3601", "-1", "1.5x", "60 x", "fast", "x" * 10_000, "٦٠", "60x\n60x"])
def test_an_unusable_speed_is_refused(connection: Connection, fleet: Fleet, given: str) -> None:
    with pytest.raises(UnusablePolicy, match="speed of simulated trucks"):
        set_policy(connection, fleet.company_id, Policy(sandbox_autodrive=given), DOT)


def test_a_message_of_the_sandbox_cannot_be_claimed_for_a_gateway(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    message_id = planned_by_hand(connection, imported(connection, fleet.sandbox, now=now), now=now)
    with pytest.raises(psycopg.errors.CheckViolation, match="no_gateway_for_sandbox"), connection.transaction():
        connection.execute("UPDATE messages SET claimed_until = now() WHERE id = %s", (message_id,))


@pytest.mark.parametrize(("environment", "delayed"), [("sandbox", True), ("live", False)])
def test_a_rehearsed_planned_route_gets_its_message_a_minute_later(
    connection: Connection, fleet: Fleet, settings: Settings, now: datetime, environment: str, delayed: bool
) -> None:
    route_id = imported(connection, getattr(fleet, environment), now=now, reference="SANDBOX-PLANNED-1")
    message_id = planned_by_hand(connection, route_id, now=now)

    deliver(connection, message_id, settings=settings, now=now)
    deliver(connection, message_id, settings=settings, now=now + timedelta(seconds=59))
    assert (status_of(connection, route_id) is RouteStatus.PLANNED) is delayed

    deliver(connection, message_id, settings=settings, now=now + timedelta(seconds=61))
    assert status_of(connection, route_id) is RouteStatus.ACTIVE
