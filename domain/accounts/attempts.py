"""How signing in slows down those who guess, without locking out those who know.

Who tries is counted in one of two ways. A browser in which the account has signed in before counts alone. Any other
counts by account and address together, and by address. So whoever guesses at an account, from wherever, slows down
neither the account's own browsers nor other addresses. `Bound` is the rule.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from domain.database import Connection
from domain.statements import Command, Statement

LONGEST_WAIT = timedelta(minutes=15)
COUNTED_DAYS = 3
"""Attempts are forgotten altogether when so many days passed without one."""


class Bound(NamedTuple):
    """So many attempts are free. After each further one the wait doubles, from a second to `LONGEST_WAIT`. One attempt
    is forgotten after each `leak`."""

    free: int
    leak: timedelta

    def left_of(self, attempts: float, last_at: datetime, now: datetime) -> float:
        """What counts still of so many attempts."""
        return max(0.0, attempts - max(now - last_at, timedelta()) / self.leak)

    def wait(self, attempts: float, last_at: datetime, now: datetime) -> timedelta:
        """How long until the next one is allowed."""
        if attempts < self.free:
            return timedelta()
        pause = min(timedelta(seconds=2 ** min(attempts - self.free, 20)), LONGEST_WAIT)
        return max(last_at + pause - now, timedelta())


DEVICE = Bound(free=10, leak=timedelta(hours=1))
ACCOUNT_FROM_ADDRESS = Bound(free=5, leak=timedelta(hours=1))
ADDRESS = Bound(free=50, leak=timedelta(minutes=1))


class Subject(NamedTuple):
    """Who tries."""

    hash: bytes
    bound: Bound

    @classmethod
    def of(cls, bound: Bound, kind: str, *parts: str) -> "Subject":
        text = "\n".join((kind, *(part.replace("\n", " ") for part in parts)))
        return cls(hashlib.sha256(text.encode(errors="replace")).digest(), bound)


def subjects_of(email: str, address: str, known_device: str | None) -> list[Subject]:
    """`known_device` is the token of a browser in which this account has signed in before."""
    if known_device is not None:
        return [Subject.of(DEVICE, "device", known_device, email)]
    return [
        Subject.of(ACCOUNT_FROM_ADDRESS, "account", email, address),
        Subject.of(ADDRESS, "address", address),
    ]


class _Attempts(NamedTuple):
    attempts: float
    last_at: datetime


_ADD = Command(
    "INSERT INTO sign_in_attempts (subject, attempts, last_at) VALUES (%s, 0, %s) ON CONFLICT (subject) DO NOTHING"
)
_LOCK = Statement(_Attempts, "SELECT attempts, last_at FROM sign_in_attempts WHERE subject = %s FOR UPDATE")
_COUNT = Command("UPDATE sign_in_attempts SET attempts = %s, last_at = %s WHERE subject = %s")


def take_attempt(connection: Connection, subjects: Sequence[Subject], *, now: datetime) -> timedelta:
    """Counts one attempt before it is made, so that many at the same time count too. Returns zero; or how long to
    wait, and then nothing was counted."""
    found: list[tuple[Subject, _Attempts]] = []
    for subject in sorted(subjects):
        _ADD.execute(connection, (subject.hash, now))
        found.append((subject, _LOCK.one(connection, (subject.hash,))))
    wait = max(subject.bound.wait(stored.attempts, stored.last_at, now) for subject, stored in found)
    if not wait:
        for subject, stored in found:
            attempts = subject.bound.left_of(stored.attempts, stored.last_at, now) + 1
            _COUNT.execute(connection, (attempts, now, subject.hash))
    return wait


_GIVE_BACK = Command("UPDATE sign_in_attempts SET attempts = greatest(attempts - 1, 0) WHERE subject = %s")
_FORGET = Command("DELETE FROM sign_in_attempts WHERE subject = %s")


def forgive(connection: Connection, subjects: Sequence[Subject]) -> None:
    """The attempt succeeded. An address gets back this one only: its owner may be guessing at other accounts."""
    for subject in sorted(subjects):
        (_GIVE_BACK if subject.bound is ADDRESS else _FORGET).execute(connection, (subject.hash,))


_FORGET_OLD = Command(
    "DELETE FROM sign_in_attempts WHERE subject = ANY(ARRAY("
    "SELECT subject FROM sign_in_attempts WHERE last_at < %s LIMIT %s FOR UPDATE SKIP LOCKED))"
)


def forget_attempts(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Those that count no more, up to `limit`. Returns how many."""
    return _FORGET_OLD.execute(connection, (now - timedelta(days=days), limit)).rowcount
