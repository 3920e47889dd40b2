"""The search of the request log: its findings, its company, and its bound."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from domain.database.connections import Connection
from domain.lifecycle import Environment
from domain.requests import search
from domain.requests.search import LoggedRequest, RequestSearch, find_request, find_route, search_requests
from tests.domain.helpers import imported
from tests.domain.requests.entries import entry_of, new_caller, push_of, refusal, store
from tests.factories import Fleet, make_fleet


def found(connection: Connection, fleet: Fleet, *, limit: int = 50, **wanted: Any) -> list[LoggedRequest]:
    return search_requests(connection, fleet.company_id, RequestSearch(**wanted), limit=limit).requests


def test_each_filter_finds_only_its_requests(connection: Connection, fleet: Fleet, now: datetime) -> None:
    tms, feed = new_caller(connection, fleet.company_id), new_caller(connection, fleet.company_id, Environment.SANDBOX)
    early = now - timedelta(hours=5)
    bad = refusal("validation_error", "Expected a number")
    push = entry_of(push_of("LOAD-1"), caller=tms, at=early)
    failed = entry_of(push_of("LOAD-2"), caller=tms, at=now, status=400, problem=bad)
    given = entry_of(caller=tms, at=now + timedelta(seconds=1), status=200, method="GET", given_id="theirs-1")
    posted = entry_of(caller=feed, at=now + timedelta(seconds=2), status=202, path="/telematics/positions")
    limited = entry_of(caller=feed, at=now + timedelta(seconds=3), status=429, problem=refusal("rate_limited"), times=9)
    everything = [limited, posted, given, failed, push]
    store(connection, everything[::-1])
    cases: list[tuple[dict[str, Any], list[Any]]] = [
        ({}, everything),
        ({"key_id": tms.key_id}, [given, failed, push]),
        ({"statuses": range(200, 300)}, [posted, given, push]),
        ({"statuses": range(400, 500)}, [limited, failed]),
        ({"statuses": range(500, 600)}, []),
        ({"code": "rate_limited"}, [limited]),
        ({"code": "rate_limited", "key_id": tms.key_id}, []),
        ({"text": "LOAD-1"}, [push]),
        ({"text": "load-"}, [failed, push]),
        ({"text": "expected A number"}, [failed]),
        ({"text": "theirs-1"}, [given]),
        ({"text": posted.id}, [posted]),
        ({"text": posted.id, "key_id": tms.key_id}, []),
        ({"text": "LOAD-1", "since": now}, []),
        ({"since": now}, [limited, posted, given, failed]),
        ({"until": now}, [push]),
        ({"until": now + timedelta(seconds=2), "since": now}, [given, failed]),
    ]
    for wanted, entries in cases:
        ids = [one.id.hex for one in found(connection, fleet, **wanted)]
        assert ids == [entry.id for entry in entries], wanted
    other = make_fleet(connection)
    for wanted, _ in cases:
        assert found(connection, other, **wanted) == []
    own = found(connection, fleet)[0]
    assert (own.times, own.code, own.environment) == (9, "rate_limited", "sandbox")
    assert own.milliseconds == pytest.approx(4.2)
    assert abs(own.at - now) < timedelta(seconds=4)
    assert find_request(connection, fleet.company_id, own.id) == own
    assert find_request(connection, other.company_id, own.id) is None


def test_pages_follow_one_another(connection: Connection, fleet: Fleet, now: datetime) -> None:
    callers = [new_caller(connection, fleet.company_id) for _ in range(3)]
    entries = [entry_of(caller=callers[n % 3], at=now + timedelta(milliseconds=n)) for n in range(25)]
    store(connection, entries)
    seen: list[str] = []
    before = None
    for rows, more in ((10, True), (10, True), (5, False)):
        page = search_requests(connection, fleet.company_id, RequestSearch(), limit=10, before=before)
        assert (len(page.requests), page.has_more) == (rows, more)
        before = page.requests[-1].id
        seen += [one.id.hex for one in page.requests]
    assert seen == [entry.id for entry in reversed(entries)]


def test_words_are_searched_in_the_newest_requests_and_whole_names_in_all(
    connection: Connection, fleet: Fleet, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_REQUESTS_SEARCHED", 10)
    monkeypatch.setattr(search, "_LEAST_OF_A_KEY", 1)
    caller = new_caller(connection, fleet.company_id)
    at = [now + timedelta(milliseconds=n) for n in range(30)]
    store(connection, [entry_of(push_of(f"LOAD-{n}"), caller=caller, at=at[n]) for n in range(30)])

    def page(text: str) -> tuple[int, bool]:
        one = search_requests(connection, fleet.company_id, RequestSearch(text=text), limit=50)
        return len(one.requests), one.is_partial

    assert page("load") == (10, True)
    assert page("LOAD-3") == (1, True)
    assert page("oad-3") == (0, True)
    assert page("oad-29") == (1, True)


def test_a_request_is_shown_with_its_route(connection: Connection, fleet: Fleet, now: datetime) -> None:
    route_id = imported(connection, fleet.live, now=now, externalId="LOAD-1")
    caller = new_caller(connection, fleet.company_id)
    sandbox = new_caller(connection, fleet.company_id, Environment.SANDBOX)
    about = [
        entry_of(push_of("LOAD-1"), caller=caller),
        entry_of(caller=caller, path="/v1/routes/{id}", path_id=f"rte_{route_id.hex}"),
        entry_of(push_of("LOAD-1"), caller=sandbox),
        entry_of(push_of("LOAD-2"), caller=caller),
        entry_of(caller=caller, path="/v1/me"),
    ]
    store(connection, about)
    routes = [find_route(connection, one) for one in found(connection, fleet)[::-1]]
    assert routes == [route_id, route_id, None, None, None]
    for text in ("LOAD-1", f"rte_{route_id.hex}"):
        assert len(found(connection, fleet, text=text)) == 3
