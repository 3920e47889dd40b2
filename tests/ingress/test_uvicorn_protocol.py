"""An answer reaches the client as the application meant it, in one write or in parts. No header forges another one.

uvicorn's private names, on which that depends, are those of the version that is pinned.
"""

import asyncio
import inspect
from collections.abc import Callable

import pytest
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http import httptools_impl
from uvicorn.server import ServerState

from ingress.http.connection_limits import Bounds
from ingress.http.uvicorn_protocol import bounded_connections

LENGTH_5 = (b"content-length", b"5")


def answering(*parts: bytes, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for number, part in enumerate(parts, 1):
            await send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})

    return app


def answer_of(
    app: ASGIApp,
    connect: Callable[[uvicorn.Config], asyncio.Protocol],
    method: str = "GET",
) -> bytes:
    """The bytes that come back on a connection."""

    async def ask() -> bytes:
        config = uvicorn.Config(app, log_config=None, lifespan="off")
        config.load()
        server = await asyncio.get_running_loop().create_server(lambda: connect(config), host="127.0.0.1", port=0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"%b /a%%20b?c=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % method.encode())
            answer = await asyncio.wait_for(reader.read(), 180)
            writer.close()
        return answer

    return asyncio.run(ask())


def asked(app: ASGIApp, method: str = "GET") -> tuple[bytes, bytes]:
    """Head and body of the answer on a bounded connection."""
    http = bounded_connections(Bounds(0, 0, head_seconds=10, answer_seconds=30))
    answer = answer_of(app, lambda config: http(config, ServerState(), {}), method)
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def test_a_whole_answer_is_sent_with_its_headers() -> None:
    head, body = asked(answering(b"hello", headers=(LENGTH_5, (b"x-one", b"1"))))
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nx-one: 1" in head
    assert b"\r\nconnection: close" in head
    assert body == b"hello"


def test_an_answer_in_parts_is_sent_whole() -> None:
    assert asked(answering(b"he", b"llo", headers=(LENGTH_5,)))[1] == b"hello"


def test_an_answer_without_a_length_is_chunked() -> None:
    head, body = asked(answering(b"hello"))
    assert b"transfer-encoding: chunked" in head
    assert body == b"5\r\nhello\r\n0\r\n\r\n"


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_ends_with_its_head(status: int) -> None:
    head, body = asked(answering(b"", status=status))
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert (b"content-length" in head, b"chunked" in head, body) == (False, False, b"")


def test_a_head_request_is_answered_with_the_length_but_without_the_body() -> None:
    head, body = asked(answering(b"hello", headers=(LENGTH_5,)), "HEAD")
    assert (b"content-length: 5" in head, body) == (True, b"")


@pytest.mark.parametrize("value", [b"1\r\nx-forged: 2", b"1\nx-forged: 2", b"1\r2", b"1\0"])
def test_a_header_that_would_forge_another_is_not_sent(value: bytes) -> None:
    head, _ = asked(answering(b"hello", headers=(LENGTH_5, (b"x-one", value))))
    assert b"x-forged" not in head
    assert b"x-one" not in head


def test_the_application_gets_path_and_query_decoded_and_raw() -> None:
    seen: list[object] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend(scope[name] for name in ("method", "path", "raw_path", "query_string", "http_version"))
        await answering(b"")(scope, receive, send)

    asked(app, "DELETE")
    assert seen == ["DELETE", "/a b", b"/a%20b", b"c=1", "1.1"]


SIGNATURES = {
    "HttpToolsProtocol": {
        "__init__": ["config", "server_state", "app_state", "_loop"],
        "connection_made": ["transport"],
        "connection_lost": ["exc"],
        "data_received": ["data"],
        "on_header": ["name", "value"],
        "on_headers_complete": [],
        "on_body": ["body"],
        "on_message_complete": [],
        "on_response_complete": [],
        "pause_writing": [],
        "resume_writing": [],
        "_start_asgi_task": ["cycle", "app"],
    },
    "RequestResponseCycle": {
        "__init__": [
            *("scope", "transport", "flow", "logger", "access_logger", "access_log", "default_headers"),
            *("message_event", "expect_100_continue", "keep_alive", "on_response"),
        ],
        "send": ["message"],
    },
}
"""The methods that `ingress.http.uvicorn_protocol` calls or overrides, and their parameters."""

CONNECTION_FIELDS = (
    *("logger", "access_logger", "access_log", "parser", "timeout_keep_alive", "server_state", "transport", "flow"),
    *("client", "pipeline", "scope", "headers", "expect_100_continue", "cycle", "app", "url"),
)
CYCLE_FIELDS = (
    *("scope", "transport", "flow", "default_headers", "message_event", "on_response", "disconnected", "keep_alive"),
    *("waiting_for_100_continue", "body", "more_body", "response_started", "response_complete"),
)


@pytest.mark.parametrize("name", SIGNATURES)
def test_uvicorn_s_private_methods_take_the_parameters_that_we_give(name: str) -> None:
    kind = getattr(httptools_impl, name)
    found = {method: list(inspect.signature(getattr(kind, method)).parameters)[1:] for method in SIGNATURES[name]}
    assert found == SIGNATURES[name]


def test_uvicorn_s_own_connection_has_the_private_fields_that_we_use() -> None:
    made: list[httptools_impl.HttpToolsProtocol] = []

    def stock(config: uvicorn.Config) -> httptools_impl.HttpToolsProtocol:
        made.append(httptools_impl.HttpToolsProtocol(config, ServerState(), {}))
        return made[0]

    assert answer_of(answering(b"hello", headers=(LENGTH_5,)), stock).endswith(b"hello")
    (connection,) = made
    assert [field for field in CONNECTION_FIELDS if not hasattr(connection, field)] == []
    assert [field for field in CYCLE_FIELDS if not hasattr(connection.cycle, field)] == []
    assert httptools_impl.STATUS_LINE[200] == b"HTTP/1.1 200 OK\r\n"
