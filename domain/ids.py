"""Prefixed, sortable identifiers: `rte_` and the 32 hexadecimal digits of a UUIDv7."""

import re
from typing import Literal

import uuid_utils

Kind = Literal["cmp", "key", "veh", "drv", "rte", "pln", "msg", "usr"]

_SHAPE = re.compile(r"[a-z]{3}_[0-9a-f]{32}")


def new_id(kind: Kind) -> str:
    """A fresh identifier; later ones sort after earlier ones."""
    return f"{kind}_{uuid_utils.uuid7().hex}"


def is_id(text: str, kind: Kind) -> bool:
    """Whether `text` could be an identifier of that kind, so that anything else never reaches the database."""
    return text.startswith(kind) and _SHAPE.fullmatch(text) is not None
