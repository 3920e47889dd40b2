"""Requests that come through a proxy: the proxy names the client, and one client may not take all places.

Only proxies in FUELROUTE_PROXIES are believed; other statements about a client's address are ignored."""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from starlette.types import ASGIApp, Receive, Scope, Send

from ingress.http.connection_limits import FULL_FOR_ADDRESS, ConnectionLimiter, ProxyNetworks, address_of
from ingress.http.problems import PROBLEM_TYPE
from ingress.http.uvicorn_protocol import document_of_refusal

_REFUSED_STATUS = 503

ProxyHeader = Literal["x-forwarded-for", "forwarded"]

_PARAMETER = re.compile(r"""([!#$%&'*+.^_`|~\w-]+)=(?:"([^"\\]*)"|([^\s";]+))""", re.ASCII)
_NODE = re.compile(r"\[([0-9a-f:.]+)\](?::\d+)?|([0-9.]+)(?::\d+)?", re.ASCII | re.IGNORECASE)


def behind_proxies(
    app: ASGIApp, proxies: ProxyNetworks, limiter: ConnectionLimiter, header: ProxyHeader
) -> tuple[ASGIApp, dict[str, Any]]:
    """The application with bounds for the clients of the proxies, and uvicorn's options. It sees the client that the
    proxies name last, and how that client speaks to them: by `X-Forwarded-For` and `X-Forwarded-Proto`, or by
    `Forwarded` alone. Only one kind of header is believed, because a proxy passes on a client's text in a header that
    it does not write itself."""
    if not proxies:
        return app, {"proxy_headers": False}
    bounded = ClientBounds(app, proxies, limiter)
    if header == "forwarded":
        return ForwardedClient(bounded, proxies), {"proxy_headers": False}
    return bounded, {"proxy_headers": True, "forwarded_allow_ips": str(proxies)}


class ForwardedClient:
    """Takes the client from the `Forwarded` header of named proxies (https://www.rfc-editor.org/rfc/rfc7239)."""

    def __init__(self, app: ASGIApp, proxies: ProxyNetworks) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("client") and scope["client"][0] in self._proxies:
            given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"forwarded"]
            for element in _elements_from_the_last(",".join(given)):
                address = _address_of(element.get("for", ""))
                if address is None:  # hidden, or not a proxy's words
                    break
                if address not in self._proxies:
                    scope["client"] = (address, 0)
                    if element.get("proto") in ("http", "https"):
                        scope["scheme"] = element["proto"]
                    break
        await self._app(scope, receive, send)


def _elements_from_the_last(header: str) -> Iterator[Mapping[str, str]]:
    """The elements of the header, from the last one back as long as they are well formed: a client may have written
    anything before them, such as a quote that is never closed. Values with a comma are not understood."""
    for element in reversed(header.split(",")):
        parameters = [_PARAMETER.fullmatch(one.strip()) for one in element.split(";") if one.strip()]
        if not parameters or None in parameters:
            return
        yield {one[1].lower(): (one[2] or one[3] or "").lower() for one in parameters if one is not None}


def _address_of(node: str) -> str | None:
    """The address of a node, which may have a port; None for a node that hides its address."""
    found = _NODE.fullmatch(node)
    try:
        return str(ipaddress.ip_address(found[1] or found[2])) if found is not None else None
    except ValueError:
        return None


class ClientBounds:
    """Bounds the requests under way of one client. The client's own connections end at the proxy, where they cannot be
    counted."""

    def __init__(self, app: ASGIApp, proxies: ProxyNetworks, limiter: ConnectionLimiter) -> None:
        self._app = app
        self._proxies = proxies
        self._limiter = limiter
        self._under_way: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope["client"][0] if scope["type"] == "http" and scope.get("client") else None
        if client is None or client in self._proxies:  # a proxy's own question, such as /readyz
            await self._app(scope, receive, send)
            return
        address, most = address_of(client), self._limiter.bounds.connections_per_address
        if most and self._under_way[address] >= most:
            self._limiter.refused(FULL_FOR_ADDRESS.reason)
            await _refuse(send)
            return
        self._under_way[address] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._under_way[address] -= 1
            if not self._under_way[address]:
                del self._under_way[address]


async def _refuse(send: Send) -> None:
    body = document_of_refusal(_REFUSED_STATUS, FULL_FOR_ADDRESS)
    headers = [(b"content-type", PROBLEM_TYPE.encode()), (b"content-length", b"%d" % len(body)), (b"retry-after", b"1")]
    await send({"type": "http.response.start", "status": _REFUSED_STATUS, "headers": headers})
    await send({"type": "http.response.body", "body": body})
