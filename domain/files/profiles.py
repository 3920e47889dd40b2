"""File profiles: which column of a vendor's file is which field of ours, and how its cells are written.

A subject (`RecordFields`: prices, fills) lists the fields. A profile says where they stand in one vendor's file. Some
are built in; a company keeps others, which it made by mapping columns."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple
from unicodedata import normalize

from msgspec import Meta, Struct

from domain.contract.shapes import Reference, Text

CellKind = Literal["text", "code", "amount", "number", "moment", "day"]
"""A `code` is a text exactly as in the file. An `amount` is money, in dollars. A `moment` is a time, a `day` is a date
without one."""


class RecordField(NamedTuple):
    """A field of ours that a column may hold."""

    name: str
    label: str
    kind: CellKind
    usual_names: tuple[str, ...] = ()
    """Names of its column in files without a profile, besides `name` and `label`."""
    is_alone: bool = False
    """True if a column of another field is never its column, too: `Unit` is the unit of the quantity only beside `Unit
    Number`."""
    other_values: re.Pattern[str] | None = None
    """Values that say that a column is not its own, if another one may be."""
    lookalikes: tuple[str, ...] = ()
    """Names of columns that hold something else, which people take for it."""
    lookalike_fault: str = ""
    """The reason why a column of `lookalikes` is not read, after its name."""

    @property
    def short_label(self) -> str:
        """The label up to its first comma, colon or semicolon, for a menu on a phone."""
        return re.split("[,:;]", self.label, maxsplit=1)[0]


class FollowingField(NamedTuple):
    """A field that follows from others in files without a column for it."""

    field: str
    parts: tuple[str, ...]
    """The fields that it follows from. The first one's column is named as its own."""
    of_parts: Callable[..., Any]
    """Its value by theirs, any of which may be None."""


class RecordFields(NamedTuple):
    """The fields of a subject. A file needs at least one field of each group in `required`."""

    subject: str
    fields: tuple[RecordField, ...]
    required: tuple[tuple[str, ...], ...]
    has_marks: bool = False
    """True if a mark such as `N/A` in place of a number or a day counts as an empty cell; otherwise it is a fault of
    the row."""
    has_thousands: bool = True
    """False if no number reaches a thousand: `1,659` then has decimals behind its comma."""
    follows: "tuple[FollowingField, ...]" = ()
    is_in_dollars: bool = False
    """True if an amount without a currency is in US dollars: one that names another in its cell then tells it."""

    def field(self, name: str) -> RecordField | None:
        return next((field for field in self.fields if field.name == name), None)


ColumnName = Annotated[Text, Meta(min_length=1, max_length=200)]


class Column(Struct, frozen=True, omit_defaults=True):
    """The place of a field in the file, and the spelling of its cells."""

    names: Annotated[tuple[ColumnName, ...], Meta(min_length=1, max_length=20)]
    """Names that the column has had; the first that the file has counts. Capitals, spaces and signs do not count. If
    several columns share a name, `Price (2)` is the second."""
    unit: Literal["dollars", "cents"] = "dollars"
    is_negated: bool = False
    """True if the file writes the amount or number with the other sign."""
    date_format: Annotated[Text, Meta(max_length=40)] = ""
    """A format of `strptime`, such as `%d.%m.%Y`; empty for the usual formats."""


class FileProfile(Struct, frozen=True, omit_defaults=True):
    name: Reference
    subject: Reference
    columns: Annotated[dict[str, Column], Meta(max_length=100)]
    """The columns by the names of their fields."""
    constants: Annotated[dict[str, Text], Meta(max_length=20)] = {}
    """Values that every row has, such as the brand of a chain's file."""
    above: Annotated[dict[str, Column], Meta(max_length=20)] = {}
    """Fields with a value above the columns' names, beside or after a label: `Effective Date: 11/26/2026`. The names of
    the column are labels. A row with a value of its own keeps that."""
    needs: Annotated[tuple[Reference, ...], Meta(max_length=20)] = ()
    """Fields that a file of this vendor has in any case, besides those that the subject requires."""
    recognized_by: Annotated[tuple[ColumnName, ...], Meta(max_length=20)] = ()
    """Names of columns, or words above them, one of which each file of the vendor has; empty if the columns alone are
    enough. They only matter for a file whose profile was not named."""
    time_zone: Annotated[Text, Meta(max_length=60)] = ""
    """The zone of times without an offset; empty for the company's."""
    code_set: Annotated[Text, Meta(max_length=40)] = ""
    """The set of the file's codes of stations, such as `loves`; empty if they are station ids."""


def guessed_columns(names: list[str], record: RecordFields) -> dict[str, str]:
    """The probable columns of fields, by field. A person checks them and maps the rest."""
    by_name = {plain_name(name): name for name in reversed(names) if name}
    guesses: dict[str, str] = {}
    for field in record.fields:
        for name in (field.name, field.label, *field.usual_names):
            if plain_name(name) in by_name:
                guesses[field.name] = by_name[plain_name(name)]
                break
    return guesses


def plain_profile(record: RecordFields) -> FileProfile:
    """A profile for files whose columns have the names of our fields."""
    named = {field.name: Column((field.name, field.label, *field.usual_names)) for field in record.fields}
    return FileProfile("generic", record.subject, named)


def plain_name(name: str) -> str:
    """The letters and digits of a column's name, in small letters without accents. A plus is a word: `Cost+` is not the
    cost, but `Cost Plus`."""
    return _plain_name(name) if len(name) <= _USUAL_CHARACTERS else _plain_name.__wrapped__(name)


_USUAL_CHARACTERS = 200


@lru_cache(maxsize=4_096)  # a column is compared with each of some hundred names, and with each other column
def _plain_name(name: str) -> str:
    spelled = name.casefold().replace("+", "plus")
    return "".join(letter for letter in normalize("NFKD", spelled) if letter.isalnum())
