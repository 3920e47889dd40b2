"""Requests that come through a proxy: the client is who the proxy names, and one client may not take all places.

Only proxies of FUELROUTE_PROXIES are believed; what anybody else says of a client's address is ignored.
"""

from collections import Counter
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from ingress.connection_limits import FULL_FOR_ADDRESS, ConnectionLimiter, ProxyNetworks, address_of
from ingress.problems import PROBLEM_TYPE
from ingress.uvicorn_protocol import document_of_refusal

_REFUSED_STATUS = 503


def behind_proxies(app: ASGIApp, proxies: ProxyNetworks, limiter: ConnectionLimiter) -> tuple[ASGIApp, dict[str, Any]]:
    """The application with bounds for the clients of the proxies, and uvicorn's options that make it see them: the last
    address of `X-Forwarded-For` that is no proxy's, and the scheme of `X-Forwarded-Proto`."""
    if not proxies:
        return app, {"proxy_headers": False}
    return ClientBounds(app, proxies, limiter), {"proxy_headers": True, "forwarded_allow_ips": str(proxies)}


class ClientBounds:
    """Bounds the requests under way of one client. Its connections end at the proxy, where they cannot be counted."""

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
