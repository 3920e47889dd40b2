"""The application has no layers of its own around requests: RequestMiddleware is the only one."""

import asyncio
import gc

import pytest
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import Message

from domain.settings import Settings
from ingress.app import create_app


def test_middleware_that_would_never_run_is_refused(settings: Settings) -> None:
    with pytest.raises(TypeError, match=r"ingress\.api\.middleware"):
        create_app(settings).add_middleware(GZipMiddleware)


def test_an_exception_handler_that_would_never_run_is_refused(settings: Settings) -> None:
    with pytest.raises(TypeError, match=r"ingress\.api\.middleware"):
        create_app(settings).add_exception_handler(500, lambda request, error: PlainTextResponse("gone"))


@pytest.mark.parametrize("path", ["/healthz", "/nothing", "/v1/me"])
def test_a_request_leaves_nothing_for_the_garbage_collector(settings: Settings, path: str) -> None:
    """It would run at the cost of everybody's latency, and new objects would never be those that are still cached."""
    app = create_app(settings)

    async def ask() -> None:
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
        await app(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        pass

    with asyncio.Runner() as runner:
        runner.run(ask())

        def left_by_twenty() -> int:
            gc.collect()
            for _ in range(20):
                runner.run(ask())
            return gc.collect()

        gc.disable()
        try:
            assert min(left_by_twenty() for _ in range(3)) < 20, (
                "other threads of the tests leave something now and then"
            )
        finally:
            gc.enable()
