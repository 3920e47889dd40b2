"""A request and its answer, as the application sees them."""

import asyncio
from typing import Any

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle


def measured_as(scope: Scope) -> tuple[str, str]:
    """Method and address of a request in measurements: few enough, for both are the service's own, however the request
    was written."""
    route = scope.get("route")
    method, methods = scope["method"], getattr(route, "methods", None) or ()
    return method if method in methods else "-", getattr(route, "path", "(none)")


class Exchange(RequestResponseCycle):
    """uvicorn's, with one write for an answer that comes whole: the head waits for the body."""

    def __init__(self, connection: HttpToolsProtocol, *, keep_alive: bool) -> None:
        super().__init__(
            scope=connection.scope,
            transport=connection.transport,
            flow=connection.flow,
            logger=connection.logger,
            access_logger=connection.access_logger,
            access_log=connection.access_log,
            default_headers=connection.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=connection.expect_100_continue and connection.scope["http_version"] != "1.0",
            keep_alive=keep_alive,
            on_response=connection.on_response_complete,
        )
        self._head: Any = None

    async def send(self, message: Any) -> None:
        head = self._head
        if head is None:
            if message["type"] == "http.response.start" and not self.response_started:
                self._head = message
                if self.waiting_for_100_continue and self.more_body:  # nobody knows whether its body comes now
                    self.keep_alive = False
            else:
                await super().send(message)
            return
        self._head = None
        whole = self._whole(head, message)
        if whole is None:
            await super().send(head)
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if not self.disconnected:
            self.response_started = self.response_complete = True
            self.transport.write(whole)
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    def _whole(self, head: Any, message: Any) -> bytes | None:
        """Head and body as they are written. None: they are not whole, or uvicorn knows what is special about them, or
        wrong."""
        status: int = head["status"]
        body: bytes = message.get("body", b"")
        lines = [STATUS_LINE[status]]
        length = None
        for name, value in (*self.default_headers, *head["headers"]):
            if name == b"content-length":
                length = value
            elif name in (b"connection", b"transfer-encoding"):
                return None
            lines.append(b"%b: %b\r\n" % (name, value))
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        text = b"".join(lines)
        is_whole = length == b"%d" % len(body) or (status in (204, 304) and not body)
        if message.get("more_body", False) or not is_whole or self.scope["method"] == "HEAD":
            return None
        if b"\0" in text or not text.count(b"\n") == text.count(b"\r") == len(lines):
            return None
        return text + body
