"""A hand-over to a hostile contact ends in time, and reaches neither our own network nor what is not its own."""

import base64
import gzip
import io
import ipaddress
import json
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import requests
import urllib3

from domain.accounts import name_lookups
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contact_urls import fault_of
from domain.messages import gateways
from domain.messages.gateways import Attachment, Fault, call_gateway
from domain.messages.recipients import Recipients
from tests.gateway import HOST, Gateway, running_gateway
from tests.ports import own_port
from tests.silence import silent_address

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning"),  # Apprise's, when it loads
]

NO_HOSTS = AllowedHosts()
OURS = AllowedHosts(networks=(ipaddress.ip_network("127.0.0.0/8"),))


def send(
    url: str,
    allowed: AllowedHosts = OURS,
    seconds: float = 120,
    body: str = "1. Lakeside",
    **options: Any,
) -> Fault | None:
    return call_gateway(url, "Fuel plan", body, allowed=allowed, timeout_seconds=seconds, **options)


def assert_cut_off(url: str) -> None:
    """The attempt ends in doubt, and in time. On a busy machine the first one may end before it is connected."""
    for seconds in (0.8, 8, 80):
        fault = send(url, seconds=seconds)
        assert fault is not None
        if fault.in_doubt:
            break
    assert fault == Fault(f"the gateway did not answer within {seconds:g} s", in_doubt=True)


def test_a_stored_contact_that_is_refused_now_fails_with_a_sentence(gateway: Gateway) -> None:
    framing = f"{gateway.url}?+Transfer-Encoding=chunked&+Host=x"
    for url in (gateway.url, framing, "syslog://", "json://a.example.com?retry=5", "json://a..example.com/"):
        fault = send(url, OURS if url == framing else NO_HOSTS)
        assert fault is not None
        assert fault.sentence.startswith("the contact ")
    assert gateway.received == []


@pytest.fixture
def resolving(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Resolve names as a hostile name server would: the first answer may differ from the next."""
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
def test_a_name_that_leads_into_our_network_is_refused_when_the_message_is_sent(
    gateway: Gateway, resolving: Callable[..., None], shape: str
) -> None:
    resolving(rebound=["127.0.0.1"])
    url = shape.format(port_of(gateway))
    assert fault_of(url, NO_HOSTS) is None

    fault = send(url, NO_HOSTS)

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


@pytest.mark.parametrize("shape", ["json://silent.example.com/", "mailto://u:p@silent.example.com?mode=insecure"])
def test_a_name_server_that_is_silent_keeps_the_thread_no_longer_than_the_attempt(
    monkeypatch: pytest.MonkeyPatch, shape: str
) -> None:
    over = threading.Event()
    monkeypatch.setattr(name_lookups, "ask_system", lambda host: (over.wait(180) and ["203.0.113.7"]) or [])
    started = time.monotonic()
    try:
        fault = send(shape, NO_HOSTS, seconds=0.5)
    finally:
        over.set()

    assert fault is not None
    assert not fault.in_doubt
    assert time.monotonic() - started < 120


def test_a_silent_address_gives_way_to_the_next_one(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_lookups, "ask_system", lambda _: ["127.0.0.9", "127.0.0.1"])
    monkeypatch.setattr(gateways, "NEXT_ADDRESS_AFTER_SECONDS", 0.05)
    with silent_address("127.0.0.9", port_of(gateway)):
        assert send(f"json://both.example.com:{port_of(gateway)}/") is None
    assert len(gateway.received) == 1


def test_no_message_can_have_come_to_an_address_that_was_silent() -> None:
    port = own_port()
    with silent_address("127.0.0.9", port):
        fault = send(f"json://127.0.0.9:{port}/", seconds=0.5)
    assert fault == Fault("the gateway did not answer within 0.5 s")


def test_a_redirect_is_not_followed(gateway: Gateway) -> None:
    with running_gateway() as target:
        gateway.status, gateway.headers = 307, {"Location": target.url.replace("json://driver:secret@", "http://")}

        fault = send(gateway.url)

    assert fault == Fault("the gateway did not accept the message")
    assert target.received == []


def test_a_silent_gateway_is_waited_for_up_to_the_time_limit(gateway: Gateway) -> None:
    gateway.answering.clear()

    assert_cut_off(gateway.url)
    assert len(gateway.received) <= 1, "a driver is told once"


def test_a_gateway_that_trickles_is_cut_off(gateway: Gateway) -> None:
    """Each byte comes before a time-out between two bytes could end the call."""
    gateway.trickles, gateway.status = True, 500

    assert_cut_off(gateway.url)


@contextmanager
def mail_server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a mail server that talks so to the first caller, if one comes at all, until it is cut off."""

    def serve() -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            with connection:
                talk(connection)

    with socket.create_server((HOST, 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"mailto://u:p@example.com?smtp={HOST}&port={server.getsockname()[1]}&mode=insecure"
        server.shutdown(socket.SHUT_RDWR)
    thread.join(180)


def trickle(connection: socket.socket) -> None:
    """Sends a line now and then, for half a minute."""
    for _ in range(600):
        connection.send(b"220-wait\r\n")
        time.sleep(0.05)


def test_a_mail_server_that_trickles_is_cut_off() -> None:
    with mail_server(trickle) as url:
        assert_cut_off(url)


def test_a_connection_is_cut_though_the_time_ends_behind_the_look_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[gateways._Guard] = []

    def is_over(guard: gateways._Guard) -> bool:
        if guard.seconds_left > 0:
            return False
        looked.append(guard)
        return looked.count(guard) > 1

    monkeypatch.setattr(gateways._Guard, "is_over", property(is_over))
    with mail_server(trickle) as url:
        assert_cut_off(url)


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_without_end_is_read_to_a_bound(gateway: Gateway, status: int) -> None:
    gateway.floods, gateway.body, gateway.status = True, bytes(1 << 20), status
    before = peak_memory()

    fault = send(gateway.url)

    assert (fault is None) is (status == 200)
    assert peak_memory() - before < 64 << 20


def test_an_answer_that_is_a_decompression_bomb_is_not_unpacked(gateway: Gateway) -> None:
    gateway.status, gateway.headers = 500, {"Content-Encoding": "gzip"}
    gateway.body = gzip.compress(bytes(512 << 20), 1)
    before = peak_memory()

    assert send(gateway.url) is not None
    assert peak_memory() - before < 64 << 20


def test_a_mail_server_that_talks_without_end_is_cut_off() -> None:
    def flood(connection: socket.socket) -> None:
        while True:
            connection.sendall((b"220-" + b"x" * 4000 + b"\r\n") * 100)

    with mail_server(flood) as url:
        before = peak_memory()
        fault = send(url)

    assert fault is not None
    assert peak_memory() - before < 256 << 20


def peak_memory() -> int:
    """The peak memory of the process in bytes, which never falls."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_a_gateway_s_answer_is_read_as_usual(gateway: Gateway) -> None:
    send(gateway.url)
    gateway.body = gzip.compress(b'{"ok": true}')
    gateway.headers = {"Content-Encoding": "gzip", "Content-Length": str(len(gateway.body))}

    answer = requests.post(gateway.url.replace("json://driver:secret@", "http://"), json={}, timeout=120)

    assert (answer.ok, answer.json(), answer.content) == (True, {"ok": True}, b'{"ok": true}')


def test_a_message_to_an_unreachable_gateway_certainly_did_not_arrive() -> None:
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


def test_forbidden_actions_of_a_hand_over_are_refused_and_the_rest_of_the_process_goes_on(
    monkeypatch: pytest.MonkeyPatch, gateway: Gateway
) -> None:
    """A plugin that would run a program or write a datagram fails. Nothing else is affected."""
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
        assert send(url, body="1. Yard<br>2. Cheap\n3. Keystone") is None

    (mail,) = mails
    assert all(part in mail.replace("=\r\n", "") for part in expected), mail


@pytest.mark.parametrize("format", ["", "?format=markdown", "?format=html"])
def test_a_name_mentions_nobody_and_is_no_markdown_in_a_chat(gateway: Gateway, format: str) -> None:
    url = f"mmost://{gateway.url.rpartition('@')[2].rstrip('/')}/token{format}"
    assert send(url, body="1. A_1_ @all *7*\nhttps://fuel.example/d/a_b_c") is None

    (received,) = gateway.received
    assert received["text"] == "Fuel plan\r\n1. A\\_1\\_ @\u200ball \\*7\\*\nhttps://fuel.example/d/a_b_c"


def test_a_file_goes_out_with_a_mail() -> None:
    with running_mail_server() as (port, mails):
        url = f"mailto://user:password@example.com?smtp={HOST}&port={port}&mode=insecure&to=cfo@example.com"
        assert send(url, attachment=Attachment("savings-2026-10.pdf", b"%PDF-1.3 file")) is None

    (mail,) = mails
    assert "application/pdf" in mail
    assert 'filename="savings-2026-10.pdf"' in mail
    assert base64.b64encode(b"%PDF-1.3 file").decode() in mail


def test_other_gateways_get_the_text_alone(gateway: Gateway) -> None:
    """Some take a file by a request of its own: when they refuse it, the text would go out again."""
    assert send(gateway.url, attachment=Attachment("savings-2026-10.pdf", b"%PDF-1.3 file")) is None
    (received,) = gateway.received
    assert (received["message"], received.get("attachments", [])) == ("1. Lakeside", [])


@pytest.mark.parametrize(
    ("shape", "first", "last"),
    [
        ("to=ann@example.com,bob@example.com,cy@example.com", ["ann", "cy"], ["bob"]),
        ("to=ann@example.com&cc=bob@example.com", ["ann"], ["bob"]),
    ],
)
def test_a_mail_is_not_repeated_to_those_who_have_it(shape: str, first: list[str], last: list[str]) -> None:
    refused, taken_by = {"bob@example.com"}, list[str]()
    with running_mail_server(refused) as (port, mails):
        url = f"mailto://user:password@example.com?smtp={HOST}&port={port}&mode=insecure&{shape}"

        def attempt() -> tuple[bool, list[str]]:
            """A worker's attempt, which knows what is stored alone. Returns whether all have it, and who got it."""
            mails.clear()
            recipients = Recipients(taken_by)
            is_taken = send(url, seconds=5, recipients=recipients) is None
            taken_by[:] = recipients.taken_by
            return is_taken, [name for name in ("ann", "bob", "cy") if any(f":<{name}@" in mail for mail in mails)]

        assert attempt() == (False, first)
        assert attempt() == (False, [])
        refused.clear()
        assert attempt() == (True, last)
        assert attempt() == (True, [])
        url += "&name=another"
        assert attempt() == (True, sorted(first + last)), "another contact begins anew"


VONAGE = "vonage://abcd1234:abcdef0123456789@15553334444/15556667777"
CLICKSEND = "clicksend://user:key@15556667777"
SEVEN = "seven://key/15556667777"
SMTP2GO = "smtp2go://fuel@example.com/api-0123456789/driver@example.net"


def answer_all(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[str]:
    """Gives each request this answer, for hosts that no test may reach. Returns the bodies of the requests."""
    bodies: list[str] = []

    def answered(_: Any, request: requests.PreparedRequest, **__: Any) -> requests.Response:
        assert isinstance(request.body, str | bytes)
        assert int(request.headers["Content-Length"]) == len(request.body)
        bodies.append(str(request.body))
        response = requests.Response()
        response.status_code, response.request, response.url = 200, request, request.url or ""
        response.raw = urllib3.HTTPResponse(io.BytesIO(json.dumps(answer).encode()), preload_content=False)
        return response

    monkeypatch.setattr("requests.adapters.HTTPAdapter.send", answered)
    return bodies


@pytest.mark.parametrize("name", ["ਲੇਕਸਾਈਡ", "Love`s"])
@pytest.mark.parametrize(
    ("url", "field", "asking"),
    [
        (VONAGE, "text", {"type": "unicode"}),
        (f"msgbird://{25 * 'k'}/15553334444/15556667777", "body", {"datacoding": "auto"}),
    ],
)
def test_a_gateway_that_takes_plain_characters_alone_is_asked_for_unicode(
    monkeypatch: pytest.MonkeyPatch, url: str, field: str, asking: dict[str, str], name: str
) -> None:
    bodies = answer_all(monkeypatch, {})
    assert send(url, body="1. Lakeside & Son") is None
    assert send(url, body=f"1. {name} & Son") is None

    plain, other = (dict(parse_qsl(body)) for body in bodies)
    assert other[field] == f"Fuel plan\r\n1. {name} & Son"
    assert other == {**plain, field: other[field], **asking}


@pytest.mark.parametrize(
    ("url", "answer", "taken"),
    [
        (VONAGE, {"messages": [{"to": "15556667777", "status": "0"}]}, True),
        (VONAGE, {"messages": [{"status": "0"}, {"status": "9", "error-text": "Partner quota exceeded"}]}, False),
        (VONAGE, {"messages": [{"status": "4", "error-text": "Bad Credentials"}]}, False),
        (CLICKSEND, {"http_code": 200, "data": {"messages": [{"status": "SUCCESS"}]}}, True),
        (CLICKSEND, {"http_code": 200, "data": {"messages": [{"status": "INSUFFICIENT_CREDIT"}]}}, False),
        (SEVEN, {"success": "100", "messages": [{"success": True, "error": None}]}, True),
        (SEVEN, {"success": "100", "messages": [{"success": False, "error": "202"}]}, False),
        (SMTP2GO, {"request_id": "a", "data": {"succeeded": 1, "failed": 0, "failures": [], "email_id": "1"}}, True),
        (SMTP2GO, {"request_id": "a", "data": {"succeeded": 1, "failed": 1, "failures": ["cc"]}}, True),
        (SMTP2GO, {"request_id": "a", "data": {"succeeded": 0, "failed": 1, "failures": ["suppressed"]}}, False),
        (SMTP2GO, {"request_id": "a", "data": {}}, True),
        (VONAGE, ["not", "as", "documented"], True),
        (VONAGE, {"messages": None}, True),
    ],
)
def test_a_refusal_within_an_answer_of_200_is_one(
    monkeypatch: pytest.MonkeyPatch, url: str, answer: Any, taken: bool
) -> None:
    """Only a body as the gateway documents it is understood."""

    answer_all(monkeypatch, answer)
    fault = send(url)

    assert (fault is None) is taken
    assert fault is None or not (fault.in_doubt or fault.unanswered)


@pytest.mark.parametrize(("refused", "unanswered"), [((), True), (("driver@example.com",), False)])
def test_a_mail_that_a_server_took_without_an_answer_may_have_arrived(
    refused: Collection[str], unanswered: bool
) -> None:
    with running_mail_server(refused, hangs_up=True) as (port, mails):
        url = f"mailto://user:password@example.com?smtp={HOST}&port={port}&mode=insecure&to=driver@example.com"
        fault = send(url)

    assert fault is not None
    assert (fault.unanswered, len(mails)) == (unanswered, int(unanswered))


@contextmanager
def running_mail_server(refused: Collection[str] = (), *, hangs_up: bool = False) -> Iterator[tuple[int, list[str]]]:
    """A server that takes mails from anybody, but for these recipients. A mail begins with its recipients. `hangs_up`:
    it takes a mail, and closes the connection without an answer."""
    mails: list[str] = []

    def serve(server: socket.socket) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                take_mails(server.accept()[0])

    def take_mails(connection: socket.socket) -> None:
        to: list[str] = []
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
                elif word == b"RCPT" and any(one in line.decode() for one in refused):
                    say("550 nobody of this name")
                elif word == b"RCPT":
                    to.append(line.decode())
                    say("250 ok")
                elif word == b"DATA":
                    say("354 go on")
                    text = b""
                    while (part := stream.readline()) != b".\r\n":
                        text += part
                    mails.append("".join(to) + text.decode())
                    to.clear()
                    if hangs_up:
                        return
                    say("250 taken")
                elif word == b"QUIT":
                    say("221 bye")
                    return
                else:
                    say("250 ok")

    with socket.create_server((HOST, 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        try:
            yield server.getsockname()[1], mails
        finally:
            server.shutdown(socket.SHUT_RDWR)
    thread.join(180)


def port_of(gateway: Gateway) -> int:
    return int(gateway.url.rstrip("/").rpartition(":")[2])


def test_hand_overs_at_once_are_each_guarded_by_their_own_rules(gateway: Gateway) -> None:
    faults: list[Fault | None] = []
    threads = [
        threading.Thread(target=lambda allowed=allowed: faults.append(send("json://localhost.example.com/", allowed)))
        for allowed in (NO_HOSTS, OURS)
    ]
    for thread in threads:
        thread.start()
    assert send(gateway.url) is None
    for thread in threads:
        thread.join()
    assert len(faults) == 2
    assert gateways._current.get() is None
