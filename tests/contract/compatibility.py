"""The differences between two descriptions of the API that an existing client would notice. Adding is compatible;
removing, renaming, narrowing what is taken and widening what is answered are not.

Requests and answers are judged in opposite ways: a client may send what it always sent, and meets only values that it
knows. The status of a route in an answer, say, may not get a new value; a filter for it may.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple

Json = Mapping[str, Any]
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


class Direction(Enum):
    """The way of a value: from the client, or to it."""

    REQUEST = "request"
    ANSWER = "answer"


class Bound(NamedTuple):
    """A keyword of JSON Schema that limits a value."""

    keyword: str
    is_upper: bool


BOUNDS = (
    Bound("minimum", False),
    Bound("exclusiveMinimum", False),
    Bound("minLength", False),
    Bound("minItems", False),
    Bound("maximum", True),
    Bound("exclusiveMaximum", True),
    Bound("maxLength", True),
    Bound("maxItems", True),
)
ON_DEMAND = "304"
"""A status that only callers get who ask for it, by `If-None-Match`."""
FIXED = ("format", "pattern", "const")
"""Keywords that may not change, appear or vanish."""


def breaks(old: Json, new: Json) -> list[str]:
    """A sentence for each incompatible change from the old document to the new one."""
    return sorted(_Comparison(old, new).breaks())


class _Comparison:
    def __init__(self, old: Json, new: Json) -> None:
        self._old = old
        self._new = new
        self._seen: set[tuple[str, str, Direction]] = set()

    def breaks(self) -> Iterator[str]:
        for path, methods in self._old["paths"].items():
            for method in methods.keys() & set(METHODS):
                there = self._new["paths"].get(path, {}).get(method)
                at = f"{method.upper()} {path}"
                if there is None:
                    yield f"{at}: the operation is gone"
                else:
                    yield from self._operation(methods[method], there, at)
        if self._old.get("security") != self._new.get("security"):
            yield "the document: another way to authenticate"

    def _operation(self, old: Json, new: Json, at: str) -> Iterator[str]:
        if old.get("operationId") != new.get("operationId"):
            yield f"{at}: another operationId, which generated clients use as a name"
        if old.get("security") != new.get("security"):
            yield f"{at}: another way to authenticate"
        yield from self._parameters(old.get("parameters", []), new.get("parameters", []), at)
        yield from self._body(old.get("requestBody"), new.get("requestBody"), at)
        yield from self._answers(old["responses"], new["responses"], at)

    def _parameters(self, old: list[Json], new: list[Json], at: str) -> Iterator[str]:
        before = {(one["name"], one["in"]): one for one in old}
        after = {(one["name"], one["in"]): one for one in new}
        for key, parameter in before.items():
            where = f"{at} {key[0]}"
            if key not in after:
                yield f"{where}: the parameter is gone"
                continue
            if after[key].get("required", False) and not parameter.get("required", False):
                yield f"{where}: the parameter is required now"
            yield from self._schema(parameter["schema"], after[key]["schema"], where, Direction.REQUEST)
        for key in after.keys() - before.keys():
            if after[key].get("required", False):
                yield f"{at} {key[0]}: a new parameter is required"

    def _body(self, old: Json | None, new: Json | None, at: str) -> Iterator[str]:
        if new is not None and new.get("required", False) and not (old or {}).get("required", False):
            yield f"{at}: a body is required now"
        for media_type, content in (old or {}).get("content", {}).items():
            there = (new or {}).get("content", {}).get(media_type)
            if there is None:
                yield f"{at}: bodies of {media_type} are not taken any more"
            else:
                yield from self._schema(content["schema"], there["schema"], f"{at} body", Direction.REQUEST)

    def _answers(self, old: Json, new: Json, at: str) -> Iterator[str]:
        for status in (old.keys() ^ new.keys()) - ({ON_DEMAND} - old.keys()):
            yield f"{at}: the status {status} is {'gone' if status in old else 'new'}"
        for status in old.keys() & new.keys():
            before, after = _follow(old[status], self._old), _follow(new[status], self._new)
            for header in before.get("headers", {}).keys() - after.get("headers", {}).keys():
                yield f"{at} {status}: the header {header} is gone"
            for media_type, content in before.get("content", {}).items():
                there = after.get("content", {}).get(media_type)
                if there is None:
                    yield f"{at} {status}: no answer of {media_type} any more"
                else:
                    yield from self._schema(content["schema"], there["schema"], f"{at} {status}", Direction.ANSWER)

    def _schema(self, old: Json, new: Json, at: str, direction: Direction) -> Iterator[str]:
        references = (str(old.get("$ref", "")), str(new.get("$ref", "")), direction)
        if all(references[:2]):
            if references in self._seen:
                return  # told already where it was met first
            self._seen.add(references)
            at = references[0].rpartition("/")[2]
        old, new = _follow(old, self._old), _follow(new, self._new)
        yield from self._values(old, new, at, direction)
        yield from self._properties(old, new, at, direction)
        if "items" in old and "items" in new:
            yield from self._schema(old["items"], new["items"], f"{at}[]", direction)
        yield from self._choices(old.get("anyOf", []), new.get("anyOf", []), at, direction)

    def _values(self, old: Json, new: Json, at: str, direction: Direction) -> Iterator[str]:
        """Types, enumerations, bounds and forms."""
        taken, given = (old, new) if direction is Direction.REQUEST else (new, old)
        if _types(given) and (lacking := (_types(taken) or {"any type"}) - _types(given)):
            yield f"{at}: {_change(direction)} {', '.join(sorted(lacking))}"
        if "enum" in given and (lacking := set(taken.get("enum", ["any value"])) - set(given["enum"])):
            yield f"{at}: {_change(direction)} {', '.join(sorted(map(str, lacking)))}"
        for keyword, is_upper in BOUNDS:
            if keyword not in given:
                continue
            bound = taken.get(keyword)
            if bound is None or (bound > given[keyword] if is_upper else bound < given[keyword]):
                yield f"{at}: {keyword} was {old.get(keyword)} and is {new.get(keyword)}"
        for keyword in FIXED:
            if old.get(keyword) != new.get(keyword):
                yield f"{at}: {keyword} was {old.get(keyword)} and is {new.get(keyword)}"
        if direction is Direction.REQUEST and old.get("default") != new.get("default"):
            yield f"{at}: the default was {old.get('default')} and is {new.get('default')}"

    def _properties(self, old: Json, new: Json, at: str, direction: Direction) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name in before.keys() - after.keys():
            yield f"{at}.{name}: the field is gone"
        for name in before.keys() & after.keys():
            yield from self._schema(before[name], after[name], f"{at}.{name}", direction)
        was, is_now = set(old.get("required", [])), set(new.get("required", []))
        if direction is Direction.REQUEST:
            yield from (f"{at}.{name}: the field is required now" for name in is_now - was)
        else:
            yield from (f"{at}.{name}: the field may be missing now" for name in was - is_now)
        if old.get("additionalProperties", True) is not False and new.get("additionalProperties", True) is False:
            yield f"{at}: unknown fields are refused now"

    def _choices(self, old: list[Json], new: list[Json], at: str, direction: Direction) -> Iterator[str]:
        """Alternatives. Each that could be sent must still be taken, and each that is answered be one that was."""
        if not old or not new:
            if bool(old) != bool(new) and (direction is Direction.REQUEST) == bool(new):
                yield f"{at}: there are {'more' if new else 'fewer'} conditions"
            return
        taken, given = (old, new) if direction is Direction.REQUEST else (new, old)
        for number, one in enumerate(taken):
            found = [list(self._pair(one, other, at, direction)) for other in given]
            if [] not in found:
                yield f"{at}: alternative {number + 1} is {'not taken any more' if taken is old else 'new'}"

    def _pair(self, one: Json, other: Json, at: str, direction: Direction) -> Iterator[str]:
        old, new = (one, other) if direction is Direction.REQUEST else (other, one)
        seen, self._seen = self._seen, set(self._seen)
        yield from self._schema(old, new, at, direction)
        self._seen = seen


def _follow(value: Json, document: Json) -> Json:
    if "$ref" not in value:
        return value
    found: Any = document
    for name in value["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return {**found, **{name: more for name, more in value.items() if name != "$ref"}}


def _types(schema: Json) -> set[str]:
    kind = schema.get("type")
    if kind is None:
        return set()
    kinds = {kind} if isinstance(kind, str) else set(kind)
    return kinds | ({"integer"} if "number" in kinds else set())


def _change(direction: Direction) -> str:
    return "not taken any more:" if direction is Direction.REQUEST else "answers may now be"
