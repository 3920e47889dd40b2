"""An answer reaches the client as the application meant it, in one write or in parts. No header forges another one."""

import asyncio

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from ingress.uvicorn_protocol import Bounds, bounded_connections

LENGTH_5 = (b"content-length", b"5")


def answering(*parts: bytes, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for number, part in enumerate(parts, 1):
            await send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})

    return app


def asked(app: ASGIApp, method: str = "GET", ending: bytes = b"Connection: close\r\n") -> tuple[bytes, bytes]:
    """Head and body of what comes back."""

    async def ask() -> bytes:
        http = bounded_connections(Bounds(0, 0, head_seconds=10, answer_seconds=30))
        config = uvicorn.Config(app, http=http, log_config=None, lifespan="off")
        config.load()
        server = await asyncio.get_running_loop().create_server(
            lambda: http(config, ServerState(), {}), host="127.0.0.1", port=0
        )
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"%b /a%%20b?c=1 HTTP/1.1\r\nHost: x\r\n%b\r\n" % (method.encode(), ending))
            answer = await asyncio.wait_for(reader.read(), 10)
            writer.close()
        return answer

    head, _, body = asyncio.run(ask()).partition(b"\r\n\r\n")
    return head, body


def test_an_answer_that_comes_whole() -> None:
    head, body = asked(answering(b"hello", headers=(LENGTH_5, (b"x-one", b"1"))))
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nx-one: 1" in head
    assert b"\r\nconnection: close" in head
    assert body == b"hello"


def test_an_answer_that_comes_in_parts() -> None:
    assert asked(answering(b"he", b"llo", headers=(LENGTH_5,)))[1] == b"hello"


def test_an_answer_without_a_length_is_chunked() -> None:
    head, body = asked(answering(b"hello"))
    assert b"transfer-encoding: chunked" in head
    assert body == b"5\r\nhello\r\n0\r\n\r\n"


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body(status: int) -> None:
    head, body = asked(answering(b"", status=status))
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert (b"content-length" in head, b"chunked" in head, body) == (False, False, b"")


def test_a_head_has_the_length_but_not_the_body() -> None:
    head, body = asked(answering(b"hello", headers=(LENGTH_5,)), "HEAD")
    assert (b"content-length: 5" in head, body) == (True, b"")


@pytest.mark.parametrize("value", [b"1\r\nx-forged: 2", b"1\nx-forged: 2", b"1\r2", b"1\0"])
def test_a_header_that_would_forge_another_is_not_sent(value: bytes) -> None:
    head, _ = asked(answering(b"hello", headers=(LENGTH_5, (b"x-one", value))))
    assert b"x-forged" not in head
    assert b"x-one" not in head


def test_the_application_gets_the_address_as_it_was_meant() -> None:
    seen: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend(scope[name] for name in ("method", "path", "raw_path", "query_string", "http_version"))
        await answering(b"")(scope, receive, send)

    asked(app, "DELETE")
    assert seen == ["DELETE", "/a b", b"/a%20b", b"c=1", "1.1"]
