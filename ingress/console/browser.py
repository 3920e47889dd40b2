"""Requests of browsers: forms, files, cookies, and the site they come from. Bad input is refused here, and never fails
later."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, TypeVar
from urllib.parse import parse_qsl, unquote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response

from ingress.console.transfers import Transfer
from ingress.http.connection_limits import address_of

MAX_FORM_BYTES = 64 << 10
_MAX_FIELDS = 200
MAX_FILE_BYTES = 32 << 20
"""Largest file; 100,000 stations take about 12 MB."""
_PORTION_BYTES = 1 << 20

Choice = TypeVar("Choice", bound=str)


class BadForm(Exception):
    """A form that no page of ours sends; the text says why."""


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form, or of an address: each is a text that PostgreSQL can store."""

    values: Mapping[str, list[str]] = field(default_factory=dict)

    def text(self, name: str, *, most: int = 200) -> str:
        """The value without spaces around it; empty if there is none. Raises BadForm if it is too long."""
        value = self.values.get(name, [""])[-1].strip()
        if len(value) > most:
            raise BadForm(f"{name} is too long: {most} characters are the limit")
        return value

    def secret(self, name: str) -> str:
        """The value exactly as typed."""
        return self.values.get(name, [""])[-1]

    def packed(self, name: str) -> str:
        """A text that a template wrote with the filter `pack`, because browsers change the line ends of other texts."""
        return unquote(self.values.get(name, [""])[-1]).replace("\x00", "")

    def number(self, name: str, *, otherwise: int = 0, most: int = 1_000_000) -> int:
        """The value as a number from 0 to `most`. A text that is no number counts as `otherwise`."""
        value = self.values.get(name, [""])[-1]
        return min(int(value[:9]), most) if value.isascii() and value.isdecimal() else otherwise

    def choice(self, name: str, choices: Iterable[Choice]) -> Choice | None:
        """The one of `choices` that the value names; None: none of them."""
        value = self.text(name)
        return next((one for one in choices if one == value), None)

    def all(self, name: str) -> list[str]:
        return [value for value in self.values.get(name, ()) if value]


def _form_of(text: str) -> Form:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise BadForm("the form has too many fields") from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value.replace("\x00", ""))
    return Form(values)


class TooLarge(Exception):
    """A body is larger than its limit."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"{most_bytes >> 20} MB are the limit: send it in several parts")


class TooSlow(Exception):
    """A body did not arrive, or an answer was not read, in time."""


MIN_BYTES_PER_SECOND = 32 << 10
"""Lowest rate at which bodies may arrive and answers be read: a quarter of a megabit."""


def due_after(size: int, began: float, patience_seconds: float) -> float:
    """When the next bytes of a body must have come, if `size` bytes have passed since it `began`."""
    return began + patience_seconds + size / MIN_BYTES_PER_SECOND


def declared_bytes(request: Request, most: int) -> int:
    """The size that the body declares, or `most` if it declares none. Raises TooLarge if it is more than `most`."""
    length = request.headers.get("content-length", "")
    is_number = length.isascii() and length.isdecimal()
    declared = int(length.lstrip("0") or "0") if is_number else most  # Python reads no more than 4,300 digits
    if declared > most:
        raise TooLarge(most)
    return declared


async def _body(request: Request, most: int, patience_seconds: float) -> AsyncIterator[bytes]:
    """The chunks of the body as they arrive. Raises TooLarge and TooSlow beyond the limits, and
    starlette.requests.ClientDisconnect when the browser has gone."""
    size, began = 0, asyncio.get_running_loop().time()
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout_at(due_after(size, began, patience_seconds)):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise TooSlow from None
        if chunk is None:
            return
        size += len(chunk)
        if size > most:
            raise TooLarge(most)
        yield chunk


async def read_form(request: Request, patience_seconds: float) -> Form:
    """Read the body as a form. Raises BadForm if it is none, TooLarge and TooSlow beyond the limits, and
    starlette.requests.ClientDisconnect when the browser has gone."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise BadForm("a form is sent as application/x-www-form-urlencoded")
    body = bytearray()
    async for chunk in _body(request, MAX_FORM_BYTES, patience_seconds):
        body += chunk
    return _form_of(body.decode("ascii", errors="replace"))


def require_file(request: Request) -> None:
    """Check the head of an upload before its body is read. Raises BadForm or TooLarge if it cannot be accepted."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "text/csv":
        raise BadForm("a file is sent as text/csv: choose it on the page, in a browser that runs scripts")
    declared_bytes(request, MAX_FILE_BYTES)


async def read_file(request: Request, file: IO[bytes], transfer: Transfer, patience_seconds: float) -> None:
    """Write the body of the request into the file. Raises TooLarge and TooSlow beyond the limits, and
    starlette.requests.ClientDisconnect when the browser has gone."""
    portion = bytearray()
    async for chunk in _body(request, MAX_FILE_BYTES, patience_seconds):
        portion += chunk
        transfer.passed_bytes += len(chunk)
        if len(portion) >= _PORTION_BYTES:
            await run_in_threadpool(file.write, bytes(portion))
            portion.clear()
    await run_in_threadpool(file.write, bytes(portion))


def read_query(request: Request) -> Form:
    """Read the query of the address as a form. Raises BadForm if it holds what no page of ours sends."""
    return _form_of(request.scope["query_string"].decode("ascii", errors="replace"))


FORM_HEADER = "X-Form-Token"
"""The header with the form's token for a body that is a file, and for a part that updates itself."""


def sent_form_token(request: Request, form: Form) -> str:
    return form.text("form_token") or request.headers.get(FORM_HEADER, "")


def is_from_our_pages(request: Request) -> bool:
    """False if the browser says that another site sent the request. A browser that says nothing must show the form's
    token."""
    return request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


LONGEST_NEXT = 1_000
"""Most characters of the address to which signing in leads."""


def own_path(path: str) -> str:
    """The path, if it leads to a page of ours; otherwise the first page. Signing in never leads to another site."""
    is_own = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if is_own else "/"


def network_of_client(request: Request) -> str:
    """The client's IPv4 address, or its /64 of IPv6."""
    return address_of(request.client.host) if request.client is not None else "unknown"


# --- Cookies -----------------------------------------------------------------------------------------------------

SESSION = "fuelroute"
DEVICE = "fuelroute-device"
OPENID = "fuelroute-openid"
"""The cookie for an attempt to sign in at the provider, until the browser is back."""


def _cookie_name(request: Request, name: str) -> str:
    """The cookie's name. Behind TLS it has the prefix that keeps other hosts of the domain from setting it."""
    return f"__Host-{name}" if request.url.scheme == "https" else name


def read_cookie(request: Request, name: str, *, most: int = 100) -> str | None:
    value = request.cookies.get(_cookie_name(request, name), "")
    return value if 20 <= len(value) <= most else None


def set_cookie(request: Request, response: Response, name: str, value: str, *, seconds: int | None = None) -> None:
    """Set a cookie that scripts cannot read, and that requests from other sites do not carry, except when a person
    follows a link. Without `seconds` the cookie ends with the browser."""
    response.set_cookie(
        _cookie_name(request, name),
        value,
        max_age=seconds,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )


def remove_cookie(request: Request, response: Response, name: str) -> None:
    response.delete_cookie(
        _cookie_name(request, name), httponly=True, samesite="lax", secure=request.url.scheme == "https"
    )


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def protect(headers: MutableHeaders, *, is_https: bool) -> None:
    """Set the headers of every answer: no inline code runs, nothing is loaded from elsewhere, pages are not kept. The
    policy of a page with a map stays as it is."""
    for name, value in _HEADERS.items():
        headers[name] = value
    headers.setdefault("Content-Security-Policy", POLICY)
    if is_https:
        headers["Strict-Transport-Security"] = "max-age=31536000"
    headers.setdefault("Cache-Control", "no-store")
