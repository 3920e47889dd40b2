"""Every statement is prepared by PostgreSQL against the migrated schema, and gives the columns that its row type has.

PostgreSQL tells name and type of each column of a prepared statement, and which column of which table it comes from;
nothing is executed. It does not tell what an expression or an outer join may leave NULL.
"""

import ast
import asyncio
import importlib
import inspect
import re
import types
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

import psycopg
import pytest
from psycopg import pq

import domain
from domain.database.connections import Connection
from domain.database.statements import NOT_NULL, Command, NoRow, NotNull, Scalar, Statement
from domain.ids import new_id
from domain.settings import Settings
from tests.domain.test_import_order import statements

_ROOT = Path(domain.__file__).parent.parent
_PACKAGES = ("deploy", "domain", "ingress", "scheduler", "workers")


_MAKES_STATEMENTS = re.compile(r"from domain\.database\.(?:statements|listing) import")


def _load_modules() -> list[types.ModuleType]:
    """The modules that have statements. Others may need libraries that are not installed."""
    paths = (path for package in _PACKAGES for path in (_ROOT / package).rglob("*.py"))
    with_statements = [path for path in sorted(paths) if _MAKES_STATEMENTS.search(path.read_text())]
    names = [".".join(path.relative_to(_ROOT).with_suffix("").parts) for path in with_statements]
    return [importlib.import_module(name.removesuffix(".__init__")) for name in names]


MODULES = _load_modules()
STATEMENTS = sorted(Statement.made, key=lambda statement: statement.text)
"""Before this module makes wrong ones."""

_TYPES: dict[str, type] = {
    "bool": bool,
    "bytea": bytes,
    "date": date,
    "float4": float,
    "float8": float,
    "int2": int,
    "int4": int,
    "int8": int,
    "interval": timedelta,
    "name": str,
    "numeric": Decimal,
    "oid": int,
    "text": str,
    "tid": str,
    "timestamptz": datetime,
    "uuid": UUID,
    "varchar": str,
}
"""The Python type that psycopg makes of each of PostgreSQL's types."""


class Column(NamedTuple):
    name: str
    type: str
    """Its name in PostgreSQL; of an array that of its elements and `[]`."""
    may_be_null: bool
    """In the table that it comes from."""


@pytest.fixture(scope="module")
def schema(settings: Settings) -> Iterator[Connection]:
    """A connection for statements that may fail, each on its own."""
    with Connection.connect(settings.require_database_url(), autocommit=True) as connection:
        yield connection


_PLACEHOLDER = re.compile(r"%(?:\((?P<name>\w+)\))?(?P<kind>[sbt%])")


def parameters_of(text: str) -> list[str]:
    """The names of a statement's parameters; "" for each that has none."""
    return [found["name"] or "" for found in _PLACEHOLDER.finditer(text) if found["kind"] != "%"]


def in_libpq_style(text: str) -> str:
    """The statement as psycopg sends it, with $1 for %s and %(name)s."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        if found["kind"] == "%":
            return "%"
        return f"${numbers.setdefault(found['name'] or str(len(numbers)), len(numbers) + 1)}"

    return _PLACEHOLDER.sub(number, text)


def columns_of(connection: Connection, statement: Statement[Any]) -> list[Column]:
    """The columns of a statement's rows. Raises psycopg.Error if PostgreSQL cannot prepare it."""
    server = connection.pgconn
    for result in (server.prepare(b"", in_libpq_style(statement.text).encode()), server.describe_prepared(b"")):
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise psycopg.ProgrammingError(result.get_error_message())
    origins = [(result.ftable(number), result.ftablecol(number)) for number in range(result.nfields)]
    nullable = {
        (row[0], row[1])
        for row in connection.execute(
            "SELECT attrelid::int8, attnum FROM pg_attribute WHERE attrelid = ANY(%s) AND NOT attnotnull",
            ([table for table, _ in origins],),
        ).fetchall()
    }
    return [
        Column((result.fname(number) or b"").decode(), _type_name(connection, result.ftype(number)), origin in nullable)
        for number, origin in enumerate(origins)
    ]


def _type_name(connection: Connection, oid: int) -> str:
    known = connection.adapters.types.get(oid)
    if known is None:
        return f"type {oid}"
    return known.name if oid == known.oid else f"{known.name}[]"


def faults_of(connection: Connection, statement: Statement[Any]) -> list[str]:
    """The faults of a statement or of its row type; empty: none."""
    try:
        columns = columns_of(connection, statement)
    except psycopg.Error as error:
        return [str(error).strip()]
    unread = [column.name for column in columns if statement.is_binary and not _is_read_from_binary(connection, column)]
    if unread:
        return [f"psycopg reads {', '.join(unread)} only from text"]
    names = parameters_of(statement.text)
    if "" in names and any(names):
        return ["named and unnamed parameters are mixed"]
    if isinstance(statement, Scalar):
        if len(columns) != 1:
            return [f"a scalar has one column, not {[column.name for column in columns]}"]
        fields = {columns[0].name: statement.row}
    else:
        fields = get_type_hints(statement.row, include_extras=True) if hasattr(statement.row, "_fields") else {}
    if list(fields) != [column.name for column in columns]:
        return [f"the columns are {[column.name for column in columns]}, the fields {list(fields)}"]
    faults = (_fault(column, field) for column, field in zip(columns, fields.values(), strict=True))
    return [fault for fault in faults if fault is not None]


def _is_read_from_binary(connection: Connection, column: Column) -> bool:
    known = connection.adapters.types[column.type.removesuffix("[]")]
    return connection.adapters.get_loader(known.oid, pq.Format.BINARY) is not None


def _fault(column: Column, field: Any) -> str | None:
    declared, may_be_none, never_null = _parted(field)
    if not _fits(column.type, declared):
        return f"{column.name} is {column.type}, the field {field}"
    if column.may_be_null and not may_be_none and not never_null:
        return f"{column.name} may be NULL: the field is to be `| None`, or `NotNull[...]`"
    return None


def _parted(field: Any) -> tuple[Any, bool, bool]:
    """A field's type without `| None` and `NotNull`; whether it has them."""
    never_null = get_origin(field) is Annotated and NOT_NULL in get_args(field)
    if never_null:
        field = get_args(field)[0]
    if get_origin(field) in (Union, types.UnionType) and type(None) in get_args(field):
        rest = [one for one in get_args(field) if one is not type(None)]
        return (rest[0] if len(rest) == 1 else field), True, never_null
    return field, False, never_null


def _fits(name: str, declared: Any) -> bool:
    if name in ("json", "jsonb"):
        return get_origin(declared) in (dict, list) or is_typeddict(declared)
    if name.endswith("[]"):
        return get_origin(declared) is list and _fits(name.removesuffix("[]"), _parted(get_args(declared)[0])[0])
    return declared is _TYPES.get(name)


def test_every_statement_gives_the_columns_of_its_row_type(schema: Connection) -> None:
    faults = {statement.text: found for statement in STATEMENTS if (found := faults_of(schema, statement))}
    assert not faults, "\n".join(f"{'; '.join(found)}\n    in {text}" for text, found in faults.items())


@cache
def syntax_of(module: types.ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def test_every_statement_is_a_constant() -> None:
    """One that is made while the service runs would not have been prepared here. A `Listing`, an `Owned`, a
    `SealedColumn` and a `FleetTable` make those of a table: they are constants themselves."""
    for module in MODULES:
        for function in statements(syntax_of(module).body):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                if (module.__name__, function.name) in {
                    ("domain.database.listing", "__init__"),
                    ("domain.database.owned", "__init__"),
                    ("domain.accounts.contacts", "__init__"),
                    ("domain.fleet.records", "__init__"),
                }:
                    continue
                called = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
                names = {name.id for name in called if isinstance(name, ast.Name)}
                made = names & {"Statement", "Scalar", "Command", "Listing", "Owned", "SealedColumn", "FleetTable"}
                assert not made, f"{module.__name__}.{function.name} makes a statement"


@pytest.mark.parametrize("package", ["domain", "ingress", "scheduler", "workers"])
def test_no_text_is_made_where_it_is_executed(package: str) -> None:
    """PostgreSQL has prepared no such text here. Migrations and moves of companies name tables and settings so."""
    made = [
        f"{path}:{call.lineno}"
        for path in (_ROOT / package).rglob("*.py")
        if not {"migrations", "moving"} & set(path.parts)
        if ".execute(" in (text := path.read_text())
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "execute"
        if call.args and isinstance(call.args[0], ast.JoinedStr)
    ]
    assert not made


def test_every_statement_gets_the_parameters_that_it_names() -> None:
    """Parameters are compared as far as they are spelt out where the statement is executed."""
    wrong = [
        f"{module.__name__}:{call.lineno}: {fault}"
        for module in MODULES
        for call in ast.walk(syntax_of(module))
        if isinstance(call, ast.Call) and (fault := call_fault(call, vars(module)))
    ]
    assert not wrong, "\n".join(wrong)


def call_fault(call: ast.Call, names: Mapping[str, Any]) -> str | None:
    """The fault of the parameters of `STATEMENT.method(connection, PARAMETERS)`; `names` are the module's."""
    if not (isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)):
        return None
    statement = names.get(call.func.value.id)
    if not isinstance(statement, Statement):
        return None
    wanted = parameters_of(statement.text)
    match call.args:
        case [_]:
            given, more = [], False
        case [_, ast.Dict(keys=keys)]:
            given, more = [str(key.value) for key in keys if isinstance(key, ast.Constant)], None in keys
            wanted = list(dict.fromkeys(wanted))
        case [_, ast.Tuple(elts=values) | ast.List(elts=values)]:
            given, more = [""] * len(values), any(isinstance(value, ast.Starred) for value in values)
        case _:
            return None
    right = set(given) <= set(wanted) if more else sorted(given) == sorted(wanted)
    return None if right else f"the parameters are {wanted}, given are {given}"


_CUT = re.compile(r"\bORDER BY (?P<keys>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*?)\s+(?:LIMIT|OFFSET)\b")
_LAST_KEY = re.compile(r"(\w+)[')]?(?: DESC)?(?: NULLS (?:FIRST|LAST))?$")
_OF_ONE_ROW = {
    *("answer_id", "driver_id", "id", "key", "number", "pid", "route_id", "station_id", "stop", "token_hash"),
    *("vehicle_id", "vehicle_key"),
    *("effective_at", "marked_at", "recorded_at", "valid_from"),  # times at one station, truck or state
    *("day", "month", "name", "quarter"),  # one of a company's
    *("is_stale", "of_model", "turn"),  # the parts of a UNION with a row each
    *("1", "2", "departedAt", "destination", "driver_name", "kind", "location_name"),  # the last of all that a row has
}
"""Columns that tell each row from all others that it is ordered among."""
_ANY_WILL_DO = re.compile(
    r"ORDER BY (?:due\.)?turn, (?:due\.)?since LIMIT|FOR (?:NO KEY )?UPDATE(?: OF \w+)? SKIP LOCKED|^DELETE\b"
    r"|^SELECT (?:detail AS reason, |coalesce\(pending_reason, 'not_attempted'\) AS reason, )?count\(\*\)"
    r"|SELECT d\.retry_at FROM"
)
"""Work of which the rest comes at the next pass; rows that are only counted; the least value alone."""


def test_rows_that_are_cut_have_one_order_alone() -> None:
    """PostgreSQL gives rows that are equal in all that they are ordered by as they lie in its pages. So a list would
    show some of them on two pages and others on none, and the first of them would be another one after an update."""
    faults = [
        f"{found['keys']}, in {' '.join(statement.text.split())}"
        for statement in STATEMENTS
        if not _ANY_WILL_DO.search(statement.text.strip())
        for found in _CUT.finditer(statement.text)
        if (last := _LAST_KEY.search(found["keys"].strip())) is None or last[1] not in _OF_ONE_ROW
    ]
    assert not faults, "\n".join(faults)


class _Key(NamedTuple):
    id: UUID
    scopes: list[str]
    expires_at: datetime | None


_KEY = "SELECT id, scopes, expires_at FROM api_keys WHERE company_id = %s"


class _Misspelt(NamedTuple):
    id: UUID
    scope: list[str]
    expires_at: datetime | None


class _Swapped(NamedTuple):
    scopes: list[str]
    id: UUID
    expires_at: datetime | None


class _WrongType(NamedTuple):
    id: UUID
    scopes: list[int]
    expires_at: date | None


class _Hopeful(NamedTuple):
    id: UUID
    scopes: list[str]
    expires_at: datetime


class _Sure(NamedTuple):
    id: UUID
    scopes: list[str]
    expires_at: NotNull[datetime]


class _Untyped(NamedTuple):
    stops: Any


class _Document(NamedTuple):
    stops: list[dict[str, Any]]


@pytest.mark.parametrize("row", [_Key, _Sure])
def test_a_row_type_with_the_columns_is_right(schema: Connection, row: type[Any]) -> None:
    assert faults_of(schema, Statement(row, _KEY)) == []


@pytest.mark.parametrize(
    ("row", "text", "faults"),
    [
        (
            _Misspelt,
            _KEY,
            ["the columns are ['id', 'scopes', 'expires_at'], the fields ['id', 'scope', 'expires_at']"],
        ),
        (
            _Swapped,
            _KEY,
            ["the columns are ['id', 'scopes', 'expires_at'], the fields ['scopes', 'id', 'expires_at']"],
        ),
        (
            _WrongType,
            _KEY,
            [
                "scopes is text[], the field list[int]",
                "expires_at is timestamptz, the field datetime.date | None",
            ],
        ),
        (_Hopeful, _KEY, ["expires_at may be NULL: the field is to be `| None`, or `NotNull[...]`"]),
        (_Untyped, "SELECT stops FROM routes", ["stops is jsonb, the field typing.Any"]),
        (_Document, "SELECT stops, id FROM routes", ["the columns are ['stops', 'id'], the fields ['stops']"]),
    ],
)
def test_a_row_type_with_other_columns_is_refused(
    schema: Connection, row: type[Any], text: str, faults: list[str]
) -> None:
    assert faults_of(schema, Statement(row, text)) == faults


def test_a_column_that_is_read_only_from_text_is_refused_in_binary(schema: Connection) -> None:
    class Version(NamedTuple):
        version: str
        id: UUID

    text = "SELECT ctid AS version, id FROM api_keys"
    assert faults_of(schema, Statement(Version, text)) == []
    assert faults_of(schema, Statement(Version, text, binary=True)) == ["psycopg reads version only from text"]


@pytest.mark.parametrize(
    ("value", "text", "faults"),
    [
        (UUID, "SELECT id FROM api_keys", []),
        (int, "SELECT count(*) FROM api_keys", []),
        (datetime | None, "SELECT expires_at FROM api_keys", []),
        (NotNull[datetime], "SELECT expires_at FROM api_keys WHERE expires_at IS NOT NULL", []),
        (
            datetime,
            "SELECT expires_at FROM api_keys",
            ["expires_at may be NULL: the field is to be `| None`, or `NotNull[...]`"],
        ),
        (str, "SELECT id FROM api_keys", ["id is uuid, the field <class 'str'>"]),
        (UUID, "SELECT id, name FROM api_keys", ["a scalar has one column, not ['id', 'name']"]),
    ],
)
def test_a_scalar_has_one_column_of_its_type(schema: Connection, value: Any, text: str, faults: list[str]) -> None:
    assert faults_of(schema, Scalar(value, text)) == faults


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("UPDATE companies SET retired = %s", 'column "retired" of relation "companies" does not exist'),
        ("DELETE FROM companies RETURNING id", "the columns are ['id'], the fields []"),
        ("DELETE FROM companies WHERE id = %s AND name = %(name)s", "named and unnamed parameters are mixed"),
        ("DELETE FROM companies WHERE retired_at < %s - %s", "operator is not unique: unknown - unknown"),
    ],
)
def test_a_faulty_command_is_refused(schema: Connection, text: str, fault: str) -> None:
    (found,) = faults_of(schema, Command(text))
    assert fault in found


def test_named_parameters_and_percent_signs_are_understood() -> None:
    text = "SELECT 7 %% 4, %(b)s, %(a)s, %(b)s"
    assert parameters_of(text) == ["b", "a", "b"]
    assert in_libpq_style(text) == "SELECT 7 % 4, $1, $2, $1"
    assert in_libpq_style("SELECT %s, %s") == "SELECT $1, $2"


_RENAME = Command("UPDATE companies SET name = %(name)s WHERE id = %(id)s")
_RETIRE = Command("UPDATE companies SET retired_at = now() WHERE id = %s")


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("_RENAME.execute(connection, {'id': id, 'name': name})", None),
        ("_RENAME.execute(connection, {**names, 'id': id})", None),
        ("_RENAME.execute(connection, {'id': id})", "the parameters are ['name', 'id'], given are ['id']"),
        ("_RENAME.execute(connection, {**names, 'ids': id})", "the parameters are ['name', 'id'], given are ['ids']"),
        ("_RETIRE.execute(connection, (id,))", None),
        ("_RETIRE.execute(connection, parameters)", None),
        ("_RETIRE.execute(connection)", "the parameters are [''], given are []"),
        ("_RETIRE.execute(connection, (id, name))", "the parameters are [''], given are ['', '']"),
    ],
)
def test_parameters_are_compared_where_they_are_given(call: str, fault: str | None) -> None:
    (expression,) = ast.parse(call).body
    assert isinstance(expression, ast.Expr)
    assert isinstance(expression.value, ast.Call)
    assert call_fault(expression.value, globals()) == fault


class _Number(NamedTuple):
    number: int
    double: int


_NUMBERS = Statement(_Number, "SELECT number, 2 * number AS double FROM generate_series(1, %s::int) AS number")


def test_rows_are_typed(connection: Connection) -> None:
    assert _NUMBERS.all(connection, (2,)) == [_Number(1, 2), _Number(2, 4)]
    assert _NUMBERS.one(connection, (2,)).double == 2
    assert _NUMBERS.first(connection, (0,)) is None
    assert [row.number for row in _NUMBERS.execute(connection, (3,))] == [1, 2, 3]


def test_a_scalar_gives_values_and_null(connection: Connection) -> None:
    numbers = Scalar(int | None, "SELECT nullif(number, 1) FROM generate_series(1, %s::int) AS number")
    assert numbers.all(connection, (3,)) == [None, 2, 3]
    assert list(numbers.execute(connection, (2,))) == [None, 2]
    assert numbers.one(connection, (1,)) is None
    with pytest.raises(NoRow):
        numbers.one(connection, (0,))


def test_mypy_knows_the_fields(connection: Connection) -> None:
    """It reports an ignore that it does not need."""
    with pytest.raises(AttributeError):
        print(_NUMBERS.one(connection, (1,)).nubmer)  # type: ignore[attr-defined]


def test_a_missing_row_raises_an_error(connection: Connection) -> None:
    with pytest.raises(NoRow):
        _NUMBERS.one(connection, (0,))


def test_an_asynchronous_connection_gives_the_same_rows(settings: Settings) -> None:
    async def read() -> list[_Number]:
        async with await psycopg.AsyncConnection.connect(settings.require_database_url()) as connection:
            cursor = await _NUMBERS.execute(connection, (2,))
            return await cursor.fetchall()

    assert asyncio.run(read()) == [_Number(1, 2), _Number(2, 4)]


class _Kept(NamedTuple):
    id: UUID
    at: datetime
    miles: float | None
    stops: list[dict[str, float]]
    way: bytes


def test_rows_are_the_same_as_text_and_as_they_are_kept(connection: Connection) -> None:
    text = (
        "SELECT '00000000-0000-7000-8000-000000000001'::uuid AS id, '2026-11-27 06:00:00.000001+00'::timestamptz AS at,"
        " nullif(number, 2) / 3::float8 AS miles, jsonb_build_array(jsonb_build_object('mile', number)) AS stops,"
        " decode('00ff', 'hex') AS way FROM generate_series(1, 2) AS number"
    )
    rows = Statement(_Kept, text, binary=True).all(connection)
    assert rows == Statement(_Kept, text).all(connection)
    assert rows[0].miles == 1 / 3
    assert rows[1].miles is None
    assert rows[0].at.isoformat() == "2026-11-27T06:00:00.000001+00:00"


def test_a_command_returns_only_the_rows_that_it_changed(connection: Connection) -> None:
    assert Command("DELETE FROM companies WHERE id = %s").execute(connection, (new_id(),)).rowcount == 0
    assert Command("SELECT FROM generate_series(1, 1)").first(connection) == ()


def test_rows_of_another_width_are_refused(connection: Connection) -> None:
    with pytest.raises(psycopg.InterfaceError, match=r"1 columns for the 2 fields of .*_Number"):
        Statement(_Number, "SELECT 1 AS number").all(connection)


def test_a_large_result_comes_in_portions(connection: Connection) -> None:
    assert [row.double for row in _NUMBERS.in_portions(connection, 2, (5,))] == [2, 4, 6, 8, 10]
