"""Turns: a company gets at most half of a worker process's threads, so its work does not hold up other companies.

Further jobs of the company wait in its lane in Redis (`domain.jobs`), from where other workers may take them.
"""

import threading
from collections import Counter
from collections.abc import Mapping


class Turns:
    """The turns of one process. Many threads may use it. A company is named by its id."""

    def __init__(self, threads: int) -> None:
        self.share = max(1, threads // 2)
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, company: str) -> bool:
        """False when the company has no free turn."""
        with self._lock:
            granted = self._taken[company] < self.share
            if granted:
                self._taken[company] += 1
            return granted

    def end(self, company: str) -> bool:
        """Returns whether the company had no free turn until now: more of its jobs may wait."""
        with self._lock:
            was_full = self._taken[company] == self.share
            self._taken[company] -= 1
            if not self._taken[company]:
                del self._taken[company]
            return was_full

    def free(self) -> Mapping[str, int]:
        """How many more jobs are taken of each company that has some already."""
        with self._lock:
            return {company: self.share - taken for company, taken in self._taken.items()}
