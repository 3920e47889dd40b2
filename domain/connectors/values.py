"""Reads values in vendors' spellings, for all connectors: JSON, numbers, times, texts, records. An unreadable value
becomes None and costs its own record, never the page."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import msgspec

from domain import clock
from domain.connectors.vendor import UnreadableAnswer
from domain.files.written_times import read_time

Document = Any

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_SCALES = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""Divisors of times as numbers: from the first number on, the unit is that part of a second. 1e11 seconds lie in the
year 5138, as milliseconds in 1973."""

_DOT_NET = re.compile(r"/Date\((-?\d+)([+-]\d{4})?\)/")
_COMPACT = re.compile(r"\dT\d", re.IGNORECASE)
"""A time without colons, such as `20261125T200607Z`."""

_LONGEST_TEXT = 200


def read_document(title: str, body: bytes, shape: Any = Any) -> Document:
    """The JSON of a body in a shape of msgspec. Numbers out of range, such as 1e999, are read as infinite. Raises
    UnreadableAnswer if the body does not fit."""
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(json.loads(body.decode("utf-8-sig")), shape)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise UnreadableAnswer(title) from None


def records_of(value: object) -> list[dict[str, Any]]:
    """The objects of a list. A single object counts as a list of one, as in snapshots of Samsara; any other value as an
    empty list."""
    if isinstance(value, dict):
        return [value]
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def at_path(document: Any, *names: str) -> Any:
    """The value under names in nested objects; None if there is none."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def number_or_none(value: object) -> float | None:
    """A number as a finite float, also from a text. None for anything else, such as true or an endless integer."""
    if type(value) is float:  # most are
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        text = value.strip()[:40]
        value = float(text) if text.isascii() and _NUMBER.fullmatch(text) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def percent_or_none(value: object) -> float | None:
    """A number of percent, also with its sign, such as "62 %"."""
    return number_or_none(value.strip().removesuffix("%") if isinstance(value, str) else value)


def wait_or_none(text: str | None) -> float | None:
    """The seconds of a Retry-After, with fractions as Samsara sends them, or until its date. None for 0, which says
    nothing of how long to wait, and for a day and more, a date that is over, or neither of both."""
    seconds = number_or_none(text)
    if seconds is None and (at := moment_or_none(text)) is not None:
        seconds = (at - clock.now()).total_seconds()
    return seconds if seconds is not None and 0 < seconds < 86_400 else None


def is_false(value: object) -> bool:
    """True for a value that means false: the word, also as a text, or 0. A missing value does not mean false."""
    if isinstance(value, str):
        return value.strip().lower() in ("false", "0")
    return value is False or (type(value) is int and value == 0)


def text_or_none(value: object) -> str | None:
    """A text without spaces around it, or a number in people's spelling; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    try:
        return str(value).strip()[:_LONGEST_TEXT] or None
    except ValueError:  # an integer without end
        return None


def moment_or_none(value: object, zone: tzinfo = UTC) -> datetime | None:
    """A time in vendors' spellings, in UTC: RFC 3339 and its relatives, a date of e-mail or of .NET, an American date,
    or a number since 1970 in seconds, milliseconds, microseconds or nanoseconds. A text without an offset is in `zone`.
    None for anything else."""
    try:
        moment = _moment_of_text(value.strip()) if isinstance(value, str) else _moment_of_number(value)
        if moment is None:
            return None
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _moment_of_number(value: object) -> datetime | None:
    number = number_or_none(value)
    if number is None:
        return None
    divisor = next((parts for least, parts in _SCALES if abs(number) >= least), 1.0)
    return datetime.fromtimestamp(number / divisor, UTC)


def _moment_of_text(text: str) -> datetime | None:
    """The moment in a text; None if it is none. A day alone is none. Raises ValueError or OverflowError for a broken
    one, which `moment_or_none` turns into None."""
    if ":" in text or _COMPACT.search(text):
        return read_time(text)
    if found := _DOT_NET.fullmatch(text):
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(found[1]))
    is_digits = text.isdigit() and len(text) == 14 and text.startswith("20")
    return datetime.strptime(text, "%Y%m%d%H%M%S") if is_digits else _moment_of_number(text)


def first_of(record: Mapping[str, Any], names: Iterable[str]) -> Any:
    """The first value present under one of several names."""
    return next((record[name] for name in names if record.get(name) is not None), None)
