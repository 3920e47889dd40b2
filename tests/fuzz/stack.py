"""A whole service with a console of its own, for the fuzz."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deploy.embedded import EmbeddedRedis, running
from domain.migrations import migrate
from domain.queue.jobs import QUEUES
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from tests.fuzz.engine import Fault
from tests.ingress.console.conftest import World, running_console
from tests.run_folder import own_folder
from tests.servers import CopiedPostgres
from tests.service import Service, running_service

_ERROR = re.compile(r'"level": ?"(error|critical)"|Traceback|\[(error|critical) *\]')


@dataclass
class Stack:
    """Running processes, and the logs that they write."""

    service: Service
    console: World
    logs: Path
    _read: dict[Path, int] = field(default_factory=dict)

    def require_no_errors(self) -> None:
        """Check the logs and the dead letters. Raises Fault if a process has logged an error since the last call, or a
        job has failed for good."""
        for path in sorted(self.logs.glob("*.log")):
            text = path.read_bytes()
            new, self._read[path] = text[self._read.get(path, 0) :].decode(errors="replace"), len(text)
            lines = [line for line in new.splitlines() if _ERROR.search(line)]
            if lines:
                raise Fault(f"{path.name} has {len(lines)} errors; the first: {lines[0][:3000]}")
        with redis_client(self.service.settings.require_redis_url()) as redis:
            dead = {queue: redis.zcard(f"dramatiq:{queue}.XQ") for queue in QUEUES}
        if any(dead.values()):
            raise Fault(f"dead letters: {dead}")


@contextmanager
def running_stack() -> Iterator[Stack]:
    """PostgreSQL, Valkey, ingress, workers, scheduler and console, in a folder of their own."""
    with own_folder("fuzz") as folder:
        data, logs = folder / "data", folder / "logs"
        data.mkdir()
        logs.mkdir()
        with (
            running(CopiedPostgres(folder, durable=False)) as database_url,
            running(EmbeddedRedis(folder, durable=False)) as redis_url,
        ):
            migrate(database_url)
            settings = Settings(data=data, database_url=database_url, redis_url=redis_url)
            with (
                running_service(
                    settings, logs, IMPORT_PASS_SECONDS="2", SWEEP_SECONDS="1", IMPORT_WAIT_SECONDS="30"
                ) as service,
                running_console(settings, redis_url, logs) as url,
            ):
                console = World(url, service.database)
                with console.open:
                    yield Stack(service, console, logs)
