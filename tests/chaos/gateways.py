"""The message gateway under chaos: what it received, and which repeats decision 20 allows."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from domain.ids import read_id
from tests.gateway import Gateway, running_gateway
from tests.rows import named

_ID = re.compile(r"Message (msg_\w+)")


class Post:
    """One gateway, and the parts of its time in which a message may come again."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._in_doubt: list[tuple[float, float]] = []
        """Spans of time (of `time.monotonic`) in which outcomes may not have been stored."""

    def doubt(self, begin: float, end: float) -> None:
        """The outcome of the requests in this span may be unknown to the service."""
        self._in_doubt.append((begin, end))

    @contextmanager
    def refusing(self) -> Iterator[None]:
        self.gateway.status = 503
        try:
            yield
        finally:
            self.gateway.status = 200

    @contextmanager
    def hanging(self) -> Iterator[None]:
        self.gateway.answering.clear()
        try:
            yield
        finally:
            self.gateway.answering.set()

    @contextmanager
    def lying(self) -> Iterator[None]:
        """It takes each message and closes the connection without an answer."""
        self.gateway.hangs_up = True
        try:
            yield
        finally:
            self.gateway.hangs_up = False

    def complaints(self, connection: psycopg.Connection[Any]) -> list[str]:
        """Messages that came twice without need, messages of strangers, and messages that were never handed over."""
        times: dict[str, list[float]] = {}
        for received_at, message in zip(self.gateway.received_at, [*self.gateway.received], strict=False):
            found = _ID.search(message["message"])
            if found is None:
                return [f"the gateway received no message of ours: {message}"]
            times.setdefault(found[1], []).append(received_at)
        rows = (
            named(connection)
            .execute("SELECT m.id, m.status, m.environment FROM messages m WHERE m.channel = 'json'")
            .fetchall()
        )
        sent = {row.id for row in rows if row.status == "sent"}
        known = {read_id("msg", shown): shown for shown in times}
        complaints = [f"message {one} is sent, and its gateway never had it" for one in sent - set(known)]
        for shown, received in times.items():
            if not all(self._may_come_again(one) for one in received[:-1]):
                complaints.append(f"the gateway had {shown} {len(received)} times, at {received}")
        return complaints

    def _may_come_again(self, received_at: float) -> bool:
        return any(begin <= received_at <= end for begin, end in self._in_doubt)


@contextmanager
def running_post() -> Iterator[Post]:
    with running_gateway() as gateway:
        yield Post(gateway)
