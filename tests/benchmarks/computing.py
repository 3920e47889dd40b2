"""A process that only computes: so much processor time so many times a second, without a file, a socket or a server. It
is what any work costs those beside it on this machine, however it is written.

    python -m tests.benchmarks.computing MILLISECONDS PER_SECOND"""

import sys
import time

MOST_BEHIND = 32
"""Turns that wait at most, like the connections of the load that it stands for; further ones are left out."""


def main(milliseconds: float, per_second: float) -> None:
    due = time.monotonic()
    while True:
        _compute(milliseconds / 1000)
        now = time.monotonic()
        due = max(due + 1 / per_second, now - MOST_BEHIND / per_second)
        time.sleep(max(due - now, 0.0))


def _compute(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(1000))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
