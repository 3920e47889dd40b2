"""Requests to the OpenID Connect provider reach it at any address of its name that answers."""

import asyncio
from urllib.parse import urlsplit

import httpx
import pytest

from domain.accounts import name_lookups, openid_http
from tests.openid_provider import running_provider
from tests.silence import silent_address


def test_a_silent_address_of_the_provider_gives_way_to_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_lookups, "ask_system", lambda _: ["127.0.0.9", "127.0.0.1"])
    monkeypatch.setattr(openid_http, "NEXT_ADDRESS_AFTER_SECONDS", 0.05)
    with running_provider() as provider:
        port = urlsplit(provider.issuer).port or 0
        with silent_address("127.0.0.9", port):
            answer = asyncio.run(_get(f"http://both.example.com:{port}/.well-known/openid-configuration"))
    assert answer.json()["issuer"] == provider.issuer


async def _get(url: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=openid_http.BoundedTransport(), timeout=120) as client:
        return await client.get(url)
