"""Bytes that are nearly HTTP/1.1: requests that are right, pipelined, damaged, and cut into segments."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from hypothesis import strategies as st

METHODS = [
    b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH", b"CONNECT", b"UNLINK", b"BREW", b"PRI", b"get",
]  # fmt: skip
TARGETS = [
    b"/", b"/read", b"/deaf", b"/late", b"/parts", b"/none", b"/broken", b"/late?a=1&b=%00", b"/%41%2f%zz", b"//x",
    b"*",
    b"http://h/read?x", b"http://h", b"https://u@h:1/late", b"h:443", b"/a b", b"/\xc3\xa9", b"/\xff", b"/a#b", b"",
    b"?q", b"/" + b"a" * 3000,
]  # fmt: skip
VERSIONS = [b"HTTP/1.1"] * 12 + [
    b"HTTP/1.0", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.2", b"HTTP/1.10", b"http/1.1", b"RTSP/1.0",
    b"HTTP/1.1 ", b"",
]  # fmt: skip
HEADERS = [
    b"Connection: close", b"Connection: keep-alive", b"Connection: upgrade", b"Connection: Upgrade, HTTP2-Settings",
    b"Connection: upgrade\r\nUpgrade: h2c", b"Connection: close, keep-alive", b"Upgrade: h2c", b"Upgrade: websocket",
    b"Expect: 100-continue",
    b"Expect: 100-CONTINUE",
    b"Expect: 200-ok", b"Host: y", b"Host:", b"Host: a b", b"Host: [", b"Content-Length: 3", b"Content-Length: 0",
    b"Content-Length: 03", b"Content-Length: +3",
    b"Content-Length: -1", b"Content-Length: 0x3", b"Content-Length: 3, 3", b"Content-Length:", b"Content-Length : 3",
    b"Content-Length: 99999999999999999999", b"Content-Length: " + b"0" * 5000 + b"3", b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: Chunked",
    b"Transfer-Encoding: xchunked", b"Transfer-Encoding: identity", b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: chunked;q=1", b"Transfer-Encoding:",
    b"Transfer-Encoding : chunked", b"Transfer-Encoding:\tchunked", b"Transfer-Encoding: chunked ", b"X: a\r\n b",
    b"X: a\r\n\tContent-Length: 3",
    b" X: folded at once", b"X: caf\xe9", b"X: \xff\xfe", b"X: \xc3\xa9", b"X: a\0b", b"X: a\x01b", b"X:", b"X",
    b": x", b"X y: z", b"\xe9: z",
    b"X\t: z", b"X: " + b"y" * 2000, b"X: a\nContent-Length: 3", b"X: a\rContent-Length: 3",
    b"Content-Type: application/json",
    b"Keep-Alive: timeout=5", b"Proxy-Connection: close", b"TE: trailers", b"Trailer: X",
]  # fmt: skip
BODIES = [b"", b"{}", b"abc", b"0\r\n\r\n", b"\r\n", b"GET /666 HTTP/1.1\r\nHost: x\r\n\r\n", b"x" * 3000, b"\0\xff"]
CHUNK_HEADS = [
    b"%x", b"%X", b"0%x", b"000000000000000000%x", b"%x;a=b", b'%x;a="b"', b"%x ", b" %x", b"%x\t;a", b"0x%x", b"+%x",
    b"-%x", b"%xg",
    b"%x;\xff", b"%x;" + b"e" * 500, b"fffffffffffffffff%x",
]  # fmt: skip
LINE_ENDS = [b"\r\n"] * 30 + [b"\n", b"\r", b"\r\r\n", b"\n\r", b""]
SPLICES = [
    b"\r\n", b"\n", b"\r", b"\0", b"\xff", b" ", b"\t", b":", b"\r\n\r\n", b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n",
    b"3\r\nabc\r\n", b"ffffffffffffffff\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
    b"\x16\x03\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"X: " + b"z" * 40_000, b"/" * 40_000,
]  # fmt: skip
TRAILERS = [b"", b"", b"X-Trailer: 1\r\n", b"Content-Length: 3\r\n", b"Host: z\r\n", b"Transfer-Encoding: chunked\r\n"]
ENDS = (b"\r\n", b"\r\n\r\n", b"\n", b"x", b"\0", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

Option = TypeVar("Option")
_DICE_BYTES = 320
_MOST_IN_BYTES = 400
"""Longer data is not sent byte by byte: that takes too long."""


class Sent(NamedTuple):
    """The bytes of a connection as they are sent, and whether the client then closes its half."""

    segments: list[bytes]
    half_close: bool

    @property
    def data(self) -> bytes:
        return b"".join(self.segments)


class Dice:
    """Choices out of one string of bytes, the first option where it has ended: a hundred times quicker than as many
    draws of hypothesis, which still makes a failing case smaller by making the string smaller."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def number(self, most: int) -> int:
        """A number from 0 to `most`."""
        value = next(self._data, 0)
        if most > 255:
            value = value << 8 | next(self._data, 0)
        return value % (most + 1)

    def of(self, options: Sequence[Option]) -> Option:
        return options[self.number(len(options) - 1)]


def connections() -> st.SearchStrategy[Sent]:
    """All that a client sends on one connection."""
    return st.binary(min_size=_DICE_BYTES, max_size=_DICE_BYTES).map(lambda data: _connection(Dice(data)))


def _connection(dice: Dice) -> Sent:
    wild_percent = dice.of((0, 0, 0, 25, 25, 100))
    count = dice.of((1, 1, 1, 2, 3, 5, 20))
    half_close = dice.number(5) == 1
    cuts = _cuts(dice)
    changes = dice.number(3) if wild_percent or dice.number(1) else 0
    damage = [[dice.number(65_535), dice.number(4), dice.number(255), dice.number(255)] for _ in range(changes)]
    data = b"".join(_request(dice, tame=dice.number(99) >= wild_percent) for _ in range(count))
    for at, change, one, two in damage:
        data = _damaged(data, at % (len(data) + 1), change, one, two)
    data += dice.of((b"",) * 6 + ENDS)
    return Sent(_segments(data, cuts), half_close)


def _cuts(dice: Dice) -> list[int] | None:
    """The places where the bytes are cut into segments. None: after each byte."""
    how = dice.number(4)
    if how == 4:
        return None
    return [dice.number(65_535) for _ in range(dice.number(3) + 1)] if how > 1 else []


def _segments(data: bytes, cuts: list[int] | None) -> list[bytes]:
    if cuts is None and 0 < len(data) <= _MOST_IN_BYTES:
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts or () if data)})
    return [data[start:end] for start, end in pairwise(places)]


def _request(dice: Dice, *, tame: bool) -> bytes:
    """One request. A tame one is right in all but a few places."""
    end = b"\r\n" if tame else dice.of(LINE_ENDS)
    method = dice.of(METHODS[:5] if tame else METHODS)
    target = dice.of(TARGETS[:8] if tame else TARGETS)
    version = b"HTTP/1.1" if tame else dice.of(VERSIONS)
    headers = [b"Host: x"] if tame or dice.number(9) else []
    headers += [dice.of(HEADERS) for _ in range(dice.of((0, 0, 0, 1)) if tame else dice.number(4))]
    body = dice.of(BODIES)
    framing = dice.of(("none", "length", "chunks") if tame else ("none", "length", "chunks", "wrong", "cut"))
    if framing == "none":
        body = b""
    elif framing == "chunks":
        headers.append(b"Transfer-Encoding: chunked")
        body = _chunks(dice, body, tame=tame)
    else:
        headers.append(
            b"Content-Length: %d" % (len(body) + (dice.of((-2, -1, 1, 5, 10**6)) if framing == "wrong" else 0))
        )
        if framing == "cut":
            body = body[: dice.number(len(body))]
    first = dice.number(max(len(headers) - 1, 0))
    headers = headers[first:] + headers[:first]
    start = b" ".join((method, target, version)) if version else method + b" " + target
    lines = [start + end, *(header + b"\r\n" for header in headers[:-1]), *(header + end for header in headers[-1:])]
    return b"".join(lines) + b"\r\n" + body


def _chunks(dice: Dice, body: bytes, *, tame: bool) -> bytes:
    at = dice.number(len(body))
    out = b""
    for part in (body[:at], body[at:]):
        if part:
            out += dice.of(CHUNK_HEADS[:6] if tame else CHUNK_HEADS) % len(part) + b"\r\n"
            out += part + (b"\r\n" if tame else dice.of(LINE_ENDS))
    return out + b"0\r\n" + dice.of(TRAILERS) + b"\r\n"


def _damaged(data: bytes, at: int, change: int, one: int, two: int) -> bytes:
    """The bytes after one change."""
    length = one % 12 + 1
    if change == 0:
        return data[:at] + SPLICES[one % len(SPLICES)] + data[at:]
    if change == 1:
        return data[:at] + data[at + length :]
    if change == 2:
        return data[:at] + bytes((two,)) * (one % 3 + 1) + data[at + length :]
    if change == 3:
        return data[: at + length] + data[at:]
    return data[:at] + bytes(byte ^ 1 << two % 8 for byte in data[at : at + 1]) + data[at + 1 :]
