"""Captions of a shape's fields, for people: the console's forms and lists and the options of commands show them.

A shape declares a field's caption beside its type and its limits:

    vin: Annotated[Vin | None, Caption("VIN", "17 characters")] = None
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from domain.contract.checking import without_limits, without_none


@dataclass(frozen=True, eq=False)
class Caption:
    label: str
    """The name of the field, with its unit: `Tank, gallons`."""
    hint: str = ""
    default: str = ""
    """The value of a new row: the default of the table's column."""
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The values that the field may have, each with its meaning."""
    is_secret: bool = False
    is_replaced: bool = False
    """True if another field takes its place. Commands still accept it; forms have only the other."""
    group: str = ""
    """The part of a long form in which the field stands."""


@dataclass(frozen=True)
class CaptionedField:
    name: str
    type: Any
    """The type without its limits: `float`, `date`, an enum."""
    caption: Caption

    @property
    def label(self) -> str:
        return self.caption.label

    @property
    def hint(self) -> str:
        return self.caption.hint

    @property
    def default(self) -> str:
        return self.caption.default

    @property
    def is_replaced(self) -> bool:
        return self.caption.is_replaced

    @property
    def choices(self) -> Mapping[str, str]:
        return self.caption.choices

    @property
    def group(self) -> str:
        return self.caption.group

    @property
    def kind(self) -> Literal["text", "number", "date", "secret"]:
        """The kind of input that a form has for the field."""
        if self.caption.is_secret:
            return "secret"
        if self.type in (int, float):
            return "number"
        return "date" if self.type is date else "text"


def captioned_fields(shape: type[Struct], *names: str) -> tuple[CaptionedField, ...]:
    """The fields of `shape` that have a caption, in their order; with `names`, those fields in the order of the
    names."""
    found = {
        field.name: CaptionedField(field.name, without_limits(without_none(field.type)[0]), caption)
        for field in msgspec.structs.fields(shape)
        for caption in get_args(field.type)
        if isinstance(caption, Caption)
    }
    return tuple(found[name] for name in names or found)
