"""The health checks of a worker process: do its threads live, and do its consumers ask Redis for jobs?"""

import time
from collections.abc import Mapping

from domain.telemetry.health import Health, Unhealthy
from workers.broker import FuelrouteBroker, FuelrouteWorker
from workers.presence import Presence

HANGS_SECONDS = 30.0
"""No turn of a consumer takes this long, even while Redis is silent."""

UNASKED_SECONDS = 6.0
"""A consumer that works, waits or is paused has asked Redis within this time."""


def add_worker_checks(health: Health, broker: FuelrouteBroker, worker: FuelrouteWorker, presence: Presence) -> None:
    """Adds the checks of a worker that has started."""

    def threads() -> str:
        if not worker.is_alive() or not presence.is_alive():
            raise Unhealthy("a thread of the worker has died: restart the process")
        return "all threads live"

    def consumers() -> str:
        return _younger(broker.turned_at, HANGS_SECONDS, "hangs: restart the process")

    def fetches() -> str:
        return _younger(broker.asked_at, UNASKED_SECONDS, "has had no answer from Redis")

    health.check_alive("threads", threads)
    health.check_alive("consumers", consumers)
    health.check_ready("fetches", fetches)


def _younger(times: Mapping[str, float], seconds: float, wrong: str) -> str:
    """The age of each queue's time. Raises Unhealthy if one is too old."""
    now = time.monotonic()
    ages = {queue: now - at for queue, at in list(times.items())}
    if not ages:
        raise Unhealthy("no consumer has begun yet")
    for queue, age in ages.items():
        if age > seconds:
            raise Unhealthy(f"the consumer of {queue} {wrong} (for {age:.0f} s)")
    return ", ".join(f"{queue} {age:.1f} s ago" for queue, age in sorted(ages.items()))
