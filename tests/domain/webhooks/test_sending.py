"""Requests to endpoints: signed so that Standard Webhooks verifies them, and never into our own network."""

import asyncio
import base64
import ipaddress
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpcore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from domain.accounts import public_connections
from domain.accounts.allowed_hosts import AllowedHosts, url_fault
from domain.ids import new_id
from domain.webhooks.deliveries import DeliveryClaim, Outcome
from domain.webhooks.endpoints import ALLOWED_HOSTS_OF_WEBHOOKS, shown_url
from domain.webhooks.sending import Sender, _target, headers_of, shown_answer
from tests.domain.webhooks.endpoints import HERE
from tests.private_ca import Authority
from tests.webhook_receiver import Receiver, running_receiver

NOWHERE = AllowedHosts()
NEW, OLD, OTHER = (f"whsec_{base64.b64encode(bytes([n]) * 32).decode()}" for n in (1, 2, 3))

Result = TypeVar("Result")


def a_claim(payload: str = '{"type":"route.imported"}') -> DeliveryClaim:
    now = datetime.now(UTC)
    return DeliveryClaim(1, 1, new_id(), None, "route.imported", payload, 0, now, "", until=now)


def run(work: Callable[[Sender], Coroutine[Any, Any, Result]], allowed: AllowedHosts, seconds: float = 120) -> Result:
    async def with_sender() -> Result:
        sender = Sender(allowed=allowed, timeout_seconds=seconds)
        try:
            return await work(sender)
        finally:
            await sender.close()

    return asyncio.run(with_sender())


def send(url: str, allowed: AllowedHosts = HERE, seconds: float = 120) -> Outcome:
    return run(lambda sender: sender.send(url, [NEW], a_claim()), allowed, seconds)


def send_until_it_answers(url: str) -> Outcome:
    """One attempt at an answer that never ends. A busy machine may take longer than the limit for the answer's head,
    so longer limits follow."""
    for seconds in (0.5, 5, 50):
        outcome = send(url, seconds=seconds)
        if outcome.status is not None:
            break
    return outcome


@contextmanager
def answering(said: bytes, *, hangs: bool = False, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL of a server that reads a request, says these bytes whatever it asked, and closes the connection, or
    leaves it open. With `tls` it speaks TLS."""
    over = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if tls is not None:
                self.request = tls.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
            with suppress(OSError):
                asked = b""
                # To close a connection with unread bytes resets it, and the answer may be lost.
                while asked[:1] in (b"", b"P") and not asked.endswith(b"}") and (part := self.request.recv(65_536)):
                    asked += part
                self.request.sendall(said)
            if hangs:
                over.wait()
            if tls is not None:
                self.request.close()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}/"
        finally:
            over.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def resolving(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Resolves names as a hostile name server would: the first answer may differ from the next. Gives the questions."""
    real, asked = socket.getaddrinfo, []

    def arrange(**addresses: list[str]) -> list[str]:
        def resolve(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
            name = host.decode() if isinstance(host, bytes) else str(host)
            answers = addresses.get(name.partition(".")[0])
            if not answers:
                return real(host, port, *rest, **more)
            asked.append(name)
            return real(answers.pop(0) if len(answers) > 1 else answers[0], port, *rest, **more)

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        return asked

    return arrange


# --- Signatures --------------------------------------------------------------------------------------------------


def test_either_secret_verifies_a_request_after_a_rotation() -> None:
    claimed, now = a_claim(), datetime.now(UTC)
    headers = {name.decode().lower(): value.decode() for name, value in headers_of(claimed, [NEW, OLD], now)}

    for secret in (NEW, OLD):
        assert Webhook(secret).verify(claimed.payload, headers) == {"type": "route.imported"}
    with pytest.raises(WebhookVerificationError, match="No matching signature"):
        Webhook(OTHER).verify(claimed.payload, headers)
    old = headers_of(claimed, [NEW], now - timedelta(minutes=6))
    with pytest.raises(WebhookVerificationError, match="too old"):
        Webhook(NEW).verify(claimed.payload, {name.decode(): value.decode() for name, value in old})


def test_a_text_in_any_language_is_signed_as_it_is_sent(receiver: Receiver) -> None:
    claimed = a_claim('{"type":"route.imported","data":{"name":"Łódź → 東京 \U0001f69a"}}')

    run(lambda sender: sender.send(receiver.url, [NEW], claimed), HERE)

    (received,) = receiver.requests
    assert received.verify(NEW)["data"]["name"] == "Łódź → 東京 \U0001f69a"


def test_without_a_secret_that_can_be_opened_nothing_is_sent(receiver: Receiver) -> None:
    outcome = run(lambda sender: sender.send(receiver.url, [], a_claim()), HERE)

    assert outcome.error is not None
    assert "FUELROUTE_CONTACT_KEY" in outcome.error
    assert receiver.requests == []


# --- Addresses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://127.1/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[fe80::1%25eth0]/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://metadata.google.internal/",
        "https://localhost/",
        "https://LOCALHOST./",
        "https://printer.lan/",
        "https://intranet/",
        "https://①②⑦.0.0.1/",
        "http://tms.example.com/",
        "ftp://tms.example.com/",
        "file:///etc/passwd",
        "//tms.example.com/",
        "tms.example.com/hooks",
        "https://",
        "https://:443/",
        "https://user:password@tms.example.com/",
        "https://token@tms.example.com/",
        "https://tms.example.com/#part",
        "https://tms.example.com:99999/",
        "https://tms.example.com/a b",
        "https://tms.example.com/\r\nX-Header: 1",
        "https://tms.example.com/\x00",
        "https://tms.exa\udcffmple.com/",
        "https://" + "x" * 3_000 + ".com/",
        "https://xn--/",
        "https://[::1/",
        "javascript:alert(1)",
        "",
    ],
)
def test_a_url_that_no_endpoint_may_have_is_refused_with_a_sentence(url: str) -> None:
    fault = url_fault(url, NOWHERE, ALLOWED_HOSTS_OF_WEBHOOKS)

    assert fault is not None
    assert fault.isprintable()


@pytest.mark.parametrize(
    "url",
    [
        "https://tms.example.com/hooks",
        "https://tms.example.com:8443/hooks?code=1&x=%20",
        "https://TMS.Example.COM",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/hooks",
        "https://müller.example/haken",
    ],
)
def test_a_url_on_the_public_internet_is_taken(url: str) -> None:
    assert url_fault(url, NOWHERE, ALLOWED_HOSTS_OF_WEBHOOKS) is None


@given(st.text(max_size=80) | st.text("htps:/.@[]%#?0123456789abx-", max_size=40).map("https://{}".format))
def test_any_text_is_judged(text: str) -> None:
    """A URL that is taken can be sent to."""
    if url_fault(text, NOWHERE, ALLOWED_HOSTS_OF_WEBHOOKS) is None:
        target, host = _target(text)
        assert target.origin.scheme == b"https"
        assert host


def test_only_hosts_that_the_operator_names_may_do_without_https() -> None:
    named = AllowedHosts(frozenset({"tms.internal"}), (ipaddress.ip_network("10.1.0.0/16"),))

    assert url_fault("http://tms.internal:8080/", named, ALLOWED_HOSTS_OF_WEBHOOKS) is None
    assert url_fault("http://10.1.2.3/", named, ALLOWED_HOSTS_OF_WEBHOOKS) is None
    assert url_fault("http://10.2.2.3/", named, ALLOWED_HOSTS_OF_WEBHOOKS) is not None
    assert url_fault("http://tms.example.com/", named, ALLOWED_HOSTS_OF_WEBHOOKS) is not None


def test_a_name_that_leads_into_our_network_is_not_called(
    receiver: Receiver, resolving: Callable[..., list[str]]
) -> None:
    """It was public when the endpoint was added."""
    resolving(rebound=["127.0.0.1"])
    url = receiver.url.replace("127.0.0.1", "rebound.example.com")

    outcome = send(url, NOWHERE)

    assert outcome.error is not None
    assert "is not on the public internet" in outcome.error
    assert receiver.requests == []


def test_a_name_that_leads_to_both_sides_is_not_called(
    receiver: Receiver, resolving: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def both(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        return real("8.8.8.8", port, *rest, **more) + real("127.0.0.1", port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", both)

    outcome = send(receiver.url.replace("127.0.0.1", "both.example.com"), NOWHERE)

    assert outcome.error is not None
    assert "is not on the public internet" in outcome.error


def test_a_second_answer_of_the_name_server_is_never_asked_for(
    receiver: Receiver, resolving: Callable[..., list[str]]
) -> None:
    """The address that was judged is the one that is called."""
    asked = resolving(rebound=["127.0.0.1", "169.254.169.254"])

    outcome = send(receiver.url.replace("127.0.0.1", "rebound.example.com"), HERE)

    assert outcome.error is None
    assert asked == ["rebound.example.com"]
    assert receiver.requests[0].headers["host"].startswith("rebound.example.com:")


def test_a_name_that_the_operator_allows_may_lead_into_the_network(
    receiver: Receiver, resolving: Callable[..., list[str]]
) -> None:
    resolving(tms=["127.0.0.1"])
    allowed = AllowedHosts(frozenset({"tms.example.com"}))

    assert send(receiver.url.replace("127.0.0.1", "tms.example.com"), allowed).error is None


def test_proxies_of_the_environment_are_not_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")

    assert send(receiver.url).error is None


# --- Answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_each_status_of_success_is_one(receiver: Receiver, status: int) -> None:
    receiver.status = status
    outcome = send(receiver.url)
    assert (outcome.status, outcome.error) == (status, None)


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    with running_receiver() as target:
        receiver.status, receiver.headers = 307, {"Location": target.url}
        outcome = send(receiver.url)

    assert (outcome.status, outcome.error) == (307, "it answered 307")
    assert target.requests == []


def test_connections_are_used_again(receiver: Receiver) -> None:
    async def twice(sender: Sender) -> list[Outcome]:
        return [await sender.send(receiver.url, [NEW], a_claim()) for _ in range(3)]

    assert [outcome.error for outcome in run(twice, HERE)] == [None] * 3


def test_a_server_that_closed_an_idle_connection_costs_no_attempt(receiver: Receiver) -> None:
    receiver.headers = {"Connection": "close"}

    async def twice(sender: Sender) -> list[Outcome]:
        outcomes = []
        for _ in range(3):
            outcomes.append(await sender.send(receiver.url, [NEW], a_claim()))
            await asyncio.sleep(0.05)
        return outcomes

    assert [outcome.error for outcome in run(twice, HERE)] == [None] * 3


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    assert send(f"http://127.0.0.1:{port}/").error == "it could not be connected to"


def test_a_name_that_does_not_exist() -> None:
    assert send("https://no-such-host.invalid/").error == "it could not be connected to"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"", "it closed the connection, or did not speak HTTP"),
        (b"220 mail.example.com ESMTP\r\n", "it closed the connection, or did not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000, "it sent 32 KB, and no answer in them"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, "it closed the connection, or did not speak HTTP"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, "it sent 32 KB, and no answer in them"),
    ],
    ids=["nothing", "no HTTP", "endless header", "only 100s", "100s without end"],
)
def test_an_answer_that_is_none(said: bytes, error: str) -> None:
    with answering(said) as url:
        assert send(url).error == error


@pytest.mark.parametrize("hangs", [True, False])
@pytest.mark.parametrize(("status", "error"), [(200, None), (503, "it answered 503")])
@pytest.mark.parametrize(
    "body", [b"Content-Length: 9\r\n\r\nhalf", b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", b"\r\nhalf"]
)
def test_the_status_counts_although_the_body_never_ends_or_breaks_off(
    hangs: bool, status: int, error: str | None, body: bytes
) -> None:
    with answering(b"HTTP/1.1 %d So\r\n%s" % (status, body), hangs=hangs) as url:
        outcome = send_until_it_answers(url) if hangs else send(url)

    assert (outcome.status, outcome.error, outcome.answer) == (status, error, "half")


def test_a_body_in_tiny_pieces_is_not_read_to_its_end() -> None:
    """Each piece takes the event loop's time, which belongs to all endpoints."""
    pieces = b"1\r\nx\r\n" * 1_000
    with answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s0\r\n\r\n" % pieces) as url:
        outcome = send(url)

    assert outcome.error is None
    assert 100 <= len(outcome.answer or "") < 110


def test_a_body_that_is_not_as_its_head_says_changes_nothing() -> None:
    with answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n") as url:
        assert send(url).error is None


@pytest.mark.parametrize(
    ("valid_days", "is_trusted", "error"),
    [
        (1, True, None),
        (-0.5, True, "it has a certificate that is not valid: certificate has expired"),
        (1, False, "it has a certificate that is not valid: unable to get local issuer certificate"),
    ],
)
def test_a_certificate_is_verified_and_its_fault_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, valid_days: float, is_trusted: bool, error: str | None
) -> None:
    authority = Authority(tmp_path, valid_for=timedelta(days=valid_days))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.cert, authority.key)
    if is_trusted:
        trusting = ssl.create_default_context(cafile=authority.ca)
        monkeypatch.setattr("domain.webhooks.sending.tls_context", lambda: trusting)

    with answering(b"HTTP/1.1 204 So\r\n\r\n", tls=tls) as url:
        assert send(url).error == error


def test_a_port_that_does_not_speak_tls_is_told() -> None:
    with answering(b"HTTP/1.1 400 So\r\n\r\n") as url:
        assert send(url.replace("http:", "https:")).error == "it does not speak TLS 1.2 or later there"


def test_a_silent_address_gives_way_to_the_next_one(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = httpcore.AnyIOBackend.connect_tcp

    async def connect_where_somebody_answers(
        backend: httpcore.AnyIOBackend, host: str, *rest: Any, **more: Any
    ) -> httpcore.AsyncNetworkStream:
        if host == "127.0.0.9":
            await asyncio.Event().wait()
        return await connect(backend, host, *rest, **more)

    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect_where_somebody_answers)
    monkeypatch.setattr(public_connections, "NEXT_ADDRESS_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (f"127.0.0.{n}", 0)) for n in (9, 1)])

    outcome = send(receiver.url.replace("127.0.0.1", "both.example.com"))

    assert outcome.error is None
    assert len(receiver.requests) == 1


def test_an_upgrade_is_no_success() -> None:
    with answering(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n") as url:
        outcome = send(url)
    assert outcome.error is not None


@pytest.mark.slow
def test_an_answer_that_trickles_ends_in_time() -> None:
    with running_receiver() as receiver:
        receiver.floods, receiver.answer, receiver.status = True, b"", 200  # a body without a byte, for ever
        outcome = send_until_it_answers(receiver.url)
    assert (outcome.status, outcome.error) == (200, None)
    assert 450 < outcome.milliseconds < 120_000


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (b"", None),
        (b"fine\n", "fine\n"),
        (b"\x00\x1b[31mred", "\\u0000\\u001b[31mred"),
        (b"\xff\xfe", "��"),
        (b"Authorization: Bearer abc.def", "Authorization: Bearer ***"),
        (b'{"api_key": "x", "password=hunter2"}', '{"api_key": "x", "password=***"}'),
    ],
)
def test_an_answer_is_kept_harmless(answer: bytes, shown: str | None) -> None:
    assert shown_answer(answer) == shown


def test_the_query_of_a_url_is_not_shown() -> None:
    assert shown_url("https://a.example.com/x?code=secret&y=1") == "https://a.example.com/x?***"
    assert shown_url("https://a.example.com/x") == "https://a.example.com/x"
