"""Compares the plans of every statement for the owner of the tables and behind the second wall.

    python -m tests.benchmarks.wall_plans POSTGRESQL_URL

The database is a migrated one, as full as the question asks for: a million routes of 200 companies, say. The program
plants a company in it. It prints each statement whose scans differ: another index, another condition of it, or a whole
table. A condition that is not leakproof, such as LIKE, is examined only after the policy's, so no index serves it.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import pq

from domain.database.connections import Connection
from domain.database.options import ANY_TABLE, BY_KEY
from domain.database.visibility import SERVICE_ROLE, of_companies, set_visibility
from tests.domain.database.test_statements import STATEMENTS, in_libpq_style
from tests.domain.planted import WALLED
from tests.domain.twins import FIRST, filled, parameters_of, plant_twin, records_of
from tests.rows import nodes

_OF_COMPANY = re.compile(rf"\b({'|'.join(WALLED)})\b")
IS_EXPLAINED = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b")
_CLAUSES = re.compile(r"(\w+)(?:\)::\w+)?\s*(=|<|>|<=|>=|@>|&&|\?)")


class Scan(NamedTuple):
    node: str
    table: str
    by: str
    """The index."""
    columns: tuple[str, ...]
    """The columns that the condition of the index compares."""


def scans(plan: dict[str, Any]) -> list[Scan]:
    found = []
    for node in nodes(plan):
        if "Relation Name" in node or "Index Name" in node:
            columns = {column for column, _ in _CLAUSES.findall(node.get("Index Cond", ""))}
            table, index = node.get("Relation Name", ""), node.get("Index Name", "")
            found.append(Scan(node["Node Type"], table, index, tuple(sorted(columns))))
    return sorted(found)


def lost_columns(owner: dict[str, Any], service: dict[str, Any]) -> list[Scan]:
    """The scans of the owner's plan whose index is used behind the wall, too, but for fewer columns."""
    left = scans(service)
    return [
        one
        for one in scans(owner)
        if (same := [it for it in left if it.by == one.by])
        and not any(set(it.columns) >= set(one.columns) for it in same)
    ]


def explain(connection: Connection, text: str, values: Sequence[bytes | None] | None) -> dict[str, Any]:
    """The plan with these parameters; None: the one that PostgreSQL makes before it knows them."""
    server = connection.pgconn
    if values is None:
        result = server.exec_(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {text}".encode())
    else:
        result = server.exec_params(f"EXPLAIN (FORMAT JSON) {text}".encode(), values)
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise psycopg.ProgrammingError(result.get_error_message())
    plan: dict[str, Any] = json.loads(result.get_value(0, 0) or b"")[0]["Plan"]
    return plan


def set_options(connection: Connection, options: Mapping[str, object]) -> None:
    for name, value in options.items():
        connection.execute("SELECT set_config(%s, %s, true)", (name, str(value)))


def main(url: str) -> int:
    differences = explained = 0
    with Connection.connect(url) as connection:
        plant_twin(connection, FIRST)
        for statement in STATEMENTS:
            if not _OF_COMPANY.search(statement.text) or not IS_EXPLAINED.match(statement.text):
                continue
            text = in_libpq_style(statement.text)
            values = filled(parameters_of(connection, statement), records_of(statement), [FIRST])
            for name, options, given in (("by key", BY_KEY, None), ("any table", ANY_TABLE, values)):
                with connection.transaction(force_rollback=True):
                    set_options(connection, options)
                    try:
                        owner = explain(connection, text, given)
                        connection.execute(f"SET LOCAL ROLE {SERVICE_ROLE}")
                        set_visibility(connection, of_companies([FIRST.live]))
                        service = explain(connection, text, given)
                    except psycopg.Error as error:
                        print(f"-- {name}: {' '.join(text.split())[:200]}\n   not explained: {error}")
                        continue
                explained += 1
                before, after = scans(owner), scans(service)
                if before != after:
                    differences += 1
                    cost = service["Total Cost"] / max(owner["Total Cost"], 0.01)
                    print(f"-- {name}, cost x {cost:.1f}: {' '.join(text.split())[:300]}")
                    for one in before:
                        if one not in after:
                            print(f"   owner:   {one}")
                    for one in after:
                        if one not in before:
                            print(f"   service: {one}")
        connection.rollback()
    print(f"{explained} plans, {differences} differ")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
