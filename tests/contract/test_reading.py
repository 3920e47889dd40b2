"""GET: the exact shape of every resource, routes in every status, and cheap polling."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.contract import shapes
from tests.contract.checks import accepted, put_in_status
from tests.factories import JOLIET, NEWARK, PERRYSBURG, PLAN, route_body
from tests.rows import stored_id
from tests.service import Client, eventually

ALL = sorted(shapes.STATUSES)
HELD = {"pending", "pending_mapping", "pending_window"}


def route_in(client: Client, status: str, now: datetime) -> dict[str, Any]:
    """A route with a plan behind it, put into a status."""
    route_id = str(accepted(client.push(route_body(now)), 201)["id"])
    put_in_status(client, route_id, status, plan=PLAN)
    return client.route(route_id)


# --- shapes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ALL)
def test_a_route_has_exactly_its_fields_in_every_status(client: Client, now: datetime, status: str) -> None:
    """Route, RouteStop, RouteVehicle, RouteDriver, FuelPlan, FuelPlanStop: every field, none more."""
    route = route_in(client, status, now)

    assert shapes.ROUTE(route)
    assert route["status"] == status
    assert client.get("/v1/routes").json()["data"] == [route]


@pytest.mark.parametrize("status", ALL)
def test_pending_is_filled_while_held_and_null_otherwise(client: Client, now: datetime, status: str) -> None:
    """Route.pending: why the route is held when `status` is a `pending*` value; `null` otherwise."""
    assert (route_in(client, status, now)["pending"] is not None) == (status in HELD)


@pytest.mark.parametrize("status", ALL)
def test_the_fuel_plan_is_shown_from_planned_on(client: Client, now: datetime, status: str) -> None:
    """Route.fuelPlan: null while held or draft, the plan once planned; decision 6: null in error and canceled;
    decision 7: the plan's own status follows the route."""
    plan = route_in(client, status, now)["fuelPlan"]

    if status in ("planned", "active", "completed"):
        assert plan == {**PLAN, "status": status}
    else:
        assert plan is None


@pytest.mark.parametrize("status", ALL)
def test_fuel_stops_join_the_timeline_once_active(client: Client, now: datetime, status: str) -> None:
    """RouteStop.type: `fuel_stop` entries appear once a plan is active; the sequence counts on through them."""
    stops = route_in(client, status, now)["stops"]

    assert [stop["sequence"] for stop in stops] == list(range(len(stops)))
    if status in ("active", "completed"):
        assert [(stop["type"], stop["name"]) for stop in stops] == [
            ("waypoint", "Joliet terminal"),
            ("fuel_stop", "Lakeside Travel Plaza"),
            ("fuel_stop", "Keystone Fuel"),
            ("destination", "Port Newark"),
        ]
        assert [stop["plannedArrival"] for stop in stops[1:3]] == ["2026-11-20T15:00:00Z", None]
    else:
        assert [stop["type"] for stop in stops] == ["waypoint", "destination"]


def test_stops_show_the_times_of_the_plan_and_of_the_truck(client: Client, now: datetime) -> None:
    """RouteStop: plannedArrival, and actualArrival and actualDeparture from the truck's GPS."""
    route = route_in(client, "planned", now)
    with client.service.database.transaction() as connection:
        connection.execute(
            "INSERT INTO visits (company_id, environment, route_id, stop, arrived_at, departed_at, arrival_evidence)"
            " SELECT company_id, environment, id, 0, '2026-11-20T05:00:00-06:00', '2026-11-20T05:30:00.25-06:00', '{}'"
            " FROM routes WHERE id = %s",
            (stored_id(route["id"]),),
        )
        connection.execute("UPDATE routes SET arrived_at = now() WHERE id = %s", (stored_id(route["id"]),))

    first, last = client.route(route["id"])["stops"]

    assert first["plannedArrival"] == "2026-11-20T11:00:00Z"
    assert first["actualArrival"] == "2026-11-20T11:00:00Z"
    assert first["actualDeparture"] == "2026-11-20T11:30:00.250000Z"
    assert last["plannedArrival"] == "2026-11-21T04:00:00Z"
    assert (last["actualArrival"], last["actualDeparture"]) == (None, None)


def test_a_held_route_has_the_shape_too(client: Client, now: datetime) -> None:
    """Route while unmatched: ids are null, and what was pushed is shown (decision 19)."""
    body = route_body(now, vehicle={"unitNumber": "999"}, driver={"name": "Nobody"}, stops=[JOLIET, PERRYSBURG, NEWARK])
    route = accepted(client.push(body), 202)

    assert shapes.ROUTE(route)
    assert route["vehicle"] == {"id": None, "unitNumber": "999"}
    assert route["driver"] == {"id": None, "name": "Nobody"}
    assert [stop["type"] for stop in route["stops"]] == ["waypoint", "waypoint", "destination"]
    assert route["distanceMiles"] is None
    assert client.route(route["id"]) == route


def test_a_vin_or_external_id_gives_no_name_until_it_is_matched(client: Client, now: datetime) -> None:
    """RouteVehicle.unitNumber and RouteDriver.name are nullable; once matched they are the stored record's."""
    by_id = {"vehicle": {"vin": "1XKAD49X0CJ000102"}, "driver": {"externalId": "D-2"}}
    matched = accepted(client.push(route_body(now, **by_id)), 201)
    unknown = {"vehicle": {"vin": "1XKAD49X0CJ999999"}, "driver": {"externalId": "D-9"}}
    held = accepted(client.push(route_body(now, **unknown)), 202)

    assert matched["vehicle"] == {"id": client.fleet.shown_trucks[1], "unitNumber": "102"}
    assert matched["driver"] == {"id": client.fleet.shown_drivers[1], "name": "Bo Diaz"}
    assert held["vehicle"] == {"id": None, "unitNumber": None}
    assert held["driver"] == {"id": None, "name": None}


def test_a_vehicle_matched_by_vin_shows_its_own_unit_number_even_when_it_has_none(
    client: Client, now: datetime
) -> None:
    """Decision 19: the stored record once matched."""
    with client.service.database.transaction() as connection:
        connection.execute("UPDATE vehicles SET unit_number = NULL WHERE id = %s", (client.fleet.trucks[0],))

    route = accepted(client.push(route_body(now, vehicle={"vin": "1XKAD49X0CJ000101"})), 201)

    assert route["vehicle"] == {"id": client.fleet.shown_trucks[0], "unitNumber": None}


@pytest.mark.parametrize(
    ("path", "check"),
    [
        ("/v1/me", shapes.ME),
        ("/v1/routes", shapes.page(shapes.ROUTE)),
        ("/v1/vehicles", shapes.page(shapes.VEHICLE)),
        ("/v1/drivers", shapes.page(shapes.DRIVER)),
    ],
)
def test_every_resource_has_exactly_its_fields(client: Client, now: datetime, path: str, check: shapes.Check) -> None:
    """Resources and their fields: Me, the page envelopes, Vehicle and Driver."""
    accepted(client.push(route_body(now)), 201)

    answer = client.get(path)

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert check(answer.json())


def test_vehicles_show_what_is_stored(client: Client) -> None:
    """Vehicle: every field, with and without a value."""
    with client.service.database.transaction() as connection:
        connection.execute(
            "UPDATE vehicles SET license_plate = 'P1', make = 'Kenworth', model = 'T680', year = '2021',"
            " fuel_tank_capacity_gallons = 240.5 WHERE id = %s",
            (client.fleet.trucks[0],),
        )
        connection.execute(
            "UPDATE vehicles SET vin = NULL, fuel_tank_capacity_gallons = NULL WHERE id = %s", (client.fleet.trucks[1],)
        )

    full, bare = client.get("/v1/vehicles").json()["data"]

    assert full == {
        "id": client.fleet.shown_trucks[0],
        "unitNumber": "101",
        "vin": "1XKAD49X0CJ000101",
        "licensePlate": "P1",
        "make": "Kenworth",
        "model": "T680",
        "year": "2021",
        "fuelTankCapacityGallons": 240.5,
    }
    assert bare == {**dict.fromkeys(full), "id": client.fleet.shown_trucks[1], "unitNumber": "102"}


def test_drivers_show_what_is_stored(client: Client) -> None:
    """Driver: every field, with and without a value; the contact stays inside."""
    with client.service.database.transaction() as connection:
        connection.execute(
            "UPDATE drivers SET display_name = 'Annie', contact = 'json://localhost' WHERE id = %s",
            (client.fleet.drivers[0],),
        )
        connection.execute(
            "UPDATE drivers SET name = NULL, external_id = NULL WHERE id = %s", (client.fleet.drivers[1],)
        )

    assert client.get("/v1/drivers").json()["data"] == [
        {"id": client.fleet.shown_drivers[0], "name": "Ann Lee", "displayName": "Annie", "externalId": "D-1"},
        {"id": client.fleet.shown_drivers[1], "name": None, "displayName": None, "externalId": None},
    ]


def test_ids_are_prefixed_and_sortable(client: Client, now: datetime) -> None:
    """Decision 18: `cmp_`, `key_`, `veh_`, `drv_`, `rte_`."""
    first, second = (accepted(client.push(route_body(now)), 201) for _ in range(2))
    me = client.get("/v1/me").json()

    assert first["id"].startswith("rte_")
    assert first["id"] < second["id"]
    assert me["company"]["id"].startswith("cmp_")
    assert me["key"]["id"].startswith("key_")
    assert first["vehicle"]["id"].startswith("veh_")
    assert first["driver"]["id"].startswith("drv_")


def test_created_at_is_the_time_of_the_push(client: Client, now: datetime) -> None:
    """Route.createdAt, in UTC."""
    before = datetime.now(UTC) - timedelta(seconds=1)

    created_at = datetime.fromisoformat(accepted(client.push(route_body(now)), 201)["createdAt"])

    assert before <= created_at <= datetime.now(UTC) + timedelta(seconds=1)


# --- polling ---------------------------------------------------------------------------------------------------


@pytest.fixture
def polled(client: Client, now: datetime) -> str:
    """The path of a draft."""
    return f"/v1/routes/{accepted(client.push(route_body(now)), 201)['id']}"


def test_an_unchanged_route_is_answered_without_a_body(client: Client, polled: str) -> None:
    """Decision 16: ETag and If-None-Match on GET /v1/routes/{id}."""
    first = client.get(polled)
    tag = first.headers["ETag"]

    known: list[list[str]] = [[tag], [f"W/{tag}"], [f'"other", {tag}'], [f'"other",{tag} , "third"'], ["*"]]
    for header in (*known, ['"other"', tag], [tag, '"other"']):  # several lines are one list, in their order
        again = client.get(polled, headers=[("If-None-Match", line) for line in header])
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag), header
        assert again.headers["X-Request-Id"]
    for other in ('"other"', tag.strip('"'), "", '""'):
        again = client.get(polled, headers={"If-None-Match": other})
        assert (again.status_code, again.json()) == (200, first.json()), other


def test_every_change_of_a_route_changes_its_etag(client: Client, polled: str) -> None:
    """Decision 16: a poller misses nothing."""
    route = client.get(polled).json()
    tags = [client.get(polled).headers["ETag"]]

    body = route_body(datetime.fromisoformat(route["scheduledStart"]), externalId=route["externalId"], reference="PO-1")
    accepted(client.push(body), 200)
    tags.append(client.get(polled).headers["ETag"])
    for status in ("planned", "active", "completed"):
        put_in_status(client, route["id"], status, plan=PLAN)
        answer = client.get(polled, headers={"If-None-Match": ", ".join(tags)})
        assert answer.status_code == 200
        tags.append(answer.headers["ETag"])

    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize(
    ("table", "column", "pushed"), [("vehicles", "unit_number", "101"), ("drivers", "name", "Ann Lee")]
)
def test_a_name_that_the_matched_record_gets_changes_the_etag(
    client: Client, now: datetime, table: str, column: str, pushed: str
) -> None:
    """Decision 16: a poller misses nothing, not even where the new name is the one that was pushed."""
    record = (client.fleet.trucks if table == "vehicles" else client.fleet.drivers)[0]
    kind = "unit_number" if table == "vehicles" else "driver_name"
    with client.service.database.transaction() as connection:
        connection.execute(f"UPDATE {table} SET {column} = NULL WHERE id = %s", (record,))
        connection.execute(
            "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, %s, %s, %s)",
            (client.fleet.company_id, kind, pushed, record),
        )
    path = f"/v1/routes/{accepted(client.push(route_body(now)), 201)['id']}"
    before = client.get(path)

    with client.service.database.transaction() as connection:
        connection.execute(f"UPDATE {table} SET {column} = %s WHERE id = %s", (pushed, record))

    after = client.get(path, headers={"If-None-Match": before.headers["ETag"]})
    assert after.status_code == 200
    assert after.json() != before.json()


@pytest.mark.parametrize(
    "path", ["{route}", "/v1/me", "/v1/routes", "/v1/routes?limit=0", "/v1/routes/x", "/v1/vehicles", "/v1/drivers"]
)
def test_head_answers_like_get_without_a_body(client: Client, polled: str, path: str) -> None:
    """HTTP: what is true of GET is true of HEAD."""
    head, get = (client.request(method, path.format(route=polled)) for method in ("HEAD", "GET"))

    assert (head.status_code, head.content) == (get.status_code, b"")
    for name in ("ETag", "Content-Type", "Content-Length", "Link"):
        assert head.headers.get(name) == get.headers.get(name)


def test_a_read_changes_nothing(client: Client, polled: str) -> None:
    """GET is safe: two answers in a row are equal."""
    assert client.get(polled).content == client.get(polled).content


@pytest.mark.parametrize("path", ["/v1/routes", "/v1/routes?status=draft", "/v1/vehicles", "/v1/drivers"])
def test_an_unchanged_list_is_answered_without_a_body(client: Client, polled: str, path: str) -> None:
    """Decision 16: ETag and If-None-Match, on lists too."""
    first = client.get(path)
    tag = {"If-None-Match": first.headers["ETag"]}

    again = client.get(path, headers=tag)
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", first.headers["ETag"])
    if path.startswith("/v1/routes"):
        assert client.delete(polled).status_code == 204
        assert client.get(path, headers=tag).status_code == 200


def test_a_caller_follows_the_changes_of_routes(client: Client, now: datetime) -> None:
    """Added to version 1.0.0: `updatedSince`, then `cursor`."""
    before = (now - timedelta(minutes=1)).isoformat()
    routes = [accepted(client.push(route_body(now)), 201) for _ in range(3)]

    first = changes(client, 3, updatedSince=before, limit=2)
    rest = changes(client, 1, cursor=first["nextCursor"])
    assert sorted(route["id"] for page in (first, rest) for route in page["data"]) == [route["id"] for route in routes]

    assert client.delete(f"/v1/routes/{routes[0]['id']}").status_code == 204
    (canceled,) = changes(client, 1, cursor=rest["nextCursor"])["data"]
    assert (canceled["id"], canceled["status"]) == (routes[0]["id"], "canceled")


def changes(client: Client, expected: int, **query: Any) -> Any:
    """A page, once it counts so many changes: transactions of other tests may hold up the last ones."""

    def page() -> Any:
        answer = client.get("/v1/routes", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return eventually(page, lambda one: one["total"] == expected)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"updatedSince": "yesterday"}, "updatedSince"),
        ({"updatedSince": "2026-01-01T00:00:00Z", "status": "draft"}, "updatedSince"),
        ({"updatedSince": "2026-01-01T00:00:00Z", "offset": "1"}, "updatedSince"),
        ({"updatedSince": "2026-01-01T00:00:00Z", "cursor": "x"}, "cursor"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "x", "externalId": "y"}, "cursor"),
        ({"cursor": ""}, "cursor"),
    ],
)
def test_a_query_of_changes_that_cannot_be_read_is_refused(client: Client, query: dict[str, str], field: str) -> None:
    """Decision 12: 400 `validation_error` with `field` naming the parameter."""
    answer = client.get("/v1/routes", params=query)
    assert (answer.status_code, [fault["field"] for fault in answer.json()["errors"]]) == (400, [field])
