"""The faults that the random machine draws. Each begins, holds while the traffic goes on, and ends with its block.

A fault that needs something of the machine, such as root, says why it cannot happen where that is missing.
"""

import signal
from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import Enum, IntEnum
from random import Random
from typing import NamedTuple

import psycopg

from domain.queue.redis_clients import redis_client
from tests.chaos.gateways import Post
from tests.chaos.stack import FAKETIME, INGRESSES, PROCESSES, NotReady, Stack, answers, empty, fill, wait_for
from tests.silence import stopped


class Excuse(Enum):
    """Something that may go wrong while a fault lasts, and shortly before and afterwards."""

    ANSWERS_500 = "PostgreSQL is away or cannot write, or a lock is not freed in time"
    BROKEN_CONNECTIONS = "connections of callers break"
    REPEATED_MESSAGES = "the outcome of handing a message over cannot be stored, so its gateway may get it again"
    LATE_PUSHES = "a push without an answer may still be stored after later ones"


class Hit(NamedTuple):
    """The thing that a fault has hit, and what this excuses."""

    what: str
    excuses: Set[Excuse] = frozenset()


Strike = Callable[["Target", Random], AbstractContextManager[Hit]]
"""Begins a fault. Gives what it hit."""


@dataclass(frozen=True, slots=True)
class Target:
    """The stack and the gateway that faults hit."""

    stack: Stack
    post: Post
    hold: Callable[[float], None]
    """Lets time pass while the fault lasts."""


class Part(IntEnum):
    """The part of the stack that a fault hits. Faults of different parts may last at the same time, begun in this order
    and ended in the reverse: a process is started again when the servers are back."""

    PROCESS = 1
    GATEWAY = 2
    VALKEY = 3
    POSTGRES = 4


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    name: str
    part: Part
    strike: Strike
    hold_seconds: tuple[float, float]
    may_last_long: bool = False
    """Now and then it lasts `LONG_LOCK_SECONDS`."""
    missing: Callable[[Stack], str | None] = lambda stack: None
    """The reason why the fault cannot happen here."""


# --- Processes ---------------------------------------------------------------------------------------------------


def _excuses_of(process: str) -> Set[Excuse]:
    """The end of a process excuses this."""
    if process == "messages":
        return {Excuse.REPEATED_MESSAGES}
    return {Excuse.BROKEN_CONNECTIONS} if process in (*INGRESSES, "console") else frozenset()


@contextmanager
def _kill(target: Target, random: Random) -> Iterator[Hit]:
    name = random.choice(PROCESSES)
    target.stack.kill(name)
    yield Hit(name, _excuses_of(name))
    target.stack.start(name)


@contextmanager
def _freeze(target: Target, random: Random) -> Iterator[Hit]:
    name = random.choice(PROCESSES)
    target.stack.signal(name, signal.SIGSTOP)
    try:
        # a frozen process keeps the locks of its transaction: pushes that need them fail after 1.5 s
        yield Hit(name, {*_excuses_of(name), Excuse.ANSWERS_500})
    finally:
        target.stack.signal(name, signal.SIGCONT)


@contextmanager
def _rolling_restart(target: Target, random: Random) -> Iterator[Hit]:
    """Some processes are asked to stop and started again, one after the other."""
    order = random.sample(PROCESSES, 4)
    yield Hit(", ".join(order), {Excuse.BROKEN_CONNECTIONS})
    for name in order:
        target.stack.end(name, signal.SIGTERM)
        target.stack.start(name)


@contextmanager
def _two_schedulers(target: Target, random: Random) -> Iterator[Hit]:
    """A second scheduler takes over when the first one is killed or asked to stop, or waits in vain."""
    after = random.choice(("killed", "stopped", "left alone"))
    target.stack.start("scheduler 2")
    try:
        if after == "killed":
            target.stack.kill("scheduler")
        elif after == "stopped":
            target.stack.end("scheduler", signal.SIGTERM)
        yield Hit(f"the first is {after}")
        if after != "left alone":
            target.stack.start("scheduler")
    finally:
        target.stack.kill("scheduler 2")


@contextmanager
def _clock_step(target: Target, random: Random) -> Iterator[Hit]:
    """The clock of one process steps by minutes, and back again.

    Under libfaketime a thread that sleeps during a step may fail with EINVAL, which ends the process. A kernel does not
    do that. The process is started again, as a supervisor does.
    """
    name, minutes = random.choice(PROCESSES), random.choice((-4, -3, -2, 2, 3, 4))
    stack = target.stack
    file = stack.folder / f"clock of {name}"
    file.write_text("+0\n")
    stack.faked[name] = file
    try:
        stack.end(name, signal.SIGTERM)
        stack.start(name)
        file.write_text(f"{minutes:+}m\n")
        yield Hit(f"{name} {minutes:+} min", {Excuse.BROKEN_CONNECTIONS})
        file.write_text("+0\n")
        target.hold(1.5)
    finally:
        del stack.faked[name]
    stack.end(name, signal.SIGTERM)
    stack.start(name)


def _no_faketime(_: Stack) -> str | None:
    return None if FAKETIME.exists() else f"there is no {FAKETIME}: apt-get install faketime"


# --- Valkey ------------------------------------------------------------------------------------------------------


@contextmanager
def _restart_redis(target: Target, random: Random) -> Iterator[Hit]:
    how = random.choice((signal.SIGTERM, signal.SIGKILL))
    target.stack.end("redis", how)
    yield Hit(how.name)
    target.stack.start("redis")


@contextmanager
def _lose_redis(target: Target, random: Random) -> Iterator[Hit]:
    """It comes back without its data."""
    target.stack.kill("redis")
    for file in sorted((target.stack.folder / "redis").rglob("*.aof*")):
        file.unlink()
    for file in sorted((target.stack.folder / "redis").rglob("*.manifest")):
        file.unlink()
    yield Hit("SIGKILL")
    target.stack.start("redis")


@contextmanager
def _flush(target: Target, random: Random) -> Iterator[Hit]:
    """Everything is deleted, twice."""
    with redis_client(target.stack.redis.url) as client:
        client.flushall()
        yield Hit("")
        client.flushall()


@contextmanager
def _full_redis(target: Target, random: Random) -> Iterator[Hit]:
    """It refuses writes: with `noeviction`, no memory is left."""
    with redis_client(target.stack.redis.url) as client:
        client.config_set("maxmemory", "1mb")
        try:
            yield Hit("")
        finally:
            client.config_set("maxmemory", "0")


@contextmanager
def _freeze_redis(target: Target, random: Random) -> Iterator[Hit]:
    target.stack.signal("redis", signal.SIGSTOP)
    try:
        yield Hit("")
    finally:
        target.stack.signal("redis", signal.SIGCONT)


# --- PostgreSQL --------------------------------------------------------------------------------------------------

_AWAY = frozenset({Excuse.ANSWERS_500, Excuse.REPEATED_MESSAGES})


def _restart_postgres(number: signal.Signals) -> Strike:
    @contextmanager
    def strike(target: Target, random: Random) -> Iterator[Hit]:
        if number == signal.SIGKILL:
            target.stack.kill("postgres")
        else:
            target.stack.end("postgres", number, seconds=60)
        yield Hit(number.name, _AWAY)
        target.stack.start("postgres")

    return strike


@contextmanager
def _freeze_postgres(target: Target, random: Random) -> Iterator[Hit]:
    with stopped(target.stack.pid("postgres")):
        yield Hit("", {*_AWAY, Excuse.LATE_PUSHES})


@contextmanager
def _cut_connections(target: Target, random: Random) -> Iterator[Hit]:
    """All connections of the service end, some times in a row."""
    times = random.randint(1, 4)
    yield Hit(f"{times} times", _AWAY)
    with psycopg.connect(target.stack.admin_url, autocommit=True) as connection:
        for _ in range(times):
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'fuelroute'")
            target.hold(0.4)


@contextmanager
def _hold_locks(target: Target, random: Random) -> Iterator[Hit]:
    """A stranger's transaction holds rows or a whole table."""
    what = random.choice([*_LOCKS])
    with psycopg.connect(target.stack.admin_url, options="-c lock_timeout=3000") as connection:
        for _ in range(3):  # the service holds some of them itself, and takes them in an order of its own
            try:
                connection.execute(_LOCKS[what])
                break
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                connection.rollback()
        yield Hit(what, _AWAY)


_LOCKS = {
    "the newest routes": "SELECT FROM routes ORDER BY id DESC LIMIT 300 FOR UPDATE",
    "all companies": "SELECT FROM companies FOR UPDATE",
    "all tracks": "SELECT FROM tracks ORDER BY vehicle_id, environment FOR UPDATE",
    "all messages": "SELECT FROM messages WHERE status = 'pending' FOR UPDATE",
    "the table of routes": "LOCK TABLE routes IN SHARE ROW EXCLUSIVE MODE",
    "the table of routes, reading too": "LOCK TABLE routes IN ACCESS EXCLUSIVE MODE",
    "the table of plans": "LOCK TABLE plans IN ACCESS EXCLUSIVE MODE",
}


@contextmanager
def _full_disk(target: Target, random: Random) -> Iterator[Hit]:
    """No space is left for PostgreSQL's data. It may crash, and comes back when there is space again."""
    stack = target.stack
    fill(stack.disk)
    try:
        yield Hit("", _AWAY)
    finally:
        empty(stack.disk)
    if not wait_for(lambda: stack.is_dead("postgres") or answers(stack.admin_url), 180):
        raise NotReady("PostgreSQL does not come back when its disk has space again")
    stack.heal()


def _no_disk(stack: Stack) -> str | None:
    return None if stack.own_disk else "PostgreSQL's data has no small disk of its own: mounting one needs root"


# --- Gateways ----------------------------------------------------------------------------------------------------


@contextmanager
def _gateway_hangs(target: Target, random: Random) -> Iterator[Hit]:
    with target.post.hanging():
        yield Hit("", {Excuse.REPEATED_MESSAGES})


@contextmanager
def _gateway_refuses(target: Target, random: Random) -> Iterator[Hit]:
    with target.post.refusing():
        yield Hit("", {Excuse.REPEATED_MESSAGES})


@contextmanager
def _gateway_lies(target: Target, random: Random) -> Iterator[Hit]:
    """It sends each message on, and says nothing."""
    with target.post.lying():
        yield Hit("", {Excuse.REPEATED_MESSAGES})


FAULTS = (
    Fault("a process is killed", Part.PROCESS, _kill, (0, 2)),
    Fault("a process is frozen", Part.PROCESS, _freeze, (0.5, 4)),
    Fault("rolling restart", Part.PROCESS, _rolling_restart, (0, 0.5)),
    Fault("two schedulers", Part.PROCESS, _two_schedulers, (0.5, 2)),
    Fault("a clock steps", Part.PROCESS, _clock_step, (2, 3), missing=_no_faketime),
    Fault("Valkey restarts", Part.VALKEY, _restart_redis, (0, 2)),
    Fault("Valkey restarts empty", Part.VALKEY, _lose_redis, (0, 2)),
    Fault("Valkey is flushed", Part.VALKEY, _flush, (0.2, 1)),
    Fault("Valkey is full", Part.VALKEY, _full_redis, (0.5, 3)),
    Fault("Valkey is frozen", Part.VALKEY, _freeze_redis, (0.5, 4)),
    Fault("PostgreSQL restarts", Part.POSTGRES, _restart_postgres(signal.SIGINT), (0, 2)),
    Fault("PostgreSQL stops at once", Part.POSTGRES, _restart_postgres(signal.SIGQUIT), (0, 2)),
    Fault("PostgreSQL is killed", Part.POSTGRES, _restart_postgres(signal.SIGKILL), (0, 2)),
    Fault("PostgreSQL is frozen", Part.POSTGRES, _freeze_postgres, (0.5, 4)),
    Fault("connections are cut", Part.POSTGRES, _cut_connections, (0, 0.5)),
    Fault("a stranger holds locks", Part.POSTGRES, _hold_locks, (0.5, 4), may_last_long=True),
    Fault("the disk is full", Part.POSTGRES, _full_disk, (0.5, 3), missing=_no_disk),
    Fault("a gateway hangs", Part.GATEWAY, _gateway_hangs, (0.5, 4)),
    Fault("a gateway refuses", Part.GATEWAY, _gateway_refuses, (0.5, 3)),
    Fault("a gateway lies", Part.GATEWAY, _gateway_lies, (0.5, 3)),
)
LONG_LOCK_SECONDS = 20.0
