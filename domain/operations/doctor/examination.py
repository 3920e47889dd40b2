"""Makes all checks, one after the other, in bounded time."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import psycopg
import redis

from domain import clock
from domain.database.connections import DatabaseProblem, open_session
from domain.database.options import TimeLimits
from domain.ids import shown_id
from domain.operations.doctor import machines, partitions, postgres, redis_server, roads, schema, stored_keys, work
from domain.operations.doctor.checks import Check, Examined, Finding, NoSchema, NotFinished, problem
from domain.operations.doctor.references import check_references
from domain.operations.doctor.retraced_plans import check_plans
from domain.operations.doctor.route_facts import check_routes
from domain.queue.redis_clients import redis_client
from domain.routes.reading import counts
from domain.settings import Settings


class CheckResult(NamedTuple):
    """The result of a check. `unfinished` says why it did not come to its end; None if it did."""

    check: str
    findings: list[Finding]
    seconds: float
    unfinished: str | None


def _check_counts(seen: Examined) -> Iterator[Finding]:
    differing = counts.find_differences(seen.connection)
    if differing:
        yield problem(
            f"Counts of routes are wrong: {len(differing):,}",
            "Housekeeping corrects them within the hour; if they are wrong again, report it",
            tuple(
                f"{shown_id('cmp', one.company_id)} {one.environment} {one.status}: {one.routes:+}"
                for one in differing[: seen.most_examples]
            ),
        )


CHECKS: Sequence[Check] = (
    Check("schema", schema.check_schema),
    Check("postgresql version", postgres.check_version),
    Check("connections", postgres.check_connections),
    Check("transactions and locks", postgres.check_transactions),
    Check("vacuum", postgres.check_vacuum),
    Check("indexes and collations", postgres.check_indexes),
    Check("write-ahead log", postgres.check_log),
    Check("redis", redis_server.check_redis_server),
    Check("clocks", machines.check_clocks),
    Check("disks", machines.check_disks),
    Check("time zones", machines.check_time_zones),
    Check("certificates", machines.check_certificates),
    Check("roads", roads.check_roads),
    Check("contact key", stored_keys.check_contact_key),
    Check("api keys", stored_keys.check_api_keys),
    Check("processes", postgres.check_processes),
    Check("alerts", work.check_alerts),
    Check("late steps", work.check_steps),
    Check("partitions", partitions.check_partitions),
    Check("counts of routes", _check_counts, share=0.4),
    Check("references", check_references, share=0.3),
    Check("plans driven again", check_plans, share=0.3),
    Check("routes", check_routes, share=1.0),
)
"""All checks; the last ones take the time that the others leave."""

ExaminationProgress = Callable[[str, float], None]
"""Called with the name of the running check, and the finished part of it, from 0 to 1."""


_OPTIONS: dict[str, Any] = {
    "default_transaction_read_only": "on",
    "max_parallel_workers_per_gather": 0,
    "work_mem": "64MB",
    "application_name": r"fuelroute\ doctor",
}
"""The doctor only reads, on one processor of the server. These are sent as the session begins: behind a pooler, a SET
would stay with a connection that others use next."""


def examine(
    settings: Settings,
    *,
    seconds: float,
    now: datetime | None = None,
    most_examples: int = 5,
    plans: int = 400,
    told: ExaminationProgress = lambda _, __: None,
    checks: Sequence[Check] = CHECKS,
) -> list[CheckResult]:
    """Makes all checks within about `seconds`, and changes nothing. `now` is PostgreSQL's time unless given. Raises
    NoSchema for an empty database, and DatabaseProblem or psycopg.Error when PostgreSQL cannot be reached."""
    ends_at = time.monotonic() + seconds
    limits = TimeLimits(statement_seconds=seconds, lock_seconds=_LOCK_SECONDS)
    with (
        open_session(settings.require_direct_url(), limits, autocommit=True, **_OPTIONS) as session,
        redis_client(settings.require_redis_url()) as client,
    ):
        seen = Examined(session, client, settings, now or clock.now(), ends_at, most_examples, plans)
        results = []
        for check in checks:
            left = max(ends_at - time.monotonic(), 0.0)
            until = time.monotonic() + max(left * check.share, _LEAST_SECONDS)
            own = replace(seen, ends_at=until, told=_telling(told, check.name))
            results.append(_made(check, own))
        return results


_LOCK_SECONDS = 2.0

_LEAST_SECONDS = 0.2
"""Least time of a check, even after the end: many need less."""


def _telling(told: ExaminationProgress, name: str) -> Callable[[float], None]:
    told(name, 0.0)
    return lambda done: told(name, done)


def _made(check: Check, seen: Examined) -> CheckResult:
    started = time.monotonic()
    findings: list[Finding] = []
    unfinished = None
    stop = threading.Timer(seen.seconds_left(), seen.connection.cancel_safe)
    stop.start()
    try:
        findings.extend(check.find(seen))
    except NoSchema:
        raise
    except NotFinished as error:
        unfinished = str(error)
    except psycopg.errors.LockNotAvailable:
        unfinished = "another session holds a lock that it needs"
    except psycopg.errors.QueryCanceled:
        unfinished = f"it was stopped after {time.monotonic() - started:.1f} s"
    except redis.RedisError as error:
        unfinished = f"Redis does not answer: {error}"
    except (psycopg.Error, DatabaseProblem) as error:
        unfinished = f"PostgreSQL failed: {str(error).partition(chr(10))[0]}"
        findings.append(
            problem(f"The check of {check.name} failed: {unfinished}", "See whether the schema is this release's")
        )
    finally:
        stop.cancel()
    return CheckResult(check.name, findings, time.monotonic() - started, unfinished)


def is_healthy(results: Sequence[CheckResult]) -> bool:
    """True if no check found a problem. Warnings, and checks that ran out of time, do not count."""
    return not any(finding.is_problem for result in results for finding in result.findings)
