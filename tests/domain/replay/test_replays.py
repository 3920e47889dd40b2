"""A replay from the question to its totals: portions, workers, what is kept when explanations are forgotten."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Connection, Database
from domain.housekeeping.erasure import erase_company
from domain.housekeeping.retention import forget_explanations, forget_trip_inputs
from domain.planning.explanation import pack_explanation
from domain.replay import replays as stored
from domain.replay.networks import MOST_DEALS, never_used
from domain.replay.portions import finish_replay, results_of, solve_next_portion
from domain.replay.replays import (
    REPLAYS,
    NothingToReplay,
    TooManyReplays,
    UnknownReplay,
    progress_of,
    resume_replay,
    stop_replay,
)
from domain.replay.results import DealLine, ReplaySummary, ReplayTotals, TripResult
from domain.replay.solving import DealUse, Side, Solved, TripOutcome
from domain.replay.terms import Terms
from tests.conftest import own_database
from tests.domain.planning.plans import NOW
from tests.domain.replay.driven import ANN, ask_for_replay, explained, store_driven
from tests.factories import Fleet, make_fleet


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with own_database("replays") as opened:
        yield opened


def solved(database: Database, replay_id: UUID) -> ReplaySummary:
    while solve_next_portion(database.transaction, replay_id, now=NOW) is not None:
        pass
    assert finish_replay(database.transaction, replay_id, now=NOW)
    with database.transaction() as connection:
        (row,) = connection.execute("SELECT company_id FROM replays WHERE id = %s", (replay_id,)).fetchall()
        summary = REPLAYS.find(connection, row[0], replay_id).read_summary
    assert summary is not None
    return summary


def test_the_trips_of_a_replay_add_up_to_its_totals(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "PORTION_TRIPS", 2)
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        store_driven(connection, fleet.live, None, now=NOW, externalId="forgotten")
        store_driven(connection, fleet.live, b"broken", now=NOW, externalId="broken")
        replay_id = ask_for_replay(connection, fleet, now=NOW, trips=3)
        assert progress_of(connection, replay_id) == (5, 0, 3)

    summary = solved(database, replay_id)

    assert summary.outcomes == {"compared": 3, "forgotten": 1, "unreadable": 1}
    assert summary.after.cost_cents > summary.before.cost_cents
    for kind, lines in summary.lines.items():
        assert sum(line.difference_cents for line in lines) == summary.difference_cents, kind
    with database.transaction() as connection:
        again = ReplayTotals()
        for result in results_of(connection, replay_id):
            again.add(result)
    assert again.summary() == summary
    assert not finish_replay(database.transaction, replay_id, now=NOW), "it is finished once"


def test_a_replay_is_the_same_once_its_explanations_are_forgotten(database: Database) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        first = ask_for_replay(connection, fleet, now=NOW, trips=2, weighs_deals=True)
    before = solved(database, first)
    later = datetime.now(UTC) + timedelta(days=91)
    with database.transaction() as connection:
        assert forget_explanations(connection, days=90, now=later, limit=100) >= 2
        assert not connection.execute(
            "SELECT FROM plans WHERE company_id = %s AND explanation IS NOT NULL", (fleet.company_id,)
        ).rowcount
        second = ask_for_replay(connection, fleet, now=NOW, trips=0, weighs_deals=True)
    assert solved(database, second) == before
    with database.transaction() as connection:
        assert forget_trip_inputs(connection, days=90, now=later, limit=100) >= 2
        third = ask_for_replay(connection, fleet, now=NOW, trips=0)
    assert solved(database, third).outcomes == {TripOutcome.FORGOTTEN: 2}


@pytest.mark.parametrize("first_reached", [0, 1])
def test_the_plan_with_which_the_truck_left_counts(database: Database, first_reached: int) -> None:
    """The first version was made before, the last one on the way. The truck may have skipped its first stop."""
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = store_driven(connection, fleet.live, pack_explanation(explained()), now=NOW)
        connection.execute(
            "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at, departed_at)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            (*fleet.live, route_id, first_reached, NOW, NOW + timedelta(hours=1)),
        )
        add_plan(connection, fleet, route_id, hours=0.5, fuel_percent=70.0)
        add_plan(connection, fleet, route_id, hours=3, fuel_percent=90.0)
        replay_id = ask_for_replay(connection, fleet, now=NOW, trips=0)
    assert gallons_of(database, replay_id) == pytest.approx(120 + 50 - 140, abs=0.01)


def test_a_plan_for_other_stops_does_not_count(database: Database) -> None:
    """The route was pushed again with other stops when the truck had left, so its plan was made on the way."""
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        route_id = store_driven(connection, fleet.live, pack_explanation(explained()), now=NOW)
        connection.execute(
            "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at, departed_at)"
            " VALUES (%s, %s, %s, 0, %s, %s)",
            (*fleet.live, route_id, NOW, NOW + timedelta(hours=1)),
        )
        connection.execute("UPDATE routes SET revision = 2 WHERE id = %s", (route_id,))
        add_plan(connection, fleet, route_id, hours=2, fuel_percent=70.0, revision=2)
        replay_id = ask_for_replay(connection, fleet, now=NOW, trips=0)
    assert gallons_of(database, replay_id) == pytest.approx(120 + 50 - 140, abs=0.01)


def add_plan(
    connection: Connection, fleet: Fleet, route_id: UUID, *, hours: float, fuel_percent: float, revision: int = 1
) -> None:
    """A plan of a route so many hours after NOW, with this level."""
    connection.execute(
        "INSERT INTO plans (id, company_id, environment, route_id, revision, generated_at, as_of, document,"
        " explanation, timeline, fuel_percent) VALUES (gen_random_uuid(), %s, %s, %s, %s, %s, %s, '{}', %s,"
        " '[]', 50)",
        (
            *(*fleet.live, route_id, revision, *[NOW + timedelta(hours=hours)] * 2),
            pack_explanation(explained(fuel_percent=fuel_percent)),
        ),
    )


def gallons_of(database: Database, replay_id: UUID) -> float:
    """The gallons that the only trip of a replay buys, less those that it burns on detours."""
    solved(database, replay_id)
    with database.transaction() as connection:
        (result,) = results_of(connection, replay_id)
    assert result.solved.before is not None
    return result.solved.before.gallons - burned_on_detours(result)


def burned_on_detours(result: Any) -> float:
    """Gallons, at 5 miles a gallon."""
    return float(result.solved.before.detour_miles) / 5


def test_a_replay_is_stopped_and_goes_on_and_belongs_to_its_company(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "PORTION_TRIPS", 1)
    with database.transaction() as connection:
        fleet, other = make_fleet(connection), make_fleet(connection)
        replay_id = ask_for_replay(connection, fleet, now=NOW, trips=2)
    assert solve_next_portion(database.transaction, replay_id, now=NOW) == 1
    with database.transaction() as connection:
        stop_replay(connection, fleet.company_id, replay_id, ANN, now=NOW)
        assert not any(job.payload["replay_id"] == replay_id for job in stored.due_replays(connection, now=NOW))
        with pytest.raises(UnknownReplay):
            stop_replay(connection, other.company_id, replay_id, ANN, now=NOW)
    assert solve_next_portion(database.transaction, replay_id, now=NOW) is None
    assert not finish_replay(database.transaction, replay_id, now=NOW)
    with database.transaction() as connection:
        resume_replay(connection, fleet.company_id, replay_id, ANN, by_workers=True, now=NOW)
        assert sum(job.payload["replay_id"] == replay_id for job in stored.due_replays(connection, now=NOW)) == 2
    assert solved(database, replay_id).compared == 2


def test_a_stopped_replay_goes_on_only_beside_few_others(database: Database) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        first, *others = [ask_for_replay(connection, fleet, now=NOW, trips=int(not n)) for n in range(3)]
        stop_replay(connection, fleet.company_id, first, ANN, now=NOW)
        others.append(ask_for_replay(connection, fleet, now=NOW, trips=0))
        again: dict[str, Any] = {"by": ANN, "by_workers": True, "now": NOW + timedelta(days=9)}
        with pytest.raises(TooManyReplays):
            resume_replay(connection, fleet.company_id, first, **again)
        resume_replay(connection, fleet.company_id, others[0], **again)
        stop_replay(connection, fleet.company_id, others[1], ANN, now=NOW)
        resume_replay(connection, fleet.company_id, first, **again)


def test_a_correction_meanwhile_counts_no_trip_twice(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "PORTION_TRIPS", 1)
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        replay_id = ask_for_replay(connection, fleet, now=NOW, trips=3)
    assert solve_next_portion(database.transaction, replay_id, now=NOW) == 1
    with database.transaction() as connection:
        (first,) = results_of(connection, replay_id)
        for route_id, hours in ((UUID(first.route_id), 1), (None, -1)):  # behind the last one, and before the first
            connection.execute(
                "UPDATE savings SET planned_at = planned_at + %s * interval '1 hour' WHERE company_id = %s"
                " AND route_id = coalesce(%s::uuid, (SELECT max(route_id::text)::uuid FROM savings"
                " WHERE company_id = %s AND route_id <> %s))",
                (hours, fleet.company_id, route_id, fleet.company_id, UUID(first.route_id)),
            )
    assert solved(database, replay_id).compared == 3
    with database.transaction() as connection:
        assert len({result.route_id for result in results_of(connection, replay_id)}) == 3


def test_a_replay_of_the_release_before_goes_on(database: Database) -> None:
    """Its portions have no list of trips, and its policy lacks a value that came with the upgrade, or has one more."""
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        replay_id = ask_for_replay(connection, fleet, now=NOW, trips=2)
        connection.execute("UPDATE replay_portions SET route_ids = NULL WHERE replay_id = %s", (replay_id,))
        connection.execute(
            "UPDATE replays SET terms = jsonb_set(terms #- '{policy,margin_dollars}' #- '{policy,stop_cost}',"
            " '{policy,gone}', '1') WHERE id = %s",
            (replay_id,),
        )
    assert solved(database, replay_id).outcomes == {"compared": 2}


def test_deals_are_told_apart_although_one_took_the_number_of_another() -> None:
    gone, star, later = (DealUse(7, name, 10.0, cents) for name, cents in (("Mesa", 100), ("Star", 30), ("Mesa", 1)))
    side = Side(0, 0, 0.0, 0, 0.0, 0.0, 0.0)
    totals = ReplayTotals()
    for use in (gone, star, later):
        solved = Solved(TripOutcome.COMPARED, side, side, deals=(use,))
        totals.add(TripResult("", NOW.date(), "101", "A", "B", solved))
    assert [(one.name, one.trips, one.worth_cents) for one in totals.summary().deals] == [
        ("Mesa", 2, 101),
        ("Star", 1, 30),
    ]


def test_a_deal_that_did_not_hold_in_the_time_is_not_called_unused(database: Database) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        for number, first_day, last_day in (
            (1, None, None),
            (2, None, "2026-06-30"),
            (3, "2026-10-01", None),
            (4, "2026-09-30", "2026-12-31"),
            (5, None, None),
        ):
            connection.execute(
                "INSERT INTO deals (company_id, brand, discount_per_gallon, valid_from, valid_to, number)"
                " VALUES (%s, %s, 0.3, %s, %s, %s)",
                (fleet.company_id, f"Brand {number}", first_day, last_day, number),
            )
        used = ReplaySummary(deals=[DealLine(5, "Brand 5, $0.300 off")])
        days = {"first_day": date(2026, 7, 1), "last_day": date(2026, 9, 30)}
        unused = never_used(connection, fleet.company_id, used, **days)
        connection.execute(
            "INSERT INTO deals (company_id, brand, discount_per_gallon, valid_to, number)"
            " SELECT %s, 'Ahead ' || number, 0.3, '2026-01-31', number FROM generate_series(10, 10 + %s) AS number",
            (fleet.company_id, MOST_DEALS),
        )
        behind_many = never_used(connection, fleet.company_id, used, **days)
    assert [one.number for one in unused] == [1, 4]
    assert behind_many == unused


def test_a_portion_whose_process_died_is_taken_again_later(database: Database) -> None:
    with database.transaction() as connection:
        replay_id = ask_for_replay(connection, make_fleet(connection), now=NOW)
        connection.execute("UPDATE replay_portions SET taken_until = %s", (NOW + timedelta(minutes=1),))
    assert solve_next_portion(database.transaction, replay_id, now=NOW) is None
    assert solve_next_portion(database.transaction, replay_id, now=NOW + timedelta(minutes=2)) == 1


def test_an_empty_span_is_refused_and_an_erased_company_leaves_nothing(database: Database) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
        ask_for_replay(connection, fleet, now=NOW)
    with database.transaction() as connection:
        before = REPLAYS.all(connection, fleet.company_id)
        with pytest.raises(NothingToReplay):
            ask_for_replay(connection, fleet, Terms({"stop_cost": 0.0}), now=NOW + timedelta(days=70), trips=0)
        assert REPLAYS.all(connection, fleet.company_id) == before, "a page commits after a refusal"
    erase_company(database.transaction, fleet.company_id, now=NOW)
    with database.transaction() as connection:
        assert left_of(connection, fleet.company_id) == (0, 0, 0)


def left_of(connection: Connection, company_id: UUID) -> tuple[int, ...]:
    return tuple(
        connection.execute(f"SELECT FROM {table} WHERE company_id = %s", (company_id,)).rowcount
        for table in ("trip_inputs", "replays", "replay_portions")
    )
