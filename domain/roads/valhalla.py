"""Roads of a Valhalla server (`POST /route`, costing `truck`), with other roads as the fallback.

https://valhalla.github.io/valhalla/api/turn-by-turn/api-reference/
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import httpx
import numpy as np

from domain.roads import CIRCUITY, Leg, Point, Road, Roads, great_circle_miles
from domain.roads.highways import LOCAL_MPH
from domain.roads.sphere import Array, segment_miles
from domain.roads.truck_dimensions import ANY_TRUCK, TruckDimensions
from domain.roads.valhalla_circuit import ValhallaCircuit
from domain.telemetry import tracing
from domain.telemetry.logs import get_logger

log = get_logger(__name__)

CONNECT_SECONDS = 1.0
TIMEOUT_SECONDS = 4.0
"""Coast to coast takes Valhalla milliseconds. A server that has not answered after this time is in trouble."""

MAX_SECONDS = 10.0
"""Time for a whole road with its parts and second tries, so that no plan waits much longer. After it nothing more is
asked. A server that hangs costs two tries with the two timeouts above."""

MAX_LOCATIONS = 20
MAX_MILES = 3_100.0
"""Most points and miles in one request, as `service_limits.truck` in Valhalla's default configuration: `max_locations`,
and `max_distance` (5,000 km, the sum of the straight legs). Longer routes are asked for in parts."""

FURTHEST_FROM_ROAD_MILES = 5.0
"""Furthest distance of a point from the road that Valhalla leads to. Valhalla takes the nearest one up to 35 km away
(`search_cutoff`), such as the last one of its map for a stop beyond it."""

AT_ROAD_MILES = 0.5
"""A point at most this far from its road lies at it: a yard, its gate and the street before it."""

MAX_REFUSAL_CHARACTERS = 100

ASSUMED_WEIGHT_POUNDS = 80_000.0
"""Legal weight of a loaded tractor-trailer on interstates (23 USC 127). Valhalla's own 21.77 t would send it over
bridges that are closed to it. Its other defaults are a tractor-trailer's."""

METERS_PER_FOOT = 0.3048
TONNES_PER_POUND = 0.45359237 / 1000
OPTION_DECIMALS = 2


class NoValhallaRoad(Exception):
    """Valhalla did not answer with a road. The text says why, for people."""


class ValhallaRefused(NoValhallaRoad):
    """The server works, but has no road through these points: one is off its map, for example."""


class ValhallaFailed(NoValhallaRoad):
    """The server does not work."""


class ValhallaFailedForNow(ValhallaFailed):
    """The server may answer a second try at once: it closed an idle connection, or is one of several behind a proxy."""


class ValhallaRoads:
    """Roads of Valhalla, or of `fallback` whenever Valhalla has none. A road's `source` tells which of them answered,
    and `fallback_reason` why.

    A refusal takes the fallback for that one route. A failure that a second try does not mend opens the circuit.
    Threads may share an instance.
    """

    def __init__(
        self,
        base_url: str,
        fallback: Roads,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = httpx.Client(base_url=base_url)
        self._fallback = fallback
        self._timeout_seconds = timeout_seconds
        self._monotonic = monotonic
        self._circuit = ValhallaCircuit(monotonic)

    def close(self) -> None:
        """Close the connections to the server."""
        self._client.close()

    def through(self, points: Sequence[Point], truck: TruckDimensions = ANY_TRUCK) -> Road:
        if len(points) < 2:
            raise ValueError("a road needs two points or more")
        try:
            return self._road(points, truck_options(truck))
        except NoValhallaRoad as reason:
            road = self._fallback.through(points, truck)
            return replace(road, fallback_reason="; ".join(filter(None, (str(reason), road.fallback_reason))))

    def _road(self, points: Sequence[Point], truck: dict[str, Any]) -> Road:
        if rest_seconds := self._circuit.rest_seconds():
            raise NoValhallaRoad(f"valhalla is left alone for another {math.ceil(rest_seconds)} s after a failure")
        deadline = self._monotonic() + MAX_SECONDS
        try:
            road = Road.of([leg for part in _parts(points) for leg in self._legs(part, truck, deadline)])
        except ValhallaRefused as refusal:
            log.warning("roads.valhalla_refused", reason=str(refusal))
            self._circuit.close()
            raise
        except ValhallaFailed as failure:
            log.warning("roads.valhalla_failed", reason=str(failure), error=repr(failure.__cause__))
            self._circuit.open()
            raise
        self._circuit.close()
        return road

    def _legs(self, points: Sequence[Point], truck: dict[str, Any], deadline: float) -> list[Leg]:
        request = {
            "locations": [{"lat": point.latitude, "lon": point.longitude} for point in points],
            "costing": "truck",
            "costing_options": {"truck": truck},
            "units": "miles",
            "directions_type": "none",
        }
        try:
            answer = self._post(request, deadline)
        except ValhallaFailedForNow:
            answer = self._post(request, deadline)
        try:
            legs = [_leg(leg) for leg in answer.json()["trip"]["legs"]]
        except (LookupError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValhallaFailed("valhalla answered with something that is no road") from error
        if len(legs) != len(points) - 1:
            raise ValhallaFailed(f"valhalla answered with {len(legs)} legs for {len(points)} points")
        return [_between(*ends, leg) for ends, leg in zip(pairwise(points), legs, strict=True)]

    def _post(self, request: dict[str, Any], deadline: float) -> httpx.Response:
        seconds = min(self._timeout_seconds, deadline - self._monotonic())
        if seconds <= 0:
            raise ValhallaFailed("valhalla took too long")
        timeout = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
        try:
            with tracing.working("POST /route", "client"):
                headers = tracing.outgoing_headers()
                with self._client.stream("POST", "/route", json=request, timeout=timeout, headers=headers) as stream:
                    answer = httpx.Response(stream.status_code, content=b"".join(self._until(deadline, stream)))
        except httpx.TimeoutException as error:
            raise ValhallaFailedForNow("valhalla timed out") from error
        except httpx.HTTPError as error:
            raise ValhallaFailedForNow("valhalla cannot be reached") from error
        if answer.status_code == 400:
            raise ValhallaRefused(f"valhalla refused: {_refusal(answer)}")
        if answer.status_code != 200:
            failed = ValhallaFailedForNow if answer.is_server_error else ValhallaFailed
            raise failed(f"valhalla answered with status {answer.status_code}")
        return answer

    def _until(self, deadline: float, stream: httpx.Response) -> Iterator[bytes]:
        """The answer, piece by piece. Each may come in time, and all of them too late."""
        for piece in stream.iter_bytes():
            if self._monotonic() > deadline:
                raise ValhallaFailed("valhalla took too long")
            yield piece


def reason_of_silence(base_url: str, seconds: float) -> str | None:
    """Why a server does not answer `GET /status` in time, such as `valhalla cannot be reached`; None if it does."""
    try:
        answer = httpx.get(f"{base_url.rstrip('/')}/status", timeout=seconds)
    except httpx.TimeoutException:
        return "valhalla timed out"
    except (httpx.HTTPError, httpx.InvalidURL):
        return "valhalla cannot be reached"
    return None if answer.is_success else f"valhalla answered with status {answer.status_code}"


def truck_options(truck: TruckDimensions) -> dict[str, Any]:
    """The options of the costing `truck`, in meters and metric tons. Unknown options keep Valhalla's defaults, except
    for the weight. https://valhalla.github.io/valhalla/api/turn-by-turn/api-reference/#costing-options"""
    weight_pounds = truck.weight_pounds if truck.weight_pounds is not None else ASSUMED_WEIGHT_POUNDS
    measures = {
        "height": (truck.height_feet, METERS_PER_FOOT),
        "width": (truck.width_feet, METERS_PER_FOOT),
        "length": (truck.length_feet, METERS_PER_FOOT),
        "weight": (weight_pounds, TONNES_PER_POUND),
        "axle_load": (truck.axle_weight_pounds, TONNES_PER_POUND),
    }
    options: dict[str, Any] = {
        name: round(value * unit, OPTION_DECIMALS) for name, (value, unit) in measures.items() if value is not None
    }
    known = {"axle_count": truck.axle_count, "hazmat": truck.hazmat}
    return options | {name: value for name, value in known.items() if value is not None}


def _refusal(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"])[:MAX_REFUSAL_CHARACTERS]
    except (LookupError, TypeError, ValueError, RecursionError):
        return "it does not say why"


def _parts(points: Sequence[Point]) -> Iterator[Sequence[Point]]:
    """Split points into runs that fit into one request. Each run starts where the last one ended."""
    part, part_miles = [points[0]], 0.0
    for start, end in pairwise(points):
        leg_miles = great_circle_miles(start, end)
        if len(part) == MAX_LOCATIONS or (len(part) > 1 and part_miles + leg_miles > MAX_MILES):
            yield part
            part, part_miles = [start], 0.0
        part.append(end)
        part_miles += leg_miles
    yield part


def _leg(leg: dict[str, Any]) -> Leg:
    line = decode_polyline6(leg["shape"])
    miles, hours = float(leg["summary"]["length"]), float(leg["summary"]["time"]) / 3600
    if not (0 <= miles < np.inf and 0 <= hours < np.inf):
        raise ValueError(f"{miles} miles in {hours} hours")
    if len(line) == 1:  # a leg from a place to itself
        line = np.repeat(line, 2, axis=0)
    along = np.concatenate([[0.0], np.cumsum(segment_miles(line))])
    # The summary has the road's miles; the shape only shares them out.
    shares = along / along[-1] if along[-1] > 0 else np.linspace(0, 1, len(line))
    return Leg(line, miles * shares, hours, "valhalla")


def _between(a: Point, b: Point, leg: Leg) -> Leg:
    """The leg with the ways from `a` to its road and from there to `b`. Raises ValhallaRefused where a point lies far
    from the road."""
    ends = Point(*leg.line[0].tolist()), Point(*leg.line[-1].tolist())
    before, after = great_circle_miles(a, ends[0]), great_circle_miles(ends[1], b)
    if max(before, after) <= AT_ROAD_MILES:
        return leg
    if max(before, after) > FURTHEST_FROM_ROAD_MILES:
        raise ValhallaRefused(f"valhalla has no road within {FURTHEST_FROM_ROAD_MILES:g} miles of a stop")
    miles = CIRCUITY * np.array([before, after])
    line_miles = np.concatenate([[0.0], miles[0] + leg.line_miles, [miles[0] + leg.miles + miles[1]]])
    hours = leg.hours + float(miles.sum()) / LOCAL_MPH
    return replace(leg, line=np.concatenate([[a], leg.line, [b]]), line_miles=line_miles, hours=hours)


def decode_polyline6(shape: str) -> Array:
    """Decode Google's polyline with six decimals, as Valhalla writes it, to (n, 2) degrees, n at least 1.

    https://developers.google.com/maps/documentation/utilities/polylinealgorithm
    """
    deltas: list[int] = []
    value = shift = 0
    for character in shape:
        chunk = ord(character) - 63
        if not 0 <= chunk < 64:
            raise ValueError(f"{character!r} in a polyline")
        value |= (chunk & 0x1F) << shift
        shift += 5
        if chunk < 0x20:
            deltas.append(~(value >> 1) if value & 1 else value >> 1)
            value = shift = 0
    if shift or not deltas or len(deltas) % 2:
        raise ValueError("a polyline that ends too early")
    line = np.cumsum(np.array(deltas, dtype=np.int64).reshape(-1, 2), axis=0) / 1e6
    if np.any(np.abs(line) > (90, 180)):
        raise ValueError("a polyline that leaves the earth")
    return line
