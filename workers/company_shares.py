"""Turns: no company's work holds up another's. A company gets at most half of a worker process's threads while others
have some, and never all.

Further jobs of the company wait in its lane in Redis (`domain.queue.jobs`), from where other workers may take them.
"""

import threading
from collections import Counter
from collections.abc import Mapping


class Turns:
    """The turns of one process. Many threads may use it. A company is named by its id."""

    def __init__(self, threads: int) -> None:
        self._half, self._most = max(1, threads // 2), max(1, threads - 1)
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, company: str) -> bool:
        """False when the company has no free turn."""
        with self._lock:
            granted = self._taken[company] < self._limit(company)
            if granted:
                self._taken[company] += 1
            return granted

    def end(self, company: str) -> bool:
        """Returns whether some company had no free turn until now: more of its jobs may wait."""
        with self._lock:
            had_none = any(taken >= self._limit(one) for one, taken in self._taken.items())
            self._taken[company] -= 1
            if not self._taken[company]:
                del self._taken[company]
            return had_none

    @property
    def share(self) -> int:
        """The number of jobs that are taken of a company that has none here."""
        with self._lock:
            return self._half if self._taken else self._most

    def free(self) -> Mapping[str, int]:
        """The number of further jobs that are taken of each company that has some already."""
        with self._lock:
            return {company: max(0, self._limit(company) - taken) for company, taken in self._taken.items()}

    def _limit(self, company: str) -> int:
        is_alone = not any(taken for one, taken in self._taken.items() if one != company)
        return self._most if is_alone else self._half
