"""SQL with typed rows. A `Statement` is an SQL text and the type of its rows. A `Scalar` gives one column: its rows are
plain values. A `Command` gives no columns.

    class _Found(NamedTuple):
        id: str
        expires_at: datetime | None

    _FIND = Statement(_Found, "SELECT id, expires_at FROM api_keys WHERE prefix = ANY(%s)")

    for row in _FIND.all(connection, (prefixes,)):
        row.expired_at  # mypy: "_Found" has no attribute "expired_at"

    _COUNT = Scalar(int, "SELECT count(*) FROM api_keys WHERE company_id = %s")

    keys = _COUNT.one(connection, (company_id,))

`tests/domain/database/test_statements.py` lets PostgreSQL prepare every statement against the migrated schema, and
compares names, order and types of the columns with the row type. So neither a misspelt column nor a misread type gets
as far as a request.

How to write one:

- A row is a `NamedTuple` beside the statement, private unless others read it. Its fields are the columns, in order.
  Columns are named, never `*`: rows are filled by position.
- A field, or the value of a `Scalar`, has the type that psycopg gives: `str`, `int`, `float`, `bool`, `datetime`,
  `date`, `timedelta`, `bytes`, `Decimal`, `list[...]` of an array; `dict[...]`, `list[...]` or a `TypedDict` of jsonb.
  Enums are made where the row is read.
- A column that its table allows to be NULL is `| None`, or `NotNull[...]` where the statement itself leaves no NULL
  (by its WHERE, say). Of expressions and outer joins the test knows nothing: their NULLs are the author's to declare.
- Statements are constants of a module, never made while the service runs. Where the text depends on something, each
  variant is a constant of its own, so that each is prepared by the test.
- PostgreSQL must see the type of each parameter in the text: `%s::timestamptz - %s::interval`, not `%s - %s`.
- `first` of a `Scalar` is None for no row and for NULL: where the two differ, the row is a `NamedTuple`.
- `all`, `first` and `one` are enough for most. `execute` gives the cursor, for `rowcount` or for rows one by one,
  `in_portions` a result that is too large for the memory.
- With `binary=True` PostgreSQL sends the rows as it keeps them: neither side writes numbers, times and ids as text, or
  reads them from it. Use it for many such rows, and for bytes. A type that psycopg knows only as text (ctid, say) would
  come as bytes then; the test refuses it.
- Where psycopg is needed itself (`executemany`, COPY), `statement.text` is the SQL.

Why SQL, and not SQLAlchemy: what is hot here works on batches by sets (`jsonb_to_recordset`, `unnest`, lateral joins,
`SKIP LOCKED`), for which a query builder only spells the same SQL in another language. And its price is paid in the
process, at every call. Reading 64 routes by id takes a `Statement` 0.26 ms of processor time, SQLAlchemy Core 1.2 times
as long, SQLModel 3 times. Inserting 64 routes takes 0.20 ms, and Core 8 times as long in its own way, a parameter for
each value. `python -m tests.benchmarks.statements` measures it. SQLModel describes the schema (`tables`), where it is
read by people and by Alembic.
"""

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar, cast, overload
from uuid import UUID

if TYPE_CHECKING:
    import psycopg  # a third of the start of a command, which a command's help does not need
    from typing_extensions import TypeForm

Row = TypeVar("Row")
Value = TypeVar("Value")
Answer = TypeVar("Answer")

NOT_NULL = "the statement leaves no NULL"
NotNull = Annotated[Value, NOT_NULL]
"""A field whose column may be NULL in the table, but not in the rows of this statement."""

Parameters = Sequence[Any] | Mapping[str, Any]


class Statement(Generic[Row]):
    """An SQL text and the type of its rows."""

    made: ClassVar[list["Statement[Any]"]] = []
    """Every statement of the modules loaded so far, for the test that prepares them."""

    def __init__(self, row: "TypeForm[Row]", text: str, *, binary: bool = False) -> None:
        self.row: Any = row
        self.text = text
        self.is_binary = binary
        self._make_row: Callable[[Sequence[Any]], Row] = partial(tuple.__new__, cast("type[Any]", row))
        """Makes rows faster than `row._make`, which counts the values of each row; `_row_maker` counts them once."""
        self._width = len(getattr(row, "_fields", ()))
        Statement.made.append(self)

    @overload
    def execute(
        self, connection: "psycopg.Connection[Any]", parameters: Parameters | None = None
    ) -> "psycopg.Cursor[Row]": ...

    @overload
    def execute(
        self, connection: "psycopg.AsyncConnection[Any]", parameters: Parameters | None = None
    ) -> "Coroutine[Any, Any, psycopg.AsyncCursor[Row]]": ...

    def execute(self, connection: Any, parameters: Parameters | None = None) -> Any:
        """The cursor, for its `rowcount` or its rows. With an asynchronous connection, await it."""
        return connection.cursor(row_factory=self._row_maker, binary=self.is_binary).execute(self.text, parameters)

    def all(self, connection: "psycopg.Connection[Any]", parameters: Parameters | None = None) -> list[Row]:
        return self.execute(connection, parameters).fetchall()

    def first(self, connection: "psycopg.Connection[Any]", parameters: Parameters | None = None) -> Row | None:
        return self.execute(connection, parameters).fetchone()

    def one(self, connection: "psycopg.Connection[Any]", parameters: Parameters | None = None) -> Row:
        """The row of a statement that always gives one. Raises NoRow if there is none, which is a bug."""
        rows = self.all(connection, parameters)
        if not rows:
            raise NoRow(self.text)
        return rows[0]

    def in_portions(
        self, connection: "psycopg.Connection[Any]", size: int, parameters: Parameters | None = None
    ) -> Iterator[Row]:
        """The rows one by one, fetched `size` at a time, for a result too large to hold twice. Nothing else may run on
        the connection until the last row was taken."""
        with connection.cursor(name="portions", row_factory=self._row_maker) as cursor:
            cursor.itersize = size
            yield from cursor.execute(self.text, parameters)

    def _row_maker(self, cursor: Any) -> Callable[[Sequence[Any]], Row]:
        """Makes rows of a result; psycopg calls it once for each result."""
        result = cursor.pgresult
        if result is not None and result.nfields != self._width:
            from psycopg import InterfaceError

            raise InterfaceError(f"{result.nfields} columns for the {self._width} fields of {self.row}")
        return self._make_row


class Scalar(Statement[Row]):
    """A statement that gives one column. Its rows are the values themselves: `Scalar(UUID, "SELECT id FROM ...")`."""

    def __init__(self, value: "TypeForm[Row]", text: str) -> None:
        super().__init__(value, text)
        self._make_row = itemgetter(0)
        self._width = 1


class Command(Statement[tuple[()]]):
    """A statement that gives no columns. The cursor's `rowcount` tells what it changed, `first` whether a `SELECT FROM`
    found anything."""

    def __init__(self, text: str) -> None:
        super().__init__(tuple, text)


class Query(Generic[Answer]):
    """A statement with its parameters, and what its rows mean. The same question is asked on a blocking connection
    (`on`) and from an event loop (`on_async`)."""

    def __init__(self, statement: Statement[Row], parameters: Parameters, read: Callable[[list[Row]], Answer]) -> None:
        self._statement: Statement[Any] = statement
        self._parameters = parameters
        self._read: Callable[[list[Any]], Answer] = read

    def on(self, connection: "psycopg.Connection[Any]") -> Answer:
        return self._read(self._statement.all(connection, self._parameters))

    async def on_async(self, connection: "psycopg.AsyncConnection[Any]") -> Answer:
        cursor = await self._statement.execute(connection, self._parameters)
        return self._read(await cursor.fetchall())


class OwnedRow(NamedTuple):
    """The id of a row, and the company that owns it."""

    id: UUID
    company_id: UUID


def in_turns(columns: str, due: str) -> str:
    """SQL for some of the rows that are `due`, a query with `company_id` and `since`, the time since when a row is due.
    The first row of each company comes before the second of any, so a company with many rows does not hide the others.
    The last parameter is the number of rows."""
    return f"""
        SELECT {columns} FROM (
            SELECT due.*, row_number() OVER (PARTITION BY company_id ORDER BY since) AS turn FROM ({due}) AS due
        ) AS due ORDER BY turn, since LIMIT %s
    """


class NoRow(LookupError):
    """A statement that always gives a row gave none. The text is its SQL."""
