"""Hosts of addresses that people bring: one rule for all of them, before anything connects."""

from datetime import datetime
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.accounts.allowed_hosts import AllowedHosts, url_fault
from domain.accounts.contact_urls import fault_of
from domain.accounts.contacts import IN_CLEAR
from domain.addresses import is_host
from domain.database.connections import Connection
from domain.settings import Settings
from domain.stations.price_sources import NewSource, SourceAddress, UnusableSource, add_source
from tests.factories import DOT, Fleet

ANYWHERE = AllowedHosts()
IMPOSSIBLE = [
    *("a..b.com", ".b.com", "b.com..", ".", "a" * 64 + ".com", ".".join(["a" * 60] * 5)),
    *("xn--.com", "xn--a.com", "\N{PILE OF POO}.la", "a%2eb.com", "a%00b.com", "-a.com", "a-.com"),
    *("*.com", "a,b.com", "1.2.3.4.5", "a.0x7f", "999.999.999.999"),
]
POSSIBLE = [
    "example.com",
    "example.com.",
    "a_b.example.com",
    "m\xfcnchen.example.com",
    "xn--mnchen-3ya.de",
    "93.184.216.34",
]


@pytest.mark.parametrize("host", IMPOSSIBLE)
def test_a_host_that_cannot_be_one_is_refused_with_a_sentence(host: str) -> None:
    assert not is_host(host)
    assert url_fault(f"https://{host}/hooks", ANYWHERE, "FUELROUTE_WEBHOOK_ALLOWED_HOSTS")
    for shape in ("json://{}/", "jsons://u:p@{}:8080/", "gotify://{}/token"):
        assert fault_of(shape.format(host), ANYWHERE), shape
    if "%" not in host:  # in a query that is another name, written with escapes
        assert fault_of(f"mailto://u:p@example.com?smtp={quote(host)}", ANYWHERE)


@pytest.mark.parametrize("host", POSSIBLE)
def test_a_host_that_may_be_one_is_taken(host: str) -> None:
    assert is_host(host)
    assert url_fault(f"https://{host}/hooks", ANYWHERE, "FUELROUTE_WEBHOOK_ALLOWED_HOSTS") is None


@pytest.mark.parametrize("host", ["::1", "127.1", "gateway"])
def test_the_rule_is_of_names_and_not_of_networks(host: str) -> None:
    assert is_host(host)


@pytest.mark.parametrize("port", ["0", "65536", "99999", "-1"])
def test_a_port_that_there_is_not_is_refused(port: str) -> None:
    assert url_fault(f"https://example.com:{port}/", ANYWHERE, "FUELROUTE_WEBHOOK_ALLOWED_HOSTS")
    assert fault_of(f"json://example.com:{port}/", ANYWHERE)


@pytest.mark.parametrize("url", ["https://[::1", "https://[v1.a]/", "https://[]/", "https://[fe80::1%25eth0]/"])
def test_odd_brackets_are_refused(url: str) -> None:
    assert url_fault(url, ANYWHERE, "FUELROUTE_WEBHOOK_ALLOWED_HOSTS")


@pytest.mark.parametrize("host", IMPOSSIBLE)
def test_an_issuer_and_a_server_of_price_files_follow_the_same_rule(
    connection: Connection, fleet: Fleet, now: datetime, host: str
) -> None:
    with pytest.raises(ValueError, match="openid_issuer"):
        Settings(openid_client_id="console", openid_issuer=f"https://{host}")
    place = SourceAddress(path="/out", host=host, user="fuel", host_key="ssh-ed25519 AAAA")
    source = NewSource("daily", "sftp", "opis", place, "secret", takes_retail=False)
    with pytest.raises(UnusableSource, match="names a host that cannot be one"):
        add_source(connection, fleet.company_id, source, DOT, contacts=IN_CLEAR, now=now)


@given(st.text(max_size=80))
def test_no_text_makes_the_rules_fail(host: str) -> None:
    is_host(host)
    url_fault(f"https://{host}/", ANYWHERE, "FUELROUTE_WEBHOOK_ALLOWED_HOSTS")
