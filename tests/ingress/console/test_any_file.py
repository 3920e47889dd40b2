"""The page on which any file is dropped: a look, a choice where it is not sure, the import, and who may do so."""

import httpx
import pytest

from domain.lifecycle import Role
from tests.ingress.console.conftest import Browser, World, words
from tests.ingress.console.records import stored_rows, vehicles_of
from tests.service import eventually

TRUCKS = "Unit #,VIN,Make,Mileage\n301,1FUJGBDV8NLBT3011,Freightliner,98000\n"
NET_PRICES = "Store No.,City,State,Retail Price,Best Discounted Price\n77001,Nowhere,IN,3.999,3.499\n"
TWO_KINDS = "station_id,name,latitude,longitude,retail_price,net_price\nS1,Stop,41.5,-87.3,3.9,3.5\n"

LOADS = """Load #,Truck,Driver,"Pickup, local",Location Name,Lat,Lng
A,101,Ann Lee,2026-12-01T08:00:00Z,Joliet,41.4,-88.1
A,101,Ann Lee,2026-12-01T08:00:00Z,Newark,40.7,-74.1
"""


def send(browser: Browser, text: str, **fields: str) -> httpx.Response:
    headers = {"Content-Type": "text/csv", "X-Form-Token": browser.token, "HX-Request": "true"}
    return browser.post("/import", params={"filename": "file.csv", **fields}, content=text.encode(), headers=headers)


def imported(browser: Browser, text: str, **fields: str) -> str:
    answer = send(browser, text, act="import", **fields)
    assert answer.status_code == 303, answer.text
    address = answer.headers["location"]
    return eventually(lambda: words(browser.look(address)), lambda said: "You may leave this page" not in said)


def test_a_file_is_looked_at_and_then_imported(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.DISPATCHER, fleet)

    look = words(send(browser, TRUCKS, act="look").text)
    assert "This is a file of vehicles" in look
    assert "Columns that are not used: Mileage." in look
    assert [row[1] for row in vehicles_of(world, fleet)] == ["101", "102"]

    assert "1 row added" in imported(browser, TRUCKS, kind="vehicles")
    assert [row[1] for row in vehicles_of(world, fleet)] == ["101", "102", "301"]
    assert "0 rows added, 0 changed, 1 unchanged" in imported(browser, TRUCKS, kind="vehicles")


def test_a_file_of_two_kinds_is_not_imported_before_somebody_chooses(world: World) -> None:
    browser = world.browser(Role.OWNER)

    look = send(browser, TWO_KINDS, act="look").text
    assert "Perhaps this is a file of" in words(look)
    assert "Import the file" not in look
    assert send(browser, TWO_KINDS, act="import").status_code == 409


def test_a_person_says_the_currency_of_a_card_s_file(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    bought = "Tran Date,Unit,City,Item,Litres,State,Amt\n2026-11-20,101,Anywhere,ULSD,400,MB,642.18\n"

    look = words(send(browser, bought, act="look", kind="fills").text)
    assert "Nothing says the currency of purchases in Canada" in look
    look = send(browser, bought, act="look", kind="fills", currency="CAD").text
    assert "Nothing says" not in words(look)
    assert '<option value="CAD" selected>' in look

    assert "1 fill added" in imported(browser, bought, kind="fills", currency="CAD")
    query = "SELECT currency FROM fills WHERE company_id = %s"
    assert stored_rows(world, query, fleet.company_id) == [("CAD",)]


def test_an_owner_imports_net_prices_and_the_page_tells_what_is_refused(world: World) -> None:
    browser = world.browser(Role.OWNER)

    said = imported(browser, NET_PRICES, kind="prices", profile="loves")
    assert "1 row is refused" in said
    assert "import the station first" in said


def test_a_file_of_routes_asks_for_the_column_that_is_not_told_and_remembers_it(world: World) -> None:
    browser = world.browser(Role.DISPATCHER, world.new_fleet())

    asked = send(browser, LOADS, act="look").text
    named = send(browser, LOADS, act="look", **{"map-scheduledStart": "Pickup, local"}).text
    assert "Perhaps this is a file of routes" in words(asked)
    assert "Column of the start (scheduledStart) choose Pickup, local" in words(asked)
    assert "This is a file of routes" in words(named)
    assert "<option selected>Pickup, local</option>" in named
    assert "2 A 101 Ann Lee 2026-12-01 08:00 UTC Joliet, Newark" in words(named)

    assert "1 route created" in imported(browser, LOADS, kind="routes", **{"map-scheduledStart": "Pickup, local"})
    assert "1 unchanged" in imported(browser, LOADS, kind="routes")


@pytest.mark.parametrize(
    ("role", "kind", "status"),
    [(Role.DISPATCHER, "prices", 403), (Role.OWNER, "stations", 403), (Role.DISPATCHER, "lorries", 400)],
)
def test_nobody_imports_what_is_not_for_the_role(world: World, role: Role, kind: str, status: int) -> None:
    assert send(world.browser(role), TWO_KINDS, act="import", kind=kind).status_code == status


def test_a_web_page_saved_as_a_table_is_told(world: World) -> None:
    answer = send(world.browser(Role.DISPATCHER), "<!doctype html><html>Sign in</html>", act="look")

    assert answer.status_code == 400
    assert "download the file again" in words(answer.text)


def test_the_prices_of_a_company_are_not_shown_to_another(world: World) -> None:
    answer = send(world.browser(Role.OWNER), NET_PRICES, act="import", kind="prices", profile="loves")
    address = answer.headers["location"]

    assert world.browser(Role.OWNER, world.new_fleet()).get(address).status_code == 404


def test_a_file_without_a_row_that_can_be_read_is_not_called_empty(world: World) -> None:
    answer = send(world.browser(Role.DISPATCHER), "A" * 200_000, act="look")

    assert answer.status_code == 400
    assert "no row that can be read" in words(answer.text)


def test_a_look_says_in_which_money_and_unit_a_price_is_read(world: World) -> None:
    prices = "Site,City,ST,Retail Price\n907,Miles City,MT,4.599\n803,Portage La Prairie,MB,1.999\n804,Butte,MT,7777\n"
    browser = world.browser(Role.OPERATOR, world.new_fleet())

    looks = [words(send(browser, prices, act="look", kind="prices").text)]
    form = {"filename": "prices.csv", "act": "preview"}
    headers = {"Content-Type": "text/csv", "X-Form-Token": browser.token, "HX-Request": "true"}
    looks.append(words(browser.post("/prices", params=form, content=prices.encode(), headers=headers).text))

    for look in looks:
        assert "4.599" in look
        assert "1.999 is in CAD a litre, and no rate of exchange is set: see FUELROUTE_CAD_PER_USD" in look
        assert "7,777.00 is no price of a gallon in dollars" in look
        assert "$1.999" not in look
