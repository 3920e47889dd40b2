"""The pages Fills: a card's file is previewed and stored, a person decides, and the comparison agrees with both."""

import csv
import io
import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from domain.ids import shown_id
from domain.lifecycle import Role
from domain.settings import Settings
from tests.domain.fills.cards import EFS_HEADER, efs, plaza_and_keystone
from tests.domain.fills.test_importing import driven
from tests.factories import Fleet
from tests.ingress.console.conftest import Browser, Fields, World, words
from tests.ingress.console.records import seen_on, stored_rows
from tests.service import eventually

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads

NOVEMBER: Fields = {"from": "2026-11-01", "to": "2026-11-30"}


def send(browser: Browser, body: str, name: str = "efs.csv", **fields: str) -> httpx.Response:
    headers = {"Content-Type": "text/csv", "X-Form-Token": browser.token, "HX-Request": "true"}
    wanted = {"filename": name, "profile": "efs", **fields}
    return browser.post("/fill-files", params=wanted, content=body.encode(), headers=headers)


def import_file(browser: Browser, *lines: str, **fields: str) -> str:
    """Sends a file and waits until its fills are stored. Returns the text of its page."""
    answer = send(browser, "\n".join([EFS_HEADER, *lines, ""]), act="import", **fields)
    assert answer.status_code == 303, answer.text
    address = answer.headers["location"]
    return eventually(lambda: words(browser.look(address)), lambda said: "You may leave this page" not in said)


@pytest.fixture
def fleet(world: World) -> Fleet:
    return world.new_fleet(time_zone="America/Chicago")


@pytest.fixture
def route(world: World, fleet: Fleet, settings: Settings) -> Iterator[UUID]:
    with world.database.transaction() as connection:
        plaza_and_keystone(connection)
        route_id = driven(connection, settings, fleet)
    yield route_id
    with world.database.transaction() as connection:
        connection.execute("DELETE FROM stations WHERE station_id IN ('S1', 'S2')")


def stored(world: World, fleet: Fleet) -> list[tuple[Any, ...]]:
    query = "SELECT gallons, review, decided_by IS NOT NULL FROM fills WHERE company_id = %s ORDER BY gallons"
    return stored_rows(world, query, fleet.company_id)


@pytest.mark.usefixtures("route")
def test_a_file_is_stored_a_person_decides_and_the_comparison_follows(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.DISPATCHER, fleet)
    lines = (efs(), efs(invoice="2", item="PROD 7", qty="40", amount="150.00", city="GARY"), efs(date="never"))

    said = import_file(browser, *lines)
    assert "2 fills added, 0 changed, 0 unchanged; 1 row is refused" in said
    assert "4 the date is 'never'" in said
    assert "0 fills added, 0 changed, 2 unchanged" in import_file(browser, *lines)

    page = words(browser.look("/fills"))
    assert "To review 1" in page
    assert "40.00 $150.00" in page
    ((fill_id,),) = stored_rows(world, "SELECT id FROM fills WHERE company_id = %s AND gallons = 40", fleet.company_id)
    path = f"/fills/{shown_id('fil', fill_id)}"
    assert "The item is not known" in words(browser.look(path))
    assert "No live route with fills" in words(browser.look("/bought", **NOVEMBER))
    seen = seen_on(browser, path)
    refused = browser.submit(path, unit="", station="", fuel="", route="", seen=seen)
    assert refused.status_code == 400
    assert "Say which fuel it is." in words(refused.text)
    assert browser.submit(path, unit="X9", fuel="tractor", route="", seen=seen).status_code == 400
    assert browser.submit(path, station="S1", fuel="tractor", route="", seen=seen).status_code == 303
    assert stored(world, fleet) == [(40.0, [], True), (100.0, [], False)]

    html = browser.look("/bought", **NOVEMBER)
    page = words(html)
    assert html.partition("<h2>Stops</h2>")[2].count("<time ") == 2, "each stop says when its plan was made"
    assert "1 with other gallons, 1 missed; 0 purchases elsewhere" in page
    assert "$495.50 paid instead of $520.50" in page
    rows = list(csv.DictReader(io.StringIO(browser.get("/bought.csv", params=NOVEMBER).text.lstrip("\ufeff"))))
    assert [(row["verdict"], row["difference"]) for row in rows] == [("partly", "150"), ("missed", "-175")]
    actions = stored_rows(world, "SELECT action FROM audit_log WHERE company_id = %s", fleet.company_id)
    assert ("fills.decide",) in actions

    viewer, by_driver = world.browser(Role.VIEWER, fleet), {**NOVEMBER, "by": "driver"}
    for path, query in (("/bought", by_driver), ("/bought", NOVEMBER), ("/bought.csv", NOVEMBER)):
        assert "Ann Lee" in browser.get(path, params=query).text
        assert "Ann Lee" not in viewer.get(path, params=query).text, "as in the report of compliance"
    assert viewer.get("/bought.csv", params=by_driver).status_code == 403


def test_a_file_is_sent_again_with_its_currency(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.DISPATCHER, fleet)
    line = efs(currency="")

    assert "$345.50" in words(send(browser, "\n".join([EFS_HEADER, line, ""]), act="preview").text)
    assert "1 fill added" in import_file(browser, line)
    assert "CAD" in words(send(browser, "\n".join([EFS_HEADER, line, ""]), act="preview", currency="CAD").text)
    assert "0 fills added, 1 changed" in import_file(browser, line, currency="CAD")
    assert stored_rows(world, "SELECT currency FROM fills WHERE company_id = %s", fleet.company_id) == [("CAD",)]


@pytest.mark.usefixtures("route")
def test_lines_that_are_no_purchases_are_counted_and_nothing_is_refused(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.DISPATCHER, fleet)
    said = import_file(browser, efs(), efs(invoice="2", item="SCLE", qty="1", amount="15.25"))
    assert "1 fill added, 0 changed, 0 unchanged; 1 line passed over, being no purchase of fuel." in said


@pytest.mark.usefixtures("route")
def test_the_preview_maps_columns_and_stores_nothing(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.OWNER, fleet)
    header = "When,Truck,ST,Product,Gal,Total"
    body = f"{header}\n2026-11-20,101,IN,ULSD,<b>,9\n2026-11-20,101,IN,ULSD,90,300.60\n"
    first = send(browser, body, act="preview", profile="generic")
    assert "has no" not in first.text
    assert "needs a column" in words(first.text)

    mapped = send(browser, body, act="preview", profile="generic", column="date,unit,state,item,quantity,amount")

    assert "90.00 $300.60" in words(mapped.text)
    assert "<b>" not in mapped.text
    assert "line 2" in words(mapped.text)
    choices = dict(re.findall(r'<option value="(\w+)"[^>]* title="[^"]*">([^<]+)</option>', mapped.text))
    assert choices["card"] == "card number"
    assert max(map(len, choices.values())) < 50, "a phone cuts off longer ones"
    assert len(set(choices.values())) == len(choices)
    assert stored(world, fleet) == []
    answer = send(browser, body, act="import", profile="generic", column="date,unit,state,item,quantity,amount")
    eventually(lambda: stored(world, fleet), lambda rows: len(rows) == 1)
    assert answer.status_code == 303


@pytest.mark.usefixtures("route")
def test_the_card_is_recognized_by_the_headings_unless_a_person_chooses_one(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.OWNER, fleet)
    body = "\n".join([EFS_HEADER, efs(), ""])

    assert 'value="auto">' in browser.look("/fill-files").split("</option>")[0] + ">"
    assert "Read as: EFS" in words(send(browser, body, act="preview", profile="auto").text)
    assert "Read as" not in words(send(browser, body, act="preview", profile="efs").text)
    unknown = send(browser, "When,Truck\n1,2\n", act="preview", profile="auto")
    assert "No profile fits this file" in words(unknown.text)
    assert "When" in words(unknown.text)
    assert send(browser, "When,Truck\n1,2\n", act="import", profile="auto").status_code == 400
    assert send(browser, body, act="import", profile="auto").status_code == 303
    eventually(lambda: stored(world, fleet), lambda rows: len(rows) == 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"profile": "visa"},
        {"profile": "efs", "act": "import", "column": "x,y"},
        {"profile": "generic", "act": "import"},
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_what_to_do(
    world: World, fleet: Fleet, fields: dict[str, str]
) -> None:
    assert send(world.browser(Role.OWNER, fleet), "a;b\n1;2\n", **fields).status_code == 400


def test_the_answer_is_small_however_wide_the_file_is(world: World, fleet: Fleet) -> None:
    for body in ("name," * 400_000, ",".join(f"{number}{'n' * 120}" for number in range(990))):
        answer = send(world.browser(Role.OWNER, fleet), body, act="preview", profile="auto")
        assert answer.status_code in (200, 400)
        assert len(answer.content) < 3_000_000


@pytest.mark.usefixtures("route")
def test_fills_that_wait_for_a_mapping_are_matched_again(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.DISPATCHER, fleet)
    import_file(browser, efs(unit="TRK 101"))
    with world.database.transaction() as connection:
        connection.execute(
            "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, 'unit_number', 'TRK 101', %s)",
            (fleet.company_id, fleet.trucks[0]),
        )
    assert browser.submit("/fills/match", environment="live").status_code == 303
    assert "Nothing waits for a person" in words(browser.look("/fills?list=review"))
    assert "1 stop followed" in words(browser.look("/bought", **NOVEMBER))


def test_nobody_decides_on_a_fill_that_is_another_one_by_now(world: World, fleet: Fleet) -> None:
    """The page was loaded before the card corrected the purchase, or before somebody else decided."""
    ann, bob = world.browser(Role.DISPATCHER, fleet), world.browser(Role.DISPATCHER, fleet)
    import_file(ann, efs(item="PROD 7", qty="40", amount="150.00"))
    ((fill_id,),) = stored_rows(world, "SELECT id FROM fills WHERE company_id = %s", fleet.company_id)
    path = f"/fills/{shown_id('fil', fill_id)}"
    before = seen_on(ann, path)
    import_file(bob, efs(item="PROD 7", qty="90", amount="340.00"))
    refused = ann.submit(path, fuel="tractor", seen=before)
    assert (refused.status_code, "has changed this fill in the meantime" in words(refused.text)) == (409, True)
    assert stored(world, fleet)[0][2] is False

    before = seen_on(ann, path)
    assert bob.submit(path, fuel="def", seen=seen_on(bob, path)).status_code == 303
    assert ann.submit(path, fuel="tractor", seen=before).status_code == 409
    assert stored_rows(world, "SELECT fuel FROM fills WHERE id = %s", fill_id) == [("def",)]
    assert ann.submit(path, fuel="tractor", seen=seen_on(ann, path)).status_code == 303


def test_a_decision_on_a_sandbox_fill_leads_back_to_the_sandbox(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.DISPATCHER, fleet)
    import_file(browser, efs(item="PROD 7"), environment="sandbox")
    ((fill_id,),) = stored_rows(world, "SELECT id FROM fills WHERE company_id = %s", fleet.company_id)
    path = f"/fills/{shown_id('fil', fill_id)}"
    assert 'href="/fills?environment=sandbox"' in browser.look(path)
    answer = browser.submit(path, fuel="def", seen=seen_on(browser, path))
    assert answer.headers["location"] == "/fills?environment=sandbox&list=review&done=decided"


@pytest.mark.usefixtures("route")
def test_planned_against_bought_has_a_hundred_trucks_and_the_file_has_all(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.DISPATCHER, fleet)
    import_file(browser, efs())
    with world.database.transaction() as connection:
        connection.execute(
            "INSERT INTO stop_verdicts (route_id, number, company_id, environment, planned_at, vehicle_id, driver_id,"
            " verdict, place, planned_gallons, planned_cents, bought_gallons, paid_cents, price_cents, gallons_cents,"
            " place_cents) SELECT route_id, 100 + n, company_id, environment, planned_at, gen_random_uuid(),"
            " gen_random_uuid(), 'missed', place, 1, 100, 0, 0, 0, -100, 0"
            " FROM stop_verdicts, generate_series(1, 120) AS n WHERE company_id = %s AND number = 1",
            (fleet.company_id,),
        )
    for by in ("truck", "driver"):
        html = browser.look("/bought", by=by, **NOVEMBER)
        assert html.count(f'<td data-label="{by.capitalize()}">') == 100
        assert f"Of 121 {by}s the 100 that cost most beyond their plans." in words(html)
        assert "121 missed" in words(html), "the sums are those of all"
        rows = list(csv.DictReader(io.StringIO(browser.get("/bought.csv", params={**NOVEMBER, "by": by}).text)))
        assert len(rows) == 121


def test_every_fill_stands_on_a_page_of_the_list(world: World, fleet: Fleet) -> None:
    with world.database.transaction() as connection:
        connection.execute(
            "INSERT INTO fills (id, company_id, environment, profile, key, bought_at, time_zone, has_time, state,"
            " fuel, gallons, paid_cents, currency, score, review)"
            " SELECT gen_random_uuid(), %s, 'live', 'efs', n::text, now() - n * interval '1 minute', 'UTC', true,"
            " 'IN', 'unknown', 90, 33000, 'USD', 0, '{fuel}' FROM generate_series(1, 10350) AS n",
            (fleet.company_id,),
        )
    browser = world.browser(Role.VIEWER, fleet)
    for which in ("all", "review"):
        last = browser.look("/fills", list=which, page=103)
        assert last.count('<a href="/fills/fil_') == 50, "more are counted nowhere, but shown"
        assert "Older" not in last


def test_viewers_read_fills_and_change_nothing(world: World, fleet: Fleet) -> None:
    import_file(world.browser(Role.OWNER, fleet), efs(unit="nobody"))
    viewer = world.browser(Role.VIEWER, fleet)
    ((fill_id,),) = stored_rows(world, "SELECT id FROM fills WHERE company_id = %s", fleet.company_id)
    path = f"/fills/{shown_id('fil', fill_id)}"
    assert "nobody" in words(viewer.look("/fills"))
    assert "Decide" not in viewer.look(path)
    assert viewer.submit(path, unit="101").status_code == 403
    assert viewer.get("/fill-files").status_code == 404
    assert send(viewer, EFS_HEADER).status_code == 404


@pytest.mark.parametrize("path", ["/fills?page=x&list=?&environment=%00", "/fills/fil_1", "/bought?from=2026-99-01"])
def test_odd_addresses_get_an_answer(world: World, fleet: Fleet, path: str) -> None:
    assert world.browser(Role.OWNER, fleet).get(path).status_code in (200, 400, 404)


def test_a_card_without_a_unit_is_assigned_on_its_page(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.DISPATCHER, fleet)
    import_file(browser, efs(card="*0541", unit="", time="20:30"))
    said = words(browser.look("/fills/cards"))
    assert "…0541 ANN LEE 1 Nov 20, 2026 to Nov 20, 2026" in said, "the day in Indiana, from which it may be assigned"
    assert browser.submit("/fills/cards", card="0541", holder="X9").status_code == 400
    assert browser.submit("/fills/cards", card="0541", holder="101").status_code == 303
    assert "No fill waits for its card" in words(browser.look("/fills/cards"))
    assert stored_rows(world, "SELECT vehicle_id FROM fills WHERE company_id = %s", fleet.company_id) == [
        (fleet.trucks[0],)
    ]
    actions = stored_rows(world, "SELECT action FROM audit_log WHERE company_id = %s", fleet.company_id)
    assert ("fills.assign",) in actions
