"""Calls a message gateway safely.

A contact is an Apprise URL that a driver or a company chose, so it is treated as hostile. Only gateways that
`accounts/contact_urls.py` allows are called, at no address inside our own network, without redirects, proxies and
second attempts. A call ends after a fixed time, whatever the URL contains or the gateway does."""

import io
import json
import os
import smtplib
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import apprise
import requests
import urllib3
from apprise import AppriseAttachment
from apprise.attachment.memory import AttachMemory

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contact_urls import NOT_PUBLIC, UnusableContact, channel_of, gateway_of, is_mail
from domain.accounts.name_lookups import NEXT_ADDRESS_AFTER_SECONDS, NoAddress, lookups
from domain.addresses import literal_address
from domain.messages.chat_text import RENDER_PLAIN_TEXT, for_chat, is_plain, room_at_gateway
from domain.messages.message_text import fitted
from domain.messages.recipients import Recipients
from domain.settings import Settings
from domain.telemetry import tracing

_MAX_BYTES = 1 << 20
"""Most bytes read of a gateway's unpacked answer. An answer may have no end, or unpack to far more than was sent."""

_CHECK_SECONDS = 0.05
_BYTES_RECEIVED = struct.Struct("128xQ")  # of Linux's struct tcp_info

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets the connection, so the gateway's side ends too

_GRACE_SECONDS = 1
"""Time by which the libraries' own time-outs are longer than ours. So the guard cuts a connection before a library
closes it, and knows that it was open."""


class Fault(NamedTuple):
    """Why an attempt failed, in one sentence without secrets. The message may have arrived all the same.

    `in_doubt`: the time ran out on an open connection. `unanswered`: a request or mail got no whole answer.
    `final`: no attempt may follow. `wait_seconds`: how long the gateway wants to be left alone."""

    sentence: str
    in_doubt: bool = False
    unanswered: bool = False
    final: bool = False
    wait_seconds: float = 0


STOOD_STILL = Fault("the worker stood still until its claim had run out")
"""The fault of an attempt that was not begun, since another worker may have taken the step by then."""

_CLAIM_ATTEMPTS = 4
"""One attempt fits into a claim even with a slow resolver, a slow database and clocks that differ."""


def claim_time(settings: Settings) -> timedelta:
    """The time for which a claim to call a gateway holds: that of four attempts."""
    return _CLAIM_ATTEMPTS * timedelta(seconds=settings.message_timeout_seconds)


class Attachment(NamedTuple):
    """A PDF file that goes out with a text by e-mail. Other kinds of gateways get the text alone: some take a file by a
    request of its own, and would get the text again whenever they refused that one."""

    name: str
    content: bytes


def give_text(
    url: str, text: str, settings: Settings, recipients: Recipients, attachment: Attachment | None = None
) -> Fault | None:
    """Try once to give a text to the gateway, for those recipients that have not taken it. Its first line is the title.
    None when all of them took it. If a gateway takes no text that long, a plan goes without its last fuel stops."""
    text = fitted(text, room_at_gateway(text, channel_of(url)))
    title, _, body = text.partition("\n")
    return call_gateway(
        url,
        title,
        body,
        allowed=AllowedHosts.of(settings),
        timeout_seconds=settings.message_timeout_seconds,
        recipients=recipients,
        attachment=attachment,
    )


def call_gateway(
    url: str,
    title: str,
    body: str,
    *,
    allowed: AllowedHosts,
    timeout_seconds: float,
    recipients: Recipients | None = None,
    attachment: Attachment | None = None,
) -> Fault | None:
    """Try once to give a plain text to the gateway. Returns None when the gateway took it. The attempt ends within the
    time, even if a name server is silent. `recipients` that have taken the text are left out, and tell who takes it."""
    try:
        gateway = gateway_of(url, allowed)
    except UnusableContact as error:
        return Fault(f"the contact {error}: correct the driver's contact or the company's message URL")
    gateway.socket_connect_timeout = gateway.socket_read_timeout = timeout_seconds + _GRACE_SECONDS
    gateway.redirects, gateway.verify_certificate, gateway.optional = False, True, False
    gateway.service_retry, gateway.service_wait = 0, 0.0
    gateway.throttle = lambda *_, **__: None  # it would sleep; for Discord, as long as the last answer demanded
    recipients = recipients or Recipients()
    recipients.remember(gateway, url)
    channel = channel_of(url)
    if channel in RENDER_PLAIN_TEXT:
        gateway.notify_format = _TEXT  # in another format Apprise would escape the text once more, and its links
    messenger = apprise.Apprise(asset=gateway.asset)
    messenger.add(gateway)
    attached = _attached(attachment) if is_mail(url) else None
    with _guarded(allowed, timeout_seconds) as guard:
        guard.recipients = recipients
        try:
            # Plain text: a name from outside must not act as markup.
            if messenger.notify(
                title=for_chat(title, channel), body=for_chat(body, channel), body_format=_TEXT, attach=attached
            ):
                return None
            reason = "the gateway did not accept the message"
        except Exception as error:  # a plugin's bug is the gateway's failure, not ours
            reason = f"the gateway failed: {type(error).__name__}"
    if guard.refused:
        return Fault(f"the gateway's address {NOT_PUBLIC}")
    if guard.is_over:
        reason = f"the gateway did not answer within {timeout_seconds:g} s"
    return Fault(reason, in_doubt=guard.has_cut, unanswered=guard.unanswered and not guard.has_cut)


_TEXT = apprise.NotifyFormat.TEXT


def _attached(attachment: Attachment | None) -> AppriseAttachment | None:
    if attachment is None:
        return None
    name, content = attachment
    in_memory: Any = AttachMemory  # it has no types
    return AppriseAttachment(in_memory(content=content, name=name, mimetype="application/pdf"))


class GatewayRequest(NamedTuple):
    """A request to a vendor's own API, without a library that knows it."""

    method: str
    url: str
    headers: Mapping[str, str]
    document: Any = None
    """The body, sent as JSON; None for no body."""
    most_bytes: int = _MAX_BYTES
    """Most bytes read of the unpacked answer. A longer answer counts as none."""


class GatewayAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


def ask_gateway(request: GatewayRequest, *, allowed: AllowedHosts, timeout_seconds: float) -> GatewayAnswer | Fault:
    """Make one request under the protections of `call_gateway`, and return the answer, whatever its status."""
    seconds = timeout_seconds + _GRACE_SECONDS
    with _guarded(allowed, timeout_seconds, request.most_bytes) as guard:
        try:
            with _Session() as session:
                answer = session.request(
                    request.method, request.url, headers=dict(request.headers), json=request.document, timeout=seconds
                )
                body = answer.raw.read()
                if len(body) < request.most_bytes:
                    return GatewayAnswer(answer.status_code, answer.headers, body)
            reason = "the answer was too long"
        except Exception as error:  # whatever the server sends is its failure, not ours
            reason = f"there was no answer: {type(error).__name__}"
    if guard.refused:
        return Fault(f"the address {NOT_PUBLIC}")
    if guard.is_over:
        reason = f"there was no answer within {timeout_seconds:g} s"
    unanswered = guard.unanswered or guard.has_begun
    return Fault(reason, in_doubt=guard.has_cut, unanswered=unanswered and not guard.has_cut)


class _Guard:
    """Watches one hand-over. Python's audit events report each connection before it is made, with the address that the
    name was resolved to. No library can bypass them.
    """

    def __init__(self, allowed: AllowedHosts, timeout_seconds: float, most_bytes: int) -> None:
        self.refused = self.unanswered = self.has_begun = self._cut = False
        self.most_bytes = most_bytes
        self.recipients: Recipients | None = None
        self.last_address = ""
        """The one of the name's addresses that is tried last; empty where no name was looked up."""
        self._done = threading.Event()
        self._allowed = allowed
        self._ends_at = time.monotonic() + timeout_seconds
        self._name = ""
        self._connections: list[socket.socket] = []
        self._giving_way: list[tuple[socket.socket, float]] = []
        """Connections to other addresses, each with the time until which it may be silent."""
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._ends_at - time.monotonic())

    @property
    def has_cut(self) -> bool:
        """True if a connection was open when the time was over, so that the gateway may have received the message."""
        with self._lock:
            return self._cut

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.getaddrinfo":
            self._name = str(arguments[0])
        elif event == "socket.connect":
            self._connect(*arguments)
        else:
            raise PermissionError(f"{event} is not for gateways")

    def _connect(self, connection: socket.socket, address: Any) -> None:
        known = literal_address(str(address[0])) if isinstance(address, tuple) else None
        if known is None or not (self._allowed.have(self._name) or self._allowed.take(known)):
            self.refused = True
            raise PermissionError("not an address for gateways")
        with self._lock:
            left = self._ends_at - time.monotonic()
            if left <= 0:
                raise TimeoutError("too late for another connection")
            connection.settimeout(left + _GRACE_SECONDS)
            own = connection.dup()  # the library may wrap or replace its own
            self._connections.append(own)
            if self.last_address not in ("", address[0]):
                self._giving_way.append((own, time.monotonic() + NEXT_ADDRESS_AFTER_SECONDS))

    def cut_late_connections(self) -> None:
        """Cut the open connections when the time is over or too many bytes have come. A library's own time-out is not
        enough: it starts again with each byte, so a gateway that sends one now and then would hold us for ever. This
        goes on until the hand-over ends, because at a look just before the time limit no connection is late yet."""
        while not self._done.wait(min(_CHECK_SECONDS, self.seconds_left) or _CHECK_SECONDS):
            with self._lock:
                for connection in self._connections:
                    if self.is_over or _bytes_received(connection) > self.most_bytes * 4:
                        self._cut_off(connection)
                for connection, until in self._giving_way:
                    if time.monotonic() >= until and not _is_open(connection):
                        self._cut_off(connection)  # the library tries the next address

    def _cut_off(self, connection: socket.socket) -> None:
        was_open = _is_open(connection)
        with suppress(OSError):  # the socket is closed already
            connection.shutdown(socket.SHUT_RDWR)  # ends an attempt to connect, too
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._cut = self._cut or was_open

    def close(self) -> None:
        self._done.set()
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
            self._giving_way.clear()


def _is_open(connection: socket.socket) -> bool:
    """True once the other side has accepted the connection."""
    try:
        connection.getpeername()
    except OSError:
        return False
    return True


def _bytes_received(connection: socket.socket) -> int:
    """The number of bytes that came in, or 0 where the system does not tell: only Linux does."""
    if sys.platform != "linux":
        return 0
    with suppress(OSError):
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
        if len(info) == _BYTES_RECEIVED.size:
            return int(_BYTES_RECEIVED.unpack(info)[0])
    return 0


class _Session(requests.Session):
    """The HTTP client of Apprise's plugins. It takes nothing from our environment: neither a proxy, which would resolve
    names itself, nor passwords of a .netrc. It follows no redirect, and reads a limited number of bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        request.headers.update(tracing.outgoing_headers())
        _ask_for_unicode(request)
        options |= {"allow_redirects": False, "stream": True, "verify": os.environ.get("REQUESTS_CA_BUNDLE") or True}
        try:
            response = super().send(request, **options)
        except requests.RequestException as error:
            if (guard := _current.get()) is not None and not _is_before_the_request(error):
                guard.unanswered = True
            raise
        most_bytes = _MAX_BYTES
        if (guard := _current.get()) is not None:
            guard.has_begun, most_bytes = True, guard.most_bytes
        with closing(response.raw) as raw:
            try:
                response.raw = io.BytesIO(raw.read(most_bytes, decode_content=True))
            except urllib3.exceptions.HTTPError as error:
                if guard is not None:
                    guard.unanswered = True
                raise requests.ConnectionError(error) from None
        if response.ok and _says_no(_host_of(request), response.raw.getvalue()):
            response.status_code = 400
        if guard is not None and response.status_code in _NO_ANSWER_BEHIND:
            guard.unanswered = True
        return response


_NO_ANSWER_BEHIND = frozenset({504, 520, 524})
"""Answers of a proxy, 520 and 524 of Cloudflare's: the server behind it has the request, and gave no answer, or none in
time."""


_UNICODE: Mapping[str, tuple[str, dict[str, str]]] = {
    "rest.nexmo.com": ("text", {"type": "unicode"}),
    "rest.messagebird.com": ("body", {"datacoding": "auto"}),
}
"""The hosts that make other than plain characters question marks unless they are asked for Unicode, which Apprise does
not do: Vonage and MessageBird. Each with the field of the text, and the fields that ask."""


def _ask_for_unicode(request: requests.PreparedRequest) -> None:
    text, asking = _UNICODE.get(_host_of(request), ("", {}))
    if asking and isinstance(request.body, str):
        fields = dict(parse_qsl(request.body, keep_blank_values=True))
        if not is_plain(fields.get(text, "")):
            request.prepare_body({**fields, **asking}, None)


def _host_of(request: requests.PreparedRequest) -> str:
    return urlsplit(request.url or "").hostname or ""


_REFUSALS: Mapping[str, Callable[[Any], bool]] = {
    "rest.nexmo.com": lambda answer: any(str(one["status"]) != "0" for one in answer["messages"]),
    "rest.clicksend.com": lambda answer: any(one["status"] != "SUCCESS" for one in answer["data"]["messages"]),
    "gateway.seven.io": lambda answer: any(one["success"] is not True for one in answer["messages"]),
    "api.smtp2go.com": lambda answer: answer["data"]["succeeded"] == 0,
}
"""The hosts whose answers of 200 tell in their body that a message was refused, which Apprise does not look at: Vonage,
ClickSend, seven and SMTP2GO."""


def _says_no(host: str, body: bytes) -> bool:
    """True if the body of a successful answer refuses the message. A body that is not as documented does not."""
    refuses = _REFUSALS.get(host)
    if refuses is None:
        return False
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return refuses(json.loads(body))
    return False


def _is_before_the_request(error: requests.RequestException) -> bool:
    """Tell if no connection was open yet on which the request could have gone out."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(reason, urllib3.exceptions.ConnectTimeoutError | urllib3.exceptions.SSLError)


_send_mail = smtplib.SMTP.sendmail


def _send_mail_once(
    server: smtplib.SMTP, sender: str, addresses: Sequence[str], *given: Any, **options: Any
) -> dict[str, tuple[int, bytes]]:
    """`SMTP.sendmail` for the addresses that have not taken the mail. A server may refuse some addresses of a mail, in
    copy for example, and the library then repeats it to all."""
    guard = _current.get()
    if guard is None or (recipients := guard.recipients) is None:
        return _send_mail(server, sender, addresses, *given, **options)
    left = [one for one in addresses if not recipients.have(("address", one))]
    try:
        refused = _send_mail(server, sender, left, *given, **options) if left else {}
    except (smtplib.SMTPResponseException, smtplib.SMTPRecipientsRefused):  # an answer
        raise
    except OSError:
        guard.unanswered = True
        raise
    for address in left:
        if address not in refused:
            recipients.note(("address", address))
    return refused


_WATCHED = frozenset(
    {"socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg", "subprocess.Popen", "os.system"}
    | {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn"}
)
_current: ContextVar[_Guard | None] = ContextVar("current", default=None)


_ask_system = socket.getaddrinfo


def _look_up(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> list[Any]:
    """Stands in for `socket.getaddrinfo`. During a hand-over it ends within the time of the attempt, which the system's
    resolver may exceed."""
    guard = _current.get()
    if guard is None or not host:
        return _ask_system(host, port, family, type, proto, flags)
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)
    guard.watch("socket.getaddrinfo", (name,))
    try:
        addresses = lookups().wait_for_addresses(name, seconds=guard.seconds_left)
    except NoAddress as error:
        raise socket.gaierror(socket.EAI_NONAME, f"it {error}") from None
    found = [one for address in addresses for one in _numeric(address, port, family, type, proto)]
    guard.last_address = str(found[-1][4][0]) if found else ""
    return found


def _numeric(address: str, port: Any, family: int, type: int, proto: int) -> list[Any]:
    """The address as `socket.getaddrinfo` returns it; empty for another family."""
    token = _current.set(None)  # what is asked here is no name
    try:
        return _ask_system(address, port, family, type, proto, socket.AI_NUMERICHOST)
    except socket.gaierror:
        return []
    finally:
        _current.reset(token)


socket.getaddrinfo = _look_up  # the libraries of gateways offer no other way to bound it


@cache
def _watch_this_process() -> None:
    """Install the audit hook. It stays for the life of the process, and acts only during a hand-over."""
    requests.sessions.Session = _Session  # type: ignore[misc]  # nothing else here uses it
    smtplib.SMTP.sendmail = _send_mail_once  # type: ignore[method-assign,assignment]  # likewise
    sys.addaudithook(_report)


def _report(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _WATCHED and (guard := _current.get()) is not None:
        guard.watch(event, arguments)


@contextmanager
def _guarded(allowed: AllowedHosts, timeout_seconds: float, most_bytes: int = _MAX_BYTES) -> Iterator[_Guard]:
    _watch_this_process()
    guard = _Guard(allowed, timeout_seconds, most_bytes)
    token = _current.set(guard)
    threading.Thread(target=guard.cut_late_connections, daemon=True).start()
    try:
        yield guard
    finally:
        _current.reset(token)
        guard.close()
