"""A worker process whose jobs never end: `python -m tests.workers.holding_worker REDIS_URL`."""

import sys
import threading

from tests.workers.one_queue import working

if __name__ == "__main__":

    def hold(**_: object) -> None:
        threading.Event().wait()

    with working(sys.argv[1], hold):
        threading.Event().wait()
