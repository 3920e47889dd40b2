"""The service as real processes, for tests that go through HTTP, and a client that speaks to it."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import httpx

from deploy.processes import Spec, Supervisor
from deploy.stack import process_spec
from domain.accounts.keys import create_key
from domain.contract.shapes import SCOPES
from domain.database.connections import Database
from domain.lifecycle import Environment
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import QUEUES
from domain.settings import Settings
from tests.factories import DOT, Fleet, make_fleet
from tests.forking import forked_spec
from tests.ports import own_port

Seen = TypeVar("Seen")

MakeSpec = Callable[[str, Sequence[str], Path, dict[str, str], str], Spec]

ALL_PROCESSES = ("ingress", "workers", "scheduler")


@dataclass(frozen=True, slots=True)
class Service:
    """A running service over one database."""

    url: str
    database: Database
    settings: Settings
    pids: Mapping[str, int] = field(default_factory=dict)
    """The ids of its processes by their names."""

    def new_tenant(self, environment: Environment = Environment.LIVE, **policy: Any) -> "Client":
        """A fresh company with trucks 101 and 102, Ann Lee and Bo Diaz, and a client with every scope."""
        with self.database.transaction() as connection:
            fleet = make_fleet(connection, **policy)
        return self.client(fleet, environment)

    def client(self, fleet: Fleet, environment: Environment = Environment.LIVE, *scopes: str) -> "Client":
        """A client with a key of its own: every scope unless some are named."""
        with self.database.transaction() as connection:
            made = create_key(
                connection, fleet.company_id, DOT, name="test", environment=environment, scopes=scopes or list(SCOPES)
            )
        return Client(self, fleet, made.id, made.key)


class Client(httpx.Client):
    """One company's TMS."""

    def __init__(self, service: Service, fleet: Fleet, key_id: UUID, key: str) -> None:
        super().__init__(  # it reads no certificates, which takes longer than most tests
            base_url=service.url, headers={"Authorization": f"Bearer {key}"}, timeout=120, verify=False, trust_env=False
        )
        self.service = service
        self.fleet = fleet
        self.key_id = key_id
        self.key = key

    def push(self, body: dict[str, Any]) -> httpx.Response:
        return self.post("/v1/routes", json=body)

    def route(self, route_id: str) -> dict[str, Any]:
        answer = self.get(f"/v1/routes/{route_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def wait_for(self, route_id: str, *statuses: str) -> dict[str, Any]:
        """The route once it is in one of the statuses."""
        return eventually(
            lambda: self.route(route_id), lambda route: route["status"] in statuses, wanted=f"status {statuses}"
        )

    def post_fixes(
        self, stop: dict[str, Any], *, unit_number: str = "101", at: datetime | None = None, count: int = 3, **more: Any
    ) -> httpx.Response:
        """Fixes of a standing truck at a stop, 15 s apart, the last one at `at` (now)."""
        last = at or datetime.now(UTC)
        positions = [
            {
                "unitNumber": unit_number,
                "latitude": stop["latitude"],
                "longitude": stop["longitude"],
                "recordedAt": (last - timedelta(seconds=15 * (count - 1 - number))).isoformat(),
                "speedMph": 0,
                **more,
            }
            for number in range(count)
        ]
        return self.post("/telematics/positions", json={"positions": positions})


def eventually(
    look: Callable[[], Seen], good: Callable[[Seen], bool], seconds: float = 180, wanted: str = "the outcome"
) -> Seen:
    """The result of `look` once it is good. Fails with the last result, so late that no busy machine fails a test. Most
    looks ask the service, which costs the processor what it waits for, so that they become rarer."""
    deadline, pause = time.monotonic() + seconds, 0.03
    while True:
        seen = look()
        if good(seen):
            return seen
        assert time.monotonic() < deadline, f"waited {seconds} s for {wanted}; last seen: {seen}"
        time.sleep(pause)
        pause = min(1.25 * pause, 0.25)


def one_below(seconds: float, attempt: Callable[[], float]) -> bool:
    """True once an attempt measured less. A busy machine delays some attempts, a fault delays all of them."""
    return any(attempt() < seconds for _ in range(10))


def takes_less(seconds: float, work: Callable[[], object]) -> bool:
    """True once `work` takes less, which may be repeated."""

    def measured() -> float:
        started = time.monotonic()
        work()
        return time.monotonic() - started

    return one_below(seconds, measured)


@contextmanager
def running_service(
    settings: Settings,
    logs: Path,
    spec: MakeSpec = forked_spec,
    /,
    *,
    processes: tuple[str, ...] = ALL_PROCESSES,
    code: str = "",
    **environment: str,
) -> Iterator[Service]:
    """The named processes, stopped at the end. `environment` is further settings, such as IMPORT_PASS_SECONDS. The
    folder `code` has the packages of another release, which they run instead of ours. With `process_spec` each process
    starts Python as on any machine, where that matters to the test."""
    port = own_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        "FUELROUTE_DATABASE_URL": settings.require_database_url(),
        "FUELROUTE_REDIS_URL": settings.require_redis_url(),
        "FUELROUTE_DATA": str(settings.data),
        "FUELROUTE_PORT": str(port),
        **{f"FUELROUTE_{name}": value for name, value in environment.items()},
        **({"PYTHONPATH": code} if code else {}),
    }
    supervisor = Supervisor(print)
    try:
        make_spec = process_spec if code else spec
        specs = [make_spec(name, _arguments(name), logs, env, url) for name in processes]
        if code:  # an earlier release may have no /readyz
            specs = [replace(one, is_ready=lambda: _is_alive(url)) if one.name == "ingress" else one for one in specs]
        supervisor.start(specs, seconds=600)
        with Database.of(settings, put_jobs=JobQueue.of(settings).put) as database:
            pids = {child.spec.name: child.process.pid for child in supervisor.children}
            yield Service(url, database, settings, pids)
    finally:
        supervisor.stop()


def _is_alive(url: str) -> bool:
    try:
        return (
            httpx.get(f"{url}/healthz", verify=False, timeout=120).status_code == 200
        )  # asked often: reads no certificates
    except httpx.TransportError:
        return False


def _arguments(name: str) -> tuple[str, ...]:
    return ("workers", "--queues", name) if name in QUEUES else (name,)
