"""Bodies of a push: every field filled, one field changed, many stops."""

from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any

from tests.factories import JOLIET, NEWARK, route_body

MISSING = object()
"""Stands for a field that is left out."""


def changed(body: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of a body with one field set, or left out; `path` reads like `stops.1.name`."""
    body = deepcopy(body)
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = body
    for step in way:
        place = place[step]
    if value is MISSING:
        del place[last]
    else:
        place[last] = value
    return body


def json_path(path: str) -> str:
    """`stops.1.name` as the contract writes it: `stops[1].name`."""
    return "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in path.split(".")).removeprefix(".")


def full_body(now: datetime) -> dict[str, Any]:
    """A body with every field of RouteInput."""
    start = (now + timedelta(days=1)).isoformat()
    return route_body(
        now + timedelta(days=1),
        reference="PO-1",
        vehicle={"unitNumber": "101", "vin": "1XKAD49X0CJ000101"},
        driver={"name": "Ann Lee", "externalId": "D-1"},
        stops=[
            {**JOLIET, "address": "1 Depot Way", "arrivalWindow": {"start": start, "end": start}},
            {**NEWARK, "address": "2 Port St", "arrivalWindow": {"start": start, "end": start}},
        ],
    )


def many_stops(count: int) -> list[dict[str, Any]]:
    return [{"name": f"Stop {number}", "latitude": 41.0 + number / 100, "longitude": -88} for number in range(count)]
