"""Scenarios: stretches of a route's way, during which a process dies at a fault point.

Each arranges what it needs, calls `world.strike()`, and goes on as a TMS, a truck or an operator does who is not
answered: it asks again. In the end it looks for what this stretch must have led to, as if nothing had happened.
`World.prove_nothing_is_left` then looks for what holds after every one.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import IN_CLEAR
from domain.connectors.connectors import ConnectorValues, add_connector
from domain.ids import shown_id
from domain.lifecycle import Environment
from domain.messages.message_life import MessageStatus
from tests.domain.webhooks.endpoints import make_endpoint
from tests.factories import DOT, JOLIET, NEWARK, route_body
from tests.faults.world import SECONDS, Tms, World, insist, mapping_command
from tests.gateway import Gateway
from tests.service import eventually
from tests.vendors.samsara import running_samsara
from tests.webhook_receiver import Receiver


def delivered(gateway: Gateway) -> Counter[str]:
    """The number of times that the gateway got each message, by the id in its text."""
    return Counter(one["message"].rpartition("Message ")[2].split()[0] for one in gateway.received)


# --- A push and its import ---------------------------------------------------------------------------------------


def push_a_route(world: World) -> None:
    tms, body = world.tms(), route_body(datetime.now(UTC))
    world.strike()
    route_id = tms.push(body)
    tms.wait_for(route_id, "draft")
    world.await_strike()
    assert [one["id"] for one in tms.found(body["externalId"])] == [route_id]
    world.expect_messages(tms, route_id, 0)


def push_a_route_of_an_unknown_truck(world: World) -> None:
    """It is held, and imported once the truck is in the fleet."""
    tms, body = world.tms(), route_body(datetime.now(UTC), vehicle={"unitNumber": "X-77"})
    world.strike()
    route_id = tms.push(body)
    held = tms.wait_for(route_id, "pending_mapping")
    world.await_strike()
    assert held["pending"]["reason"] == "vehicle_unmapped"
    world.command(*mapping_command(tms, "X-77"))
    tms.wait_for(route_id, "draft")


def update_a_draft(world: World) -> None:
    tms = world.tms()
    route_id, body = tms.draft()
    world.strike()
    assert tms.push({**body, "reference": "PO-2"}) == route_id
    world.await_strike()
    assert tms.wait_for(route_id, "draft")["reference"] == "PO-2"


def await_refusal(tms: Tms, route_id: str) -> Any:
    """The message of a route, once the gateway has refused it."""
    found = eventually(lambda: tms.messages(route_id), lambda one: bool(one and one[0].error), SECONDS, "a refusal")
    return found[0]


def take_messages_again(gateway: Gateway, tms: Tms, route_id: str, discarded: Any) -> None:
    """Lets the gateway take messages once this one of the route is discarded. An attempt that is under way when the
    route changes cannot be stopped, so the gateway refuses it yet."""
    eventually(
        lambda: [one.status for one in tms.messages(route_id) if one.id == discarded.id],
        lambda found: found == [MessageStatus.FAILED],
        SECONDS,
        "a discarded message",
    )
    gateway.status = 200


def update_a_route_whose_message_is_refused(world: World) -> None:
    """Its message is discarded. The route has a new plan, of which the driver is told once."""
    gateway = world.gateway()
    gateway.status = 500
    tms = world.tms(gateway=gateway)
    route_id, body = tms.draft()
    tms.stand_at(JOLIET)
    refused = await_refusal(tms, route_id)
    gateway.received.clear()
    world.strike()
    tms.push({**body, "reference": "PO-2"})
    world.await_strike()
    take_messages_again(gateway, tms, route_id, refused)
    active = tms.wait_for(route_id, "active")
    assert active["reference"] == "PO-2"
    (message,) = world.expect_messages(tms, route_id, 1)
    assert "PO-2" in message.text


def supersede_a_route(world: World) -> None:
    tms = world.tms(superseding=True)
    older, _ = tms.draft(reference="PO-7")
    body = route_body(datetime.now(UTC), reference="PO-7")
    world.strike()
    newer = tms.push(body)
    world.await_strike()
    tms.wait_for(newer, "draft")
    tms.wait_for(older, "canceled")


def cancel_a_planned_route(world: World) -> None:
    """Its message is discarded, and its truck starts the next route, for it stands at that one's first stop."""
    gateway = world.gateway()
    gateway.status = 500
    tms = world.tms(gateway=gateway)
    first, _ = tms.draft()
    second, _ = tms.draft(scheduledStart=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    tms.stand_at(JOLIET)
    refused = await_refusal(tms, first)
    world.strike()
    answer = insist(lambda: tms.client.delete(f"/v1/routes/{first}"))
    assert answer.status_code == 204, answer.text
    take_messages_again(gateway, tms, first, refused)
    world.await_strike()
    tms.wait_for(first, "canceled")
    tms.wait_for(second, "active")
    world.expect_messages(tms, second, 1)
    world.expect_messages(tms, first, 0)


# --- The truck arrives, the driver is told ----------------------------------------------------------------------


def start_a_route(world: World) -> None:
    tms = world.tms()
    route_id, _ = tms.draft()
    world.strike()
    tms.stand_at(JOLIET)
    active = tms.wait_for(route_id, "active")
    world.await_strike()
    assert active["fuelPlan"]["stops"]
    world.expect_messages(tms, route_id, 1)
    tms.wait_for(route_id, "active")


def start_a_sandbox_route(world: World) -> None:
    tms = world.tms(Environment.SANDBOX)
    route_id, _ = tms.draft()
    world.strike()
    tms.stand_at(JOLIET)
    tms.wait_for(route_id, "active")
    world.await_strike()
    (message,) = world.expect_messages(tms, route_id, 1)
    assert message.status == "suppressed"


def tell_a_driver_through_a_gateway(world: World) -> None:
    """A crash after the gateway's answer may repeat the message, with the same id."""
    gateway = world.gateway()
    tms = world.tms(gateway=gateway)
    route_id, _ = tms.draft()
    world.strike()
    tms.stand_at(JOLIET)
    world.await_strike()
    tms.wait_for(route_id, "active")
    (message,) = world.expect_messages(tms, route_id, 1)
    (times,) = delivered(gateway).values()
    assert list(delivered(gateway)) == [shown_id("msg", message.id)]
    assert times == 1 + (world.when == "before" and world.point.function.endswith(":finish_delivery"))


def tell_a_driver_in_the_cab(world: World) -> None:
    """Samsara has the message once, wherever the worker died."""
    samsara = world.open.enter_context(running_samsara())
    tms = world.tms()
    with world.service.database.transaction() as connection:
        connection.execute("UPDATE companies SET message_url = 'samsara://4242' WHERE id = %s", (tms.company_id,))
        add_connector(
            connection,
            tms.client.fleet.live,
            ConnectorValues("samsara", {"token": samsara.token, "positions": "no"}, url=samsara.url),
            DOT,
            allowed=AllowedHosts.read("127.0.0.1"),
            contacts=IN_CLEAR,
        )
    route_id, _ = tms.draft()
    world.strike()
    tms.stand_at(JOLIET)
    world.await_strike()
    tms.wait_for(route_id, "active")
    (message,) = world.expect_messages(tms, route_id, 1)
    (sent,) = samsara.messages
    assert (sent.driver_id, sent.text) == (4242, message.text)


def tell_a_driver_through_a_gateway_that_refuses_first(world: World) -> None:
    gateway = world.gateway()
    gateway.status = 500
    tms = world.tms(gateway=gateway)
    route_id, _ = tms.draft()
    world.strike()
    tms.stand_at(JOLIET)
    world.await_strike()
    gateway.status = 200
    tms.wait_for(route_id, "active")
    world.expect_messages(tms, route_id, 1)
    assert len(delivered(gateway)) == 1


def start_a_route_that_no_tank_can_drive(world: World) -> None:
    tms = world.tms()
    route_id, _ = tms.draft(stops=[JOLIET, {"name": "Anchorage", "latitude": 61.2, "longitude": -149.9}])
    world.strike()
    tms.stand_at(JOLIET)
    tms.wait_for(route_id, "error")
    world.await_strike()
    assert tms.messages(route_id) == []


# --- On the way --------------------------------------------------------------------------------------------------


def complete_a_route(world: World) -> None:
    """The truck's next route begins where this one ends, and starts at once."""
    tms = world.tms()
    route_id, _ = tms.started()
    start = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    next_id, _ = tms.draft(stops=[NEWARK, JOLIET], scheduledStart=start)
    world.strike()
    tms.stand_at(NEWARK, at=datetime.now(UTC) + timedelta(seconds=30))
    tms.wait_for(route_id, "completed")
    tms.wait_for(next_id, "active")
    world.await_strike()
    world.expect_messages(tms, route_id, 1)
    world.expect_messages(tms, next_id, 1)


def fuel_at_the_first_stop(world: World) -> None:
    """The plan is corrected, and the driver is told so once."""
    tms = world.tms()
    route_id, before = tms.started()
    world.strike()
    tms.stand_at(JOLIET, at=datetime.now(UTC) + timedelta(seconds=30), fuelPercent=95)
    world.await_strike()
    _expect_correction(world, tms, route_id, before)


def leave_the_road(world: World) -> None:
    """The plan is made anew, and the driver is told so once."""
    tms = world.tms(Environment.SANDBOX, replan_en_route=True)
    route_id, before = tms.started()
    world.strike()
    south = {"latitude": JOLIET["latitude"] - 0.65, "longitude": JOLIET["longitude"]}
    now = datetime.now(UTC)
    for minutes in range(60, 81, 4):
        tms.stand_at(south, at=now + timedelta(minutes=minutes), count=1)
    world.await_strike()
    _expect_correction(world, tms, route_id, before)


def import_deals(world: World) -> None:
    """The prices of a standing truck's plan change so much that the plan is corrected."""
    tms = world.tms()
    route_id, before = tms.started()
    file = world.processes.folder / "deals.csv"
    file.write_text("brand,net_price\nRoadhawk,1.5\nMilepost,1.5\n")
    world.strike()
    world.command("deals", "import", "--company", tms.shown_company_id, str(file))
    world.await_strike()
    _expect_correction(world, tms, route_id, before)


def _expect_correction(world: World, tms: Tms, route_id: str, before: dict[str, Any]) -> None:
    first, second = world.expect_messages(tms, route_id, 2)
    assert [message.text.split(" plan")[0] for message in (first, second)] == ["Fuel", "CORRECTED fuel"]
    after = tms.wait_for(route_id, "active")
    assert after["fuelPlan"] != before["fuelPlan"]


# --- The company's systems are told -------------------------------------------------------------------------------


def tell_an_endpoint(world: World) -> None:
    """A crash after the endpoint's answer repeats the event, with the same id and the same bytes."""
    receiver, tms = world.receiver(), world.tms()
    _add_endpoint(world, tms, receiver)
    body = route_body(datetime.now(UTC))
    world.strike()
    route_id = tms.push(body)
    tms.wait_for(route_id, "draft")
    answer = insist(lambda: tms.client.delete(f"/v1/routes/{route_id}"))
    assert answer.status_code == 204, answer.text
    world.await_strike()
    _expect_events(world, receiver, "route.imported", "route.canceled")


def tell_an_endpoint_that_refuses_first(world: World) -> None:
    receiver, tms = world.receiver(), world.tms()
    _add_endpoint(world, tms, receiver)
    receiver.status = 503
    world.strike()
    route_id = tms.push(route_body(datetime.now(UTC)))
    tms.wait_for(route_id, "draft")
    world.await_strike()
    receiver.status = 204
    refused = len(receiver.requests)
    eventually(lambda: len(receiver.requests), lambda count: count > refused, SECONDS, "another attempt")
    assert len({one.event_id for one in receiver.requests}) == 1
    assert len({one.body for one in receiver.requests}) == 1


def _add_endpoint(world: World, tms: Tms, receiver: Receiver) -> None:
    with world.service.database.transaction() as connection:
        make_endpoint(connection, tms.client.fleet.live, receiver.url)


def _expect_events(world: World, receiver: Receiver, *types: str) -> None:
    def told() -> list[str]:
        return list({one.event_id: one.type for one in receiver.requests}.values())

    assert eventually(told, lambda found: len(found) == len(types), SECONDS, f"{types}") == list(types)
    assert len({(one.event_id, one.body) for one in receiver.requests}) == len(types)
    repeated = world.when == "before" and world.point.function.endswith(":settle_deliveries")
    may_be_repeated = world.point.job is not None  # the process dies while it may be sending what the sweep has found
    assert len(types) + repeated <= len(receiver.requests) <= len(types) + (repeated or may_be_repeated)
