"""The part that all fake vendors share: a real HTTP server, the fixes of its trucks, and faults on demand.

Each vendor's own file says where its paths and fields were found."""

import json
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"

Fault = Literal["error", "limit", "hang", "cut", "not json", "forbidden"]
"""error: 500. limit: what the vendor says to callers in a hurry. hang: no answer until the server stops. cut: half an
answer. not json: a page of HTML with status 200. forbidden: credentials that were revoked."""

HURRY_SECONDS = 1
"""The vendor's Retry-After."""


class Request(NamedTuple):
    """One request as it came; names of headers are in lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body or b"null")


class Answer(NamedTuple):
    document: Any
    status: int = 200
    headers: Mapping[str, str] = {}


class Fix(NamedTuple):
    """One position of a truck; `number` counts all fixes of the vendor, from 1."""

    number: int
    unit_number: str
    at: datetime
    latitude: float
    longitude: float
    speed_mph: float | None
    fuel_percent: float | None


@dataclass
class Vendor(ABC):
    """A vendor that is running. `report` moves its trucks; `fail` spoils its next answers, in this order."""

    url: str = ""
    token: str = "vendor-token-of-the-test"
    page_size: int = 100
    fixes: list[Fix] = field(default_factory=list)
    vins: dict[str, str] = field(default_factory=dict)
    """Vehicle identification numbers by unit number, where the vendor knows them."""
    requests: list[Request] = field(default_factory=list)
    revoked: bool = False
    faults: deque[Fault] = field(default_factory=deque)
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @abstractmethod
    def answer(self, request: Request) -> Answer:
        """Answers a request that no fault struck. The caller holds the lock."""

    @abstractmethod
    def may_enter(self, request: Request) -> bool:
        """Tell whether the request carries the right credentials."""

    def too_fast(self) -> Answer:
        return Answer({"message": "rate limit exceeded"}, 429, {"Retry-After": str(HURRY_SECONDS)})

    def no_entry(self) -> Answer:
        return Answer({"message": "unauthorized"}, 401)

    def report(
        self,
        unit_number: str,
        latitude: float,
        longitude: float,
        at: datetime | None = None,
        *,
        speed_mph: float | None = 0.0,
        fuel_percent: float | None = 60.0,
    ) -> Fix:
        """A truck's tracker reports to the vendor."""
        with self.lock:
            at = at or datetime.now(UTC)
            fix = Fix(len(self.fixes) + 1, unit_number, at, latitude, longitude, speed_mph, fuel_percent)
            self.fixes.append(fix)
            return fix

    def fail(self, *faults: Fault) -> None:
        with self.lock:
            self.faults.extend(faults)

    def newest(self) -> list[Fix]:
        """The newest fix of each truck, by its time."""
        with self.lock:
            found: dict[str, Fix] = {}
            for fix in self.fixes:
                if fix.unit_number not in found or fix.at >= found[fix.unit_number].at:
                    found[fix.unit_number] = fix
            return [found[name] for name in sorted(found)]

    def vehicle_number(self, unit_number: str) -> int:
        """The vendor's own id of a truck, which never changes."""
        with self.lock:
            return 1000 + list(dict.fromkeys(fix.unit_number for fix in self.fixes)).index(unit_number)


def in_zulu(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


V = TypeVar("V", bound=Vendor)


@contextmanager
def running(vendor: V) -> Iterator[V]:
    """Runs a vendor's server, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = urlsplit(self.path)
            query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, parts.path, query, headers, body)
            with vendor.lock:
                vendor.requests.append(request)
                fault = vendor.faults.popleft() if vendor.faults else None
                answer = self.answer_to(request, fault)
            if fault == "hang":
                vendor.closing.wait(60)
                self.close_connection = True
                return
            with suppress(OSError):  # the caller has gone
                self.send(answer, fault)

        do_POST = do_GET

        def answer_to(self, request: Request, fault: Fault | None) -> Answer:
            if fault == "error":
                return Answer({"message": "internal error"}, 500)
            if fault == "limit":
                return vendor.too_fast()
            if fault == "forbidden" or vendor.revoked or not vendor.may_enter(request):
                return vendor.no_entry()
            return vendor.answer(request)

        def send(self, answer: Answer, fault: Fault | None) -> None:
            body = json.dumps(answer.document).encode()
            if fault == "not json":
                body = b"<html><body>We will be back soon</body></html>"
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if fault == "cut":
                body = body[: len(body) // 2]
                self.close_connection = True
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        vendor.url = f"http://{HOST}:{server.server_port}"
        try:
            yield vendor
        finally:
            vendor.closing.set()
            server.shutdown()
            thread.join()
