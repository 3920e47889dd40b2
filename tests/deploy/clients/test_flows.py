"""The logic of the Python client, without any input or output: retries, pages, waiting."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import httpx
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deploy.clients.python.fuelroute_client import (
    ApiError,
    RouteEnded,
    ServiceUnreachable,
    UnexpectedAnswer,
    WaitTimeout,
    flows,
)
from deploy.clients.python.fuelroute_client.flows import Flow, Pause, Reply, Request

Result = TypeVar("Result")

ROUTE: dict[str, Any] = {
    "id": "rte_1",
    "externalId": "LOAD-1",
    "reference": None,
    "name": "LOAD-1",
    "status": "draft",
    "environment": "sandbox",
    "pending": None,
    "vehicle": {"id": None, "unitNumber": "101"},
    "driver": {"id": None, "name": "Ann Lee"},
    "scheduledStart": "2026-12-01T08:00:00Z",
    "stops": [],
    "distanceMiles": None,
    "fuelPlan": None,
    "createdAt": "2026-12-01T07:00:00Z",
}


class World:
    """The other side of a flow: answers its requests in turn, the last answer again and again. Its clock stands still
    but for pauses and lost connections, so that no test waits."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.pauses: list[float] = []
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def run(self, flow: Flow[Result]) -> Result:
        reply: Reply = None
        while True:
            try:
                step = flow.send(reply)
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            if isinstance(step, Pause):
                self.pauses.append(step.seconds)
                self.now += step.seconds
                reply = None
            else:
                self.requests.append(step)
                reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
                self.now += 0.0 if isinstance(reply, httpx.Response) else step.timeout_seconds


@pytest.fixture
def make_world(monkeypatch: pytest.MonkeyPatch) -> type[World]:
    class Watched(World):
        def __init__(self, *replies: Reply) -> None:
            super().__init__(*replies)
            monkeypatch.setattr(flows, "time", self)

    return Watched


def answer(status: int, document: Any = None, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=document, headers={name.replace("_", "-"): headers[name] for name in headers})


def problem(status: int, code: str, **headers: str) -> httpx.Response:
    return answer(status, {"title": code, "status": status, "code": code, "detail": f"it is {code}"}, **headers)


def route(status: str = "draft", etag: str = '"1"', **changes: Any) -> httpx.Response:
    return answer(200, {**ROUTE, "status": status, **changes}, ETag=etag)


LOST = httpx.ConnectError("Connection refused")


def test_a_failed_push_is_sent_again_with_growing_pauses(make_world: type[World]) -> None:
    world = make_world(problem(500, "internal_error"), problem(503, "away"), problem(502, "away"), answer(201, ROUTE))

    pushed = world.run(flows.push_route({"externalId": "LOAD-1"}, 60))

    assert (pushed.outcome, pushed.route.external_id) == ("created", "LOAD-1")
    assert len({request.body for request in world.requests}) == 1
    assert [0.25 <= world.pauses[0] <= 0.5, 0.5 <= world.pauses[1] <= 1, 1 <= world.pauses[2] <= 2] == [True] * 3


@pytest.mark.parametrize(("status", "outcome"), [(201, "created"), (200, "updated"), (202, "held")])
def test_the_outcome_of_a_push_is_its_status(make_world: type[World], status: int, outcome: str) -> None:
    assert make_world(answer(status, ROUTE)).run(flows.push_route({}, 60)).outcome == outcome


def test_a_decimal_is_sent_as_a_number(make_world: type[World]) -> None:
    """Databases give coordinates so, and the API takes no number in a text."""
    world = make_world(answer(201, ROUTE))

    world.run(flows.push_route({"stops": [{"latitude": Decimal("41.4620")}]}, 60))

    assert world.requests[0].body == b'{"stops":[{"latitude":41.4620}]}'


def test_a_lost_connection_is_retried_and_then_told(make_world: type[World]) -> None:
    world = make_world(LOST)

    with pytest.raises(ServiceUnreachable, match="Connection refused") as raised:
        world.run(flows.read_me(60))

    assert raised.value.__cause__ is LOST
    assert 2 <= len(world.requests) <= 4
    assert world.now <= 1060 + 1


def test_too_many_requests_wait_as_long_as_the_service_asks(make_world: type[World]) -> None:
    world = make_world(problem(429, "rate_limited", Retry_After="7"), answer(201, ROUTE))

    assert world.run(flows.push_route({}, 60)).outcome == "created"

    assert 7 <= world.pauses[0] <= 7.5


def test_no_retry_begins_after_the_time_is_over(make_world: type[World]) -> None:
    world = make_world(problem(429, "rate_limited", Retry_After="30"))

    with pytest.raises(ApiError) as raised:
        world.run(flows.push_route({}, 20))

    assert (raised.value.code, raised.value.retry_after_seconds, world.pauses) == ("rate_limited", 30, [])


@given(st.integers(400, 499).filter(lambda status: status != 429))
def test_no_other_error_of_the_client_is_retried(status: int) -> None:
    world = World(problem(status, "refused"))

    with pytest.raises(ApiError) as raised:
        world.run(flows.get_route("rte_1", 60))

    assert (raised.value.status, raised.value.code, len(world.requests)) == (status, "refused", 1)


@given(st.integers(0, 2000), st.sampled_from([500, 502, 503, 504]))
def test_pauses_are_bounded(attempt: int, status: int) -> None:
    seconds = flows._wait_seconds(problem(status, "away"), attempt)

    assert seconds is not None
    assert 0.25 <= seconds <= 10


@example(b'{"code": "caf\xe9"}', 403, "")
@given(st.binary(max_size=300), st.integers(300, 599), st.sampled_from(["", "-1", "1e9", "²", "soon"]))
def test_any_answer_is_an_error_of_the_client(content: bytes, status: int, retry_after: str) -> None:
    """A proxy may answer whatever it likes."""
    reply = httpx.Response(status, content=content, headers=[(b"Retry-After", retry_after.encode())])

    with pytest.raises((ApiError, UnexpectedAnswer)):
        World(reply).run(flows.get_route("rte_1", 0))


@pytest.mark.parametrize("content", [b"", b"<html>", b"[]", b'{"id": 1}', b"\xff", b'{"id": "\xe9"}'])
def test_a_success_that_is_not_the_apis_is_told_so(content: bytes) -> None:
    with pytest.raises(UnexpectedAnswer, match="is the address right"):
        World(httpx.Response(200, content=content)).run(flows.get_route("rte_1", 0))


def test_a_newer_service_does_not_break_the_client(make_world: type[World]) -> None:
    newer = answer(200, {**ROUTE, "status": "paused", "mood": "good", "pending": {"reason": "new", "detail": "?"}})

    found = make_world(newer).run(flows.get_route("rte_1", 60))

    assert found.status == "paused"
    assert found.pending is not None
    assert found.pending.reason == "new"
    assert msgspec.json.decode(msgspec.json.encode(found))["status"] == "paused"


def test_faults_are_named(make_world: type[World]) -> None:
    faults = [{"field": "stops[1].latitude", "message": "too far north"}]
    refused = {"code": "validation_error", "detail": "The body has 1 invalid field.", "errors": faults}

    with pytest.raises(ApiError) as raised:
        make_world(answer(400, refused, X_Request_Id="abc")).run(flows.push_route({}, 60))

    assert str(raised.value) == (
        "400 validation_error: The body has 1 invalid field.; stops[1].latitude: too far north (request abc)"
    )


def test_ids_are_quoted(make_world: type[World]) -> None:
    world = make_world(route())

    world.run(flows.get_route("../me?x=1#", 60))

    assert world.requests[0].path == "/v1/routes/..%2Fme%3Fx%3D1%23"


@given(st.integers(0, 7), st.integers(1, 4))
def test_pages_hold_each_entry_once(total: int, page_size: int) -> None:
    everything = [{"id": str(number), "name": None, "displayName": None, "externalId": None} for number in range(total)]
    seen: list[str] = []
    listing: Any = flows.drivers(name="Lee", page_size=page_size)
    while listing is not None:
        ask = listing.read(60)
        query = next(ask).query
        assert query["name"] == "Lee"
        start = int(query["offset"])
        shown = {"data": everything[start : start + int(query["limit"])], "total": total, "limit": 1, "offset": start}
        with pytest.raises(StopIteration) as done:
            ask.send(answer(200, shown))
        drivers, listing = done.value.value
        seen += [driver.id for driver in drivers]

    assert seen == [driver["id"] for driver in everything]


def test_a_service_without_changes_is_told(make_world: type[World]) -> None:
    world = make_world(answer(200, {"data": [], "total": 0, "limit": 100, "offset": 0}))

    with pytest.raises(UnexpectedAnswer, match="too old"):
        world.run(flows.changes(since=datetime(2026, 12, 1, tzinfo=UTC), cursor=None, page_size=100).read(60))


@pytest.mark.parametrize("given", [{}, {"since": datetime(2026, 12, 1, tzinfo=UTC), "cursor": "x"}])
def test_changes_need_one_place_to_begin(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give `since`"):
        flows.changes(**{"since": None, "cursor": None, "page_size": 100, **given})


def test_filters_are_sent_as_the_api_names_them() -> None:
    listing = flows.routes(
        status="draft",
        external_id=None,
        vehicle_id="veh_1",
        scheduled_from=datetime(2026, 12, 1, tzinfo=UTC),
        scheduled_to=None,
        page_size=100,
    )

    assert listing.query == {"status": "draft", "vehicleId": "veh_1", "from": "2026-12-01T00:00:00+00:00"}


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a time zone"):
        flows._text(datetime(2026, 12, 1))


def wait(world: World, status: str, seconds: float = 600) -> Any:
    states: list[str] = []
    found = world.run(flows.wait_until("rte_1", status, seconds, 60, lambda route: states.append(route.status)))
    return found, states


def test_waiting_asks_with_the_etag_in_growing_pauses(make_world: type[World]) -> None:
    unchanged = [answer(304, ETag='"1"')] * 12
    world = make_world(route("draft"), *unchanged, route("planned", '"2"'), route("active", '"3"'))

    found, states = wait(world, "active")

    assert found.status == "active"
    assert states == ["draft", "planned", "active"]
    tags = [request.headers.get("If-None-Match") for request in world.requests]
    assert tags == [None, *['"1"'] * 13, '"2"']
    assert world.pauses[:3] == [1, 1.5, 2.25]
    assert max(world.pauses) == 30
    assert world.pauses[-1] == 1  # something moves: look sooner


@pytest.mark.parametrize(("status", "wanted"), [("completed", "active"), ("active", "planned"), ("error", "error")])
def test_a_route_that_is_further_on_its_way_has_been_there(make_world: type[World], status: str, wanted: str) -> None:
    assert wait(make_world(route(status)), wanted)[0].status == status


@pytest.mark.parametrize(("status", "wanted"), [("error", "active"), ("canceled", "draft"), ("completed", "canceled")])
def test_a_route_that_ended_otherwise_is_told(make_world: type[World], status: str, wanted: str) -> None:
    with pytest.raises(RouteEnded) as raised:
        wait(make_world(route(status)), wanted)

    assert raised.value.route.status == status


@given(st.floats(0, 5000))
def test_waiting_ends_in_time(seconds: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        world = World(route("draft"), answer(304, ETag='"1"'))
        patch.setattr(flows, "time", world)

        with pytest.raises(WaitTimeout) as raised:
            wait(world, "active", seconds)

    assert raised.value.route.status == "draft"
    assert sum(world.pauses) == pytest.approx(seconds)
