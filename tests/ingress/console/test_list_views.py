"""Tables that people sort, whose columns they choose, that they export; and filters that they save."""

import csv
import io
import re
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.accounts.saved_filters import (
    LONGEST_FILTER_NAME,
    MOST_SAVED_FILTERS,
    UnusableFilter,
    list_saved_filters,
    save_filter,
)
from domain.accounts.users import find_user
from domain.lifecycle import Role
from ingress.console.pages.fleet.fleet_and_stations import TABLES
from ingress.console.pages.fleet.fleet_map import FILTERED as MAP
from tests.domain.helpers import imported
from tests.factories import Fleet
from tests.ingress.console.conftest import Browser, World


def first_column(page: str) -> list[str]:
    return [one.strip() for one in re.findall(r"<td[^>]*><a [^>]*><strong>([^<]*)", page)]


def test_each_list_of_records_can_be_sorted_by_all_columns_that_offer_it(world: World) -> None:
    browser = world.browser(Role.OWNER)
    for name, table in TABLES.items():
        offered = [column.name for column in table.columns if column.is_sortable]
        assert offered
        for order in (*offered, *(f"-{column}" for column in offered)):
            assert browser.get(f"/{name}?order={order}").status_code == 200, (name, order)


def head(page: str) -> list[str]:
    found = re.search(r"<thead>(.*?)</thead>", page, re.S)
    assert found is not None
    return [re.sub(r"<[^>]*>|[▲▼\s]+", " ", one).strip() for one in re.findall(r"<th.*?</th>", found[1], re.S)]


def rows_of(browser: Browser, path: str) -> list[list[str]]:
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text
    return list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))


@pytest.fixture
def fleet(world: World) -> Fleet:
    """A company with three trucks more, of which the last one has the name of a formula."""
    fleet = world.new_fleet()
    with world.database.transaction() as connection:
        connection.execute("DELETE FROM vehicles WHERE company_id = %s", (fleet.company_id,))
        for unit, mpg, make in (("A1", 7.5, "Volvo"), ("A2", None, None), ("A3", 6.0, "=cmd|'/c calc'!A1")):
            connection.execute(
                "INSERT INTO vehicles (id, company_id, unit_number, mpg, make)"
                " VALUES (gen_random_uuid(), %s, %s, %s, %s)",
                (fleet.company_id, unit, mpg, make),
            )
    return fleet


def test_a_list_is_sorted_by_a_column_in_both_orders(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    for order, units in (("", "A1 A2 A3"), ("mpg", "A3 A1 A2"), ("-mpg", "A1 A3 A2"), ("-unit_number", "A3 A2 A1")):
        assert first_column(browser.look("/vehicles", order=order)) == units.split(), order
    page = browser.look("/vehicles", order="-mpg", q="a")
    assert re.search(r'aria-sort="descending">\s*<a class="sorts" href="/vehicles\?q=a&amp;order=mpg"', page)
    for order in ("mpg; DROP TABLE users", "contact", "-", "id", "company_id", "x" * 150):
        assert first_column(browser.look("/vehicles", order=order)) == ["A1", "A2", "A3"], order
    assert 'order="' not in browser.look("/drivers", order="contact")


def test_chosen_columns_are_remembered_for_the_user_alone(world: World, fleet: Fleet) -> None:
    browser, other = world.browser(Role.VIEWER, fleet), world.browser(Role.VIEWER, fleet)
    usual = head(browser.look("/vehicles"))
    answer = browser.submit("/tables/vehicles", column=["make", "hazmat", "password_hash"], next="/vehicles?q=a")
    assert answer.headers["location"] == "/vehicles?q=a"
    assert head(browser.look("/vehicles")) == ["Unit number", "Make", "Hazardous cargo"]
    assert head(other.look("/vehicles")) == usual
    browser.submit("/tables/vehicles", column=["mpg"], usual="yes", next="//evil.example")
    assert head(browser.look("/vehicles")) == usual
    assert browser.submit("/tables/users", column=["password_hash"]).status_code == 404


def test_the_file_has_what_the_list_shows(world: World, fleet: Fleet) -> None:
    browser = world.browser(Role.VIEWER, fleet)
    browser.submit("/tables/vehicles", column=["make", "mpg"], next="/vehicles")
    rows = rows_of(browser, "/vehicles/list.csv?order=mpg&q=a")
    assert rows == [
        ["Unit number", "Make", "Miles per gallon"],
        ["A3", "'=cmd|'/c calc'!A1", "6"],
        ["A1", "Volvo", "7.5"],
        ["A2", "", ""],
    ]
    assert rows_of(browser, "/vehicles/list.csv?q=A3")[1:] == [rows[1]]
    assert rows_of(browser, "/vehicles/list.csv?retired=yes")[1:] == []


def test_a_file_of_drivers_never_has_their_contacts(world: World, fleet: Fleet) -> None:
    with world.database.transaction() as connection:
        connection.execute("UPDATE drivers SET contact = 'json://secret@example.com'")
    text = world.browser(Role.OWNER, fleet).get("/drivers/list.csv").text
    assert "stored" in text
    assert "secret" not in text


@pytest.fixture
def loads(world: World) -> tuple[Fleet, list[str]]:
    """The loads of 60 routes, the earliest first; three start at the same moment, and some wait for a truck."""
    fleet, now = world.new_fleet(), datetime.now(UTC)
    names = [f"L{number:03}" for number in range(60)]
    with world.database.transaction() as connection:
        for number, name in enumerate(names):
            start = now + timedelta(hours=min(number, 57) + 1)
            unit = {"vehicle": {"unitNumber": "T-9"}} if number % 7 == 0 else {}
            imported(connection, fleet.live, now=now, start=start, externalId=name, **unit)
    return fleet, names


def test_routes_are_sorted_by_their_start_whatever_finds_them(world: World, loads: tuple[Fleet, list[str]]) -> None:
    """The list of the API's filters, and the search for words, each in both orders and over two pages."""
    fleet, names = loads
    browser = world.browser(Role.VIEWER, fleet)
    for query, wanted in (("", names), ("q=L0&", names), ("unit=t-9&", names[::7]), ("status=draft&", None)):
        latest, earliest = (
            first_column(browser.look(f"/routes?{query}order={order}"))
            + first_column(browser.look(f"/routes?{query}order={order}&page=1"))
            for order in ("-start", "start")
        )
        assert sorted(earliest) == sorted(latest)
        assert earliest[:57] == latest[::-1][:57], query
        assert wanted is None or sorted(earliest) == wanted
    assert "The list is shorter by now" in browser.look("/routes?order=start&page=9")
    page = browser.look("/routes?order=start&status=draft")
    assert re.search(r'aria-sort="ascending">\s*<a class="sorts" href="/routes\?status=draft"', page)
    assert 'hx-get="/routes?status=draft&amp;order=start"' in page
    assert 'name="order" value="start"' in page


def test_the_file_of_routes_has_what_the_list_shows(world: World, loads: tuple[Fleet, list[str]]) -> None:
    fleet, names = loads
    browser = world.browser(Role.VIEWER, fleet)
    browser.submit("/tables/routes", column=["unit", "id", "start", "miles"], next="/routes")
    assert head(browser.look("/routes")) == ["Route", "Unit", "Start", "Miles", "Id"]
    title, *rows = rows_of(browser, "/routes.csv?order=start&unit=t-9")
    assert title == ["Route", "Unit", "Start", "Miles", "Id"]
    assert [row[0] for row in rows] == names[::7]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d", row[2]) and row[4].startswith("rte_") for row in rows)
    assert len(rows_of(browser, "/routes.csv")) == 61
    assert rows_of(world.browser(Role.VIEWER), "/routes.csv")[1:] == [], "another company's file is its own"


def test_a_filter_is_saved_opened_renamed_and_removed(world: World) -> None:
    fleet = world.new_fleet()
    browser, other = world.browser(Role.VIEWER, fleet), world.browser(Role.VIEWER, fleet)
    query = "status=draft&q=a%26b&order=start"
    answer = browser.submit("/filters/routes", name="  My   <b>drafts ", query=f"{query}&page=7&truck=x&form_token=1")
    assert answer.headers["location"] == f"/routes?{query}"
    page = browser.look(f"/routes?{query}&page=0")
    assert f'href="/routes?{query.replace("&", "&amp;")}" aria-current="true">My &lt;b&gt;drafts</a>' in page
    assert "drafts" not in browser.look("/map"), "each list has its own"
    assert "drafts" not in other.look("/routes"), "and each user"

    name = quote("My <b>drafts", safe="")
    browser.look("/routes")
    assert (
        browser.submit("/filters/routes/rename", name=name, new_name="Drafts", query="status=draft").status_code == 303
    )
    assert ">Drafts</a>" in browser.look("/routes")
    assert browser.submit("/filters/routes/rename", name=name, new_name="x").status_code == 404
    assert other.submit("/filters/routes/remove", name="Drafts").status_code == 303
    assert ">Drafts</a>" in browser.look("/routes"), "another user removes nothing"
    browser.submit("/filters/routes/remove", name="Drafts")
    assert ">Drafts</a>" not in browser.look("/routes")


@pytest.mark.parametrize("name", ["", " ", "x" * (LONGEST_FILTER_NAME + 1), "a\x07b"])
def test_a_filter_needs_a_name_that_can_be_read(world: World, name: str) -> None:
    browser = world.browser(Role.VIEWER)
    assert browser.submit("/filters/routes", name=name, query="status=draft").status_code == 400


def test_filters_that_cannot_be_saved_are_refused(world: World) -> None:
    browser, operator = world.browser(Role.VIEWER), world.browser(Role.OPERATOR, world.new_fleet())
    assert browser.submit("/filters/routes", name="x", query="").status_code == 400
    assert browser.submit("/filters/routes", name="x", query="page=1").status_code == 400
    assert browser.submit("/filters/routes", name="x", query="&".join(f"a{n}=1" for n in range(60))).status_code == 400
    assert browser.get(f"/routes?{'&'.join(f'a{n}=1' for n in range(150))}").status_code == 200
    assert browser.submit("/filters/nothing", name="x", query="status=draft").status_code == 404
    assert browser.submit("/filters/routes", name="x", query="q=" + "x" * 3_000).status_code == 400
    assert operator.submit("/filters/routes", name="x", query="status=draft").status_code == 403
    assert "Saved filters" not in operator.look("/routes?status=draft")


def test_a_user_has_a_bounded_number_of_filters(world: World) -> None:
    fleet = world.new_fleet()
    email = world.new_user(Role.VIEWER, fleet)
    with world.database.transaction() as connection:
        user_id = find_user(connection, email)
        for number in range(MOST_SAVED_FILTERS):
            save_filter(connection, fleet.company_id, user_id, "routes", f"f{number}", "status=draft")
        save_filter(connection, fleet.company_id, user_id, "routes", "f0", "status=active")
        save_filter(connection, fleet.company_id, user_id, "map", "f0", "need=late")
        with pytest.raises(UnusableFilter, match="remove one first"):
            save_filter(connection, fleet.company_id, user_id, "routes", "one more", "status=draft")
        saved = list_saved_filters(connection, fleet.company_id, user_id, "routes")
        assert len(saved) == MOST_SAVED_FILTERS
        assert saved[0].query == "status=active"
        connection.execute("DELETE FROM users WHERE id = %s", (user_id,))
        assert connection.execute("SELECT FROM saved_filters WHERE user_id = %s", (user_id,)).rowcount == 0


@given(st.text(), st.text())
def test_a_filter_keeps_the_fields_of_its_list_and_no_others(name: str, value: str) -> None:
    once = MAP.query_of(f"{quote(name, errors='replace')}={quote(value, errors='replace')}&unit=1&page=2")
    assert once.endswith("unit=1") or "unit=" in once
    assert "page" not in once.partition("=")[0]
    assert MAP.query_of(once) == once
