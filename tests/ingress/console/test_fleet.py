"""The pages Vehicles and Drivers: searched, edited and retired. `test_csv_files.py` imports and exports them."""

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import httpx
import pytest
from cryptography.fernet import Fernet

from domain.accounts.contacts import Contacts, is_sealed
from domain.fleet.drivers import DriverRow
from domain.housekeeping.erasure import erase_driver
from domain.ids import shown_id
from domain.lifecycle import Role, RouteStatus
from domain.operations import import_records
from domain.routes.intake.fleet_changes import edit_driver
from tests.domain.helpers import imported, status_of
from tests.factories import DOT
from tests.ingress.console.conftest import Fields, World, words
from tests.ingress.console.records import drivers_of, form_of, stored_rows, vehicles_of
from tests.ingress.console.uploads import exported, import_file, send
from tests.service import Service, eventually

HOSTILE = ("'; DROP TABLE vehicles; --", "%_\\", "\x00", "<script>alert(1)</script>", "\udcff", "9" * 300, "☃ é", "🚚")


# --- Looking -----------------------------------------------------------------------------------------------------


def test_the_list_is_searched(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.VIEWER, fleet)
    page = words(browser.look("/vehicles"))
    assert "2 vehicles" in page
    assert page.index("101") < page.index("102")
    assert "1XKAD49X0CJ000102" in words(browser.look("/vehicles", q="cj000102"))
    assert "1XKAD49X0CJ000101" not in words(browser.look("/vehicles", q="cj000102"))
    assert "No vehicle contains “%”" in words(browser.look("/vehicles", q="%"))
    assert "Bo Diaz" in words(browser.look("/drivers", q="DIAZ"))
    assert "1 driver" in words(browser.look("/drivers", q="d-2"))
    assert "No vehicle is retired" in words(browser.look("/vehicles", retired="yes"))


def test_long_lists_have_pages(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    lines = "".join(f"T{number:03}\n" for number in range(120))
    assert "120 rows added" in import_file(browser, "vehicles", f"unit_number\n{lines}")
    first, second = words(browser.look("/vehicles", q="T")), words(browser.look("/vehicles", q="T", page=1))
    assert "1 of 3 Next" in first
    assert "T049" in first
    assert "T050" not in first
    assert "T050" in second
    assert "Before 2 of 3 Next" in second
    assert "T119" in words(browser.look("/vehicles", q="T", page=2))
    assert "contains" in words(browser.look("/vehicles", q="T", page=3))


def test_retired_vehicles_are_listed_on_their_own(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.DISPATCHER, fleet)
    browser.look("/vehicles")
    assert browser.submit("/vehicles/end", id=fleet.shown_trucks[0], reason="sold").status_code == 303
    assert "1XKAD49X0CJ000101" not in browser.look("/vehicles")
    assert "1XKAD49X0CJ000101" in browser.look("/vehicles", retired="yes")
    page = words(browser.look("/vehicles/one", id=fleet.shown_trucks[0]))
    assert "retired" in page
    assert "retire: sold" in page
    assert "Store" not in page


# --- Editing -----------------------------------------------------------------------------------------------------


def test_a_vehicle_is_edited_and_the_audit_log_says_who(world: World) -> None:
    fleet = world.new_fleet()
    email = world.new_user(Role.DISPATCHER, fleet)
    browser = world.browser()
    browser.sign_in(email)
    fields = form_of(browser, "/vehicles/one", id=fleet.shown_trucks[0])
    assert fields["unit_number"] == "101"
    assert fields["fuel_tank_capacity_gallons"] == "200"

    answer = browser.submit("/vehicles/one", **fields | {"mpg": "7.25", "make": "Volvo"})

    assert answer.headers["location"] == f"/vehicles/one?id={fleet.shown_trucks[0]}&done=changed"
    page = words(browser.look(answer.headers["location"]))
    assert "The changes are saved" in page
    assert f"{email} change: Make, Miles per gallon" in page
    truck = vehicles_of(world, fleet)[0]
    assert truck[1:] == ("101", "1XKAD49X0CJ000101", None, "Volvo", None, None, 200, 7.25)
    same = browser.submit("/vehicles/one", **form_of(browser, "/vehicles/one", id=fleet.shown_trucks[0]))
    assert same.headers["location"].endswith("done=same")


def test_dimensions_and_cargo_are_edited_and_exported(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    typed = {"height_feet": "13.5", "weight_pounds": "80000", "axle_count": "5", "hazmat": "yes"}

    browser.submit("/vehicles/one", **form_of(browser, "/vehicles/one", id=fleet.shown_trucks[0]) | typed)

    fields = form_of(browser, "/vehicles/one", id=fleet.shown_trucks[0])
    assert {name: fields[name] for name in typed} == typed
    page = words(browser.look("/vehicles/one", id=fleet.shown_trucks[0]))
    assert "change: Height, feet, Weight, pounds, Axles, Hazardous cargo" in page


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"height_feet": "411"}, "Height, feet: Expected a number <= 30"),
        ({"hazmat": "maybe"}, "Hazardous cargo: "),
        ({"mpg": "fast"}, "Miles per gallon: Expected a number"),
        ({"mpg": "51"}, "Miles per gallon: Expected a number <= 50"),
        ({"vin": "SHORT"}, "VIN: Expected a text of at least 17"),
        ({"unit_number": "x" * 201}, "Unit number: Expected a text of at most 200"),
        ({"unit_number": "", "vin": ""}, "unit_number or vin is needed"),
        ({"unit_number": "102"}, "There is a vehicle with the unit number '102' already"),
    ],
)
def test_a_bad_value_is_refused_with_its_sentence(world: World, changes: Fields, sentence: str) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    before = vehicles_of(world, fleet)
    fields = form_of(browser, "/vehicles/one", id=fleet.shown_trucks[0])

    answer = browser.submit("/vehicles/one", **fields | changes)

    assert answer.status_code in (400, 409)
    assert sentence in words(answer.text)
    for value in filter(None, changes.values()):
        assert f'value="{value}"' in answer.text, "what was typed is still there"
    assert vehicles_of(world, fleet) == before


def test_an_edit_does_not_overwrite_a_change_stored_meanwhile(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    fields = form_of(browser, "/vehicles/one", id=fleet.shown_trucks[0])
    assert browser.submit("/vehicles/one", **fields | {"mpg": "7"}).status_code == 303
    answer = browser.submit("/vehicles/one", **fields | {"mpg": "8"})
    assert answer.status_code == 409
    assert "Somebody else has changed this vehicle in the meantime" in words(answer.text)
    shown_again = re.findall(r'name="seen" value="(\w+)"', answer.text)
    answer = browser.submit("/vehicles/one", **fields | {"mpg": "8", "seen": shown_again[0]})
    assert answer.status_code == 409, "the page that says so does not overwrite it either"
    assert vehicles_of(world, fleet)[0][-1] == 7


def test_an_edited_unit_number_imports_the_routes_that_wait_for_it(world: World, service: Service) -> None:
    fleet, now = world.new_fleet(), datetime.now(UTC)
    with world.database.transaction() as connection:
        route_id = imported(
            connection, fleet.live, now=now, start=now + timedelta(hours=5), vehicle={"unitNumber": "T-9"}
        )
    browser = world.browser(Role.DISPATCHER, fleet)
    fields = form_of(browser, "/vehicles/one", id=fleet.shown_trucks[0])
    assert browser.submit("/vehicles/one", **fields | {"unit_number": "T-9"}).status_code == 303

    def status() -> RouteStatus:
        with world.database.transaction() as connection:
            return status_of(connection, route_id)

    eventually(status, lambda one: one is RouteStatus.DRAFT)


def test_a_new_driver_and_a_new_vehicle_are_added(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    browser.look("/drivers/new")
    answer = browser.submit("/drivers/new", name="Cy Young", external_id="D-3")
    assert "Cy Young" in words(browser.look(answer.headers["location"]))
    answer = browser.submit("/drivers/new", name="Di Young", external_id="D-3")
    assert "There is a driver with the external id 'D-3' already" in words(answer.text)
    vin = "1XKAD49X0CJ000103"
    assert browser.submit("/vehicles/new", unit_number="103", vin=vin).status_code == 303
    answer = browser.submit("/vehicles/new", unit_number="104", vin=vin)
    assert f"There is a vehicle with the VIN '{vin}' already" in words(answer.text)
    assert [row[1] for row in vehicles_of(world, fleet)] == ["101", "102", "103"]


def test_no_vehicle_gets_the_vin_of_another_one_but_one_that_has_it_may_keep_it(world: World) -> None:
    fleet, vin = world.new_fleet(), "1XKAD49X0CJ000101"
    browser = world.browser(Role.OWNER, fleet)

    def save(**typed: str) -> httpx.Response:
        shown = form_of(browser, "/vehicles/one", id=fleet.shown_trucks[1])
        return browser.submit("/vehicles/one", **shown | typed)

    assert f"There is a vehicle with the VIN '{vin}' already" in words(save(vin=vin).text)
    with world.database.transaction() as connection:  # as older releases stored it
        connection.execute("UPDATE vehicles SET vin = %s WHERE company_id = %s", (vin, fleet.company_id))
    assert save(make="Mack").status_code == 303


def test_a_contact_is_stored_sealed_kept_and_never_shown(world: World) -> None:
    fleet = world.new_fleet()
    secret = "mailtos://ann:hunter2@mail.example.com"
    browser = world.browser(Role.DISPATCHER, fleet)
    driver = fleet.shown_drivers[0]

    def contact() -> str | None:
        return str(drivers_of(world, fleet)[0][4] or "") or None

    def save(**changes: str) -> int:
        return browser.submit("/drivers/one", **form_of(browser, "/drivers/one", id=driver) | changes).status_code

    assert save(contact="ftp://x") == 400
    assert save(contact=secret) == 303
    assert contact() is not None
    for role in (Role.VIEWER, Role.DISPATCHER, Role.OWNER):
        looking = world.browser(role, fleet)
        for text in (looking.look("/drivers"), looking.look("/drivers/one", id=driver), exported(looking, "drivers")):
            assert "hunter2" not in text
            assert "sealed:" not in text
    assert save(display_name="Annie") == 303
    assert contact() is not None, "an empty field keeps it"
    owner = world.browser(Role.OWNER, fleet)
    answer = owner.submit("/drivers/contacts.csv")
    assert secret in answer.text
    assert browser.submit("/drivers/contacts.csv").status_code == 403
    audited = stored_rows(world, "SELECT action FROM audit_log WHERE company_id = %s", fleet.company_id)
    assert ("export contacts",) in audited
    assert "hunter2" not in str(stored_rows(world, "SELECT * FROM audit_log WHERE company_id = %s", fleet.company_id))
    assert save(contact_removed="yes") == 303
    assert contact() is None


def test_an_edited_contact_is_stored_sealed_when_there_is_a_key(world: World) -> None:
    fleet, contacts = world.new_fleet(), Contacts(Fernet.generate_key().decode())
    row = DriverRow(name="Ann Lee", contact="json://gate.example.com")
    with world.database.transaction() as connection:
        edit_driver(connection, fleet.company_id, fleet.drivers[0], row, DOT, keep_contact=False, contacts=contacts)
    sealed = drivers_of(world, fleet)[0][4]
    assert is_sealed(sealed)
    assert contacts.open(sealed) == "json://gate.example.com"
    with world.database.transaction() as connection:
        row = DriverRow(name="Ann B. Lee")
        edit_driver(connection, fleet.company_id, fleet.drivers[0], row, DOT, keep_contact=True, contacts=contacts)
    assert drivers_of(world, fleet)[0][1] == "Ann B. Lee"
    assert drivers_of(world, fleet)[0][4] == sealed


def test_a_truck_on_its_way_is_retired_by_an_owner_only(world: World) -> None:
    fleet, now = world.new_fleet(), datetime.now(UTC)
    with world.database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now, start=now + timedelta(hours=5))
        connection.execute("UPDATE routes SET status = 'active' WHERE id = %s", (route_id,))
    fields: Fields = {"id": fleet.shown_trucks[0], "force": "yes"}
    dispatcher, owner = world.browser(Role.DISPATCHER, fleet), world.browser(Role.OWNER, fleet)
    dispatcher.look("/vehicles")
    answer = dispatcher.submit("/vehicles/end", **fields)
    assert answer.status_code == 409
    assert shown_id("rte", route_id) in answer.text
    owner.look("/vehicles")
    assert owner.submit("/vehicles/end", id=fields["id"]).status_code == 409
    assert len(vehicles_of(world, fleet)) == 2
    assert owner.submit("/vehicles/end", **fields).status_code == 303
    assert len(vehicles_of(world, fleet)) == 1


def test_an_erased_driver_is_removed_from_the_audit_log(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    browser.look("/drivers")
    answer = browser.submit("/drivers/end", id=fleet.shown_drivers[0], reason="Ann Lee moved to Reno")
    assert "Ann Lee moved to Reno" in words(browser.look(answer.headers["location"]))
    erase_driver(world.database.transaction, fleet.company_id, fleet.drivers[0], force=False, now=datetime.now(UTC))
    assert "Reno" not in browser.look("/drivers/one", id=fleet.shown_drivers[0])
    assert stored_rows(world, "SELECT id FROM audit_log WHERE company_id = %s", fleet.company_id) == []


def test_old_imports_are_deleted(world: World) -> None:
    fleet, now = world.new_fleet(), datetime.now(UTC)
    with world.database.transaction() as connection:
        import_id = import_records.begin(connection, fleet.company_id, "drivers", "a@b.c", rows_total=9, now=now).id
        import_records.forget_imports(connection, days=90, now=now + timedelta(days=89), limit=100_000)
        assert import_records.read_import(connection, fleet.company_id, import_id) is not None
        import_records.forget_imports(connection, days=90, now=now + timedelta(days=91), limit=100_000)
        assert import_records.read_import(connection, fleet.company_id, import_id) is None


# --- Roles and companies -----------------------------------------------------------------------------------------


def test_a_viewer_only_reads(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.VIEWER, fleet)
    for path in ("/vehicles", "/drivers"):
        page = browser.look(path)
        assert "Export as CSV" in page
        assert "Import a CSV file" not in page
        assert "/new" not in page
        browser.look(f"{path}/new", status=404)
    page = browser.look("/vehicles/one", id=fleet.shown_trucks[0])
    assert "1XKAD49X0CJ000101" in page
    assert "<form" not in page[page.index("<main") :]
    assert browser.submit("/vehicles/one", id=fleet.shown_trucks[0], unit_number="9").status_code == 403
    assert browser.submit("/vehicles/new", unit_number="9").status_code == 403
    assert browser.submit("/vehicles/end", id=fleet.shown_trucks[0]).status_code == 403
    assert "Not found" in send(browser, "vehicles", "unit_number\n9\n", status=404)
    assert len(vehicles_of(world, fleet)) == 2


def test_rows_and_imports_of_another_company_are_not_found(world: World) -> None:
    theirs, ours = world.new_fleet(), world.new_fleet()
    browser, their_browser = world.browser(Role.OWNER, ours), world.browser(Role.OWNER, theirs)
    address = send(their_browser, "vehicles", "unit_number\nTHEIRS\n")
    eventually(lambda: their_browser.look("/vehicles", q="THEIRS"), lambda page: "1 vehicle" in words(page))

    assert "THEIRS" not in browser.look("/vehicles")
    assert "THEIRS" not in exported(browser, "vehicles")
    for path, record in (("/vehicles", theirs.shown_trucks[0]), ("/drivers", theirs.shown_drivers[0])):
        browser.look(f"{path}/one", status=404, id=record)
        fields = form_of(their_browser, f"{path}/one", id=record)
        assert browser.submit(f"{path}/one", **fields).status_code == 404
        assert browser.submit(f"{path}/end", id=record).status_code == 404
    browser.look(address, status=404)
    browser.look(address.replace("vehicles", "drivers"), status=404)
    assert len(drivers_of(world, theirs)) == 2


def test_a_stranger_and_a_forged_form_are_refused(world: World) -> None:
    stranger = world.browser()
    stranger.look("/sign-in")
    headers = {"Content-Type": "text/csv", "X-Form-Token": stranger.token}
    assert (
        stranger.post("/vehicles/import", content="unit_number\n1\n", headers=headers)
        .headers["location"]
        .startswith("/sign-in")
    )
    browser = world.browser(Role.OWNER)
    for headers in (
        {"Content-Type": "text/csv"},
        {"Content-Type": "text/csv", "X-Form-Token": "forged"},
        {"Content-Type": "text/csv", "X-Form-Token": browser.token, "Sec-Fetch-Site": "cross-site"},
    ):
        assert browser.post("/vehicles/import", content="unit_number\n1\n", headers=headers).status_code == 403
    headers = {"Content-Type": "text/plain", "X-Form-Token": browser.token}
    assert browser.post("/vehicles/import", content="unit_number\n1\n", headers=headers).status_code == 400


# --- Hostile input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vehicles", "drivers", "stations", "deals", "taxes"])
def test_no_hostile_input_causes_a_server_error(world: World, kind: str) -> None:
    browser = world.browser(Role.OPERATOR if kind in ("stations", "taxes") else Role.OWNER)
    for text in HOSTILE:
        packed = quote(text.encode("utf-8", "surrogatepass"), safe="")
        for query in (f"q={packed}", f"page={packed}", f"retired={packed}", f"q={packed}&page=99999999"):
            answer = browser.get(f"/{kind}?{query}")
            assert answer.status_code in (200, 400), (query, answer.text)
            assert "<script>alert" not in answer.text
        for path in (f"/{kind}/one?id={packed}", f"/{kind}/imports/{packed}"):
            assert browser.get(path).status_code in (400, 404), path
        browser.look("/account")
        body = {"form_token": browser.token, "id": packed, "seen": packed, "name": packed, "unit_number": packed}
        for path in (f"/{kind}/one", f"/{kind}/end"):
            assert browser.post(path, data=body).status_code in (400, 403, 404), path
    raw = b"name=%FF%FE&unit_number=%00%00&id=%zz&form_token=" + browser.token.encode()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert browser.post(f"/{kind}/new", content=raw, headers=form).status_code in (303, 400, 403)


def test_markup_in_a_name_is_escaped(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    browser.look("/drivers/new")
    answer = browser.submit("/drivers/new", name="<script>alert(1)</script>")
    for page in (browser.look("/drivers"), browser.look(answer.headers["location"])):
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page


def test_a_name_of_several_lines_survives_an_edit_of_something_else(world: World) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        connection.execute("UPDATE vehicles SET model = E'one\\ntwo' WHERE id = %s", (fleet.trucks[0],))
    browser = world.browser(Role.OWNER, fleet)
    fields = form_of(browser, "/vehicles/one", id=fleet.shown_trucks[0]) | {"model": "onetwo", "mpg": "9"}
    assert browser.submit("/vehicles/one", **fields).status_code == 303
    assert vehicles_of(world, fleet)[0][5] == "one\ntwo"
