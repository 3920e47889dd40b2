"""Check of routes: the status of each agrees with its plan, message, visits and savings.

Routes are checked in portions in the order of their ids, the newest first. A portion is one statement, so its facts are
of one moment, and no snapshot is older than a portion. The same portions find children whose route is gone. When time
is over, the oldest routes are left: they ended long ago and change no more.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

import psycopg

from domain.database.statements import Command, Scalar, Statement
from domain.ids import shown_id
from domain.operations.doctor.checks import Examined, Finding, NotFinished, problem
from domain.operations.doctor.references import CHILDREN_OF_ROUTES, MOST_ORPHANS, ParentReference, orphans
from domain.operations.doctor.route_rules import ROUTE_RULES, faults_by_status

PORTION = 50_000

_FIRST, _LAST = UUID(int=0), UUID(int=(1 << 128) - 1)


class _FaultyRoute(NamedTuple):
    id: UUID
    faults: list[str]


_ESTIMATE = Scalar(int, "SELECT greatest(reltuples, 0)::int8 FROM pg_class WHERE oid = 'routes'::regclass")
_BOUNDARY = Scalar(UUID, "SELECT id FROM routes WHERE id <= %s ORDER BY id DESC OFFSET %s LIMIT 1")

_IN_PORTION = "{} > %(after)s::uuid AND {} <= %(upto)s::uuid"


def _in_portion(column: str) -> str:
    return _IN_PORTION.format(column, column)


# Each table is read by the same range of route ids: one pass over its index, and no look-up for each route.
_FAULTS = Statement(
    _FaultyRoute,
    f"""
    SELECT id, faults FROM (
        SELECT r.id, array_remove({faults_by_status()}, NULL) AS faults
        FROM routes r
        LEFT JOIN plans p ON p.id = r.plan_id AND p.route_id = r.id AND {_in_portion("p.route_id")}
        LEFT JOIN messages m ON m.plan_id = r.plan_id AND m.route_id = r.id AND {_in_portion("m.route_id")}
        LEFT JOIN savings s ON s.route_id = r.id AND {_in_portion("s.route_id")}
        LEFT JOIN (
            SELECT route_id, company_id, environment, min(arrived_at) AS arrived_at, min(stop) AS first,
                   max(stop) AS last
            FROM visits WHERE {_in_portion("route_id")} GROUP BY route_id, company_id, environment) AS v
            ON v.route_id = r.id
        LEFT JOIN vehicles truck ON truck.id = r.vehicle_id AND truck.company_id = r.company_id
        LEFT JOIN drivers driver ON driver.id = r.driver_id AND driver.company_id = r.company_id
        WHERE {_in_portion("r.id")}
        OFFSET 0) AS judged
    WHERE faults <> '{{}}' ORDER BY id DESC LIMIT {MOST_ORPHANS}
    """,
)


_ORPHANS_IN_PORTION = {
    reference: Scalar(
        str,
        f"""
        SELECT child.{reference.column}::text FROM {reference.child} child
        WHERE {_in_portion(f"child.{reference.column}")} AND NOT EXISTS (
            SELECT FROM routes r WHERE r.id = child.{reference.column} AND {_in_portion("r.id")})
        ORDER BY child.{reference.column} DESC LIMIT {MOST_ORPHANS}
        """,
    )
    for reference in CHILDREN_OF_ROUTES
}


_NO_NESTED_LOOPS = Command("SET LOCAL enable_nestloop = off")
"""PostgreSQL cannot tell how many ids lie between two UUIDs in one bucket of its histogram. In a large table a portion
is no more than a bucket, and PostgreSQL takes it for one row."""


def check_routes(seen: Examined) -> Iterator[Finding]:
    found: dict[str, list[str]] = defaultdict(list)
    gone: dict[ParentReference, list[str]] = defaultdict(list)
    total = max(_ESTIMATE.one(seen.connection), 1)
    checked, upto, finished = 0, _LAST, False
    while not finished and seen.seconds_left() > 0:
        boundary = _BOUNDARY.first(seen.connection, (upto, PORTION))
        after = boundary if boundary is not None else _FIRST
        try:
            _check_portion(seen, {"after": after, "upto": upto}, found, gone)
        except psycopg.errors.QueryCanceled:
            break
        checked, upto, finished = checked + PORTION, after, boundary is None
        seen.told(min(checked / total, 1))
    for name, examples in found.items():
        rule = ROUTE_RULES[name]
        yield problem(f"{rule.what}: {len(examples):,}", rule.what_to_do, tuple(examples[: seen.most_examples]))
    for reference, rows in gone.items():
        yield orphans(reference, rows, seen)
    if not finished:
        raise NotFinished(f"the newest {checked:,} of about {max(total, checked):,} routes were checked")


def _check_portion(
    seen: Examined, portion: dict[str, UUID], found: dict[str, list[str]], gone: dict[ParentReference, list[str]]
) -> None:
    with seen.connection.transaction():
        _NO_NESTED_LOOPS.execute(seen.connection)
        for row in _FAULTS.all(seen.connection, portion):
            for fault in row.faults:
                found[fault].append(shown_id("rte", row.id))
        for reference, statement in _ORPHANS_IN_PORTION.items():
            if rows := statement.all(seen.connection, portion):
                gone[reference] += rows
