"""A request as its endpoint gets it, and its answer. The head is read once."""

import asyncio
import re
from collections.abc import Awaitable, Callable

from msgspec import Struct
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope
from uuid_utils import uuid7

from domain.accounts.keys import PresentedKey
from domain.contract.shapes import MAX_BODY_BYTES, FieldFault
from domain.telemetry.tracing import Trace, read_traceparent
from ingress.api.access import AuthResult, Credentials
from ingress.api.rate_limits import Counted
from ingress.http.problems import ApiError
from ingress.http.uvicorn_protocol import BODY

REQUEST = "fuelroute.request"
"""The key of a request's scope under which the `Request` is kept."""

JSON = b"application/json"

_BEARER = re.compile(r"bearer +(\S+) *", re.IGNORECASE)
_REQUEST_ID = re.compile(r"(?!.*svc_(?:live|test)_)[A-Za-z0-9._-]{1,128}")
"""The form of an id that is used. An id with a key in it is not used, because ids are shown and passed on."""


class Request:
    """One request. If a header comes several times, the first one counts; two `Authorization` are malformed."""

    __slots__ = (
        "_content_length",
        "_content_type",
        "_receive",
        "auth_result",
        "credentials",
        "id",
        "if_none_match",
        "is_magic_error",
        "own_id",
        "received",
        "scope",
        "trace",
    )

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self._receive = receive
        self._content_type, self._content_length = JSON, b""
        self.own_id = uuid7().hex
        """The id that the service gave; ids sort by time."""
        self.id = self.own_id
        """The caller's id, or the service's own."""
        self.received = b""
        """The body, once it has arrived."""
        self.if_none_match: bytes | None = None
        self.credentials: Credentials | None = None
        """The key of the request; None if there is none, or it is malformed."""
        self.auth_result: AuthResult | None = None
        """The result of the key's check; None before it is checked."""
        self.is_magic_error = False
        """True if a push to the sandbox asked for the error that it gets."""
        bearer: bytes | None = None
        traceparents: list[bytes] = []
        for name, value in reversed(scope["headers"]):
            if name == b"authorization":
                bearer = value if bearer is None else b""
            elif name == b"content-type":
                self._content_type = value
            elif name == b"content-length":
                self._content_length = value
            elif name == b"x-request-id":
                given = value.decode("latin-1")
                if _REQUEST_ID.fullmatch(given):
                    self.id = given
            elif name == b"if-none-match":
                self.if_none_match = value if self.if_none_match is None else value + b"," + self.if_none_match
            elif name == b"traceparent":
                traceparents.append(value)
        if bearer is not None:
            self.credentials = _credentials(scope["path"], bearer)
        traceparent = read_traceparent(traceparents[0].decode("latin-1")) if len(traceparents) == 1 else None
        self.trace = Trace(self.id, traceparent)
        """The id, and the trace context of the request: one at most, as the standard asks."""

    @property
    def path_id(self) -> str:
        """The `{id}` of its path."""
        path_id: str = self.scope["path_params"]["id"]
        return path_id

    def knows(self, etag: bytes) -> bool:
        """True when its If-None-Match names the tag. The comparison is weak, as in RFC 9110: a proxy that compresses
        answers makes their tags weak."""
        tags = [tag.strip().removeprefix(b"W/") for tag in (self.if_none_match or b"").split(b",")]
        return etag in tags or b"*" in tags

    def max_body_bytes(self) -> int:
        """The largest JSON body that the request may have. Raises ApiError: 415 for another media type, 413 if the
        announced body is too large."""
        if self._content_type != JSON:
            media_type = self._content_type.decode("latin-1").partition(";")[0].strip().lower()
            if media_type != "application/json" and not media_type.endswith("+json"):
                raise ApiError("unsupported_media_type", f"Send `Content-Type: application/json`, not `{media_type}`.")
        if not self._content_length.isdigit():
            return MAX_BODY_BYTES
        length = int(self._content_length.lstrip(b"0") or b"0")  # Python reads no more than 4,300 digits
        if length > MAX_BODY_BYTES:
            raise _too_large()
        return length

    async def body(self, timeout_seconds: float, room: Callable[[int], Awaitable[None]] | None = None) -> bytes:
        """The whole body. `room` is called with the number of bytes that have arrived, and returns when they may stay.
        Raises ApiError: 413 for a body that is too large, 400 for one that comes too slowly, because others wait for
        its place."""
        body: bytes | None = self.scope.get(BODY)
        if body is not None and len(body) <= MAX_BODY_BYTES and room is None:
            self.received = body
            return body
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._received(room)
        except TimeoutError:
            fault = FieldFault(field="", message=f"did not arrive within {timeout_seconds:g} s")
            raise ApiError("validation_error", "The body has 1 invalid field.", errors=[fault]) from None

    async def _received(self, room: Callable[[int], Awaitable[None]] | None) -> bytes:
        body = b""
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body = body + message.get("body", b"") if body else message.get("body", b"")
            if len(body) > MAX_BODY_BYTES:
                raise _too_large()
            if room is not None:
                await room(len(body))
            more = message.get("more_body", False)
        self.received = body
        return body


class Answer(Struct, frozen=True, gc=False):
    """The answer to a request. The middleware adds the headers that all answers share."""

    status: int
    body: bytes = b""
    media_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


def _credentials(path: str, bearer: bytes) -> Credentials | None:
    """The key of a request to the API, to the feed or for a preview; None if there is none, or if the address is
    another."""
    counted: Counted  # the contract's limit is the API's; the others have limits of their own
    if path.startswith("/v1/"):
        counted = "requests"
    elif path.startswith("/telematics/"):
        counted = "feed_requests"
    elif path.startswith("/planning/"):
        counted = "previews"
    else:
        return None
    found = _BEARER.fullmatch(bearer.decode("latin-1"))
    return Credentials(PresentedKey.of(found.group(1)), counted) if found is not None else None


def _too_large() -> ApiError:
    return ApiError("content_too_large", f"The body may have {MAX_BODY_BYTES} bytes at most.")
