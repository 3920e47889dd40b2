"""Every statement, asked for either of two companies that are equal in everything: behind the second wall the answer is
the one that it gives where the other company does not exist, and nothing of the other one is changed."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg import pq

from domain.database import Connection
from domain.database_options import BY_KEY
from domain.statements import Statement
from domain.visibility import SERVICE_ROLE, of_companies, set_visibility
from tests.benchmarks.wall_plans import IS_EXPLAINED, explain, lost_columns, set_options
from tests.conftest import make_database
from tests.domain.planted import WALLED
from tests.domain.test_statements import STATEMENTS, in_libpq_style
from tests.domain.twins import FIRST, SECOND, STATES, filled, parameters_of, plant_twin, records_of

_OF_COMPANY = re.compile(rf"\b({'|'.join(WALLED)})\b")
"""Statements that name a table of companies' data."""


_UNPROVEN = {
    # housekeeping and erasing work as the owner of the tables, for all companies
    "DELETE FROM tracks",
    "DELETE FROM request_log",
    "DELETE FROM route_counts",
    "INSERT INTO former_names",
    "SET reason = 'It named a driver who was erased'",
    "SET error = 'It named a driver who was erased'",
    "SET detail = 'It named a driver who was erased'",
    "SET closed_reason = 'It named a driver who was erased'",
    # sealing contacts, too
    "NOT starts_with(",
    # operators see all companies
    "FROM audit_log WHERE company_id IS NULL",
    "AS detail FROM routes WHERE status",
    "route.status AS detail FROM routes route",
    "u.role = 'operator'",
    # more rows than one, or another kind of row, would have to be there
    "OFFSET 50",
    "SELECT old.id, new.external_id FROM routes new",
    "road.as_of, road.generated_at",
    "review_requests = review_requests + 1, review_at = coalesce(review_at, %(due)s) FROM",
    "UPDATE routes SET replan = NULL",
    "AND correction_id IS NULL AND replan = %s",
    "totp_used_step < %(step)s",
    "WITH fix AS MATERIALIZED",
    "WITH judged AS MATERIALIZED",
    "WITH moved AS MATERIALIZED",
    "SELECT u.id AS user_id, u.email, u.role",
    # what they write is one text of their own making
    "INSERT INTO request_log",
    "jsonb_to_recordset(%s) AS pushed",
    "INSERT INTO deals",
    "jsonb_array_elements_text(%(ids)s)",
    # no rows
    "LOCK TABLE price_sets",
    "set_config('fuelroute.companies'",
}
"""Statements that find no row of the second twin in any of the states, even without the wall: a part of each text."""


class Outcome(NamedTuple):
    error: str
    tag: str
    rows: tuple[tuple[bytes | None, ...], ...]


class Asked:
    """A statement, and its parameters that ask for the first twin, for the second one, and for both."""

    def __init__(self, connection: Connection, statement: Statement[Any]) -> None:
        parameters, records = parameters_of(connection, statement), records_of(statement)
        self.text = statement.text
        self.sent = in_libpq_style(statement.text).encode()
        self.ways = [filled(parameters, records, twins) for twins in ((FIRST,), (SECOND,), (FIRST, SECOND))]


class Worlds(NamedTuple):
    """A database with both twins, and one in which the second one never was."""

    both: Connection
    alone: Connection

    def differ(self, statement: Asked, values: Sequence[bytes | None]) -> tuple[Outcome, Outcome] | None:
        """The two outcomes, if they tell that the second twin exists. Nothing of them stays."""
        both, alone = (_run(connection, statement, values) for connection in self)
        return (both, alone) if both != alone else None


@pytest.fixture(scope="module")
def owners() -> Iterator[Worlds]:
    with psycopg.connect(make_database("twins")) as both, psycopg.connect(make_database("only_child")) as alone:
        for connection in (both, alone):
            plant_twin(connection, FIRST)
        plant_twin(both, SECOND)
        for connection in (both, alone):
            connection.commit()
            connection.pgconn.prepare(_CHANGED_ROWS, _CHANGED)
        yield Worlds(both, alone)


@pytest.fixture(scope="module")
def walled(owners: Worlds) -> Iterator[Worlds]:
    """Behind the second wall, with the first twin visible."""
    options = f"-c role={SERVICE_ROLE} -c plan_cache_mode=force_generic_plan"
    with (
        psycopg.connect(owners.both.info.dsn, options=options) as both,
        psycopg.connect(owners.alone.info.dsn, options=options) as alone,
    ):
        for connection in (both, alone):
            set_visibility(connection, of_companies([FIRST.live]), local=False)
            connection.execute("SET LOCAL ROLE NONE")
            connection.pgconn.prepare(_CHANGED_ROWS, _CHANGED)
            connection.commit()
        yield Worlds(both, alone)


def test_no_statement_tells_of_another_company_or_changes_it(owners: Worlds, walled: Worlds) -> None:
    """It also finds out which statements would, without the wall: for the others the test would prove nothing."""
    asked = [Asked(owners.both, statement) for statement in STATEMENTS if _OF_COMPANY.search(statement.text)]
    faults, proven = [], set[str]()
    for state in STATES:
        for connection in owners:
            for change in state:
                connection.execute(change)
            connection.commit()
        for one in asked:
            if one.text in proven:
                continue
            if any(owners.differ(one, way) for way in one.ways):
                proven.add(one.text)
            elif state:
                continue
            faults += [(one.text, told) for way in one.ways if (told := walled.differ(one, way))]
    assert faults == []
    unproven = [one.text for one in asked if one.text not in proven]
    unexpected = [text for text in unproven if not any(one in " ".join(text.split()) for one in _UNPROVEN)]
    assert unexpected == [], "let one of the STATES give them a row, or say why not"


_SEARCHES = "WITH searched AS"
"""The search of routes is planned when its parameters are known. `coalesce` of a known value is a value."""


def test_each_index_serves_the_same_conditions_behind_the_wall(owners: Worlds, walled: Worlds) -> None:
    faults = []
    for connection in (owners.alone, walled.alone):
        set_options(connection, BY_KEY)
    for statement in STATEMENTS:
        if IS_EXPLAINED.match(statement.text) and _SEARCHES not in statement.text and "erasures" not in statement.text:
            text = in_libpq_style(statement.text)
            owner, service = (explain(connection, text, None) for connection in (owners.alone, walled.alone))
            faults += [(statement.text, lost) for lost in lost_columns(owner, service)]
    assert faults == []


def _run(connection: Connection, statement: Asked, values: Sequence[bytes | None]) -> Outcome:
    """Execute the statement, and roll it back. The outcome of a statement that writes names the tables in which rows of
    the second twin were changed."""
    server = connection.pgconn
    server.exec_(b"BEGIN")
    result = server.exec_params(statement.sent, values)
    if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        outcome = Outcome((result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode(), "", ())
    else:
        rows = [tuple(result.get_value(row, field) for field in range(result.nfields)) for row in range(result.ntuples)]
        outcome = Outcome("", (result.command_status or b"").decode(), tuple(sorted(rows, key=repr)))
        if _WRITES.search(statement.sent):
            server.exec_(b"SET LOCAL ROLE NONE")
            changed = server.exec_prepared(_CHANGED_ROWS, [])
            names = [(changed.get_value(row, 0) or b"").decode() for row in range(changed.ntuples)]
            outcome = outcome._replace(error=" ".join(names))
    server.exec_(b"ROLLBACK")
    return outcome


_CHANGED_ROWS = b"changed_rows"
_WRITES = re.compile(rb"INSERT|UPDATE|DELETE")
_CHANGED = " UNION ALL ".join(
    f"(SELECT '{table}' FROM {table} it"
    f" WHERE it.xmin = pg_current_xact_id()::xid AND it::text LIKE '%{str(SECOND.live)[:20]}%' LIMIT 1)"
    for table in WALLED
).encode()
"""The tables in which the transaction has changed a row of the second twin. Deleted rows are counted by the tag."""
