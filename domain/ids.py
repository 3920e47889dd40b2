"""Identifiers: UUIDv7, which sort by time. Answers and pages show one with the prefix of its kind: `rte_` and 32
hexadecimal digits."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from uuid_utils.compat import uuid7

IdKind = Literal[
    "cmp",
    "key",
    "veh",
    "drv",
    "rte",
    "pln",
    "msg",
    "usr",
    "req",
    "imp",
    "whe",
    "evt",
    "sub",
    "ntc",
    "con",
    "fil",
    "hld",
    "cho",
    "src",
    "rpl",
]

KIND_OF: dict[str, IdKind] = {
    "company_id": "cmp",
    "key_id": "key",
    "new_key_id": "key",
    "vehicle_id": "veh",
    "vehicle_ids": "veh",
    "driver_id": "drv",
    "route_id": "rte",
    "route_ids": "rte",
    "first_route_id": "rte",
    "plan_id": "pln",
    "message_id": "msg",
    "user_id": "usr",
    "endpoint_id": "whe",
    "event_id": "evt",
    "subscription_id": "sub",
    "notice_id": "ntc",
    "connector_id": "con",
    "fill_id": "fil",
    "counter_id": "fil",
    "held_price_id": "hld",
    "choice_id": "cho",
    "source_id": "src",
    "replay_id": "rpl",
}
"""The kind of an id, by its name in log events and documents."""

_SHAPE = re.compile(r"[a-z]{3}_([0-9a-f]{32})")


def new_id() -> UUID:
    """A fresh identifier; later ones sort after earlier ones."""
    return uuid7()


def first_id_of(moment: datetime) -> UUID:
    """The smallest identifier of that moment, so all smaller ones are older. Before 1970 it is the smallest of all."""
    return UUID(int=max(0, int(moment.timestamp() * 1000)) << 80)


def shown_id(kind: IdKind, id: UUID) -> str:
    """An identifier as people and other programs see it."""
    return f"{kind}_{id.hex}"


def with_shown_ids(document: Mapping[str, Any], **kinds: IdKind) -> dict[str, Any]:
    """The document with its ids as people see them. `kinds` gives the kinds of fields that are not in `KIND_OF`, such
    as `id="cmp"`."""
    return {name: _shown(kinds.get(name) or KIND_OF.get(name), value) for name, value in document.items()}


def _shown(kind: IdKind | None, value: Any) -> Any:
    if isinstance(value, list):
        return [_shown(kind, each) for each in value]
    return shown_id(kind, value) if kind is not None and isinstance(value, UUID) else value


def read_id(kind: IdKind, text: str) -> UUID | None:
    """The identifier that `text` shows; None for any other text, which therefore never reaches the database."""
    match = _SHAPE.fullmatch(text) if text.startswith(kind) else None
    return UUID(int=int(match[1], 16)) if match is not None else None
