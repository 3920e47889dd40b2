"""The Valhalla client against a real HTTP server that answers as Valhalla does, or fails as servers do."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from domain.roads import Point, default_roads
from domain.roads.freeways import FreewayRoads
from domain.roads.valhalla import MOST_LOCATIONS, REST_SECONDS, ValhallaRoads, decode_polyline6

BERLIN = Point(52.5170, 13.3889)
POTSDAM = Point(52.3906, 13.0645)
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
    """Every leg is 20 miles and half an hour by way of a point between its ends."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.status = 200
        self.body: bytes | None = None
        self.delay = threading.Event()
        self.delay.set()

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
        self.server.delay.wait(10)
        answer = self.server.answer(body)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def server() -> Iterator[FakeValhalla]:
    with FakeValhalla() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.delay.set()
        server.shutdown()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def roads(server: FakeValhalla, clock: Clock) -> Iterator[ValhallaRoads]:
    roads = ValhallaRoads(server.url, fallback=FreewayRoads(), timeout_seconds=2.0, monotonic=clock)
    yield roads
    roads.close()


def test_one_request_asks_for_all_legs(roads: ValhallaRoads, server: FakeValhalla) -> None:
    road = roads.through([BERLIN, POTSDAM, BERLIN])
    [request] = server.requests
    assert (request["path"], request["costing"], request["units"]) == ("/route", "truck", "miles")
    assert request["locations"] == [
        {"lat": point.latitude, "lon": point.longitude} for point in (BERLIN, POTSDAM, BERLIN)
    ]
    assert road.source == "valhalla"
    assert road.distance_miles == 40.0
    assert road.stop_miles == (0.0, 20.0, 40.0)
    assert road.stop_hours == (0.0, 0.5, 1.0)
    assert road.line[0].tolist() == pytest.approx(BERLIN)
    assert road.line[-1].tolist() == pytest.approx(BERLIN)
    assert road.line_miles[-1] == 40.0
    assert np.interp(20.0, road.line_miles, road.line[:, 0]) == pytest.approx(POTSDAM.latitude)


def test_a_leg_of_no_miles(roads: ValhallaRoads, server: FakeValhalla) -> None:
    zero = {"summary": {"length": 0.0, "time": 0.0}, "shape": encode_polyline6([BERLIN])}
    server.body = json.dumps({"trip": {"legs": [zero]}}).encode()
    road = roads.through([BERLIN, BERLIN])
    assert (road.source, road.distance_miles) == ("valhalla", 0.0)
    assert len(road.line) == len(road.line_miles) == 2


def test_long_routes_are_asked_for_in_parts(roads: ValhallaRoads, server: FakeValhalla) -> None:
    points = [Point(40.0 + i / 10, -100.0) for i in range(50)]
    road = roads.through(points)
    assert [len(request["locations"]) for request in server.requests] == [20, 20, 12]
    assert max(len(request["locations"]) for request in server.requests) <= MOST_LOCATIONS
    assert len(road.stop_miles) == 50
    assert road.distance_miles == 49 * 20.0


def test_far_routes_are_asked_for_in_parts(roads: ValhallaRoads, server: FakeValhalla) -> None:
    """New York, Los Angeles, New York: twice 2,446 straight miles, where a server answers 3,106 at most."""
    new_york, los_angeles = Point(40.71, -74.01), Point(34.05, -118.24)
    assert roads.through([new_york, los_angeles, new_york]).source == "valhalla"
    assert [len(request["locations"]) for request in server.requests] == [2, 2]


def test_a_refused_route_takes_the_fallback_and_the_next_one_asks_again(
    roads: ValhallaRoads, server: FakeValhalla
) -> None:
    server.status = 400
    server.body = b'{"error_code": 171, "error": "No suitable edges near location"}'
    assert roads.through([CHICAGO, DENVER]).source == "freeway-graph"
    server.status, server.body = 200, None
    assert roads.through([CHICAGO, DENVER]).source == "valhalla"


def test_a_failing_server_is_left_alone_for_a_while(roads: ValhallaRoads, server: FakeValhalla, clock: Clock) -> None:
    server.status = 503
    assert roads.through([CHICAGO, DENVER]).source == "freeway-graph"
    server.status = 200
    clock.seconds += REST_SECONDS - 1
    assert roads.through([CHICAGO, DENVER]).source == "freeway-graph"
    assert len(server.requests) == 1
    clock.seconds += 1
    assert roads.through([CHICAGO, DENVER]).source == "valhalla"


def test_a_silent_server_costs_one_timeout(server: FakeValhalla, clock: Clock) -> None:
    roads = ValhallaRoads(server.url, fallback=FreewayRoads(), timeout_seconds=0.1, monotonic=clock)
    server.delay.clear()
    assert roads.through([CHICAGO, DENVER]).source == "freeway-graph"
    assert roads.through([CHICAGO, DENVER]).source == "freeway-graph"
    assert len(server.requests) == 1
    roads.close()


def test_no_server_at_all(clock: Clock) -> None:
    roads = ValhallaRoads("http://127.0.0.1:1", fallback=FreewayRoads(), monotonic=clock)
    assert roads.through([CHICAGO, DENVER]).source == "freeway-graph"
    roads.close()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"trip": null}',
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
    assert roads.through([CHICAGO, DENVER]).source == "freeway-graph"


def test_polylines_are_decoded() -> None:
    points = [Point(38.5, -120.2), Point(40.7, -120.95), Point(43.252, -126.453), Point(-0.000001, 180.0)]
    assert decode_polyline6(encode_polyline6(points)).tolist() == pytest.approx(np.array(points))
    # The example of Google's description has five decimals; read with six, its degrees are a tenth.
    assert decode_polyline6("_p~iF~ps|U_ulLnnqC_mqNvxq`@") == pytest.approx(np.array(points[:3]) / 10)


def test_one_point_has_no_road(roads: ValhallaRoads, server: FakeValhalla) -> None:
    with pytest.raises(ValueError, match="two points"):
        roads.through([BERLIN])
    assert server.requests == []


def test_default_roads() -> None:
    assert isinstance(default_roads(None), FreewayRoads)
    valhalla = default_roads("http://127.0.0.1:8002")
    assert isinstance(valhalla, ValhallaRoads)
    valhalla.close()
