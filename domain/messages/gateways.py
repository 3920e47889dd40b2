"""Message gateways: which contacts may be used at all, and a hand-over that leaves nothing to the contact.

A contact is an Apprise URL that drivers and companies bring, so that it is treated as hostile: only gateways and
parameters of the lists below, no address inside our own network, no redirect, no proxy, no second attempt, and an end
after so many seconds, whatever the URL says or the gateway does.
"""

import io
import ipaddress
import os
import re
import socket
import struct
import sys
import threading
import time
import unicodedata
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

import apprise
import requests
import urllib3
from apprise.plugins import url_to_dict

from domain.settings import Settings, get_settings

_GENERAL = frozenset({"to", "from", "name", "user", "pass", "password", "port", "format"})
_MAIL = frozenset({"cc", "bcc", "reply", "region", "batch"})
_WEBHOOK = frozenset({"method"})
"""And headers, fields and parameters of the request: names that begin with +, : or -."""

_PARAMETERS: dict[str, frozenset[str]] = {
    # text messages
    **dict.fromkeys(
        ("burstsms", "46elks", "clickatell", "httpsms", "infobip", "msgbird", "seven", "telnyx", "voipms"),
        frozenset({"apikey", "key", "secret", "country"}),
    ),
    **dict.fromkeys(("bulksms", "bulkvs", "clicksend", "d7sms"), frozenset({"batch", "key", "source", "unicode"})),
    **dict.fromkeys(("nexmo", "vonage"), frozenset({"key", "secret", "ttl"})),
    "plivo": frozenset({"batch", "id", "token"}),
    "sinch": frozenset({"region", "spi", "token"}),
    "sns": frozenset({"access", "key", "region", "secret", "token"}),
    "twilio": frozenset({"apikey", "method", "sid", "token"}),
    # e-mail
    **dict.fromkeys(("mailto", "mailtos"), _MAIL | {"mode", "smtp"}),
    **dict.fromkeys(("brevo", "mailgun", "postmark", "sendgrid", "smtp2go", "sparkpost"), _MAIL),
    "resend": _MAIL | {"apikey"},
    "ses": _MAIL | {"access", "key", "secret", "token"},
    # chat and push
    "discord": frozenset({"avatar", "footer", "image", "ping", "thread", "tts"}),
    "gchat": frozenset({"key", "thread", "token", "workspace"}),
    **dict.fromkeys(("gotify", "gotifys"), frozenset({"priority"})),
    **dict.fromkeys(("mmost", "mmosts"), frozenset({"botname", "channel", "channels", "image", "mode", "team"})),
    **dict.fromkeys(("ntfy", "ntfys"), frozenset({"auth", "mode", "priority", "token", "xtags"})),
    "pbul": frozenset(),
    "pover": frozenset({"expire", "interval", "key", "priority", "sound"}),
    **dict.fromkeys(("rocket", "rockets"), frozenset({"avatar", "mode", "webhook"})),
    **dict.fromkeys(("signal", "signals"), frozenset({"batch", "status"})),
    "slack": frozenset({"blocks", "footer", "image", "mode", "timestamp", "token"}),
    "tgram": frozenset({"content", "image", "mdv", "preview", "silent", "thread", "topic"}),
    **dict.fromkeys(("webex", "wxteams"), frozenset({"mode", "token"})),
    "whatsapp": frozenset({"lang", "token"}),
    **dict.fromkeys(
        ("workflow", "workflows"),
        frozenset({"api-version", "id", "image", "pa", "powerautomate", "route", "routeid", "sig", "ver", "wrap"}),
    ),
    "zulip": frozenset({"token"}),
    # systems of the company's own
    **dict.fromkeys(("form", "forms", "json", "jsons", "xml", "xmls"), _WEBHOOK),
}
"""What a contact may say beside its address, for each kind of gateway that it may name. All speak HTTP or SMTP. Left
out are parameters that name a file or a template, follow redirects, trust any certificate, wait, repeat, or report
success after a failure."""

_OWN_HOST = re.compile(r"(form|json|xml|mailto|gotify|mmost|ntfy|rocket|signal|workflow)s?|workflows|infobip")
"""Kinds whose URL names the host that is called, unless it is their cloud; the others know theirs."""

_LIKE = "such as mailtos://user:password@host"
_WHERE = "is not on the public internet; FUELROUTE_MESSAGE_ALLOWED_HOSTS names the exceptions"

_ONE_URL = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]+")
_LOCAL_NAMES = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home.arpa")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

_MOST_BYTES = 1 << 20
"""Of what a gateway answers. It may answer without end, or pack much into little."""

_LOOK_SECONDS = 0.05
_BYTES_RECEIVED = struct.Struct("128xQ")  # of Linux's struct tcp_info

_RESET = struct.pack("ii", 1, 0)  # on closing, so that the peer ends too

_GRACE_SECONDS = 1
"""So much later a library gives up by itself: until then what was connected is known to have been."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AllowedHosts(NamedTuple):
    """The operator's own gateways: they may stand inside the network."""

    names: frozenset[str] = frozenset()
    networks: tuple[_Network, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> "AllowedHosts":
        names, networks = set(), []
        for entry in filter(None, map(str.strip, settings.message_allowed_hosts.split(","))):
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                names.add(entry.lower().rstrip("."))
        return cls(frozenset(names), tuple(networks))

    def have(self, host: str) -> bool:
        return host.lower().rstrip(".") in self.names

    def take(self, address: _Address) -> bool:
        """Whether a connection to this address may be made."""
        return any(address in network for network in self.networks) or _is_public(address)


class Fault(NamedTuple):
    """Why a message was not delivered, in one sentence without secrets. In doubt: it may have been all the same."""

    sentence: str
    in_doubt: bool = False


def fault_of(url: str, allowed: AllowedHosts | None = None) -> str | None:
    """Why a contact cannot be used, as the end of a sentence that names it; None when it can. No name is resolved."""
    try:
        _gateway(url, AllowedHosts.of(get_settings()) if allowed is None else allowed)
    except _Unusable as error:
        return str(error)
    return None


def hand_over(url: str, title: str, body: str, *, allowed: AllowedHosts, timeout_seconds: float) -> Fault | None:
    """One attempt to give a plain text to the gateway; None when it took it. Ends within the time, but for what the
    system's resolver takes."""
    try:
        gateway = _gateway(url, allowed)
    except _Unusable as error:
        return Fault(f"the contact {error}: correct the driver's contact or the company's message URL")
    gateway.socket_connect_timeout = gateway.socket_read_timeout = timeout_seconds + _GRACE_SECONDS
    gateway.redirects, gateway.verify_certificate, gateway.optional = False, True, False
    gateway.service_retry, gateway.service_wait = 0, 0.0
    gateway.throttle = lambda *_, **__: None  # it sleeps, at Discord as long as the answer before says
    messenger = apprise.Apprise(asset=gateway.asset)
    messenger.add(gateway)
    with _guarded(allowed, timeout_seconds) as guard:
        try:
            # as text: what a caller has put into a name is no markup
            if messenger.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT):
                return None
            reason = "the gateway did not accept the message"
        except Exception as error:  # a plugin's bug is the gateway's failure, not ours
            reason = f"the gateway failed: {type(error).__name__}"
    if guard.refused:
        return Fault(f"the gateway's address {_WHERE}")
    if guard.is_over:
        reason = f"the gateway did not answer within {timeout_seconds:g} s"
    return Fault(reason, in_doubt=guard.has_cut)


class _Unusable(Exception):
    """A contact that must not be used; the text ends a sentence that begins with what it is."""


def _gateway(url: str, allowed: AllowedHosts) -> Any:
    """The Apprise plugin of a contact. Raises _Unusable."""
    if not _ONE_URL.fullmatch(url) or url.count("://") > 1:
        raise _Unusable(f"is not exactly one URL that Apprise can use, {_LIKE}")
    parsed: dict[str, Any] | None = url_to_dict(url)  # type: ignore[no-untyped-call]  # Apprise's carries no types
    if parsed is None:
        raise _Unusable(f"is not a URL that Apprise can use, {_LIKE}")
    known = _PARAMETERS.get(parsed["schema"])
    if known is None:
        raise _Unusable("names a kind of gateway that is not allowed; the README lists those that are")
    if not all(name in _GENERAL | known or (known is _WEBHOOK and name[:1] in "+-:") for name in parsed["qsd"]):
        raise _Unusable(f"has a parameter that is not allowed with {parsed['schema']}://")
    gateway = apprise.Apprise.instantiate(parsed, asset=_asset())
    if gateway is None:
        raise _Unusable(f"is not a URL that Apprise can use, {_LIKE}")
    own_host = _OWN_HOST.fullmatch(parsed["schema"]) and getattr(gateway, "mode", None) != "cloud"
    if own_host and not _may_be_called(getattr(gateway, "smtp_host", None) or gateway.host or "", allowed):
        raise _Unusable(f"names a host that {_WHERE}")
    return gateway


@cache
def _asset() -> apprise.AppriseAsset:
    # no time limit of its own: it would hand over in a small pool of threads that all share
    return apprise.AppriseAsset(
        app_id="Fuelroute", http_redirects=False, allow_templates=False, service_timeout=0, storage_mode="memory"
    )


def _may_be_called(host: str, allowed: AllowedHosts) -> bool:
    """What can be told of a host without resolving it. It may be written in any way that a resolver understands."""
    name = unicodedata.normalize("NFKC", host).strip("[]").rstrip(".").lower()
    if allowed.have(name):
        return True
    if (address := _literal(name)) is not None:
        return allowed.take(address)
    return "." in name and not any(name == local or name.endswith(f".{local}") for local in _LOCAL_NAMES)


def _literal(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))  # 127.1, 0x7f000001, 2130706433, 0177.0.0.1
    except (OSError, ValueError):
        return None


def _is_public(address: _Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_public(inner)
        if address.is_site_local or address.teredo is not None:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


class _Guard:
    """Watches what one hand-over does, at the one place that every library has to pass: the interpreter's own report
    of each connection, before it is made and with the address that the name was resolved to.
    """

    def __init__(self, allowed: AllowedHosts, timeout_seconds: float) -> None:
        self.refused = self._cut = False
        self._done = threading.Event()
        self._allowed = allowed
        self._ends_at = time.monotonic() + timeout_seconds
        self._name = ""
        self._connections: list[socket.socket] = []
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._ends_at

    @property
    def has_cut(self) -> bool:
        """Whether something was open when the time was over: the gateway may have what it was sent."""
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
        known = _literal(str(address[0])) if isinstance(address, tuple) else None
        if known is None or not (self._allowed.have(self._name) or self._allowed.take(known)):
            self.refused = True
            raise PermissionError("not an address for gateways")
        with self._lock:
            left = self._ends_at - time.monotonic()
            if left <= 0:
                raise TimeoutError("too late for another connection")
            connection.settimeout(left + _GRACE_SECONDS)
            self._connections.append(connection.dup())  # the library may wrap or replace its own

    def look_after_connections(self) -> None:
        """Ends what is open when the time is over, or too much has come: a gateway that trickles bytes outlives every
        time-out between two of them."""
        while not self._done.wait(max(0, min(_LOOK_SECONDS, self._ends_at - time.monotonic()))):
            with self._lock:
                for connection in self._connections:
                    if self.is_over or _bytes_received(connection) > _MOST_BYTES * 4:
                        self._cut_off(connection)
            if self.is_over:
                return

    def _cut_off(self, connection: socket.socket) -> None:
        with suppress(OSError):  # it never came to be, or is gone
            connection.shutdown(socket.SHUT_RDWR)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._cut = True

    def close(self) -> None:
        self._done.set()
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()


def _bytes_received(connection: socket.socket) -> int:
    """0 where the system does not tell."""
    if sys.platform != "linux":
        return 0
    with suppress(OSError):
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
        if len(info) == _BYTES_RECEIVED.size:
            return int(_BYTES_RECEIVED.unpack(info)[0])
    return 0


class _Session(requests.Session):
    """What Apprise's plugins call by: nothing of our environment (a proxy, which resolves names itself, or passwords of
    a .netrc), no redirect, and a bound on what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        options |= {"allow_redirects": False, "stream": True, "verify": os.environ.get("REQUESTS_CA_BUNDLE") or True}
        response = super().send(request, **options)
        with closing(response.raw) as raw:
            try:
                response.raw = io.BytesIO(raw.read(_MOST_BYTES, decode_content=True))
            except urllib3.exceptions.HTTPError as error:
                raise requests.ConnectionError(error) from None
        return response


_WATCHED = frozenset(
    {"socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.sendmsg", "subprocess.Popen", "os.system"}
    | {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn"}
)
_current: ContextVar[_Guard | None] = ContextVar("current", default=None)


@cache
def _watch_this_process() -> None:
    """From here on, and for good, the interpreter reports to the guard of whoever hands over at that moment."""
    requests.sessions.Session = _Session  # type: ignore[misc]  # nothing else here uses it
    sys.addaudithook(_report)


def _report(event: str, arguments: tuple[Any, ...]) -> None:
    if event in _WATCHED and (guard := _current.get()) is not None:
        guard.watch(event, arguments)


@contextmanager
def _guarded(allowed: AllowedHosts, timeout_seconds: float) -> Iterator[_Guard]:
    _watch_this_process()
    guard = _Guard(allowed, timeout_seconds)
    token = _current.set(guard)
    threading.Thread(target=guard.look_after_connections, daemon=True).start()
    try:
        yield guard
    finally:
        _current.reset(token)
        guard.close()
