"""Two companies that are equal in everything that may be equal, and parameters for any statement that ask for either.

Each row of a twin has the same id, whatever its table: the twin's `live` or `sandbox`. So a parameter of the type uuid
is the twin's, and no one needs to know what it means."""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy
from psycopg import pq
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.lifecycle import Environment
from tests.domain.database.test_statements import in_libpq_style
from tests.domain.planted import LIVE, SANDBOX, SOME_TIME, TABLES, WALLED, insert, usual_value_of


class Twin(NamedTuple):
    number: int
    """Its id where ids are numbers; larger than any that a sequence gives in a test."""

    @property
    def live(self) -> UUID:
        """The id of its company, and of each of its rows that is not of the sandbox."""
        return UUID(int=(self.number << 4 | 1) << 80)

    @property
    def sandbox(self) -> UUID:
        return UUID(int=(self.number << 4 | 2) << 80)


FIRST, SECOND = Twin(900_001), Twin(900_002)

_OF_NO_ENVIRONMENT = {"company_id", "vehicle_id", "driver_id", "user_id", "target_id"}
"""Ids of rows that belong to both environments."""

_NULL = {
    "brand",
    "claimed_until",
    "closed_reason",
    "corrected_at",
    "correction_id",
    "discount_per_gallon",
    "expires_at",
    "finished_at",
    "former_vehicle_id",
    "replan",
    "retired_at",
    "revoked_at",
}
"""Columns whose value would end the life of a row, or contradict another one."""

STOPS = json.dumps([{"name": "x", "latitude": 1.0, "longitude": 1.0}] * 2)


def plant_twin(connection: Connection, twin: Twin) -> None:
    for environment in (LIVE, SANDBOX):
        for name in WALLED:
            if environment is LIVE or "environment" in TABLES[name].c:
                insert(connection, name, _row(TABLES[name], twin, environment))


def _row(table: sqlalchemy.Table, twin: Twin, environment: Environment) -> dict[str, Any]:
    wanted = [column for column in table.c if column.name not in _NULL or not column.nullable]
    return {column.name: _value(column, twin, environment) for column in wanted}


def _value(column: sqlalchemy.Column[Any], twin: Twin, environment: Environment) -> Any:
    if column.name == "environment":
        return environment
    if isinstance(column.type, sqlalchemy.Uuid):
        return twin.live if environment is LIVE or column.name in _OF_NO_ENVIRONMENT else twin.sandbox
    if column.name == "id":
        return twin.number
    if column.name == "token_hash" and environment is SANDBOX:
        return twin.number.to_bytes(5)
    return _OF_TWIN[column.name](twin) if column.name in _OF_TWIN else _usual(column)


_OF_TWIN: dict[str, Any] = {
    "email": lambda twin: f"{twin.number}@example.com",
    "openid_subject": lambda twin: f"account {twin.number}",
    "token_hash": lambda twin: twin.number.to_bytes(4),
}
"""Values that no two rows may have."""


_BY_COLUMN = {
    "companies.superseding": True,
    "companies.time_zone": "UTC",
    "deals.station_id": "x",
    "driver_answers.station_id": "x",
    "told_stops.station_id": "x",
    "plans.station_ids": "{x}",
    "held_prices.status": "held",
    "messages.status": "pending",
    "notice_subscriptions.time_zone": "UTC",
    "plan_choices.status": "open",
    "notices.status": "pending",
    "request_log.status": 404,
    "webhook_attempts.status": 404,
    "webhook_deliveries.status": "pending",
}


def _usual(column: sqlalchemy.Column[Any]) -> Any:
    if column.name == "stops":
        return STOPS
    own = _BY_COLUMN.get(f"{column.table.name}.{column.name}")
    if own is not None:
        return own
    if isinstance(column.type, (JSONB, ARRAY)):
        return "[]" if column.name in ("timeline", "rejected") else "{}"
    return usual_value_of(column)


_BY_NAME = {
    **{column.name: _usual(column) for table in TABLES.values() for column in table.c},
    "environment": "live",
    "station_id": "x",
    "body": json.dumps(
        {
            "externalId": "x",
            "reference": "x",
            "vehicle": {"unitNumber": "x"},
            "driver": {"name": "x"},
            "scheduledStart": SOME_TIME.isoformat(),
            "stops": json.loads(STOPS),
        }
    ),
}
"""The value that the rows of both twins have in a column of that name."""


class Parameter(NamedTuple):
    """A parameter of a statement: the column that it is compared with or stored in, and the comparison."""

    name: str
    operator: str
    type: str


_PLACEHOLDER = re.compile(r"%(?:\((?P<name>\w+)\))?[sb]")
_COMPARED = re.compile(r"(?P<name>\w+)\)?\s*(?P<operator><>|<=|>=|=|<|>)\s*(?:ANY\s*\(|\(SELECT \w+\(|\w+\()?\s*$")
_LIMITED = re.compile(r"\b(?P<name>LIMIT|OFFSET)\s+$")
_ALIGNED = (
    re.compile(r"unnest\((?P<values>[^()]*(?:\([^()]*\)[^()]*)*)\)[\w\s]*? AS \w+ \((?P<names>[^)]*)\)"),
    re.compile(
        r"INSERT INTO \w+ \((?P<names>[^)]*)\)\s*(?:VALUES \(|SELECT )(?P<values>.*?)(?:\)?\s*$| FROM | ON )", re.S
    ),
)


def parameters_of(connection: Connection, statement: Statement[Any]) -> list[Parameter]:
    """The statement's parameters, in the order of their numbers in `in_libpq_style`."""
    server = connection.pgconn
    for result in (server.prepare(b"", in_libpq_style(statement.text).encode()), server.describe_prepared(b"")):
        assert result.status == pq.ExecStatus.COMMAND_OK, result.get_error_message()
    types = [_type_name(connection, result.param_type(number)) for number in range(result.nparams)]
    named: dict[str, tuple[str, str]] = {}
    for number, found in enumerate(_PLACEHOLDER.finditer(statement.text)):
        before = statement.text[: found.start()]
        compared = _COMPARED.search(before)
        operator = compared["operator"] if compared else ""
        name = found["name"] or _aligned(statement.text, found.start()) or (compared["name"] if compared else "")
        if limited := _LIMITED.search(before):
            name = limited["name"].lower()
        key = found["name"] or str(number)
        if key not in named or (operator and not named[key][1]):
            named[key] = name, operator
    return [Parameter(*one, type) for one, type in zip(named.values(), types, strict=True)]


def _type_name(connection: Connection, oid: int) -> str:
    known = connection.adapters.types.get(oid)
    assert known is not None
    return known.name if oid == known.oid else f"{known.name}[]"


def _aligned(text: str, at: int) -> str:
    """The column that stands at the same place of its list as the parameter of its own."""
    for pattern in _ALIGNED:
        for found in pattern.finditer(text):
            if found.start("values") <= at < found.end("values"):
                names = found["names"].split(",")
                place = _commas(text[found.start("values") : at])
                return names[place].strip() if place < len(names) else ""
    return ""


def _commas(text: str) -> int:
    depth = commas = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        commas += character == "," and depth == 0
    return commas


_RECORDS = re.compile(r"jsonb_to_recordset\((?P<parameter>%[^)]*\)?s|%s)\)\s*AS \w+ \((?P<columns>[^)]*)\)")


def records_of(statement: Statement[Any]) -> Sequence[tuple[str, str]]:
    """The columns of the records that the statement reads from its jsonb parameter, with their types."""
    found = _RECORDS.search(statement.text)
    if found is None:
        return ()
    columns = (column.split() for column in found["columns"].split(","))
    return [(name.strip('"'), type) for name, type in columns]


def filled(
    parameters: Sequence[Parameter], records: Sequence[tuple[str, str]], twins: Sequence[Twin], **known: Any
) -> list[bytes | None]:
    """Values for the parameters that ask for these twins; for the last, where there is room for one only. `known` has
    values by name."""
    return [_text(_filled(parameter, records, twins, known)) for parameter in parameters]


def _filled(
    parameter: Parameter, records: Sequence[tuple[str, str]], twins: Sequence[Twin], known: dict[str, Any]
) -> Any:
    name, operator, type = parameter
    if type == "jsonb" and records:
        record = [
            {column: _json(_filled(Parameter(column, "", kind), (), [twin], known)) for column, kind in records}
            for twin in twins
        ]
        return json.dumps(record)
    if type.endswith("[]"):
        singular = name[:-1] if name.endswith("s") and name not in _BY_NAME else name
        one = Parameter(singular, "", type[:-2])
        members = [_filled(one, (), [twin], known) for twin in twins]
        if one.type == "uuid":
            members += [twin.sandbox for twin in twins]
        quoted = ",".join(json.dumps(_plain(member)) for member in members)
        return f"{{{quoted}}}"
    if name in known:
        return known[name]
    return _single(name, operator, type, twins[-1])


_EARLY, _LATE = "2020-01-01 00:00:00+00", "2027-01-01 00:00:00+00"
_MOMENTS = {"since": _EARLY, "start": _EARLY, "until": _LATE, "end": _LATE, "now": _LATE}


def _single(name: str, operator: str, type: str, twin: Twin) -> Any:
    if name in _OF_TWIN:
        return _OF_TWIN[name](twin)
    match type, operator[:1]:
        case "uuid", "<":
            return UUID(int=2**128 - 1)
        case "uuid", ">":
            return UUID(int=0)
        case "uuid", _:
            return twin.live
        case "timestamptz", "<":
            return _LATE
        case "timestamptz", ">":
            return _EARLY
        case "timestamptz", _:
            return _MOMENTS.get(name, SOME_TIME)
        case "date", _:
            return SOME_TIME.date()
        case "interval", _:
            return "1 hour"
        case "int8" | "int4" | "int2", _:
            numbers = {"id": twin.number, "offset": 0, "rows": 0, "beyond": 600}
            return numbers.get(name, 100 if operator[:1] == "<" or "limit" in name else 1)
        case "float8" | "float4" | "numeric", _:
            return 1.0
        case "bool", _:
            return True
    return _BY_NAME.get(name, "{}" if type == "jsonb" else "x")


def _json(value: Any) -> Any:
    text = _plain(value)
    return json.loads(text) if text[:1] in "[{" else text


def _plain(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _text(value: Any) -> bytes | None:
    if value is None:
        return None
    return b"\\x" + value.hex().encode() if isinstance(value, bytes) else _plain(value).encode()


STATES: tuple[tuple[str, ...], ...] = (
    (),
    ("UPDATE routes SET status = 'planned'", "UPDATE vehicles SET unit_number = 'y'"),
    (
        "UPDATE routes SET status = 'active', replan = jsonb_build_object('at', '2026-11-01T00:00:00Z')",
        "UPDATE messages SET attempts = 0",
        "UPDATE visits SET stop = -1",
        "UPDATE plan_choices SET status = 'asked'",
    ),
    (
        "UPDATE routes SET correction_id = plan_id, replan = NULL",
        "UPDATE messages SET status = 'sent'",
        "UPDATE plan_choices SET status = 'taken', decided_by = NULL",
    ),
    ("UPDATE routes SET status = 'pending', former_vehicle_id = vehicle_id",),
    ("UPDATE routes SET arrived_at = NULL", "UPDATE messages SET status = 'failed'"),
    (
        "UPDATE routes SET status = 'pending_mapping', pending_reason = 'vehicle_unmapped', vehicle_id = NULL",
        "UPDATE messages SET status = 'pending', claimed_until = '2026-11-01' WHERE environment = 'live'",
    ),
    (
        "UPDATE routes SET pending_reason = 'driver_unmapped', driver_id = NULL, reference = 'x'",
        "UPDATE mappings SET kind = 'driver_name'",
    ),
    ("UPDATE routes SET status = 'completed', vehicle_id = company_id, driver_id = company_id",),
    ("UPDATE webhook_deliveries SET status = 'failed'", "UPDATE webhook_endpoints SET disabled_at = NULL"),
    ("UPDATE notice_subscriptions SET disabled_at = NULL",),
    (
        "UPDATE replays SET stopped_at = NULL, finished_at = NULL",
        "UPDATE replay_portions SET results = NULL, taken_until = NULL",
        "UPDATE habit_costs SET driven_at = NULL",
        "UPDATE ifta_filings SET reopened_at = NULL, compared_at = NULL, is_to_amend = true",
    ),
    ("UPDATE station_closures SET closed_until = '2100-01-01'", "UPDATE visits SET is_to_judge = false"),
    (
        "UPDATE plan_choices SET status = 'chosen'",
        "UPDATE replays SET by_workers = true, stopped_at = NULL, finished_at = NULL",
        "UPDATE savings_statements SET month = '2000-01-01'",
    ),
    (f"UPDATE visits SET is_to_judge = true, stop = 1, arrived_at = '{SOME_TIME}', departed_at = '{SOME_TIME}'",),
    (
        "UPDATE dwells SET is_detained = false, told_at = NULL, signed_at = NULL, free_minutes = 77,"
        " arrived_at = '2100-01-01'",
        "UPDATE notices SET part = 'answers'",
        "UPDATE visits SET is_to_judge = false, departed_at = NULL, arrived_at = '2100-01-01'",
    ),
    (
        "UPDATE drivers SET name = 'Ann Lee'",
        "UPDATE csv_imports SET finished_at = '2026-11-02', fault = 'Ann Lee', rejected = '[[2, \"Ann Lee\"]]'",
        "UPDATE station_closures SET reason = 'Ann Lee' WHERE company_id IS NOT NULL",
        "UPDATE route_events SET detail = 'Ann Lee'",
        "UPDATE webhook_attempts SET answer = 'Ann Lee'",
        """UPDATE visits SET (arrival_evidence, departure_evidence) = (
           SELECT told, told FROM jsonb_build_object('source', 'dispatcher', 'reason', 'Ann Lee') AS told)""",
    ),
    tuple(f"UPDATE {table} SET retired_at = '2026-11-02'" for table in ("companies", "vehicles", "drivers")),
)
"""Changes of all rows, one after the other, so that each statement finds something in one of the states."""
