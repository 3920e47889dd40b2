"""Lanes: services beside each other, each with a database, Redis database and processes of its own. In a lane one
scenario runs after the other; one that fails takes its lane with it."""

import itertools
import queue
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from deploy.embedded import EmbeddedRedis, running
from domain.database.connections import Database, connected
from domain.settings import Settings
from domain.stations.stations import store_station_rows
from tests.conftest import make_database
from tests.factories import STATIONS
from tests.faults.points import Point, When
from tests.faults.processes import Processes
from tests.faults.world import World
from tests.service import Service

LANES = 4
"""Scenarios that run at a time. Most of their time they wait for a process that died."""

Run = Callable[[Callable[[World], None], Point, When], "Future[None]"]


class Lane:
    """A running service."""

    def __init__(self, settings: Settings, points: Iterable[Point]) -> None:
        self.processes = Processes(
            settings,
            settings.data,
            list(points),
            SWEEP_SECONDS="1",
            IMPORT_PASS_SECONDS="4",  # few scenarios wait for it
            AUTODRIVE_SECONDS="600",
            IMPORT_WAIT_SECONDS="0.5",
            MESSAGE_TIMEOUT_SECONDS="2",
            MESSAGE_ALLOWED_HOSTS="127.0.0.1",
            DATABASE_POOL_SIZE="4",
            WEBHOOK_ALLOWED_HOSTS="127.0.0.1",
            CONNECTOR_ALLOWED_HOSTS="127.0.0.1",
            WEBHOOK_TIMEOUT_SECONDS="5",  # an answer that a busy machine gives too late is asked for again
        )
        self._database = Database.of(settings)
        self._service = Service(f"http://127.0.0.1:{self.processes.ports['ingress']}", self._database, settings)
        self._database.__enter__()
        self.processes.start("ingress", "workers", "scheduler")

    def close(self) -> None:
        self.processes.stop()
        self._database.__exit__()

    def run(self, scenario: Callable[[World], None], point: Point, when: When) -> None:
        world = World(self._service, self.processes, point, when)
        with world.open:
            scenario(world)
            world.prove_nothing_is_left()


@contextmanager
def running_lanes(folder: Path, points: Iterable[Point]) -> Iterator[Run]:
    """Gives a function that runs a scenario in the next free lane."""
    free: queue.SimpleQueue[Lane] = queue.SimpleQueue()
    numbers = itertools.count(1)
    with ExitStack() as life:
        redis_url = life.enter_context(running(EmbeddedRedis(folder, durable=False)))
        template = _template_with_prices()

        def open_lane() -> Lane:
            number = next(numbers)
            data = folder / str(number)
            data.mkdir()
            url = redis_url.replace("db=0", f"db={number}")
            return Lane(
                Settings(data=data, database_url=make_database("faults", template=template), redis_url=url), points
            )

        def run(scenario: Callable[[World], None], point: Point, when: When) -> None:
            try:
                lane = free.get_nowait()
            except queue.Empty:
                lane = open_lane()
            try:
                lane.run(scenario, point, when)
            except BaseException as error:
                error.add_note(f"the logs of its processes are in {lane.processes.folder}")
                lane.close()
                raise
            free.put(lane)

        threads = ThreadPoolExecutor(LANES, thread_name_prefix="lane")

        def close_lanes() -> None:
            threads.shutdown(cancel_futures=True)
            while not free.empty():
                free.get().close()

        life.callback(close_lanes)
        yield lambda scenario, point, when: threads.submit(run, scenario, point, when)


def _template_with_prices() -> str:
    """The name of a database with the demo's truck stops, of which each lane gets a copy."""
    url = make_database("faults_prices")
    with connected(url) as connection:
        store_station_rows(connection, STATIONS, now=datetime.now(UTC))
    return url.partition("?")[0].rpartition("/")[2]
