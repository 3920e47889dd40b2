"""Bodies and queries are checked against the shapes.

msgspec decodes and checks in one pass, in C, and stops at the first fault. The contract lists every invalid field, so a
body that fails is walked again, field by field, against the same types (`find_faults`). The walk also finds two faults
that msgspec does not know: NUL, and an offset without a colon. A body without the characters of these two is not
walked."""

import codecs
import functools
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from domain.contract.shapes import FieldFault, json_name, moment_of
from domain.wording import counted

S = TypeVar("S", bound=Struct)


class Invalid(Exception):
    """Input does not fit its shape; the error has every fault in it."""

    def __init__(self, faults: list[FieldFault]) -> None:
        super().__init__("; ".join(": ".join(filter(None, (fault.field, fault.message))) for fault in faults))
        self.faults = faults


def read_body(body: bytes, shape: type[S]) -> S:
    """The body as `shape`. Raises Invalid with every fault; the edge answers it with a problem document."""
    first: list[FieldFault] = []
    try:
        fitting: S = _decode(body, _decoder_of(shape))
        if _LOOSE_OFFSET.search(body) is None and _ESCAPED.search(body) is None:
            return fitting
    except msgspec.ValidationError as error:
        first = [_fault_at(error)]
    try:
        document = _decode(body, _DOCUMENT)
        faults = list(find_faults(document, shape))
        if not faults and first and first[0].message == _TOO_LARGE:  # in a part that the shape leaves open
            return msgspec.convert(document, shape)
        faults = faults or first
    except msgspec.ValidationError as error:  # an integer beyond any type
        faults = first or [_fault_at(error)]
    if faults:
        raise Invalid(faults)
    return fitting


_LOOSE_OFFSET = re.compile(rb':\d\d(?:\.\d+)?[+-]\d{4}"')
"""The end of a time that msgspec takes but RFC 3339 does not: an offset like +0600, without a colon."""
_ESCAPED = re.compile(rb"\\u00(?:00|2[bdeBDE]|3[0-9aA])")
"""An escaped NUL, which msgspec takes in a text, or an escaped character that may end such a time: `+`, `-`, `.`, a
digit, `:`."""

_decoder_of = functools.cache(msgspec.json.Decoder)
_TOO_LARGE = "Number out of range"
"""msgspec's words for a number such as 1e999."""


class _Unusable:
    """Stands in a document for a value that no type takes."""

    def __init__(self, fault: str) -> None:
        self.fault = fault


def _number(text: str) -> float | _Unusable:
    number = float(text)
    return number if math.isfinite(number) else _Unusable(_TOO_LARGE)


_DOCUMENT = msgspec.json.Decoder(float_hook=_number)


def _decode(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    """The decoded body. Raises Invalid for a body that cannot be read as a whole, and msgspec.ValidationError for one
    that does not fit its shape."""
    try:
        body.decode()  # fields that the shape ignores must be text as well
        return decoder.decode(body)
    except msgspec.ValidationError:
        raise
    except UnicodeDecodeError:
        fault = "The body is not UTF-8 text; send it uncompressed"
    except RecursionError:
        fault = "The body is nested too deeply"
    except msgspec.DecodeError as error:
        fault = f"The body is not JSON: {error}"
        if body.startswith(codecs.BOM_UTF8):
            fault = "The body begins with a byte order mark; send UTF-8 without it"
        elif not body.strip():
            fault = "The body is empty"
        elif half := _HALF_OF_A_PAIR.search(body):  # msgspec says that the body was truncated
            escape = half["escape"].decode()
            fault = f"The body is not JSON: {escape} is half of a surrogate pair; send both halves, or the character"
    raise Invalid([FieldFault(field="", message=fault)])


_HALF_OF_A_PAIR = re.compile(
    rb"(?<!\\)(?:\\\\)*(?P<escape>\\u[dD][89abAB][\da-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][\da-fA-F]{2})"
)
"""An escaped surrogate without the other half of its pair. Two backslashes before it are text."""


def _fault_at(error: msgspec.ValidationError) -> FieldFault:
    """The fault that msgspec found: `Expected `str`, got `int` - at `$.stops[0].name`` -> `stops[0].name`."""
    message, _, path = str(error).partition(" - at `")
    return FieldFault(field=path.removesuffix("`").removeprefix("$").removeprefix("."), message=plain_words(message))


def read_value(value: object, shape: type[S]) -> S:
    """One element of a decoded body as `shape`, which has no shapes inside. Raises Invalid with every fault of the
    element, so that the caller can go on with the others."""
    try:
        fitting = msgspec.convert(value, shape)
        if isinstance(value, dict) and not any(map(_may_hide_a_fault, value.values())):
            return fitting
    except msgspec.ValidationError:
        pass
    faults = list(find_faults(value, shape))
    if faults:
        raise Invalid(faults)
    return fitting


def _may_hide_a_fault(value: object) -> bool:
    """Tell if a text may have a fault that msgspec does not see; in a body `_LOOSE_OFFSET` and `_ESCAPED` find it."""
    return isinstance(value, str) and _HIDDEN_FAULT.search(value) is not None


_HIDDEN_FAULT = re.compile(r"\0|:\d\d(?:\.\d+)?[+-]\d{4}\Z")


def read_query(parameters: Mapping[str, str], shape: type[S]) -> S:
    """The query parameters, or the cells of a table, as `shape`, with `surrogateescape` for bytes that are not UTF-8.
    Unknown names are ignored. Raises Invalid with every fault."""
    values: dict[str, object] = dict(parameters)
    if not "".join(parameters.values()).isascii():
        values |= {name: _Unusable("Expected a text in UTF-8") for name in values if _NOT_UTF8.search(parameters[name])}
    for name, kind in _numbers_of(shape):
        text = parameters.get(name, "")
        if _NUMBERS[kind].fullmatch(text):
            values[name] = kind(text)
    try:
        return read_value(values, shape)
    except Invalid as invalid:  # every value of a query is a text
        faults = [FieldFault(fault.field, fault.message.removesuffix(", got a text")) for fault in invalid.faults]
        raise Invalid(faults) from None


@functools.cache
def _numbers_of(shape: type[Struct]) -> list[tuple[str, Any]]:
    """The numeric fields of a shape, each with its kind of number."""
    kinds = {field.encode_name: without_limits(without_none(field.type)[0]) for field in msgspec.structs.fields(shape)}
    return [(name, kind) for name, kind in kinds.items() if kind in _NUMBERS]


_NOT_UTF8 = re.compile(r"[\ud800-\udfff]")
"""A byte that is not UTF-8, as `surrogateescape` decodes it."""
_NUMBERS: dict[Any, re.Pattern[str]] = {
    int: re.compile(r"-?\d{1,400}", re.ASCII),
    float: re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE),
}
"""The spelling of numbers in queries and CSV cells, which hold only text."""


def find_faults(value: Any, kind: Any, path: str = "") -> Iterator[FieldFault]:
    """Every fault of `value` measured against the type `kind`, innermost first."""
    kind, optional = without_none(kind)
    if optional and value is None:
        return
    bare = without_limits(kind)
    if isinstance(bare, type) and issubclass(bare, Struct):
        yield from _faults_of_object(value, bare, path)
    elif get_origin(bare) is list and isinstance(value, list):
        (element_kind,) = get_args(bare)
        limits = [meta.max_length for meta in get_args(kind)[1:] if isinstance(meta, Meta) and meta.max_length]
        # Elements beyond the limit are refused as a whole: a body of a million faults must not cost a second.
        looked_at = value[: min(limits, default=len(value))] if element_kind is not Any else []
        yield from _fault_of(value, Annotated[list[Any], *get_args(kind)[1:]], path)
        for index, element in enumerate(looked_at):
            yield from find_faults(element, element_kind, f"{path}[{index}]")
    else:
        yield from _fault_of(value, kind, path)


_fields_of = functools.cache(msgspec.structs.fields)


def _faults_of_object(value: Any, shape: type[Struct], path: str) -> Iterator[FieldFault]:
    if not isinstance(value, dict):
        yield FieldFault(field=path, message=f"Expected an object, got {json_name(value)}")
        return
    clean = True
    for field in _fields_of(shape):
        inner = f"{path}.{field.encode_name}" if path else field.encode_name
        if field.encode_name not in value:
            if field.required:
                clean = False
                yield FieldFault(field=inner, message="Required")
            continue
        for fault in find_faults(value[field.encode_name], field.type, inner):
            clean = False
            yield fault
    if clean:  # what remains is a rule between fields
        yield from _fault_of(value, shape, path)


def _fault_of(value: Any, kind: Any, path: str) -> Iterator[FieldFault]:
    try:
        if isinstance(value, _Unusable):
            raise ValueError(value.fault)
        if without_limits(kind) is datetime:
            moment_of(value)
            return
        msgspec.convert(value, kind)
        if isinstance(value, str) and "\0" in value:
            raise ValueError("Expected a text without NUL")
    except ValueError as error:  # msgspec.ValidationError is one
        message = plain_words(str(error).partition(" - at `")[0])
        if message.startswith("Invalid enum value"):
            message = f"Expected one of {', '.join(f'`{choice}`' for choice in _choices(kind))}"
        yield FieldFault(field=path, message=message)


def _choices(kind: Any) -> list[Any]:
    """The values of an enum or a Literal."""
    bare = without_limits(kind)
    return list(get_args(bare) or bare)


def plain_words(message: str) -> str:
    """A fault without Python's names of types: `Expected `str` of length <= 9` becomes `Expected a text of at most 9
    characters`."""
    message = _ENTRIES.sub(lambda found: f"{_BOUNDS[found[1]]} {counted(int(found[2]), 'entry', 'entries')}", message)
    message = _LENGTH.sub(lambda found: f"of {_BOUNDS[found[1]]} {counted(int(found[2]), 'character')}", message)
    return _TYPE.sub(lambda found: _TYPES[found[1]], message)


_ENTRIES = re.compile(r"`array` of length ([<>]=) (\d+)")
_LENGTH = re.compile(r"of length ([<>]=) (\d+)")
_BOUNDS = {"<=": "at most", ">=": "at least"}
_TYPES = {
    "str": "a text",
    "float": "a number",
    "int": "a whole number",
    "bool": "a boolean",
    "date": "a day",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_TYPE = re.compile(rf"`({'|'.join(_TYPES)})(?: \| null)?`")


def without_limits(kind: Any) -> Any:
    """The type without its limits: `Annotated[str, ...]` -> `str`."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return kind


def without_none(kind: Any) -> tuple[Any, bool]:
    """The type without None, and whether it had one: `Annotated[Annotated[str, ...] | None, ...]` ->
    (`Annotated[str, ...]`, True)."""
    bare = without_limits(kind)
    if get_origin(bare) not in (Union, UnionType):
        return kind, False
    (some,) = (member for member in get_args(bare) if member is not NoneType)
    return some, True
