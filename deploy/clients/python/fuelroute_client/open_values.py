"""Enumerations that a newer service may extend: an unknown value is kept, not refused."""

import enum
from typing import Self


class StrEnum(enum.StrEnum):
    """A text with the known values as members. `RouteStatus("paused")` is a member too: equal to its text, and of the
    same type, though it has no constant."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = value
        member._value_ = value
        return member
