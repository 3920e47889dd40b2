"""A light, steady load from outside: pushes and positions of one company's TMS, and the gateway of its drivers. Nothing
is tried again, so each answer counts as it came. Pushes answered 2xx are remembered."""

import asyncio
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import httpx

from deploy.cluster.machines import OUTSIDE
from deploy.demo import JOLIET, NEWARK, standing_at

PUSHES_PER_SECOND = 19
JOURNEYS_PER_SECOND = 1
TRUCKS = 2_000
ANSWER_SECONDS = 10.0


class Answer(NamedTuple):
    """The answer to one push, at a time of the monotonic clock."""

    at: float
    status: str
    """A status of HTTP, or the failure of the connection."""


@dataclass
class Load:
    """The load, in a thread of its own."""

    url: str
    keys: Sequence[str]
    answers: list[Answer] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    """The externalIds of all pushes answered 2xx."""
    journeys: set[str] = field(default_factory=set)
    """The externalIds of routes whose truck has been seen at the first stop, so that each driver gets one message."""
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Load":
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="load")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    async def _run(self) -> None:
        limits = httpx.Limits(max_keepalive_connections=20)
        async with httpx.AsyncClient(base_url=self.url, timeout=ANSWER_SECONDS, limits=limits) as client:
            tasks: set[asyncio.Task[object]] = set()
            began, number = time.monotonic(), 0
            while not self._stop.is_set():
                number += 1
                is_journey = number % (PUSHES_PER_SECOND + JOURNEYS_PER_SECOND) == 0
                work = self._journey if is_journey else self._push
                task: asyncio.Task[object] = asyncio.create_task(work(client, number))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                due = began + number / (PUSHES_PER_SECOND + JOURNEYS_PER_SECOND)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
            await asyncio.gather(*tasks)

    def _headers(self, number: int) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.keys[number % len(self.keys)]}"}

    async def _push(self, client: httpx.AsyncClient, number: int, truck: int = 0, days: float = 3) -> bool:
        external_id = f"L{number:07d}"
        body = {
            "externalId": external_id,
            "vehicle": {"unitNumber": f"T{truck}"},
            "driver": {"name": f"Driver {truck}"},
            "scheduledStart": (datetime.now(UTC) + timedelta(days=days)).isoformat(),
            "stops": [JOLIET, NEWARK],
        }
        try:
            answer = await client.post("/v1/routes", json=body, headers=self._headers(number))
            status = str(answer.status_code)
        except httpx.HTTPError as error:
            status = type(error).__name__
        self.answers.append(Answer(time.monotonic(), status))
        if status.startswith("2"):
            self.accepted.add(external_id)
        return status.startswith("2")

    async def _journey(self, client: httpx.AsyncClient, number: int) -> None:
        """A route of a fresh truck that stands at its first stop. Its positions are sent until they are accepted."""
        truck = 1 + number // (PUSHES_PER_SECOND + JOURNEYS_PER_SECOND) % (TRUCKS - 1)
        if not await self._push(client, number, truck, days=0):
            return
        while not self._stop.is_set():
            positions = standing_at(JOLIET, f"T{truck}", fuel_percent=60)
            try:
                answer = await client.post(
                    "/telematics/positions", json={"positions": positions}, headers=self._headers(number)
                )
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.status_code == 202:
                self.journeys.add(f"L{number:07d}")
                return
            await asyncio.sleep(1)

    def since(self, started: float) -> "Outage":
        """The outage for the callers since a time of the monotonic clock."""
        seen = sorted(one for one in self.answers if one.at >= started)
        good = [started, *(one.at for one in seen if one.status.startswith("2")), time.monotonic()]
        gap = max(later - earlier for earlier, later in itertools.pairwise(good))
        return Outage(gap, Counter(one.status for one in seen if not one.status.startswith("2")), len(seen))


class Outage(NamedTuple):
    """The longest time without a 2xx, and the other answers."""

    seconds: float
    failures: Counter[str]
    pushes: int


class Gateway:
    """Takes the messages to the drivers, and counts them by route."""

    def __init__(self) -> None:
        self.received: Counter[str] = Counter()
        """Messages by the externalId in them, without corrections."""
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                document: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                gateway.note(f"{document.get('title', '')} {document.get('message', '')}")
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Logs nothing."""

        self._server = ThreadingHTTPServer((OUTSIDE, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"json://{OUTSIDE}:{self._server.server_port}/"

    def note(self, text: str) -> None:
        if "CORRECTED" in text:
            return
        for word in text.replace("\n", " ").split():
            name = word.strip(".,:;()")
            if name.startswith("L") and name[1:].isdecimal():
                self.received[name] += 1
                return

    def __enter__(self) -> "Gateway":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
