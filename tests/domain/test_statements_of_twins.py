"""Every statement, asked for either of two companies that are equal in everything: behind the second wall the answer is
the one that it gives where the other company does not exist, and nothing of the other one is changed."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import pytest
from psycopg import pq

from domain.database.connections import Connection
from domain.database.options import BY_KEY
from domain.database.statements import Statement
from domain.database.visibility import SERVICE_ROLE, of_companies, set_visibility
from tests.benchmarks.wall_plans import IS_EXPLAINED, explain, lost_columns, set_options
from tests.conftest import make_database
from tests.domain.database.test_statements import STATEMENTS, in_libpq_style
from tests.domain.planted import OF_OWNER, WALLED
from tests.domain.twins import FIRST, SECOND, STATES, filled, parameters_of, plant_twin, records_of

_OF_COMPANY = re.compile(rf"\b({'|'.join(WALLED)})\b")
"""Statements that name a table of companies' data."""

_OF_ALL_COMPANIES = "FROM station_closures c WHERE c.company_id IS NULL"
"""Closures that operators have marked for all companies."""

_OF_CATALOG = re.compile(r"\b(?:FROM|JOIN) pg_|\bpg_(?:stat|ls|total_relation|relation)\w*")
"""Statements about the tables as a whole, which the doctor and migrations ask."""


_SAME_TRANSACTIONS = "ALTER TABLE routes DISABLE TRIGGER note_change_of_route; UPDATE routes SET changed_in = 1"
"""Transactions have other numbers in each database, whoever is in it."""


_NO_AUTOVACUUM = """
    DO $$ DECLARE one regclass; BEGIN
        FOR one IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', one);
        END LOOP;
    END $$
"""
"""The tables hold two rows. Statistics that say so would let PostgreSQL choose among its indexes by chance, and on a
busy machine these tests last long enough to get some."""


_PLANNED_ONCE = "-c plan_cache_mode=force_generic_plan"


class Outcome(NamedTuple):
    error: str
    tag: str
    rows: tuple[tuple[bytes | None, ...], ...]


class Asked:
    """A statement, its tables, and its parameters that ask for the first twin, for the second one, and for both."""

    def __init__(self, connection: Connection, statement: Statement[Any]) -> None:
        parameters, records = parameters_of(connection, statement), records_of(statement)
        self.text = statement.text
        self.tables = set(_OF_COMPANY.findall(statement.text))
        self.sent = in_libpq_style(statement.text).encode()
        self.name = f"asked{id(self)}".encode()
        self.ways = [filled(parameters, records, twins) for twins in ((FIRST,), (SECOND,), (FIRST, SECOND))]
        self.looks = 5 if "pg_current_wal" in statement.text else 1
        """Looks until one tells nothing: the server's log goes on between two of them, whoever writes."""


class Worlds(NamedTuple):
    """A database with both twins, and one in which the second one never was."""

    both: Connection
    alone: Connection

    def differ(self, statement: Asked, values: Sequence[bytes | None]) -> tuple[Outcome, Outcome] | None:
        """The two outcomes, if they tell that the second twin exists. Nothing of them stays."""
        outcomes = None
        for _ in range(statement.looks):
            both, alone = (_run(connection, statement, values) for connection in self)
            if both == alone:
                return None
            outcomes = both, alone
        return outcomes


@pytest.fixture(scope="module")
def owners() -> Iterator[Worlds]:
    with (
        Connection.connect(make_database("twins"), options=_PLANNED_ONCE) as both,
        Connection.connect(make_database("only_child"), options=_PLANNED_ONCE) as alone,
    ):
        for connection in (both, alone):
            connection.execute(_NO_AUTOVACUUM)
            plant_twin(connection, FIRST)
        plant_twin(both, SECOND)
        for connection in (both, alone):
            connection.execute(_SAME_TRANSACTIONS)
            connection.commit()
            connection.pgconn.prepare(_CHANGED_ROWS, _CHANGED)
        yield Worlds(both, alone)


@pytest.fixture(scope="module")
def walled(owners: Worlds) -> Iterator[Worlds]:
    """Behind the second wall, with the first twin visible."""
    options = f"-c role={SERVICE_ROLE} {_PLANNED_ONCE}"
    with (
        Connection.connect(owners.both.info.dsn, options=options) as both,
        Connection.connect(owners.alone.info.dsn, options=options) as alone,
    ):
        for connection in (both, alone):
            set_visibility(connection, of_companies([FIRST.live]), local=False)
            connection.execute("SET LOCAL ROLE NONE")
            connection.pgconn.prepare(_CHANGED_ROWS, _CHANGED)
            connection.commit()
        yield Worlds(both, alone)


def test_no_statement_tells_of_another_company_or_changes_it(owners: Worlds, walled: Worlds) -> None:
    """It also finds out which statements would, without the wall: for the others the test would prove nothing."""
    asked = [Asked(owners.both, statement) for statement in STATEMENTS if _is_of_company(statement)]
    faults, proven = [], set[str]()
    for state in STATES:
        changed = set(_CHANGED_TABLE.findall(" ".join(state)))
        for connection in owners:
            for change in state:
                connection.execute(change)
            connection.commit()
        for one in asked:
            if one.text in proven or (state and not changed & one.tables):
                continue
            if any(owners.differ(one, way) for way in one.ways):
                proven.add(one.text)
            elif state:
                continue
            faults += [(one.text, told) for way in one.ways if (told := walled.differ(one, way))]
    assert faults == []
    assert len(proven) > 0.8 * len(asked), (
        "most statements find a row in one of the STATES; the doctor's look for faults"
    )


_CHANGED_TABLE = re.compile(r"UPDATE (\w+)")


def _is_of_company(statement: Statement[Any]) -> bool:
    text = statement.text.replace(_OF_ALL_COMPANIES, "")
    return bool(_OF_COMPANY.search(text)) and not _OF_CATALOG.search(statement.text)


_OTHERS = re.compile(
    r"\bWITH searched AS\b|UPDATE tracks t SET free_since|"
    rf"v\.stop = jsonb_array_length\(|\b(?:(?:positions|request_log)_\w+|{'|'.join(OF_OWNER)})\b"
)
"""The search of routes is planned when its parameters are known: `coalesce` of a known value is a value. Tables of the
owner are not for the service. The last stop of a route is found among the visits of that route, which are few."""


def test_each_index_serves_the_same_conditions_behind_the_wall(owners: Worlds, walled: Worlds) -> None:
    faults = []
    for connection in (owners.alone, walled.alone):
        set_options(connection, BY_KEY)
    for statement in STATEMENTS:
        if IS_EXPLAINED.match(statement.text) and not (
            _OTHERS.search(statement.text) or _OF_CATALOG.search(statement.text)
        ):
            text = in_libpq_style(statement.text)
            owner, service = (explain(connection, text, None) for connection in (owners.alone, walled.alone))
            faults += [(statement.text, lost) for lost in lost_columns(owner, service)]
    assert faults == []


def _run(connection: Connection, statement: Asked, values: Sequence[bytes | None]) -> Outcome:
    """Execute the statement, and roll it back. The outcome of a statement that writes names the tables in which rows of
    the second twin were changed."""
    server = connection.pgconn
    if server.transaction_status == pq.TransactionStatus.IDLE:
        server.exec_(b"BEGIN")
    result = _prepared(server, statement) or server.exec_prepared(statement.name, cast("Sequence[bytes]", values))
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        outcome = Outcome((result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode(), "", ())
    else:
        rows = [tuple(result.get_value(row, field) for field in range(result.nfields)) for row in range(result.ntuples)]
        outcome = Outcome("", (result.command_status or b"").decode(), tuple(sorted(rows, key=repr)))
        if _WRITES.search(statement.sent) and server.exec_(_HAS_CHANGED).get_value(0, 0) == b"t":
            server.exec_(b"SET LOCAL ROLE NONE")
            changed = server.exec_prepared(_CHANGED_ROWS, [])
            names = [(changed.get_value(row, 0) or b"").decode() for row in range(changed.ntuples)]
            outcome = outcome._replace(error=" ".join(names))
    server.exec_(b"ROLLBACK AND CHAIN")
    return outcome


def _prepared(server: pq.abc.PGconn, statement: Asked) -> pq.abc.PGresult | None:
    """The refusal of a statement that PostgreSQL does not prepare. What is asked for several twins in several states is
    read and planned once by each session."""
    if (server.backend_pid, statement.name) in _known:
        return None
    result = server.prepare(statement.name, statement.sent)
    if result.status != pq.ExecStatus.COMMAND_OK:
        return result
    _known.add((server.backend_pid, statement.name))
    return None


_known = set[tuple[int, bytes]]()

_HAS_CHANGED = b"SELECT pg_current_xact_id_if_assigned() IS NOT NULL"
_CHANGED_ROWS = b"changed_rows"
_WRITES = re.compile(rb"INSERT|UPDATE|DELETE")
_CHANGED = " UNION ALL ".join(
    f"(SELECT '{table}' FROM {table} it"
    f" WHERE it.xmin = pg_current_xact_id()::xid AND it::text LIKE '%{str(SECOND.live)[:20]}%' LIMIT 1)"
    for table in WALLED
).encode()
"""The tables in which the transaction has changed a row of the second twin. Deleted rows are counted by the tag."""
