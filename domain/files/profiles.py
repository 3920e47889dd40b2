"""File profiles: which column of a vendor's file is which field of ours, and how its cells are written.

A subject (`RecordFields`: prices, fills) says which fields there are. A profile says where they stand in one vendor's
file. Some are built in; a company keeps others, which it made by mapping columns.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from domain.contract.shapes import Reference, Text

CellKind = Literal["text", "code", "amount", "number", "moment", "day"]
"""A `code` is a text as the file has it: `lost_digits` tells one that a spreadsheet has rounded. An `amount` is money,
in dollars. A `moment` is a time, a `day` is a date without one."""


class RecordField(NamedTuple):
    """A field of ours that a column may hold."""

    name: str
    label: str
    kind: CellKind
    usual_names: tuple[str, ...] = ()
    """Names of columns that files without a profile have for it, beside `name` and `label`."""


class RecordFields(NamedTuple):
    """The fields of a subject. Of each group in `required` a file must have at least one."""

    subject: str
    fields: tuple[RecordField, ...]
    required: tuple[tuple[str, ...], ...]
    has_marks: bool = False
    """A mark such as `N/A` in place of a number or a day is an empty cell. Otherwise it is a fault of the row."""

    def field(self, name: str) -> RecordField | None:
        return next((field for field in self.fields if field.name == name), None)


ColumnName = Annotated[Text, Meta(min_length=1, max_length=200)]


class Column(Struct, frozen=True, omit_defaults=True):
    """The place of a field in the file, and the way its cells are written."""

    names: Annotated[tuple[ColumnName, ...], Meta(min_length=1, max_length=20)]
    """The names that the column has had; the first that the file has counts. Capitals, spaces and signs do not count.
    Where several columns have the same name, `Price (2)` is the second."""
    unit: Literal["dollars", "cents"] = "dollars"
    is_negated: bool = False
    """The file writes the amount or number with the other sign."""
    date_format: Annotated[Text, Meta(max_length=40)] = ""
    """A format of `strptime`, such as `%d.%m.%Y`; empty for the formats that are read anyway."""


class FileProfile(Struct, frozen=True, omit_defaults=True):
    name: Reference
    subject: Reference
    columns: Annotated[dict[str, Column], Meta(max_length=100)]
    """The columns, by the name of the field."""
    constants: Annotated[dict[str, Text], Meta(max_length=20)] = {}
    """Values that every row has, such as the brand of a chain's file."""
    above: Annotated[dict[str, Column], Meta(max_length=20)] = {}
    """Fields whose values stand above the columns' names, beside or behind a label: `Effective Date: 11/26/2026`. The
    names of the column are labels. A row that has the field itself says what counts for it."""
    needs: Annotated[tuple[Reference, ...], Meta(max_length=20)] = ()
    """Fields without which a file is not the vendor's, beside those that every file of the subject needs."""
    recognized_by: Annotated[tuple[ColumnName, ...], Meta(max_length=20)] = ()
    """Names of columns, or words above them, of which a file has one if it is the vendor's. Empty: the columns alone
    tell. Only a file whose profile nobody names is asked."""
    time_zone: Annotated[Text, Meta(max_length=60)] = ""
    """The zone of times without an offset; empty for the company's."""
    code_set: Annotated[Text, Meta(max_length=40)] = ""
    """The set that the file's codes of stations belong to: `loves`. Empty: they are station ids."""


def guessed_columns(names: list[str], record: RecordFields) -> dict[str, str]:
    """The columns that are probably fields, by field: a person looks at them and maps the rest."""
    by_name = {plain_name(name): name for name in reversed(names) if name}
    guesses: dict[str, str] = {}
    for field in record.fields:
        for name in (field.name, field.label, *field.usual_names):
            if plain_name(name) in by_name:
                guesses[field.name] = by_name[plain_name(name)]
                break
    return guesses


def plain_profile(record: RecordFields, columns: Mapping[str, str] | None = None) -> FileProfile:
    """A profile for files whose columns have the names of our fields, or those of `columns`, by field."""
    named = {field.name: Column((field.name, field.label, *field.usual_names)) for field in record.fields}
    given = {name: Column((column,)) for name, column in (columns or {}).items()}
    return FileProfile("generic", record.subject, given or named)


def plain_name(name: str) -> str:
    """The letters and digits of a column's name, in small letters."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())
