"""The circuit leaves a failed Valhalla server alone, so that plans do not wait for it again and again."""

import threading
from collections.abc import Callable

ROADS_REST_SECONDS = 30.0
"""The rest is long enough that a failing server delays few plans, and short enough that it is soon used again."""


class ValhallaCircuit:
    """The circuit is closed while the server works, and open for `ROADS_REST_SECONDS` after a failure. Then one caller
    tries the server, while the rest starts again for all others, until that trial closes the circuit. Threads may share
    it.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._rests_until: float | None = None
        self._lock = threading.Lock()

    def rest_seconds(self) -> float:
        """The seconds for which the server is still left alone. 0: ask it, and report by `close` or `open` how that
        went."""
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
