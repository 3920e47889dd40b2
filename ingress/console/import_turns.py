"""Turns of imports: a few run at a time, and one that has run for a moment gives way to waiting ones.

An import that is one transaction keeps its connection to the database while it waits for its next turn. So only a few
large ones are begun at a time. Small ones never give way, and are over soon."""

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

IMPORTS_AT_A_TIME = 2
"""Imports that run at a time. More would only slow one another and the pages."""
MOST_LARGE = 3
"""Most large imports of one transaction that are begun."""
LARGE_BYTES = 2 << 20
_TURN_SECONDS = 0.5


class ImportTurns:
    """The turns of one process. Each importing thread has one."""

    def __init__(self, at_a_time: int = IMPORTS_AT_A_TIME, *, turn_seconds: float = _TURN_SECONDS) -> None:
        self._free = at_a_time
        self._turn_seconds = turn_seconds
        self._line: deque[threading.Event] = deque()
        self._lock = threading.Lock()
        self._large = threading.BoundedSemaphore(MOST_LARGE)

    @contextmanager
    def turn(self, *, holds_connection: bool, file_bytes: int, holds_up_all: bool = False) -> Iterator["Turn"]:
        """Waits for the first turn, and gives the last one back. `holds_up_all`: others wait for its end anyway."""
        is_large = file_bytes > LARGE_BYTES
        with ExitStack() as held:
            if holds_connection and is_large:
                held.enter_context(self._large)
            self.take()
            held.callback(self.give_back)
            gives_way = (is_large or not holds_connection) and not holds_up_all
            yield Turn(self, self._turn_seconds, gives_way=gives_way)

    def take(self) -> None:
        with self._lock:
            if self._free and not self._line:
                self._free -= 1
                return
            called = threading.Event()
            self._line.append(called)
        called.wait()

    def give_back(self) -> None:
        with self._lock:
            if self._line:
                self._line.popleft().set()
            else:
                self._free += 1

    @property
    def somebody_waits(self) -> bool:
        return bool(self._line)


class Turn:
    """The turn of one import."""

    def __init__(self, turns: ImportTurns, seconds: float, *, gives_way: bool) -> None:
        self._turns = turns
        self._seconds = seconds
        self._gives_way = gives_way
        self._began = time.monotonic()

    def give_way(self) -> None:
        """Let others have their turn, if this one has lasted and some wait. Call it between rows or batches."""
        if self._gives_way and self._turns.somebody_waits and time.monotonic() - self._began > self._seconds:
            self._turns.give_back()
            self._turns.take()
            self._began = time.monotonic()
