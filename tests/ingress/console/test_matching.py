"""The pages Matching and Mappings: one click, and the routes that waited are imported."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest

from domain.fleet.mappings import store_mapping
from domain.ids import shown_id
from domain.lifecycle import Role, RouteStatus
from tests.domain.helpers import imported, status_of
from tests.factories import Fleet
from tests.ingress.console.conftest import Fields, World, words
from tests.ingress.console.test_routes import status_now
from tests.service import Service, eventually


def hold(world: World, fleet: Fleet, *, sandbox: bool = False, **changes: Any) -> UUID:
    """The id of a route that waits for a mapping."""
    now = datetime.now(UTC)
    with world.database.transaction() as connection:
        tenant = fleet.sandbox if sandbox else fleet.live
        route_id = imported(connection, tenant, now=now, start=now + timedelta(hours=5), **changes)
        assert status_of(connection, route_id) is RouteStatus.PENDING_MAPPING
    return route_id


def mapping(
    fleet: Fleet, value: str, *, kind: str = "unit_number", target: UUID | None = None, was: UUID | None = None
) -> Fields:
    """The fields of the form that maps."""
    return {
        "kind": kind,
        "value": quote(value, safe=""),
        "was": shown_id("veh", was) if was else "",
        "target_id": shown_id("veh", target or fleet.trucks[0]),
    }


def test_the_reference_that_most_routes_wait_for_comes_first(world: World) -> None:
    fleet = world.new_fleet()
    for value, routes in (("ONE-9", 1), ("THREE-9", 3), ("TWO-9", 2)):
        for number in range(routes):
            hold(world, fleet, sandbox=number > 0, vehicle={"unitNumber": value})
    page = words(world.browser(Role.VIEWER, fleet).look("/matching/vehicles"))

    assert (
        page.index("THREE-9 3 routes wait 2 sandbox")
        < page.index("TWO-9 2 routes wait")
        < page.index("ONE-9 1 route waits")
    )
    assert "in 4 h" in page
    assert "THREE-9" not in words(world.browser(Role.VIEWER, fleet).look("/matching/vehicles", q="two"))


def test_one_click_maps_a_reference_and_the_page_shows_the_import(world: World, service: Service) -> None:
    fleet = world.new_fleet()
    route_id = hold(world, fleet, externalId="LOAD-7", vehicle={"unitNumber": "TRUCK-0101"})
    browser = world.browser(Role.DISPATCHER, fleet)
    page = browser.look("/matching/vehicles")
    assert "TRUCK-0101" in page
    assert shown_id("veh", fleet.trucks[0]) in page, "truck 101 is suggested"

    answer = browser.submit("/matching/vehicles/map", part=True, **mapping(fleet, "TRUCK-0101"))
    assert answer.status_code == 200
    assert "LOAD-7" in answer.text

    def progress() -> str:
        query: Fields = {"kind": "unit_number", "value": "TRUCK-0101", "routes": 1, "route": shown_id("rte", route_id)}
        return words(browser.look("/matching/vehicles/progress", **query))

    assert "LOAD-7 draft" in eventually(progress, lambda said: "1 route no longer waits" in said)
    assert "No route waits for a vehicle" in words(browser.look("/matching/vehicles"))
    assert "TRUCK-0101 → 101" in words(browser.look("/mappings/vehicles"))


def test_one_click_maps_no_reference_that_only_resembles_a_truck(world: World) -> None:
    fleet = world.new_fleet()
    for value in ("TRUCK-0101", "1O1", "0"):
        hold(world, fleet, vehicle={"unitNumber": value})
    page = world.browser(Role.DISPATCHER, fleet).look("/matching/vehicles")
    by_value = {
        value: words(part)
        for part in page.split('<li class="reference">')[1:]
        for value in ("TRUCK-0101", "1O1", "0")
        if f'exact">{value}<' in part
    }

    assert "Map 101" in by_value["TRUCK-0101"]
    assert "likely" in by_value["TRUCK-0101"]
    assert "Map 101" not in by_value["1O1"]
    assert "Every route that names 1O1 is then a route of 101 . Is that right? Yes, map it" in by_value["1O1"]
    assert "Nothing in your fleet resembles it" in by_value["0"]


def test_references_that_are_spelled_alike_are_looked_through_and_mapped_together(world: World) -> None:
    fleet = world.new_fleet()
    for value in ("TRK 101", "TRK 102", "TRK 999", "101A"):
        hold(world, fleet, vehicle={"unitNumber": value})
    hold(world, fleet, driver={"name": "DIAZ, BO"})
    browser = world.browser(Role.DISPATCHER, fleet)
    html = browser.look("/matching/vehicles")
    assert "“ TRK ” stands before 2 unit numbers of your fleet" in words(html)
    seen = re.findall(r'name="seen" value="(\w+)"', html)
    form: Fields = {"kind": "unit_number", "before": quote("TRK ", safe=""), "seen": seen[0]}
    assert "map them together" not in browser.look("/matching/drivers"), "one alone is mapped where it stands"

    assert browser.submit("/matching/vehicles/map-together", **form | {"before": "T"}).status_code == 409
    assert browser.submit("/matching/vehicles/map-together", **form | {"seen": "0"}).status_code == 409
    assert browser.submit("/matching/drivers/map-together", **form).status_code == 404
    answer = browser.submit("/matching/vehicles/map-together", **form)
    assert answer.headers["location"] == "/matching/vehicles?mapped=2"
    page = words(browser.look("/mappings/vehicles"))
    assert "TRK 101 → 101" in page
    assert "TRK 102 → 102" in page
    assert "999" not in page
    assert "101A" not in page
    assert "2 vehicles mapped. The routes that waited are being imported." in words(
        browser.look("/matching/vehicles", mapped=2)
    )
    with world.database.transaction() as connection:
        entry = connection.execute(
            "SELECT action, subject, affected FROM audit_log WHERE company_id = %s", (fleet.company_id,)
        ).fetchone()
    assert entry == ("matching.map_together", "2 unit numbers with “TRK ” before them", 2)


def test_what_was_not_looked_through_is_not_mapped(world: World) -> None:
    fleet = world.new_fleet()
    for value in ("TRK 101", "TRK 102"):
        hold(world, fleet, vehicle={"unitNumber": value})
    browser = world.browser(Role.DISPATCHER, fleet)
    seen = re.findall(r'name="seen" value="(\w+)"', browser.look("/matching/vehicles"))
    with world.database.transaction() as connection:  # another truck has the number by now
        connection.execute("UPDATE vehicles SET unit_number = '103' WHERE id = %s", (fleet.trucks[1],))
        connection.execute("UPDATE vehicles SET unit_number = '102' WHERE id = %s", (fleet.trucks[0],))

    form: Fields = {"kind": "unit_number", "before": quote("TRK ", safe=""), "seen": seen[0]}
    answer = browser.submit("/matching/vehicles/map-together", **form)

    assert answer.status_code == 409
    assert "There is no mapping yet" in words(browser.look("/mappings/vehicles"))


def test_what_many_units_share_is_accepted_as_a_rule_after_a_look_at_what_it_matches(
    world: World, service: Service
) -> None:
    fleet = world.new_fleet()
    routes = [hold(world, fleet, vehicle={"unitNumber": value}) for value in ("TRK 101", "TRK 102")]
    unknown = hold(world, fleet, vehicle={"unitNumber": "TRK 999"})
    browser = world.browser(Role.DISPATCHER, fleet)
    (link,) = re.findall(r'href="([^"]+rules\?before=[^"]+)"', browser.look("/matching/vehicles"))
    preview = words(browser.look(link))
    assert "2 unit numbers that 2 held routes name" in preview
    assert "TRK 101 101" in preview
    assert "no unit of your fleet: TRK 999" in preview

    rule: Fields = {"before": quote("TRK ", safe=""), "after": ""}
    answer = browser.submit("/mappings/vehicles/rules", **rule)
    assert answer.headers["location"] == "/mappings/vehicles/rules?done=added"

    def are_imported(*ids: UUID) -> bool:
        with world.database.transaction() as connection:
            return all(status_of(connection, one) is RouteStatus.DRAFT for one in ids)

    eventually(lambda: are_imported(*routes), bool, wanted="the routes that waited are imported")
    browser.submit("/vehicles/new", unit_number="999")
    eventually(lambda: are_imported(unknown), bool, wanted="a truck that comes later is covered, too")
    assert "“TRK …”" in words(browser.look("/mappings/vehicles/rules"))
    assert browser.submit("/mappings/vehicles/rules/remove", **rule).status_code == 303
    assert browser.submit("/mappings/vehicles/rules/remove", **rule).status_code == 404
    hold(world, fleet, vehicle={"unitNumber": "TRK 101"}, externalId="LATER")
    with world.database.transaction() as connection:
        entries = connection.execute(
            "SELECT action, subject, affected FROM audit_log WHERE company_id = %s AND action LIKE 'rules.%%'"
            " ORDER BY id",
            (fleet.company_id,),
        ).fetchall()
    assert entries == [("rules.add", "spelling rule “TRK …”", 2), ("rules.remove", "spelling rule “TRK …”", 1)]


def test_a_rule_of_nothing_or_of_too_much_is_refused(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.DISPATCHER, fleet)
    browser.look("/mappings/vehicles/rules")
    for before, said in (("", "before or after"), ("x" * 51, "at most 50"), ("a%0Ab", "letters, digits")):
        answer = browser.submit("/mappings/vehicles/rules", before=before, after="")
        assert answer.status_code == 400
        assert said in words(answer.text)
    for number in range(10):
        assert browser.submit("/mappings/vehicles/rules", before=f"R{number}", after="").status_code == 303
    assert "remove one first" in words(browser.submit("/mappings/vehicles/rules", before="X", after="").text)
    viewer = world.browser(Role.VIEWER, fleet)
    assert "“R0…”" in words(viewer.look("/mappings/vehicles/rules"))
    assert viewer.submit("/mappings/vehicles/rules", before="V", after="").status_code == 403


def test_a_new_truck_is_added_on_the_page(world: World, service: Service) -> None:
    fleet = world.new_fleet()
    route_id = hold(world, fleet, vehicle={"unitNumber": "TRUCK 88"})
    browser = world.browser(Role.OWNER, fleet)
    browser.look("/matching/vehicles")
    reference: Fields = {"kind": "unit_number", "value": quote("TRUCK 88")}
    assert (
        "there is a vehicle with the unit number"
        in words(browser.submit("/matching/vehicles/new", part=True, **reference, unit_number="101").text).lower()
    )
    assert browser.submit("/matching/vehicles/new", **reference).status_code == 400
    assert browser.submit("/matching/vehicles/new", **reference, unit_number="88", mpg="fast").status_code == 400

    answer = browser.submit(
        "/matching/vehicles/new", part=True, **reference, unit_number="88", fuel_tank_capacity_gallons="240"
    )

    assert answer.status_code == 200
    eventually(lambda: status_now(world, route_id), lambda status: status is RouteStatus.DRAFT)
    with world.database.transaction() as connection:
        row = connection.execute(
            "SELECT v.unit_number, v.fuel_tank_capacity_gallons FROM vehicles v JOIN mappings m ON m.target_id = v.id"
            " WHERE m.company_id = %s AND m.value = 'TRUCK 88'",
            (fleet.company_id,),
        ).fetchone()
    assert row == ("88", 240)


def test_a_new_driver_is_added_on_the_page(world: World, service: Service) -> None:
    fleet = world.new_fleet()
    route_id = hold(world, fleet, driver={"name": "Cy Young"})
    browser = world.browser(Role.DISPATCHER, fleet)
    assert "Cy Young" in browser.look("/matching/drivers")
    reference: Fields = {"kind": "driver_name", "value": quote("Cy Young")}
    assert browser.submit("/matching/drivers/new", **reference, name="Cy Young", contact="ftp://x").status_code == 400

    assert (
        browser.submit("/matching/drivers/new", **reference, name="Cy Young").headers["location"] == "/matching/drivers"
    )

    eventually(lambda: status_now(world, route_id), lambda status: status is RouteStatus.DRAFT)


def test_a_reference_that_fits_several_shows_them_side_by_side(world: World) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        connection.execute("UPDATE drivers SET name = 'Al Ford' WHERE company_id = %s", (fleet.company_id,))
    hold(world, fleet, driver={"name": "Al Ford"})
    page = world.browser(Role.OWNER, fleet).look("/matching/drivers")

    assert "It fits 2 drivers" in words(page)
    assert "id D-1" in words(page)
    assert "id D-2" in words(page)
    assert page.count("Map to this one") == 2


def test_references_that_contradict_each_other_are_both_shown(world: World) -> None:
    fleet = world.new_fleet()
    hold(world, fleet, vehicle={"unitNumber": "101", "vin": "1XKAD49X0CJ000102"})
    page = words(world.browser(Role.OWNER, fleet).look("/matching/vehicles"))

    assert "unit number 101" in page
    assert "VIN 1XKAD49X0CJ000102" in page
    assert page.count("but the same routes also name another vehicle") == 2


def test_another_truck_is_found_by_a_search(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)

    def found(text: str) -> str:
        return words(browser.look("/matching/vehicles/candidates", kind="unit_number", value="9", q=text))

    assert "101" not in found("000102")
    assert "102" in found("TRUCK 102")
    assert "101" not in found("TRUCK 102")
    assert "101" in found("")
    assert "No vehicle has a name like this" in found("zebra")


@pytest.mark.parametrize(
    "value", [" TRUCK  9 ", "TRUCK\n9", "TRUCK\r\n9", "100%41", "a+b&c=d", '"><script>', "Müller ☃", "'"]
)
def test_a_reference_is_mapped_exactly_as_it_was_pushed(world: World, value: str) -> None:
    """Browsers change ends of lines and strip nothing else: the form carries the value packed."""
    fleet = world.new_fleet()
    hold(world, fleet, vehicle={"unitNumber": value})
    browser = world.browser(Role.DISPATCHER, fleet)
    page = browser.look("/matching/vehicles")
    assert f'name="value" value="{quote(value, safe="")}"' in page
    assert "<script>" not in page

    browser.submit("/matching/vehicles/map", **mapping(fleet, value))

    with world.database.transaction() as connection:
        rows = connection.execute("SELECT value FROM mappings WHERE company_id = %s", (fleet.company_id,)).fetchall()
    assert rows == [(value,)]


def test_mappings_are_searched_changed_and_removed(world: World) -> None:
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        store_mapping(connection, fleet.company_id, "unit_number", "BIG-ONE", fleet.trucks[0])
        store_mapping(connection, fleet.company_id, "driver_name", "Annie", fleet.drivers[0])
    browser = world.browser(Role.DISPATCHER, fleet)
    assert "Annie → Ann Lee" in words(browser.look("/mappings/drivers"))
    assert "BIG-ONE → 101" in words(browser.look("/mappings/vehicles", q="big"))
    assert "BIG-ONE → 101" in words(browser.look("/mappings/vehicles", q="101"))
    assert "No mapping contains" in words(browser.look("/mappings/vehicles", q="small"))

    browser.submit("/matching/vehicles/map", **mapping(fleet, "BIG-ONE", target=fleet.trucks[1], was=fleet.trucks[0]))
    assert "BIG-ONE → 102" in words(browser.look("/mappings/vehicles"))

    gone: Fields = {"kind": "unit_number", "value": "BIG-ONE", "was": shown_id("veh", fleet.trucks[1])}
    assert browser.submit("/mappings/vehicles/remove", **gone).headers["location"] == "/mappings/vehicles?done=removed"
    assert "There is no mapping yet" in words(browser.look("/mappings/vehicles"))
    again = browser.submit("/mappings/vehicles/remove", **gone)
    assert (again.status_code, "Somebody else has changed the mapping" in again.text) == (409, True)


def test_no_mapping_of_a_colleague_is_replaced_or_removed_unseen(world: World) -> None:
    fleet = world.new_fleet()
    hold(world, fleet, vehicle={"unitNumber": "TRUCK-0101"})
    browser = world.browser(Role.DISPATCHER, fleet)
    assert 'name="was" value=""' in browser.look("/matching/vehicles")
    with world.database.transaction() as connection:
        store_mapping(connection, fleet.company_id, "unit_number", "TRUCK-0101", fleet.trucks[1])

    late: Fields = mapping(fleet, "TRUCK-0101")
    assert browser.submit("/matching/vehicles/map", **late).status_code == 409
    assert browser.submit("/matching/vehicles/new", **late, unit_number="TRUCK-0101").status_code == 409
    assert (
        browser.submit("/mappings/vehicles/remove", **mapping(fleet, "TRUCK-0101", was=fleet.trucks[0])).status_code
        == 409
    )
    assert "TRUCK-0101 → 102" in words(browser.look("/mappings/vehicles"))

    same = mapping(fleet, "TRUCK-0101", target=fleet.trucks[1])
    assert browser.submit("/matching/vehicles/map", **same).status_code == 303, "what the colleague has done, too"


def test_routes_records_and_mappings_of_another_company_are_not_found(world: World) -> None:
    theirs, ours = world.new_fleet(), world.new_fleet()
    route_id = hold(world, theirs, externalId="THEIR-LOAD", vehicle={"unitNumber": "THEIRS-9"})
    with world.database.transaction() as connection:
        store_mapping(connection, theirs.company_id, "unit_number", "THEIR-MAPPING", theirs.trucks[0])
    browser = world.browser(Role.OWNER, ours)

    assert "THEIRS-9" not in browser.look("/matching/vehicles")
    assert "THEIR-MAPPING" not in browser.look("/mappings/vehicles")
    query: Fields = {"kind": "unit_number", "value": "THEIRS-9", "routes": 1, "route": shown_id("rte", route_id)}
    assert "THEIR-LOAD" not in browser.look("/matching/vehicles/progress", **query)
    assert browser.submit("/matching/vehicles/map", **mapping(theirs, "THEIRS-9")).status_code == 404
    assert browser.submit("/mappings/vehicles/remove", kind="unit_number", value="THEIR-MAPPING").status_code == 404
    with world.database.transaction() as connection:
        rows = connection.execute("SELECT value FROM mappings WHERE company_id = %s", (theirs.company_id,)).fetchall()
    assert rows == [("THEIR-MAPPING",)]


def test_a_viewer_sees_no_buttons_and_is_refused(world: World) -> None:
    fleet = world.new_fleet()
    hold(world, fleet, vehicle={"unitNumber": "TRUCK-0101"})
    with world.database.transaction() as connection:
        store_mapping(connection, fleet.company_id, "unit_number", "X", fleet.trucks[0])
    browser = world.browser(Role.VIEWER, fleet)

    for path in ("/matching/vehicles", "/mappings/vehicles"):
        page = browser.look(path).partition("<main")[2]
        assert 'method="post"' not in page
        assert "hx-post" not in page
    answers = [
        browser.submit("/matching/vehicles/map", **mapping(fleet, "TRUCK-0101")),
        browser.submit("/matching/vehicles/new", kind="unit_number", value="TRUCK-0101", unit_number="9"),
        browser.submit("/matching/vehicles/map-together", kind="unit_number", before="TRUCK-", seen="0"),
        browser.submit("/mappings/vehicles/remove", kind="unit_number", value="X"),
    ]
    assert [answer.status_code for answer in answers] == [403] * 4


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/matching/vehicles/map", {"kind": "driver_name", "value": "X", "target_id": "veh_" + "0" * 32}),
        ("/matching/vehicles/map", {"kind": "unit_number", "value": "X", "target_id": "drv_" + "0" * 32}),
        ("/matching/vehicles/map", {"kind": "unit_number", "value": "", "target_id": "veh_" + "0" * 32}),
        ("/matching/vehicles/map", {}),
        ("/matching/trucks/map", {"kind": "unit_number", "value": "X"}),
        ("/matching/drivers/new", {"kind": "driver_name"}),
        ("/mappings/drivers/remove", {"kind": "unit_number", "value": "X"}),
    ],
)
def test_a_forged_form_changes_nothing(world: World, path: str, fields: Fields) -> None:
    assert world.browser(Role.OWNER).submit(path, **fields).status_code == 404


def test_pushed_text_is_escaped(world: World) -> None:
    fleet = world.new_fleet()
    route_id = hold(world, fleet, externalId="<script>1</script>", vehicle={"unitNumber": "<script>2</script>"})
    browser = world.browser(Role.OWNER, fleet)
    query: Fields = {
        "kind": "unit_number",
        "value": "<script>2</script>",
        "routes": 1,
        "route": shown_id("rte", route_id),
    }
    for page in (browser.look("/matching/vehicles"), browser.look("/matching/vehicles/progress", **query)):
        assert "<script>2" not in page
        assert "<script>1" not in page
        assert "&lt;script&gt;2&lt;/script&gt;" in page
