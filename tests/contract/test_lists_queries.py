"""The list endpoints: filters, order, ties, paging, totals, and query parameters out of bounds."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from domain.ids import new_id, shown_id
from tests.contract.checks import accepted, invalid_fields, put_in_status
from tests.contract.shapes import STATUSES
from tests.factories import route_body
from tests.rows import stored_id
from tests.service import Client

FIRST = datetime(2020, 1, 1, tzinfo=UTC)


def push_days(client: Client, *days: int, **changes: Any) -> list[str]:
    """Routes that start so many days after FIRST. Gives their ids."""
    return [str(accepted(client.push(route_body(FIRST + timedelta(days=day), **changes)), 201)["id"]) for day in days]


def ids(client: Client, path: str = "/v1/routes", **query: Any) -> list[str]:
    """The ids on a page, after checks of its envelope."""
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    page = answer.json()
    assert page["limit"] == int(query.get("limit", 25))
    assert page["offset"] == int(query.get("offset", 0))
    assert page["total"] >= len(page["data"])
    return [entry["id"] for entry in page["data"]]


def total(client: Client, path: str = "/v1/routes", **query: Any) -> int:
    return int(client.get(path, params=query).json()["total"])


# --- routes ----------------------------------------------------------------------------------------------------


def test_routes_come_newest_scheduled_start_first(client: Client) -> None:
    """GET /v1/routes: newest scheduled start first."""
    second, first, third = push_days(client, 2, 3, 1)

    assert ids(client) == [first, second, third]


def test_ties_in_the_start_are_ordered_by_id(client: Client) -> None:
    """Decision 12: ties in `scheduledStart` are ordered by id."""
    tied = push_days(client, 1, 1, 1, 1)

    assert ids(client) == sorted(tied)


def test_held_and_finished_routes_are_listed_as_well(client: Client, now: datetime) -> None:
    """GET /v1/routes lists routes created through the API, in whatever status."""
    for status in STATUSES:
        put_in_status(client, accepted(client.push(route_body(now)), 201)["id"], status)

    assert {route["status"] for route in client.get("/v1/routes").json()["data"]} == STATUSES


@pytest.mark.parametrize("status", sorted(STATUSES))
def test_the_status_filter_takes_every_status(client: Client, now: datetime, status: str) -> None:
    """Query `status`: only routes in this status."""
    by_status = {}
    for each in sorted(STATUSES):
        by_status[each] = accepted(client.push(route_body(now)), 201)["id"]
        put_in_status(client, by_status[each], each)

    assert ids(client, status=status) == [by_status[status]]
    assert total(client, status=status) == 1


def test_the_vehicle_filter_shows_assigned_routes_only(client: Client, now: datetime) -> None:
    """Query `vehicleId`: only routes assigned to this vehicle id."""
    (first,) = push_days(client, 1)
    (other,) = push_days(client, 2, vehicle={"unitNumber": "102"})
    accepted(client.push(route_body(now, vehicle={"unitNumber": "999"})), 202)

    assert ids(client, vehicleId=client.fleet.shown_trucks[0]) == [first]
    assert ids(client, vehicleId=client.fleet.shown_trucks[1]) == [other]
    (truck, _) = client.fleet.trucks
    spelt_otherwise = (str(truck), truck.hex, f"veh_{truck}", f"veh_{truck.hex.upper()}", f"rte_{truck.hex}")
    for unknown in ("101", "veh_x", "", "'", "null", shown_id("veh", new_id()), *spelt_otherwise):
        assert ids(client, vehicleId=unknown) == []


def test_from_is_inclusive_and_to_is_exclusive(client: Client) -> None:
    """Query `from`: scheduled start at or after; `to`: before."""
    first, second, third = push_days(client, 1, 2, 3)
    one, two, three = ((FIRST + timedelta(days=day)).isoformat() for day in (1, 2, 3))

    assert ids(client, **{"from": two}) == [third, second]
    assert ids(client, to=two) == [first]
    assert ids(client, **{"from": one, "to": three}) == [second, first]
    assert ids(client, **{"from": two, "to": two}) == []
    assert ids(client, **{"from": three, "to": one}) == []
    assert total(client, **{"from": two}) == 2


def test_times_in_a_query_may_have_any_offset(client: Client) -> None:
    """Query `from` and `to`: date-times with an offset."""
    (route,) = push_days(client, 1)

    assert ids(client, **{"from": "2020-01-01T18:00:00-06:00", "to": "2020-01-02T05:45:01+05:45"}) == [route]
    assert ids(client, **{"from": "2020-01-01T18:00:00.000001-06:00"}) == []


def test_times_at_the_ends_of_the_calendar_cause_no_server_error(client: Client) -> None:
    """Query `from` and `to`: any RFC 3339 time."""
    (route,) = push_days(client, 1)

    assert ids(client, **{"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T23:59:59Z"}) == [route]


def test_the_external_id_finds_the_newest_route(client: Client, now: datetime) -> None:
    """Query `externalId`: at most one route; decision 12: the newest one with it."""
    body = route_body(now + timedelta(days=1))
    canceled = accepted(client.push(body), 201)["id"]
    client.delete(f"/v1/routes/{canceled}")
    fresh = accepted(client.push({**body, "scheduledStart": now.isoformat()}), 201)["id"]

    assert ids(client, externalId=body["externalId"]) == [fresh]
    assert total(client, externalId=body["externalId"]) == 1
    for unknown in (body["externalId"].lower(), body["externalId"] + " ", "", "%", "null"):
        assert ids(client, externalId=unknown) == []


def test_other_filters_apply_to_the_newest_route_with_an_external_id(client: Client, now: datetime) -> None:
    """Decision 12: `externalId` finds the newest route with it, then the other filters apply."""
    body = route_body(now)
    canceled = accepted(client.push(body), 201)["id"]
    client.delete(f"/v1/routes/{canceled}")
    fresh = accepted(client.push(body), 201)["id"]

    assert ids(client, externalId=body["externalId"], status="draft") == [fresh]
    assert ids(client, externalId=body["externalId"], status="canceled") == []
    assert ids(client, externalId=body["externalId"], vehicleId=client.fleet.shown_trucks[1]) == []
    assert ids(client, externalId=body["externalId"], **{"from": (now + timedelta(1)).isoformat()}) == []
    assert ids(client, externalId=body["externalId"], offset=1) == []


def test_filters_combine(client: Client) -> None:
    """Filters are and-ed."""
    first, second, third = push_days(client, 1, 2, 3)
    push_days(client, 2, vehicle={"unitNumber": "102"})
    put_in_status(client, third, "active")

    found = ids(
        client,
        status="draft",
        vehicleId=client.fleet.shown_trucks[0],
        **{"from": (FIRST + timedelta(days=2)).isoformat()},
    )

    assert found == [second]
    assert first not in found


def test_pages_partition_the_list(client: Client) -> None:
    """Paging: `limit` and `offset`; no route is missed and none is seen twice, ties included."""
    pushed = push_days(client, 1, 2, 2, 2, 3, 4, 4)
    everything = ids(client)

    pages = [ids(client, limit=3, offset=offset) for offset in (0, 3, 6, 9)]

    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert [route for page in pages for route in page] == everything
    assert sorted(everything) == sorted(pushed)
    assert total(client, limit=3, offset=6) == total(client, offset=100) == 7


def test_a_page_has_25_entries_by_default_and_100_at_most(client: Client) -> None:
    """Limits: page size 1 to 100, default 25."""
    with client.service.database.transaction() as connection, connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO vehicles (id, company_id, unit_number) VALUES (%s, %s, %s)",
            [(new_id(), client.fleet.company_id, f"U{number}") for number in range(103)],
        )

    assert len(ids(client, "/v1/vehicles")) == 25
    assert len(ids(client, "/v1/vehicles", limit=1)) == 1
    assert len(ids(client, "/v1/vehicles", limit=100)) == 100
    assert len(ids(client, "/v1/vehicles", limit=100, offset=100)) == 5
    assert total(client, "/v1/vehicles") == 105


# --- vehicles and drivers --------------------------------------------------------------------------------------


def test_vehicles_are_found_by_exact_unit_number_and_vin(client: Client) -> None:
    """GET /v1/vehicles: `unitNumber` and `vin`, exact."""
    first, second = client.fleet.shown_trucks

    assert ids(client, "/v1/vehicles") == [first, second]
    assert ids(client, "/v1/vehicles", unitNumber="102") == [second]
    assert ids(client, "/v1/vehicles", vin="1XKAD49X0CJ000101") == [first]
    assert ids(client, "/v1/vehicles", unitNumber="101", vin="1XKAD49X0CJ000101") == [first]
    assert ids(client, "/v1/vehicles", unitNumber="101", vin="1XKAD49X0CJ000102") == []
    for unknown in ("10", "1011", " 101", "", "%", "null", "10_"):
        assert ids(client, "/v1/vehicles", unitNumber=unknown) == []
    assert ids(client, "/v1/vehicles", vin="1xkad49x0cj000101") == []
    assert total(client, "/v1/vehicles", unitNumber="102") == 1


def test_drivers_are_found_by_part_of_their_name(client: Client) -> None:
    """GET /v1/drivers: `name`, a case-insensitive substring of the full name, and no pattern."""
    ann, bo = client.fleet.shown_drivers
    with client.service.database.transaction() as connection:
        connection.execute(
            "UPDATE drivers SET name = %s, display_name = 'Bo' WHERE id = %s", ("Zoë Núñez-100%_Ñ", stored_id(bo))
        )

    assert ids(client, "/v1/drivers") == [ann, bo]
    for part in ("Ann Lee", "ann", "N L", "LEE", "e"):
        assert ann in ids(client, "/v1/drivers", name=part)
    for part in ("zoë", "100%", "%_", "-100%_Ñ"):
        assert ids(client, "/v1/drivers", name=part) == [bo]
    for part in ("Bo", "Ann  Lee", "_", "%L", "null", ".*"):
        assert ann not in ids(client, "/v1/drivers", name=part)
    assert ids(client, "/v1/drivers", name="") == [ann, bo]
    assert total(client, "/v1/drivers", name="ann") == 1


@pytest.mark.parametrize("part", ["NÚÑEZ", "núñez", "ZOË", "ñ"])
def test_searches_ignore_the_case_of_every_letter(client: Client, part: str) -> None:
    """GET /v1/drivers: case-insensitive, for names beyond ASCII as well."""
    with client.service.database.transaction() as connection:
        connection.execute("UPDATE drivers SET name = 'Zoë Núñez' WHERE id = %s", (client.fleet.drivers[1],))

    assert ids(client, "/v1/drivers", name=part) == [client.fleet.shown_drivers[1]]


def test_a_driver_without_a_name_is_listed_but_not_found_by_name(client: Client) -> None:
    """Driver.name is nullable."""
    with client.service.database.transaction() as connection:
        connection.execute("UPDATE drivers SET name = NULL WHERE id = %s", (client.fleet.drivers[0],))

    assert len(ids(client, "/v1/drivers")) == 2
    assert ids(client, "/v1/drivers", name="a") == [client.fleet.shown_drivers[1]]


# --- bounds ----------------------------------------------------------------------------------------------------

LISTS = ("/v1/routes", "/v1/vehicles", "/v1/drivers")
NO_NUMBERS = ["", " ", "x", "1.5", "+5", " 5", "0x10", "1_0", "\u0663", "null", "true", "NaN", "1" * 5000]
NO_TIMES = ["", "now", "2026-12-01", "2026-12-01T08:00:00", "1764576000", "null", "2026-02-30T00:00:00Z"]


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    ("name", "values"),
    [("limit", ["0", "-1", "101", "1000000", *NO_NUMBERS]), ("offset", ["-1", "-9999999999999999999", *NO_NUMBERS])],
)
def test_paging_out_of_bounds_is_refused(client: Client, path: str, name: str, values: list[str]) -> None:
    """Shared query parameters: limit 1 to 100, offset at least 0; decision 12: 400 naming the parameter."""
    for value in values:
        assert invalid_fields(client.get(path, params={name: value})) == [name], value


@pytest.mark.parametrize("name", ["limit", "offset"])
@pytest.mark.parametrize("value", ["1.0", "1e1", "10E-1"])
def test_paging_takes_integers_only(client: Client, name: str, value: str) -> None:
    """Shared query parameters: type integer; another way of writing a number is unreadable (decision 12)."""
    assert invalid_fields(client.get("/v1/routes", params={name: value})) == [name]


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    "query", [{"limit": "1"}, {"limit": "100"}, {"offset": "0"}, {"offset": "2147483648"}, {"offset": "9" * 25}]
)
def test_paging_at_its_bounds_is_accepted(client: Client, path: str, query: dict[str, str]) -> None:
    """Shared query parameters, at their bounds; an offset beyond everything gives an empty page."""
    answer = client.get(path, params=query)

    assert answer.status_code == 200
    assert answer.json()["limit"] == int(query.get("limit", 25))
    assert answer.json()["offset"] == int(query.get("offset", 0))


@pytest.mark.parametrize(
    ("path", "name", "values"),
    [
        ("/v1/routes", "status", ["", "Draft", "DRAFT", "retired", "dropped", "draft,planned", "draft\0"]),
        ("/v1/routes", "status", ["null"]),
        ("/v1/routes", "from", NO_TIMES),
        ("/v1/routes", "to", NO_TIMES),
        ("/v1/routes", "externalId", ["\0", "a\0b"]),
        ("/v1/routes", "vehicleId", ["\0"]),
        ("/v1/vehicles", "unitNumber", ["\0"]),
        ("/v1/vehicles", "vin", ["", "x" * 16, "x" * 18, "null", "x" * 16 + "\0"]),
        ("/v1/drivers", "name", ["\0", "a\0"]),
        *((path, name, [b"\xff", b"M\xdcLLER", b"\xed\xa0\x80"]) for path in LISTS for name in ("limit", "offset")),
        *(("/v1/routes", name, [b"M\xdcLLER"]) for name in ("status", "externalId", "vehicleId", "from", "to")),
        ("/v1/vehicles", "unitNumber", [b"\xff", b"M\xdcLLER", b"\xed\xa0\x80"]),
        ("/v1/vehicles", "vin", [b"1XKAD49X0CJ00010\xff"]),
        ("/v1/drivers", "name", [b"\xff", b"M\xdcLLER"]),
    ],
)
def test_an_unreadable_filter_is_refused(client: Client, path: str, name: str, values: list[str | bytes]) -> None:
    """Decision 12: a query parameter that is out of bounds or unreadable is 400 with `field` naming it."""
    for value in values:
        assert invalid_fields(client.get(f"{path}?{name}={quote(value)}")) == [name], value


def test_an_unreadable_parameter_of_no_meaning_is_ignored(client: Client) -> None:
    """Like unknown fields of a body; decision 13."""
    assert client.get("/v1/drivers?%FF=1&x=%FF&n%C3%A4me=Ann&limit=1").json()["limit"] == 1


def test_all_bad_parameters_are_listed(client: Client) -> None:
    """validation_error: every invalid one at once."""
    query = {"limit": "0", "offset": "-1", "status": "x", "from": "x", "to": "x"}

    assert invalid_fields(client.get("/v1/routes", params=query)) == sorted(query)


@pytest.mark.parametrize("path", LISTS)
def test_unknown_parameters_are_ignored(client: Client, path: str) -> None:
    """Like unknown fields of a body."""
    assert client.get(path, params={"page": "2", "Limit": "x", "external_id": "x"}).status_code == 200


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    "query", ["%FF=%FF", "limit", "=", "&&&", "limit=5&", "name=%ED%A0%80&externalId=%FF%FE", "%00=1"]
)
def test_strange_queries_cause_no_server_error(client: Client, path: str, query: str) -> None:
    """Unreadable text in a query is at worst a 400."""
    assert client.get(f"{path}?{query}").status_code in (200, 400)
