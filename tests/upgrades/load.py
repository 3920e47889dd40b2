"""A TMS and a truck that never stop: pushes and reads by several threads, and a truck that drives one route after the
other. What was answered is kept, so that it can be looked for later."""

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from tests.factories import JOLIET, NEWARK
from tests.service import eventually

PAUSE_SECONDS = 0.12
"""Between two requests of a thread: a key may make 600 a minute."""


def _times_of_fixes(now: datetime) -> Iterator[datetime]:
    """Each 15 s after the last, from 3 hours ago on: a truck stands where it jumps to for half a minute."""
    return (now + timedelta(seconds=15 * number - 3 * 3600) for number in itertools.count())


@dataclass
class Load:
    """The requests so far. `urls` are the ingress processes that take requests now: change them to move the load."""

    urls: list[str]
    keys: Sequence[str]
    unit_number: str
    driver: str
    accepted: dict[str, str] = field(default_factory=dict)
    """The `externalId` of each route that was answered 2xx, by its id."""
    driven: list[str] = field(default_factory=list)
    """The routes that the truck completed."""
    faults: list[str] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=120))
    _life: ExitStack = field(default_factory=ExitStack)
    _work: list[Future[None]] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    _moments: Iterator[datetime] = field(default_factory=lambda: _times_of_fixes(datetime.now(UTC)))

    def __enter__(self) -> "Load":
        self._life.enter_context(self._client)
        threads = self._life.enter_context(ThreadPoolExecutor(len(self.keys)))
        self._work = [
            threads.submit(self._drive, self.keys[0]),
            *(threads.submit(self._push, k) for k in self.keys[1:]),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._life.close()
        for one in self._work:
            one.result()

    def wait_for(self, *, pushes: int = 0, drives: int = 0) -> None:
        """Waits until so many more were answered."""
        wanted = len(self.accepted) + pushes, len(self.driven) + drives
        eventually(
            lambda: (len(self.accepted), len(self.driven), [work.exception() for work in self._work if work.done()]),
            lambda seen: (seen[0] >= wanted[0] and seen[1] >= wanted[1]) or bool(seen[2]),
            120,
            f"{wanted} pushes and drives",
        )

    def move(self, *urls: str) -> None:
        """Sends the requests from now on there, and returns when none is on its way elsewhere."""
        self.urls = list(urls)
        self.wait_for(pushes=2 * len(self.keys))

    def _request(self, method: str, path: str, key: str, **more: Any) -> httpx.Response | None:
        self._stopping.wait(PAUSE_SECONDS)
        url = self.urls[next(self._numbers) % len(self.urls)]
        headers = {"Authorization": f"Bearer {key}"}
        try:
            answer = self._client.request(method, f"{url}{path}", headers=headers, **more)
        except httpx.TransportError as error:
            self.faults.append(f"{method} {path}: {error!r}")
            return None
        if answer.status_code >= 300:
            self.faults.append(f"{method} {path}: {answer.status_code} {answer.text}")
            return None
        return answer

    def _push_one(self, key: str, unit_number: str, start: datetime) -> str | None:
        external_id = f"UPGRADE-{next(self._numbers)}"
        body = {
            "externalId": external_id,
            "vehicle": {"unitNumber": unit_number},
            "driver": {"name": self.driver},
            "scheduledStart": start.isoformat(),
            "stops": [JOLIET, NEWARK],
        }
        answer = self._request("POST", "/v1/routes", key, json=body)
        if answer is None:
            return None
        self.accepted[answer.json()["id"]] = external_id
        return str(answer.json()["id"])

    def _push(self, key: str) -> None:
        while not self._stopping.is_set():
            route_id = self._push_one(key, "nobody's", datetime.now(UTC) + timedelta(hours=20))
            if route_id is not None:
                self._request("GET", f"/v1/routes/{route_id}", key)

    def _drive(self, key: str) -> None:
        while not self._stopping.is_set():
            route_id = self._push_one(key, self.unit_number, datetime.now(UTC))
            for stop, status in ((JOLIET, "active"), (NEWARK, "completed")):
                self._until(lambda one=route_id: self._status(key, one) != "pending")  # type: ignore[misc]
                self._post_fixes(key, stop)
                self._until(lambda one=route_id, wanted=status: self._status(key, one) == wanted)  # type: ignore[misc]
            if route_id is not None and not self._stopping.is_set():
                self.driven.append(route_id)

    def _until(self, good: Callable[[], bool]) -> None:
        while not self._stopping.is_set() and not good():
            pass  # each look pauses

    def _status(self, key: str, route_id: str | None) -> str | None:
        answer = self._request("GET", f"/v1/routes/{route_id}", key)
        return None if answer is None else str(answer.json()["status"])

    def _post_fixes(self, key: str, stop: dict[str, Any]) -> None:
        """The truck stands there for half a minute of its own time, which is behind the clock and catches up."""
        positions = [
            {
                "unitNumber": self.unit_number,
                "latitude": stop["latitude"],
                "longitude": stop["longitude"],
                "recordedAt": next(self._moments).isoformat(),
                "speedMph": 0,
                "fuelPercent": 60,
            }
            for _ in range(3)
        ]
        self._request("POST", "/telematics/positions", key, json={"positions": positions})
