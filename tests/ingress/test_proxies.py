"""Behind a proxy that is named, the client is who the proxy names. Nobody else is believed."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from domain.settings import Settings
from ingress.http.connection_limits import Bounds, ConnectionLimiter, ProxyNetworks
from ingress.http.serving import server_config

PROXIES = "10.0.0.0/24, 192.0.2.7,2001:db8::/32"


async def who(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the scheme and the client's address, after a while where the path asks for it."""
    if scope["path"] == "/slow":
        await asyncio.sleep(0.2)
    body = f"{scope['scheme']} {scope['client'][0]}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def application(app: ASGIApp = who, **settings: Any) -> ASGIApp:
    config = server_config(app, Settings(**settings), more_proxies=settings.pop("more", ""))
    config.load()
    loaded: ASGIApp = config.loaded_app
    return loaded


async def ask(app: ASGIApp, peer: str, path: str = "/", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(app, client=(peer, 1234))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(transport=transport, base_url="http://fuelroute", verify=False) as client:
        return await client.get(path, headers=named)


def seen(peer: str, proxies: str = PROXIES, **headers: str) -> str:
    return asyncio.run(ask(application(proxies=proxies), peer, **headers)).text


@pytest.mark.parametrize("peer", ["10.0.0.9", "192.0.2.7", "2001:db8::1", "::ffff:10.0.0.9"])
def test_a_named_proxy_is_believed(peer: str) -> None:
    assert seen(peer, X_Forwarded_For="203.0.113.5", X_Forwarded_Proto="https") == "https 203.0.113.5"
    assert seen(peer) == f"http {peer}"


@pytest.mark.parametrize("peer", ["203.0.113.9", "10.0.1.9", "192.0.2.8", "::ffff:10.0.1.9"])
def test_nobody_else_is_believed(peer: str) -> None:
    forged = {"X_Forwarded_For": "198.51.100.1", "X_Forwarded_Proto": "https"}
    assert seen(peer, **forged) == f"http {peer}"
    assert seen("10.0.0.9", "", **forged) == "http 10.0.0.9"


def test_what_a_client_says_of_itself_is_not_believed_behind_the_proxy() -> None:
    """The proxy adds the address that it saw; those before it may be forged."""
    assert seen("10.0.0.9", X_Forwarded_For="198.51.100.1, 203.0.113.5, 192.0.2.7") == "http 203.0.113.5"


def forwarded(peer: str, header: str, **more: str) -> str:
    app = application(proxies=PROXIES, proxy_header="forwarded")
    return asyncio.run(ask(app, peer, Forwarded=header, **more)).text


@pytest.mark.parametrize(
    ("header", "client"),
    [
        ("for=203.0.113.5;proto=https", "https 203.0.113.5"),
        ('For="203.0.113.5:4711";by=10.0.0.9;Proto=HTTPS', "https 203.0.113.5"),
        ('for="[2001:4860::17]:99"', "http 2001:4860::17"),
        ("for=203.0.113.5;proto=https, for=192.0.2.7;proto=http", "https 203.0.113.5"),
        ("for=198.51.100.1, for=203.0.113.5", "http 203.0.113.5"),  # a client's own words come first
        ('for="198.51.100.1, for=203.0.113.5', "http 203.0.113.5"),
        ('for=";x="y, for=203.0.113.5;x="z"', "http 203.0.113.5"),
        ("for=203.0.113.5;proto=ftp", "http 203.0.113.5"),
        ("for=203.0.113.5, for=_hidden", "http 10.0.0.9"),
        ("for=203.0.113.5, for=unknown", "http 10.0.0.9"),
        ("for=203.0.113.5, ???", "http 10.0.0.9"),
        ("for=999.1.1.1", "http 10.0.0.9"),
        ("for=203.0.113.5,", "http 10.0.0.9"),
        ("proto=https", "http 10.0.0.9"),
        ("", "http 10.0.0.9"),
        ("," * 5000, "http 10.0.0.9"),
    ],
)
def test_proxies_may_name_the_client_in_the_header_of_the_standard(header: str, client: str) -> None:
    assert forwarded("10.0.0.9", header) == client
    assert forwarded("203.0.113.9", header) == "http 203.0.113.9"


def test_only_the_header_that_the_proxies_write_is_believed() -> None:
    assert forwarded("10.0.0.9", "", X_Forwarded_For="198.51.100.1", X_Forwarded_Proto="https") == "http 10.0.0.9"
    assert seen("10.0.0.9", Forwarded="for=198.51.100.1;proto=https") == "http 10.0.0.9"


def test_one_client_behind_a_proxy_may_not_take_all_places() -> None:
    app = application(proxies=PROXIES, connections_per_address=3)

    async def scenario() -> None:
        greedy = [ask(app, "10.0.0.9", "/slow", X_Forwarded_For="203.0.113.5") for _ in range(5)]
        others = [ask(app, "10.0.0.9", "/slow", X_Forwarded_For=f"203.0.113.{n}") for n in (6, 7)]
        of_the_proxy = [ask(app, "10.0.0.9", "/slow") for _ in range(5)]  # its own questions have no bound
        answers = await asyncio.gather(*greedy, *others, *of_the_proxy)
        assert Counter(answer.status_code for answer in answers[:5]) == {200: 3, 503: 2}
        assert {answer.status_code for answer in answers[5:]} == {200}
        refused = next(answer for answer in answers if answer.status_code == 503)
        assert (refused.headers["content-type"], refused.json()["code"]) == ("application/problem+json", "rate_limited")
        assert (await ask(app, "10.0.0.9", X_Forwarded_For="203.0.113.5")).status_code == 200  # places are given back

    asyncio.run(scenario())


def test_connections_of_a_proxy_have_no_bound_of_one_address() -> None:
    bounds = Bounds(4, 1, head_seconds=1, answer_seconds=1, proxies=ProxyNetworks(PROXIES))
    limiter = ConnectionLimiter(bounds)
    assert [limiter.enter("10.0.0.9", is_proxy=True) for _ in range(3)] == [None] * 3
    assert limiter.enter("203.0.113.5") is None
    assert limiter.enter("10.0.0.9", is_proxy=True) is not None  # the bound of all holds
