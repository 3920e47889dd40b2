"""What of a request is kept: the contract's fields, but for those that may say who a driver is. All else is masked.

What is masked says only what it was: `*** a string`. Names of fields that the contract does not have are not kept
either, only how many there were.
"""

from collections.abc import Mapping
from types import GenericAlias, MappingProxyType
from typing import Any, get_args, get_origin
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
"""Of a larger body only the size is kept: nobody pays for reading it once more."""
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
_ENTRIES = {PositionBatch: Position}
"""Shapes whose entries are checked one by one, so that their types do not say what they are."""

_DOCUMENT: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def redacted_body(path: str, body: bytes) -> str | None:
    """A body of the endpoint at `path` as JSON, cut after 4 KB. None: it is too large, or it cannot be read."""
    shape = _BODIES.get(path)
    if shape is None or len(body) > MOST_BYTES:
        return None
    try:
        return _written(_shown(_DOCUMENT.decode(body), shape))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def redacted_query(path: str, query: bytes) -> str | None:
    """The same of the parameters in an address."""
    shape = _QUERIES.get(path)
    if shape is None or not query:
        return None
    try:
        parameters = parse_qsl(query.decode(), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        return _written(_shown(dict(parameters), shape))
    except ValueError:
        return None


def _written(value: object) -> str:
    text = write(value).decode()
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _shown(value: Any, kind: Any) -> Any:
    """`value` as far as it is what `kind`, a type of the contract, says."""
    bare = without_limits(without_none(kind)[0])
    if value is None:
        return None
    if isinstance(bare, type) and issubclass(bare, Struct):
        return _shown_fields(value, bare) if isinstance(value, dict) else _masked(value)
    if get_origin(bare) is list:
        (entry,) = get_args(bare)
        return [_shown(one, entry) for one in value[:_MOST_OF_A_LIST]] if isinstance(value, list) else _masked(value)
    if isinstance(value, str):
        text = without_secrets(value.replace("\x00", "\ufffd"))
        return text if len(text) <= _MOST_OF_A_TEXT else f"{text[:_MOST_OF_A_TEXT]}…"
    if isinstance(value, int | float) and abs(value) < _MOST_EXACT:
        return value
    return _masked(value)


def _shown_fields(value: dict[str, Any], shape: type[Struct]) -> dict[str, Any]:
    personal, shown = PERSONAL.get(shape, frozenset()), {}
    for field in msgspec.structs.fields(shape):
        name, kind = field.encode_name, field.type
        if name in value:
            if shape in _ENTRIES and get_origin(without_limits(kind)) is list:
                kind = GenericAlias(list, (_ENTRIES[shape],))
            shown[name] = _masked(value[name]) if name in personal else _shown(value[name], kind)
    others = len(value) - len(shown)
    if others:
        shown["***"] = f"{others} other field{'s' if others > 1 else ''}"
    return shown


def _masked(value: object) -> str | None:
    return None if value is None else f"*** {json_name(value)}"


class _Named(Struct, rename="camel"):
    external_id: str = ""


_NAMED = msgspec.json.Decoder(_Named)


def load_named_in(body: bytes) -> str:
    """The `externalId` of a pushed route; "" where there is none that can be read."""
    try:
        return _NAMED.decode(body).external_id
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""


def load_asked_for_in(query: bytes) -> str:
    """The `externalId` that a list is asked for by; "" where there is none."""
    if b"externalId=" not in query:
        return ""
    try:
        return dict(parse_qsl(query.decode(), max_num_fields=_MOST_PARAMETERS)).get("externalId", "")
    except ValueError:
        return ""
