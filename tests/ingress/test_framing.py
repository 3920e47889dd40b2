"""The end of a request is settled by its length or its chunks, however its bytes come and whatever else it asks for."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.server import ServerState

from ingress.http.connection_limits import Bounds
from ingress.http.uvicorn_protocol import BODY, BoundedConnection, bounded_connections
from tests.clockwork import run_by_clockwork

UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAA\r\n"
GET = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"


class Seen(NamedTuple):
    """A request as the application saw it."""

    method: str
    path: str
    body: bytes


class Wire(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("192.0.2.1", 5) if name in ("peername", "sockname") else default

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.written += data

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def connect(app: ASGIApp) -> tuple[BoundedConnection, Wire]:
    """A new connection to an application."""
    config = uvicorn.Config(app, log_config=None, interface="asgi3", lifespan="off")
    config.load()
    connections = bounded_connections(Bounds(0, 0, head_seconds=10, answer_seconds=30))
    connection, wire = connections(config, ServerState(), {}), Wire()
    connection.connection_made(wire)
    return connection, wire


class Served(NamedTuple):
    """The outcome of some bytes."""

    seen: list[Seen]
    statuses: list[int]
    closed: bool


def serve(segments: Sequence[bytes], *, at_once: bool = False, reads: bool = True) -> Served:
    """Segments as they come, each after everything that the one before it caused, or all `at_once`. `reads`: the
    application reads bodies before it answers."""
    seen: list[Seen] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body: bytes = scope.get(BODY, b"")
        more = reads and BODY not in scope
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        seen.append(Seen(scope["method"], scope["path"], body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def scenario() -> Served:
        connection, wire = connect(app)
        for segment in segments:
            if not wire.closed:
                connection.data_received(segment)
            if not at_once:
                await _until_everybody_waits()
        await _until_everybody_waits()
        closed = wire.closed
        connection.connection_lost(None)
        await _until_everybody_waits()
        parts = wire.written.replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"").split(b"HTTP/1.1 ")[1:]
        return Served(seen, [int(part[:3]) for part in parts], closed)

    return run_by_clockwork(scenario())


async def _until_everybody_waits() -> None:
    """Lets all that a segment caused happen, by clockwork."""
    await asyncio.sleep(0.01)


def with_length(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def in_chunks(body: bytes) -> bytes:
    half = len(body) // 2
    chunks = [b"%x;a=b\r\n" % len(part) + part + b"\r\n" for part in (body[:half], body[half:]) if part]
    return b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\nX-Trailer: 1\r\n\r\n"


BODY_IS_A_REQUEST = GET % 666


@pytest.mark.slow
@pytest.mark.parametrize("framed", [with_length, in_chunks])
@pytest.mark.parametrize("upgrade", [UPGRADE, b"Connection: upgrade\r\nUpgrade: websocket\r\n", b"Upgrade: h2c\r\n"])
@pytest.mark.parametrize("method", [b"POST", b"GET", b"BREW"])
def test_a_request_for_another_protocol_is_served_as_http(
    method: bytes, upgrade: bytes, framed: Callable[[bytes], bytes]
) -> None:
    data = method + b" /1 HTTP/1.1\r\nHost: x\r\n" + upgrade + framed(BODY_IS_A_REQUEST) + GET % 2
    expected = Served([Seen(method.decode(), "/1", BODY_IS_A_REQUEST), Seen("GET", "/2", b"")], [200, 200], False)

    assert serve([data]) == expected
    if method != b"BREW":  # in pieces it is not made out
        for at in range(1, len(data)):
            assert serve([data[:at], data[at:]]) == expected, data[:at]
        assert serve([bytes([byte]) for byte in data]) == expected


def test_requests_pipelined_behind_one_for_another_protocol_are_answered() -> None:
    upgrading = b"GET /1 HTTP/1.1\r\nHost: x\r\n" + UPGRADE + b"\r\n"
    served = serve([upgrading * 5 + GET % 2], at_once=True)

    assert [one.path for one in served.seen] == ["/1"] * 5 + ["/2"]
    assert not served.closed


def test_a_flood_of_requests_for_another_protocol_is_bounded() -> None:
    upgrading = b"GET /1 HTTP/1.1\r\nHost: x\r\n" + UPGRADE + b"\r\n"
    served = serve([upgrading * 2000], at_once=True)

    assert len(served.seen) == 17
    assert served.closed


def test_a_connect_request_is_answered_and_ends_the_connection() -> None:
    """Parsers disagree whether it has a body."""
    served = serve([b"CONNECT /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" + GET % 2])

    assert served == Served([Seen("CONNECT", "/1", b"abc")], [200], True)
    assert serve([b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n" + GET % 2]) == Served([], [400], True)


@pytest.mark.parametrize("upgrade", [b"", UPGRADE])
@pytest.mark.parametrize(
    "head",
    [
        b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3, 3\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length : 3\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0x3\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n",
        b"GET /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n chunked\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked;q=1\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nX: a\nContent-Length: 3\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nX: a\rContent-Length: 3\r\n",
        b"POST /1 HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n",
        b"GET /1 HTTP/0.9\r\nConnection: keep-alive\r\n",
        b"GET /1 HTTP/2.0\r\nConnection: keep-alive\r\n",
        b"GET /1\r\n",
        b"UNLINK /1 RTSP/1.0\r\n",
        b"PRI * HTTP/2.0\r\n",
    ],
    ids=lambda head: head.decode("latin-1").encode("unicode_escape").decode(),
)
def test_ambiguous_framing_is_refused_and_nothing_is_done(head: bytes, upgrade: bytes) -> None:
    data = head + upgrade + b"\r\n3\r\nabc\r\n0\r\n\r\n" + GET % 2

    assert serve([data]) == Served([], [400], True)


def test_an_http_1_0_request_closes_its_connection() -> None:
    for upgrade in (b"", b"Connection: upgrade, keep-alive\r\nUpgrade: h2c\r\n"):
        served = serve([b"POST /1 HTTP/1.0\r\n" + upgrade + with_length(b"abc") + GET % 2])
        assert served == Served([Seen("POST", "/1", b"abc")], [200], True)


@pytest.mark.parametrize("upgrade", [b"", UPGRADE])
@pytest.mark.parametrize(
    "head",
    [
        b"GET /1 HTTP/1.1\r\n",
        b"BREW /1 HTTP/1.1\r\n",
        b"GET http://x/1 HTTP/1.1\r\n",
        b"GET /1 HTTP/1.1\r\nHost: x\r\nHost: x\r\n",
        b"GET /1 HTTP/1.1\r\nHost: x\r\nX: y\r\nhost: z\r\n",
        b"GET /1 HTTP/1.0\r\nHost: x\r\nHost: z\r\n",
    ],
)
def test_a_request_without_host_or_with_two_is_refused(head: bytes, upgrade: bytes) -> None:
    """RFC 9112, section 3.2: a proxy before us may have chosen by the one that we do not see."""
    assert serve([head + upgrade + b"\r\n" + GET % 2]) == Served([], [400], True)


def test_a_host_may_be_empty_and_http_1_0_needs_none() -> None:
    assert serve([b"GET /1 HTTP/1.1\r\nHost:\r\n\r\n"]).statuses == [200]
    assert serve([b"GET /1 HTTP/1.0\r\n\r\n"]).statuses == [200]


def test_a_host_among_trailers_does_not_count() -> None:
    chunked = b"POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: z\r\n\r\n"

    assert serve([chunked + GET % 2]).statuses == [200, 200]
    assert serve([chunked + b"GET /2 HTTP/1.1\r\n\r\n"]) == Served([Seen("POST", "/1", b"")], [200], True)


# --- Requests before a refused one are answered ------------------------------------------------------------------


@pytest.mark.parametrize(
    "behind",
    [
        b"BREW /2 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01",
        b"GET /2 HTTP/1.1\r\nHo st: x\r\n\r\n",
        b"GET /2 HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 40_000,
        b"POST /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\nzz\r\n",
        b"BREW /2 HTTP/1.1\r\nHost: x\r\n\r\nBREW /3 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
    ids=["unknown method", "no HTTP", "no header", "large head", "no chunk", "no encoding", "two unknown methods"],
)
@pytest.mark.parametrize("count", [1, 3])
def test_bytes_after_a_whole_request_do_not_change_its_answer(behind: bytes, count: int) -> None:
    whole = b"POST /1 HTTP/1.1\r\nHost: x\r\n" + with_length(b"abc")

    assert serve([whole * count + behind[:9], behind[9:]], at_once=True) == Served(
        [Seen("POST", "/1", b"abc")] * count, [200] * count, True
    )


def test_a_request_is_answered_once_though_its_body_goes_wrong_afterwards() -> None:
    head = b"POST /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    assert serve([head, b"zz\r\n"], reads=False) == Served([Seen("POST", "/1", b"")], [200], True)
    assert serve([head, b"zz\r\n"]) == Served([], [400], True)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("before", [b"", GET % 0])
def test_a_delete_is_answered_though_its_body_goes_wrong(before: bytes, at_once: bool) -> None:
    head = b"DELETE /1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for segments in ([before + head + b"zz\r\n"], [before + head, b"zz\r\n"]):
        served = serve(segments, at_once=at_once, reads=False)
        count = 2 if before else 1
        assert served.statuses == [200] * count
        assert [one.method for one in served.seen][-1] == "DELETE"
        assert served.closed


def test_a_connection_stays_open_after_a_body_that_no_endpoint_reads() -> None:
    served = serve([b"POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n", b"abc", b"def" + GET % 2], reads=False)

    assert [one.path for one in served.seen] == ["/1", "/2"]
    assert not served.closed


@pytest.mark.parametrize("head", [b"POST /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", b"POST /1 HTTP/1.0\r\n"])
def test_a_connection_that_is_to_close_stays_open_until_the_body_has_come(head: bytes) -> None:
    """A client that still sends would meet a reset in place of its answer."""
    segments = [head + b"Content-Length: 6\r\n\r\n", b"abc", b"def" + GET % 2]
    answered = [Seen("POST", "/1", b"")], [200]

    assert serve(segments[:2], reads=False) == Served(*answered, False)
    assert serve(segments, reads=False) == Served(*answered, True)


def test_a_client_that_is_answered_before_100_continue_begins_a_new_connection() -> None:
    """Nobody knows whether the next bytes are that body or another request."""
    head = b"POST /1 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    smuggled = GET % 666

    assert serve([head % len(smuggled), smuggled], reads=False) == Served([Seen("POST", "/1", b"")], [200], True)
    expected = [Seen("POST", "/1", smuggled), Seen("GET", "/2", b"")]
    assert serve([head % len(smuggled), smuggled + GET % 2]) == Served(expected, [200, 200], False)
    assert serve([head % len(smuggled) + smuggled + GET % 2], reads=False).seen[1] == expected[1]


def test_a_request_learns_that_its_client_is_gone_though_another_waits_behind_it() -> None:
    """A page that is kept up to date would be written for ever, to nobody."""
    told: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        told.append((await receive())["type"])

    async def scenario() -> None:
        connection, _ = connect(app)
        connection.data_received(GET % 1 + GET % 2)
        await asyncio.sleep(0)
        connection.connection_lost(None)
        for _ in range(5):
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert told == ["http.disconnect"]


# --- In any pieces -----------------------------------------------------------------------------------------------


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, Seen]:
    number = draw(st.integers(0, 99))
    method = draw(st.sampled_from(["GET", "POST", "DELETE", "PUT", "UNLINK"]))
    body = draw(st.sampled_from([b"", b"{}", GET % 666, b"x" * 3000, b"0\r\n\r\n", b"\r\n"]))
    headers = draw(
        st.lists(st.sampled_from([UPGRADE, b"Upgrade: h2c\r\n", b"Connection: upgrade\r\n", b"X: y\r\n"]), max_size=3)
    )
    framed = draw(st.sampled_from([with_length, in_chunks]))
    data = f"{method} /{number} HTTP/1.1\r\nHost: x\r\n".encode() + b"".join(headers) + framed(body)
    return data, Seen(method, f"/{number}", body)


@pytest.mark.slow
@given(
    sent=st.lists(requests(), min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 4000), max_size=12),
    at_once=st.booleans(),
)
def test_requests_arrive_as_sent_however_the_bytes_are_split(
    sent: list[tuple[bytes, Seen]], cuts: list[int], at_once: bool
) -> None:
    data = b"".join(one for one, _ in sent)
    ends = [0, *sorted({cut for cut in cuts if cut < len(data)}), len(data)]
    segments = [data[start:end] for start, end in itertools.pairwise(ends)]

    served = serve(segments, at_once=at_once)

    assert served == Served([one for _, one in sent], [200] * len(sent), False)
