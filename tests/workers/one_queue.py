"""One queue on a Redis that tests may stop, and a real worker for it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dramatiq

from deploy.embedded import EmbeddedRedis, running
from domain.queue.jobs import Job
from workers.broker import FuelrouteBroker, FuelrouteWorker

QUEUE = "tests"


class Server:
    """A Redis that can be stopped and started again at the same address."""

    def __init__(self, folder: Path, program: Path | None = None) -> None:
        self.folder = folder
        self.program = program
        self.url = ""
        self._stack = ExitStack()

    def start(self) -> None:
        self.url = self._stack.enter_context(running(EmbeddedRedis(self.folder, durable=False, program=self.program)))

    def stop(self) -> None:
        self._stack.close()


def job(**payload: object) -> Job:
    return Job("tests.run", QUEUE, payload)


@contextmanager
def working(url: str, run: Callable[..., None], *, threads: int = 2) -> Iterator[FuelrouteWorker]:
    """A real worker of the queue, in threads of this process."""
    broker = FuelrouteBroker(url)
    dramatiq.actor(broker=broker, actor_name="tests.run", queue_name=QUEUE)(run)
    worker = FuelrouteWorker(broker, [QUEUE], threads=threads)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(timeout=10_000)  # Dramatiq repeats a failed acknowledgement after 5 s
        broker.close()
        broker.client.close()
        broker.waiting_client.close()


def seen_by(seen: list[int]) -> Callable[..., None]:
    def run(number: int) -> None:
        seen.append(number)

    return run
