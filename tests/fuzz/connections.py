"""The part `bytes`: our connections beside uvicorn's, and the same bytes to a running ingress."""

import contextlib
import socket
import time
from urllib.parse import urlsplit

from hypothesis import strategies as st

from tests.fuzz.clients import Keys
from tests.fuzz.differences import compare
from tests.fuzz.engine import HANG_SECONDS, Fault, Part
from tests.fuzz.http_bytes import Sent, connections
from tests.fuzz.wire import Both, read_answers

_PATHS = (b"/read", b"/late", b"/parts", b"/deaf", b"/none", b"/broken")
_API = (b"/v1/routes", b"/v1/me", b"/telematics/positions", b"/healthz", b"/v1/vehicles", b"/v1/routes/x")
_CONSOLE = (b"/sign-in", b"/keys", b"/vehicles/import", b"/healthz", b"/static/console.css", b"/set-password/x")
_SILENCE_SECONDS = 0.05


class Bytes(Part):
    """Each case goes to both connections; a quarter of them also to a running ingress or console."""

    name = "bytes"

    def __init__(self, both: Both, keys: Keys | None = None, console_url: str = "") -> None:
        super().__init__()
        self._both, self._keys, self._console_url = both, keys, console_url

    def cases(self) -> st.SearchStrategy[Sent]:
        return connections()

    def check(self, case: Sent) -> None:
        found = compare(self._both, case.segments, half_close=case.half_close)
        if found.unexplained:
            raise Fault(found.unexplained)
        for reason in found.reasons or ("equal",):
            self.counts[reason] += 1
        if self._keys is not None and len(case.data) % 8 == 0:
            key = self._keys.next(count=20)
            header = b"Host: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n" % key.encode()
            self._send(self._keys.url, _with_paths(case.data, _API).replace(b"Host: x\r\n", header))
        elif self._console_url and len(case.data) % 8 == 1:
            header = b"Host: x\r\nContent-Type: application/x-www-form-urlencoded\r\nCookie: fuelroute=%s\r\n" % (
                b"a" * 43
            )
            self._send(self._console_url, _with_paths(case.data, _CONSOLE).replace(b"Host: x\r\n", header))

    def _send(self, url: str, data: bytes) -> None:
        """Send the bytes to a running process. Raises Fault."""
        self.counts["sent to a running process"] += 1
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), timeout=HANG_SECONDS) as connection:
            answers, fault = read_answers(_exchange(connection, data))
        failed = [answer for answer in answers if answer.status >= 500]
        if failed:
            raise Fault(f"{url} answered {failed[0]} to {data!r}")
        if fault and "breaks off" not in fault:  # our half is closed while an answer is under way
            raise Fault(f"{url} {fault}, to {data!r}")


def _with_paths(data: bytes, paths: tuple[bytes, ...]) -> bytes:
    for ours, real in zip(_PATHS, paths, strict=True):
        data = data.replace(ours, real)
    return data


def _exchange(connection: socket.socket, data: bytes) -> bytes:
    """Send the bytes, wait for silence, close our half, and read until the other is closed. Raises Fault when it
    does not."""
    with contextlib.suppress(OSError):  # it has closed already
        connection.sendall(data)
    received, due = b"", time.monotonic() + HANG_SECONDS
    connection.settimeout(_SILENCE_SECONDS)
    is_half_closed = False
    while time.monotonic() < due:
        try:
            part = connection.recv(1 << 16)
        except TimeoutError:
            if not is_half_closed:
                is_half_closed = True
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
            continue
        except OSError:
            return received
        if not part:
            return received
        received += part
    raise Fault(f"the connection was not closed in {HANG_SECONDS:g} s after {data!r}")
