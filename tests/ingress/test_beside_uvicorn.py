"""Our connections answer as uvicorn's do, but for the differences that have a reason. Each reason still occurs."""

from collections.abc import Callable, Iterator

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tests.fuzz.connections import Bytes
from tests.fuzz.differences import REASONS, compare
from tests.fuzz.engine import run_part
from tests.fuzz.wire import Both, both_servers, our_connections

HOST = b"HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /read " + HOST + b"\r\n"
CHUNKED = b"POST /read " + HOST + b"Transfer-Encoding: chunked\r\n"


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    with both_servers() as servers:
        yield servers


EXAMPLES = {
    "a request is answered before bytes after it are refused": [b"GET /read " + HOST + b"Content-Length: 1\r\n\r\nx\0"],
    "no refusal after such answers": [GET + b"\0"],
    "another protocol is ignored": [b"POST /read " + HOST + b"Connection: upgrade\r\nUpgrade: h2c\r\n"
                                    b"Content-Length: 3\r\n\r\nabc"],
    "an unknown method reaches the application": [b"BREW /read " + HOST + b"Content-Length: 3\r\n\r\nabc"],
    "CONNECT reaches the application": [b"CONNECT /read " + HOST + b"Content-Length: 3\r\n\r\nabc"],
    "CONNECT ends the connection": [b"CONNECT /read " + HOST + b"\r\n", GET],
    "trailers are no headers": [CHUNKED + b"\r\n0\r\nX: y\r\n\r\n"],
    "another version": [b"GET /read HTTP/2.0\r\nHost: x\r\n\r\n"],
    "another encoding": [CHUNKED[:-2] + b" \r\n\r\n0\r\n\r\n"],
    "Host": [b"GET /read HTTP/1.1\r\n\r\n"],
    "a large head": [b"GET /read " + HOST + b"X: " + b"y" * 40_000 + b"\r\n\r\n"],
    "too many requests wait": [(b"GET /late " + HOST + b"\r\n") * 30],
    "HTTP/1.0 gets no 100": [b"POST /read HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"],
    "answered before 100-continue": [b"POST /deaf " + HOST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n",
                                     b"abc"],
    "a body is read to its end": [b"POST /deaf " + HOST + b"Connection: close\r\nContent-Length: 3\r\n\r\n", b"ab"],
}  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_a_known_difference_still_occurs(both: Both, reason: str) -> None:
    """One that no longer occurs is to be removed from the table."""
    compared = compare(both, EXAMPLES[reason])

    assert compared.unexplained == ""
    assert reason in compared.reasons


def test_the_place_where_a_head_ends_does_not_hide_the_reason(both: Both) -> None:
    """The fuzz found it: a request of HTTP/0.9 whose line ends in another way."""
    assert compare(both, [b"POST /read\n\r\n"]).reasons == {"another version"}


@pytest.mark.slow
def test_our_connections_answer_as_uvicorn_s_do(both: Both) -> None:
    outcome = run_part(Bytes(both), seed=1, cases=150)

    assert outcome.findings == []
    assert outcome.counts["equal"] > 75
    assert len(outcome.counts) > 5, "the cases reach the differences"


# --- The comparison finds what is wrong ---------------------------------------------------------------------------


def _loses_a_byte(protocol: type[HttpToolsProtocol]) -> None:
    right = protocol.on_body
    protocol.on_body = lambda self, body: right(self, body[1:])  # type: ignore[method-assign]


def _stays_open(protocol: type[HttpToolsProtocol]) -> None:
    right = protocol.on_headers_complete

    def on_headers_complete(self: HttpToolsProtocol) -> None:
        right(self)
        self.cycle.keep_alive = True

    protocol.on_headers_complete = on_headers_complete  # type: ignore[method-assign]


def _takes_trailers(protocol: type[HttpToolsProtocol]) -> None:
    """Gives the application a header that nobody sent."""
    right = protocol.on_headers_complete

    def on_headers_complete(self: HttpToolsProtocol) -> None:
        self.headers.append((b"x-forged", b"1"))
        right(self)

    protocol.on_headers_complete = on_headers_complete  # type: ignore[method-assign]


def _answers_what_is_wrong(protocol: type[HttpToolsProtocol]) -> None:
    """Takes a bad chunk for the end of the body."""
    right = protocol.data_received

    def data_received(self: HttpToolsProtocol, data: bytes) -> None:
        right(self, data.replace(b"\r\nzz\r\n", b"\r\n0\r\n\r\n"))

    protocol.data_received = data_received  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("break_it", "data"),
    [
        (_loses_a_byte, b"POST /read " + HOST + b"Content-Length: 3\r\n\r\nabc"),
        (_stays_open, b"GET /read " + HOST + b"Connection: close\r\n\r\n"),
        (_takes_trailers, GET),
        (_answers_what_is_wrong, CHUNKED + b"\r\nzz\r\n"),
    ],
)
def test_a_difference_without_a_reason_is_found(
    break_it: Callable[[type[HttpToolsProtocol]], None], data: bytes
) -> None:
    broken = our_connections()
    break_it(broken)
    with both_servers(broken) as servers:
        assert compare(servers, [data]).unexplained
