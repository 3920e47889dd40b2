"""The Python client against a running service, blocking and with asyncio."""

import asyncio
import inspect
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.clients.python.fuelroute_client import (
    ApiError,
    AsyncFuelroute,
    Change,
    DriverRef,
    Fuelroute,
    Misconfigured,
    PreviewInput,
    PreviewStopInput,
    PreviewVehicleInput,
    RouteInput,
    RouteStopInput,
    ServiceUnreachable,
    VehicleRef,
)
from tests.factories import JOLIET, NEWARK, route_body
from tests.pipeline.world import store_prices
from tests.ports import own_port
from tests.service import Client, Service, eventually


@pytest.fixture
def fuelroute(client: Client) -> Iterator[Fuelroute]:
    with Fuelroute(client.service.url, client.key) as one:
        yield one


def body(**changes: Any) -> dict[str, Any]:
    return route_body(datetime.now(UTC) + timedelta(hours=1), **{"stops": [JOLIET, NEWARK], **changes})


def test_a_route_is_pushed_found_read_and_canceled(fuelroute: Fuelroute) -> None:
    load = body()

    pushed = fuelroute.push_route(load)
    again = fuelroute.push_route(load)

    assert (pushed.outcome, again.outcome) == ("created", "updated")
    assert again.route == pushed.route == fuelroute.get_route(pushed.route.id)
    assert fuelroute.find_route(load["externalId"]) == pushed.route
    assert pushed.route.stops[0].latitude == JOLIET["latitude"]

    fuelroute.cancel_route(pushed.route.id)

    assert fuelroute.get_route(pushed.route.id).status == "canceled"
    assert fuelroute.find_route("no such load") is None


def test_a_load_is_previewed(fuelroute: Fuelroute) -> None:
    stops = [PreviewStopInput(town="Joliet, IL"), PreviewStopInput(town="Newark, NJ")]
    typed = fuelroute.preview_load(PreviewInput(stops=stops, vehicle=PreviewVehicleInput(fuel_percent=95)))
    plain = fuelroute.preview_load({"stops": [JOLIET, NEWARK], "vehicle": {"unitNumber": "101"}})

    assert typed.distance_miles > 700
    assert "vehicle.mpg" in {one.field for one in typed.assumed}
    assert plain.vehicle.unit_number == "101"
    with pytest.raises(ApiError, match="not_found"):
        fuelroute.preview_load({"routeId": "rte_none"})


def test_a_typed_route_is_pushed(fuelroute: Fuelroute) -> None:
    pushed = fuelroute.push_route(
        RouteInput(
            external_id="LOAD-T",
            vehicle=VehicleRef(unit_number="nobody's"),
            driver=DriverRef(name="Ann Lee"),
            scheduled_start=datetime.now(UTC),
            stops=[
                RouteStopInput(name="Joliet", latitude=41.462, longitude=-88.125),
                RouteStopInput(name="Newark", latitude=40.695, longitude=-74.155, address=None),
            ],
        )
    )

    assert (pushed.outcome, pushed.route.status) == ("held", "pending_mapping")
    assert pushed.route.pending is not None
    assert pushed.route.pending.reason == "vehicle_unmapped"


def test_the_key_and_the_fleet_are_read(fuelroute: Fuelroute) -> None:
    assert fuelroute.me().rate_limit.limit == 600
    assert [vehicle.unit_number for vehicle in fuelroute.vehicles(page_size=1)] == ["101", "102"]
    assert [driver.name for driver in fuelroute.drivers(name="lee")] == ["Ann Lee"]


def test_lists_go_on_over_pages(fuelroute: Fuelroute) -> None:
    made = {fuelroute.push_route(body()).route.id for _ in range(5)}

    assert {route.id for route in fuelroute.routes(page_size=2)} == made
    assert list(fuelroute.routes(status="active")) == []
    assert len(list(fuelroute.routes(scheduled_from=datetime.now(UTC), page_size=3))) == 5


def settled(expected: int, ask: Callable[[], Iterable[Change]]) -> list[Change]:
    """The changes once there are so many: transactions of other tests may hold up the last ones."""
    return eventually(lambda: list(ask()), lambda found: len(found) == expected)


def test_changes_are_followed_from_page_to_page(fuelroute: Fuelroute) -> None:
    begun = datetime.now(UTC) - timedelta(minutes=1)
    made = [fuelroute.push_route(body()).route.id for _ in range(5)]

    changes = settled(5, lambda: fuelroute.changes(since=begun, page_size=2))
    fuelroute.cancel_route(made[1])
    (last,) = settled(1, lambda: fuelroute.changes(cursor=changes[-1].cursor))
    again = list(fuelroute.changes(cursor=changes[2].cursor, page_size=2))

    assert [change.route.id for change in changes] == made
    assert (last.route.id, last.route.status) == (made[1], "canceled")
    assert [change.route.id for change in again] == [*made[2:], made[1]]
    assert list(fuelroute.changes(cursor=last.cursor)) == []


def test_errors_say_what_is_wrong(fuelroute: Fuelroute, client: Client) -> None:
    bad = body(stops=[JOLIET, {**NEWARK, "latitude": 91}])

    with pytest.raises(ApiError) as refused:
        fuelroute.push_route(bad)
    with pytest.raises(ApiError) as unknown:
        fuelroute.get_route("rte_0")
    with Fuelroute(client.service.url, "svc_live_nobody") as stranger, pytest.raises(ApiError) as strange:
        stranger.me()

    assert (refused.value.status, refused.value.code) == (400, "validation_error")
    assert [fault.field for fault in refused.value.errors] == ["stops[1].latitude"]
    assert refused.value.request_id
    assert (unknown.value.status, unknown.value.code) == (404, "not_found")
    assert (strange.value.status, strange.value.code) == (401, "unauthorized")


def test_a_driven_route_is_waited_for(fuelroute: Fuelroute, client: Client, service: Service) -> None:
    store_prices(service)
    route = fuelroute.push_route(body()).route
    later = threading.Timer(0.5, lambda: client.post_fixes(JOLIET, fuelPercent=60))
    states: list[str] = []

    later.start()
    found = fuelroute.wait_until(
        route.id, "active", timeout_seconds=180, on_change=lambda one: states.append(one.status)
    )
    later.join()

    assert found.status == "active"
    assert states[0] == "draft"
    assert found.fuel_plan is not None
    assert found.fuel_plan.stops[0].gallons_to_fill > 0


def test_asyncio_does_the_same(client: Client) -> None:
    async def use() -> None:
        async with AsyncFuelroute(client.service.url, client.key) as fuelroute:
            pushes = await asyncio.gather(*(fuelroute.push_route(body()) for _ in range(20)))
            assert {pushed.outcome for pushed in pushes} == {"created"}
            assert {route.id async for route in fuelroute.routes(page_size=7)} == {one.route.id for one in pushes}
            assert [vehicle.unit_number async for vehicle in fuelroute.vehicles(unit_number="101")] == ["101"]
            assert [driver.name async for driver in fuelroute.drivers(name="Bo")] == ["Bo Diaz"]
            route = pushes[0].route
            assert (await fuelroute.wait_until(route.id, "draft")).id == route.id
            await fuelroute.cancel_route(route.id)
            since = datetime.now(UTC) - timedelta(minutes=1)
            async with asyncio.timeout(180):  # transactions of other tests may hold up the last ones
                while len([change async for change in fuelroute.changes(since=since)]) < len(pushes):
                    await asyncio.sleep(0.1)
            assert {change.route.id async for change in fuelroute.changes(since=since)} == {
                one.route.id for one in pushes
            }
            assert (await fuelroute.get_route(route.id)).status == "canceled"
            found = await fuelroute.find_route(route.external_id)
            assert found is not None
            assert (found.id, (await fuelroute.me()).key.environment) == (route.id, "live")

    asyncio.run(use())


def test_both_clients_have_the_same_methods() -> None:
    def surface(kind: type) -> dict[str, list[str]]:
        methods = {name: value for name, value in vars(kind).items() if name[0] != "_" and not name.endswith("close")}
        return {name: list(inspect.signature(value).parameters) for name, value in methods.items()}

    assert surface(Fuelroute) == surface(AsyncFuelroute)


def test_a_service_that_is_away_is_told_in_time() -> None:
    url = f"http://127.0.0.1:{own_port()}"

    with Fuelroute(url, "svc_live_x", timeout_seconds=0.4) as fuelroute, pytest.raises(ServiceUnreachable):
        fuelroute.me()

    async def use() -> None:
        async with AsyncFuelroute(url, "svc_live_x", timeout_seconds=0.4) as fuelroute:
            await fuelroute.me()

    with pytest.raises(ServiceUnreachable):
        asyncio.run(use())


def test_an_answer_without_an_end_is_told_in_time() -> None:
    def trickle() -> Iterator[bytes]:
        while True:
            time.sleep(0.01)
            yield b" "

    async def trickle_slowly() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.01)
            yield b" "

    async def use() -> None:
        transport = httpx.MockTransport(lambda _: httpx.Response(200, content=trickle_slowly()))
        async with httpx.AsyncClient(transport=transport) as http:
            await AsyncFuelroute("http://a", "key", timeout_seconds=0.1, http=http).me()

    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=trickle()))
    in_time = pytest.raises(ServiceUnreachable, match=r"no whole answer within 0\.1 s")
    with httpx.Client(transport=transport) as http, in_time:
        Fuelroute("http://a", "key", timeout_seconds=0.1, http=http).me()
    with in_time:
        asyncio.run(use())


def test_retries_go_over_the_wire() -> None:
    """Both clients run the same flows: here with a transport that fails once."""
    asked: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) % 2:
            return httpx.Response(429, json={"code": "rate_limited"}, headers={"Retry-After": "0"})
        return httpx.Response(200, json={"data": [], "total": 0, "limit": 100, "offset": 0})

    async def use() -> AsyncIterator[object]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(reply)) as http:
            yield [one async for one in AsyncFuelroute("http://a/b/", "key", http=http).vehicles(vin="V" * 17)]

    with httpx.Client(transport=httpx.MockTransport(reply)) as http:
        assert list(Fuelroute("http://a/b/", "key", http=http).vehicles(vin="V" * 17)) == []
    asyncio.run(anext(use()))  # type: ignore[arg-type]

    assert [str(one.url) for one in asked] == [f"http://a/b/v1/vehicles?vin={'V' * 17}&limit=100&offset=0"] * 4
    assert {one.headers["Authorization"] for one in asked} == {"Bearer key"}


@pytest.mark.parametrize(
    ("url", "key", "said"),
    [
        ("", "svc_live_x", "set FUELROUTE_API_URL"),
        ("ftp://host", "svc_live_x", "must begin with https://"),
        ("localhost:8080", "svc_live_x", "must begin with https://"),
        ("http://host:port", "svc_live_x", "base_url is no address"),
        ("http://host", "", "set FUELROUTE_API_KEY"),
        ("http://host", "svc_live_x\nEvil: 1", "characters that no key has"),
        ("http://host", "svc_live_ü", "characters that no key has"),
    ],
)
def test_what_cannot_work_is_refused_at_once(url: str, key: str, said: str) -> None:
    with pytest.raises(Misconfigured, match=said) as raised:
        Fuelroute(url, key)

    assert not key or key not in str(raised.value)


def test_address_and_key_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUELROUTE_API_URL", "https://api.example.com/")
    monkeypatch.setenv("FUELROUTE_API_KEY", "svc_live_secret\n")

    with Fuelroute() as fuelroute:
        assert repr(fuelroute) == "Fuelroute('https://api.example.com')"


def test_the_clients_own_distribution_stands_alone(tmp_path: Path) -> None:
    """It imports nothing of Fuelroute, and can be installed beside it."""
    package = Path(__file__).parents[3] / "deploy" / "clients" / "python"
    code = (
        "import sys, fuelroute_client as own\n"
        "assert not {'deploy', 'domain', 'ingress'} & set(sys.modules)\n"
        "import deploy.clients.python.fuelroute_client as inner\n"
        "assert own.Route is not inner.Route and own.__all__ == inner.__all__\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(package)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
