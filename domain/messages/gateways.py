"""Message gateways: a hand-over that leaves nothing to the contact.

A contact is an Apprise URL that drivers and companies bring, so that it is treated as hostile: only what
`accounts/contacts.py` allows, no address inside our own network, no redirect, no proxy, no second attempt, and an end
after so many seconds, whatever the URL says or the gateway does.
"""

import io
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

import apprise
import requests
import urllib3

from domain.accounts.contacts import NOT_PUBLIC, AllowedHosts, UnusableContact, gateway_of, literal_address

_MAX_BYTES = 1 << 20
"""Of what a gateway answers. It may answer without end, or pack much into little."""

_LOOK_SECONDS = 0.05
_BYTES_RECEIVED = struct.Struct("128xQ")  # of Linux's struct tcp_info

_RESET = struct.pack("ii", 1, 0)  # on closing, so that the peer ends too

_GRACE_SECONDS = 1
"""So much later a library gives up by itself: until then what was connected is known to have been."""


class Fault(NamedTuple):
    """Why a message was not delivered, in one sentence without secrets. In doubt: it may have been all the same."""

    sentence: str
    in_doubt: bool = False


def hand_over(url: str, title: str, body: str, *, allowed: AllowedHosts, timeout_seconds: float) -> Fault | None:
    """One attempt to give a plain text to the gateway; None when it took it. Ends within the time, but for what the
    system's resolver takes."""
    try:
        gateway = gateway_of(url, allowed)
    except UnusableContact as error:
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
        return Fault(f"the gateway's address {NOT_PUBLIC}")
    if guard.is_over:
        reason = f"the gateway did not answer within {timeout_seconds:g} s"
    return Fault(reason, in_doubt=guard.has_cut)


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
        known = literal_address(str(address[0])) if isinstance(address, tuple) else None
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
                    if self.is_over or _bytes_received(connection) > _MAX_BYTES * 4:
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
                response.raw = io.BytesIO(raw.read(_MAX_BYTES, decode_content=True))
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
