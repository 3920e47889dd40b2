"""The tables of lists: their columns, the columns that a user has chosen, the order of the rows, and saved filters.

The page and the CSV file of a list show the same. An order is offered only where an index or a bounded number of rows
serves it."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode

from domain.accounts.saved_filters import SavedFilter, list_saved_filters
from domain.accounts.table_columns import read_table_columns
from domain.lifecycle import Role
from ingress.console.signed_in import Page


class Column(NamedTuple):
    name: str
    title: str
    is_sortable: bool = False
    is_number: bool = False
    is_usual: bool = True
    """True for a column that users see who have chosen none."""


class ListTable(NamedTuple):
    """The table of a list. The first column leads to the record, so it is always shown."""

    name: str
    path: str
    columns: Sequence[Column]
    order: str
    """The usual order: a column's name, with `-` in front for descending; empty for a list in the order of no
    column."""

    def usual(self) -> list[str]:
        return [one.name for one in self.columns if one.is_usual]

    def known(self, names: Collection[str]) -> list[str]:
        """The first column, and those with these names, in the table's order."""
        return [one.name for number, one in enumerate(self.columns) if number == 0 or one.name in names]


class ShownTable(NamedTuple):
    """A table for one user and one address."""

    table: ListTable
    columns: list[Column]
    order_by: str
    """The column that orders the rows; empty for the list's own order."""
    is_descending: bool
    query: Mapping[str, str]
    """The filters in the address."""

    @property
    def order(self) -> str:
        return f"{'-' if self.is_descending else ''}{self.order_by}"

    @property
    def names(self) -> set[str]:
        return {one.name for one in self.columns}

    def address(self, page: int = 0, *, order: str | None = None, path: str = "") -> str:
        """The address of the list with the same filters, on another page or in another order; or of its file at
        `path`."""
        order = self.order if order is None else order
        fields = {**self.query, "order": "" if order == self.table.order else order, "page": page or ""}
        given = urlencode({name: value for name, value in fields.items() if value != ""})
        return f"{path or self.table.path}{'?' if given else ''}{given}"

    def address_sorted_by(self, column: Column) -> str:
        """The address of the list in the order of a column, or in the opposite order if it has that one now."""
        is_turned = column.name == self.order_by and not self.is_descending
        return self.address(order=f"{'-' if is_turned else ''}{column.name}")

    def direction(self, column: Column) -> str:
        """The value of `aria-sort` for a column."""
        if column.name != self.order_by:
            return ""
        return "descending" if self.is_descending else "ascending"


def shown_table(page: Page, table: ListTable, filters: Mapping[str, str]) -> ShownTable:
    """The table for the page's user, in the order in the address. An order that is not offered counts as none."""
    chosen = read_table_columns(page.connection, page.session.user_id, table.name)
    names = set(table.known(chosen if chosen is not None else table.usual()))
    order = page.form.text("order") or table.order
    if order.removeprefix("-") not in {one.name for one in table.columns if one.is_sortable}:
        order = table.order
    return ShownTable(
        table,
        [one for one in table.columns if one.name in names],
        order.removeprefix("-"),
        order.startswith("-"),
        {name: value for name, value in filters.items() if value},
    )


class FilteredList(NamedTuple):
    """A list whose filters can be saved under a name."""

    name: str
    path: str
    fields: Collection[str]
    """The fields of its address that a filter keeps."""

    def query_of(self, address: str) -> str:
        """The kept fields of an address, in one form for all spellings."""
        given = {name: value.replace("\x00", "").strip() for name, value in parse_qsl(address)}
        return urlencode({name: given[name] for name in self.fields if given.get(name)})


class SavedFilters(NamedTuple):
    """The user's filters of a list, and the filter of the present address."""

    of: FilteredList
    saved: Sequence[SavedFilter]
    query: str

    @property
    def present(self) -> str:
        """The name of the present filter, if it is saved."""
        return next((one.name for one in self.saved if one.query == self.query), "")


def saved_filters(page: Page, of: FilteredList) -> SavedFilters | None:
    """The user's saved filters of a list; None for operators, who belong to no company."""
    if page.session.role is Role.OPERATOR:
        return None
    saved = list_saved_filters(page.connection, page.company_id, page.session.user_id, of.name)
    return SavedFilters(of, saved, of.query_of(page.request.url.query))
