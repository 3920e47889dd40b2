"""Checks of Redis: its version, its policy for a full memory, its memory, and whether it keeps its data."""

from collections.abc import Iterator
from typing import Any

from domain.operations.doctor.checks import Examined, Finding, problem, warning
from domain.queue.redis_clients import MIN_REDIS

FULL_PERCENT = 80


def check_redis_server(seen: Examined) -> Iterator[Finding]:
    told: dict[str, Any] = seen.client.info()
    version = str(told["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_REDIS:
        yield problem(f"Redis {version} is too old", "Use Redis 6.2 or later, or Valkey")
    policy, most, used = told.get("maxmemory_policy"), told.get("maxmemory", 0), told["used_memory"]
    if policy != "noeviction":
        yield problem(
            f"Redis runs with maxmemory-policy {policy}: when it is full it deletes jobs and rate limits",
            "Set maxmemory-policy to noeviction, in its configuration and by CONFIG SET",
        )
    if most and used > most * FULL_PERCENT / 100:
        yield problem(
            f"Redis uses {used >> 20:,} MB of {most >> 20:,} MB: when it is full it refuses jobs",
            "Raise maxmemory, and see with `fuelroute queues` why jobs wait",
        )
    yield from _persistence(told)


def _persistence(told: dict[str, Any]) -> Iterator[Finding]:
    for field, what in (("aof_last_write_status", "append-only file"), ("rdb_last_bgsave_status", "snapshot")):
        if told.get(field, "ok") != "ok":
            yield problem(f"Redis cannot write its {what}", "Free its disk and read its log")
    if not told.get("aof_enabled"):
        yield warning(
            "Redis keeps no append-only file: after a restart, work waits for the sweep and rate limits begin anew",
            "Set appendonly to yes",
        )
