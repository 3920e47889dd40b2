"""The heading of a vendor's file: the row that names the columns, the field of each column, and the lines above it."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from domain.files.cells import cell_text
from domain.files.csvfiles import UnreadableFile
from domain.files.profiles import Column, FileProfile, RecordField, RecordFields, plain_name
from domain.files.spreadsheets import Cell, Row
from domain.files.text_rows import MOST_COLUMNS
from domain.text import without_card_numbers

_MOST_NAME_CHARACTERS = 200
_MOST_NAMED, _MOST_NAMED_FIELDS = 40, 3
"""Most columns, and most fields for a missing one, that a fault lists."""


class Heading(NamedTuple):
    """The row that names the columns."""

    line: int
    names: list[str]
    """The names. Repeated ones are numbered: `Price (1)`, `Price (2)`."""


class FieldPlace(NamedTuple):
    """The columns of the file for a field: one, or several of one name, which must agree."""

    field: RecordField
    name: str
    indexes: tuple[int, ...]


def heading_of(row: Row) -> Heading:
    """The heading in a row. Raises UnreadableFile if it has too many columns."""
    if len(row.cells) > MOST_COLUMNS:
        raise UnreadableFile(f"line {row.line} has {len(row.cells):,} columns: a file may have {MOST_COLUMNS:,}")
    texts = [cell_text(cell).replace("\x00", "") for cell in row.cells]  # profiles and faults keep them
    names = [text[:_MOST_NAME_CHARACTERS] for text in texts]
    plain = [plain_name(name) or name for name in names]  # `#` alone is a name
    seen: dict[str, int] = {}
    numbered = []
    for name, one in zip(names, plain, strict=True):
        seen[one] = seen.get(one, 0) + 1
        numbered.append(f"{name} ({seen[one]})" if name else name)
    several = {one for one, count in seen.items() if count > 1}
    return Heading(
        row.line,
        [
            with_number if one in several else name
            for name, one, with_number in zip(names, plain, numbered, strict=True)
        ],
    )


def find_heading(rows: Sequence[Row], profile: FileProfile, record: RecordFields) -> tuple[Heading, list[FieldPlace]]:
    """The first row with all needed columns, apart from those whose values stand above it. Raises UnreadableFile, which
    lists what is missing, if there is none."""
    best: tuple[int, int] | None = None
    for index, row in enumerate(rows):
        heading = heading_of(row)
        places = field_places(heading, profile, record, rows[index + 1 :])
        if not missing_fields(places, rows[:index], profile, record):
            return heading, places
        if best is None or len(places) > best[0]:
            best = len(places), index
    if best is None:
        raise UnreadableFile("the file is empty")
    raise UnreadableFile(_lacking(rows, best[1], profile, record))


def _lacking(rows: Sequence[Row], index: int, profile: FileProfile, record: RecordFields) -> str:
    heading = heading_of(rows[index])
    groups = missing_fields(field_places(heading, profile, record), rows[:index], profile, record)
    missing = " and ".join(
        " or ".join(_named(name, profile, record) for name in group[:_MOST_NAMED_FIELDS]) for group in groups
    )
    taken = "".join(f". {one}" for group in groups for one in _lookalikes(heading, group, record))
    return (
        f"the profile {profile.name!r} needs a column {missing}; line {heading.line} names: {listed(heading)}{taken}. "
        "Choose another profile, or map the columns and keep them as a profile"
    )


def _lookalikes(heading: Heading, group: Iterable[str], record: RecordFields) -> Iterator[str]:
    """Sentences about columns that people take for a missing field."""
    for field in filter(None, map(record.field, group)):
        plain = set(map(plain_name, field.lookalikes))
        found = [name for name in heading.names if plain_name(name) in plain]
        if found:
            yield f"{' and '.join(map(repr, found[:_MOST_NAMED_FIELDS]))} {field.lookalike_fault}"


def listed(heading: Heading) -> str:
    """The names of the columns in a sentence."""
    named = ", ".join(list(filter(None, heading.names))[:_MOST_NAMED])
    return without_card_numbers(named) or "none"  # a file without names begins with a purchase


def _named(name: str, profile: FileProfile, record: RecordFields) -> str:
    if name in profile.columns:
        return " / ".join(repr(one) for one in profile.columns[name].names[:3])
    field = record.field(name)
    return f"for the {field.label if field is not None else name}"


def field_places(
    heading: Heading, profile: FileProfile, record: RecordFields, below: Sequence[Row] = ()
) -> list[FieldPlace]:
    """The columns that are fields. If the file has several names of a column, the first one counts whose values `below`
    are not all those of another field."""
    by_name = {plain_name(name): index for index, name in reversed(list(enumerate(heading.names))) if name}
    by_name = _without_units(heading) | by_name
    found = [(field, _indexes(field, profile.columns.get(field.name), by_name, below)) for field in record.fields]
    taken = {index for field, indexes in found if not field.is_alone for index in indexes}
    return [
        FieldPlace(field, heading.names[indexes[0]], indexes)
        for field, indexes in found
        if indexes and not (field.is_alone and taken.intersection(indexes))
    ]


def _in_brackets(name: str) -> tuple[str, str]:
    """A column's name without the brackets at its end, and the text in them; empty without brackets."""
    if not name.endswith(")"):
        return name, ""
    before, _, said = name[:-1].rpartition("(")
    return before, said.strip()


_UNIT = re.compile(
    r"(?:US\$|\$|USD|CAD|CDN|CA\$|CDN\$)?\s*(?:(?:/|PER)?\s*(?:US ?)?(?:GAL(?:LON)?S?|USG|L|LTRS?|LIT(?:RE|ER)S?))?"
    r"|US|UTC|GMT|M?M[/.-]D?D[/.-](?:YY)?YY|YYYY[/.-]M?M[/.-]D?D",
    re.IGNORECASE,
)
"""Units, currencies, and formats of days that are read anyway: with the month before the day."""


def _without_units(heading: Heading) -> dict[str, int]:
    """The columns whose names end with a unit, a currency, a format or UTC in brackets, by the rest of the name:
    `Amount (CAD)`. Their readers look at the whole name for what it says. None of two that differ in that alone."""
    found: dict[str, list[int]] = {}
    for index, name in enumerate(heading.names):
        before, said = _in_brackets(name)
        if said and _UNIT.fullmatch(said):
            found.setdefault(plain_name(before), []).append(index)
    return {name: indexes[0] for name, indexes in found.items() if name and len(indexes) == 1}


def is_universal(name: str) -> bool:
    """True if a column's name says that its times are UTC: `Transaction Date (GMT)`."""
    return _in_brackets(name)[1].upper() in ("UTC", "GMT")


def _indexes(
    field: RecordField, column: Column | None, by_name: dict[str, int], below: Sequence[Row]
) -> tuple[int, ...]:
    named = _named_indexes(column, by_name)
    first = next(named, ())
    if field.other_values is None or not _is_other(field.other_values, first, below):
        return first
    return next((one for one in named if not _is_other(field.other_values, one, below)), first)


def _is_other(other_values: re.Pattern[str], indexes: tuple[int, ...], below: Sequence[Row]) -> bool:
    """True if all values of these columns are those of another field. A dash, as of a rule below the names, is none."""
    cells = (row.cells[index] for row in below for index in indexes if index < len(row.cells))
    texts = [text for cell in cells if (text := cell_text(cell)).strip("-=_* ")]
    return bool(texts) and all(map(other_values.fullmatch, texts))


def _named_indexes(column: Column | None, by_name: dict[str, int]) -> Iterator[tuple[int, ...]]:
    for name in column.names if column is not None else ():
        plain = _plain_name(name)
        if plain in by_name:
            yield (by_name[plain],)
        elif f"{plain}1" in by_name and f"{plain}2" in by_name:
            yield tuple(by_name[f"{plain}{count}"] for count in _counted(plain, by_name))


@lru_cache(maxsize=10_000)  # each of the first rows of a file is compared with the same profiles
def _plain_name(name: str) -> str:
    return plain_name(name)


def _counted(plain: str, by_name: dict[str, int]) -> Iterator[int]:
    count = 1
    while f"{plain}{count}" in by_name:
        yield count
        count += 1


def missing_fields(
    places: Iterable[FieldPlace], above: Iterable[Row], profile: FileProfile, record: RecordFields
) -> list[tuple[str, ...]]:
    """The groups of fields that neither a column, nor a constant, nor a line above gives."""
    there = {place.field.name for place in places} | set(profile.constants)
    groups = [*record.required, *((name,) for name in profile.needs)]
    missing = [group for group in groups if not there.intersection(group)]
    if not missing or not profile.above:
        return missing
    there |= {name for name, column in profile.above.items() if next(_labelled(above, column), None) is not None}
    return [group for group in missing if not there.intersection(group)]


# --- Lines above the heading -------------------------------------------------------------------------------------


def values_above(
    rows: Sequence[Row], profile: FileProfile, record: RecordFields, convert: Callable[[RecordField, Column, Cell], Any]
) -> dict[str, Any]:
    """The values above the heading: `Effective Date: 11/26/2026`, in one cell or in two neighbours. Raises
    UnreadableFile for an unreadable value, and for two that differ."""
    values: dict[str, Any] = {}
    for name, column in profile.above.items():
        field = record.field(name)
        if field is None:
            continue
        for line, label, cell in _labelled(rows, column):
            try:
                value = convert(field, column, cell)
            except ValueError as error:
                raise UnreadableFile(f"line {line}: {label}: {cell_text(cell)[:60]!r} {error}") from None
            if values.setdefault(name, value) != value:
                raise UnreadableFile(f"line {line}: {label}: the lines above the columns say two different things")
    return values


def _labelled(rows: Iterable[Row], column: Column) -> Iterator[tuple[int, str, Cell]]:
    """The line, the label and the value of each place with the label."""
    labels = sorted(column.names, key=len, reverse=True)
    for row in rows:
        for index, cell in enumerate(row.cells):
            text = cell if isinstance(cell, str) else ""
            for label in labels:
                rest = _after(text, label)
                if rest is None:
                    continue
                value = rest or next((one for one in row.cells[index + 1 :] if one not in (None, "")), None)
                if value is not None:
                    yield row.line, label, value
                break


def _after(text: str, label: str) -> Cell:
    """The text after the label and its sign, empty after the label alone; None if it does not begin with the label.
    Without a sign a word after it belongs to a title, such as Effective prices."""
    text = text.strip()
    if text.startswith("("):
        text = text[1:].partition(")")[0]
    found = _pattern(label).fullmatch(text.strip())
    if found is None or (not found["sign"] and found["rest"][:1].isalpha()):
        return None
    return found["rest"]


@lru_cache(maxsize=1_000)
def _pattern(label: str) -> re.Pattern[str]:
    words = r"[\W_]*".join(re.escape(word) for word in re.findall(r"[^\W_]+", label))
    # Spaces are not given back: where a line ends later in the cell, each division of them would be tried.
    return re.compile(rf"{words}(?![^\W_])\s*+(?P<sign>[:=]|-(?=\s))?\s*+(?P<rest>.*)", re.IGNORECASE)
