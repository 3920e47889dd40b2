"""The ways of people through the console, in a real browser beside a running service."""

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Page, Route, expect

from domain.ids import new_id
from domain.lifecycle import Role
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import build_plan_job
from domain.queue.redis_clients import redis_client
from domain.settings import Settings
from tests.browser.accessibility import assert_accessible
from tests.browser.conftest import People, add_session
from tests.browser.pages import make_key, see_trucks
from tests.dying import dead, kill, url_of, working
from tests.factories import JOLIET, NEWARK, PERRYSBURG, route_body, signed_in
from tests.ingress.console.conftest import PASSWORD, running_console
from tests.pipeline.world import store_prices
from tests.servers import own_redis
from tests.service import Service, eventually

MARKUP = "<script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">"


def tomorrow() -> datetime:
    return datetime.now(UTC) + timedelta(days=1)


def test_a_user_signs_in_and_out_in_the_browser(people: People) -> None:
    email = people.world.new_user(Role.OWNER)
    page = people.browser().new_page()

    page.goto("/keys")
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill("a wrong password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="API keys")).to_be_visible()

    page.get_by_role("button", name="Sign out").click()
    page.goto("/keys")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_a_double_click_makes_one_key(people: People) -> None:
    """It made two where the service took a moment, and the first one was never shown. So did a second click later, and
    a key that was held."""
    page = people.page(Role.OWNER)
    page.goto("/keys")
    sent: list[Route] = []
    page.route("**/keys", lambda route: sent.append(route) if route.request.method == "POST" else route.continue_())
    page.get_by_label("Name").fill("clicked twice")
    page.get_by_label("sandbox").check()
    page.get_by_label("routes:read").check()

    button = page.get_by_role("button", name="Create the key")
    held = "new KeyboardEvent('keydown', { key: 'Enter', repeat: true, bubbles: true, cancelable: true })"
    assert not button.evaluate(f"it => it.dispatchEvent({held})"), "it presses no button"
    lines = "const text = document.createElement('textarea'); it.form.append(text)"
    assert button.evaluate(f"it => {{ {lines}; return text.dispatchEvent({held}) }}"), "it begins a new line"
    button.evaluate("it => { it.click(); setTimeout(() => it.click(), 1_050) }")
    page.wait_for_timeout(1_200)
    assert len(sent) == 1
    sent[0].continue_()

    expect(page.get_by_role("heading", name="The key clicked twice")).to_be_visible()


def test_a_key_is_made_and_used_with_the_curl_that_is_shown(people: People) -> None:
    page = people.page(Role.OWNER)
    page.goto("/")
    page.locator("summary", has_text="Settings").click()
    page.get_by_role("link", name="API keys", exact=True).click()
    make_key(page)
    expect(page.get_by_role("heading", name="The key TMS")).to_be_visible()

    answer = subprocess.run(["sh", "-c", f"{page.locator('#curl').inner_text()} -s"], capture_output=True, check=True)
    me = json.loads(answer.stdout)["key"]
    assert (me["name"], me["environment"]) == ("TMS", "sandbox")

    page.get_by_role("link", name="To all keys").click()
    row = page.get_by_role("row").filter(has_text=me["prefix"])
    row.locator("summary", has_text="Revoke").click()
    row.get_by_role("button", name="Revoke the key").click()
    expect(page.get_by_role("status")).to_contain_text("The key is revoked")
    refused = subprocess.run(["sh", "-c", f"{answer.args[2]} -o /dev/null -w '%{{http_code}}'"], capture_output=True)
    assert refused.stdout == b"401"


def test_the_page_shows_the_import_of_a_route_whose_unit_was_mapped(people: People, service: Service) -> None:
    with service.new_tenant() as client:
        pushed = client.push(route_body(tomorrow(), vehicle={"unitNumber": "TRUCK-101"})).json()
        assert pushed["status"] == "pending_mapping"
        page = people.page(Role.DISPATCHER, client.fleet)
        page.goto("/routes")
        page.get_by_role("link", name=pushed["externalId"]).click()
        expect(page.locator("#now .badge.pending_mapping")).to_be_visible()
        page.locator("#now").get_by_role("link", name="Matching").click()

        waiting = page.get_by_role("listitem").filter(has_text="TRUCK-101")
        expect(waiting.first).to_contain_text("1 route waits")
        waiting.first.get_by_role("button", name="Map").first.click()
        mapped = page.locator(".reference.mapped")
        expect(mapped).to_contain_text("1 route no longer waits for it")
        expect(mapped.locator(".badge.draft")).to_be_visible()

        mapped.get_by_role("link", name=pushed["externalId"]).click()
        expect(page.locator("#now .badge.draft")).to_be_visible()
        assert client.route(pushed["id"])["vehicle"]["unitNumber"] == "101"


@pytest.mark.parametrize(
    ("path", "place"),
    [("/routes", "#routes a[href='/routes/{id}']"), ("/overview", "#overview a[href='/routes/{id}']"),
     ("/routes/{id}", "#now a")],
)  # fmt: skip
def test_the_keyboard_keeps_its_place_in_a_part_that_updates_itself(
    people: People, service: Service, path: str, place: str
) -> None:
    with service.new_tenant() as client:
        waiting = {"vehicle": {"unitNumber": "TRUCK-9"}}
        pushed = client.push(route_body(tomorrow(), **waiting)).json()["id"]
        page = people.page(Role.DISPATCHER, client.fleet)
        page.goto(path.format(id=pushed))
        link = page.locator(place.format(id=pushed))
        link.focus()

        for hours in (1, -1):  # they are shown before it, and behind it
            other = client.push(route_body(tomorrow() + timedelta(hours=hours), **waiting)).json()["id"]
            with page.expect_response(lambda answer: answer.request.headers.get("hx-request") == "true") as refreshed:
                pass
            refreshed.value.finished()
            if "{id}" not in path:
                expect(page.locator(place.format(id=other))).to_be_visible()
            expect(link).to_be_focused()


def test_the_drawing_follows_a_driven_route_in_a_browser_without_webgl(people: People, service: Service) -> None:
    """The page is loaded once: the truck moves on it by itself."""
    store_prices(service)
    with service.new_tenant() as client:
        route = client.push(route_body(datetime.now(UTC), stops=[JOLIET, PERRYSBURG, NEWARK])).json()
        page = people.page(Role.VIEWER, client.fleet)
        page.goto(f"/routes/{route['id']}")
        expect(page.locator("#now .badge.draft")).to_be_visible()
        expect(page.locator(".map .truck")).to_have_count(0)

        client.post_fixes(JOLIET, fuelPercent=60)
        expect(page.locator("#now .badge.active")).to_be_visible()
        expect(page.locator(".timeline")).to_contain_text("Joliet terminal")
        at_joliet = page.locator(".map .truck").get_attribute("d")
        expect(page.locator(".map circle.chosen").first).to_be_visible()
        page.get_by_role("link", name="Show the plan as it is now").click()
        expect(page.get_by_role("heading", name="Why these stations")).to_be_visible()

        client.post_fixes(PERRYSBURG, at=datetime.now(UTC) + timedelta(seconds=30))
        expect(page.locator(".map .stop.reached")).to_have_count(2)
        assert page.locator(".map .truck").get_attribute("d") != at_joliet


def test_the_map_of_the_fleet_follows_a_truck(people: People, service: Service) -> None:
    """The page is loaded once. The truck drives, the filter narrows, and a click opens it."""
    with service.new_tenant() as client:
        route = client.push(route_body(tomorrow())).json()
        client.post_fixes(JOLIET, fuelPercent=60)
        page = people.page(Role.VIEWER, client.fleet, webgl=True)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto("/map")
        see_trucks(page)
        truck, other = (page.locator(f'#trucks [data-truck="{one}"]') for one in client.fleet.shown_trucks)
        expect(truck).to_contain_text("fuel 60 %")
        expect(other).to_contain_text("no position yet")
        assert drawn_at(page) == [[JOLIET["longitude"], JOLIET["latitude"]]]

        moved = {**JOLIET, "longitude": JOLIET["longitude"] - 0.02}
        client.post_fixes(moved, at=datetime.now(UTC) + timedelta(seconds=30), fuelPercent=58, count=1)
        expect(truck).to_contain_text("fuel 58 %")
        eventually(lambda: drawn_at(page), lambda places: places == [[moved["longitude"], moved["latitude"]]])

        page.get_by_label("Unit", exact=True).fill("102")
        expect(truck).to_have_count(0)
        expect(other).to_be_visible()
        eventually(lambda: drawn_at(page), lambda places: not places)
        page.get_by_label("Unit", exact=True).fill("")
        expect(truck).to_be_visible()

        click_on_map(page, moved)
        card = page.get_by_role("region", name="Truck 101")
        expect(card.get_by_role("link", name=route["externalId"])).to_be_visible()
        expect(page.get_by_role("heading", name="101")).to_be_focused()
        assert_accessible(page)
        page.keyboard.press("Escape")
        expect(card).to_have_count(0)
        expect(truck.get_by_role("link")).to_be_focused()
        page.keyboard.press("Enter")
        card.get_by_role("link", name=route["externalId"]).click()
        expect(page.get_by_role("heading", name=route["externalId"])).to_be_visible()
        assert {url for url in asked if not url.startswith((people.world.url, "blob:", "data:"))} == set()


def drawn_at(page: Page) -> list[list[float]]:
    """The places of the trucks on the map."""
    places = "fleet.map.getSource('fleet').serialize().data.features.map((one) => one.geometry.coordinates)"
    return list(page.evaluate(places))


def click_on_map(page: Page, place: dict[str, Any]) -> None:
    """Click on a truck once it is drawn there. The page's policy forbids `wait_for_function`, which evaluates texts."""
    where = """([longitude, latitude]) => {
            const { x, y } = fleet.map.project([longitude, latitude]);
            const { left, top } = fleet.map.getCanvas().getBoundingClientRect();
            const drawn = fleet.map.queryRenderedFeatures([x, y], { layers: ["trucks"] });
            return drawn.length && { x: x + left, y: y + top };
        }"""
    at = [place["longitude"], place["latitude"]]
    point = eventually(lambda: page.evaluate(where, at), bool)
    page.mouse.click(point["x"], point["y"])


def test_without_webgl_the_list_is_the_map_page(people: People, service: Service) -> None:
    with service.new_tenant() as client:
        client.post_fixes(JOLIET, fuelPercent=60)
        page = people.page(Role.VIEWER, client.fleet)
        page.goto("/map")
        see_trucks(page)
        expect(page.get_by_role("region", name="Map of the trucks")).to_be_hidden()
        truck = page.locator(f'#trucks [data-truck="{client.fleet.shown_trucks[0]}"]')
        client.post_fixes(NEWARK, at=datetime.now(UTC) + timedelta(seconds=30), fuelPercent=41, count=1)
        expect(truck).to_contain_text("fuel 41 %")
        assert_accessible(page)


def test_a_truck_that_joins_the_fleet_has_its_place_in_the_list_of_the_map(people: People, service: Service) -> None:
    with service.new_tenant() as client:
        page = people.page(Role.VIEWER, client.fleet)
        page.goto("/map")
        see_trucks(page)
        listed = page.locator("#trucks li strong")
        expect(listed).to_have_text(["101", "102"])
        link = page.get_by_role("link", name="102")
        link.focus()
        add = "INSERT INTO vehicles (id, company_id, unit_number) VALUES (%s, %s, %s)"
        with service.database.transaction() as connection:
            connection.cursor().executemany(
                add, [(new_id(), client.fleet.company_id, unit) for unit in (None, "1015", "103", "100")]
            )
        expect(listed).to_have_text(["100", "101", "1015", "102", "103", "no unit number"])
        with service.database.transaction() as connection:
            connection.execute("UPDATE vehicles SET unit_number = '99' WHERE id = %s", (client.fleet.trucks[0],))
        expect(listed).to_have_text(["100", "1015", "102", "103", "99", "no unit number"])
        expect(link).to_be_focused()


def test_the_list_of_the_map_stays_until_the_fleet_has_come(people: People, service: Service) -> None:
    """A word in the filter emptied it: no truck fitted, while the console was away."""
    with service.new_tenant() as client:
        page = people.page(Role.VIEWER, client.fleet)
        page.clock.install()
        page.route("**/map/fleet?*", lambda route: route.fulfill(status=502))
        page.goto("/map")
        page.get_by_label("Unit", exact=True).fill("102")
        page.clock.run_for(14_000)
        expect(page.locator("#still")).to_be_visible()
        expect(page.locator("#trucks li strong")).to_have_text(["101", "102"])

        page.unroute_all()
        page.clock.run_for(5_000)
        see_trucks(page)
        expect(page.locator("#trucks li strong")).to_have_text(["102"])
        expect(page.locator("#still")).to_be_hidden()


def test_pages_of_another_company_are_not_found(people: People, service: Service) -> None:
    with service.new_tenant() as client:
        route = client.push(route_body(tomorrow())).json()
        page = people.page(Role.OWNER)
        page.goto(f"/routes/{route['id']}")
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        assert route["externalId"] not in page.content()

        page.goto("/routes")
        expect(page.get_by_text("There is no live route yet")).to_be_visible()
        page.goto("/keys")
        post(page, f"/keys/{client.get('/v1/me').json()['key']['id']}/revoke")
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        assert client.get("/v1/me").status_code == 200, "the key is still valid"
        page.goto("/queues")
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()


def test_a_viewer_sees_no_buttons_and_cannot_act_without_them(people: People, service: Service) -> None:
    with service.new_tenant() as client:
        route = client.push(route_body(tomorrow())).json()
        client.push(route_body(tomorrow(), vehicle={"unitNumber": "TRUCK-101"}))
        owner, viewer = (people.page(role, client.fleet) for role in (Role.OWNER, Role.VIEWER))
        for path, sight in (("/keys", "demo"), (f"/routes/{route['id']}", "Timeline"), ("/matching/vehicles", "waits")):
            buttons = {}
            for page in (owner, viewer):
                page.goto(path)
                forms = page.locator("main form[method=post]")
                buttons[page] = forms.count()
            assert buttons[viewer] == 0 < buttons[owner], (path, sight)

        viewer.goto("/account")
        post(viewer, f"/routes/{route['id']}/cancel", reason="mischief")
        expect(viewer.get_by_role("heading", name="You may not do this")).to_be_visible()
        assert client.route(route["id"])["status"] == "draft"


def post(page: Page, path: str, **fields: str) -> None:
    """Send a form that the page does not have, with the token of a form that it has."""
    page.evaluate(
        """([path, fields]) => {
            const form = document.querySelector("form[method=post]").cloneNode(true);
            for (const [name, value] of Object.entries(fields)) form.append(
                Object.assign(document.createElement("input"), {name, value}));
            form.action = path;
            document.body.append(form);
            form.submit();
        }""",
        [path, fields],
    )
    page.wait_for_load_state()


def test_pushed_text_is_never_markup(people: People, service: Service) -> None:
    with service.new_tenant() as client:
        with service.database.transaction() as connection:
            connection.execute("UPDATE drivers SET name = %s WHERE id = %s", (MARKUP, client.fleet.drivers[0]))
        pushed = client.push(
            route_body(
                tomorrow(),
                externalId=f"L {MARKUP}",
                reference=f"R {MARKUP}",
                driver={"name": MARKUP},
                stops=[{**JOLIET, "name": f"S {MARKUP}", "address": f"A {MARKUP}"}, NEWARK],
            )
        ).json()
        client.push(route_body(tomorrow(), vehicle={"unitNumber": f"V {MARKUP}"}))
        client.push(route_body(tomorrow(), driver={"name": f"D {MARKUP}"}))
        page = people.page(Role.OWNER, client.fleet)
        for path, marks in (
            ("/routes", "LRS"),
            (f"/routes/{pushed['id']}", "LRSA"),
            ("/matching/vehicles", "V"),
            ("/matching/drivers", "D"),
        ):
            page.goto(path)
            said = page.locator("main").inner_text()
            for mark in marks:
                assert f"{mark} {MARKUP}" in said, path
            assert page.locator("main script, main img").count() == 0
            assert page.title() != "broken"


@pytest.fixture
def queue(chromium_path: str, tmp_path: Path) -> Iterator[JobQueue]:
    """A queue that no worker serves unless the test starts one."""
    with own_redis(tmp_path) as redis, redis_client(redis.url) as client:
        yield JobQueue(client)


@pytest.fixture
def operator(people: People, queue: JobQueue, settings: Settings, tmp_path: Path) -> Iterator[Page]:
    """An operator at a console that shows that queue."""
    with running_console(settings, url_of(queue), tmp_path) as url:
        yield people.page(Role.OPERATOR, url=url)


def test_a_dead_letter_is_replayed(operator: Page, queue: JobQueue) -> None:
    one, other = uuid4(), uuid4()
    why = f"the roads of {one} are back"
    kill(queue, build_plan_job(one), build_plan_job(other))

    operator.goto("/queues")
    expect(operator.get_by_role("row").filter(has_text="plans").first).to_contain_text("2")
    operator.get_by_role("row").filter(has_text="plans").get_by_role("link", name="2", exact=True).click()
    letter = operator.get_by_role("row").filter(has_text=one.hex)
    expect(letter).to_contain_text("is <b>away</b>")
    assert operator.locator("main td b").count() == 0, "the error of a job stays text"
    assert_accessible(operator)
    letter.locator("summary", has_text="Replay").click()
    letter.locator("details[open]").get_by_label("Why").fill(why)
    letter.get_by_role("button", name="Replay it").click()
    expect(operator.get_by_role("status")).to_contain_text("1 dead letter replayed")

    ran: list[dict[str, Any]] = []
    with working(queue, ran, fails=False):
        eventually(lambda: ran, bool)
    assert ran == [{"route_id": one.hex}]
    assert dead(queue) == 1
    operator.goto("/queues")
    expect(operator.get_by_text(why)).to_be_visible()


TRUCKS = "Unit #,VIN,Make\n301,1FUJGBDV8NLBT3011,Freightliner\n"
DROPPED = """([text, files]) => {
  const dragged = new DataTransfer();
  for (let number = 0; number < files; number++) dragged.items.add(new File([text], `${number}.csv`));
  const drag = (kind) => new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: dragged });
  document.body.dispatchEvent(drag("dragover"));
  document.body.dispatchEvent(drag("drop"));
}"""


def test_a_file_that_is_dropped_on_any_page_is_looked_at_and_imported(people: People, service: Service) -> None:
    with service.new_tenant() as client:
        page = people.page(Role.DISPATCHER, client.fleet)
        page.goto("/savings")
        page.keyboard.press("?")
        page.evaluate(DROPPED, [TRUCKS, 2])
        expect(page.get_by_role("alert")).to_have_text("Drop one file at a time.")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.evaluate(DROPPED, [TRUCKS, 1])
        expect(page.get_by_role("heading", name="This is a file of vehicles")).to_be_visible()

        page.get_by_role("button", name="Import the file").click()
        expect(page.get_by_text("1 row added")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Import a file")).to_be_visible()


def test_the_keyboard_keeps_its_place_beside_a_file_that_is_looked_at(people: People, tmp_path: Path) -> None:
    file = tmp_path / "trucks.csv"
    file.write_text(TRUCKS)
    page = people.page(Role.DISPATCHER)
    page.goto("/import")
    page.get_by_label("File").set_input_files(file)
    look, kind = page.get_by_role("button", name="Look at it"), page.get_by_label("What it is")
    look.press("Enter")
    expect(page.get_by_role("heading", name="This is a file of vehicles")).to_be_visible()
    expect(look).to_be_focused()
    kind.focus()
    held: list[Route] = []
    page.route("**/import?*", lambda route: held.append(route))
    kind.press("d")
    expect(kind).to_be_disabled()  # another choice could be answered before this one
    eventually(lambda: (page.title(), *held)[1:], bool)  # Playwright tells of it while it is asked for something
    held[0].continue_()
    page.unroute_all()
    expect(page.get_by_role("heading", name="Perhaps this is a file of drivers")).to_be_visible()
    expect(kind).to_be_focused()
    expect(look).to_have_text("Look at it")

    file.write_text(2 * TRUCKS)  # Chromium sends no file that was changed after it was chosen
    look.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The file could not be read: choose it again")


def test_a_file_that_is_dropped_is_imported_for_the_company_of_the_page(people: People) -> None:
    """Another company was chosen in another window, or another person has signed in there: that company's page is
    loaded, and the file is dropped anew."""
    first, second = people.world.new_fleet(), people.world.new_fleet()
    with people.world.database.transaction() as connection:
        connection.execute("UPDATE companies SET name = 'Zephyr Lines' WHERE id = %s", (second.company_id,))
    page = people.page(Role.OPERATOR, first)
    page.goto("/savings")
    other = page.context.new_page()
    other.goto("/companies?q=Zephyr")
    other.locator(f"form:has(input[value={second.shown_company_id}])").get_by_role("button").click()
    expect(other.locator("header").get_by_text("Zephyr Lines")).to_be_visible()

    page.evaluate(DROPPED, [TRUCKS, 1])
    expect(page.locator("header").get_by_text("Zephyr Lines")).to_be_visible()
    expect(page.get_by_role("heading", name="Import a file")).to_be_visible()
    expect(page.get_by_role("heading", name="This is a file of vehicles")).to_have_count(0)

    with people.world.database.transaction() as connection:
        owners = [signed_in(connection, Role.OWNER, one.company_id) for one in (first, second)]
    add_session(page.context, people.world.url, owners[0])
    page.goto("/savings")
    add_session(page.context, people.world.url, owners[1])  # who signs in in another window
    page.evaluate(DROPPED, [TRUCKS, 1])
    expect(page.locator("header").get_by_text("Zephyr Lines")).to_be_visible()
    expect(page.get_by_role("heading", name="Import a file")).to_be_visible()
    expect(page.get_by_role("heading", name="This is a file of vehicles")).to_have_count(0)
