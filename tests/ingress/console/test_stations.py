"""The pages Stations, Deals and Taxes: operators edit what is the same for all, owners their company's deals."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.ids import new_id
from domain.lifecycle import Role
from tests.factories import Fleet
from tests.ingress.console.conftest import Browser, Fields, World, words
from tests.ingress.console.records import form_of, stored_rows
from tests.ingress.console.test_csv_files import tricky
from tests.ingress.console.uploads import exported, import_file, rows_of, send
from tests.repeatable import examples


@pytest.fixture
def station_id(world: World) -> Iterator[str]:
    """The id of a station that only this test knows: stations belong to nobody."""
    one = f"S-{new_id().hex}"
    with world.database.transaction() as connection:
        connection.execute(
            "INSERT INTO stations (station_id, name, latitude, longitude, brand, state, retail_price, priced_at)"
            " VALUES (%s, 'Lakeside', 41.7, -86, 'Pilot', 'IN', 3.899, %s)",
            (one, datetime.now(UTC) - timedelta(days=3)),
        )
    yield one
    with world.database.transaction() as connection:
        connection.execute("DELETE FROM station_closures WHERE station_id = %s", (one,))
        connection.execute("DELETE FROM stations WHERE station_id = %s", (one,))


@pytest.fixture
def no_taxes(world: World) -> Iterator[None]:
    """Taxes belong to nobody either, so these tests look at all of them."""
    with world.database.transaction() as connection:
        connection.execute("DELETE FROM fuel_taxes")
    yield
    with world.database.transaction() as connection:
        connection.execute("DELETE FROM fuel_taxes")


def station(world: World, station_id: str) -> tuple[Any, ...]:
    (row,) = stored_rows(
        world,
        "SELECT name, latitude, longitude, brand, retail_price, priced_at, retired_at FROM stations"
        " WHERE station_id = %s",
        station_id,
    )
    return row


def newest_price_set(world: World) -> int:
    ((newest,),) = stored_rows(world, "SELECT coalesce(max(id), 0) FROM price_sets")
    return int(newest)


def deals_of(world: World, fleet: Fleet) -> list[tuple[Any, ...]]:
    return stored_rows(
        world,
        "SELECT station_id, brand, discount_per_gallon, net_price, valid_from, valid_to FROM deals"
        " WHERE company_id = %s ORDER BY id",
        fleet.company_id,
    )


# --- Stations ----------------------------------------------------------------------------------------------------


def test_every_role_searches_stations_and_only_operators_change_them(world: World, station_id: str) -> None:
    for role in (Role.VIEWER, Role.DISPATCHER, Role.OWNER):
        browser = world.browser(role)
        assert "1 station" in words(browser.look("/stations", q=station_id[:30].upper()))
        page = browser.look("/stations/one", id=station_id)
        assert "Lakeside" in page
        forms = re.findall(r'<form [^>]*action="([^"]*)"', page[page.index("<main") :])
        assert forms == ([] if role is Role.VIEWER else ["/stations/close"])
        assert station_id in exported(browser, "stations")
        fields: Fields = {"id": station_id, "name": "Mine", "station_id": station_id}
        for path in ("/stations/one", "/stations/new", "/stations/end", "/taxes/new", "/taxes/one", "/taxes/end"):
            assert browser.submit(path, **fields).status_code == 403
        assert "Not found" in send(browser, "stations", "station_id\n", status=404)
        assert "Not found" in send(browser, "taxes", "state\n", status=404)


def test_a_dispatcher_closes_a_station_for_his_company_and_opens_it_again(world: World, station_id: str) -> None:
    fleet = world.new_fleet(time_zone="America/Chicago")
    browser, other = world.browser(Role.DISPATCHER, fleet), world.browser(Role.DISPATCHER)
    browser.look("/stations/one", id=station_id)
    until = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(hours=5)
    local = f"{until.astimezone(ZoneInfo('America/Chicago')):%Y-%m-%dT%H:%M}"

    answer = browser.submit("/stations/close", id=station_id, until=local, for_all="yes", reason="no diesel")

    page = browser.look(answer.headers["location"])
    assert "for your company: no diesel" in words(page)
    assert closures(world, station_id) == [(fleet.company_id, until, "no diesel")]
    assert "1 station closed now" in words(browser.look("/stations"))
    assert "no diesel" not in words(other.look("/stations/one", id=station_id))
    assert other.submit("/stations/reopen", id=station_id).status_code == 303
    assert len(closures(world, station_id)) == 1, "it is not the other company's"

    answer = browser.submit("/stations/reopen", id=station_id)

    assert "It is open again." in browser.look(answer.headers["location"])
    assert closures(world, station_id) == []
    done = stored_rows(
        world, "SELECT action, reason FROM audit_log WHERE company_id = %s ORDER BY id", fleet.company_id
    )
    assert done == [("stations.close", "no diesel"), ("stations.reopen", "open again")]


def test_an_operator_closes_a_station_for_all(world: World, operator: Browser, station_id: str) -> None:
    operator.look("/stations/one", id=station_id)
    until = f"{datetime.now(UTC) + timedelta(hours=5):%Y-%m-%dT%H:%M}"
    assert operator.submit("/stations/close", id=station_id, until=until, for_all="yes").status_code == 303
    ((company_id, *_),) = closures(world, station_id)
    assert company_id is None
    owner = world.browser(Role.OWNER)
    assert "for all companies" in words(owner.look("/stations/one", id=station_id))
    assert owner.submit("/stations/reopen", id=station_id, for_all="yes").status_code == 303
    assert len(closures(world, station_id)) == 1, "only an operator opens it for all"
    assert operator.submit("/stations/reopen", id=station_id, for_all="yes").status_code == 303
    assert closures(world, station_id) == []


@pytest.mark.parametrize(
    ("until", "sentence"), [("2020-01-01T00:00", "over already"), ("2099-01-01T00:00", "retire"), ("soon", "no time")]
)
def test_a_time_that_makes_no_sense_closes_no_station(
    world: World, operator: Browser, station_id: str, until: str, sentence: str
) -> None:
    operator.look("/stations/one", id=station_id)
    answer = operator.submit("/stations/close", id=station_id, until=until, for_all="yes")
    assert answer.status_code in (400, 409)
    assert sentence in answer.text
    assert closures(world, station_id) == []


def test_a_viewer_closes_no_station(world: World, station_id: str) -> None:
    viewer = world.browser(Role.VIEWER)
    for path in ("/stations/close", "/stations/reopen"):
        assert viewer.submit(path, id=station_id, until="2099-01-01T00:00").status_code == 403


def closures(world: World, station_id: str) -> list[tuple[Any, ...]]:
    return stored_rows(
        world, "SELECT company_id, closed_until, reason FROM station_closures WHERE station_id = %s", station_id
    )


def test_a_station_is_edited_and_plans_are_reviewed(world: World, operator: Browser, station_id: str) -> None:
    """The operator chooses no company: stations belong to none."""
    before, newest = station(world, station_id), newest_price_set(world)
    fields = form_of(operator, "/stations/one", id=station_id)
    assert fields["longitude"] == "-86"
    assert fields["retail_price"] == "3.899"

    answer = operator.submit("/stations/one", **fields | {"name": "Lakeside Plaza"})

    assert "change: Name" in words(operator.look(answer.headers["location"]))
    after = station(world, station_id)
    assert after[0] == "Lakeside Plaza"
    assert after[1:] == before[1:], "a price that was not touched is as old as it was"
    assert newest_price_set(world) > newest
    fields = form_of(operator, "/stations/one", id=station_id)
    assert operator.submit("/stations/one", **fields | {"price_checked": "yes"}).status_code == 303
    assert datetime.now(UTC) - station(world, station_id)[5] < timedelta(minutes=1)
    fields = form_of(operator, "/stations/one", id=station_id)
    assert operator.submit("/stations/one", **fields | {"retail_price": ""}).status_code == 303
    assert station(world, station_id)[4:6] == (None, None)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"latitude": "91"}, "Latitude: Expected a number <= 90"),
        ({"latitude": "0", "longitude": "0"}, "0, 0 is a place in the sea"),
        ({"retail_price": "free"}, "Retail price, dollars a gallon: Expected a number"),
        ({"name": ""}, "Name: Required"),
    ],
)
def test_a_bad_station_is_refused(
    world: World, operator: Browser, station_id: str, changes: Fields, sentence: str
) -> None:
    before = station(world, station_id)
    answer = operator.submit("/stations/one", **form_of(operator, "/stations/one", id=station_id) | changes)
    assert answer.status_code == 400
    assert sentence in words(answer.text)
    assert station(world, station_id) == before


def test_a_station_is_added_once_retired_and_brought_back(world: World, operator: Browser, station_id: str) -> None:
    fields: Fields = {"station_id": station_id, "name": "Twin", "latitude": "40", "longitude": "-80"}
    operator.look("/stations/new")
    answer = operator.submit("/stations/new", **fields)
    assert answer.status_code == 409
    assert "already: search for it" in words(answer.text)
    assert station(world, station_id)[0] == "Lakeside"
    operator.submit("/stations/end", id=station_id)
    assert station(world, station_id)[6] is not None
    assert station_id not in exported(operator, "stations"), "an import of the export would bring it back"
    assert operator.submit("/stations/end", id=station_id).status_code == 409
    assert "Lakeside" in operator.look("/stations", q=station_id, retired="yes")
    assert operator.submit("/stations/one", **form_of(operator, "/stations/one", id=station_id)).status_code == 303
    assert station(world, station_id)[6] is None


def test_the_page_of_an_import_counts_the_prices_that_it_removed(
    world: World, operator: Browser, station_id: str
) -> None:
    header = "station_id,name,brand,latitude,longitude,retail_price\n"

    said = import_file(operator, "stations", f"{header}{station_id},Lakeside,Pilot,41.7,-86,\n")

    assert "0 rows added, 1 changed, 0 unchanged" in said
    assert "Stored values that the file removed: retail_price of 1 row ." in said
    assert station(world, station_id)[4] is None
    again = import_file(operator, "stations", f"{header}{station_id},Lakeside,Pilot,41.7,-86,\n")
    assert "the file removed" not in again


def test_stations_are_imported_with_bad_lines(world: World, operator: Browser, station_id: str) -> None:
    said = import_file(
        operator,
        "stations",
        f"station_id,name,latitude,longitude,retail_price\n{station_id},New name,41.7,-86,3.5\n"
        f"{station_id},Again,1,1,\n"
        "X,Nowhere,0,0,\nY,No place,,,\n",
    )
    assert "0 rows added, 1 changed, 0 unchanged; 3 rows are refused" in said
    assert "3 station_id" in said
    assert "is already on line 2" in said
    assert "4 latitude: 0, 0 is a place in the sea" in said
    assert "5 latitude: Required; longitude: Required" in said
    assert station(world, station_id)[0] == "New name"
    text = exported(operator, "stations")
    (row,) = (row for row in rows_of(text) if row["station_id"] == station_id)
    assert (row["longitude"], row["retail_price"]) == ("-86", "3.5")
    before = station(world, station_id)
    assert " 0 rows added, 0 changed" in import_file(operator, "stations", text)
    assert station(world, station_id) == before


# --- Deals -------------------------------------------------------------------------------------------------------


def test_an_owner_edits_deals_and_other_roles_only_read_them(world: World) -> None:
    fleet = world.new_fleet()
    owner = world.browser(Role.OWNER, fleet)
    owner.look("/deals/new")
    answer = owner.submit("/deals/new", brand="Pilot", discount_per_gallon="0.35", valid_from="2026-01-01")
    address = answer.headers["location"]
    assert "Deal for Pilot" in words(owner.look(address))
    fields = form_of(owner, address)
    assert owner.submit("/deals/one", **fields | {"discount_per_gallon": "0.4"}).status_code == 303
    assert deals_of(world, fleet) == [(None, "Pilot", 0.4, None, date(2026, 1, 1), None)]
    assert "change: Discount, dollars a gallon" in words(owner.look(address))
    for role in (Role.DISPATCHER, Role.VIEWER):
        browser = world.browser(role, fleet)
        assert "Pilot" in browser.look("/deals")
        page = browser.look(address)
        assert "<form" not in page[page.index("<main") :]
        assert browser.submit("/deals/one", **fields).status_code == 403
        assert browser.submit("/deals/end", id=fields["id"]).status_code == 403
        assert "Not found" in send(browser, "deals", "brand\n", status=404)
    stranger = world.browser(Role.OWNER)
    stranger.look(address, status=404)
    assert stranger.submit("/deals/one", **fields).status_code == 404
    assert stranger.submit("/deals/end", id=fields["id"]).status_code == 404
    assert "Pilot" not in exported(stranger, "deals")
    assert owner.submit("/deals/end", id=fields["id"]).headers["location"] == "/deals?done=removed"
    assert deals_of(world, fleet) == []


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"brand": "Pilot"}, "exactly one of discount_per_gallon and net_price is needed"),
        ({"brand": "Pilot", "station_id": "1", "net_price": "3"}, "exactly one of station_id and brand is needed"),
        ({"brand": "Pilot", "net_price": "-3"}, "Net price, dollars a gallon: Expected a number > 0"),
        ({"brand": "Pilot", "net_price": "3", "valid_from": "soon"}, "First day:"),
        (
            {"brand": "Pilot", "net_price": "3", "valid_from": "2026-02-01", "valid_to": "2026-01-01"},
            "valid_to is before valid_from",
        ),
        (
            {"brand": "Loves", "net_price": "3", "valid_from": "2026-02-01"},
            "There is a deal for this place from 2026-02-01 on already",
        ),
    ],
)
def test_a_bad_deal_is_refused(world: World, fields: Fields, sentence: str) -> None:
    fleet = world.new_fleet()
    owner = world.browser(Role.OWNER, fleet)
    import_file(owner, "deals", "brand,net_price,valid_from\nLoves,3.1,2026-02-01\n")
    before = deals_of(world, fleet)
    owner.look("/deals/new")
    answer = owner.submit("/deals/new", **fields)
    assert answer.status_code in (400, 409)
    assert sentence in words(answer.text)
    assert deals_of(world, fleet) == before


days = st.none() | st.dates(min_value=date(2000, 1, 1), max_value=date(2100, 1, 1))
deals = st.tuples(tricky, st.booleans(), st.floats(min_value=0.001, max_value=99), st.booleans(), days)


@given(st.lists(deals, max_size=6, unique_by=lambda deal: (deal[0], deal[1], deal[4])))
@hypothesis_settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_deals_survive_an_export_and_an_import(world: World, rows: Sequence[tuple[Any, ...]]) -> None:
    ours, others = world.new_fleet(), world.new_fleet()
    with world.database.transaction() as connection:
        for place, is_station, price, is_net, day in rows:
            connection.execute(
                "INSERT INTO deals (company_id, station_id, brand, discount_per_gallon, net_price, valid_from)"
                " VALUES (%s, %s, %s, %s, %s, %s)",
                (
                    ours.company_id,
                    *((place, None) if is_station else (None, place)),
                    *((None, price) if is_net else (price, None)),
                    day,
                ),
            )
    before = deals_of(world, ours)
    browser = world.browser(Role.OWNER, ours)
    text = exported(browser, "deals")
    assert f"0 rows added, 0 changed, {len(rows)} unchanged" in import_file(browser, "deals", text)
    assert deals_of(world, ours) == before
    import_file(world.browser(Role.OWNER, others), "deals", text)
    assert sorted(map(str, deals_of(world, others))) == sorted(map(str, before))


# --- Taxes -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_taxes")
def test_an_operator_edits_taxes(world: World, operator: Browser) -> None:
    operator.look("/taxes/new")
    answer = operator.submit("/taxes/new", state="IN", valid_from="2026-01-01", rate_per_gallon="0.61")
    assert answer.headers["location"] == f"/taxes/one?{urlencode({'id': 'IN 2026-01-01', 'done': 'added'})}"
    fields = form_of(operator, "/taxes/one", id="IN 2026-01-01")
    assert fields["surcharge_per_gallon"] == "0"
    assert operator.submit("/taxes/one", **fields | {"rate_per_gallon": "0.62"}).status_code == 303
    answer = operator.submit("/taxes/new", state="IN", valid_from="2026-01-01", rate_per_gallon="0.7")
    assert "There is a tax of IN from 2026-01-01 on already" in words(answer.text)
    answer = operator.submit("/taxes/new", state="in", valid_from="2026-13-01", rate_per_gallon="11")
    assert answer.status_code == 400
    for label in ("State:", "First day:", "Rate, dollars a gallon:"):
        assert label in words(answer.text)
    assert "0.62" in world.browser(Role.VIEWER).look("/taxes", q="in")
    said = import_file(operator, "taxes", "state,rate_per_gallon,valid_from\nOH,0.47,2026-01-01\nIN,x,2026-01-01\n")
    assert "1 row added, 0 changed, 0 unchanged; 1 row is refused" in said
    text = exported(operator, "taxes")
    assert [row["state"] for row in rows_of(text)] == ["IN", "OH"]
    assert "0 rows added, 0 changed, 2 unchanged" in import_file(operator, "taxes", text)
    operator.look("/taxes")
    assert operator.submit("/taxes/end", id="OH 2026-01-01").status_code == 303
    assert operator.submit("/taxes/end", id="OH 2026-01-01").status_code == 404
    assert [row["state"] for row in rows_of(exported(operator, "taxes"))] == ["IN"]
