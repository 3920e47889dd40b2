"""JSON Schema as far as our interface description uses it: enough to hold answers against it, and no more."""

import re
from datetime import datetime
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
_KNOWN = {
    "$ref",
    "type",
    "properties",
    "required",
    "items",
    "anyOf",
    "enum",
    "format",
    "pattern",
    "minimum",
    "maximum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    # said for people
    "title",
    "description",
    "default",
    "examples",
}


def faults(value: Any, schema: dict[str, Any], document: dict[str, Any], path: str = "") -> list[str]:
    """The places where `value` does not fit `schema`. An object of an answer may have no property that its schema
    lacks."""
    unknown = schema.keys() - _KNOWN
    assert not unknown, f"{path}: the checker does not know {unknown}"
    if "$ref" in schema:
        return faults(value, resolve(schema["$ref"], document), document, path)
    found = []
    if "anyOf" in schema:
        options = [faults(value, option, document, path) for option in schema["anyOf"]]
        if all(options):
            found.append(f"{path}: fits none of {options}")
    if "type" in schema and not _is(value, schema["type"]):
        return [*found, f"{path}: {value!r} is no {schema['type']}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: {value!r} is not in {schema['enum']}")
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        found += [f"{path}.{name}: missing" for name in schema.get("required", []) if name not in value]
        if "type" in schema:
            found += [f"{path}.{name}: not described" for name in value if name not in properties]
        for name in properties.keys() & value.keys():
            found += faults(value[name], properties[name], document, f"{path}.{name}")
    if isinstance(value, list):
        found += _bounds(path, len(value), schema.get("minItems"), schema.get("maxItems"))
        for index, entry in enumerate(value):
            found += faults(entry, schema.get("items", {}), document, f"{path}[{index}]")
    if isinstance(value, str):
        found += _bounds(path, len(value), schema.get("minLength"), schema.get("maxLength"))
        if "pattern" in schema and re.search(schema["pattern"], value) is None:
            found.append(f"{path}: {value!r} does not match {schema['pattern']}")
        if schema.get("format") == "date-time" and datetime.fromisoformat(value).tzinfo is None:
            found.append(f"{path}: {value!r} has no offset")
    if isinstance(value, int | float) and not isinstance(value, bool):
        found += _bounds(path, value, schema.get("minimum"), schema.get("maximum"))
        if value >= schema.get("exclusiveMaximum", value + 1):
            found.append(f"{path}: {value} is not below {schema['exclusiveMaximum']}")
    return found


def resolve(reference: str, document: dict[str, Any]) -> dict[str, Any]:
    """The schema that a `$ref` within the document leads to. Raises KeyError."""
    assert reference.startswith("#/"), reference
    place: Any = document
    for step in reference.removeprefix("#/").split("/"):
        place = place[step]
    assert isinstance(place, dict)
    return place


def _is(value: Any, kinds: str | list[str]) -> bool:
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if isinstance(value, bool) and kind != "boolean":
            continue
        if isinstance(value, _TYPES[kind]):
            return True
    return False


def _bounds(path: str, size: float, least: float | None, most: float | None) -> list[str]:
    fits = (least is None or size >= least) and (most is None or size <= most)
    return [] if fits else [f"{path}: {size} is not within {least} and {most}"]
