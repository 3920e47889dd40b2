"""Overdue work according to the database: the figures, counted, and the rows behind them. Each figure is one
statement."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.fence import PAUSED
from domain.database.statements import Statement
from domain.ids import first_id_of, shown_id
from domain.needs.figures import FIGURES

COUNTED = 10_000
"""A figure counts up to this number. Larger counts are all shown as "or more"."""


class Overdue(NamedTuple):
    """One row behind a figure."""

    id: str
    """The id of a thing of the kind `Figure.of`."""
    company_id: UUID | None
    about: str
    since: datetime | None
    detail: str


class Count(NamedTuple):
    """The number of overdue rows of a figure, at most `COUNTED`, and the time since which the first is overdue."""

    rows: int
    since: datetime | None


class HeldCount(NamedTuple):
    """Held routes whose start has passed, by what they wait for."""

    reason: str
    routes: int


_AT_WORK = (
    f"WHERE (found.company_id = ANY(ARRAY(SELECT it.company_id FROM company_moves it WHERE {PAUSED}))) IS NOT TRUE"
)
"""Leaves out what stands behind the fence. Commands see it: the copy of a company that has left is overdue for ever.
The few companies that move are read once, as an array, so that the rows keep their order and the limit ends the search.
"""
_ROWS = {
    figure.name: Statement(
        Overdue,
        "SELECT id, company_id, about, since, detail"
        f" FROM (SELECT * FROM ({figure.sql}, id) AS found {_AT_WORK} LIMIT %(searched)s) AS overdue"
        " WHERE %(detail)s::text IS NULL OR detail = %(detail)s LIMIT %(limit)s",
    )
    for figure in FIGURES.values()
}
_COUNTS = {
    figure.name: Statement(
        Count,
        "SELECT count(*) AS rows, min(since) AS since"
        f" FROM (SELECT * FROM ({figure.sql}) AS found {_AT_WORK} LIMIT %(limit)s) AS overdue",
    )
    for figure in FIGURES.values()
}
_HELD_BY_REASON = Statement(
    HeldCount,
    "SELECT detail AS reason, count(*) AS routes"
    f" FROM (SELECT * FROM ({FIGURES['held'].sql}) AS found {_AT_WORK} LIMIT %(limit)s) AS held"
    " GROUP BY detail ORDER BY count(*) DESC, detail",
)


def count(connection: Connection, *, now: datetime) -> dict[str, Count]:
    """The figures of all companies, by their names."""
    return {name: statement.one(connection, _asked(name, now, COUNTED)) for name, statement in _COUNTS.items()}


def held_by_reason(connection: Connection, *, now: datetime) -> list[HeldCount]:
    return _HELD_BY_REASON.all(connection, _asked("held", now, COUNTED))


def rows(connection: Connection, figure: str, *, limit: int, now: datetime, detail: str | None = None) -> list[Overdue]:
    """The rows that the figure counts, longest overdue first; failed messages newest first. `detail`: only rows with
    it."""
    return _ROWS[figure].all(
        connection, {**_asked(figure, now, limit), "detail": detail, "searched": limit if detail is None else COUNTED}
    )


def _asked(figure: str, now: datetime, limit: int) -> dict[str, object]:
    after = FIGURES[figure].after
    return {"now": now, "after": after, "first_id": first_id_of(now - after), "limit": limit}


def shown_row_id(figure: str, row: Overdue) -> str:
    """The id as people see it: with its prefix, but a station's as it is."""
    kind = FIGURES[figure].of
    return row.id if kind is None else shown_id(kind, UUID(row.id))
