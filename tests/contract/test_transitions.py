"""A route's life as a TMS sees it: each transition of the contract reached for real, by a truck that drives."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from domain.lifecycle import Environment
from tests.contract import shapes
from tests.contract.checks import accepted, problem, stored_route
from tests.contract.conftest import Clients
from tests.factories import JOLIET, NEWARK, PERRYSBURG, route_body
from tests.pipeline.world import messages_of, store_prices
from tests.service import Client, Service, eventually

STOPS = [JOLIET, PERRYSBURG, NEWARK]


@pytest.fixture(scope="module", autouse=True)
def _prices(service: Service) -> None:
    store_prices(service)


@pytest.fixture
def unreachable(client: Client) -> Client:
    """A company whose drivers no message reaches, so that its routes stay `planned` (decision 20)."""
    with client.service.database.transaction() as connection:
        connection.execute(
            "UPDATE drivers SET contact = 'json://127.0.0.1:9' WHERE company_id = %s", (client.fleet.company_id,)
        )
    return client


def arrive(client: Client, **changes: Any) -> dict[str, Any]:
    """Pushes a draft and puts its truck at the first stop. Gives the body that was pushed, and the route's id."""
    body = route_body(datetime.now(UTC), **{"stops": STOPS, **changes})
    route = accepted(client.push(body), 201)
    assert client.post_fixes(JOLIET, fuelPercent=60).status_code == 202
    return {**body, "id": route["id"]}


def planned(client: Client, route_id: str) -> dict[str, Any]:
    """The route once it is planned and the first attempt to send its plan has failed: while a worker holds the
    message, the route counts as started."""
    route = client.wait_for(route_id, "planned")
    eventually(lambda: messages_of(client, route_id)[0].attempts, lambda attempts: attempts > 0, wanted="an attempt")
    return route


def kinds(route: dict[str, Any]) -> list[str]:
    return [stop["type"] for stop in route["stops"]]


def test_an_arrival_at_the_first_stop_builds_the_plan(unreachable: Client) -> None:
    """Transitions: draft -> plan built, the truck has arrived at the first stop -> planned; `fuelPlan` is populated."""
    route = planned(unreachable, arrive(unreachable)["id"])

    assert shapes.ROUTE(route)
    assert route["fuelPlan"]["status"] == "planned"
    assert route["fuelPlan"]["stops"]
    assert route["distanceMiles"] == route["fuelPlan"]["totalDistanceMiles"]
    assert kinds(route) == ["waypoint", "waypoint", "destination"]
    assert route["stops"][0]["actualArrival"] is not None
    assert [route["id"]] == [found["id"] for found in unreachable.get("/v1/routes?status=planned").json()["data"]]


@pytest.mark.parametrize("environment", list(Environment))
def test_a_sent_plan_makes_the_route_active(clients: Clients, environment: Environment) -> None:
    """Transitions: planned -> plan sent -> active; fuel stops appear in `stops`; decision 9: sandbox too."""
    client = clients.tenant(environment)

    route = client.wait_for(arrive(client)["id"], "active")

    assert shapes.ROUTE(route)
    plan = route["fuelPlan"]
    assert plan["status"] == "active"
    fuel_stops = [stop for stop in route["stops"] if stop["type"] == "fuel_stop"]
    assert fuel_stops
    for shown, planned in zip(fuel_stops, plan["stops"], strict=True):
        for name in ("name", "address", "latitude", "longitude"):
            assert shown[name] == planned[name]
        assert shown["plannedArrival"] == planned["estimatedArrival"]
    assert [stop["sequence"] for stop in route["stops"]] == list(range(len(STOPS) + len(fuel_stops)))
    assert (kinds(route)[0], kinds(route)[-1]) == ("waypoint", "destination")
    assert [stop["name"] for stop in route["stops"] if stop["type"] != "fuel_stop"] == [stop["name"] for stop in STOPS]
    arrivals = [stop["plannedArrival"] for stop in route["stops"] if stop["plannedArrival"]]
    assert arrivals == sorted(arrivals)


def test_the_totals_of_a_plan_agree_with_its_rows(client: Client) -> None:
    """FuelPlan and FuelPlanStop: totals to the cent, in order of the road, numbered from 0, percents that can be."""
    plan = client.wait_for(arrive(client)["id"], "active")["fuelPlan"]
    stops = plan["stops"]

    assert [stop["sequence"] for stop in stops] == list(range(len(stops)))
    assert plan["totalGallons"] == pytest.approx(sum(stop["gallonsToFill"] for stop in stops), abs=1e-6)
    assert plan["totalCost"] == pytest.approx(sum(stop["totalCost"] for stop in stops), abs=0.005)
    assert plan["averagePricePerGallon"] == pytest.approx(plan["totalCost"] / plan["totalGallons"], abs=0.001)
    if plan["savingsPerGallon"] is not None:
        assert plan["savingsTotal"] == pytest.approx(plan["savingsPerGallon"] * plan["totalGallons"], abs=0.1)
    for stop in stops:
        assert stop["totalCost"] == pytest.approx(stop["gallonsToFill"] * stop["pricePerGallon"], abs=0.01)
        assert 0 <= stop["arrivalFuelPercent"] <= 100
        assert 0 <= stop["milesFromOrigin"] <= plan["totalDistanceMiles"]
    miles = [stop["milesFromOrigin"] for stop in stops]
    assert miles == sorted(miles)


def test_an_active_route_is_neither_updated_nor_canceled(client: Client) -> None:
    """Transitions: active -> POST with the same externalId, and DELETE -> unchanged, 409 `route_active`."""
    body = arrive(client)
    active = client.wait_for(body["id"], "active")

    problem(client.push(body), 409, "route_active")
    problem(client.push({**body, "stops": [JOLIET, NEWARK]}), 409, "route_active")
    problem(client.delete(f"/v1/routes/{active['id']}"), 409, "route_active")

    assert client.route(active["id"]) == active


def test_the_truck_reaches_a_fuel_stop_and_leaves_it(client: Client) -> None:
    """RouteStop: `actualArrival` is set from the truck's GPS when it reaches the stop, a `fuel_stop` too."""
    body = arrive(client)
    route = client.wait_for(body["id"], "active")
    (place, number), *_ = [(stop, number) for number, stop in enumerate(route["stops"]) if stop["type"] == "fuel_stop"]
    assert (place["actualArrival"], place["actualDeparture"]) == (None, None)
    now = datetime.now(UTC)

    def seen() -> Any:
        return client.route(route["id"])["stops"][number]

    client.post_fixes(place, at=now + timedelta(seconds=60))
    reached = eventually(seen, lambda stop: stop["actualArrival"], wanted="the arrival")
    assert reached["actualDeparture"] is None

    client.post_fixes({**place, "latitude": place["latitude"] + 0.02}, at=now + timedelta(seconds=180), speedMph=60)
    left = eventually(seen, lambda stop: stop["actualDeparture"], wanted="the departure")
    assert left["actualArrival"] == reached["actualArrival"] < left["actualDeparture"]
    assert client.route(route["id"])["status"] == "active"


def test_the_last_stop_completes_the_route(client: Client) -> None:
    """Decision 7: `completed` when the truck reached the last stop; the plan's own status follows."""
    body = arrive(client)
    client.wait_for(body["id"], "active")
    now = datetime.now(UTC)
    on_the_road = {**JOLIET, "latitude": 41.472}
    client.post_fixes(on_the_road, at=now + timedelta(seconds=60), speedMph=45)
    for number, stop in enumerate((PERRYSBURG, NEWARK), 3):
        client.post_fixes(stop, at=now + timedelta(seconds=60 * number))

    route = client.wait_for(body["id"], "completed")

    assert shapes.ROUTE(route)
    assert route["fuelPlan"]["status"] == "completed"
    assert all(stop["actualArrival"] for stop in route["stops"] if stop["type"] != "fuel_stop")
    first = route["stops"][0]
    assert first["actualArrival"] < first["actualDeparture"] < route["stops"][-1]["actualArrival"]
    problem(client.push(body), 409, "route_active")
    problem(client.delete(f"/v1/routes/{route['id']}"), 409, "route_active")


def test_a_planned_route_can_be_canceled(unreachable: Client) -> None:
    """Transitions: planned -> DELETE -> retired, 204; the message is not sent any more."""
    route_id = planned(unreachable, arrive(unreachable)["id"])["id"]

    assert unreachable.delete(f"/v1/routes/{route_id}").status_code == 204

    route = unreachable.route(route_id)
    assert (route["status"], route["fuelPlan"], kinds(route)) == (
        "canceled",
        None,
        ["waypoint", "waypoint", "destination"],
    )


def test_a_planned_route_that_is_updated_is_planned_anew(unreachable: Client) -> None:
    """Decision 4: a changed body discards any plan, and runs the import again; the truck that stands there counts."""
    body = arrive(unreachable)
    planned(unreachable, body["id"])
    first_plan = stored_route(unreachable, body["id"]).plan_id

    changed = accepted(unreachable.push({**body, "stops": [JOLIET, NEWARK], "reference": "PO-2"}), 200)
    second = unreachable.wait_for(body["id"], "planned")

    assert changed["status"] in ("pending", "draft", "planned")
    assert kinds(second) == ["waypoint", "destination"]
    assert second["name"] == "PO-2"
    assert stored_route(unreachable, body["id"]).plan_id != first_plan


def test_a_trip_without_stations_ends_in_error_and_starts_again_with_a_push(client: Client) -> None:
    """Decision 8: `error` where no feasible plan exists; a re-push starts it again."""
    empty_road = [JOLIET, {"name": "Far north", "latitude": 66.0, "longitude": -110.0}]
    body = arrive(client, stops=empty_road)

    route = client.wait_for(body["id"], "error")

    assert shapes.ROUTE(route)
    assert (route["fuelPlan"], route["pending"]) == (None, None)
    assert stored_route(client, body["id"]).closed_reason.startswith("No feasible fuel plan")
    problem(client.delete(f"/v1/routes/{body['id']}"), 409, "route_active")
    again = accepted(client.push({**body, "stops": STOPS}), 200)
    assert again["id"] == body["id"]
    client.wait_for(body["id"], "active")


def test_a_poller_sees_each_status_once(client: Client) -> None:
    """Events: clients poll GET /v1/routes/{id}; with its ETag, so that an unchanged answer costs nothing."""
    route_id = arrive(client)["id"]
    tag, seen = "", list[str]()
    deadline = datetime.now(UTC) + timedelta(seconds=20)
    while (not seen or seen[-1] != "active") and datetime.now(UTC) < deadline:
        answer = client.get(f"/v1/routes/{route_id}", headers={"If-None-Match": tag})
        if answer.status_code == 200:
            assert answer.headers["ETag"] != tag
            tag = answer.headers["ETag"]
            seen.append(answer.json()["status"])

    statuses = list(dict.fromkeys(seen))
    assert statuses in (["draft", "planned", "active"], ["draft", "active"], ["planned", "active"], ["active"])
