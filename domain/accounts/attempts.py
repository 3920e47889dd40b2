"""A limit on attempts to sign in. It slows down guessing, and does not lock out a user who knows the password.

A browser in which the account has signed in before counts alone, beside the account's other known browsers. Any other
attempt counts by its network, by account and network together, and by account. An account's count leaves out the
networks from which it has signed in before. So people who guess at an account, from however many networks, slow down
neither the browsers nor the networks that its owner uses. `Bound` is the rule.
"""

import hashlib
import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import psycopg

from domain.backoff import backoff
from domain.database.connections import Connection
from domain.database.statements import Command, Statement

LONGEST_WAIT = timedelta(minutes=15)


class Bound(NamedTuple):
    """A limit of attempts. The first `free` ones need no wait; after each further one the wait doubles, from a second
    to `LONGEST_WAIT`. One attempt is forgotten after each `leak`."""

    free: int
    leak: timedelta

    def left_of(self, attempts: float, last_at: datetime, now: datetime) -> float:
        """The number of attempts that still count."""
        return max(0.0, attempts - max(now - last_at, timedelta()) / self.leak)

    def wait(self, attempts: float, last_at: datetime, now: datetime) -> timedelta:
        """The time until the next attempt is allowed. A `last_at` in the future comes from a clock that was ahead, and
        counts as now."""
        if attempts < self.free:
            return timedelta()
        pause = backoff(timedelta(seconds=1), attempts - self.free, longest=LONGEST_WAIT)
        return max(min(last_at, now) + pause - now, timedelta())


DEVICE = Bound(free=10, leak=timedelta(hours=1))
ACCOUNT_FROM_NETWORK = Bound(free=5, leak=timedelta(hours=1))
ACCOUNT = Bound(free=50, leak=timedelta(minutes=15))
NETWORK = Bound(free=50, leak=timedelta(minutes=1))
PASSWORD_CHECKS = Bound(free=30, leak=timedelta(seconds=20))
"""The limit of an account's password checks, right passwords included."""
SITE = Bound(free=500, leak=timedelta(seconds=10))
"""The limit of a /48 of IPv6, which has 65,536 networks and often one owner."""


class AttemptCounter(NamedTuple):
    """A counter of attempts: for a browser, a network, an account, or an account from a network."""

    hash: bytes
    bound: Bound

    @classmethod
    def of(cls, bound: Bound, kind: str, *parts: str) -> "AttemptCounter":
        text = "\n".join((kind, *(part.replace("\n", " ") for part in parts)))
        return cls(hashlib.sha256(text.encode(errors="replace")).digest(), bound)


def counters_of(email: str, network: str, *, known_device: str | None, is_known_network: bool) -> list[AttemptCounter]:
    """All counters of an attempt, always in one order, so that two attempts never wait for each other's rows. `network`
    is an IPv4 address or a /64 of IPv6; it is known if this account has signed in from it before. `known_device` is the
    token of a browser in which this account has signed in before."""
    if known_device is not None:
        return [AttemptCounter.of(DEVICE, "device", known_device, email)]
    return [
        *_of_site("site", network),
        AttemptCounter.of(NETWORK, "network", network),
        AttemptCounter.of(ACCOUNT_FROM_NETWORK, "account from network", email, network),
        *([AttemptCounter.of(ACCOUNT, "account", email)] if not is_known_network else []),
    ]


def counter_of_checks(email: str, network: str, *, known_device: str | None) -> AttemptCounter:
    """The counter that a success does not take back: a right password keeps a processor as busy as a wrong one.
    Strangers elsewhere add nothing: all known browsers of an account count together, other attempts by network."""
    if known_device is not None:
        return AttemptCounter.of(PASSWORD_CHECKS, "checks in known browsers", email)
    return AttemptCounter.of(PASSWORD_CHECKS, "checks from network", email, network)


def counters_of_openid(network: str) -> list[AttemptCounter]:
    """All counters of an attempt with an account at a provider, which is not known in advance. They are apart from
    those of passwords: neither slows the other down."""
    return [
        *_of_site("openid site", network),
        AttemptCounter.of(NETWORK, "openid network", network),
    ]


def site_of(network: str) -> str:
    """The owner of a network, as far as an address tells: a /48 of IPv6, or the network itself."""
    try:
        found = ipaddress.ip_network(network)
    except ValueError:
        return network
    return str(found.supernet(new_prefix=48)) if found.version == 6 and found.prefixlen >= 48 else network


def _of_site(kind: str, network: str) -> list["AttemptCounter"]:
    site = site_of(network)
    return [AttemptCounter.of(SITE, kind, site)] if site != network else []


class _Attempts(NamedTuple):
    attempts: float
    last_at: datetime


_ADD = Command(
    "INSERT INTO sign_in_attempts (subject, attempts, last_at, forgotten_at) VALUES (%s, 0, %s, %s)"
    " ON CONFLICT (subject) DO NOTHING"
)
_LOCK = Statement(_Attempts, "SELECT attempts, last_at FROM sign_in_attempts WHERE subject = %s FOR UPDATE")
_COUNT = Command("UPDATE sign_in_attempts SET attempts = %s, last_at = %s, forgotten_at = %s WHERE subject = %s")
_SET_CLOCK = Command("UPDATE sign_in_attempts SET last_at = %(now)s WHERE subject = %(subject)s AND last_at > %(now)s")


def take_attempt(connection: Connection, counters: Sequence[AttemptCounter], *, now: datetime) -> timedelta:
    """Counts one attempt before it is made, so that attempts at the same moment count too. Returns zero, or the time to
    wait; in that case nothing was counted and no row added."""
    found: list[tuple[AttemptCounter, _Attempts]] = []
    with connection.transaction() as counting:
        for counter in counters:
            _ADD.execute(connection, (counter.hash, now, now))
            stored = _LOCK.one(connection, (counter.hash,))
            wait = counter.bound.wait(stored.attempts, stored.last_at, now)
            if wait:
                raise psycopg.Rollback(counting)
            found.append((counter, stored))
        for counter, stored in found:
            attempts = counter.bound.left_of(stored.attempts, stored.last_at, now) + 1
            forgotten_at = now + attempts * counter.bound.leak
            _COUNT.execute(connection, (attempts, now, forgotten_at, counter.hash))
        return timedelta()
    _SET_CLOCK.execute(connection, {"now": now, "subject": counter.hash})  # else it would wait as long at every look
    return wait


_GIVE_BACK = Command(
    "UPDATE sign_in_attempts SET attempts = greatest(attempts - 1, 0), forgotten_at = forgotten_at - %s::interval"
    " WHERE subject = %s"
)
_FORGET = Command("DELETE FROM sign_in_attempts WHERE subject = %s")


def forgive(connection: Connection, counters: Sequence[AttemptCounter]) -> None:
    """Takes back the count of a successful attempt. Counters that other people add to, such as a network's, lose only
    this attempt."""
    for counter in counters:
        if counter.bound in (DEVICE, ACCOUNT_FROM_NETWORK):
            _FORGET.execute(connection, (counter.hash,))
        else:
            _GIVE_BACK.execute(connection, (counter.bound.leak, counter.hash))


_FORGET_OLD = Command(
    "DELETE FROM sign_in_attempts WHERE subject = ANY(ARRAY("
    "SELECT subject FROM sign_in_attempts WHERE forgotten_at < %s LIMIT %s FOR UPDATE SKIP LOCKED))"
)


def forget_attempts(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes up to `limit` rows whose attempts stopped counting `days` ago. Returns how many."""
    return _FORGET_OLD.execute(connection, (now - timedelta(days=days), limit)).rowcount
