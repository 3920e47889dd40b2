"""Connections to Redis with short, bounded waits, and a check of the server."""

from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.asyncio.sentinel import SentinelConnectionPool as AsyncSentinelConnectionPool
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry
from redis.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from domain.addresses import SentinelAddress, is_local, sentinel_address
from domain.errors import FuelrouteError
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

MIN_REDIS = (6, 2)  # BLMOVE

REDIS_SECONDS = 1
"""The longest wait for an answer of Redis, and for a connection."""

_TIMEOUTS = {"socket_timeout": REDIS_SECONDS, "socket_connect_timeout": REDIS_SECONDS}


_SENTINEL_SECONDS = 0.5
"""Time that a Sentinel may take to answer; then the next one is asked."""

# One retry, for a connection that a restarted server has closed. A silent server is not waited for twice.
_RETRIES = 1


class _PrimaryConnection(SentinelManagedConnection):
    """redis-py's connection, given up when the primary falls silent. redis-py would use it again, and ask the lost
    machine for ever."""

    def read_response(self, *args: Any, **options: Any) -> Any:
        return super().read_response(*args, **{"disconnect_on_error": True, **options})


class _PrimaryTlsConnection(_PrimaryConnection, SentinelManagedSSLConnection):
    """The connection to a primary that is found by Sentinels, with TLS."""


class _PrimaryPool(SentinelConnectionPool):
    """redis-py's pool, which closes the connections to the Sentinels with its own."""

    def disconnect(self, inuse_connections: bool = True) -> None:
        super().disconnect(inuse_connections)
        if inuse_connections:  # the client is closed; else the primary has moved
            self.sentinel_manager.close()


class _AsyncPrimaryPool(AsyncSentinelConnectionPool):
    """redis-py's pool for an event loop, which closes the connections to the Sentinels with its own."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await super().disconnect(inuse_connections)
        if inuse_connections:
            for sentinel in self.sentinel_manager.sentinels:
                await sentinel.aclose()


def redis_client(url: str, *, single_connection_client: bool = False, **options: Any) -> redis.Redis:
    """A client for threads; `options` go to redis-py. At each new connection the Sentinels are asked for the
    primary."""
    retry = Retry(NoBackoff(), _RETRIES, supported_errors=(redis.ConnectionError,))
    options = {**_TIMEOUTS, "retry": retry, **options}
    sentinels = sentinel_address(url)
    if sentinels is None:
        return redis.Redis.from_url(url, single_connection_client=single_connection_client, **options)
    own, of_sentinels = _options_of(sentinels)
    of_sentinels["retry"] = Retry(NoBackoff(), 0)
    manager = Sentinel(sentinels.hosts, sentinel_kwargs=of_sentinels)  # type: ignore[no-untyped-call]
    own["connection_class"] = _PrimaryTlsConnection if own.pop("ssl", False) else _PrimaryConnection
    pool: Any = _PrimaryPool(sentinels.name, manager, **own, **options)  # type: ignore[no-untyped-call]
    client = redis.Redis(connection_pool=pool, single_connection_client=single_connection_client)
    client.auto_close_connection_pool = True
    return client


def async_redis_client(url: str, **options: Any) -> redis.asyncio.Redis:
    """A client for an event loop; `options` go to redis-py. At each new connection the Sentinels are asked for the
    primary."""
    retry = AsyncRetry(NoBackoff(), _RETRIES, supported_errors=(redis.ConnectionError,))
    options = {**_TIMEOUTS, "retry": retry, **options}
    sentinels = sentinel_address(url)
    if sentinels is None:
        return redis.asyncio.Redis.from_url(url, **options)
    own, of_sentinels = _options_of(sentinels)
    of_sentinels["retry"] = AsyncRetry(NoBackoff(), 0)
    manager = AsyncSentinel(sentinels.hosts, sentinel_kwargs=of_sentinels)  # type: ignore[no-untyped-call]
    client: redis.asyncio.Redis = manager.master_for(
        sentinels.name, connection_pool_class=_AsyncPrimaryPool, **own, **options
    )
    return client


def _options_of(sentinels: SentinelAddress) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options in the address: those for the Redis servers, and those for the Sentinels. TLS applies to both."""
    own: dict[str, Any] = parse_url(sentinels.plain)  # type: ignore[no-untyped-call]
    for name in ("host", "port"):
        own.pop(name, None)
    if own.pop("connection_class", None) is not None:
        own["ssl"] = True
    of_sentinels = {name.removeprefix("sentinel_"): own.pop(name) for name in list(own) if name.startswith("sentinel_")}
    tls = {name: value for name, value in own.items() if name.startswith("ssl")}
    timeouts = {"socket_timeout": _SENTINEL_SECONDS, "socket_connect_timeout": _SENTINEL_SECONDS}
    return own, timeouts | tls | of_sentinels


class RedisProblem(FuelrouteError):
    """Redis cannot serve Fuelroute. The text says what to do."""


def check_redis(url: str, *, needed: bool = True) -> None:
    """Check that `url` leads to a usable Redis. Raises RedisProblem otherwise, and the process does not start. If Redis
    is not `needed`, one that is merely away is only logged: the process can do without it for a while."""
    _warn_of_plain_text(url)
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


def _warn_of_plain_text(url: str) -> None:
    """Logs when others can read the connection to another machine, or when any machine could answer in its place."""
    sentinels = sentinel_address(url)
    parts = urlsplit(url if sentinels is None else sentinels.plain)
    if parts.scheme == "unix" or is_local(parts.hostname or ""):
        return
    if parts.scheme != "rediss":
        log.warning("queue.unencrypted", variable="FUELROUTE_REDIS_URL", host=parts.hostname)
    elif "ssl_cert_reqs=none" in parts.query or "ssl_check_hostname=false" in parts.query.lower():
        log.warning("queue.unverified", variable="FUELROUTE_REDIS_URL", host=parts.hostname)


def refusal(client: redis.Redis) -> str | None:
    """The words with which Redis refuses each change, as a replica does, or one whose memory or disk is full. None if
    it takes changes. Nothing is changed. Raises RedisError when it does not answer."""
    try:
        client.set("fuelroute:no-such-key", b"", xx=True)
    except redis.ResponseError as error:
        return str(error).partition(".")[0]
    return None
