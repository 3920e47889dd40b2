"""HAProxy finds the cell of a request by the beginning of its key, and learns of companies that were moved."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from deploy.cells.key_map import KeyLine, MapUnusable, lines_of, tell_haproxy, write_map
from domain.accounts.keys import prefix_of, start_of_keys
from domain.lifecycle import Environment
from tests.cells.haproxy import FOLDER, PROGRAM, Proxy, running_haproxy

needs_haproxy = pytest.mark.skipif(PROGRAM is None, reason="there is no haproxy: apt install haproxy")


@contextmanager
def cell_that_says(name: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            last_client = (self.headers.get_all("X-Forwarded-For") or ["nobody"])[-1]
            self.send_response(200)
            self.send_header("Last-Client", last_client)
            self.send_header("Content-Length", str(len(name)))
            self.end_headers()
            self.wfile.write(name)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """HAProxy's checks end with a reset."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with (
        cell_that_says(b"c1") as first,
        cell_that_says(b"c2") as second,
        running_haproxy(tmp_path_factory.mktemp("haproxy"), first, second) as running,
    ):
        yield running


def cell_of(proxy: Proxy, authorization: str | None) -> str:
    headers = {} if authorization is None else {"Authorization": authorization}
    return httpx.get(f"{proxy.url}/v1/me", headers=headers, timeout=120).text


SECRET = "a" * 40


@pytest.mark.slow
@needs_haproxy
@pytest.mark.parametrize(
    ("authorization", "cell"),
    [
        (f"Bearer svc_live_{SECRET}", "c1"),
        (f"Bearer svc_test_{SECRET}", "c1"),
        (f"Bearer svc_live_c2_{SECRET}", "c2"),
        (f"Bearer svc_test_c2_{SECRET}", "c2"),
        (f"bEARER    svc_test_c2_{SECRET}", "c2"),
        (f"Bearer svc_live_c2{SECRET}", "c1"),
        (f"Bearer svc_live_c22_{SECRET}", "c1"),
        ("Bearer nonsense", "c1"),
        ("Basic dXNlcjpwYXNz", "c1"),
        ("Bearer", "c1"),
        (None, "c1"),
    ],
)
def test_the_beginning_of_a_key_leads_to_its_cell(proxy: Proxy, authorization: str | None, cell: str) -> None:
    assert cell_of(proxy, authorization) == cell


@needs_haproxy
def test_no_client_chooses_the_address_that_the_cell_believes(proxy: Proxy) -> None:
    answer = httpx.get(f"{proxy.url}/v1/me", headers={"X-Forwarded-For": "192.0.2.7"}, timeout=120)
    assert answer.headers["Last-Client"] == "127.0.0.1"


@needs_haproxy
def test_keys_of_a_company_that_was_moved_lead_to_its_new_cell_and_back(proxy: Proxy) -> None:
    moved, other = "svc_live_" + "M" * 40, "svc_live_" + "N" * 40
    tell_haproxy(proxy.control, str(proxy.map_file), lines_of([prefix_of(moved)], 2))
    tell_haproxy(proxy.control, str(proxy.map_file), lines_of([prefix_of(moved)], 2))  # twice changes nothing
    assert [cell_of(proxy, f"Bearer {key}") for key in (moved, other)] == ["c2", "c1"]

    tell_haproxy(proxy.control, str(proxy.map_file), lines_of([prefix_of(moved)], 1))
    assert cell_of(proxy, f"Bearer {moved}") == "c1"


@needs_haproxy
def test_a_map_that_haproxy_does_not_know_is_told(proxy: Proxy, tmp_path: Path) -> None:
    with pytest.raises(MapUnusable, match="refused"):
        tell_haproxy(proxy.control, "/no/such.map", [KeyLine("svc_live_abcdefgh", 2)])
    with pytest.raises(MapUnusable, match="does not answer"):
        tell_haproxy(tmp_path / "nobody", "/no/such.map", [KeyLine("svc_live_abcdefgh", 2)])


def test_the_file_keeps_its_lines_and_gets_those_that_are_needed(tmp_path: Path) -> None:
    file = tmp_path / "cells.map"
    file.write_text((FOLDER / "cells.map").read_text())
    prefixes = ["svc_live_abcdefgh", "svc_test_c2_abcdefgh", "svc_live_c3_abcdefgh", "bad prefix\nadd acl"]

    for _ in range(2):
        write_map(file, lines_of(prefixes, 2))

    assert file.read_text() == (FOLDER / "cells.map").read_text() + "svc_live_abcdefgh c2\nsvc_live_c3_abcdefgh c2\n"
    write_map(file, lines_of(prefixes, 3))
    assert [line for line in file.read_text().splitlines() if line.endswith(" c3")] == [
        "svc_live_abcdefgh c3",
        "svc_test_c2_abcdefgh c3",
    ]
    with pytest.raises(MapUnusable, match="cannot write"):
        write_map(tmp_path / "none.map", [])


def test_the_map_that_ships_names_the_keys_of_both_cells() -> None:
    lines = [line for line in (FOLDER / "cells.map").read_text().splitlines() if not line.startswith("#")]
    assert lines == [
        f"{start_of_keys(environment, cell)} c{cell}"
        for cell in (1, 2)
        for environment in (Environment.LIVE, Environment.SANDBOX)
    ]
