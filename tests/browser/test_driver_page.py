"""A driver's way through a trip on an old phone with a poor connection, and what his dispatcher sees of it."""

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect

from deploy.embedded import EmbeddedRedis, running
from domain.accounts.companies import set_policy
from domain.accounts.policy import Policy
from domain.ids import read_id
from domain.languages.tags import OWN_NAMES
from domain.lifecycle import Role
from domain.settings import Settings
from ingress.driver.rendering import STATIC
from tests.browser.accessibility import assert_accessible
from tests.browser.chromium import WIDTHS
from tests.browser.conftest import People
from tests.conftest import make_database
from tests.domain.driver_page.trips import token_of, trip_of
from tests.factories import DOT, JOLIET, NEWARK, route_body
from tests.gateway import HOST, Gateway
from tests.ingress.console.conftest import running_console
from tests.pipeline.world import give_contacts, store_prices
from tests.service import Client, Service, eventually, running_service

PUBLIC = "https://drive.example.com"
OLD_PHONE: ViewportSize = {"width": 360, "height": 640}
OFFLINE_MILLISECONDS = 1_500
SLOW = {"offline": False, "latency": 400, "downloadThroughput": 50_000, "uploadThroughput": 50_000}
"""A slow network of the third generation: milliseconds, and bytes a second."""


@pytest.fixture(scope="module")
def own_settings(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with running(EmbeddedRedis(tmp_path_factory.mktemp("redis"), durable=False)) as url:
        yield settings.model_copy(update={"database_url": make_database("driver_page"), "redis_url": url})


@pytest.fixture(scope="module")
def service(chromium_path: str, own_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose messages have links, and which may call gateways of this machine."""
    with running_service(
        own_settings,
        tmp_path_factory.mktemp("logs"),
        IMPORT_WAIT_SECONDS="30",
        MESSAGE_ALLOWED_HOSTS=HOST,
        DRIVER_PAGE_URL=PUBLIC,
    ) as running_one:
        store_prices(running_one)
        yield running_one


@pytest.fixture(scope="module")
def console_url(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    redis_url = service.settings.require_redis_url()
    with running_console(service.settings, redis_url, tmp_path_factory.mktemp("console"), api_url=service.url) as url:
        yield url


def start_trip(client: Client, gateway: Gateway) -> tuple[str, str]:
    """Brings a truck to its first stop. Returns the route's id, and the path of the link in the driver's message."""
    give_contacts(client, gateway.url)
    with client.service.database.transaction() as connection:
        set_policy(connection, client.fleet.company_id, Policy(driver_allowance=100), DOT)
    pushed = client.push(route_body(datetime.now(UTC), externalId="LOAD-1", stops=[JOLIET, NEWARK]))
    assert pushed.status_code == 201
    client.post_fixes(JOLIET, fuelPercent=60)
    (message, *_) = eventually(lambda: gateway.received, bool, wanted="the message")
    found = re.search(rf"{re.escape(PUBLIC)}(/d/\S+)", message["message"])
    assert found is not None
    return pushed.json()["id"], found[1]


class OldPhone:
    """A small phone at night, on a slow network."""

    def __init__(self, people: People, url: str) -> None:
        self._context = people.browser(url, viewport=OLD_PHONE, is_mobile=True, has_touch=True, color_scheme="dark")
        self.page = self._context.new_page()
        self._network = self._context.new_cdp_session(self.page)
        self.go_online()

    def go_online(self) -> None:
        self._context.unroute_all()
        self._context.set_offline(False)
        self._network.send("Network.emulateNetworkConditions", SLOW)

    def go_offline(self) -> None:
        self._context.set_offline(True)
        self._network.send("Network.emulateNetworkConditions", SLOW | {"offline": True})
        # a page that is opened now may send an answer before the browser has told its network of that page
        self._context.route("**", lambda route: route.abort("internetdisconnected"))


READ_ANSWER = """() => {
  const fields = new URLSearchParams(new FormData(document.querySelector("#trip details form")));
  fields.set("kind", "going");
  return fields.toString();
}"""


KEPT_PAGES = "async () => (await (await caches.open('trips')).keys()).map((request) => request.url)"


def keep_answer(page: Page, link: str, answer: str) -> None:
    """Keeps an answer as a phone does that has no connection when the page of its link is closed."""
    page.goto("/healthz")  # a page that sends nothing
    page.evaluate("([name, text]) => localStorage.setItem(name, JSON.stringify([text]))", [f"answers {link}", answer])


def link_of_newer_message(client: Client, route_id: str) -> str:
    """The path of another link to the trip: each message has one."""
    stored_id = read_id("rte", route_id)
    assert stored_id is not None
    with client.service.database.transaction() as connection:
        trip = trip_of(connection, client.fleet.live, stored_id)
        return f"/d/{token_of(connection, trip, now=datetime.now(UTC))}"


def rename_table(service: Service, name: str, new_name: str) -> None:
    with service.database.transaction() as connection:
        connection.execute(f"ALTER TABLE {name} RENAME TO {new_name}")


def answers_to(service: Service, route_id: str) -> list[str]:
    with service.database.transaction() as connection:
        rows = connection.execute(
            "SELECT kind FROM driver_answers WHERE route_id = %s ORDER BY id", (read_id("rte", route_id),)
        )
        return [kind for (kind,) in rows.fetchall()]


def posts_of(page: Page) -> list[str]:
    """The addresses to which a page posts from now on."""
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    return sent


def assert_accessible_in_all_languages(page: Page) -> None:
    english = page.url
    assert_accessible(page)
    for language in OWN_NAMES:
        page.goto(f"{english}?l={language}")
        expect(page.locator("html")).to_have_attribute("lang", language)
        assert_accessible(page, widths=WIDTHS[:1])
    page.set_viewport_size(OLD_PHONE)


def next_stop(page: Page) -> str:
    return page.locator("section[aria-labelledby=next] .place").inner_text()


def test_a_driver_goes_through_his_trip_and_his_dispatcher_sees_each_step(
    people: People, service: Service, gateway: Gateway
) -> None:
    with service.new_tenant() as client:
        route_id, link = start_trip(client, gateway)
        client.wait_for(route_id, "active")
        phone = OldPhone(people, service.url)
        page = phone.page

        page.goto(link)
        expect(page.get_by_role("heading", name="Trip LOAD-1")).to_be_visible()
        first = next_stop(page)
        assert page.evaluate("document.documentElement.scrollWidth") == OLD_PHONE["width"]
        page.get_by_text("I can't fuel there").click()
        page.get_by_role("button", name="It is closed").click()
        expect(page.get_by_role("heading", name="New plan")).to_be_visible()
        expect(page.get_by_text(f"No longer: {first}")).to_be_visible()
        second = next_stop(page)
        assert second != first

        expect(page.get_by_role("heading", name="You may choose instead")).to_be_visible()
        assert_accessible_in_all_languages(page)
        page.goto(link)
        page.get_by_role("button", name="Choose this").first.click()
        expect(page.get_by_text("Another plan was chosen.")).to_be_visible()
        third = next_stop(page)

        rename_table(service, "driver_links", "away")  # each page is an error now
        page.reload()
        expect(page.get_by_text("This page is as it was when you last had one.", exact=False)).to_be_visible()
        expect(page.locator(".place").first).to_have_text(third)
        rename_table(service, "away", "driver_links")

        phone.go_offline()
        page.get_by_role("button", name="I go there").click()
        expect(page.get_by_text("Your answer is kept on this phone.")).to_be_visible()
        page.goto(f"{link}?l=en")
        expect(page.locator(".place").first).to_have_text(third)  # not the plan that he had when he chose English
        page.get_by_role("button", name="I go there").click()
        page.wait_for_timeout(OFFLINE_MILLISECONDS)
        assert "going" not in answers_to(service, route_id)
        phone.go_online()
        expect(page.get_by_text("I go there.", exact=False)).to_be_visible(timeout=90_000)

        keep_answer(page, link, page.evaluate(READ_ANSWER))
        sent = posts_of(page)
        page.goto(link_of_newer_message(client, route_id))
        expect(page.get_by_text("Your answer was sent.")).to_be_visible()
        assert sent == [f"{service.url}{link}"], "its own page is closed by now"
        assert page.evaluate("localStorage.length") == 0
        keep_answer(page, f"{link[:-8]}{'A' * 8}", page.evaluate(READ_ANSWER))  # of a trip whose link shows nothing now
        page.goto(link)
        expect(page.get_by_text("Your answer could not be taken. Call your dispatcher.")).to_be_visible()
        assert page.evaluate("localStorage.length") == 0
        page.get_by_text("I fueled").click()
        page.get_by_label("Gallons bought").fill("88.5")
        page.evaluate("() => { Storage.prototype.setItem = () => { throw new Error('no space is left') } }")
        del sent[:]
        page.get_by_role("button", name="Send").click()
        expect(page.locator("section[aria-labelledby=behind]")).to_contain_text(third)
        page.wait_for_timeout(OFFLINE_MILLISECONDS)
        assert len(sent) == 1, "the phone could not keep the answer"
        expect(page.locator(".place", has_text=third)).to_be_hidden()
        assert answers_to(service, route_id).count("going") == 1, "he pressed it twice while there was no connection"

        dispatcher = people.page(Role.DISPATCHER, client.fleet)
        dispatcher.goto(f"/routes/{route_id}")
        timeline = dispatcher.locator("main")
        for told in (first, third, "88.5", "it is closed"):
            expect(timeline).to_contain_text(told)
        assert link.rpartition("/")[2] not in dispatcher.content()

        page.goto("/healthz")  # a page that is told of its end loads itself anew, which would abort the loading below
        expire = "UPDATE driver_links SET expires_at = now() WHERE route_id = %s"
        with service.database.transaction() as connection:
            connection.execute(expire, (read_id("rte", route_id),))
        page.goto(link)
        expect(page.get_by_role("heading", name="This link shows nothing")).to_be_visible()
        assert not [url for url in page.evaluate(KEPT_PAGES) if link in url], "it is forgotten in all languages"


class _Breaking(BaseHTTPRequestHandler):
    """Serves the worker and pages; one that is asked for with `breaks` breaks off in its midst."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        is_worker = self.path == "/d/worker.js"
        body = (STATIC / "worker.js").read_bytes() if is_worker else b"<p>" + 20_000 * b"x"
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if is_worker else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.close_connection = "breaks" in self.path
        self.wfile.write(body[:5_000] if self.close_connection else body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_page_stays_kept_where_the_next_one_breaks_off(chromium: Browser) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Breaking) as server, chromium.new_context() as context:
        threading.Thread(target=server.serve_forever).start()
        try:
            page, url = context.new_page(), f"http://127.0.0.1:{server.server_port}/d/"
            page.goto(f"{url}token")
            page.evaluate("navigator.serviceWorker.register('/d/worker.js', { scope: '/d/' })")
            page.wait_for_function("navigator.serviceWorker.controller !== null")
            fetched = "(url) => fetch(url).then((answer) => answer.text()).catch(() => '')"
            for query, kept in ("", ""), ("?l=es", "?l=es"), ("?l=fr&breaks", "?l=es"), ("?l=en", "?l=en"):
                page.evaluate(fetched, f"{url}token{query}")
                assert page.evaluate(KEPT_PAGES) == [f"{url}token{kept}"]
        finally:
            server.shutdown()


def test_what_has_the_focus_keeps_it_when_the_truck_has_moved(chromium: Browser) -> None:
    """Whoever reads with a screen reader, or has a keyboard, began at the top of the page every minute."""
    seen = 0

    def answer(route: Route) -> None:
        nonlocal seen
        if route.request.url.endswith(".js"):
            return route.fulfill(path=STATIC / "page.js")
        seen += 1
        maps = "<a href=#>Map of Joliet</a>" * 2
        trip = f"<p>{seen} mi from the truck</p>{'<p>A new line</p>' * seen}{maps}<button>I go there</button>"
        page_of_trip = f"<!doctype html><script src=/d/page.js defer></script><main id=trip tabindex=-1>{trip}</main>"
        route.fulfill(content_type="text/html", body=page_of_trip)

    with chromium.new_context(service_workers="block") as context:
        page = context.new_page()
        page.clock.install()
        page.route("**/*", answer)
        page.goto("http://drive.example.com/d/token")
        wait = 3_000
        for one in page.get_by_role("link").last, page.get_by_role("button"):
            one.focus()
            page.clock.fast_forward(wait)
            expect(page.get_by_text(f"{seen} mi from the truck")).to_be_visible()
            expect(one).to_be_focused()
            wait = 60_000
        assert seen == 3
