"""A check looks at one side of the service and yields its findings. It works in bounded time and only reads."""

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
    """True: something is broken or about to break. False: a warning, which does not make the command fail."""
    what: str
    what_to_do: str
    examples: tuple[str, ...] = ()
    """Some of the things that have the fault: ids as people see them, or names."""


class NotFinished(FuelrouteError):
    """A check ran out of time. The text says how much it has looked at."""


class NoSchema(FuelrouteError):
    """The database has no schema, so nothing in it can be checked."""


def _nothing(_: float) -> None:
    return


@dataclass(frozen=True, slots=True)
class Examined:
    """The service as a check sees it, and the bounds of the check."""

    connection: Connection
    """Each statement is a transaction of its own, so that no snapshot is held for long. It can only read."""
    client: redis.Redis
    settings: Settings
    now: datetime
    ends_at: float
    """The time by `time.monotonic` at which the check stops, finished or not."""
    most_examples: int = 5
    plans: int = 400
    """The number of plans to replay."""
    told: Callable[[float], None] = field(default=_nothing)
    """It is called with the part of the check that is done, from 0 to 1."""

    def seconds_left(self) -> float:
        return self.ends_at - time.monotonic()


class Check(NamedTuple):
    """`share` is the part of the time left that the check may use."""

    name: str
    find: Callable[[Examined], Iterator[Finding]]
    share: float = 0.2


def problem(what: str, what_to_do: str, examples: tuple[str, ...] = ()) -> Finding:
    return Finding(True, what, what_to_do, examples)


def warning(what: str, what_to_do: str, examples: tuple[str, ...] = ()) -> Finding:
    return Finding(False, what, what_to_do, examples)
