"""Servers that cannot serve us are told from those that can, in one sentence."""

import pytest

from domain.database import checks
from domain.database.checks import check_server
from domain.database.connections import DatabaseProblem
from domain.queue import redis_clients
from domain.queue.redis_clients import RedisProblem, check_redis
from domain.settings import Settings


def test_the_servers_of_the_tests_are_good_enough(settings: Settings) -> None:
    check_server(settings.require_database_url())
    check_redis(settings.require_redis_url())


def test_a_postgres_below_the_least_version_is_too_old(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MIN_VERSION", 990000)

    with pytest.raises(DatabaseProblem, match="PostgreSQL 18 is too old: Fuelroute needs version 15 or later"):
        check_server(settings.require_database_url())


def test_a_redis_below_the_least_version_is_too_old(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_clients, "MIN_REDIS", (99, 0))

    with pytest.raises(RedisProblem, match=r"Redis [\d.]+ is too old: Fuelroute needs Redis 6\.2 or later"):
        check_redis(settings.require_redis_url())


def test_an_unreachable_redis_stops_only_processes_that_need_it() -> None:
    check_redis("redis://127.0.0.1:1/0", needed=False)

    with pytest.raises(RedisProblem, match=r"cannot reach Redis .*: check FUELROUTE_REDIS_URL"):
        check_redis("redis://127.0.0.1:1/0")
