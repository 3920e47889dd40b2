"""Roads of a Valhalla server (`POST /route`, costing `truck`), with other roads behind it for when it has no answer.

https://valhalla.github.io/valhalla/api/turn-by-turn/api-reference/
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import httpx
import numpy as np

from domain.roads import Leg, Point, Road, Roads, great_circle_miles
from domain.roads.sphere import Array, segment_miles
from domain.telemetry import get_logger

log = get_logger(__name__)

TIMEOUT_SECONDS = 5.0
"""Coast to coast takes Valhalla milliseconds: whoever has not answered by then is in trouble."""

REST_SECONDS = 30.0
"""After the server failed it is left alone for so long, so that plans do not each wait for the timeout."""

MOST_LOCATIONS = 20
MOST_MILES = 3_100.0
"""`service_limits.truck` of Valhalla's default configuration: `max_locations`, and `max_distance` (5,000 km, the sum of
the straight legs). Longer routes are asked for in parts."""


class UnexpectedAnswer(Exception):
    """The server answered 200 with something that is not the road asked for."""


class ValhallaRoads:
    """Asks Valhalla, and `fallback` whenever that fails; the road's `source` tells which of them answered.

    A route Valhalla refuses (a point off its map, say) costs only that route the fallback. Any other failure opens the
    circuit for `REST_SECONDS`.
    """

    def __init__(
        self,
        base_url: str,
        fallback: Roads,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = httpx.Client(base_url=base_url, timeout=timeout_seconds)
        self._fallback = fallback
        self._monotonic = monotonic
        self._resting_until = -float("inf")

    def close(self) -> None:
        """Lets go of the connections to the server."""
        self._client.close()

    def through(self, points: Sequence[Point]) -> Road:
        if len(points) < 2:
            raise ValueError("a road needs two points or more")
        if self._monotonic() < self._resting_until:
            return self._fallback.through(points)
        try:
            return Road.of([leg for part in _parts(points) for leg in self._legs(part)])
        except (httpx.HTTPError, UnexpectedAnswer) as error:
            refusal = error.response if isinstance(error, httpx.HTTPStatusError) else None
            if refusal is not None and refusal.status_code == 400:
                log.warning("roads.valhalla_refused", answer=refusal.text[:200])
            else:
                log.warning("roads.valhalla_failed", error=repr(error), rest_seconds=REST_SECONDS)
                self._resting_until = self._monotonic() + REST_SECONDS
            return self._fallback.through(points)

    def _legs(self, points: Sequence[Point]) -> list[Leg]:
        response = self._client.post(
            "/route",
            json={
                "locations": [{"lat": point.latitude, "lon": point.longitude} for point in points],
                "costing": "truck",
                "units": "miles",
                "directions_type": "none",
            },
        )
        response.raise_for_status()
        try:
            legs = [_leg(leg) for leg in response.json()["trip"]["legs"]]
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise UnexpectedAnswer(f"unreadable: {error!r}") from error
        if len(legs) != len(points) - 1:
            raise UnexpectedAnswer(f"{len(legs)} legs for {len(points)} points")
        return legs


def _parts(points: Sequence[Point]) -> Iterator[Sequence[Point]]:
    """Runs of points that fit into one request; each starts where the one before it ended."""
    part, part_miles = [points[0]], 0.0
    for start, end in pairwise(points):
        leg_miles = great_circle_miles(start, end)
        if len(part) == MOST_LOCATIONS or (len(part) > 1 and part_miles + leg_miles > MOST_MILES):
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
    # The summary is the measure of the road; the shape only says how it is shared out.
    shares = along / along[-1] if along[-1] > 0 else np.linspace(0, 1, len(line))
    return Leg(line, miles * shares, hours, "valhalla")


def decode_polyline6(shape: str) -> Array:
    """Google's encoded polyline with six decimals, as Valhalla writes it, to (n, 2) degrees, n at least 1.

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
