"""Answers of vendors are bounded in bytes, pieces, values and time, and large ones are read off the event loop."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from domain.connectors.answer_readers import MOST_VALUES, AnswerReaders, TooManyValues, require_few_values
from domain.connectors.kinds import VENDORS
from domain.connectors.vendor import Access, VendorFault
from domain.connectors.vendor_http import BoundedHttp
from domain.connectors.vendor_question import ask_vendor
from tests.domain.connectors.helpers import LOOPBACK

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
MEGABYTE = 1 << 20


@contextmanager
def answering(*parts: bytes, pause_seconds: float = 0.0) -> Iterator[str]:
    """A server that answers every request with these bytes."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            try:
                for part in parts:
                    self.wfile.write(part)
                    time.sleep(pause_seconds)
            except OSError:
                return

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/units"
        finally:
            server.shutdown()
            thread.join()


def plain(body: bytes, *headers: bytes) -> bytes:
    return HEAD + b"".join(headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body


def asked(url: str, **bounds: Any) -> object:
    async def ask() -> object:
        http = BoundedHttp(allowed=LOOPBACK, **bounds)
        try:
            return await VENDORS["eld"]().poll(None, Access(url, {"api_key": "k"}), http)
        finally:
            await http.close()

    return asyncio.run(ask())


def test_millions_of_empty_units_are_refused_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    async def read(self: BoundedHttp, work: Callable[[bytes], Any], body: bytes, read: Any = BoundedHttp.read) -> Any:
        def note(body: bytes) -> Any:
            decoded.append(len(body))
            return work(body)

        return await read(self, note, body)

    monkeypatch.setattr(BoundedHttp, "read", read)
    units = b'{"units": [' + b"{}," * 5_000_000 + b"{}]}"
    with answering(plain(units)) as url, pytest.raises(TooManyValues, match="more than 1,000,000 values"):
        asked(url)
    assert decoded == []
    with answering(plain(b'{"units": []}')) as url:
        asked(url)
    assert decoded == [13], "it is seen when a small one is decoded"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (plain(b" " * 3 * MEGABYTE), "more than 2 MB"),
        (plain(gzip.compress(b"0" * 50 * MEGABYTE), b"Content-Encoding: gzip\r\n"), "compressed"),
        (b"HTTP/1.1 302 Found\r\nLocation: /units\r\nContent-Length: 0\r\n\r\n", r"redirects \(302\)"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n{\r\n" * 100_000, "pieces"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000, "does not begin"),
        (HEAD + b"X: y\r\n" * 100_000, "did not speak HTTP"),
        (plain(b'{"units": ' + b"[" * 200_000), "cannot be read|values"),
        (plain(b'{"units": [], ' + b'"units": 1,' * 90_000 + b'"a": 1}'), "cannot be read"),
        (plain(b"{" + b'"units":1,' * 150_000 + b'"a": 1}'), "more than 100,000 values"),
    ],
    ids=["bytes", "bomb", "redirect", "pieces", "continue", "head", "nesting", "keys", "values"],
)
def test_a_test_of_a_connector_has_small_bounds_and_says_which(answer: bytes, said: str) -> None:
    with answering(answer) as url, pytest.raises(VendorFault, match=said):
        asyncio.run(ask_vendor("eld", Access(url, {"api_key": "k"}), LOOPBACK, seconds=120))


def test_a_byte_at_a_time_ends_with_the_time() -> None:
    with answering(HEAD + b"\r\n", *[b"1"] * 5_000, pause_seconds=0.1) as url:
        began = time.monotonic()
        with pytest.raises(VendorFault, match="within 1 s"):
            asyncio.run(ask_vendor("eld", Access(url, {"api_key": "k"}), LOOPBACK, seconds=1))
    assert time.monotonic() - began < 120


def test_numbers_that_no_number_can_be_cost_their_unit() -> None:
    good = {"truck_number": "101", "coordinates": {"lat": 41.5, "lng": -88.1}, "timestamp": "2026-11-25T20:00:00Z"}
    text = json.dumps({"units": [good, {**good, "truck_number": "102"}]}).replace("41.5", "1e999", 1)
    with answering(plain(text.encode())) as url:
        assert "2 units, of which 1 can be read" in asyncio.run(
            ask_vendor("eld", Access(url, {"api_key": "k"}), LOOPBACK)
        )


@pytest.mark.slow
def test_the_event_loop_goes_on_while_an_answer_is_read() -> None:
    """A task that wants to run each millisecond waits for no large part of the reading of a large answer. Only what the
    loop's own thread does counts: a busy machine lets any thread wait."""
    unit = {"truck_number": "101", "coordinates": {"lat": 41.5, "lng": -88.1}, "timestamp": "2026-11-25T20:00:00Z"}
    body = json.dumps({"units": [{**unit, "truck_number": str(n)} for n in range(20_000)]}).encode()

    async def longest_pause_of_all() -> float:
        readers = AnswerReaders()
        http = BoundedHttp(allowed=LOOPBACK, readers=readers, owner="a company")
        vendor = VENDORS["eld"]()
        reading = asyncio.create_task(vendor.poll(None, Access(url, {"api_key": "k"}), http))
        longest, before, began = 0.0, time.thread_time(), time.process_time()
        while not reading.done():
            await asyncio.sleep(0.001)
            longest, before = max(longest, time.thread_time() - before), time.thread_time()
        taken = time.process_time() - began
        assert len((await reading).fixes) == 20_000
        await http.close()
        readers.close()
        return longest / taken

    with answering(plain(body)) as url:
        assert asyncio.run(longest_pause_of_all()) < 0.4


def test_a_company_has_one_answer_read_at_a_time_and_others_do_not_wait_for_it() -> None:
    async def order() -> list[str]:
        readers, ended = AnswerReaders(), list[str]()

        async def read(owner: str, seconds: float) -> None:
            await readers.read(owner, lambda: time.sleep(seconds))
            ended.append(owner)

        slow = [asyncio.create_task(read("slow", 0.2)) for _ in range(4)]
        await asyncio.sleep(0)
        await read("other", 0.0)
        await asyncio.gather(*slow)
        readers.close()
        return ended

    assert asyncio.run(order())[0] == "other"


def test_the_number_of_values_is_never_counted_too_low() -> None:
    require_few_values(b"[" + b"1," * (MOST_VALUES - 10) + b"1]", MOST_VALUES)
    for body in (b"[" * 20, b"{" * 20, b"[1" + b",1" * 20):
        with pytest.raises(TooManyValues):
            require_few_values(body, 10)
