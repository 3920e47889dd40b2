"""Forms and files that do not arrive: they are refused in time, leave nothing behind, and hold up nobody else."""

import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from domain.database.connections import Database
from domain.lifecycle import Role
from domain.settings import Settings
from ingress.console.browser import MAX_FILE_BYTES
from ingress.console.importer import remove_left_files
from tests.conftest import redis_database
from tests.ingress.console.conftest import Browser, World, running_console, words
from tests.ingress.console.uploads import import_file, send
from tests.service import eventually, one_below

SECONDS = 2
CSV = "unit_number,vin\n701,1FUJHHDR7NLZ90701\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the console keeps files."""
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def hasty_url(
    settings: Settings, worker_id: str, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A console that waits for bodies only briefly."""
    with running_console(
        settings,
        redis_database(worker_id, "service"),
        tmp_path_factory.mktemp("logs"),
        FUELROUTE_BODY_TIMEOUT_SECONDS=str(SECONDS),
        FUELROUTE_HEAD_TIMEOUT_SECONDS=str(SECONDS),
        TMPDIR=str(files),
    ) as url:
        yield url


@pytest.fixture
def hasty(hasty_url: str, database: Database) -> Iterator[World]:
    one = World(hasty_url, database)
    with one.open:
        yield one


def begun(browser: Browser, path: str, *headers: str, body: bytes = b"") -> socket.socket:
    """A POST of which only a part is sent."""
    address = urlsplit(str(browser.base_url))
    sent = socket.create_connection((address.hostname, address.port), timeout=120)
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    lines = (f"POST {path} HTTP/1.1", "Host: x", f"Cookie: {cookies}", *headers)
    sent.sendall("".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body)
    return sent


def upload(browser: Browser, length: int, body: bytes = b"") -> socket.socket:
    return begun(
        browser,
        "/vehicles/import",
        "Content-Type: text/csv",
        f"X-Form-Token: {browser.token}",
        f"Content-Length: {length}",
        body=body,
    )


def answer_of(sent: socket.socket) -> tuple[int, float]:
    """The status, and the seconds until the connection was closed. The status is 0 where there was no answer."""
    began, got = time.monotonic(), b""
    with suppress(ConnectionResetError):
        while chunk := sent.recv(65536):
            got += chunk
    return int(got.split(b" ")[1]) if got else 0, time.monotonic() - began


FORM = "Content-Type: application/x-www-form-urlencoded"


@pytest.mark.parametrize("role", [None, Role.VIEWER])
@pytest.mark.parametrize("path", ["/sign-in", "/keys"])
@pytest.mark.parametrize(
    ("framing", "body"),
    [("Content-Length: 100", b""), ("Transfer-Encoding: chunked", b"3\r\na=1\r\n")],
)
def test_a_form_that_never_arrives_is_refused_in_time(
    hasty: World, role: Role | None, path: str, framing: str, body: bytes
) -> None:
    browser = hasty.browser(role)

    def seconds_until_it_is_refused() -> float:
        with closing(begun(browser, path, FORM, framing, body=body)) as sent:
            status, seconds = answer_of(sent)
        assert status == 408
        return seconds

    assert one_below(2 * SECONDS + 2, seconds_until_it_is_refused)


def test_a_declared_length_may_have_any_number_of_zeros_in_front(hasty: World) -> None:
    """Python refuses to read a number of more than 4,300 digits."""
    length = f"Content-Length: {3:05000}"
    with closing(begun(hasty.browser(), "/sign-in", FORM, length, "Connection: close", body=b"a=1")) as sent:
        assert answer_of(sent)[0] == 403


def test_forms_that_never_arrive_block_no_other_user(hasty: World) -> None:
    email = hasty.new_user()

    def seconds_beside_a_crowd() -> float:
        crowd = [begun(hasty.browser(), "/sign-in", FORM, "Content-Length: 60000") for _ in range(200)]
        try:
            began = time.monotonic()
            person = hasty.browser()
            person.headers["X-Forwarded-For"] = "198.51.100.9"
            assert person.sign_in(email).status_code == 303
            assert "API keys" in person.look("/keys")
            return time.monotonic() - began
        finally:
            for sent in crowd:
                sent.close()

    assert one_below(SECONDS, seconds_beside_a_crowd)


def kept(files: Path) -> int:
    return len(list(files.glob("fuelroute-upload-*")))


@pytest.mark.parametrize("arrived", [0, 100_000])
def test_a_file_that_never_arrives_is_refused_and_leaves_nothing(hasty: World, files: Path, arrived: int) -> None:
    browser = hasty.browser(Role.DISPATCHER)

    def seconds_until_it_is_refused() -> float:
        before = files.stat().st_mtime_ns
        with closing(upload(browser, MAX_FILE_BYTES, b"x" * arrived)) as sent:
            status, seconds = answer_of(sent)
        assert status == 408
        assert files.stat().st_mtime_ns > before, "what arrived was kept there"
        eventually(lambda: kept(files), lambda count: count == 0)
        return seconds

    assert one_below(arrived / 32_768 + 2 * SECONDS + 2, seconds_until_it_is_refused)


def test_a_file_that_trickles_in_is_refused(hasty: World, files: Path) -> None:
    browser = hasty.browser(Role.DISPATCHER)

    def seconds_until_it_is_cut_off() -> float:
        began = time.monotonic()
        with closing(upload(browser, MAX_FILE_BYTES)) as sent, suppress(ConnectionError):
            while time.monotonic() < began + 10 * SECONDS:
                sent.sendall(b"x" * 100)
                time.sleep(0.1)
        eventually(lambda: kept(files), lambda count: count == 0)
        return time.monotonic() - began

    assert one_below(4 * SECONDS, seconds_until_it_is_cut_off)


def test_an_upload_that_breaks_off_leaves_nothing(hasty: World, files: Path) -> None:
    browser = hasty.browser(Role.DISPATCHER)
    with closing(upload(browser, MAX_FILE_BYTES, b"x" * 3_000_000)):
        eventually(lambda: kept(files), lambda count: count == 1)
    eventually(lambda: kept(files), lambda count: count == 0)
    assert "1 row added" in import_file(browser, "vehicles", CSV), "its place is free again"


def test_a_company_sends_one_file_at_a_time_and_others_are_not_held_up(hasty: World, files: Path) -> None:
    fleet = hasty.new_fleet()
    browser, colleague = (hasty.browser(Role.DISPATCHER, fleet) for _ in range(2))
    with closing(upload(browser, MAX_FILE_BYTES, b"x" * 500_000)):
        eventually(lambda: kept(files), lambda count: count == 1)
        for _ in range(3):
            assert "another file of your company is on its way" in send(colleague, "vehicles", CSV, status=409).lower()
        assert kept(files) == 1
        assert "1 row added" in import_file(hasty.browser(Role.DISPATCHER), "vehicles", CSV)
    eventually(lambda: kept(files), lambda count: count == 0)
    assert "1 row added" in import_file(colleague, "vehicles", CSV)


def test_a_file_that_declares_too_large_a_size_is_not_read(hasty: World, files: Path) -> None:
    browser = hasty.browser(Role.DISPATCHER)
    with closing(upload(browser, MAX_FILE_BYTES + 1)) as sent:
        assert sent.recv(4096).split(b" ")[1] == b"413"
    assert kept(files) == 0


def test_a_file_beyond_the_limit_without_a_declared_size_is_refused(hasty: World, files: Path) -> None:
    browser = hasty.browser(Role.DISPATCHER)

    def endless() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * (1 << 20)

    headers = {"Content-Type": "text/csv", "X-Form-Token": browser.token, "HX-Request": "true"}
    with suppress(ConnectionError, OSError):  # it is told before all of it was sent
        answer = browser.post("/vehicles/import", content=endless(), headers=headers)
        assert answer.status_code == 413
        assert "32 MB are the limit" in words(answer.text)
    eventually(lambda: kept(files), lambda count: count == 0)


@pytest.mark.parametrize(
    "who", [lambda world: world.browser(), lambda world: world.browser(Role.VIEWER)], ids=["signed out", "viewer"]
)
def test_a_file_of_a_user_who_may_not_send_it_is_not_read(
    hasty: World, files: Path, who: Callable[[World], Browser]
) -> None:
    browser = who(hasty)
    browser.look("/sign-in")
    with closing(upload(browser, MAX_FILE_BYTES, b"x" * 1000)) as sent:
        assert sent.recv(4096).split(b" ")[1] in (b"404", b"303")
    assert kept(files) == 0


def test_a_file_that_a_killed_process_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock went with the process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, used, other = (tmp_path / name for name in ("fuelroute-upload-1.csv", "fuelroute-upload-2.csv", "other.csv"))
    for path in (left, used, other):
        path.touch()
    with used.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_left_files()
        assert sorted(tmp_path.iterdir()) == [used, other]
    remove_left_files()
    assert sorted(tmp_path.iterdir()) == [other]


def test_an_old_file_of_an_earlier_release_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, young = (tmp_path / name for name in ("fuelroute-import-1.csv", "fuelroute-import-2.csv"))
    for path in (left, young):
        path.touch()
    os.utime(left, (time.time() - 9_000,) * 2)
    remove_left_files()
    assert list(tmp_path.iterdir()) == [young]
