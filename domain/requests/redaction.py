"""Redaction of requests before they are stored. The fields of the contract are kept, except those that may say who a
driver is. Everything else is masked.

A masked value names only its type: `*** a string`. Names of fields that the contract does not have are not kept either,
only how many there were.
"""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from domain.contract.checking import without_limits, without_none
from domain.contract.shapes import (
    DriverQuery,
    DriverRef,
    Position,
    PositionBatch,
    RouteInput,
    RouteQuery,
    RouteStopInput,
    VehicleQuery,
    json_name,
)
from domain.encoding import write
from domain.text import without_secrets

MOST_BYTES = 64 << 10
"""Largest body that is read again for the log. Of a larger one only the size is kept: reading it again would cost too
much."""
MOST_CHARACTERS = 4 << 10
_MOST_OF_A_TEXT = 400
_MOST_OF_A_LIST = 50
_MOST_PARAMETERS = 50
_MOST_EXACT = 1 << 53

PERSONAL: Mapping[type[Struct], frozenset[str]] = MappingProxyType(
    {
        DriverRef: frozenset({"name", "externalId"}),
        DriverQuery: frozenset({"name"}),
        RouteStopInput: frozenset({"address"}),  # display only, and where people write whom to call
    }
)
"""The fields of each shape that are masked."""

_BODIES: Mapping[str, type[Struct]] = {"/v1/routes": RouteInput, "/telematics/positions": PositionBatch}
_QUERIES: Mapping[str, type[Struct]] = {
    "/v1/routes": RouteQuery,
    "/v1/vehicles": VehicleQuery,
    "/v1/drivers": DriverQuery,
}
_DOCUMENT: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def redacted_body(path: str, body: bytes) -> str | None:
    """A body of the endpoint at `path` as redacted JSON, cut after 4 KB. None for a body that is too large or cannot be
    read."""
    shape = _BODIES.get(path)
    if shape is None or len(body) > MOST_BYTES:
        return None
    try:
        return _written(_shown(_DOCUMENT.decode(body), _kind_of(shape)))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def redacted_query(path: str, query: bytes) -> str | None:
    """The query parameters of an address as redacted JSON. None where there are none, or where they cannot be read."""
    shape = _QUERIES.get(path)
    if shape is None or not query:
        return None
    try:
        parameters = parse_qsl(query.decode(), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        return _written(_shown(dict(parameters), _kind_of(shape)))
    except ValueError:
        return None


def _written(value: object) -> str:
    text = write(value).decode()
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _shown(value: Any, kind: "_Kind") -> Any:
    """The value with everything masked that the contract does not have."""
    if value is None:
        return None
    if kind.fields is not None:
        return _shown_fields(value, kind.fields) if isinstance(value, dict) else _masked(value)
    if kind.entries is not None:
        entries = kind.entries
        return [_shown(one, entries) for one in value[:_MOST_OF_A_LIST]] if isinstance(value, list) else _masked(value)
    if isinstance(value, str):
        text = without_secrets(value.replace("\x00", "\ufffd"))
        return text if len(text) <= _MOST_OF_A_TEXT else f"{text[:_MOST_OF_A_TEXT]}…"
    if isinstance(value, int | float) and abs(value) < _MOST_EXACT:
        return value
    return _masked(value)


def _shown_fields(value: dict[str, Any], fields: Mapping[str, "_Kind | None"]) -> dict[str, Any]:
    shown = {
        name: _shown(value[name], kind) if kind is not None else _masked(value[name])
        for name, kind in fields.items()
        if name in value
    }
    others = len(value) - len(shown)
    if others:
        shown["***"] = f"{others} other field{'s' if others > 1 else ''}"
    return shown


class _Kind(NamedTuple):
    """A type of the contract: an object, an array, or a value with neither."""

    fields: Mapping[str, "_Kind | None"] | None = None
    """The kinds of an object's fields; None in place of a kind marks a personal field."""
    entries: "_Kind | None" = None


@cache
def _kind_of(type_: Any) -> _Kind:
    bare = without_limits(without_none(type_)[0])
    if get_origin(bare) is list:
        return _Kind(entries=_kind_of(get_args(bare)[0]))
    if not (isinstance(bare, type) and issubclass(bare, Struct)):
        return _Kind()
    personal = PERSONAL.get(bare, frozenset())
    kinds = {field.encode_name: _kind_of(field.type) for field in msgspec.structs.fields(bare)}
    if bare is PositionBatch:  # its entries are checked one by one, so its type does not say what they are
        kinds["positions"] = _Kind(entries=_kind_of(Position))
    return _Kind(fields={name: None if name in personal else kind for name, kind in kinds.items()})


def _masked(value: object) -> str | None:
    return None if value is None else f"*** {json_name(value)}"


class _PushedRoute(Struct, rename="camel"):
    external_id: str = ""


_PUSHED_ROUTE = msgspec.json.Decoder(_PushedRoute)


def external_id_in_body(body: bytes) -> str:
    """The `externalId` of a pushed route; empty where none can be read."""
    try:
        return _PUSHED_ROUTE.decode(body).external_id
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""


def external_id_in_query(query: bytes) -> str:
    """The `externalId` by which a list is asked for; empty where there is none."""
    if b"externalId=" not in query:
        return ""
    try:
        return dict(parse_qsl(query.decode(), max_num_fields=_MOST_PARAMETERS)).get("externalId", "")
    except ValueError:
        return ""
