"""The common part of checks: each looks at one side of the service, yields its findings, works in bounded time and only
reads."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import redis

from domain.database.connections import Connection
from domain.errors import FuelrouteError
from domain.settings import Settings


class Finding(NamedTuple):
    """A fault that a check has found, and what to do about it."""

    is_problem: bool
    """True if something is broken or about to break. False for a warning, which does not make the command fail."""
    what: str
    what_to_do: str
    examples: tuple[str, ...] = ()
    """Some of the faulty things: ids in the form for people, or names."""


class NotFinished(FuelrouteError):
    """A check ran out of time. The text says how far it came."""


class NoSchema(FuelrouteError):
    """The database has no schema, so nothing in it can be checked."""


def _nothing(_: float) -> None:
    return


@dataclass(frozen=True, slots=True)
class Examined:
    """The service for a check, and the bounds of the check."""

    connection: Connection
    """A connection that can only read. Each statement is a transaction of its own, so that no snapshot is held for
    long."""
    client: redis.Redis
    settings: Settings
    now: datetime
    ends_at: float
    """When the check stops, finished or not, by `time.monotonic`."""
    most_examples: int = 5
    plans: int = 400
    """The number of plans to retrace."""
    told: Callable[[float], None] = field(default=_nothing)
    """Called with the finished part of the check, from 0 to 1."""

    def seconds_left(self) -> float:
        return self.ends_at - time.monotonic()


class Check(NamedTuple):
    """A check. `share` is the part of the time left that it may use."""

    name: str
    find: Callable[[Examined], Iterator[Finding]]
    share: float = 0.2


def problem(what: str, what_to_do: str, examples: tuple[str, ...] = ()) -> Finding:
    return Finding(True, what, what_to_do, examples)


def warning(what: str, what_to_do: str, examples: tuple[str, ...] = ()) -> Finding:
    return Finding(False, what, what_to_do, examples)
