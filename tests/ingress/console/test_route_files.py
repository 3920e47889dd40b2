"""Files of routes in the console: the preview of their columns, and pushes with progress and a list of refused rows."""

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import openpyxl
import pytest

from domain.accounts.companies import RetiredCompany, retire_company
from domain.database.connections import Database
from domain.encoding import write
from domain.files.csvfiles import ImportReport, Progress, Rejected
from domain.files.route_rows import FileRoute
from domain.ids import shown_id
from domain.lifecycle import Environment, Role
from domain.operations import import_records
from domain.operations.import_kinds import STARTED, RoutesFile, StoreBatch
from domain.operations.import_records import ImportGone, StoredImport
from domain.operations.import_runs import ImportRun
from domain.queue.jobs import Job
from tests.factories import DOT, Fleet, route_body, route_input
from tests.ingress.console.conftest import Browser, World, words
from tests.ingress.console.records import stored_rows
from tests.service import eventually

START = datetime.now(UTC) + timedelta(hours=1)
COLUMNS = "Our Ref,unit number,driverName,scheduledStart,stop1_name,stop1_latitude,stop1_longitude,"
COLUMNS += "stop2_name,stop2_latitude,stop2_longitude,Rate"
FIELDS = COLUMNS.replace("Our Ref", "externalId").replace("unit number", "unitNumber").replace("Rate", "")


def row(load: str, *, start: str = f"{START:%Y-%m-%d %H:%M}", latitude: str = "41.4") -> str:
    return f"{load},101,Ann Lee,{start},Joliet,{latitude},-88.1,Newark,40.7,-74.1,$900"


def send(browser: Browser, body: bytes, name: str = "loads.csv", **fields: str) -> httpx.Response:
    headers = {"Content-Type": "text/csv", "X-Form-Token": browser.token, "HX-Request": "true"}
    return browser.post("/route-files", params={"filename": name, **fields}, content=body, headers=headers)


def push(browser: Browser, body: bytes, name: str = "loads.csv", **fields: str) -> str:
    """Sends a file and waits until its routes are pushed. Returns the text of its page."""
    answer = send(browser, body, name, act="push", **fields)
    assert answer.status_code == 303, answer.text
    address = answer.headers["location"]
    return eventually(lambda: words(browser.look(address)), lambda said: "You may leave this page" not in said)


def stored_routes(world: World, fleet: Fleet) -> list[tuple[Any, ...]]:
    return stored_rows(
        world,
        "SELECT external_id, environment FROM routes WHERE company_id = %s ORDER BY external_id",
        fleet.company_id,
    )


def test_lines_of_json_are_pushed_and_bad_ones_are_listed(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.DISPATCHER, fleet)
    good, other = route_body(START, externalId="A"), route_body(START, externalId="B", stops=[])
    body = b"\n".join([write(good), write(other), b"{", b""])

    said = push(browser, body, "loads.jsonl", environment="sandbox")
    again = push(browser, body, "loads.jsonl", environment="sandbox")

    assert "1 route created, 0 updated, 0 unchanged; 2 routes are refused" in said
    assert "2 stops: Expected at least 2 entries" in said
    assert "3 The body is not JSON" in said
    assert "0 routes created, 0 updated, 1 unchanged" in again
    assert stored_routes(world, fleet) == [("A", "sandbox")]
    entries = stored_rows(world, "SELECT action, subject FROM audit_log WHERE company_id = %s", fleet.company_id)
    assert set(entries) == {("import", "sandbox routes")}
    assert "1 created, 0 updated, 2 refused" in words(browser.look("/route-files"))


def test_the_preview_maps_columns_and_stores_nothing(world: World) -> None:
    fleet = world.new_fleet(time_zone="America/Chicago")
    browser = world.browser(Role.OWNER, fleet)
    body = f"{COLUMNS}\n{row('<b>A')}\n{row('B', latitude='410')}\n".encode()

    first = send(browser, body, act="preview")
    typed = FIELDS.replace("externalId", "loadNumber")
    wrong = send(browser, body, act="preview", column=typed)
    mapped = send(browser, body, act="preview", column=FIELDS)
    refused = send(browser, body, act="push")

    assert "The file lacks columns for externalId; its columns are: Our Ref, unit number" in words(first.text)
    fields = re.findall(r'name="column"[^>]*value="(\w*)"', first.text)
    assert ",".join(fields) == FIELDS.replace("externalId", "")
    assert "there is no such field" in wrong.text
    assert "2 &lt;b&gt;A" in words(mapped.text).replace("<b>", "&lt;b&gt;")
    assert "Times without an offset are those of America/Chicago" in words(mapped.text)
    assert "stop1_latitude: Expected a number <= 90.0" in words(mapped.text)
    assert (refused.status_code, "The file lacks columns for externalId" in words(refused.text)) == (400, True)
    assert stored_routes(world, fleet) == []


def test_mapped_columns_are_pushed(world: World) -> None:
    fleet = world.new_fleet()
    browser = world.browser(Role.OWNER, fleet)

    said = push(browser, f"{COLUMNS}\n{row('A')}\n{row('B', latitude='410')}\n".encode(), column=FIELDS)

    assert "1 route created, 0 updated, 0 unchanged; 1 route is refused" in said
    assert stored_routes(world, fleet) == [("A", "live")]


def test_excel_is_pushed(world: World) -> None:
    fleet = world.new_fleet()
    book, file = openpyxl.Workbook(), io.BytesIO()
    book.active.append(FIELDS.split(",")[:-1])
    for load in range(200):
        start = START.replace(tzinfo=None, microsecond=0)
        book.active.append([load, 101, "Ann Lee", start, "Joliet", 41.4, -88.1, "Newark", 40.7, -74.1])
    book.save(file)

    said = push(world.browser(Role.OWNER, fleet), file.getvalue(), "Loads.XLSX")

    assert "200 routes created" in said
    assert len(stored_routes(world, fleet)) == 200


@pytest.mark.parametrize(
    ("name", "body", "status", "said"),
    [
        ("loads.pdf", b"x", 400, "must be .jsonl, .csv or .xlsx"),
        ("loads.xlsx", b"PK nothing", 400, "is no Excel file"),
        ("loads.csv", b"\xff\xfe", 400, "is not UTF-8 text"),
        ("x" * 2_000, b"x", 400, "Filename is too long"),
    ],
)
@pytest.mark.parametrize("act", ["preview", "push"])
def test_a_file_that_cannot_be_read_is_told(
    world: World, act: str, name: str, body: bytes, status: int, said: str
) -> None:
    answer = send(world.browser(Role.OWNER), body, name, act=act)

    assert (answer.status_code, said in words(answer.text)) == (status, True), words(answer.text)
    assert "/tmp/" not in answer.text


def test_fields_of_another_file_are_refused(world: World) -> None:
    answer = send(world.browser(Role.OWNER), f"{COLUMNS}\n".encode(), act="push", column=f"{FIELDS},vin")

    assert answer.status_code == 409


def test_only_dispatchers_may_push_files(world: World) -> None:
    fleet = world.new_fleet()
    viewer = world.browser(Role.VIEWER, fleet)

    assert viewer.get("/route-files").status_code == 404
    assert send(viewer, b"", act="push").status_code == 404
    assert "Push a file" not in viewer.look("/routes")
    assert "Push a file" in world.browser(Role.DISPATCHER, fleet).look("/routes")


def test_a_form_of_another_site_pushes_nothing(world: World) -> None:
    browser = world.browser(Role.OWNER)
    browser.token = "0" * 64

    assert send(browser, f"{FIELDS}\n{row('A')}\n".encode(), act="push").status_code == 403


# --- Batches -----------------------------------------------------------------------------------------------------


def begun(world: World, fleet: Fleet, kind: str = "live routes") -> StoredImport:
    with world.database.transaction() as connection:
        return import_records.begin(connection, fleet.company_id, kind, "a@b.c", rows_total=9, now=datetime.now(UTC))


def routes_of_file(*external_ids: str) -> list[FileRoute]:
    return [
        FileRoute(line, one, {}, route_input(START, externalId=one)) for line, one in enumerate(external_ids, start=2)
    ]


@dataclass(kw_only=True)
class GivenRoutes(RoutesFile):
    """A file that was read already: its routes, in batches."""

    given: Iterable[list[FileRoute]]

    def batches(self, now: datetime, progress: Progress) -> Iterator[StoreBatch]:
        for routes in self.given:
            yield partial(self.push, routes)


def store(world: World, stored: StoredImport, given: Iterable[list[FileRoute]]) -> tuple[ImportReport, list[Job]]:
    """The report, and the jobs that were put."""
    assert stored.company_id is not None
    jobs: list[Job] = []
    file = GivenRoutes(
        path=Path(),
        company_id=stored.company_id,
        environment=Environment.LIVE,
        format="csv",
        fields=None,
        zone=ZoneInfo("UTC"),
        given=given,
    )
    with Database(world.database.url, put_jobs=lambda *put: jobs.extend(put)) as database:
        return ImportRun(file, database.transaction, "a@b.c", record=stored).store(), jobs


def test_a_batch_counts_its_routes_and_asks_for_their_import(world: World) -> None:
    fleet = world.new_fleet()
    stored = begun(world, fleet)

    def given() -> Iterator[list[FileRoute]]:
        yield routes_of_file("A", "B")
        started = "UPDATE routes SET status = 'active' WHERE company_id = %s AND external_id = 'B' RETURNING id"
        stored_rows(world, started, fleet.company_id)
        changed = route_input(START + timedelta(hours=1), externalId="A")
        yield [*routes_of_file("C", "B"), FileRoute(9, "A", {}, changed), FileRoute(10, "", None, None, "no")]
        figures = "SELECT created, updated, refused FROM csv_imports WHERE id = %s"
        assert stored_rows(world, figures, stored.id) == [(3, 1, 2)]

    report, jobs = store(world, stored, given())

    assert (report.created, report.updated, report.refused) == (3, 1, 2)
    assert report.rejected == [Rejected(10, "no"), Rejected(3, STARTED)]
    assert {job.company_id for job in jobs if job.name == "imports.run"} == {fleet.company_id}


def test_an_upload_that_was_ended_stores_nothing_more(world: World) -> None:
    """Its process was silent for long: another console has told its user so."""
    fleet = world.new_fleet()
    stored = begun(world, fleet)
    with world.database.transaction() as connection:
        import_records.fail(connection, stored.id, "gone", now=datetime.now(UTC))

    with pytest.raises(ImportGone):
        store(world, stored, [routes_of_file("A")])

    assert stored_routes(world, fleet) == []


def test_a_company_that_is_erased_gets_no_routes(world: World) -> None:
    fleet = world.new_fleet()
    stored = begun(world, fleet)
    with world.database.transaction() as connection:
        retire_company(connection, fleet.company_id, DOT, now=datetime.now(UTC))

    with pytest.raises(RetiredCompany):
        store(world, stored, [routes_of_file("A")])


def test_a_console_that_dies_leaves_the_pushed_routes_and_says_so(world: World) -> None:
    fleet = world.new_fleet()
    stored = begun(world, fleet)

    def given() -> Iterator[list[FileRoute]]:
        yield routes_of_file("A", "B")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store(world, stored, given())
    stored_rows(
        world, "UPDATE csv_imports SET beat_at = beat_at - interval '1 hour' WHERE id = %s RETURNING id", stored.id
    )

    said = words(world.browser(Role.OWNER, fleet).look(f"/route-files/{shown_id('imp', stored.id)}"))

    assert "Stopped after 2 routes. The console was stopped in the middle of it. Send the file again" in said
    assert len(stored_routes(world, fleet)) == 2


def test_another_companys_upload_and_another_kind_are_not_shown(world: World) -> None:
    fleet, other = world.new_fleet(), world.new_fleet()
    ids = [begun(world, other).id, begun(world, fleet, "vehicles").id]
    browser = world.browser(Role.OWNER, fleet)

    for import_id in ids:
        browser.look(f"/route-files/{shown_id('imp', import_id)}", status=404)
    browser.look("/route-files/imp_0", status=404)


@pytest.mark.parametrize("body", [b"name," * 400_000, b"name," * 999 + b"x", ("n" * 30_000 + ",").encode() * 4])
def test_the_answer_is_small_however_wide_the_file_is(world: World, body: bytes) -> None:
    answer = send(world.browser(Role.OWNER), body, "loads.csv", act="preview")

    assert answer.status_code in (200, 400)
    assert len(answer.content) < 500_000
