"""The priority of a process on its machine, which decides who waits where all processors are busy.

Linux shares processors among sessions first, and only within a session by niceness (autogroup in sched(7)). Each
backend of PostgreSQL is a session of its own, so the niceness of a process of ours means nothing to it. Therefore a
process that gives way has a session of its own, too, and the whole session is nice."""

import asyncio
import os
from pathlib import Path

GIVES_WAY, IN_A_HURRY = 19, 0
"""Niceness of a session below everything else, and of one like any other."""

AGAIN_SECONDS = 0.15
"""Linux takes one change within 0.1 s from all processes of the machine that are not root's."""


class SessionPriority:
    """The niceness of the session of one process."""

    def __init__(self, group: Path) -> None:
        self._group = group
        self._niceness: int | None = None

    @classmethod
    def of(cls, pid: int) -> "SessionPriority":
        return cls(Path(f"/proc/{pid}/autogroup"))

    @classmethod
    def of_own_session(cls) -> "SessionPriority | None":
        """The niceness of our session. None if another process began it, such as a shell, which is to stay as it is."""
        own = os.getpid()
        return cls.of(own) if os.getsid(0) == own else None

    async def hurry_at(self, moment: float) -> None:
        """Ends giving way at that moment of the event loop."""
        await asyncio.sleep(moment - asyncio.get_running_loop().time())
        while not self.become(IN_A_HURRY):
            await asyncio.sleep(AGAIN_SECONDS)

    def become(self, niceness: int) -> bool:
        """Gives the session this niceness. False where the kernel wants to be asked again a little later; where it does
        not group sessions, nothing changes."""
        if niceness == self._niceness:
            return True
        try:
            self._group.write_text(str(niceness))
        except BlockingIOError:
            return False
        except OSError:
            return True
        self._niceness = niceness
        return True
