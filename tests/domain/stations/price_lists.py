"""Price files for tests: their rows, the stations they are about, and what became of them."""

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from domain.database.connections import Connection
from domain.roads import Point
from domain.roads.highways import HighwayRoads
from domain.stations.corridor_offers import StationPlaces, offers_along
from domain.stations.held_prices import held_prices
from domain.stations.price_rows import PriceReport
from tests.factories import Fleet
from tests.rows import named

LOVES = (
    "Customer,Loves Store No.,City,State,Billing Card Station Code,OPIS Rack ID,Retail Price,Retail Minus Discount,"
    "Retail Minus Discounted Price,OPIS / NYMEX Rack,Pumping Fee,OPIS Discounted Price,Best Discounted Price,"
    "Total Taxes and Fees,Federal Taxes,State Taxes,Other Taxes,Sales Tax,Freight Fee,Discounted Type Applied,"
    "Effective Date,DEF Retail Price,Latitude,Longitude"
)
ROAD = HighwayRoads().through([Point(41.462, -88.125), Point(40.695, -74.155)])
ELKHART = (41.735, -85.97)
"""A place by the road."""

Import = Callable[..., PriceReport]


def loves_row(
    store: str = "305",
    retail: str = "3.999",
    net: str = "3.499",
    at: str = "",
    place: tuple[float, float] = ELKHART,
    card: str = "LV305",
) -> str:
    return (
        f"ACME,{store},Elkhart,IN,{card},301,{retail},0.50,3.499,2.90,0.05,3.52,{net},0.60,0.24,0.36,0,0,0.02,Retail,"
        f"{at},3.10,{place[0]},{place[1]}"
    )


OPIS = "OPIS Truckstop ID,Truckstop Name,Address,City,State,Rack ID,Retail Price"


def add_station(
    connection: Connection,
    station_id: str,
    place: tuple[float, float] = ELKHART,
    brand: str = "Love's",
    address: str = "I-80, EXIT 92",
    city: str = "Elkhart",
    price: float | None = None,
    at: datetime | None = None,
) -> None:
    connection.execute(
        "INSERT INTO stations (station_id, name, brand, address, city, state, latitude, longitude, retail_price,"
        " priced_at) VALUES (%s, %s, %s, %s, %s, 'IN', %s, %s, %s, %s)",
        (station_id, f"{brand} of {city}", brand, address, city, *place, price, at),
    )


def of_chicago(connection: Connection, fleet: Fleet) -> UUID:
    """The company, whose days are those of Chicago."""
    connection.execute("UPDATE companies SET time_zone = 'America/Chicago' WHERE id = %s", (fleet.company_id,))
    return fleet.company_id


def stations(connection: Connection) -> dict[str, float | None]:
    rows = named(connection).execute("SELECT station_id, retail_price FROM stations ORDER BY 1").fetchall()
    return {row.station_id: row.retail_price for row in rows}


def offered(connection: Connection, fleet: Fleet, now: datetime) -> dict[str, float]:
    """The net prices that a plan of the company sees."""
    corridor = offers_along(connection, fleet.company_id, ROAD, 5.0, StationPlaces(), now=now)
    return {offer.station.station_id: offer.net_price for offer in corridor.offers}


def reasons(connection: Connection, fleet: Fleet) -> list[str]:
    return [one.reason for one in held_prices(connection, fleet.company_id)]
