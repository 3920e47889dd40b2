"""The console's list: whatever the words, it gives what fits, of this tenant only."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.database.connections import Connection, Tenant
from domain.database.index_order import in_index_order
from domain.ids import read_id, shown_id
from domain.lifecycle import PendingReason, RouteStatus
from domain.routes.reading import search
from domain.routes.reading.search import RouteSearch, every_route, search_routes
from domain.routes.transitions import cancel_route
from tests.conftest import own_database
from tests.domain.helpers import imported
from tests.factories import JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def found(connection: Connection, tenant: Tenant, **wanted: Any) -> list[str]:
    """The loads, in order."""
    listed = search_routes(connection, tenant, RouteSearch(**wanted), limit=100, offset=0)
    assert listed.total == len(listed.routes)
    return [route.external_id for route in listed.routes]


def load(connection: Connection, tenant: Tenant, name: str, *, hours: int = 1, **changes: Any) -> UUID:
    return imported(connection, tenant, now=NOW, start=NOW + timedelta(hours=hours), externalId=name, **changes)


def test_words_find_loads_references_and_stops(connection: Connection, fleet: Fleet) -> None:
    load(connection, fleet.live, "LOAD-1", reference="Spring order", stops=[JOLIET, NEWARK])
    load(connection, fleet.live, "LOAD-2", hours=2, reference=None, stops=[JOLIET, PERRYSBURG])
    load(connection, fleet.live, "100% <b>_x", hours=3, reference=None, stops=[JOLIET, PERRYSBURG])
    assert found(connection, fleet.live, text="load-") == ["LOAD-2", "LOAD-1"]
    assert found(connection, fleet.live, text="SPRING") == ["LOAD-1"]
    assert found(connection, fleet.live, text="newark") == ["LOAD-1"]
    assert found(connection, fleet.live, text="latitude") == [], "only names of stops, not what stands around them"
    assert found(connection, fleet.live, text="%") == ["100% <b>_x"], "no character has a meaning of its own"
    assert found(connection, fleet.live, text="_") == ["100% <b>_x"]
    assert found(connection, fleet.live, text="nothing") == []


def test_a_route_is_found_by_its_id(connection: Connection, fleet: Fleet) -> None:
    route_id = load(connection, fleet.live, "LOAD-1")
    load(connection, fleet.live, "LOAD-2")
    assert found(connection, fleet.live, text=shown_id("rte", route_id)) == ["LOAD-1"]
    assert found(connection, fleet.sandbox, text=shown_id("rte", route_id)) == []


def test_unit_and_driver_find_matched_and_waiting_routes(connection: Connection, fleet: Fleet) -> None:
    load(connection, fleet.live, "OF-101")
    load(connection, fleet.live, "OF-102", hours=2, vehicle={"unitNumber": "102"}, driver={"name": "Bo Diaz"})
    load(connection, fleet.live, "WAITS", hours=3, vehicle={"unitNumber": "T-102"}, driver={"name": "Bo Diazz"})
    assert found(connection, fleet.live, unit="101") == ["OF-101"]
    assert found(connection, fleet.live, unit="10") == ["WAITS", "OF-102", "OF-101"]
    assert found(connection, fleet.live, unit="t-1") == ["WAITS"]
    assert found(connection, fleet.live, driver="ann") == ["OF-101"]
    assert found(connection, fleet.live, driver="BO DIAZ") == ["WAITS", "OF-102"]
    assert found(connection, fleet.live, driver="bo", unit="t-") == ["WAITS"]
    assert found(connection, fleet.live, unit="101", driver="bo") == []


@pytest.mark.parametrize("wanted", [RouteSearch(), RouteSearch(status=RouteStatus.DRAFT), RouteSearch(text="load")])
@pytest.mark.parametrize("earliest_first", [False, True])
def test_a_list_that_changes_while_it_is_read_repeats_and_loses_no_route(
    connection: Connection, fleet: Fleet, wanted: RouteSearch, earliest_first: bool
) -> None:
    for number in range(1, 7):
        load(connection, fleet.live, f"LOAD-{number}", hours=number)
    names = []
    for route in every_route(connection, fleet.live, wanted, earliest_first=earliest_first, portion=2):
        names.append(route.external_id)
        if len(names) == 1:
            load(connection, fleet.live, "LOAD-7", hours=0 if earliest_first else 9)
        if len(names) == 2:
            cancel_route(connection, fleet.live, read_id("rte", route.id) or UUID(int=0), now=NOW)

    expected = [f"LOAD-{number}" for number in range(1, 7)]
    assert names == (expected if earliest_first else expected[::-1])


def test_routes_are_found_by_reason_status_and_day(connection: Connection, fleet: Fleet) -> None:
    load(connection, fleet.live, "DRAFT")
    load(connection, fleet.live, "NO-TRUCK", vehicle={"unitNumber": "9"})
    load(connection, fleet.live, "NO-DRIVER", driver={"name": "Nobody"})
    load(connection, fleet.live, "LATER", hours=24 * 30)
    assert found(connection, fleet.live, held=PendingReason.VEHICLE_UNMAPPED) == ["NO-TRUCK"]
    assert found(connection, fleet.live, held=PendingReason.DRIVER_UNMAPPED) == ["NO-DRIVER"]
    assert found(connection, fleet.live, held=PendingReason.OUTSIDE_IMPORT_WINDOW) == ["LATER"]
    assert found(connection, fleet.live, held=PendingReason.OUTSIDE_IMPORT_WINDOW, status=RouteStatus.DRAFT) == []
    assert found(connection, fleet.live, status=RouteStatus.DRAFT) == ["DRAFT"]
    assert found(connection, fleet.live, status=RouteStatus.DRAFT, text="a") == ["DRAFT"]
    assert found(connection, fleet.live, start_from=NOW + timedelta(days=2), text="e") == ["LATER"]
    assert "LATER" not in found(connection, fleet.live, start_to=NOW + timedelta(days=2), text="-")


def test_only_routes_of_the_tenant_are_found(connection: Connection, fleet: Fleet) -> None:
    load(connection, fleet.live, "MINE")
    load(connection, make_fleet(connection).live, "THEIRS")
    load(connection, fleet.sandbox, "TRIED")
    cases: list[dict[str, Any]] = [
        {"text": "i"},
        {"unit": "101"},
        {"driver": "ann"},
        {"status": RouteStatus.DRAFT, "text": "i"},
        {},
    ]
    for wanted in cases:
        assert found(connection, fleet.live, **wanted) == ["MINE"]
        assert found(connection, fleet.sandbox, **wanted) == ["TRIED"]


def test_a_whole_load_number_is_found_beyond_the_bound(
    connection: Connection, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_ROUTES_SEARCHED", 3)
    old = load(connection, fleet.live, "OLD-1")
    cancel_route(connection, fleet.live, old, now=NOW)
    load(connection, fleet.live, "OLD-1", hours=1)
    for number in range(4):
        load(connection, fleet.live, f"NEW-{number}", hours=2 + number)

    assert found(connection, fleet.live, text="old-") == []
    assert found(connection, fleet.live, text="OLD-1") == ["OLD-1", "OLD-1"], "the canceled one too"
    wanted = RouteSearch(text="new")
    partial = search_routes(connection, fleet.live, wanted, limit=2, offset=2)
    assert (partial.total, partial.is_partial, [one.external_id for one in partial.routes]) == (3, True, ["NEW-1"])


def test_a_whole_reference_is_found_beyond_the_bound(
    connection: Connection, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_ROUTES_SEARCHED", 3)
    load(connection, fleet.live, "OLD-1", reference="PO-7")
    load(connection, fleet.sandbox, "TRIED", reference="PO-7")
    for number in range(4):
        load(connection, fleet.live, f"NEW-{number}", hours=2 + number)

    assert found(connection, fleet.live, text="po-") == []
    assert found(connection, fleet.live, text="PO-7") == ["OLD-1"]


@pytest.mark.parametrize(
    ("source", "index"),
    [("start", "routes_by_start"), ("status", "routes_by_status"), ("vehicle", "routes_by_vehicle")],
)
def test_a_search_reads_the_latest_routes_by_an_index(source: str, index: str) -> None:
    """Row security makes PostgreSQL expect one route where there are a million. It read and sorted them all."""
    with own_database("search") as database, database.transaction() as connection:
        fleet = make_fleet(connection)
        load(connection, fleet.live, "LOAD-1")
        connection.execute("ANALYZE routes")
        nothing = dict.fromkeys(("start_from", "start_to", "held", "route_id"))
        texts = dict.fromkeys(("unit", "driver", "text", "whole_text"), "x")
        parameters = {**fleet.live._asdict(), **nothing, **texts, "limit": 9, "offset": 0, "most": 10_000}
        parameters["earliest_first"] = False
        parameters |= {"vehicle_ids": list(fleet.trucks), "driver_ids": [], "status": "draft"}
        with in_index_order(connection):
            rows = connection.execute("EXPLAIN " + search._SEARCH[source].text, parameters).fetchall()
    plan = "\n".join(row[0] for row in rows)
    assert f"using {index}" in plan
    assert "Sort Key: r" not in plan, "only the found routes are sorted"


def test_found_routes_are_shown_in_pages(connection: Connection, fleet: Fleet) -> None:
    for number in range(5):
        load(connection, fleet.live, f"LOAD-{number}", hours=1 + number)
    for wanted in (RouteSearch(text="load"), RouteSearch()):
        page = search_routes(connection, fleet.live, wanted, limit=2, offset=2)
        assert ([one.external_id for one in page.routes], page.total) == (["LOAD-2", "LOAD-1"], 5)
        assert not page.is_partial
        assert search_routes(connection, fleet.live, wanted, limit=2, offset=50_000_000).total == 5


def test_a_whole_unit_number_means_that_unit(connection: Connection, fleet: Fleet, monkeypatch: Any) -> None:
    connection.execute("UPDATE vehicles SET unit_number = '1012' WHERE id = %s", (fleet.trucks[1],))
    load(connection, fleet.live, "OF-101")
    load(connection, fleet.live, "OF-1012", hours=2, vehicle={"unitNumber": "1012"})
    assert found(connection, fleet.live, unit="101") == ["OF-101"]
    assert found(connection, fleet.live, unit="01") == ["OF-1012", "OF-101"]
    monkeypatch.setattr(search, "MOST_RECORDS", 2)
    assert search_routes(connection, fleet.live, RouteSearch(unit="01"), limit=9, offset=0).is_partial
