"""The second wall between companies: row-level security. A transaction of the ingress, the console or a worker sees the
rows of the companies and environments that it names at its start, and no others. One that names none sees none.

The first wall stands in the statements: each asks for its company. The second one holds where a statement forgets to.
Every table of a company's data has a policy; see `domain/migrations/row_security.py`. The policies bind `SERVICE_ROLE`,
the role under which these processes work. They do not bind the owner of the tables: migrations, the scheduler and
commands work for all companies.

PostgreSQL asks the policy about a row before it asks a condition that could tell of the row's values: a condition with
a function or an operator that is not leakproof, or with `coalesce`. No index serves such a condition. So a condition
that needs its index compares a column with another column, a parameter, a CASE, or a SELECT of its own, by `=`, `<` or
`>`. It does not compare it with `coalesce(...)` or `body->>'name'`. `python -m tests.benchmarks.wall_plans` finds
statements that lose an index.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from domain.database.statements import NotNull, Scalar, Statement
from domain.lifecycle import Environment

SERVICE_ROLE = "fuelroute_service"
"""The role that the policies bind. It owns nothing and cannot sign in; the role that signs in is a member of it."""

_ALL = "*"


class Visibility(NamedTuple):
    """The values of the two settings that the policies read: lists as PostgreSQL writes arrays, or `*` for all. An
    empty text shows no rows."""

    companies: str
    environments: str


NOTHING = Visibility("", "")
"""Shows no company's data; the default of a transaction that names none."""

EVERYTHING = Visibility(_ALL, _ALL)
"""Shows all companies' data. For operators, and for work that cannot name its companies before it reads, such as
finding the key of a request. `tests/domain/database/test_visibility.py` lists the places."""


def of_companies(company_ids: Iterable[UUID]) -> Visibility:
    """Shows these companies, live and sandbox."""
    return Visibility(_array({one.hex for one in company_ids}), _ALL)


def of_tenants(tenants: Iterable[tuple[UUID, Environment]]) -> Visibility:
    """Shows these companies in these environments. A batch that mixes companies and environments sees every
    combination."""
    pairs = set(tenants)
    return Visibility(_array({company.hex for company, _ in pairs}), _array({str(one) for _, one in pairs}))


def _array(members: Collection[str]) -> str:
    return f"{{{','.join(sorted(members))}}}"


class _Set(NamedTuple):
    companies: str
    environments: str


_SET = Statement(
    _Set,
    "SELECT set_config('fuelroute.companies', %s, %s) AS companies,"
    " set_config('fuelroute.environments', %s, %s) AS environments",
)


def visibility_settings(visibility: Visibility) -> dict[str, str]:
    """The settings of the server by name, for a transaction that changes others too."""
    return {"fuelroute.companies": visibility.companies, "fuelroute.environments": visibility.environments}


_SET_LOCALLY = Scalar(
    NotNull[str], "SELECT set_config(name, value, true) FROM unnest(%s::text[], %s::text[]) AS wanted (name, value)"
)


def set_locally(connection: psycopg.Connection[Any], settings: Mapping[str, str]) -> None:
    """Change settings of the server until the open transaction ends."""
    _SET_LOCALLY.execute(connection, (list(settings), list(settings.values())))


async def set_locally_async(connection: psycopg.AsyncConnection[Any], settings: Mapping[str, str]) -> None:
    """Change settings of the server until the open transaction ends."""
    await _SET_LOCALLY.execute(connection, (list(settings), list(settings.values())))


def set_visibility(connection: psycopg.Connection[Any], visibility: Visibility, *, local: bool = True) -> None:
    """Change what the open transaction sees; if not `local`, later transactions of the connection see it too."""
    _SET.execute(connection, (visibility.companies, local, visibility.environments, local))


async def set_visibility_async(connection: psycopg.AsyncConnection[Any], visibility: Visibility) -> None:
    """Change what this transaction and, once it commits, later ones of the connection see."""
    await _SET.execute(connection, (visibility.companies, False, visibility.environments, False))
