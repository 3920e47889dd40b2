"""The page Find: one search box for loads, units, drivers, truck stops and requests."""

from datetime import UTC, datetime, timedelta
from typing import Any

from domain.ids import new_id, shown_id
from domain.lifecycle import Role
from tests.domain.helpers import imported
from tests.factories import Fleet
from tests.ingress.console.conftest import Browser, World, words


def push(world: World, fleet: Fleet, *, sandbox: bool = False, **changes: Any) -> str:
    """The shown id of a pushed route."""
    now = datetime.now(UTC)
    with world.database.transaction() as connection:
        tenant = fleet.sandbox if sandbox else fleet.live
        return shown_id("rte", imported(connection, tenant, now=now, start=now + timedelta(hours=5), **changes))


def led_to(browser: Browser, text: str) -> str:
    """The address to which a search leads at once; empty where it shows a list."""
    answer = browser.get("/find", params={"q": text})
    assert answer.status_code in (200, 303), answer.text
    return str(answer.headers.get("location", ""))


def test_a_search_with_one_hit_leads_to_its_page(world: World) -> None:
    fleet = world.new_fleet()
    route = push(world, fleet, externalId="LOAD-ONLY", reference="PO-77123")
    browser = world.browser(Role.VIEWER, fleet)

    assert led_to(browser, "LOAD-ONLY") == f"/routes/{route}"
    assert led_to(browser, "load-on") == f"/routes/{route}"
    assert led_to(browser, " PO-77123 ") == f"/routes/{route}"
    assert led_to(browser, route) == f"/routes/{route}"
    assert led_to(browser, "000102") == f"/vehicles/one?id={fleet.shown_trucks[1]}"
    assert led_to(browser, fleet.shown_trucks[1]) == f"/vehicles/one?id={fleet.shown_trucks[1]}"
    assert led_to(browser, "Ann Lee").startswith("/drivers/one?id=drv_")
    for address in (led_to(browser, "000102"), led_to(browser, "Ann Lee")):
        browser.look(address)


def test_several_hits_are_listed_by_kind(world: World) -> None:
    fleet = world.new_fleet()
    for number in range(8):
        push(world, fleet, externalId=f"MANY-{number}")
    push(world, fleet, sandbox=True, externalId="MANY-S", vehicle={"unitNumber": "UNKNOWN"})
    with world.database.transaction() as connection:
        connection.execute("UPDATE drivers SET name = 'Many Ford' WHERE id = %s", (fleet.drivers[0],))
    browser = world.browser(Role.VIEWER, fleet)
    html = browser.look("/find", q="many")
    page = words(html)

    assert page.index("Routes 8 routes") < page.index("Sandbox routes 1 route") < page.index("Drivers 1 driver")
    assert "MANY-7" in page
    assert "MANY-1" not in page, "the list of routes has the rest"
    assert "/routes?environment=live&amp;q=many" in html
    assert "held: vehicle not matched" in page
    assert "Nothing here is called" in words(browser.look("/find", q="no such thing"))
    assert "Type a load or order number" in words(browser.look("/find"))


def test_a_retired_record_is_not_found(world: World) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        connection.execute("UPDATE vehicles SET retired_at = now() WHERE id = %s", (fleet.trucks[1],))
    assert led_to(world.browser(Role.VIEWER, fleet), "000102") == ""


def test_nothing_of_another_company_is_found(world: World) -> None:
    theirs, ours = world.new_fleet(), world.new_fleet()
    route = push(world, theirs, externalId=f"THEIRS-{new_id().hex}", reference="PO-THEIRS")
    with world.database.transaction() as connection:
        connection.execute("UPDATE vehicles SET unit_number = 'THEIRS-1' WHERE id = %s", (theirs.trucks[0],))
    browser = world.browser(Role.OWNER, ours)

    assert "Nothing here is called" in browser.look("/find", q="theirs-")
    assert "Nothing here is called" in browser.look("/find", q="PO-THEIRS")
    assert browser.get(led_to(browser, route)).status_code == 404
    assert browser.get(led_to(browser, theirs.shown_trucks[0])).status_code == 404


def test_an_operator_without_a_company_chooses_one_first(world: World) -> None:
    browser = world.browser(Role.OPERATOR)
    assert led_to(browser, "LOAD") == "/companies"
    assert 'action="/find"' not in browser.look("/companies")


def test_the_box_holds_what_was_searched_and_escapes_it(world: World) -> None:
    page = world.browser(Role.VIEWER).look("/find", q='"><script>1</script>')
    assert "<script>1" not in page
    assert 'value="&#34;&gt;&lt;script&gt;1' in page
