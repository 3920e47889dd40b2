"""The garbage collector of a process that makes many objects at a time."""

import gc

_GARBAGE_OBJECTS = 50_000
"""Objects made and not freed before a search for cycles. At Python's 700, a burst of pushes (each some hundred objects
that wait for their batch), or the rows of a file, were searched again and again: a tenth of the processor time, and
twice the p99. So was all that a command loads, which stays: a sixth of its start."""


def collect_rarely() -> None:
    gc.freeze()  # what is imported by now stays, and need not be searched
    gc.set_threshold(_GARBAGE_OBJECTS)
