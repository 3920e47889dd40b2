"""Shares of a worker process's threads: a company gets at most half of them while others have some, and never all.

So the work of one company does not hold up another's. Further jobs of the company wait in its backlog in Redis
(`domain.queue.jobs`), from where other workers may take them."""

import threading
from collections import Counter
from collections.abc import Mapping


class CompanyShares:
    """The shares of one process, by the company's id. Threads may use it at the same time."""

    def __init__(self, threads: int) -> None:
        self._half, self._most = max(1, threads // 2), max(1, threads - 1)
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, company: str) -> bool:
        """Takes a thread of the company's share. Returns False if its share is used up."""
        with self._lock:
            granted = self._taken[company] < self._limit(company)
            if granted:
                self._taken[company] += 1
            return granted

    def give_back(self, company: str) -> bool:
        """Gives a thread back. Returns True if some company had used up its share until now, so that more of its jobs
        may wait."""
        with self._lock:
            was_used_up = any(taken >= self._limit(one) for one, taken in self._taken.items())
            self._taken[company] -= 1
            if not self._taken[company]:
                del self._taken[company]
            return was_used_up

    @property
    def share(self) -> int:
        """The number of jobs that this process takes of a company that has none here."""
        with self._lock:
            return self._half if self._taken else self._most

    def free(self) -> Mapping[str, int]:
        """The number of further jobs that this process takes of each company that has some here."""
        with self._lock:
            return {company: max(0, self._limit(company) - taken) for company, taken in self._taken.items()}

    def _limit(self, company: str) -> int:
        is_alone = not any(taken for one, taken in self._taken.items() if one != company)
        return self._most if is_alone else self._half
