"""The part `console`: every form that a page of the console shows, with other values than people type."""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import quote, quote_from_bytes, urlsplit

import httpx
from hypothesis import strategies as st

from domain.ids import new_id
from domain.lifecycle import Environment, Role
from tests.browser.pages import PAGES, Site
from tests.factories import JOLIET, NEWARK, route_body
from tests.fuzz.csv_files import cells
from tests.fuzz.engine import HANG_SECONDS, Fault, Part
from tests.fuzz.stack import Stack
from tests.ingress.console.conftest import Browser

_ROLES = (Role.OPERATOR, Role.OWNER, Role.DISPATCHER, Role.VIEWER, None)
_DRAWN_ROLES = (*_ROLES[:3] * 3, *_ROLES)
"""Roles with many forms come more often."""
_MOST_QUERY = 30_000
"""Characters of a query: a longer head is refused, as the part `bytes` shows."""
_OF_A_KIND = 3
"""Pages of one kind, such as of one route each, that are read for their forms."""


class Form(NamedTuple):
    """A form of a page: its fields with the values that they have there."""

    method: str
    action: str
    fields: tuple[tuple[str, str], ...]


class Sent(NamedTuple):
    """One form as it is sent. `form` counts the forms that the role sees."""

    role: Role | None
    form: int
    changes: list[tuple[int, bytes | None]]
    token: str = "right"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    is_part: bool = False


_texts = cells.map(lambda text: text.encode("utf-8", "surrogatepass"))
_moments = [b"2026-11-23T10:00", b"9999-12-31T23:59", b"0001-01-01T00:00", b"2026-11-23", b"9999-12-31",
    b"0001-01-01", b"2026Q4", b"0000Q1", b"9999Q4"]  # fmt: skip
_values = (
    _texts
    | st.binary(max_size=6)
    | st.sampled_from(_moments)
    | st.sampled_from([b"9" * 400, b"-1", b"2147483648", b"9223372036854775808", b"true", b"on", b"live", b"sandbox",
        b"//evil.example", b"/\\evil", b"a@b.c", b"\xff"])
    | st.sampled_from([f"{kind}_01a206c6d27c77fbae25be22beccfe75".encode() for kind in ("veh", "drv", "rte", "key")])
)  # fmt: skip
_headers = st.sampled_from([
    *[()] * 12,
    (("Host", "["),), (("Host", "a b"),), (("X-Forwarded-For", "[::1, \xe9"),), (("X-Forwarded-Proto", "[x"),),
    (("X-Forwarded-Proto", "https"),),
    (("Cookie", 'fuelroute="\\400"'),), (("Cookie", "=;;fuelroute"),), (("Sec-Fetch-Site", "cross-site"),),
    (("HX-Request", "\xff"),),
    (("Accept-Language", "x" * 8000),), (("Content-Type", "multipart/form-data"),), (("Content-Type", "text/csv"),),
    (("If-None-Match", "*"),),
    (("Last-Event-ID", "\xff"),),
])  # fmt: skip
_bodies = st.sampled_from([b"", b"&&&", b"=", b"a" * 70_000, b"&".join([b"a=1"] * 201), b"%", b"%zz=%00", b"\xff\xfe",
    b"form_token"]) | st.binary(max_size=30)  # fmt: skip


@st.composite
def sent_forms(draw: st.DrawFn) -> Sent:
    return Sent(
        draw(st.sampled_from(_DRAWN_ROLES)),
        draw(st.integers(0, 999)),
        draw(st.lists(st.tuples(st.integers(0, 30), st.none() | _values), max_size=4)),
        draw(st.sampled_from(["right"] * 6 + ["wrong", "none"])),
        draw(_headers),
        draw(_bodies) if draw(st.integers(0, 12)) == 0 else None,
        draw(st.booleans()),
    )


class _Reader(HTMLParser):
    """Reads the forms and links of a page."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._open: tuple[str, str, list[tuple[str, str]]] | None = None
        self.forms: list[Form] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if tag == "a" and given.get("href", "").startswith(("/", "?")):
            href = given["href"]
            self.links.append(href if href.startswith("/") else self._path + href)
        elif tag == "form":
            get = given.get("hx-get")
            self._open = (
                "GET" if get else given.get("method", "get").upper(),
                get or given.get("action", self._path),
                [],
            )
        elif tag in ("input", "select", "textarea", "button") and self._open is not None and given.get("name"):
            self._open[2].append((given["name"], given.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form" and self._open is not None:
            method, action, fields = self._open
            self.forms.append(Form(method, action, tuple(fields)))
            self._open = None


class Forms(Part):
    """Sends the forms of a company that has a bit of everything, as each role."""

    name = "console"

    def __init__(self, stack: Stack, *, most_pages: int = 120) -> None:
        """`most_pages` of each role are read for their forms."""
        super().__init__()
        self._most_pages = most_pages
        self._world = stack.console
        self._fleet = _furnished(stack)
        self._browsers = {role: self._browser(role) for role in _ROLES}
        self._forms: dict[Role | None, list[list[Form]]] = {}
        """The forms of each role, those with one address together."""
        self._read_forms()

    def cases(self) -> st.SearchStrategy[Sent]:
        return sent_forms()

    def tidy_up(self) -> None:
        for queue in ("imports", "arrivals", "plans", "messages"):  # somebody may have paused it
            operator = self._browsers[Role.OPERATOR] = self._browser(Role.OPERATOR)
            operator.submit("/queues/resume", queue=queue, reason="fuzz")
        self._read_forms()

    def check(self, case: Sent) -> None:
        addresses = self._forms[case.role]
        number, address = divmod(case.form, len(addresses))
        form = addresses[address][number % len(addresses[address])]
        browser = self._browsers[case.role]
        fields: list[tuple[str, str | bytes | None]] = list(form.fields)
        for at, value in case.changes:
            if fields:
                name = fields[at % len(fields)][0]
                fields[at % len(fields)] = (name, value)
        if case.role is None:
            browser.look("/sign-in")
        token = {"right": browser.token, "wrong": "0" * 64, "none": None}[case.token]
        pairs = [(name, token if name == "form_token" else value) for name, value in fields]
        text = "&".join(f"{quote(name)}={_quoted(value)}" for name, value in pairs if value is not None)
        answer = self._send(browser, case, form, text, token)
        if case.role is not None and "set-cookie" in answer.headers:  # the session has ended
            self._browsers[case.role] = self._browser(case.role)

    def _send(self, browser: Browser, case: Sent, form: Form, text: str, token: str | None) -> httpx.Response:
        headers = {"HX-Request": "true"} if case.is_part else {}
        if form.action.endswith("/import"):
            headers |= {"Content-Type": "text/csv", "X-Form-Token": token or ""}
        elif form.method == "POST":
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        request: dict[str, Any] = {
            "headers": [(k.encode(), v.encode("latin-1")) for k, v in (headers | dict(case.headers)).items()]
        }
        if form.method == "POST":
            request["content"] = text.encode() if case.body is None else case.body
            address = form.action
        else:
            address = f"{urlsplit(form.action).path}?{text[:_MOST_QUERY]}"
        what = f"{form.method} {address} as {case.role} {request}"
        try:
            answer = browser.request(form.method, address, timeout=HANG_SECONDS, **request)
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise Fault(f"{error!r} for {what}"[:3000]) from error
        self.counts[f"{form.method} {answer.status_code}"] += 1
        if answer.status_code >= 500:
            raise Fault(f"{answer.status_code} for {what}"[:3000])
        is_done = answer.status_code < 400 and not answer.headers.get("location", "").startswith("/sign-in")
        if form.method == "POST" and case.token != "right" and is_done:
            raise Fault(f"{answer.status_code} without the right token for {what}"[:3000])
        return answer

    def _browser(self, role: Role | None) -> Browser:
        browser = self._world.browser(role, self._fleet) if role is not None else self._world.browser()
        if role is None:
            browser.look("/sign-in")
        return browser

    def _read_forms(self) -> None:
        for role, browser in self._browsers.items():
            if role is None:
                paths = [
                    "/sign-in",
                    Site(self._world.url, self._world.database, self._fleet.company_id).password_link(),
                ]
            else:
                paths = [page.address for page in PAGES if "{" not in page.address and page.role is not None]
                paths += ["/matching/vehicles", "/matching/drivers", "/mappings/vehicles", "/mappings/drivers"]
            by_address: dict[str, list[Form]] = {}
            for form in self._forms_from(browser, paths):
                by_address.setdefault(_kind_of(form.action), []).append(form)
            self._forms[role] = list(by_address.values())
        self.counts["addresses of forms"] = sum(map(len, self._forms.values()))

    def _forms_from(self, browser: Browser, paths: list[str]) -> list[Form]:
        """The forms of the pages, and of the pages that they lead to."""
        forms: dict[Form, None] = {}
        seen: Counter[str] = Counter()
        while paths and seen.total() < self._most_pages:
            path = paths.pop(0)
            kind = _kind_of(path)
            if seen[kind] >= (_OF_A_KIND if kind != path else 1) or urlsplit(path).path.endswith((".csv", "/stream")):
                continue
            seen[kind] += 1
            answer = browser.get(path, follow_redirects=True)
            if answer.status_code == 200:
                reader = _Reader(urlsplit(path).path)
                reader.feed(answer.text)
                forms.update(dict.fromkeys(reader.forms))
                paths += [link for link in reader.links if len(link) < 300]
        return list(forms)


def _kind_of(path: str) -> str:
    """The address without the ids in it."""
    return re.sub(r"[0-9a-f]{16,}", "ID", path)


def _quoted(value: str | bytes) -> str:
    return quote_from_bytes(value) if isinstance(value, bytes) else quote(value, errors="surrogatepass")


def _furnished(stack: Stack) -> Any:
    """A company with routes that are held, planned and sent, and a record of each kind."""
    with stack.service.new_tenant(Environment.SANDBOX) as client:
        start = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
        client.push(route_body(start, externalId="HELD-1", vehicle={"unitNumber": "TRUCK-9"}))
        client.push(route_body(start, externalId="HELD-2", driver={"name": "Nobody"}))
        client.push(route_body(start + timedelta(days=30), externalId="HELD-3"))
        client.push(
            route_body(start, externalId="SENT", stops=[JOLIET, {**JOLIET, "name": "Near", "latitude": 41.5}, NEWARK])
        )
        client.push(route_body(start, externalId="DRAFT", vehicle={"unitNumber": "102"}, driver={"name": "Bo Diaz"}))
        client.push({"externalId": "BAD"})
        client.post_fixes(JOLIET)
        operator = stack.console.browser(Role.OPERATOR, client.fleet)
        for path, fields in (
            (
                "/stations/new",
                {
                    "station_id": new_id().hex,
                    "name": "Stop",
                    "latitude": "41.5",
                    "longitude": "-88.0",
                    "retail_price": "3.5",
                },
            ),
            ("/deals/new", {"brand": "Pilot", "discount_per_gallon": "0.3"}),
            ("/taxes/new", {"state": "IL", "rate_per_gallon": "0.4", "valid_from": "2026-01-01"}),
            ("/keys", {"name": "TMS", "environment": "sandbox", "scope": "routes:read"}),
        ):
            sent: dict[str, Any] = fields
            assert operator.submit(path, **sent).status_code in (200, 303, 409), path  # 409: another part has made it
        return client.fleet
