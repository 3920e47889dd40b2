"""Connections to Redis with short, bounded waits, and a check of the server."""

from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from domain.errors import FuelrouteError
from domain.observability import get_logger

log = get_logger(__name__)

MIN_REDIS = (6, 2)  # BLMOVE

_TIMEOUT_SECONDS = 1


def redis_client(url: str, **options: Any) -> redis.Redis:
    """A client for threads; `options` go to redis-py."""
    options = {
        "socket_timeout": _TIMEOUT_SECONDS,
        "socket_connect_timeout": _TIMEOUT_SECONDS,
        # once, for a connection that a restarted server has closed; a silent server is not waited for twice
        "retry": Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
        **options,
    }
    return redis.Redis.from_url(url, **options)


def async_redis_client(url: str) -> redis.asyncio.Redis:
    """A client for an event loop."""
    return redis.asyncio.Redis.from_url(
        url,
        socket_timeout=_TIMEOUT_SECONDS,
        socket_connect_timeout=_TIMEOUT_SECONDS,
        retry=AsyncRetry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
    )


class RedisProblem(FuelrouteError):
    """Redis cannot serve Fuelroute. The text says what to do."""


def check_redis(url: str, *, needed: bool = True) -> None:
    """Raises RedisProblem unless `url` leads to a usable Redis. Unless it is `needed`, a Redis that is merely away is
    only logged: the process can do without it for a while.
    """
    try:
        version = redis_client(url).info("server")["redis_version"]
    except ValueError:
        raise RedisProblem("FUELROUTE_REDIS_URL is not a Redis address") from None
    except redis.RedisError as error:
        if needed:
            raise RedisProblem(
                f"cannot reach Redis ({error}): check FUELROUTE_REDIS_URL and that the server runs"
            ) from None
        log.warning("jobs.redis_away", error=str(error))
        return
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_REDIS:
        raise RedisProblem(f"Redis {version} is too old: Fuelroute needs Redis 6.2 or later, or Valkey")
