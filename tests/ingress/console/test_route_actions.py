"""The actions on a route's page beside canceling: an arrival or departure is entered, the plan made again, a message
sent again. Who may do it, what is refused, and that the driver gets one message."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest

from domain.accounts.tokens import hash_of_token
from domain.database.connections import Connection, Tenant
from domain.driver_page.page import ask_trips
from domain.ids import shown_id
from domain.lifecycle import Environment, Role, RouteStatus
from domain.routes.plans import choices
from domain.routes.plans.stored_choices import menu_of
from domain.routes.transitions import cancel_route
from domain.settings import Settings
from tests.domain.helpers import deliver, imported, planned_by_hand, visits_of
from tests.domain.messages.loads import message_url
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, route_body
from tests.gateway import running_gateway
from tests.ingress.console.conftest import Browser, Fields, World, words
from tests.ingress.console.test_routes import page_of, status_now, stored
from tests.pipeline.world import messages_of, store_prices
from tests.rows import named, stored_id
from tests.service import Client, Service, eventually

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    store_prices(service)
    with service.new_tenant() as one:
        yield one


def local(moment: datetime) -> str:
    """The time in the format of a browser's field, for a company in UTC."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}"


def enter(browser: Browser, path: str, what: str, moment: datetime | None = None, **more: Any) -> httpx.Response:
    fields: Fields = {"what": what, "at": local(moment or datetime.now(UTC)), "reason": "The driver called", **more}
    return browser.submit(f"{path}/stop-event", **fields)


# --- A truck without positions -----------------------------------------------------------------------------------


def test_entered_stop_events_alone_complete_a_route_and_the_driver_gets_one_message(
    world: World, client: Client
) -> None:
    route_id = client.push(route_body(datetime.now(UTC), stops=[JOLIET, PERRYSBURG, NEWARK])).json()["id"]
    path, browser = f"/routes/{route_id}", world.browser(Role.DISPATCHER, client.fleet)
    assert "arrived at 1. Joliet terminal" in words(browser.look(path))

    answer = enter(browser, path, "arrival 0")

    assert answer.status_code == 303
    page = words(browser.look(answer.headers["location"]))
    assert "The arrival or departure is entered." in page
    assert "@example.com: The driver called; the first arrival: a plan is due" in page
    assert "departed from 1. Joliet terminal" in page
    client.wait_for(route_id, "active")
    assert enter(browser, path, "arrival 0").headers["location"].endswith("?done=known")
    for what in ("departure 0", "arrival 1", "departure 1", "arrival 2"):
        assert enter(browser, path, what).status_code == 303
    client.wait_for(route_id, "completed")
    assert len(messages_of(client, route_id)) == 1
    stops = [stop for stop in client.route(route_id)["stops"] if stop["type"] != "fuel_stop"]
    assert all(stop["actualArrival"] for stop in stops)
    assert "Enter an arrival or departure" not in browser.look(path)


def test_entered_stop_events_and_positions_at_the_same_time_give_one_message(world: World, client: Client) -> None:
    """All act at once, again and again, with the real workers in between."""
    route_id = client.push(route_body(datetime.now(UTC), stops=[JOLIET, PERRYSBURG, NEWARK])).json()["id"]
    path = f"/routes/{route_id}"
    browsers = [world.browser(Role.DISPATCHER, client.fleet) for _ in range(2)]
    start = threading.Barrier(len(browsers) + 1)
    begun = datetime.now(UTC)

    def entering(browser: Browser) -> None:
        start.wait()
        for what in ("arrival 0", "departure 0", "arrival 0", "arrival 1"):
            assert enter(browser, path, what).status_code in (303, 409)

    def seeing() -> None:
        start.wait()
        for number in range(4):
            client.post_fixes(JOLIET, at=begun - timedelta(seconds=300 - 60 * number), fuelPercent=60)

    with ThreadPoolExecutor(len(browsers) + 1) as threads:
        done = [threads.submit(seeing), *(threads.submit(entering, browser) for browser in browsers)]
        for one in done:
            one.result()
    client.wait_for(route_id, "active")
    eventually(lambda: enter(browsers[0], path, "arrival 2").status_code, lambda status: status == 303)
    client.wait_for(route_id, "completed")
    assert [message.status for message in messages_of(client, route_id)] == ["sent"]
    with client.service.database.transaction() as connection:
        visits = visits_of(connection, stored_id(route_id))
    assert sorted(visits) == [0, 1, 2]
    assert [visits[stop][0] for stop in (0, 1, 2)] == sorted(visits[stop][0] for stop in (0, 1, 2))


@pytest.mark.parametrize(
    ("fields", "status", "said"),
    [
        pytest.param(
            {"at": local(datetime.now(UTC) + timedelta(days=2))}, 409, "The time is in the future", id="in two days"
        ),
        ({"at": "0001-01-01T00:00"}, 409, "12 hours before its start"),
        ({"at": "9999-12-31T23:59"}, 409, "The time is in the future"),
        ({"at": "9999-12-31T23:59-12:00"}, 400, "This is no time"),
        ({"at": "soon"}, 400, "This is no time"),
        ({"what": "departure 0"}, 409, "enter its arrival first"),
        ({"what": "arrival 7"}, 409, "no such stop"),
        ({"what": "arrival 99999999999999"}, 409, "no such stop"),
        ({"what": "arrival -1"}, 400, "Say which stop"),
        ({"what": "arrival \u0663"}, 400, "Say which stop"),
        ({"what": ""}, 400, "Say which stop"),
        ({"reason": "  "}, 400, "Say why"),
        ({"reason": "x" * 201}, 400, "too long"),
    ],
)
def test_an_impossible_stop_event_is_refused_with_a_sentence(
    world: World, fields: Fields, status: int, said: str
) -> None:
    fleet = world.new_fleet()
    route_id = stored(world, fleet)
    browser = world.browser(Role.DISPATCHER, fleet)
    answer = enter(browser, page_of(route_id), **{"what": "arrival 0", **fields})
    assert answer.status_code == status, answer.text
    assert said in words(answer.text)
    assert status_now(world, route_id) is RouteStatus.DRAFT
    with world.database.transaction() as connection:
        assert visits_of(connection, route_id) == {}


def test_a_time_is_read_in_the_company_s_zone(world: World) -> None:
    fleet = world.new_fleet(time_zone="America/Chicago")
    route_id = stored(world, fleet)
    browser = world.browser(Role.OWNER, fleet)
    now = datetime.now(UTC).replace(microsecond=0)
    assert "America/Chicago" in browser.look(page_of(route_id))
    assert (
        browser.submit(
            f"{page_of(route_id)}/stop-event", what="arrival 0", at=local(now), reason="in UTC, so hours ahead"
        ).status_code
        == 409
    )
    in_utc = f"{local(now)}+00:00"
    assert browser.submit(f"{page_of(route_id)}/stop-event", what="arrival 0", at=in_utc, reason="x").status_code == 303
    with world.database.transaction() as connection:
        assert visits_of(connection, route_id) == {0: (now, None)}


# --- Plan again --------------------------------------------------------------------------------------------------


def test_a_plan_is_made_again_and_the_driver_gets_no_message_while_nothing_changed(
    world: World, client: Client
) -> None:
    route_id = client.push(route_body(datetime.now(UTC), stops=[JOLIET, NEWARK])).json()["id"]
    path, browser = f"/routes/{route_id}", world.browser(Role.DISPATCHER, client.fleet)
    assert "Plan again" not in browser.look(path)
    assert browser.submit(f"{path}/plan", reason="too early").status_code == 409
    client.post_fixes(JOLIET, fuelPercent=60)
    client.wait_for(route_id, "active")

    answer = browser.submit(f"{path}/plan", reason="the driver <b>doubts</b> it")

    assert answer.status_code == 303
    html = browser.look(answer.headers["location"])
    assert "<b>doubts" not in html
    page = words(html)
    assert "A new plan is made" in page
    assert "@example.com: the driver <b>doubts</b> it" in page

    def review_at() -> object:
        with world.database.transaction() as connection:
            (row,) = (
                named(connection)
                .execute("SELECT review_at FROM routes WHERE id = %s", (stored_id(route_id),))
                .fetchall()
            )
        return row.review_at

    eventually(review_at, lambda moment: moment is None)
    eventually(lambda: words(browser.look(path)), lambda said: "The plan was kept" in said)
    assert len(messages_of(client, route_id)) == 1


# --- Choices of the driver ---------------------------------------------------------------------------------------


def choose_for_the_driver(client: Client, route_id: str) -> str:
    """The driver takes the first choice of the menu. Returns its id."""
    with client.service.database.transaction() as connection:
        plan = named(connection).execute("SELECT plan_id FROM routes WHERE id = %s", (stored_id(route_id),)).fetchone()
        tenant = Tenant(client.fleet.company_id, Environment.LIVE)
        choice, *_ = menu_of(connection, tenant, plan.plan_id) if plan is not None else []
        choices.choose(connection, tenant, stored_id(route_id), choice.id, None, now=datetime.now(UTC))
    return shown_id("cho", choice.id)


def test_two_dispatchers_accept_a_choice_at_once_and_the_driver_gets_one_message(world: World, client: Client) -> None:
    route_id = client.push(route_body(datetime.now(UTC), stops=[JOLIET, NEWARK])).json()["id"]
    path = f"/routes/{route_id}"
    browsers = [world.browser(Role.DISPATCHER, client.fleet) for _ in range(2)]
    client.post_fixes(JOLIET, fuelPercent=40)
    client.wait_for(route_id, "active")
    page = eventually(lambda: words(browsers[0].look(path)), lambda said: "What the driver may choose" in said)
    assert "Another chain Milepost Fremont" in page
    choice = choose_for_the_driver(client, route_id)
    assert "The driver asks for it" in words(browsers[0].look(path))
    assert "driver asks for a choice that costs more" in words(browsers[0].look("/overview"))
    browsers[1].look(path)
    with ThreadPoolExecutor(2) as threads:
        accepted = list(
            threads.map(lambda one: one.submit(f"{path}/choice", choice=choice, decision="accept"), browsers)
        )
    assert {answer.status_code for answer in accepted} == {303}
    shown = eventually(lambda: words(browsers[0].look(path)), lambda said: "Back to the cheapest plan" in said)
    assert "Made anew" in shown
    assert "chosen: another chain, Milepost Fremont, + $7." in shown
    assert len(messages_of(client, route_id)) == 2
    late = browsers[0].submit(f"{path}/choice", choice=choice, decision="decline")
    assert late.headers["location"].endswith("?done=chosen"), "it is the plan already"


# --- Send again --------------------------------------------------------------------------------------------------


def failed_for_good(world: World, fleet: Fleet, settings: Settings) -> tuple[UUID, str]:
    """A planned route whose message failed for good, since nobody listens at its address; and the message's id."""
    now = datetime.now(UTC)
    route_id = stored(world, fleet)
    with world.database.transaction() as connection:
        message_url(connection, fleet, "json://127.0.0.1:9/")
        connection.execute("UPDATE routes SET arrived_at = %s WHERE id = %s", (now, route_id))
        message_id = planned_by_hand(connection, route_id, now=now)
        connection.execute("UPDATE messages SET queued_at = %s WHERE id = %s", (now - timedelta(days=2), message_id))
        assert deliver(connection, message_id, settings=settings, now=now) == "failed"
    return route_id, shown_id("msg", message_id)


def test_a_message_that_failed_for_good_is_sent_again_once(world: World, settings: Settings) -> None:
    fleet = world.new_fleet()
    route_id, message = failed_for_good(world, fleet, settings)
    path, browser = page_of(route_id), world.browser(Role.DISPATCHER, fleet)
    page = browser.look(path)
    assert "Send again" in page
    assert f'value="{message}"' in page
    assert "Sending the message failed" in words(page)
    assert "may have reached the driver" not in page

    answer = browser.submit(f"{path}/send", message=message, reason="the number is right now")

    assert answer.status_code == 303
    page = browser.look(answer.headers["location"])
    assert "The message is sent again." in page
    assert "@example.com: the number is right now" in page
    assert "Correct the contact first" not in page
    assert "Copy the text" in page
    again = browser.submit(f"{path}/send", message=message, reason="once more")
    assert again.status_code == 409
    assert "on its way already" in words(again.text)
    with running_gateway() as gateway, world.database.transaction() as connection:
        message_url(connection, fleet, gateway.url)
        now = datetime.now(UTC) + timedelta(hours=1)  # a worker may have tried it meanwhile
        (row,) = named(connection).execute("SELECT id FROM messages WHERE route_id = %s", (route_id,)).fetchall()
        assert deliver(connection, row.id, settings=settings, now=now) == "sent"
        assert len(gateway.received) == 1
    again = browser.submit(f"{path}/send", message=message, reason="once more")
    assert again.status_code == 409
    assert "was sent: copy its text" in words(again.text)


def test_a_message_that_may_have_arrived_is_sent_again_only_after_asking_the_driver(
    world: World, settings: Settings
) -> None:
    fleet = world.new_fleet()
    route_id, message = failed_for_good(world, fleet, settings)
    with world.database.transaction() as connection:
        connection.execute("UPDATE messages SET claimed_until = now() WHERE route_id = %s", (route_id,))
    path, browser = page_of(route_id), world.browser(Role.DISPATCHER, fleet)
    assert "may have reached the driver" in browser.look(path)
    assert browser.submit(f"{path}/send", message=message, reason="try").status_code == 409
    assert browser.submit(f"{path}/send", message=message, reason="he has none", asked="yes").status_code == 303


def test_the_page_says_when_a_message_in_the_cab_was_read(world: World, settings: Settings) -> None:
    fleet = world.new_fleet()
    route_id, _ = failed_for_good(world, fleet, settings)
    browser = world.browser(Role.VIEWER, fleet)
    assert "samsara, 1 attempt" not in words(browser.look(page_of(route_id)))
    with world.database.transaction() as connection:
        connection.execute(
            "UPDATE messages SET status = 'sent', channel = 'samsara', error = NULL, sent_at = '2026-11-24T18:00:00Z',"
            " read_at = '2026-11-24T18:04:00Z' WHERE route_id = %s",
            (route_id,),
        )
    page = browser.look(page_of(route_id))
    assert re.search(r"samsara, 1 attempt read .{0,40}18:04", words(page))


# --- Roles -----------------------------------------------------------------------------------------------------


_FORMS: dict[str, Fields] = {
    "stop-event": {"what": "arrival 0", "at": local(datetime.now(UTC))},
    "plan": {},
    "send": {"message": "msg_x"},
}


@pytest.mark.parametrize("action", _FORMS)
def test_only_dispatchers_of_the_company_may_act(world: World, settings: Settings, action: str) -> None:
    fleet = world.new_fleet()
    route_id, message = failed_for_good(world, fleet, settings)
    path = f"{page_of(route_id)}/{action}"
    fields = {**_FORMS[action], "reason": "because"}
    if action == "send":
        fields["message"] = message

    viewer = world.browser(Role.VIEWER, fleet)
    page = viewer.look(page_of(route_id))
    for words_of_button in ("Enter an arrival or departure", "Plan again", "Send again", "Cancel this route"):
        assert words_of_button not in page
    assert viewer.submit(path, **fields).status_code == 403
    dispatcher = world.browser(Role.DISPATCHER, fleet)
    assert dispatcher.submit(path, token="of nobody", **fields).status_code == 403
    assert httpx.post(f"{world.url}{path}", data=fields, timeout=120).status_code == 403
    assert dispatcher.get(path).status_code == 405
    other = world.browser(Role.OWNER)
    other.look("/account")
    assert other.submit(path, **fields).status_code == 404
    operator = world.browser(Role.OPERATOR)
    assert operator.submit(path, **fields).status_code == 303, "first the company is chosen"
    with world.database.transaction() as connection:
        assert visits_of(connection, route_id) == {}
    operator.submit("/companies", company_id=fleet.shown_company_id)
    operator.look(page_of(route_id))
    assert operator.submit(path, **fields).status_code == 303


def test_no_form_causes_a_server_error(world: World) -> None:
    fleet = world.new_fleet()
    route_id = stored(world, fleet)
    browser = world.browser(Role.OWNER, fleet)
    for action in ("stop-event", "plan", "send", "choice"):
        broken = {"reason": "x", "choice": "\x00", "message": "\x00", "what": "\x00", "at": "\x00"}
        for fields in list[Fields]([{}, {"reason": "\x00"}, broken]):
            assert browser.submit(f"{page_of(route_id)}/{action}", **fields).status_code in (400, 404, 409)


# --- A link to the driver's page ---------------------------------------------------------------------------------


def test_a_dispatcher_makes_a_link_to_the_page_of_the_driver_s_trip(world: World, connection: Connection) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as own:
        route_id = imported(own, fleet.live, now=datetime.now(UTC))
    path, browser = f"/routes/{shown_id('rte', route_id)}", world.browser(Role.DISPATCHER, fleet)
    assert "Link to the driver's page" in words(browser.look(path))
    made = browser.submit(f"{path}/driver-link")
    (token,) = re.findall(r'id="link">https://drive\.example\.com/d/([^<]+)<', made.text)
    (trip,) = ask_trips([hash_of_token(token)], hours=24, now=datetime.now(UTC)).on(connection)
    assert trip is not None
    assert (trip.link.company_id, trip.link.route_id) == (fleet.company_id, route_id)
    assert token not in browser.look(path)


def test_who_may_not_dispatch_and_other_companies_make_no_link(world: World, connection: Connection) -> None:
    fleet, now = world.new_fleet(), datetime.now(UTC)
    with world.database.transaction() as own:
        route_id = imported(own, fleet.live, now=now)
    path = f"/routes/{shown_id('rte', route_id)}"
    viewer = world.browser(Role.VIEWER, fleet)
    assert "Link to the driver's page" not in words(viewer.look(path))
    assert viewer.submit(f"{path}/driver-link").status_code == 403
    assert world.browser(Role.DISPATCHER).submit(f"{path}/driver-link").status_code == 404
    with world.database.transaction() as own:
        cancel_route(own, fleet.live, route_id, now=now)
    assert world.browser(Role.DISPATCHER, fleet).submit(f"{path}/driver-link").status_code == 409
    assert links_of(connection, route_id) == 0


def links_of(connection: Connection, route_id: UUID) -> int:
    row = connection.execute("SELECT count(*) FROM driver_links WHERE route_id = %s", (route_id,)).fetchone()
    assert row is not None
    return int(row[0])
