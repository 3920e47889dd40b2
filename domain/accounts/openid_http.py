"""Requests to the OpenID Connect provider: authlib's client over httpx, with a bound on the bytes of each answer.

It is a module of its own because both libraries take long to load, and few processes need them."""

import json
import warnings
from collections.abc import Mapping
from typing import Any

import httpx
from authlib.integrations.base_client import OAuthError

from domain.accounts.name_lookups import NEXT_ADDRESS_AFTER_SECONDS, NoAddress, lookups
from domain.accounts.openid_errors import ProofRefused, ProviderAway

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # authlib would rather have the successor of httpx, which nothing else needs
    from authlib.integrations.httpx_client import AsyncOAuth2Client as AsyncOAuth2Client

_MOST_BYTES = 512 << 10


async def redeem(session: Any, endpoint: str, code: str, verifier: str) -> dict[str, Any]:
    """The tokens for a code, which the provider gives once. Raises ProviderAway if it does not answer, and ProofRefused
    if it refuses the code."""
    try:
        tokens = await session.fetch_token(endpoint, grant_type="authorization_code", code=code, code_verifier=verifier)
        return dict(tokens)
    except OAuthError as error:
        raise ProofRefused(f"the provider refused the code: {str(error.error)[:100]!r}") from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ProviderAway(f"no token came: {type(error).__name__}") from None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        raise ProviderAway("the answer with the tokens is no JSON object") from None


async def get_json(session: Any, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The JSON object at an address of the provider. Raises ProviderAway if there is none."""
    try:
        answer = await session.request("GET", url, headers=headers, withhold_token=True)
        document = json.loads(answer.content) if answer.status_code == 200 else None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ProviderAway(f"no answer: {type(error).__name__}") from None
    except (ValueError, RecursionError):
        raise ProviderAway("an answer is no JSON") from None
    if not isinstance(document, dict):
        raise ProviderAway(f"it answered {answer.status_code} without a JSON object")
    return document


class _TooMuch(httpx.TransportError):
    """An answer larger than any provider's, or compressed although that was not asked for."""


class BoundedTransport(httpx.AsyncHTTPTransport):
    """Reads each answer as a whole, up to a bound. Names are looked up in threads that no event loop shares."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._first_answer(request)
        try:
            body = bytearray()
            async for portion in answer.aiter_raw():
                body += portion
                if len(body) > _MOST_BYTES or answer.headers.get("content-encoding", "identity") != "identity":
                    raise _TooMuch("the answer is too large")
        finally:
            await answer.aclose()
        return httpx.Response(answer.status_code, headers=answer.headers, content=bytes(body))

    async def _first_answer(self, request: httpx.Request) -> httpx.Response:
        """The answer of the first address that accepts a connection."""
        failure: httpx.TransportError = httpx.ConnectError("its name has no address")
        try:
            addresses = await lookups().addresses(request.url.host)
        except NoAddress as error:
            raise httpx.ConnectError(str(error)) from None
        for address in addresses:
            seconds = request.extensions["timeout"]
            if address != addresses[-1]:
                seconds = {**seconds, "connect": NEXT_ADDRESS_AFTER_SECONDS}
            try:
                return await super().handle_async_request(_at_address(request, address, seconds))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
        raise failure


def _at_address(request: httpx.Request, address: str, seconds: Mapping[str, float | None]) -> httpx.Request:
    """The request, sent to one address of its host, with these time-outs. The certificate must still be the host's."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host, "timeout": seconds},
    )
