"""Listings of a table's rows for people: page by page, by a text that they contain, or one row by its key.

Each table has an index in the order of its list. A page without a search is read from it, and so is a search for a
frequent text. A search for a rare text reads all rows of the company (or all stations) once: some 35 ms for 100,000
rows. Matching rows are counted up to `MOST_COUNTED`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple

from domain.database.connections import Connection
from domain.database.statements import Row, Scalar, Statement

MOST_COUNTED = 10_000


class RowsPage(NamedTuple, Generic[Row]):
    rows: list[Row]
    has_more: bool
    """True if another page follows."""
    total: int
    """The number of rows on all pages; `MOST_COUNTED + 1` stands for any larger number."""


class ListOrder(NamedTuple):
    """The order of a list by one column. Ties, and rows without a value, come in the usual order at the end."""

    column: str
    is_descending: bool = False


class Listing(Generic[Row]):
    """The rows of a table. `scope` is the condition for a row to be the caller's; its parameters are the first argument
    of every call. `retires`: the table has a `retired_at`, and retired rows have a list of their own. The list can be
    ordered by the columns in `sorted_by`: that reads all rows of the company, as a search for a rare text does."""

    def __init__(
        self,
        row: type[Row],
        table: str,
        *,
        scope: str,
        key: str,
        order: str,
        searched: Sequence[str],
        retires: bool,
        sorted_by: Sequence[str] = (),
    ) -> None:
        self.sorted_by = frozenset(sorted_by)
        columns = ", ".join(row._fields)  # type: ignore[attr-defined]
        # No LIKE: a `%` or `_` in the text means itself.
        contains = f"strpos(lower(concat_ws(' ', {', '.join(searched)})), lower(%(text)s)) > 0"
        states = {False: "retired_at IS NULL", True: "retired_at IS NOT NULL"} if retires else {False: "true"}
        wanted = {
            (retired, has_text): " AND ".join((scope, state, *([contains] if has_text else [])))
            for retired, state in states.items()
            for has_text in (False, True)
        }
        orders: dict[ListOrder | None, str] = {None: order}
        for name in sorted_by:
            orders[ListOrder(name)] = f"{name} NULLS LAST, {order}"
            orders[ListOrder(name, is_descending=True)] = f"{name} DESC NULLS LAST, {order}"
        self._pages = {
            (*which, by): Statement(
                row, f"SELECT {columns} FROM {table} WHERE {where} ORDER BY {ordered} LIMIT %(limit)s OFFSET %(offset)s"
            )
            for which, where in wanted.items()
            for by, ordered in orders.items()
        }
        self._counts = {
            which: Scalar(
                int, f"SELECT count(*) FROM (SELECT FROM {table} WHERE {where} LIMIT {MOST_COUNTED + 1}) AS counted"
            )
            for which, where in wanted.items()
        }
        self._all = Statement(row, f"SELECT {columns} FROM {table} WHERE {wanted[False, False]} ORDER BY {order}")
        self._one = Statement(row, f"SELECT {columns} FROM {table} WHERE {scope} AND {key}")

    def find(
        self,
        connection: Connection,
        scope: Mapping[str, Any],
        text: str = "",
        *,
        retired: bool = False,
        order: ListOrder | None = None,
        limit: int,
        offset: int,
    ) -> RowsPage[Row]:
        """One page of the rows that contain `text`, upper or lower case. `order` is one of those in `sorted_by`; None
        for the usual one."""
        which = (retired, bool(text))
        parameters = {**scope, "text": text, "limit": limit + 1, "offset": offset}
        rows = self._pages[*which, order].all(connection, parameters)
        if len(rows) <= limit and (rows or not offset):
            return RowsPage(rows, False, offset + len(rows))
        return RowsPage(rows[:limit], len(rows) > limit, self._counts[which].one(connection, parameters))

    def each(
        self,
        connection: Connection,
        scope: Mapping[str, Any],
        text: str = "",
        *,
        retired: bool = False,
        order: ListOrder | None = None,
    ) -> Iterator[Row]:
        """The rows of all pages, in one snapshot and in portions, so that not all are in memory."""
        parameters = {**scope, "text": text, "limit": None, "offset": 0}
        return self._pages[retired, bool(text), order].in_portions(connection, 2_000, parameters)

    def read(self, connection: Connection, scope: Mapping[str, Any], **key: Any) -> Row | None:
        """The row with that key, retired or not."""
        return self._one.first(connection, {**scope, **key})

    def all(self, connection: Connection, scope: Mapping[str, Any]) -> Iterator[Row]:
        """All rows that are not retired, in one snapshot and in portions, so that not all are in memory."""
        return self._all.in_portions(connection, 2_000, scope)
