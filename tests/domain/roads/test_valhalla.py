"""The Valhalla client when its server fails or answers oddly; `test_valhalla_service.py` has a real one."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from domain.roads import Point
from domain.roads.default_roads import default_roads
from domain.roads.highways import HighwayRoads
from domain.roads.valhalla import MAX_SECONDS, ValhallaRoads, decode_polyline6
from domain.roads.valhalla_circuit import ROADS_REST_SECONDS, ValhallaCircuit
from tests.domain.roads.conftest import Clock
from tests.service import eventually

BERLIN = Point(52.5170, 13.3889)
DENVER = Point(39.7392, -104.9903)
CHICAGO = Point(41.8781, -87.6298)


def encode_polyline6(points: list[Point]) -> str:
    """The encoder of https://developers.google.com/maps/documentation/utilities/polylinealgorithm, six decimals."""
    text, before = "", (0, 0)
    for point in points:
        rounded = (round(point.latitude * 1e6), round(point.longitude * 1e6))
        for value, previous in zip(rounded, before, strict=True):
            delta = value - previous
            bits = ~(delta << 1) if delta < 0 else delta << 1
            while bits >= 0x20:
                text += chr((0x20 | (bits & 0x1F)) + 63)
                bits >>= 5
            text += chr(bits + 63)
        before = rounded
    return text


class FakeValhalla(ThreadingHTTPServer):
    """A server whose legs are all 20 miles and half an hour, by way of a point between their ends."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.body: bytes | None = None
        self.before_answer: Callable[[], object] = lambda: None
        self.after_piece: Callable[[], object] = lambda: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, request: dict[str, Any]) -> bytes:
        if self.body is not None:
            return self.body
        points = [Point(location["lat"], location["lon"]) for location in request["locations"]]
        legs = [
            {
                "summary": {"length": 20.0, "time": 1800.0},
                "shape": encode_polyline6(
                    [a, Point((a.latitude + b.latitude) / 2, (a.longitude + b.longitude) / 2), b]
                ),
            }
            for a, b in pairwise(points)
        ]
        return json.dumps({"trip": {"legs": legs, "status": 0, "units": "miles"}}).encode()


class Handler(BaseHTTPRequestHandler):
    server: FakeValhalla

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({"path": self.path, **body})
        self.server.before_answer()
        answer = self.server.answer(body)
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        for piece in (answer[: len(answer) // 2], answer[len(answer) // 2 :]):
            self.wfile.write(piece)
            self.server.after_piece()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[FakeValhalla]:
    with FakeValhalla() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def roads(server: FakeValhalla, clock: Clock) -> Iterator[ValhallaRoads]:
    roads = ValhallaRoads(server.url, fallback=HighwayRoads(), timeout_seconds=2.0, monotonic=clock)
    yield roads
    roads.close()


def test_a_leg_of_one_point_has_no_miles(roads: ValhallaRoads, server: FakeValhalla) -> None:
    zero = {"summary": {"length": 0.0, "time": 0.0}, "shape": encode_polyline6([BERLIN])}
    server.body = json.dumps({"trip": {"legs": [zero]}}).encode()
    road = roads.through([BERLIN, BERLIN])
    assert (road.source, road.distance_miles) == ("valhalla", 0.0)
    assert len(road.line) == len(road.line_miles) == 2


def test_long_routes_are_asked_for_in_parts(roads: ValhallaRoads, server: FakeValhalla) -> None:
    """New York, Los Angeles, New York are twice 2,446 straight miles. A server answers 3,106 at most."""
    new_york, los_angeles = Point(40.71, -74.01), Point(34.05, -118.24)
    assert roads.through([new_york, los_angeles, new_york]).source == "valhalla"
    assert [len(request["locations"]) for request in server.requests] == [2, 2]


def test_a_second_try_succeeds_after_a_passing_failure(roads: ValhallaRoads, server: FakeValhalla) -> None:
    server.statuses = [503, 200]
    road = roads.through([CHICAGO, DENVER])
    assert (road.source, road.fallback_reason, len(server.requests)) == ("valhalla", None, 2)


def test_a_failing_server_is_tried_twice_and_then_left_alone_for_a_while(
    roads: ValhallaRoads, server: FakeValhalla, clock: Clock
) -> None:
    server.statuses = [503, 503]
    road = roads.through([CHICAGO, DENVER])
    assert (road.source, road.fallback_reason) == ("highway-graph", "valhalla answered with status 503")
    clock.seconds += ROADS_REST_SECONDS - 0.5
    road = roads.through([CHICAGO, DENVER])
    assert road.fallback_reason == "valhalla is left alone for another 1 s after a failure"
    assert len(server.requests) == 2
    clock.seconds += 0.5
    assert roads.through([CHICAGO, DENVER]).source == "valhalla"


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, "valhalla refused: it does not say why"), (404, "valhalla answered with status 404")],
)
def test_a_refused_request_is_not_tried_again(
    roads: ValhallaRoads, server: FakeValhalla, status: int, reason: str
) -> None:
    server.statuses = [status]
    assert roads.through([CHICAGO, DENVER]).fallback_reason == reason
    assert len(server.requests) == 1


def test_a_silent_server_is_waited_for_twice(server: FakeValhalla, clock: Clock) -> None:
    roads = ValhallaRoads(server.url, fallback=HighwayRoads(), timeout_seconds=0.1, monotonic=clock)
    server.before_answer = threading.Event().wait
    road = roads.through([CHICAGO, DENVER])
    assert (road.source, road.fallback_reason) == ("highway-graph", "valhalla timed out")
    roads.through([CHICAGO, DENVER])
    assert eventually(lambda: len(server.requests), lambda count: count >= 2) == 2
    roads.close()


def test_a_slow_server_is_not_asked_for_the_rest_of_a_long_route(
    roads: ValhallaRoads, server: FakeValhalla, clock: Clock
) -> None:
    def be_slow() -> None:
        clock.seconds += MAX_SECONDS / 2

    server.before_answer = be_slow
    road = roads.through([Point(40.0 + i / 10, -100.0) for i in range(50)])
    assert road.source == "great-circle+highway-graph"
    assert road.fallback_reason == "valhalla took too long"
    assert len(server.requests) == 2


def test_an_answer_that_comes_in_drops_is_not_waited_for(
    roads: ValhallaRoads, server: FakeValhalla, clock: Clock
) -> None:
    def be_slow() -> None:
        clock.seconds += MAX_SECONDS + 1

    server.after_piece = be_slow
    assert roads.through([CHICAGO, DENVER]).fallback_reason == "valhalla took too long"


def test_only_one_of_many_threads_tries_a_server_after_its_rest(clock: Clock) -> None:
    circuit = ValhallaCircuit(clock)
    circuit.open()
    clock.seconds += ROADS_REST_SECONDS
    with ThreadPoolExecutor(8) as threads:
        rests = list(threads.map(lambda _: circuit.rest_seconds(), range(100)))
    assert sorted(rests) == [0] + 99 * [ROADS_REST_SECONDS]
    circuit.close()
    assert circuit.rest_seconds() == circuit.rest_seconds() == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"trip": null}',
        b"[" * 100_000,
        b'{"trip": {"legs": []}}',
        b'{"trip": {"legs": [{"shape": "", "summary": {"length": 1, "time": 1}}]}}',
        b'{"trip": {"legs": [{"shape": "??", "summary": {"length": -1, "time": 1}}]}}',
        b'{"trip": {"legs": [{"shape": "??", "summary": {"length": 1, "time": NaN}}]}}',
        b'{"trip": {"legs": [{"shape": "??", "summary": {"length": "far", "time": 1}}]}}',
        b'{"trip": {"legs": [{"shape": "?", "summary": {"length": 1, "time": 1}}]}}',
        b'{"trip": {"legs": [{"shape": "?_", "summary": {"length": 1, "time": 1}}]}}',
        b'{"trip": {"legs": [{"shape": "~~~~~~~~~~~~~~~~~~~~~~~~?????", "summary": {"length": 1, "time": 1}}]}}',
        b'{"trip": {"legs": [{"shape": "_gayo}C??", "summary": {"length": 1, "time": 1}}]}}',
        b'{"trip": {"legs": [{"shape": "\\u00ff", "summary": {"length": 1, "time": 1}}]}}',
        b'{"trip": {"legs": [{"shape": 7, "summary": {"length": 1, "time": 1}}]}}',
    ],
)
def test_an_answer_that_is_no_road_takes_the_fallback(roads: ValhallaRoads, server: FakeValhalla, body: bytes) -> None:
    server.body = body
    road = roads.through([CHICAGO, DENVER])
    assert road.source == "highway-graph"
    assert road.fallback_reason is not None
    assert road.fallback_reason.startswith("valhalla answered with")
    assert len(server.requests) == 1


def test_polylines_are_decoded() -> None:
    points = [Point(38.5, -120.2), Point(40.7, -120.95), Point(43.252, -126.453), Point(-0.000001, 180.0)]
    assert decode_polyline6(encode_polyline6(points)).tolist() == pytest.approx(np.array(points))
    # The example of Google's description has five decimals; read with six, its degrees are a tenth.
    assert decode_polyline6("_p~iF~ps|U_ulLnnqC_mqNvxq`@") == pytest.approx(np.array(points[:3]) / 10)


def test_one_point_has_no_road(roads: ValhallaRoads, server: FakeValhalla) -> None:
    with pytest.raises(ValueError, match="two points"):
        roads.through([BERLIN])
    assert server.requests == []


def test_default_roads_are_valhalla_only_with_an_address() -> None:
    assert isinstance(default_roads(None), HighwayRoads)
    valhalla = default_roads("http://127.0.0.1:8002")
    assert isinstance(valhalla, ValhallaRoads)
    valhalla.close()
