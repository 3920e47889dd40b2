"""Rows that a company owns, such as webhook endpoints and connectors: listed, found, locked and counted in one way.

    ENDPOINTS = Owned(Endpoint, "webhook_endpoints", kind="whe", unknown=UnknownEndpoint)

    ENDPOINTS.all(connection, company_id)
    ENDPOINTS.find(connection, company_id, endpoint_id)  # raises UnknownEndpoint

A command locks what its argument names (`locked` in `deploy/cli/storing.py`), a page what its address names
(`named_in_address` in `ingress/console/signed_in.py`)."""

from collections.abc import Callable, Sequence
from typing import Generic
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Row, Scalar, Statement
from domain.errors import FuelrouteError, Unknown
from domain.ids import IdKind, read_id, shown_id


class Owned(Generic[Row]):
    """The rows of a table with the columns `id` and `company_id`.

    `kind` is that of their ids. `unknown` makes the error for an id, as people see it, that the company does not have.
    `order` is the order of the list. The room for more is counted among the rows with the same values of `counted_by`.
    Rows for which the condition `only` does not hold count as not there.
    """

    def __init__(
        self,
        row: type[Row],
        table: str,
        *,
        kind: IdKind,
        unknown: Callable[[str], Unknown],
        order: str = "id",
        counted_by: Sequence[str] = ("company_id",),
        only: str = "",
    ) -> None:
        self.columns = ", ".join(row._fields)  # type: ignore[attr-defined]
        self._kind = kind
        self._unknown = unknown
        rows = f"SELECT {self.columns} FROM {table} WHERE company_id = %s{only and f' AND {only}'}"
        counted = " AND ".join(f"{column} = %s" for column in counted_by)
        self._all = Statement(row, f"{rows} ORDER BY {order}")
        self._find = Statement(row, f"{rows} AND id = %s")
        self._lock = Statement(row, f"{rows} AND id = %s FOR NO KEY UPDATE")
        self._count = Scalar(int, f"SELECT count(*) FROM {table} WHERE {counted}")

    def all(self, connection: Connection, company_id: UUID) -> list[Row]:
        return self._all.all(connection, (company_id,))

    def find(self, connection: Connection, company_id: UUID, row_id: UUID) -> Row:
        """The row. Raises Unknown if the company has no such row; the console answers 404."""
        return self._known(self._find.first(connection, (company_id, row_id)), row_id)

    def lock(self, connection: Connection, company_id: UUID, row_id: UUID) -> Row:
        """The row, locked until the transaction ends. Raises Unknown."""
        return self._known(self._lock.first(connection, (company_id, row_id)), row_id)

    def _known(self, row: Row | None, row_id: UUID) -> Row:
        if row is None:
            raise self._unknown(shown_id(self._kind, row_id))
        return row

    def read_id(self, shown: str) -> UUID:
        """The id that people see as `shown`. Raises Unknown for any other text."""
        row_id = read_id(self._kind, shown)
        if row_id is None:
            raise self._unknown(shown)
        return row_id

    def require_room(self, connection: Connection, owner: Sequence[object], most: int, full: FuelrouteError) -> None:
        """Check that there are fewer than `most` rows. Raises `full` otherwise. `owner` has the values of `counted_by`.
        The caller has locked the company, so that two who add at once are counted one after the other."""
        if self._count.one(connection, owner) >= most:
            raise full
