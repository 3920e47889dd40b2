"""Polls of sources of price files, side by side and within bounds.

A silent server holds only its own thread, until its time is over (`price_fetching.SOURCE_POLL_SECONDS`). A poll that
is still under way when its pass ends goes on, and the next pass counts its files. A folder on a disk that is away
blocks its thread for ever: the thread is left alone, and the source gets a fault."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from domain.stations.price_sources import PriceSource

MOST_AT_ONCE = 8
MOST_OF_COMPANY = 4
MOST_FAILING = 2
"""Most threads for sources that failed the last time, so that they never hold up those that work."""
STUCK_SECONDS = 300.0
"""A poll ends within a fraction of this time, unless the disk of its folder is away."""

Poll = Callable[[PriceSource], int]
"""Polls a source, and returns how many files came. It raises nothing."""


@dataclass(slots=True)
class _UnderWay:
    source: PriceSource
    began: float = field(default_factory=time.monotonic)
    is_told: bool = False

    @property
    def is_stuck(self) -> bool:
        return time.monotonic() - self.began > STUCK_SECONDS


class SourcePolls:
    """The polls of one scheduler process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way: dict[UUID, _UnderWay] = {}
        self._files = 0

    def run(self, due: Iterable[PriceSource], poll: Poll, *, seconds: float) -> int:
        """Begins polls as threads get free, and waits at most `seconds`. Sources without a turn are due at the next
        pass. Returns how many files came since the last call."""
        deadline = time.monotonic() + seconds
        with self._changed:
            waiting = deque(one for one in in_turns_of_companies(due) if one.id not in self._under_way)
            while True:
                for source in [one for one in waiting if self._has_room(one)]:
                    if self._has_room(source):
                        waiting.remove(source)
                        self._begin(source, poll)
                moving = [one for one in self._under_way.values() if not one.is_stuck]
                left = deadline - time.monotonic()
                if (not waiting and not moving) or left <= 0:
                    break
                self._changed.wait(left)
            files, self._files = self._files, 0
        return files

    def newly_stuck(self) -> list[PriceSource]:
        """The sources whose poll does not end; each is returned once."""
        with self._changed:
            found = [one for one in self._under_way.values() if one.is_stuck and not one.is_told]
            for one in found:
                one.is_told = True
        return [one.source for one in found]

    def _has_room(self, source: PriceSource) -> bool:
        moving = [one.source for one in self._under_way.values() if not one.is_stuck]
        return (
            len(moving) < MOST_AT_ONCE
            and sum(one.company_id == source.company_id for one in moving) < MOST_OF_COMPANY
            and (not source.failures or sum(one.failures > 0 for one in moving) < MOST_FAILING)
        )

    def _begin(self, source: PriceSource, poll: Poll) -> None:
        self._under_way[source.id] = _UnderWay(source)
        threading.Thread(target=self._poll, args=(source, poll), name="price source", daemon=True).start()

    def _poll(self, source: PriceSource, poll: Poll) -> None:
        files = 0
        try:
            files = poll(source)
        finally:
            with self._changed:
                del self._under_way[source.id]
                self._files += files
                self._changed.notify_all()


def in_turns_of_companies(sources: Iterable[PriceSource]) -> list[PriceSource]:
    """The first source of each company, then the second of each, and so on; failing sources come last."""
    turns: dict[tuple[bool, UUID], int] = {}
    numbered: list[tuple[bool, int, int, PriceSource]] = []
    for source in sources:
        key = (source.failures > 0, source.company_id)
        turns[key] = turns.get(key, 0) + 1
        numbered.append((key[0], turns[key], len(numbered), source))
    return [one[3] for one in sorted(numbered, key=lambda one: one[:3])]
