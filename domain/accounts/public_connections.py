"""Connections to addresses that companies bring, and never to one inside our own network.

A name is resolved once, the addresses are judged, and the connection goes to the judged address. So a name server gains
nothing by answering differently the next time."""

import asyncio
import ssl
from functools import cache
from typing import Any

import httpcore

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.name_lookups import NEXT_ADDRESS_AFTER_SECONDS, NoAddress, lookups
from domain.addresses import literal_address


class RefusedAddress(Exception):
    """An address that must not be called."""


class PublicBackend(httpcore.AnyIOBackend):
    """Connects to judged addresses only. Raises RefusedAddress for any other."""

    def __init__(self, allowed: AllowedHosts) -> None:
        self._allowed = allowed

    async def connect_tcp(self, host: str, port: int, *rest: Any, **more: Any) -> httpcore.AsyncNetworkStream:
        failure: Exception = httpcore.ConnectError("it has no address")
        addresses = await self._judged(host)
        for address in addresses:
            patience = NEXT_ADDRESS_AFTER_SECONDS if address != addresses[-1] else None
            try:
                async with asyncio.timeout(patience):
                    return await super().connect_tcp(address, port, *rest, **more)
            except (httpcore.ConnectError, TimeoutError) as error:
                failure = error
        raise failure

    async def _judged(self, host: str) -> list[str]:
        """The addresses of a host. Raises RefusedAddress if one of them must not be called, ConnectError if there is
        none."""
        try:
            addresses = await lookups().addresses(host)
        except NoAddress as error:
            raise httpcore.ConnectError(str(error)) from None
        for address in addresses if not self._allowed.have(host) else ():
            known = literal_address(address.partition("%")[0])
            if known is None or not self._allowed.take(known):
                raise RefusedAddress
        return addresses


def connect_fault(failure: httpcore.ConnectError) -> str:
    """Why there is no connection, as the end of a sentence that names the server."""
    match failure.__cause__:
        case ssl.SSLCertVerificationError() as wrong:
            return f"has a certificate that is not valid: {wrong.verify_message.rstrip('.')}"
        case ssl.SSLError():
            return "does not speak TLS 1.2 or later there"
    return "could not be connected to"


@cache
def tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()
