"""Leaves a failed Valhalla server alone for a while, so that not every plan waits for it."""

import threading
from collections.abc import Callable

ROADS_REST_SECONDS = 30.0
"""Long enough that a failing server delays few plans, short enough that the server is soon used again."""


class ValhallaCircuit:
    """A circuit breaker: closed while the server works, open for `ROADS_REST_SECONDS` after a failure. Then one caller
    tries the server, while all others go on without it until that trial closes the circuit. Threads may share it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._rests_until: float | None = None
        self._lock = threading.Lock()

    def rest_seconds(self) -> float:
        """The seconds for which the server is still left alone. At 0 the caller asks the server, and reports the
        outcome by `close` or `open`."""
        with self._lock:
            if self._rests_until is None:
                return 0.0
            now = self._monotonic()
            rest = self._rests_until - now
            if rest <= 0:
                self._rests_until = now + ROADS_REST_SECONDS
            return max(rest, 0.0)

    def close(self) -> None:
        with self._lock:
            self._rests_until = None

    def open(self) -> None:
        with self._lock:
            self._rests_until = self._monotonic() + ROADS_REST_SECONDS
