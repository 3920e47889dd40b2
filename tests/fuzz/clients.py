"""Keys of one company for requests without number: each key has a limit of its own."""

import httpx

from domain.lifecycle import Environment
from tests.fuzz.engine import HANG_SECONDS, Fault
from tests.service import Client, Service

_OF_ONE_KEY = 300
"""Requests for which one key is used: half of what it may have in a minute."""


class Keys:
    """A company with a client whose key changes in time."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._client = self._new_client()
        self._used = 0
        self.url = service.url

    def _new_client(self) -> Client:
        client = self._service.new_tenant(Environment.SANDBOX)
        client.timeout = httpx.Timeout(HANG_SECONDS)
        return client

    def begin_anew(self) -> None:
        """Go on with a fresh company."""
        self._client.close()
        self._client, self._used = self._new_client(), 0

    def next(self, *, count: int = 1) -> str:
        """A key for so many requests."""
        self._used += count
        if self._used > _OF_ONE_KEY:
            self._used = count
            with self._service.client(self._client.fleet, Environment.SANDBOX) as fresh:
                self._client.key = fresh.key
                self._client.headers["Authorization"] = f"Bearer {fresh.key}"
        return self._client.key

    def client(self) -> Client:
        """The client, for one request."""
        self.next()
        return self._client

    def ask(self, method: str, path: str, **more: object) -> httpx.Response:
        """The answer to a request. Raises Fault when there is none in time, or a 5xx."""
        try:
            answer = self.client().request(method, path, **more)  # type: ignore[arg-type]
        except httpx.TransportError as error:
            raise Fault(f"{method} {path}: {error!r}") from error
        if answer.status_code >= 500:
            raise Fault(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer

    def __enter__(self) -> "Keys":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
