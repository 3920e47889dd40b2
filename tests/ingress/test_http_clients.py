"""Clients as they are: Java's and curl offer HTTP/2 first, others write lengths in odd ways; each of them can push."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.settings import Settings
from tests.factories import route_body
from tests.ingress.strangers import GET, Stranger, impatient_ingress
from tests.service import Client, Service


@pytest.fixture(scope="module")
def service(settings: Settings, logs: Path) -> Iterator[Service]:
    with impatient_ingress(settings, logs) as running_one:
        yield running_one


def head_of(client: Client, body: bytes, *more: bytes) -> bytes:
    """A push's, with its length."""
    lines = [b"POST /v1/routes HTTP/1.1", b"Host: x", b"Authorization: Bearer " + client.key.encode(), *more]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""])


@pytest.mark.parametrize("pause", [None, 0.2], ids=["one segment", "two segments"])
def test_a_push_that_offers_http_2_is_stored(service: Service, client: Client, pause: float | None) -> None:
    """The bytes that Java's HttpClient sends, but for the values."""
    body = json.dumps(route_body(datetime.now(UTC))).encode()
    offer = b"Connection: Upgrade, HTTP2-Settings", b"HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"
    head = head_of(client, body, *offer, b"Upgrade: h2c", b"User-Agent: Java-http-client/17.0.15")
    with Stranger(service) as stranger:
        for part in [head + body] if pause is None else [head, body]:
            stranger.send(part)
            time.sleep(pause or 0)
        assert stranger.one_answer() == 202
        stranger.send(GET)
        assert stranger.one_answer() == 200


_JAVA_CLIENT = """
import java.net.URI;
import java.net.http.*;
import java.nio.file.Path;

class Push {
    public static void main(String[] told) throws Exception {
        var client = HttpClient.newHttpClient();
        for (int i = 0; i < 3; i++) {
            var push = HttpRequest.newBuilder(URI.create(told[0])).header("Authorization", "Bearer " + told[1])
                .POST(HttpRequest.BodyPublishers.ofFile(Path.of(told[2]))).build();
            System.out.println(client.send(push, HttpResponse.BodyHandlers.ofString()).statusCode());
        }
    }
}
"""


@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java")
def test_java_s_own_client_can_push(service: Service, client: Client, tmp_path: Path) -> None:
    (tmp_path / "Push.java").write_text(_JAVA_CLIENT)
    (tmp_path / "route.json").write_text(json.dumps(route_body(datetime.now(UTC))))
    url = f"{service.url}/v1/routes"

    told = subprocess.run(
        ["java", "Push.java", url, client.key, "route.json"], cwd=tmp_path, capture_output=True, text=True, timeout=900
    )

    assert told.stdout.split() == ["202", "200", "200"], told.stderr


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_can_push_whether_it_offers_http_2_or_not(service: Service, client: Client, tmp_path: Path) -> None:
    (tmp_path / "route.json").write_text(json.dumps(route_body(datetime.now(UTC))))
    for more, status in (
        (["--http2"], "202"),
        ([], "200"),
        (["--http1.0"], "200"),
        (["-H", "Expect: 100-continue"], "200"),
    ):
        arguments = ["curl", "-s", "-w", "%{http_code}", "-o", "/dev/null", "--json", "@route.json", *more]
        arguments += ["-H", f"Authorization: Bearer {client.key}", f"{service.url}/v1/routes"]
        told = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=900)
        assert told.stdout == status, more


def test_a_length_may_be_written_with_any_number_of_digits(service: Service, client: Client) -> None:
    body = json.dumps(route_body(datetime.now(UTC))).encode()
    head = head_of(client, body).replace(b"Content-Length: ", b"Content-Length: " + b"0" * 5000)
    for sent, status in ((head + body, 202), (head.replace(b"\r\n\r\n", b"0000\r\n\r\n"), 413)):
        with Stranger(service) as stranger:
            stranger.send(sent)
            assert stranger.one_answer() == status


def test_bytes_after_a_push_do_not_change_its_answer(service: Service, client: Client) -> None:
    body = json.dumps(route_body(datetime.now(UTC))).encode()
    for behind in (b"BREW /v1/me HTTP/1.1\r\nHost: x\r\n\r\n", b"no HTTP", b"x" * 100_000):
        with Stranger(service) as stranger:
            stranger.send(head_of(client, body) + body + behind)
            answer = stranger.answer()
        assert answer.startswith((b"HTTP/1.1 202 ", b"HTTP/1.1 200 "))
        assert answer.count(b"HTTP/1.1 ") == 1
