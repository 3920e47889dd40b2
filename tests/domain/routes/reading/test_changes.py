"""Whoever follows the changes of routes ends with what is stored, however transactions overlap."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from deploy.embedded import running
from domain.contract.checking import Invalid
from domain.contract.shapes import RouteQuery
from domain.database.connections import Connection, Database, Tenant
from domain.database.visibility import of_tenants
from domain.lifecycle import RouteStatus
from domain.migrations import migrate
from domain.routes.reading import changes
from domain.routes.reading.changes import _CHANGES, follows_changes, forget_marks, list_changes, mark
from domain.settings import Settings
from domain.tables.routes import Routes
from tests.domain.database.test_statements import in_libpq_style
from tests.domain.helpers import go_behind_the_wall, imported
from tests.factories import Fleet, make_fleet
from tests.repeatable import examples
from tests.rows import nodes
from tests.run_folder import own_folder
from tests.servers import CopiedPostgres

COPIED = ", ".join(name for name in Routes.model_fields if name not in ("id", "external_id"))
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
WRITERS = 3
ROUTES = 6


@pytest.fixture(scope="module")
def shared() -> Iterator[Database]:
    """A database on a server of its own: on the tests' server, the open transactions of other tests hold up changes."""
    with (
        own_folder("changes") as folder,
        running(CopiedPostgres(folder, durable=False)) as url,
    ):
        migrate(url)
        with Database(url) as opened:
            yield opened


def follow(database: Database, tenant: Tenant, query: RouteQuery) -> tuple[dict[str, Any], str]:
    """Reads pages until none has more. Gives each route as it was read last, and the last cursor."""
    seen: dict[str, Any] = {}
    while True:
        with database.transaction() as connection:
            page = list_changes(connection, tenant, query)
        assert page.total >= len(page.data)
        seen |= {route.id: route for route in page.data}
        assert isinstance(page.next_cursor, str)
        if page.total == len(page.data):
            return seen, page.next_cursor
        query = RouteQuery(cursor=page.next_cursor, limit=query.limit)


def committed(database: Database, tenant: Tenant) -> dict[str, Any]:
    return follow(database, tenant, RouteQuery(updated_since=LONG_AGO, limit=100))[0]


def change(writer: Connection, external_id: str, reference: str) -> None:
    """Changes a route in the writer's transaction, which goes on. No other writer changes the same route."""
    writer.execute(
        "UPDATE routes SET reference = %s, updated_at = clock_timestamp() WHERE external_id = %s",
        (reference, external_id),
    )


steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(0, ROUTES - 1)),
        st.tuples(st.sampled_from(["commit", "rollback"]), st.integers(0, WRITERS - 1)),
        st.tuples(st.just("follow"), st.integers(1, 4)),
    ),
    max_size=25,
)


@hypothesis_settings(max_examples=examples(30), deadline=None)
@example([("change", 0), ("change", 1), ("commit", 1), ("follow", 4)])  # draws seldom let one overtake another
@given(steps)
def test_a_caller_who_follows_misses_no_change(shared: Database, done: list[tuple[str, int]]) -> None:
    now = datetime.now(UTC)
    with shared.transaction() as connection:
        fleet = make_fleet(connection)
        names = [f"{fleet.company_id} {number}" for number in range(ROUTES)]
        for name in names:
            imported(connection, fleet.live, now=now, externalId=name)
    seen, cursor = follow(shared, fleet.live, RouteQuery(updated_since=LONG_AGO))

    with ExitStack() as open_connections:
        writers = [open_connections.enter_context(Connection.connect(shared.url)) for _ in range(WRITERS)]
        for number, (step, which) in enumerate(done):
            if step == "follow":
                fresh, cursor = follow(shared, fleet.live, RouteQuery(cursor=cursor, limit=which))
                seen |= fresh
            elif step == "change":
                change(writers[which % WRITERS], names[which], f"change {number}")
            else:
                getattr(writers[which], step)()
        for writer in writers:
            writer.commit()
    fresh, _ = follow(shared, fleet.live, RouteQuery(cursor=cursor, limit=2))

    assert seen | fresh == committed(shared, fleet.live)


def test_a_change_that_commits_late_comes_after_those_that_were_read_before_it(shared: Database, now: datetime) -> None:
    with shared.transaction() as connection:
        fleet = make_fleet(connection)
        for name in ("early", "late"):
            imported(connection, fleet.live, now=now, externalId=f"{fleet.company_id} {name}")
    _, cursor = follow(shared, fleet.live, RouteQuery(updated_since=LONG_AGO))

    with Connection.connect(shared.url) as slow, Connection.connect(shared.url) as quick:
        change(slow, f"{fleet.company_id} late", "slow")
        change(quick, f"{fleet.company_id} early", "quick")
        quick.commit()
        seen, cursor = follow(shared, fleet.live, RouteQuery(cursor=cursor))
        assert seen == {}, "the quick change may not be told before the slow one, which is older"
        slow.commit()

    seen, _ = follow(shared, fleet.live, RouteQuery(cursor=cursor))
    assert sorted(route.reference for route in seen.values()) == ["quick", "slow"]


begins = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(0, ROUTES - 1)),
        st.tuples(st.sampled_from(["commit", "rollback"]), st.integers(0, WRITERS - 1)),
        st.tuples(st.sampled_from(["mark", "begin"]), st.just(0)),
    ),
    max_size=25,
)


@hypothesis_settings(max_examples=examples(30), deadline=None)
# at the mark a writer runs that another has overtaken
@example([("change", 0), ("change", 1), ("commit", 1), ("mark", 0), ("begin", 0), ("commit", 0)])
@given(begins)
def test_a_caller_who_begins_at_any_time_misses_nothing_that_commits_after_it(
    shared: Database, done: list[tuple[str, int]]
) -> None:
    """A caller knows at `begin` what is committed, and asks for the changes since then, at the end, by cursors."""
    now = datetime.now(UTC)
    with shared.transaction() as connection:
        fleet = make_fleet(connection)
        names = [f"{fleet.company_id} {number}" for number in range(ROUTES)]
        for name in names:
            imported(connection, fleet.live, now=now, externalId=name)
    known: list[tuple[datetime, dict[str, Any]]] = []

    with ExitStack() as open_connections:
        writers = [open_connections.enter_context(Connection.connect(shared.url)) for _ in range(WRITERS)]
        for number, (step, which) in enumerate(done):
            if step == "begin":
                known.append((database_time(shared), stored_references(shared, fleet.live)))
            elif step == "mark":
                with shared.transaction() as connection:
                    mark(connection, every=timedelta())
            elif step == "change":
                change(writers[which % WRITERS], names[which], f"change {number}")
            else:
                getattr(writers[which], step)()
        for writer in writers:
            writer.commit()

    for since, references in known:
        fresh, _ = follow(shared, fleet.live, RouteQuery(updated_since=since, limit=2))
        references |= {route.external_id: route.reference for route in fresh.values()}
        assert references == stored_references(shared, fleet.live)


def database_time(database: Database) -> datetime:
    with database.transaction() as connection:
        ((time,),) = connection.execute("SELECT clock_timestamp()").fetchall()
    return datetime.fromisoformat(str(time))


def stored_references(database: Database, tenant: Tenant) -> dict[str, str | None]:
    """The references that a caller has who reads every route now."""
    with database.transaction() as connection:
        rows = connection.execute("SELECT external_id, reference FROM routes WHERE company_id = %s", tenant[:1])
        return dict(rows.fetchall())


def test_a_change_from_before_a_time_that_commits_after_it_is_listed_since_that_time(
    shared: Database, now: datetime
) -> None:
    with shared.transaction() as connection:
        fleet = make_fleet(connection)
        imported(connection, fleet.live, now=now, externalId=f"{fleet.company_id} slow")
    with shared.transaction() as connection:
        mark(connection, every=timedelta())

    with Connection.connect(shared.url) as slow:
        change(slow, f"{fleet.company_id} slow", "committed late")
        since = database_time(shared)
        assert follow(shared, fleet.live, RouteQuery(updated_since=since))[0] == {}
        slow.commit()

    seen, cursor = follow(shared, fleet.live, RouteQuery(updated_since=since))
    assert [route.reference for route in seen.values()] == ["committed late"]
    assert follow(shared, fleet.live, RouteQuery(cursor=cursor))[0] == {}, "the cursor is after it"


def test_a_list_begins_at_its_time(shared: Database, now: datetime) -> None:
    with shared.transaction() as connection:
        mark(connection, every=timedelta())
        fleet = make_fleet(connection)
        imported(connection, fleet.live, now=now, externalId=f"{fleet.company_id} before")
    with shared.transaction() as connection:
        mark(connection, every=timedelta())
        ((between,),) = connection.execute("SELECT clock_timestamp()").fetchall()
    with shared.transaction() as connection:
        after = imported(connection, fleet.live, now=now, externalId=f"{fleet.company_id} after")

    since = {since: follow(shared, fleet.live, RouteQuery(updated_since=since))[0] for since in (LONG_AGO, between)}

    assert len(since[LONG_AGO]) == 2
    assert [route.external_id for route in since[between].values()] == [f"{fleet.company_id} after"]
    assert after.hex in next(iter(since[between])).replace("-", "")


def test_an_empty_page_gives_the_same_cursor_again(connection: Connection, fleet: Fleet) -> None:
    first = list_changes(connection, fleet.live, RouteQuery(updated_since=LONG_AGO))
    again = list_changes(connection, fleet.live, RouteQuery(cursor=str(first.next_cursor)))
    assert (first.data, first.total) == (again.data, again.total) == ([], 0)
    assert first.next_cursor == again.next_cursor


def test_a_cursor_of_another_cell_begins_again_at_its_time(
    shared: Database, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cell counts its own transactions: the number of another cell would leave out what was changed here."""
    with shared.transaction() as connection:
        fleet = make_fleet(connection)
        for name in ("one", "two"):
            imported(connection, fleet.live, now=now, externalId=f"{fleet.company_id} {name}")
    seen, of_first = follow(shared, fleet.live, RouteQuery(updated_since=LONG_AGO))
    assert follow(shared, fleet.live, RouteQuery(cursor=of_first))[0] == {}

    monkeypatch.setattr(changes, "get_settings", lambda: Settings(cell=2))

    again, of_second = follow(shared, fleet.live, RouteQuery(cursor=of_first))
    assert again.keys() == seen.keys()
    assert follow(shared, fleet.live, RouteQuery(cursor=of_second))[0] == {}


def test_a_cursor_from_before_a_restore_begins_again_at_its_time(shared: Database, now: datetime) -> None:
    """The restored database counts on from an earlier transaction: its caller would see nothing until it is passed, and
    miss all changes up to there."""
    with shared.transaction() as connection:
        fleet = make_fleet(connection)
        imported(connection, fleet.live, now=now)
    seen, cursor = follow(shared, fleet.live, RouteQuery(updated_since=LONG_AGO))
    undone = changes._read(cursor)[0]._replace(transaction=10**15)

    again, new = follow(shared, fleet.live, RouteQuery(cursor=changes._write(undone)))

    assert again.keys() == seen.keys()
    assert new == cursor


@pytest.mark.parametrize(
    ("cursor", "other"),
    [
        ("", {}),
        ("svc_live_x", {}),
        ("é", {}),
        ("MSAxIDE", {}),
        ("MSA5OTk5OTk5OTk5OTk5OTk5OTkgMSAw" + "MDAw" * 10 + "MDA", {}),
        (None, {"status": RouteStatus.DRAFT}),
        (None, {"offset": 1}),
        (None, {"external_id": "x"}),
    ],
)
def test_a_cursor_that_is_none_and_another_filter_are_refused(
    connection: Connection, fleet: Fleet, cursor: str | None, other: dict[str, Any]
) -> None:
    query = RouteQuery(cursor=cursor, updated_since=None if cursor is not None else LONG_AGO, **other)
    assert follows_changes(query)
    with pytest.raises(Invalid) as refused:
        list_changes(connection, fleet.live, query)
    assert refused.value.faults[0].field == ("updatedSince" if cursor is None else "cursor")


def test_a_cursor_of_one_tenant_shows_another_nothing(shared: Database, now: datetime) -> None:
    with shared.transaction() as connection:
        mine, other = make_fleet(connection), make_fleet(connection)
    _, cursor = follow(shared, mine.live, RouteQuery(updated_since=LONG_AGO))
    with shared.transaction() as connection:
        imported(connection, mine.live, now=now, externalId=f"{mine.company_id} mine")

    for tenant in (other.live, mine.sandbox):
        assert follow(shared, tenant, RouteQuery(cursor=cursor))[0] == {}
    assert len(follow(shared, mine.live, RouteQuery(cursor=cursor))[0]) == 1


def test_marks_are_made_once_in_a_while_and_forgotten(connection: Connection, now: datetime) -> None:
    def marks() -> int:
        ((count,),) = connection.execute("SELECT count(*) FROM change_marks").fetchall()
        return int(count)

    connection.execute("DELETE FROM change_marks")
    mark(connection, every=timedelta(minutes=1))
    mark(connection, every=timedelta(minutes=1))
    assert marks() == 1
    forget_marks(connection, now=now + timedelta(days=91))
    assert marks() == 0


def test_changes_are_read_from_their_index(connection: Connection, now: datetime) -> None:
    fleet = make_fleet(connection)
    route_id = imported(connection, fleet.live, now=now)
    connection.execute(
        f"INSERT INTO routes (id, external_id, {COPIED})"
        f" SELECT gen_random_uuid(), 'L' || n, {COPIED} FROM routes, generate_series(1, 3000) AS n WHERE id = %s",
        (route_id,),
    )
    connection.execute("ANALYZE routes")
    go_behind_the_wall(connection, of_tenants([fleet.live]))

    statement = in_libpq_style(_CHANGES.text)
    ((explained,),) = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {statement}").fetchall()

    scans = [node for node in nodes(explained[0]["Plan"]) if node.get("Index Name")]
    assert [scan["Index Name"] for scan in scans] == ["routes_by_change"]
    assert "ROW(changed_in, id) >" in scans[0]["Index Cond"]
    assert "changed_in <" in scans[0]["Index Cond"]
