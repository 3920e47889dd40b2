"""The priority of a preview process on its machine: below everything else, until somebody has waited for long.

Linux shares processors among sessions first, and only within a session by niceness (autogroup in sched(7)). Each
backend of PostgreSQL is a session of its own, so the niceness of a process of ours means nothing to it. Therefore a
preview process has a session of its own, too, and the whole session gives way."""

from pathlib import Path

GIVES_WAY, IN_A_HURRY = 19, 0
"""Niceness of the session while nobody has waited for long, and after that."""


class SessionPriority:
    """The niceness of the session of one process."""

    def __init__(self, group: Path) -> None:
        self._group = group
        self._niceness: int | None = None

    @classmethod
    def of(cls, pid: int) -> "SessionPriority":
        return cls(Path(f"/proc/{pid}/autogroup"))

    def become(self, niceness: int) -> None:
        """Gives the session this niceness. Nothing changes where the kernel does not group sessions, nor where it
        refuses a second change within 0.1 s; the next call makes up for that."""
        if niceness == self._niceness:
            return
        try:
            self._group.write_text(str(niceness))
        except OSError:
            return
        self._niceness = niceness
