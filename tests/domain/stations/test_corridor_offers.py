"""Offers to a company along a road: stations are found, prices count or do not, and stations are left out."""

from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from domain.database.connections import Connection
from domain.roads import Point
from domain.roads.highways import HighwayRoads
from domain.roads.sphere import densified, miles_of_chords, unit_vectors
from domain.stations.corridor_offers import Corridor, StationPlaces, offers_along
from domain.stations.deals import DealRow, store_deal, store_deal_rows
from domain.stations.offers import Offer
from domain.stations.places import UnknownStation
from domain.stations.stations import set_stations_retired, store_station_rows
from domain.stations.taxes import store_tax_rows
from tests.conftest import own_database
from tests.domain.stations.price_lists import add_station
from tests.factories import DOT, STATIONS, Fleet, make_fleet
from tests.rows import named, rows_read

pytestmark = pytest.mark.usefixtures("no_stations")


@pytest.fixture
def prices(connection: Connection, no_stations: None, now: datetime) -> None:
    store_station_rows(connection, STATIONS, now=now)


ROAD = HighwayRoads().through([Point(41.462, -88.125), Point(40.695, -74.155)])


def corridor_of(connection: Connection, fleet: Fleet, now: datetime, network: StationPlaces | None = None) -> Corridor:
    return offers_along(connection, fleet.company_id, ROAD, 5.0, network or StationPlaces(), now=now)


def prices_near(connection: Connection, fleet: Fleet, now: datetime) -> dict[str, float]:
    return {offer.station.station_id: offer.net_price for offer in corridor_of(connection, fleet, now).offers}


@pytest.mark.usefixtures("prices")
def test_every_station_within_the_limit_is_found_and_no_other(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    found = prices_near(connection, fleet, now)

    dense, _ = densified(ROAD.line, ROAD.line_miles, 0.1)
    vectors = unit_vectors(dense)
    for station in named(connection).execute("SELECT station_id, latitude, longitude FROM stations").fetchall():
        chords = np.linalg.norm(vectors - unit_vectors(np.array([(station.latitude, station.longitude)])), axis=1)
        nearest = miles_of_chords(chords).min()
        assert (station.station_id in found) == (nearest <= 5.0) or abs(nearest - 5.0) < 0.01


def test_stations_at_one_mile_come_in_the_order_of_their_ids(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    for station_id in ("b", "c", "a"):
        add_station(connection, station_id, price=3.5, at=now)
    connection.execute("UPDATE stations SET name = 'renamed' WHERE station_id = 'b'")
    assert [offer.station.station_id for offer in corridor_of(connection, fleet, now).offers] == ["a", "b", "c"]


def first_three(connection: Connection, fleet: Fleet, now: datetime) -> list[Offer]:
    """The offers of three stations of three brands."""
    by_brand = {offer.station.brand: offer for offer in reversed(corridor_of(connection, fleet, now).offers)}
    return list(by_brand.values())[:3]


@pytest.mark.usefixtures("prices")
def test_old_prices_do_not_count_and_deals_are_the_company_s_own(
    connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    one, branded, named = first_three(connection, fleet, now)
    deals = tmp_path / "deals.csv"
    deals.write_text(
        f"station_id,brand,discount_per_gallon,net_price\n{one.station.station_id},,0.30,\n"
        f"{named.station.station_id},,,1.999\n,{branded.station.brand},0.05,\n"
    )
    store_deal_rows(connection, fleet.company_id, deals, now=now)
    other = make_fleet(connection)

    mine, theirs = prices_near(connection, fleet, now), prices_near(connection, other, now)

    assert mine[one.station.station_id] == pytest.approx(one.net_price - 0.30)
    assert mine[branded.station.station_id] == pytest.approx(branded.net_price - 0.05)
    assert mine[named.station.station_id] == 1.999
    assert theirs[one.station.station_id] == one.net_price
    assert prices_near(connection, fleet, now + timedelta(days=8)) == {named.station.station_id: 1.999}


@pytest.mark.parametrize(
    ("brand", "price"),
    [("Love's", 3.5), ("Loves", 3.5), ("LOVE\u2019S", 3.5), ("Love's Express", 3.9), ("\u9053", 3.9)],
)
@pytest.mark.parametrize("days", [None, 1], ids=["always", "until tomorrow"])
def test_a_deal_is_for_a_brand_by_its_words(
    connection: Connection, fleet: Fleet, now: datetime, brand: str, price: float, days: int | None
) -> None:
    add_station(connection, "love", price=3.9, at=now)
    add_station(connection, "nobody", price=3.9, at=now)
    connection.execute("UPDATE stations SET brand = NULL WHERE station_id = 'nobody'")
    last_day = now.date() + timedelta(days=days) if days is not None else None
    store_deal(
        connection,
        fleet.company_id,
        None,
        DealRow(brand=brand, discount_per_gallon=0.4, valid_to=last_day),
        DOT,
        now=now,
    )
    arrivals = None if days is None else lambda miles: [now for _ in miles]

    corridor = offers_along(connection, fleet.company_id, ROAD, 5.0, StationPlaces(), now=now, arrivals=arrivals)

    assert {one.station.station_id: one.net_price for one in corridor.offers} == {"love": price, "nobody": 3.9}


@pytest.mark.usefixtures("prices")
def test_a_deal_holds_on_its_days_in_the_company_s_time_zone(
    connection: Connection, now: datetime, tmp_path: Path
) -> None:
    fleet = make_fleet(connection, time_zone="America/Chicago")
    now = now.replace(hour=2)  # the day before, in Chicago
    today = (now - timedelta(days=1)).date()
    offer = first_three(connection, fleet, now)[0]
    station_id, price = offer.station.station_id, offer.net_price

    def with_days(valid_from: date | None, valid_to: date | None) -> float:
        connection.execute("DELETE FROM deals WHERE company_id = %s", (fleet.company_id,))
        deals = tmp_path / "deals.csv"
        deals.write_text(
            "station_id,net_price,valid_from,valid_to\n"
            f"{station_id},1.999,{valid_from or ''},{valid_to or ''}\n{station_id},1.5,2020-01-01,2020-12-31\n"
        )
        store_deal_rows(connection, fleet.company_id, deals, now=now)
        return prices_near(connection, fleet, now)[station_id]

    day = timedelta(days=1)
    assert with_days(None, None) == with_days(today, today) == with_days(today, None) == with_days(None, today) == 1.999
    assert with_days(today + day, None) == with_days(None, today - day) == price


@pytest.mark.usefixtures("prices")
def test_a_state_s_tax_is_the_newest_that_has_begun(
    connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    connection.execute("DELETE FROM fuel_taxes")
    today, tomorrow = now.date(), now.date() + timedelta(days=1)
    taxes = tmp_path / "taxes.csv"
    taxes.write_text(
        f"state,rate_per_gallon,valid_from\nIN,0.5,2020-01-01\nIN,0.6,{today}\nIN,0.7,{tomorrow}\nOH,0.4,{tomorrow}\n"
    )
    store_tax_rows(connection, taxes, now=now)

    corridor = corridor_of(connection, fleet, now)

    rates = {offer.station.state: offer.tax_per_gallon for offer in corridor.offers}
    assert (rates["IN"], rates["OH"]) == (0.6, None)
    without = {offer.station.station_id for offer in corridor.offers if offer.station.state != "IN"}
    assert corridor.prices.stations_without_tax_rate == len(without)


@pytest.mark.usefixtures("prices")
def test_a_surcharge_is_not_in_the_price_and_not_credited(
    connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    connection.execute("DELETE FROM fuel_taxes")
    taxes = tmp_path / "taxes.csv"
    taxes.write_text("state,rate_per_gallon,surcharge_per_gallon,valid_from\nIN,0.5,0.2,2020-01-01\n")
    store_tax_rows(connection, taxes, now=now)

    offers = [offer for offer in corridor_of(connection, fleet, now).offers if offer.station.state == "IN"]

    assert offers
    assert all(offer.adjusted_price == pytest.approx(offer.net_price - 0.5) for offer in offers)


@pytest.mark.usefixtures("prices")
def test_stations_left_out_of_a_plan_are_counted(connection: Connection, fleet: Fleet, now: datetime) -> None:
    first, second, _ = first_three(connection, fleet, now)
    connection.execute(
        "UPDATE stations SET retail_price = NULL, priced_at = NULL WHERE station_id = %s", (first.station.station_id,)
    )
    connection.execute(
        "UPDATE stations SET priced_at = %s WHERE station_id = %s", (now - timedelta(days=9), second.station.station_id)
    )

    corridor = corridor_of(connection, fleet, now)

    assert corridor.prices.stations_left_out == {"without_price": 1, "price_too_old": 1}
    assert not {first.station.station_id, second.station.station_id} & {
        offer.station.station_id for offer in corridor.offers
    }


def test_the_index_is_shared_until_stations_are_imported(
    connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path
) -> None:
    network = StationPlaces()
    header = "station_id,name,latitude,longitude,retail_price\n"
    stations = tmp_path / "stations.csv"

    def store(*rows: str) -> list[str]:
        stations.write_text(header + "\n".join(rows) + "\n")
        store_station_rows(connection, stations, now=now)
        return [offer.station.station_id for offer in corridor_of(connection, fleet, now, network).offers]

    joliet, elsewhere = "A,Joliet,41.462,-88.125,3.5", "B,Denver,39.7,-105.0,3.5"
    assert store(joliet, elsewhere) == ["A"]
    index = network.index(connection, newest=0)
    assert network.index(connection, newest=0) is index
    assert store(joliet, "C,Newark,40.695,-74.155,3.5") == ["A", "C"]
    assert network.index(connection, newest=0) is not index


@pytest.mark.usefixtures("prices")
def test_a_retired_station_is_offered_to_no_plan_until_an_import_names_it_again(
    connection: Connection, fleet: Fleet, now: datetime
) -> None:
    network = StationPlaces()

    def offered() -> set[str]:
        return {offer.station.station_id for offer in corridor_of(connection, fleet, now, network).offers}

    before = offered()
    gone = min(before)
    set_stations_retired(connection, [gone], DOT, now=now)
    assert offered() == before - {gone}

    report = store_station_rows(connection, STATIONS, now=now)
    assert (report.created, report.updated) == (0, 1)
    assert offered() == before


def test_an_unknown_station_cannot_be_retired(connection: Connection, now: datetime) -> None:
    with pytest.raises(UnknownStation, match="nowhere"):
        set_stations_retired(connection, ["nowhere"], DOT, now=now)


def test_the_stations_of_a_road_are_read_by_key_though_the_plan_was_made_for_few(now: datetime) -> None:
    with own_database("few_stations") as database:
        with database.transaction() as connection:
            fleet = make_fleet(connection)
            connection.execute(
                "INSERT INTO stations (station_id, name, latitude, longitude) VALUES ('A', 'Joliet', 41.462, -88.125)"
            )
            connection.execute("INSERT INTO price_sets (kind, imported_at) VALUES ('stations', %s)", (now,))
        with database.pipelined_transaction(snapshot=True) as connection:
            assert corridor_of(connection, fleet, now).prices.stations_left_out == {"without_price": 1}
        with database.transaction() as connection:
            for insert in (
                "INSERT INTO stations (station_id, name, latitude, longitude)"
                " SELECT 'S' || n, 'far away', 60, 10 FROM generate_series(1, 1000) AS n",
                "INSERT INTO stations (station_id, name, latitude, longitude)"
                " SELECT 'N' || n, 'near', 41.462, -88.125 FROM generate_series(1, 20) AS n",
                "INSERT INTO deals (company_id, station_id, discount_per_gallon)"
                " SELECT c.id, station_id, 0.1 FROM stations, companies c",
                "INSERT INTO price_sets (kind, imported_at) VALUES ('stations', now())",
            ):
                connection.execute(insert)

        network = StationPlaces()
        with database.pipelined_transaction(snapshot=True) as connection:
            corridor_of(connection, fleet, now, network)  # makes the index, for which it reads them all
            before = rows_read(connection)
            assert corridor_of(connection, fleet, now, network).prices.stations_left_out == {"without_price": 21}
            after = rows_read(connection)
        assert {table for table in ("stations", "deals") if after[table] - before[table] >= 100} == set()
