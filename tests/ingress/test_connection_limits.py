"""Connections are limited in all and by address; the limiter knows which address a connection counts for."""

import resource

import pytest

from ingress.http.connection_limits import FULL, FULL_FOR_ADDRESS, Bounds, ConnectionLimiter, address_of
from ingress.http.serving import within_open_files


def test_connections_are_limited_to_the_files_that_a_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = (1024, 2048)

    def set_limits(_: int, new: tuple[int, int]) -> None:
        nonlocal limits
        limits = new

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", set_limits)
    bounds = Bounds(connections=500, connections_per_address=0, head_seconds=1, answer_seconds=1)

    assert within_open_files(bounds) == bounds
    assert limits == (1024, 2048)
    assert within_open_files(bounds._replace(connections=1000)).connections == 1000
    assert limits == (1256, 2048)
    assert within_open_files(bounds._replace(connections=4096)).connections == 2048 - 256
    assert limits == (2048, 2048)


def test_a_network_of_ipv6_counts_as_one_address() -> None:
    assert address_of("2001:db8:1:2::1") == address_of("2001:db8:1:2:ffff::9") != address_of("2001:db8:1:3::1")
    assert address_of("::ffff:192.0.2.7") == address_of("192.0.2.7") != address_of("192.0.2.8")


def test_the_limiter_counts_connections_in_all_and_by_address_and_0_means_no_limit() -> None:
    limiter = ConnectionLimiter(Bounds(connections=3, connections_per_address=2, head_seconds=1, answer_seconds=1))
    refusals = [limiter.enter(one) for one in ("a", "a", "a", "b", "c")]
    assert refusals == [None, None, FULL_FOR_ADDRESS, None, FULL]
    limiter.leave("a")
    assert limiter.enter("c") is None
    free = ConnectionLimiter(Bounds(connections=0, connections_per_address=0, head_seconds=1, answer_seconds=1))
    assert [free.enter("a") for _ in range(1000)] == [None] * 1000
