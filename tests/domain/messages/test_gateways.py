"""Contacts that drivers and companies bring are hostile until shown otherwise: which are refused when they are set,
and what a hand-over does when one of them reaches for our own network, for time, or for what is not its own.
"""

import gzip
import ipaddress
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from domain.accounts import contact_urls
from domain.accounts.contact_urls import AllowedHosts, fault_of
from domain.messages import gateways
from domain.messages.gateways import Fault, call_gateway
from domain.settings import Settings
from tests.gateway import HOST, Gateway, running_gateway

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning"),  # Apprise's, when it loads
]

NONE = AllowedHosts()
OURS = AllowedHosts(networks=(ipaddress.ip_network("127.0.0.0/8"),))
SECONDS = 0.8


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with running_gateway() as gateway:
        yield gateway


def send(url: str, allowed: AllowedHosts = OURS, seconds: float = SECONDS, body: str = "1. Lakeside") -> Fault | None:
    return call_gateway(url, "Fuel plan", body, allowed=allowed, timeout_seconds=seconds)


# --- When it is set ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "twilio://AC00000000000000000000000000000000:00000000000000000000000000000000@15551230000/15551230001",
        "clicksend://user:key@4155552671",
        "mailtos://user:password@example.com?smtp=mail.example.com&to=driver@example.com&mode=ssl",
        "mailto://user:password@gmail.com",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#drivers",
        "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "tgram://123456789:abcdefg_hijklmnop/12315544/",
        "ntfys://ntfy.example.com/driver",
        "ntfy://topic-of-the-driver",
        "twilio://AC00000000000000000000000000000000:00000000000000000000000000000000@15551230000",
        "jsons://user:password@gateway.example.com/drivers?+X-Key=abc&:event=plan",
        "json://93.184.216.34:8080/drivers",
        "json://[2606:2800:220:1:248:1893:25c8:1946]/",
    ],
)
def test_a_real_gateway_may_be_used(url: str) -> None:
    assert fault_of(url, NONE) is None


@pytest.mark.parametrize(
    "url",
    [
        "syslog://",
        "rsyslog://gateway.example.com",
        "dbus://",
        "gnome://",
        "macosx://",
        "windows://",
        "mqtt://gateway.example.com/topic",
        "xmpp://user:password@gateway.example.com",
        "smpp://user:password@gateway.example.com/15551230000/15551230001",
        "apprise://gateway.example.com/token",
        "kodi://gateway.example.com",
        "growl://gateway.example.com",
        "file:///etc/passwd",
        "http://gateway.example.com/apprise.yml",
        "https://gateway.example.com/",
    ],
)
def test_a_kind_of_gateway_that_is_not_on_the_list_is_refused(url: str) -> None:
    assert fault_of(url, NONE)


@pytest.mark.parametrize(
    "url",
    [
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?template=/etc/passwd",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?:key=value",
        "tgram://123456789:abcdefg_hijklmnop/12315544/?Template=/etc/passwd",
        "ntfys://ntfy.example.com/driver?attach=http://10.0.0.1/secret",
        "mailto://user:password@example.com?pgp=yes&pgpkey=/etc/passwd",
        "mailto://user:password@example.com?+Bcc=somebody@example.com",
        *(
            f"json://gateway.example.com/?{parameter}"
            for parameter in ("rto=60", "cto=60", "retry=5", "wait=60", "redirect=yes", "verify=no", "optional=yes")
        ),
        "json://gateway.example.com/?RTO=60",
        "json://gateway.example.com/?%72to=60",
        "json://gateway.example.com/?emojis=yes",
        "json://gateway.example.com/?tag=x",
    ],
)
def test_a_parameter_that_is_not_on_the_list_is_refused(url: str) -> None:
    fault = fault_of(url, NONE)
    assert fault
    assert "parameter" in fault or "exactly one URL" in fault


@pytest.mark.parametrize(
    "cell",
    [
        "json://one.example.com,json://two.example.com",
        "json://one.example.com json://two.example.com",
        "json://one.example.com\njson://two.example.com",
        "json://one.example.com;json://two.example.com",
        " json://one.example.com",
        "json://one.example.com/\u2028",
        "json://one.example.com/\x00",
        "",
        "+1 555 0100",
        "somebody@example.org",
    ],
)
def test_a_cell_holds_exactly_one_url(cell: str) -> None:
    assert fault_of(cell, NONE)


INSIDE = [
    *(
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "\uff11\uff12\uff17.0.0.1",
    ),
    *("10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "0", "224.0.0.1"),
    *("240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1"),
    *("[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[ff02::1]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]"),
    *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:db8::1]", "[fec0::1]", "[::127.0.0.1]", "[2001:0:7f00:1::]"),
    *(
        "168.63.129.16",
        "0xa83f8110",
        "2822734096",
        "[::ffff:168.63.129.16]",
        "[64:ff9b::a83f:8110]",
        "[2002:a83f:8110::1]",
    ),
    *("192.0.0.192", "[::ffff:192.0.0.192]", "100.100.100.200", "[::ffff:100.100.100.200]", "[64:ff9b::6464:64c8]"),
    *("[fd00:ec2::254]", "[fd20:ce::254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[64:ff9b:1::a9fe:a9fe]"),
    *("169.254.170.2", "161.26.0.10", "166.9.0.1", "192.88.99.1", "[3fff::1]", "[5f00::1]"),
    *("localhost", "LOCALHOST", "localhost.", "a.localhost", "redis", "postgres.", "printer.local", "api.internal"),
]
"""Every address that is not on the public internet, in every way that one can be written."""


@pytest.mark.parametrize("host", INSIDE)
@pytest.mark.parametrize(
    "shape", ["json://gateway.example.com@{}:80/x", "mailto://user:password@example.com?smtp={}", "gotify://{}/token"]
)
def test_a_host_inside_our_network_is_refused_when_it_is_set(host: str, shape: str) -> None:
    fault = fault_of(shape.format(host), NONE)

    assert fault
    assert host not in fault


@pytest.mark.parametrize(
    ("allowed", "url", "usable"),
    [
        ("10.1.0.0/16", "json://10.1.2.3/", True),
        ("10.1.0.0/16", "json://10.2.2.3/", False),
        ("sms.internal, 127.0.0.1", "json://SMS.internal./", True),
        ("sms.internal, 127.0.0.1", "json://localhost/", False),
        ("sms.internal,127.0.0.1", "json://127.0.0.1:9000/", True),
        ("redis", "json://redis/", True),
        ("::1", "json://[::1]/", True),
        ("", "json://[::1]/", False),
    ],
)
def test_an_operator_s_own_gateways_are_named_in_the_settings(allowed: str, url: str, usable: bool) -> None:
    assert (fault_of(url, AllowedHosts.of(Settings(message_allowed_hosts=allowed))) is None) is usable


def test_the_readme_lists_every_kind_that_is_allowed() -> None:
    readme = (Path(__file__).parents[3] / "domain" / "accounts" / "README.md").read_text()
    twins = {"workflow": "workflows", "wxteams": "webex"}

    for kind in contact_urls._PARAMETERS:
        plain = kind if kind.startswith("mailto") or f"`{kind}`" in readme else kind.removesuffix("s")
        assert f"`{twins.get(kind, plain)}`" in readme


def test_a_fault_tells_no_secret() -> None:
    for url in ("json://u:secret@10.0.0.1/secret?x=secret", "x://secret", "json://a.example.com/secret?secret=1"):
        fault = fault_of(url, NONE)
        assert fault
        assert "secret" not in fault


# --- When it is sent ---------------------------------------------------------------------------------------------


def test_what_was_stored_before_it_was_refused_fails_with_a_sentence(gateway: Gateway) -> None:
    for url in (gateway.url, "syslog://", "json://a.example.com?retry=5"):
        fault = send(url, NONE)
        assert fault is not None
        assert fault.sentence.startswith("the contact ")
    assert gateway.received == []


@pytest.fixture
def resolving(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Has names resolved as a hostile name server would: the first answer may differ from the next."""
    real = socket.getaddrinfo

    def arrange(**addresses: list[str]) -> None:
        def resolve(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
            answers = addresses.get(str(host).partition(".")[0])
            if not answers:
                return real(host, port, *rest, **more)
            address = answers.pop(0) if len(answers) > 1 else answers[0]
            found = real(address, port, *rest, **more)
            sys.audit("socket.getaddrinfo", host, port, *rest)
            return found

        monkeypatch.setattr(socket, "getaddrinfo", resolve)

    return arrange


@pytest.mark.parametrize(
    "shape", ["json://rebound.example.com:{}/", "mailto://u:p@rebound.example.com:{}?mode=insecure"]
)
def test_a_name_that_leads_into_our_network_is_refused_when_it_is_sent(
    gateway: Gateway, resolving: Callable[..., None], shape: str
) -> None:
    resolving(rebound=["127.0.0.1"])
    url = shape.format(port_of(gateway))
    assert fault_of(url, NONE) is None

    fault = send(url, NONE)

    assert fault is not None
    assert "not on the public internet" in fault.sentence
    assert not fault.in_doubt
    assert gateway.received == []


def test_a_name_that_the_operator_allows_may_lead_into_the_network(
    gateway: Gateway, resolving: Callable[..., None]
) -> None:
    resolving(sms=["127.0.0.1"], other=["127.0.0.1"])
    allowed = AllowedHosts(frozenset({"sms.example.com"}))

    assert send(f"json://sms.example.com:{port_of(gateway)}/", allowed) is None
    assert send(f"json://other.example.com:{port_of(gateway)}/", allowed) is not None
    assert len(gateway.received) == 1


def test_a_redirect_is_not_followed(gateway: Gateway) -> None:
    with running_gateway() as target:
        gateway.status, gateway.headers = 307, {"Location": target.url.replace("json://driver:secret@", "http://")}

        fault = send(gateway.url)

    assert fault == Fault("the gateway did not accept the message")
    assert target.received == []


def test_a_silent_gateway_costs_its_time_and_no_more(gateway: Gateway) -> None:
    gateway.answering.clear()
    started = time.monotonic()

    assert send(gateway.url) == Fault("the gateway did not answer within 0.8 s", in_doubt=True)
    assert time.monotonic() - started < 5
    assert len(gateway.received) == 1


def test_a_gateway_that_trickles_is_cut_off(gateway: Gateway) -> None:
    """Each of its bytes comes within every time-out between two of them."""
    gateway.trickles, gateway.status = True, 500
    started = time.monotonic()

    fault = send(gateway.url)

    assert fault is not None
    assert fault.in_doubt
    assert time.monotonic() - started < 5


def test_a_mail_server_that_trickles_is_cut_off() -> None:
    with socket.create_server((HOST, 0)) as server:
        over = threading.Event()

        def trickle() -> None:
            connection, _ = server.accept()
            with connection:
                while not over.wait(0.05):
                    try:
                        connection.send(b"220-wait\r\n")
                    except OSError:
                        return

        thread = threading.Thread(target=trickle)
        thread.start()
        started = time.monotonic()
        fault = send(f"mailto://u:p@example.com?smtp={HOST}&port={server.getsockname()[1]}&mode=insecure")
        over.set()
        thread.join()

    assert fault is not None
    assert fault.in_doubt
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_without_end_is_read_to_a_bound(gateway: Gateway, status: int) -> None:
    gateway.floods, gateway.body, gateway.status = True, bytes(1 << 20), status
    before = peak_memory()

    fault = send(gateway.url, seconds=5)

    assert (fault is None) is (status == 200)
    assert peak_memory() - before < 64 << 20


def test_an_answer_that_is_a_decompression_bomb_is_not_unpacked(gateway: Gateway) -> None:
    gateway.status, gateway.headers = 500, {"Content-Encoding": "gzip"}
    gateway.body = gzip.compress(bytes(512 << 20), 1)
    before = peak_memory()

    assert send(gateway.url, seconds=5) is not None
    assert peak_memory() - before < 64 << 20


def test_a_mail_server_that_talks_without_end_is_cut_off() -> None:
    with socket.create_server((HOST, 0)) as server:

        def flood() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                while True:
                    connection.sendall((b"220-" + b"x" * 4000 + b"\r\n") * 100)

        thread = threading.Thread(target=flood)
        thread.start()
        before = peak_memory()
        fault = send(f"mailto://u:p@example.com?smtp={HOST}&port={server.getsockname()[1]}&mode=insecure", seconds=5)
        thread.join()

    assert fault is not None
    assert peak_memory() - before < 256 << 20


def peak_memory() -> int:
    """In bytes; it never falls."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_what_a_gateway_answers_is_read_as_usual(gateway: Gateway) -> None:
    send(gateway.url)
    gateway.body = gzip.compress(b'{"ok": true}')
    gateway.headers = {"Content-Encoding": "gzip", "Content-Length": str(len(gateway.body))}

    answer = requests.post(gateway.url.replace("json://driver:secret@", "http://"), json={}, timeout=5)

    assert (answer.ok, answer.json(), answer.content) == (True, {"ok": True}, b'{"ok": true}')


def test_a_gateway_that_is_away_is_no_doubt() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]

    assert send(f"json://{HOST}:{port}/") == Fault("the gateway did not accept the message")


@contextmanager
def running_proxy() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://{HOST}:{server.server_port}", asked
        server.shutdown()


def test_neither_a_proxy_nor_a_netrc_of_ours_is_used(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine {HOST} login ours password own\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    with running_proxy() as (proxy, asked):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy)
        assert send(gateway.url.replace("driver:secret@", "")) is None

    assert asked == []
    assert [headers.get("Authorization") for headers in gateway.headers_received] == [None]


def test_what_a_hand_over_may_not_do_is_refused_and_the_rest_of_the_process_goes_on(
    monkeypatch: pytest.MonkeyPatch, gateway: Gateway
) -> None:
    """A plugin that would run a program or write a datagram fails; nobody else notices."""
    import subprocess

    done: list[str] = []
    datagrams, local = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
    for attempt in (
        lambda: subprocess.run(["true"], check=False),
        lambda: os.system("true"),
        lambda: datagrams.sendto(b"x", (HOST, 514)),
        lambda: local.connect("/dev/log"),
    ):

        def notify(*_: Any, attempt: Callable[[], object] = attempt, **__: Any) -> bool:
            attempt()
            done.append("done")
            return True

        monkeypatch.setattr("apprise.plugins.custom_json.NotifyJSON.send", notify)
        assert send(gateway.url) is not None
    datagrams.close()
    local.close()
    assert done == []
    assert subprocess.run(["true"], check=False).returncode == 0


@pytest.mark.parametrize(
    ("format", "expected"),
    [("", ("text/plain", "1. Yard<br>2. Cheap\r\n")), ("&format=html", ("text/html", "Yard&lt;br&gt;2"))],
)
def test_a_name_is_no_markup_in_a_mail(format: str, expected: tuple[str, str]) -> None:
    with running_mail_server() as (port, mails):
        url = f"mailto://user:password@example.com?smtp={HOST}&port={port}&mode=insecure&to=driver@example.com{format}"
        assert send(url, body="1. Yard<br>2. Cheap\n3. Keystone", seconds=5) is None

    (mail,) = mails
    assert all(part in mail.replace("=\r\n", "") for part in expected), mail


@contextmanager
def running_mail_server() -> Iterator[tuple[int, list[str]]]:
    """Takes one mail, without asking who sends it."""
    mails: list[str] = []

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rwb") as stream:

            def say(line: str) -> None:
                stream.write(line.encode() + b"\r\n")
                stream.flush()

            say("220 ready")
            while line := stream.readline():
                word = line[:4].upper()
                if word == b"EHLO":
                    say("250-hello")
                    say("250 AUTH PLAIN")
                elif word == b"AUTH":
                    say("235 ok")
                elif word == b"DATA":
                    say("354 go on")
                    text = b""
                    while (part := stream.readline()) != b".\r\n":
                        text += part
                    mails.append(text.decode())
                    say("250 taken")
                elif word == b"QUIT":
                    say("221 bye")
                    return
                else:
                    say("250 ok")

    with socket.create_server((HOST, 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        yield server.getsockname()[1], mails
        thread.join(10)


def port_of(gateway: Gateway) -> int:
    return int(gateway.url.rstrip("/").rpartition(":")[2])


def test_hand_overs_at_once_are_each_guarded_by_their_own_rules(gateway: Gateway) -> None:
    faults: list[Fault | None] = []
    threads = [
        threading.Thread(target=lambda allowed=allowed: faults.append(send("json://localhost.example.com/", allowed)))
        for allowed in (NONE, OURS)
    ]
    for thread in threads:
        thread.start()
    assert send(gateway.url, seconds=5) is None
    for thread in threads:
        thread.join()
    assert len(faults) == 2
    assert gateways._current.get() is None
