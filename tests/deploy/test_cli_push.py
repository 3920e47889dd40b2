"""`fuelroute push`: files of routes go through the API, with a result for each row."""

import asyncio
import csv
import itertools
import json
import os
import random
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest

from deploy.bulk_push import CannotPush, Pace, Result, accepted_before, push_all, results_file, senders
from domain.accounts.keys import revoke_key
from domain.encoding import write
from domain.files.csvfiles import write_rows
from domain.files.route_rows import FileRoute
from domain.lifecycle import Environment
from tests.clockwork import run_by_clockwork
from tests.deploy.clients.test_flows import ROUTE
from tests.deploy.commands import Cli
from tests.factories import DOT, route_body
from tests.ports import own_port
from tests.service import Client

COLUMNS = [
    *("Our Ref", "unitNumber", "driverName", "scheduledStart"),
    *(f"stop{number}_{name}" for number in (1, 2) for name in ("name", "latitude", "longitude")),
    "Rate",
]


def loads(count: int, **changes: Any) -> list[bytes]:
    start = datetime.now(UTC) + timedelta(hours=1)
    return [write(route_body(start, **changes)) for _ in range(count)]


ME = {
    "company": {"id": "cmp_1", "name": "Acme", "timeZone": "UTC"},
    "key": {
        "id": "key_1",
        "name": "test",
        "prefix": "svc_live_",
        "environment": "live",
        "scopes": ["routes:write"],
        "createdAt": "2026-12-01T08:00:00Z",
        "expiresAt": None,
    },
    "rateLimit": {"limit": 600, "window": "1m"},
}


class Folder:
    """Files of a user, and commands there."""

    def __init__(self, path: Path, client: Client, cli: Cli) -> None:
        self.path = path
        self.client = client
        self._cli = cli
        self.key_file = path / "key"
        self.key_file.write_text(f"{client.key}\n")

    def jsonl(self, *lines: bytes) -> Path:
        file = self.path / "loads.jsonl"
        file.write_bytes(b"\n".join([*lines, b""]))
        return file

    def csv(self, *rows: list[str]) -> Path:
        file = self.path / "loads.csv"
        with file.open("w", newline="") as text:
            write_rows(text, COLUMNS, rows)
        return file

    def push(self, file: Path, *options: str) -> Any:
        return self._cli(
            *("push", str(file), "--key-file", str(self.key_file), "--url", self.client.service.url, "--json"), *options
        )

    def results(self, name: str = "loads.jsonl.results.csv") -> list[dict[str, str]]:
        with (self.path / name).open(newline="") as text:
            return sorted(csv.DictReader(text), key=lambda row: int(row["line"]))


@pytest.fixture
def folder(client: Client, cli: Cli, tmp_path: Path) -> Folder:
    return Folder(tmp_path, client, cli)


TOMORROW = datetime.now(UTC).replace(tzinfo=None, hour=8, minute=0, second=0, microsecond=0) + timedelta(days=1)


def row(load: str, start: str = f"{TOMORROW:%Y-%m-%d %H:%M}", latitude: str = "41.462") -> list[str]:
    return [load, "101", "Ann Lee", start, "Joliet", latitude, "-88.125", "Newark", "40.695", "-74.155", "$900"]


def test_every_line_is_pushed_and_has_a_result(folder: Folder) -> None:
    good, held = loads(1)[0], loads(1, vehicle={"unitNumber": "nobody's"})[0]
    file = folder.jsonl(good, held, b"{", loads(1, stops=[])[0])

    done = folder.push(file)

    assert done.status == 2
    assert {name: done.document[name] for name in ("created", "updated", "held", "refused")} == {
        "created": 1,
        "updated": 0,
        "held": 1,
        "refused": 2,
    }
    first, second, broken, empty = folder.results()
    assert (first["status"], first["outcome"], second["status"], second["outcome"]) == ("201", "created", "202", "held")
    assert folder.client.route(first["route_id"])["externalId"] == first["external_id"]
    assert (broken["status"], broken["outcome"]) == ("", "refused")
    assert "not JSON" in broken["error"]
    assert "stops: " in empty["error"]
    assert [fault["line"] for fault in done.document["rejected"]] == [3, 4]


def test_a_run_can_be_repeated_and_resumed(folder: Folder) -> None:
    lines = loads(6)
    assert folder.push(folder.jsonl(*lines[:4])).document["created"] == 4

    again = folder.push(folder.jsonl(*lines))
    resumed = folder.push(folder.jsonl(*lines), "--resume")
    other = folder.push(folder.jsonl(*lines), "--results", str(folder.path / "second.jsonl"))

    assert "is there already: --resume goes on" in again.sentence
    assert (resumed.document["created"], resumed.document["skipped"]) == (2, 4)
    assert other.document["updated"] == 6
    assert len(folder.results()) == 6
    assert (
        folder.push(folder.jsonl(*lines), "--resume", "--results", str(folder.path / "second.jsonl")).document[
            "skipped"
        ]
        == 6
    )


def test_a_started_route_is_refused_and_the_rest_goes_on(folder: Folder) -> None:
    started, fresh = loads(2)
    route_id = folder.client.push(json.loads(started)).json()["id"]
    with folder.client.service.database.transaction() as connection:
        connection.execute(
            "UPDATE routes SET status = 'completed' WHERE external_id = %s", (json.loads(started)["externalId"],)
        )

    done = folder.push(folder.jsonl(started, fresh))

    assert folder.client.route(route_id)["status"] == "completed"
    assert (done.status, done.document["created"], done.document["refused"]) == (2, 1, 1)
    assert folder.results()[0]["status"] == "409"
    assert "route_active" in folder.results()[0]["error"]


def test_a_table_is_pushed_with_its_own_columns_in_the_companys_time(folder: Folder) -> None:
    file = folder.csv(row("=A1"), row("B", latitude="410"))
    profile = str(folder.path / "mapping.json")

    done = folder.push(file, "--map", "externalId=Our Ref", "--save-mapping", profile)
    dry = folder.push(file, "--mapping", profile, "--dry-run", "--time-zone", "Asia/Tokyo")

    assert done.status == 2
    assert done.document["unused_columns"] == ["Rate"]
    assert done.document["rejected"] == [
        {"line": 3, "external_id": "B", "message": "stop1_latitude: Expected a number <= 90.0"}
    ]
    (pushed,) = folder.client.get("/v1/routes?externalId==A1").json()["data"]
    assert pushed["scheduledStart"] == f"{TOMORROW.isoformat()}Z"  # the company's time zone is UTC
    assert (dry.document["routes"], dry.document["refused"]) == (2, 1)
    assert folder.push(file, "--mapping", profile, "--resume").document["skipped"] == 1


def test_a_preview_shows_what_would_be_sent_and_sends_nothing(folder: Folder) -> None:
    file = folder.csv(*(row(f"P-{number}") for number in range(9)))

    shown = folder.push(file, "--map", "externalId=Our Ref", "--preview", "--time-zone", "America/Chicago").document

    assert shown["columns"]["externalId"] == "Our Ref"
    assert [one["body"]["externalId"] for one in shown["routes"]] == ["P-0", "P-1", "P-2"]
    local = TOMORROW.replace(tzinfo=ZoneInfo("America/Chicago"))
    assert shown["routes"][0]["body"]["scheduledStart"] == local.isoformat()
    assert folder.client.get("/v1/routes").json()["total"] == 0
    assert [path.name for path in folder.path.iterdir() if "results" in path.name] == []


def test_people_see_sentences(folder: Folder, cli: Cli) -> None:
    file = folder.csv(row("A"), row("B", start="soon"))
    common = ("push", str(file), "--key-file", str(folder.key_file), "--url", folder.client.service.url)

    preview = cli(*common, "--map", "externalId=Our Ref", "--preview")
    dry = cli(*common, "--map", "externalId=Our Ref", "--dry-run")
    done = cli(*common, "--map", "externalId=Our Ref")

    assert '"externalId": "A"' in preview.out
    assert "2 routes checked, 1 with faults; none was pushed" in dry.out
    assert "1 created, 0 updated, 0 held, 0 skipped, 1 refused" in done.out
    for result in (preview, dry, done):
        assert result.status == 2
        assert "columns that are not used: Rate" in result.err
        assert "scheduledStart: Expected an RFC 3339 date-time" in result.out + result.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--map", "externalId"), "write it as FIELD=COLUMN"),
        (("--map", "load=Our Ref"), "there is no field 'load'"),
        (("--map", "externalId=Number"), "no column 'Number'; its columns are: Our Ref"),
        (("--mapping", "none.json"), "cannot read none.json"),
        (("--time-zone", "Mars/Olympus"), "no time zone 'Mars/Olympus'"),
        (("--time-zone", "../../etc/passwd"), "no time zone"),
        ((), "lacks columns for externalId"),
        (("--key-file", "none"), "cannot read none"),
        (("--url", "localhost"), "must begin with https://"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_sent(folder: Folder, options: tuple[str, ...], said: str) -> None:
    assert said in folder.push(folder.csv(row("A")), *options).sentence


def test_a_key_is_needed(folder: Folder, cli: Cli) -> None:
    assert "give the API key in a file" in cli("push", str(folder.jsonl(*loads(1)))).sentence
    folder.key_file.write_text("\n")
    assert "is empty" in folder.push(folder.jsonl(*loads(1))).sentence
    folder.key_file.write_text("svc_live_wrong")
    refused = folder.push(folder.jsonl(*loads(1))).sentence
    assert "401 unauthorized" in refused
    assert "svc_live_wrong" not in refused


def test_keys_of_several_tenants_are_refused(folder: Folder) -> None:
    service, fleet = folder.client.service, folder.client.fleet
    with (
        service.client(fleet, Environment.SANDBOX) as sandbox,
        service.client(fleet, Environment.LIVE, "routes:read") as reader,
    ):
        folder.key_file.write_text(f"{folder.client.key}\n{sandbox.key}\n")
        assert "several companies or environments" in folder.push(folder.jsonl(*loads(1))).sentence
        folder.key_file.write_text(reader.key)
        assert "lacks the scope routes:write" in folder.push(folder.jsonl(*loads(1))).sentence


def test_a_revoked_key_ends_the_run_and_a_new_one_goes_on(folder: Folder) -> None:
    """Nothing is lost: the results say what was accepted."""
    client, lines = folder.client, loads(60)
    stored: list[Result] = []

    async def run() -> None:
        def store(result: Result) -> None:
            stored.append(result)
            if len(stored) == 10:
                with client.service.database.transaction() as connection:
                    revoke_key(connection, client.key_id, DOT)

        async with senders(client.service.url, [client.key]) as ready:
            routes = [FileRoute(number, "", json.loads(line), None) for number, line in enumerate(lines, 1)]
            await push_all(routes, ready, store=store)

    with pytest.raises(CannotPush, match=r"the run ends at line .* 401 unauthorized"):
        asyncio.run(run())

    assert 10 <= len(stored) < 60
    with client.service.client(client.fleet) as fresh:
        folder.key_file.write_text(fresh.key)
        with results_file(folder.path / "loads.jsonl.results.csv", resume=False) as store:
            for result in stored:
                store(result._replace(external_id=json.loads(lines[result.line - 1])["externalId"]))
        done = folder.push(folder.jsonl(*lines), "--resume").document
        assert (done["skipped"], done["refused"]) == (len(stored), 0)
        assert fresh.get("/v1/routes").json()["total"] == 60


def test_a_service_that_is_away_is_told(folder: Folder, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"http://127.0.0.1:{own_port()}"

    said = cli("push", str(folder.jsonl(*loads(1))), "--key-file", str(folder.key_file), "--url", address).sentence

    assert "the service does not answer" in said


def test_a_killed_run_loses_no_result(folder: Folder) -> None:
    """Killed with SIGKILL in the middle, then resumed: every route is there once, and every result."""
    lines = loads(60)
    file, results = folder.jsonl(*lines), folder.path / "loads.jsonl.results.csv"
    command = [sys.executable, "-c", "from deploy.cli import main; main()"]
    environment = {**os.environ, "FUELROUTE_API_URL": folder.client.service.url, "FUELROUTE_DATA": str(folder.path)}
    process = subprocess.Popen(
        [*command, "push", str(file), "--key-file", str(folder.key_file), "--json"], env=environment
    )
    while not results.exists() or results.read_bytes().count(b"\n") < 12:
        assert process.poll() is None
    process.kill()
    process.wait()
    with results.open("ab") as file_of_results:
        file_of_results.write(b"59,LOAD-")  # cut off in the middle of a line

    with folder.client.service.client(folder.client.fleet) as fresh:
        folder.key_file.write_text(fresh.key)
        done = folder.push(file, "--resume").document

        assert done["skipped"] >= 11
        assert done["created"] + done["updated"] + done["skipped"] == 60
        assert fresh.get("/v1/routes").json()["total"] == 60
    accepted = [one for one in folder.results() if one["outcome"] in ("created", "updated")]
    assert len({one["external_id"] for one in accepted}) == 60


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """8,000 routes are read and pushed to a transport that answers at once."""
    code = (
        "import asyncio, resource, sys, httpx, json\n"
        "from pathlib import Path\n"
        "from deploy import bulk_push\n"
        "from deploy.bulk_push import Sender, push_all, results_file\n"
        "from deploy.clients.python.fuelroute_client import AsyncFuelroute\n"
        "from domain.files.route_files import open_route_file\n"
        "route, file = sys.argv[1], Path(sys.argv[2])\n"
        "async def run():\n"
        "    transport = httpx.MockTransport(lambda request: httpx.Response(201, content=route))\n"
        "    async with httpx.AsyncClient(transport=transport) as http:\n"
        "        sender = Sender(AsyncFuelroute('http://host', 'key', http=http), None)\n"
        "        with open_route_file(file, {}, None) as opened, \\\n"
        "            results_file(Path(sys.argv[3]), resume=False) as store:\n"
        "            seen = []\n"
        "            def note(result):\n"
        "                store(result)\n"
        "                seen.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
        "            await push_all(opened.routes, [sender], concurrency=8, store=note)\n"
        "            print(seen[len(seen) // 4], seen[-1], len(seen))\n"
        "asyncio.run(run())\n"
    )
    body = json.loads(loads(1)[0])
    with (tmp_path / "loads.jsonl").open("w") as file:
        for number in range(8_000):
            file.write(json.dumps({**body, "externalId": f"LOAD-{number}"}) + "\n")

    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(ROUTE), str(tmp_path / "loads.jsonl"), str(tmp_path / "out.csv")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    quarter, whole, count = map(int, done.stdout.split())
    assert count == 8_000
    assert whole - quarter < 3_000, f"{quarter} kB after a quarter, {whole} kB at the end"


@pytest.mark.slow
def test_no_window_has_more_requests_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long answers take. The service counts a request somewhere between its begin and its answer."""
    chance = random.Random(4)
    counted: list[float] = []

    async def ask(pace: Pace) -> None:
        async with pace.turn():
            await asyncio.sleep(chance.random() / 20)
            counted.append(asyncio.get_running_loop().time())
            await asyncio.sleep(chance.random() / 20)

    async def run() -> float:
        pace = Pace(60, 0.5)
        await asyncio.gather(*(ask(pace) for _ in range(150)))
        return asyncio.get_running_loop().time()

    seconds = run_by_clockwork(run())

    windows = [sum(start <= one <= start + 0.5 for one in counted) for start in counted]
    assert max(windows) <= 57
    assert seconds < 2.5  # and no time is wasted: 150 take three windows


def test_a_refused_request_holds_up_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others use it too: 429 is met once, not by every push under way."""
    asked: list[float] = []

    async def reply(_: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=ME)
        asked.append(asyncio.get_running_loop().time())
        if len(asked) == 3:
            return httpx.Response(429, json={"code": "rate_limited"}, headers={"Retry-After": "1"})
        return httpx.Response(201, json=ROUTE)

    async def run() -> Counter[str]:
        routes = [FileRoute(number, str(number), {}, None) for number in range(20)]
        async with senders("http://host", ["key"]) as ready:
            return await push_all(routes, ready, concurrency=2, store=lambda _: None)

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", reply)

    assert asyncio.run(run()) == {"created": 20}
    assert len(asked) == 21
    pauses = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert sum(pause > 0.9 for pause in pauses) == 1


def test_results_that_were_cut_off_do_not_count(tmp_path: Path) -> None:
    for name, cut in (
        ("r.csv", b'3,"LOAD-3,201,cre'),
        ("s.csv", b'3,LOAD-3,400,refused,,"two\nlines\n'),
        ("r.jsonl", b'{"line": 3, "exter'),
    ):
        path = tmp_path / name
        with results_file(path, resume=False) as store:
            store(Result(1, "=LOAD-1", 201, "created", "rte_1", ""))
            store(Result(2, "LOAD-2", 400, "refused", "", 'two\nlines, "quoted"'))
        with path.open("ab") as file:
            file.write(cut)
        assert accepted_before(path) == {"=LOAD-1"}
        with results_file(path, resume=True) as store:
            store(Result(4, "LOAD-4", 202, "held", "rte_4", ""))

        assert accepted_before(path) == {"=LOAD-1", "LOAD-4"}


@pytest.mark.parametrize("content", [b"a,b\n", b'"x" y\n1,2\n', b"\xff\n", b"1,2,3,4,5,6,7\n"])
@pytest.mark.parametrize("name", ["r.csv", "r.jsonl"])
def test_another_file_is_not_taken_for_results(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(CannotPush, match="is no file of results"):
        accepted_before(tmp_path / name)

    assert (tmp_path / name).read_bytes() == content


@pytest.mark.parametrize(
    "text",
    [
        "externalId,unitNumber,driverName,scheduledStart,stop_name,stop_latitude\nA,101,Ann,accepted,created,x\nB,1",
        "x" * (3 << 20),
        '"a" b\n',
    ],
)
def test_another_file_is_not_taken_for_results_and_stays_as_it_is(tmp_path: Path, text: str) -> None:
    """It would lose its last line and get lines of results."""
    path = tmp_path / "trucks.csv"
    path.write_text(text)
    with pytest.raises(CannotPush, match="no file of results"):
        accepted_before(path)
    assert path.read_text() == text
