"""From the push to the last stop, through real processes: what a TMS sees, and what the driver gets."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deploy.drive import drive_route
from domain.lifecycle import Environment
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, route_body
from tests.pipeline.world import messages_of, store_prices
from tests.service import Client, Service, eventually

STOPS = [JOLIET, PERRYSBURG, NEWARK]


@pytest.fixture(scope="module", autouse=True)
def _prices(service: Service) -> None:
    store_prices(service)


def start_route(client: Client, **changes: Any) -> str:
    """Pushes a draft and puts the truck at its first stop. Gives the route's id."""
    pushed = client.push(route_body(datetime.now(UTC), **{"stops": STOPS, **changes}))
    assert (pushed.status_code, pushed.json()["status"]) == (201, "draft")
    fed = client.post_fixes(JOLIET, fuelPercent=60)
    assert (fed.status_code, fed.json()) == (202, {"accepted": 3, "rejected": []})
    return str(pushed.json()["id"])


def test_a_live_route_goes_from_draft_to_completed(client: Client) -> None:
    route_id = start_route(client)

    active = client.wait_for(route_id, "active")

    plan = active["fuelPlan"]
    assert plan["status"] == "active"
    assert plan["stops"], "60 % of 200 gallons do not reach Newark"
    assert active["distanceMiles"] == plan["totalDistanceMiles"] == pytest.approx(790, rel=0.05)
    assert plan["totalCost"] == pytest.approx(sum(stop["totalCost"] for stop in plan["stops"]), abs=0.001)
    assert plan["totalGallons"] == pytest.approx(sum(stop["gallonsToFill"] for stop in plan["stops"]), abs=0.001)
    kinds = [stop["type"] for stop in active["stops"]]
    assert kinds.count("fuel_stop") == len(plan["stops"])
    assert (kinds[0], kinds[-1]) == ("waypoint", "destination")
    assert [stop["sequence"] for stop in active["stops"]] == list(range(len(kinds)))
    assert active["stops"][0]["actualArrival"] is not None

    now = datetime.now(UTC)
    for stop in (PERRYSBURG, NEWARK):
        now += timedelta(seconds=60)
        client.post_fixes(stop, at=now)
    completed = client.wait_for(route_id, "completed")

    assert completed["fuelPlan"]["status"] == "completed"
    waypoints = [stop for stop in completed["stops"] if stop["type"] != "fuel_stop"]
    assert all(stop["actualArrival"] for stop in waypoints)


def test_the_driver_gets_one_message_with_every_fuel_stop(client: Client) -> None:
    route_id = start_route(client)
    active = client.wait_for(route_id, "active")

    (message,) = messages_of(client, route_id)

    assert (message.status, message.channel) == ("sent", "outbox")
    positions = [message.text.find(stop["name"]) for stop in active["fuelPlan"]["stops"]]
    assert positions == sorted(positions)
    assert -1 not in positions


def test_a_driver_who_fuels_at_the_first_stop_gets_one_corrected_message(client: Client) -> None:
    route_id = start_route(client)
    first = client.wait_for(route_id, "active")["fuelPlan"]

    client.post_fixes(JOLIET, at=datetime.now(UTC) + timedelta(seconds=30), fuelPercent=95)
    messages = eventually(lambda: messages_of(client, route_id), lambda found: len(found) > 1)

    corrected = eventually(lambda: client.route(route_id), lambda route: bool(route["fuelPlan"] != first))
    assert corrected["status"] == "active"
    assert corrected["fuelPlan"]["totalGallons"] < first["totalGallons"]
    assert corrected["stops"][0]["plannedArrival"] is not None
    assert [message.text.split(" plan")[0] for message in messages] == ["Fuel", "CORRECTED fuel"]
    for stop, seconds in ((JOLIET, 90), (PERRYSBURG, 150)):  # the tank is emptied again: too late
        client.post_fixes(stop, at=datetime.now(UTC) + timedelta(seconds=seconds), fuelPercent=40)
    eventually(lambda: client.route(route_id), lambda route: bool(route["stops"][1]["actualArrival"]))
    assert len(messages_of(client, route_id)) == 2


def test_a_sandbox_route_passes_the_same_statuses_and_messages_nobody(service: Service) -> None:
    with service.new_tenant(Environment.SANDBOX) as client:
        route_id = start_route(client)

        active = client.wait_for(route_id, "active")

        assert active["environment"] == "sandbox"
        (message,) = messages_of(client, route_id)
        assert (message.status, message.channel) == ("suppressed", "sandbox")


def test_a_sandbox_route_is_completed_by_a_day_of_positions_posted_at_once(service: Service) -> None:
    with service.new_tenant(Environment.SANDBOX) as client:
        now = datetime.now(UTC)
        route_id = client.push(route_body(now, stops=STOPS)).json()["id"]
        for hour, stop in enumerate(STOPS):
            client.post_fixes(stop, at=now + timedelta(hours=8 * hour), fuelPercent=70)

        completed = client.wait_for(route_id, "completed")

        assert completed["distanceMiles"] == pytest.approx(790, rel=0.05)


def test_a_truck_jumps_through_a_live_route_within_seconds(client: Client, service: Service) -> None:
    settings = service.settings.model_copy(update={"api_url": service.url})
    for _ in range(2):  # the second time its newest fix is a moment old
        pushed = client.push(route_body(datetime.now(UTC), stops=STOPS)).json()

        driven = drive_route(settings, pushed["id"], jump=True)

        assert (driven["fixes"], driven["status"]) == (9, "completed")


def test_a_truck_that_leaves_its_road_gets_a_new_plan(service: Service) -> None:
    with service.new_tenant(Environment.SANDBOX, replan_en_route=True) as client:
        route_id = start_route(client)
        before = client.wait_for(route_id, "active")
        south = {"latitude": JOLIET["latitude"] - 0.65, "longitude": JOLIET["longitude"]}
        standing, now = {"unitNumber": "101", **south, "speedMph": 0}, datetime.now(UTC)
        times = [(now + timedelta(minutes=minutes)).isoformat() for minutes in range(60, 81, 4)]
        fixes = [{**standing, "recordedAt": time} for time in times]
        fed = client.post("/telematics/positions", json={"positions": fixes})
        assert (fed.status_code, fed.json()) == (202, {"accepted": 6, "rejected": []})

        after = eventually(lambda: client.route(route_id), lambda route: route["fuelPlan"] != before["fuelPlan"])
        _, corrected = eventually(lambda: messages_of(client, route_id), lambda found: len(found) > 1)

        assert after["status"] == "active"
        assert after["distanceMiles"] != before["distanceMiles"]
        assert corrected.text.startswith("CORRECTED")


def test_a_live_position_moves_no_sandbox_route(service: Service) -> None:
    with service.new_tenant() as live, service.client(live.fleet, Environment.SANDBOX) as sandbox:
        rehearsal = sandbox.push(route_body(datetime.now(UTC), stops=STOPS)).json()["id"]

        route_id = start_route(live)
        live.wait_for(route_id, "active")

        assert sandbox.route(rehearsal)["status"] == "draft"


def test_a_truck_that_stands_at_the_first_stop_when_its_route_is_pushed_has_arrived(client: Client) -> None:
    client.post_fixes(JOLIET, at=datetime.now(UTC) - timedelta(minutes=5))

    pushed = client.push(route_body(datetime.now(UTC), stops=STOPS))

    client.wait_for(pushed.json()["id"], "active")


def test_an_update_of_a_planned_route_discards_its_message(service: Service) -> None:
    # no such gateway: the message fails and the route stays planned
    with service.new_tenant(message_url="json://gateway.invalid/") as client:
        body = route_body(datetime.now(UTC), stops=STOPS)
        route_id = client.push(body).json()["id"]
        client.post_fixes(JOLIET, fuelPercent=60)
        eventually(lambda: messages_of(client, route_id), lambda found: bool(found) and found[0].attempts > 0)
        assert client.route(route_id)["status"] == "planned"

        updated = client.push({**body, "reference": "PO-2"})

        assert (updated.status_code, updated.json()["reference"]) == (200, "PO-2")
        eventually(
            lambda: messages_of(client, route_id),
            lambda found: [message.status for message in found] == ["failed", "pending"],
        )


def test_a_route_that_is_too_long_for_the_tank_becomes_error(client: Client) -> None:
    nowhere = {"name": "Anchorage", "latitude": 61.2, "longitude": -149.9}

    route_id = start_route(client, stops=[JOLIET, nowhere])

    route = client.wait_for(route_id, "error")
    assert route["fuelPlan"] is None


def test_a_mapping_imports_waiting_routes_at_once(client: Client, service: Service) -> None:
    from domain.routes.intake.fleet_changes import add_mapping

    held = client.push(route_body(datetime.now(UTC), vehicle={"unitNumber": "X-77"}))
    assert (held.status_code, held.json()["status"]) == (202, "pending_mapping")

    with service.database.transaction() as connection:
        waiting = add_mapping(connection, client.fleet.company_id, "unit_number", "X-77", client.fleet.trucks[1], DOT)

    assert len(waiting) == 1
    route = client.wait_for(held.json()["id"], "draft")
    assert route["vehicle"] == {"id": client.fleet.shown_trucks[1], "unitNumber": "102"}


def test_the_import_pass_imports_a_mapped_route_whose_job_was_lost(client: Client, service: Service) -> None:
    from domain.routes.intake.fleet_changes import add_mapping

    held = client.push(route_body(datetime.now(UTC), driver={"name": "A. Lee"}))
    assert held.json()["pending"]["reason"] == "driver_unmapped"

    with service.database.transaction() as connection:
        add_mapping(connection, client.fleet.company_id, "driver_name", "A. Lee", client.fleet.drivers[0], DOT)

    route = client.wait_for(held.json()["id"], "draft")
    assert route["driver"] == {"id": client.fleet.shown_drivers[0], "name": "Ann Lee"}
