"""Pushes in two transactions at once, on real PostgreSQL: they wait for one another and never deadlock."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from threading import Barrier
from typing import Any

import pytest

from domain.database.connections import SUPERSEDING_LOCKS, Connection, Database
from domain.planning.stored_plans import await_menu
from domain.routes.intake.pushes import Pushed
from domain.routes.plans.menus import begin_menu
from tests.domain.helpers import imported, planned_by_hand
from tests.domain.routes.intake.pushing import effects, open_routes, push
from tests.factories import Fleet, make_fleet
from tests.rows import named


@pytest.fixture
def own_fleet(database: Database) -> Callable[..., Fleet]:
    """Makes a company that other connections can see."""

    def make(**policy: Any) -> Fleet:
        with database.transaction() as connection:
            return make_fleet(connection, **policy)

    return make


def at_once(database: Database, *work: Callable[[Connection], Any]) -> list[Any]:
    """Each in a transaction and a thread of its own, begun together."""
    barrier = Barrier(len(work))

    def run(one: Callable[[Connection], Any]) -> Any:
        with database.transaction() as connection:
            connection.execute("SELECT 1")
            barrier.wait(180)
            return one(connection)

    with ThreadPoolExecutor(len(work)) as threads:
        return list(threads.map(run, work))


@pytest.mark.parametrize("round_number", range(5))
def test_exactly_one_of_two_concurrent_pushes_of_an_external_id_creates_a_route(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime, round_number: int
) -> None:
    fleet = own_fleet()
    names = [f"LOAD-{number}" for number in range(20)]

    def pusher(order: Sequence[str], reference: str) -> Callable[[Connection], list[Pushed]]:
        bodies = [{"externalId": name, "reference": reference} for name in order]
        return lambda connection: push(connection, fleet.live, *bodies, now=now)

    one, other = at_once(database, pusher(names, "one"), pusher(names[::-1], "other"))

    by_name = [sorted(pair) for pair in zip(effects(one), effects(other[::-1]), strict=True)]
    assert by_name == [["create", "replace"]] * 20
    assert [result.route_id for result in one] == [result.route_id for result in other[::-1]]


def test_a_push_that_waited_for_another_is_compared_with_the_input_that_one_stored(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime
) -> None:
    fleet = own_fleet()
    old, new = {"externalId": "LOAD", "reference": "old"}, {"externalId": "LOAD", "reference": "new"}
    with database.transaction() as connection:
        push(connection, fleet.live, old, now=now)

    def push_later(body: dict[str, Any]) -> list[str]:
        with database.transaction() as connection:
            return effects(push(connection, fleet.live, body, now=now))

    with ThreadPoolExecutor(1) as threads:
        for body, effect in (new, "unchanged"), (new, "replace"):
            with database.transaction() as connection:
                push(connection, fleet.live, new if effect == "unchanged" else old, now=now)
                waiting = threads.submit(push_later, body)
                while not connection.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
                    assert not waiting.done()
            assert waiting.result(180) == [effect]


@pytest.mark.parametrize("round_number", range(5))
def test_exactly_one_of_two_concurrent_pushes_of_a_reference_stays_open(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime, round_number: int
) -> None:
    fleet = own_fleet(superseding=True)

    def pusher(name: str) -> Callable[[Connection], list[Pushed]]:
        body = {"externalId": name, "reference": "R"}
        return lambda connection: push(connection, fleet.live, body, now=now)

    at_once(database, *(pusher(name) for name in "ABCD"))

    with database.transaction() as connection:
        assert len(open_routes(connection, fleet.live)) == 1


@pytest.mark.parametrize("round_number", range(5))
def test_batches_with_the_same_references_in_another_order_never_deadlock(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime, round_number: int
) -> None:
    fleet = own_fleet(superseding=True)

    def pusher(name: str, *references: str) -> Callable[[Connection], list[Pushed]]:
        bodies = [{"externalId": name, "reference": reference} for reference in references]
        return lambda connection: push(connection, fleet.live, *bodies, now=now)

    one, other = at_once(database, pusher("A", "R", "S"), pusher("B", "S", "R"))

    assert (effects(one), effects(other)) == (["create", "replace"], ["create", "replace"])


@pytest.mark.parametrize("repeated", [False, True])
def test_a_push_locks_the_older_route_before_its_own_as_imports_do(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime, repeated: bool
) -> None:
    """A transaction locks several routes in the order of their ids."""
    fleet = own_fleet(superseding=True)
    with database.transaction() as connection:
        older = imported(connection, fleet.live, now=now, externalId="A", reference="R")
        own = imported(connection, fleet.live, now=now, externalId="B")
    bodies = [{"externalId": "B", "reference": "S"}] * repeated + [{"externalId": "B", "reference": "R"}]

    def push_own() -> list[str]:
        with database.transaction() as connection:
            return effects(push(connection, fleet.live, *bodies, now=now))

    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as importing:
            importing.execute("SELECT FROM routes WHERE id = %s FOR UPDATE", (older,))
            waiting = threads.submit(push_own)
            while not importing.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
                assert not waiting.done()
            importing.execute("SELECT FROM routes WHERE id = %s FOR UPDATE NOWAIT", (own,))
        assert waiting.result(180) == ["replace"] * len(bodies)

    with database.transaction() as connection:
        assert open_routes(connection, fleet.live) == ["B"]


@pytest.mark.parametrize("numbers", ["%(key)s::bigint", "0, %(key)s::bigint::bit(32)::int"])
def test_an_advisory_lock_of_another_class_stops_no_push(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime, numbers: str
) -> None:
    """A caller can choose a reference that hashes to any number, such as that of the scheduler's lead."""
    fleet = own_fleet(superseding=True)
    with database.transaction() as holder, database.transaction() as connection:
        for hashed in ("hashtextextended(%(text)s, 0)", "hashtext(%(text)s)"):
            text = f"{fleet.company_id} live R"
            key = named(holder).execute(f"SELECT {hashed} AS key", {"text": text}).fetchall()[0].key
            holder.execute(f"SELECT pg_advisory_xact_lock({numbers})", {"key": key})
        connection.execute("SET LOCAL lock_timeout = '1s'")

        assert effects(push(connection, fleet.live, {"externalId": "A", "reference": "R"}, now=now)) == ["create"]

        held = (
            named(connection)
            .execute("SELECT classid, objsubid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")
            .fetchall()
        )
        assert held == [(SUPERSEDING_LOCKS, 2)]


def test_a_route_whose_message_waits_accepts_an_update(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime
) -> None:
    fleet = own_fleet()
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now, externalId="LOAD")
        planned_by_hand(connection, route_id, now=now)

    with database.transaction() as connection:
        changed = {"externalId": "LOAD", "reference": "changed"}
        assert push(connection, fleet.live, changed, now=now) == [Pushed(route_id, "replace", revision=2)]


def test_a_menu_that_begins_locks_the_route_before_its_plan(
    database: Database, own_fleet: Callable[..., Fleet], now: datetime
) -> None:
    """A push of the route that changed its plan meanwhile, and the menu, waited for each other: either failed."""
    fleet = own_fleet()
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now, externalId="A")
        planned_by_hand(connection, route_id, now=now)
        (plan_id,) = connection.execute("SELECT plan_id FROM routes WHERE id = %s", (route_id,)).fetchone() or ()
        await_menu(connection, plan_id, now=now)

    def begin() -> object:
        with database.transaction() as connection:
            return begin_menu(connection, plan_id, max_attempts=3)

    with ThreadPoolExecutor(1) as threads:
        with database.transaction() as pushing:
            assert effects(push(pushing, fleet.live, {"externalId": "A", "reference": "R"}, now=now)) == ["replace"]
            waiting = threads.submit(begin)
            while not pushing.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
                assert not waiting.done()
            pushing.execute("SELECT FROM plans WHERE id = %s FOR UPDATE NOWAIT", (plan_id,))
        assert waiting.result(180) is None
