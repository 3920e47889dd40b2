"""CSV files of the page Fleet: imports with their progress, and exports that imports read again."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.accounts.companies import lock_company
from domain.ids import shown_id
from domain.lifecycle import Role
from domain.operations import import_records
from ingress.console.browser import MAX_FILE_BYTES
from tests.ingress.console.conftest import World, words
from tests.ingress.console.records import drivers_of, stored_rows, vehicles_of
from tests.ingress.console.uploads import exported, import_file, rows_of, send
from tests.repeatable import examples
from tests.service import eventually

# --- Imports -----------------------------------------------------------------------------------------------------


def test_bad_lines_are_listed_and_the_others_are_imported(world: World) -> None:
    fleet = world.new_fleet()
    email = world.new_user(Role.DISPATCHER, fleet)
    browser = world.browser()
    browser.sign_in(email)
    said = import_file(
        browser,
        "vehicles",
        "unit_number,mpg,vin,status\n101,7,\n201,6.5,\n202,fast,\n203,6,SHORT\n\n201,8,\n204,<script>,\n205,6,\n206,6,,Sold\n",
    )
    assert (
        "2 rows added, 1 changed, 0 unchanged; 4 rows are refused , the others are imported; 1 row passed over" in said
    )
    assert "4 mpg: Expected a number" in said
    assert "5 vin: Expected a text of at least 17" in said
    assert "7 the same one is already on line 3" in said
    assert [row[1] for row in vehicles_of(world, fleet)] == ["101", "102", "201", "205"]
    assert f"by {email}: 2 added, 1 changed, 4 refused" in words(browser.look("/vehicles"))
    (entry,) = stored_rows(
        world, "SELECT actor, action, affected FROM audit_log WHERE company_id = %s", fleet.company_id
    )
    assert entry == (email, "import", 3)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "The file is empty; its first line must name the columns"),
        (b"unit,plate\n1,2\n", "The file lacks the column name"),
        (b"name\n\xff\xfe\n", "The file is not UTF-8 text"),
        (b"\x00\x01\x02PK", "lacks the column name"),
        (b'name\n"never closed\n', "1 row is refused , so nothing was imported"),
        (b"name\n" + b"x" * 200_000, "1 row is refused"),
    ],
)
def test_an_unreadable_file_is_refused_with_a_sentence(world: World, body: bytes, sentence: str) -> None:
    fleet = world.new_fleet()
    said = import_file(world.browser(Role.OWNER, fleet), "drivers", body)
    assert sentence.replace("The file ", "") in said
    assert "/tmp" not in said
    assert len(drivers_of(world, fleet)) == 2


def test_a_file_beyond_the_limit_is_refused(world: World) -> None:
    browser = world.browser(Role.OWNER)
    body = b"unit_number\n" + b"x" * MAX_FILE_BYTES
    assert "32 MB are the limit" in send(browser, "vehicles", body, status=413)


def test_a_company_can_import_only_one_file_at_a_time(world: World) -> None:
    fleet, now = world.new_fleet(), datetime.now(UTC)
    browser = world.browser(Role.OWNER, fleet)
    with world.database.transaction() as connection:
        import_id = import_records.begin(connection, fleet.company_id, "drivers", "a@b.c", rows_total=9, now=now).id
    assert "Another file is being imported" in send(browser, "vehicles", "unit_number\n1\n", status=409)
    page = words(browser.look(f"/drivers/imports/{shown_id('imp', import_id)}"))
    assert "waiting for its turn" in page
    with world.database.transaction() as connection:
        import_records.note_progress(connection, import_id, rows_read=4, now=now - timedelta(minutes=1))
    page = words(browser.look(f"/drivers/imports/{shown_id('imp', import_id)}"))
    assert "The console was stopped in the middle of it" in page
    assert "1 row added" in import_file(browser, "vehicles", "unit_number\n1\n")


def test_pages_are_answered_while_an_import_waits_and_notes_its_progress(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)

    def beat_at() -> datetime:
        ((at,),) = stored_rows(world, "SELECT beat_at FROM csv_imports WHERE company_id = %s", fleet.company_id)
        assert isinstance(at, datetime)
        return at

    with world.database.transaction() as connection:
        lock_company(connection, fleet.company_id)
        address = send(browser, "vehicles", "unit_number\n201\n202\n")
        assert "You may leave this page" in words(browser.look(address))
        first = beat_at()
        eventually(beat_at, lambda at: at > first)
        assert "2 vehicles" in words(browser.look("/vehicles"))
        answer = browser.submit("/vehicles/new", unit_number="203")
        assert answer.status_code == 409
        assert "Something else is changing the same data" in words(answer.text)
    eventually(lambda: words(browser.look(address)), lambda said: "2 rows added" in said)


def test_no_row_of_an_import_is_visible_before_all_are_read(world: World) -> None:
    """The progress counts the rows that were read; a file that turns out to be unreadable leaves nothing."""
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    rows = "".join(f"T{number}\n" for number in range(5_000)).encode()
    said = import_file(browser, "vehicles", b"unit_number\n" + rows + b"\xff\n")
    assert "Nothing was imported. The file is not UTF-8 text" in said
    assert len(vehicles_of(world, fleet)) == 2
    assert "5,000 rows added" in import_file(browser, "vehicles", b"unit_number\n" + rows)
    ((total, read),) = stored_rows(
        world,
        "SELECT rows_total, rows_read FROM csv_imports WHERE company_id = %s AND fault IS NULL",
        fleet.company_id,
    )
    assert (total, read) == (5_000, 5_000)


def test_the_columns_that_are_not_used_are_told(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    said = import_file(browser, "vehicles", "Acme fleet\n\nunit_number,Fuel capacity,<b>Region\n201,200,South\n")
    assert "1 row added" in said
    assert "Columns that are not used: Fuel capacity, &lt;b&gt;Region" in said or "Fuel capacity, <b>Region" in said
    assert "not used" not in import_file(browser, "vehicles", "unit_number\n202\n")


# --- Exports -----------------------------------------------------------------------------------------------------


def test_cells_that_a_spreadsheet_would_run_are_escaped(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)
    browser.look("/vehicles/new")
    evil = ('=HYPERLINK("http://x")', "+1", "-1", "@SUM(A1)", "'=1", "''+1", "'quoted'")
    for text in evil:
        assert browser.submit("/vehicles/new", unit_number=text, model=text).status_code == 303
    before = vehicles_of(world, fleet)
    text = exported(browser, "vehicles")
    rows = rows_of(text)
    assert {row["unit_number"] for row in rows} == {
        "101", "102", "'=HYPERLINK(\"http://x\")", "'+1", "'-1", "'@SUM(A1)", "''=1", "'''+1", "'quoted'",
    }  # fmt: skip
    assert "9 unchanged" in import_file(browser, "vehicles", text)
    assert vehicles_of(world, fleet) == before


tricky = st.text(
    st.one_of(st.sampled_from("'=+-@,\";\n\r\t é"), st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    min_size=1,
    max_size=10,
).map(str.strip).filter(bool)  # fmt: skip
numbers = st.none() | st.floats(min_value=0.001, max_value=25)


@given(
    st.lists(
        st.tuples(tricky, st.none() | tricky, st.none() | tricky, numbers, numbers),
        max_size=6,
        unique_by=lambda t: t[0],
    )
)
@hypothesis_settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_an_import_of_an_export_gives_the_same_data(world: World, rows: Sequence[tuple[Any, ...]]) -> None:
    """In the same company nothing changes. Another company gets the same data."""
    ours, others = world.new_fleet(), world.new_fleet()
    with world.database.transaction() as connection:
        for row in rows:
            connection.execute(
                "INSERT INTO vehicles (id, company_id, unit_number, make, license_plate, fuel_tank_capacity_gallons,"
                " mpg) VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (uuid4(), ours.company_id, *row),
            )
    before = vehicles_of(world, ours)
    text = exported(world.browser(Role.OWNER, ours), "vehicles")
    assert f"0 rows added, 0 changed, {len(before)} unchanged" in import_file(
        world.browser(Role.OWNER, ours), "vehicles", text
    )
    assert vehicles_of(world, ours) == before
    import_file(world.browser(Role.OWNER, others), "vehicles", text)
    assert sorted(row[1:] for row in vehicles_of(world, others)) == sorted(row[1:] for row in before)


def test_the_name_of_an_unused_column_may_hold_anything(world: World) -> None:
    page = import_file(world.browser(Role.OWNER), "drivers", "name,\0\nAnn,x")

    assert "1 row added" in page
