"""The sandbox drives itself through real processes: from a push to the last stop, with nobody else's help."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.lifecycle import Environment
from tests.factories import JOLIET, NEWARK, PERRYSBURG, route_body
from tests.pipeline.world import messages_of, store_prices
from tests.service import Client, Service

STOPS = [JOLIET, PERRYSBURG, NEWARK]


@pytest.fixture(scope="module", autouse=True)
def _prices(service: Service) -> None:
    store_prices(service)


def pushed(client: Client, *, expected: int = 201, **changes: Any) -> dict[str, Any]:
    start = changes.pop("start", datetime.now(UTC) + timedelta(days=1))
    answer = client.push(route_body(start, **{"stops": STOPS, **changes}))
    assert answer.status_code == expected, answer.text
    return dict(answer.json())


def test_a_route_of_tomorrow_is_driven_from_draft_to_completed_today(service: Service) -> None:
    start = datetime.now(UTC) + timedelta(days=1)
    with service.new_tenant(Environment.SANDBOX, sandbox_autodrive="3600x") as client:
        route = pushed(client, start=start)
        assert route["status"] == "draft"

        active = client.wait_for(route["id"], "active", "completed")
        assert active["fuelPlan"]["stops"], "25 % of a tank do not reach Newark"
        completed = client.wait_for(route["id"], "completed", seconds=60)

        waypoints = [stop for stop in completed["stops"] if stop["type"] != "fuel_stop"]
        arrivals = [datetime.fromisoformat(stop["actualArrival"]) for stop in waypoints]
        assert arrivals == sorted(arrivals)
        assert abs(arrivals[0] - start) < timedelta(minutes=6)
        assert timedelta(hours=12) < arrivals[-1] - arrivals[0] < timedelta(hours=17)
        (message,) = messages_of(client, route["id"])
        assert (message.status, message.channel) == ("suppressed", "sandbox")
