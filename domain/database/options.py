"""The options of connections to PostgreSQL: time limits, the detection of vanished machines, and how plans are made."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from domain.database.visibility import SERVICE_ROLE


class TimeLimits(NamedTuple):
    """Seconds after which the server ends a statement (0: never), a wait for another transaction's lock, and a
    transaction whose process is silent, with its locks."""

    statement_seconds: float
    lock_seconds: float
    idle_seconds: float = 60

    @property
    def patience_seconds(self) -> float:
        """The longest wait for an answer. A server that works has ended the statement before that."""
        return self.statement_seconds + _SLACK_SECONDS if self.statement_seconds else math.inf


SERVING = TimeLimits(statement_seconds=2.5, lock_seconds=1.5, idle_seconds=10)
"""The limits of requests. Each is answered within 5 s, including its wait for a connection."""

REPORTING = TimeLimits(statement_seconds=15, lock_seconds=1.5, idle_seconds=30)
"""The limits of the console's reports and exports, which have threads of their own: a year of 10,000 trucks takes
seconds, and twice as long on a busy machine."""

WORKING = TimeLimits(statement_seconds=60, lock_seconds=2)
"""The limits of jobs and passes."""

ONE_BY_ONE = TimeLimits(statement_seconds=10, lock_seconds=0.05)
"""The limits of each part of a batch that failed and is repeated in parts: the whole batch has waited already."""

HOUSEKEEPING = TimeLimits(statement_seconds=3600, lock_seconds=1)
"""The limits of housekeeping. It may have much to remove, but waits only briefly for a lock and tries again an hour
later: while it waits for the lock of a whole table, requests stand in line behind it and fail after 1.5 s
(`SERVING`)."""

LEADING = TimeLimits(statement_seconds=3, lock_seconds=1)
"""The limits of the connection that holds the scheduler's lead."""

COMMANDING = TimeLimits(statement_seconds=0, lock_seconds=60)
"""The limits of commands: a person sees how long one takes, and can stop it."""

MIGRATING = TimeLimits(statement_seconds=0, lock_seconds=0.2)
"""The limits of migrations. A migration may take long, but waits only briefly for the lock of a table, then gives way
and tries again: requests stand in line behind it and fail after 1.5 s (`SERVING`). It may wait for several tables'
locks, one after the other, while it holds the first."""

REPLICA = TimeLimits(statement_seconds=0.5, lock_seconds=0.5, idle_seconds=10)
"""The limits of a replica: short, because the primary is asked within the same request when the replica fails."""

CONNECTION_SECONDS = 2

_SLACK_SECONDS = 0.5


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


CLIENT_OPTIONS: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": milliseconds(10),
}
"""Options by which our side of a connection notices a server that has vanished."""

ANY_TABLE = {"plan_cache_mode": "force_custom_plan"}
"""Tables grow from nothing to millions of rows: a plan made for a small one must not outlive it in a connection."""

BY_KEY = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_mergejoin": "off",
    "enable_hashjoin": "off",
    "enable_material": "off",
}
"""Statements that find their rows by key run with these. One plan, by the index, is right for a table of any size, and
planning anew for each batch would cost as much as the batch. Other joins than by key would read a whole index of a
table that was small when the plan was made.

A table that was empty then is also read whole for each row of a batch, if the planner may begin with it. So join a
batch from its own side: by LATERAL with OFFSET 0, or, where a statement updates, with `key = ANY(...)` beside it."""


def transaction_settings(limits: TimeLimits, more: Mapping[str, object]) -> dict[str, str]:
    """The server's settings for a transaction. They also fit a whole session."""
    wanted = {
        "timezone": "UTC",
        "jit": "off",  # no statement here runs long enough to be worth compiling
        "statement_timeout": milliseconds(limits.statement_seconds),
        "lock_timeout": milliseconds(limits.lock_seconds),
        "idle_in_transaction_session_timeout": milliseconds(limits.idle_seconds),
        **more,
    }
    return {name: str(value) for name, value in wanted.items()}


def server_options(limits: TimeLimits, **more: object) -> str:
    """The settings that a connection asks of the server. A machine that vanishes closes nothing: with these the server
    notices within 25 s (`tcp_*`), also during a statement (`client_connection_check_interval`), and frees its locks."""
    wanted = {
        **transaction_settings(limits, more),
        "client_connection_check_interval": milliseconds(5),
        "tcp_keepalives_idle": 10,
        "tcp_keepalives_interval": 5,
        "tcp_keepalives_count": 3,
        "tcp_user_timeout": milliseconds(25),
    }
    return " ".join(f"-c {name}={value}" for name, value in wanted.items())


AS_SERVICE = {"role": SERVICE_ROLE}
"""Puts a transaction or a session behind the second wall (`domain.database.visibility`)."""


def pool_options(limits: TimeLimits, more: Mapping[str, object], *, pooled: bool = False) -> dict[str, Any]:
    """The arguments with which a pool opens its connections; `more` is ANY_TABLE or BY_KEY, with or without AS_SERVICE.

    `pooled`: a pooler in transaction mode stands between. The next statement may meet another session, so nothing
    is asked of the session and nothing is prepared in it: each transaction brings its settings along."""
    session = {"prepare_threshold": None} if pooled else {"options": server_options(limits, **more)}
    return {**CLIENT_OPTIONS, **session, "connect_timeout": CONNECTION_SECONDS, "autocommit": True}
