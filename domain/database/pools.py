"""The pools of connections of this process, for its metrics. Commands use pools without loading metrics."""

from collections import Counter
from typing import Literal, Protocol
from weakref import WeakKeyDictionary


class Pool(Protocol):
    """A pool of psycopg, blocking or asynchronous."""

    def get_stats(self) -> dict[str, int]: ...


PoolUse = Literal["any", "by_key", "event_loop"]

_pools: WeakKeyDictionary[Pool, PoolUse] = WeakKeyDictionary()


def note_pool(pool: Pool, use: PoolUse) -> None:
    """Count the pool for as long as it is in use."""
    _pools[pool] = use


def pool_stats() -> dict[PoolUse, Counter[str]]:
    """psycopg's figures of the pools, summed up by their use."""
    found: dict[PoolUse, Counter[str]] = {}
    for pool, use in list(_pools.items()):
        found.setdefault(use, Counter()).update(pool.get_stats())
    return found
