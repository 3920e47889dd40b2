"""The reference of connectors: Samsara's feed of 10,000 trucks that all report every ten seconds, 500 on a page."""

import json
import time
from datetime import UTC, datetime, timedelta

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

TRUCKS = 10_000
PAGE = 500
PAGES = TRUCKS // PAGE
ROUND_SECONDS = 10.0

_STARTED, _STARTED_AT = time.monotonic(), datetime.now(UTC)


async def feed(request: Request) -> Response:
    """The page after a cursor, or none before its round has begun. With `bare` every page is there."""
    number = int(request.query_params.get("after") or 0)
    begun = int((time.monotonic() - _STARTED) / ROUND_SECONDS)
    turn, part = divmod(number, PAGES)
    if turn > begun and "bare" not in request.query_params:
        return _answer([], number, False)
    moment = (_STARTED_AT + timedelta(seconds=min(turn, begun) * ROUND_SECONDS)).isoformat()
    trucks = [_truck(index, moment) for index in range(part * PAGE, (part + 1) * PAGE)]
    return _answer(trucks, number + 1, part + 1 < PAGES)


def _truck(index: int, moment: str) -> dict[str, object]:
    place = {"latitude": 41 + index / 1e4, "longitude": -88.1, "headingDegrees": 90, "speedMilesPerHour": 61.2}
    street = {"reverseGeo": {"formattedLocation": "I-80, Joliet, IL"}}
    return {
        "id": str(281474976710656 + index),
        "name": str(index),
        "externalIds": {"samsara.serial": f"G{index}"},
        "gps": [{"time": moment, **place, **street}],
        "fuelPercents": [{"time": moment, "value": 54}],
    }


def _answer(trucks: list[dict[str, object]], cursor: int, has_more: bool) -> Response:
    document = {"data": trucks, "pagination": {"endCursor": str(cursor), "hasNextPage": has_more}}
    return Response(json.dumps(document), media_type="application/json")


app = Starlette(routes=[Route("/fleet/vehicles/stats/feed", feed)])
