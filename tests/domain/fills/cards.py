"""Files of fuel cards for tests: lines as a card writes them, and their import."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.database.connections import Connection, Tenant
from domain.files.csvfiles import ImportReport
from domain.files.products import Fuel
from domain.fills.card_files import FileFill, Volume, open_fill_file
from domain.fills.importing import BATCH_FILLS, finish_fills, read_stations, store_fills
from domain.fills.local_times import zone_of
from domain.fills.profiles import card_profile
from domain.lifecycle import Environment
from domain.queue.jobs import in_batches
from domain.roads import Point
from tests.factories import Fleet
from tests.rows import named

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)

EFS_HEADER = (
    "Card #,Tran Date,Tran Time,Invoice,Unit,Driver Name,Odometer,Location Name,City,State/ Prov,Fees,Item,Unit Price,"
    "Disc PPU,Disc Cost,Qty,Disc Amt,Disc Type,Amt,DB,Currency"
)
COMDATA_HEADER = (
    "Account Code,Customer ID,Transaction Date,Transaction Time,Transaction Number,Comchek Card Number,Driver's Name,"
    "Unit Number,Truck Stop Code,Truck Stop Name,Truck Stop City,Truck Stop State,Total Amount Due,"
    "Number of Tractor Gallons,Tractor Fuel Price Per Gallon,Cost of Tractor Fuel,Number of Reefer Gallons,"
    "Reefer Price Per Gallon,Cost of Reefer Fuel,Cancel flag,Billable Currency"
)


def efs(**changes: Any) -> str:
    """A line of an EFS export: 100 gallons of diesel at the Lakeside plaza in Elkhart."""
    row = {
        "card": "7083051234567890",
        "date": "2026-11-20",
        "time": "09:10",
        "invoice": "0012345",
        "unit": "101",
        "driver": "ANN LEE",
        "odometer": "345678",
        "location": "LAKESIDE TRAVEL PLAZA",
        "city": "ELKHART",
        "state": "IN",
        "fees": "0.00",
        "item": "ULSD",
        "unit_price": "3.655",
        "price": "3.455",
        "disc_cost": "0.20",
        "qty": "100.00",
        "disc_amt": "20.00",
        "disc_type": "R",
        "amount": "345.50",
        "db": "Y",
        "currency": "USD/Gallons",
        **changes,
    }
    return ",".join(str(value) for value in row.values())


def write_efs(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([EFS_HEADER, *lines]) + "\n", encoding="utf-8")
    return path


def comdata(**changes: Any) -> str:
    """A line of a Comdata export: 140.14 gallons of tractor fuel at a Love's in Etna."""
    row = {"number": "17836", "unit": "101", "gallons": "140.14", "cost": "$494.560", "cancel": "N", **changes}
    return (
        f"JJ068,98647,11/20/2026,09:10,{row['number']},560017XXXXXX5373,LEE,{row['unit']},OH976,LOVES #892,ETNA,OH,"
        f"$494.56,{row['gallons']},$3.529,{row['cost']},0.00,$0.000,$0.00,{row['cancel']},U"
    )


def write_comdata(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([COMDATA_HEADER, *lines]) + "\n", encoding="utf-8")
    return path


def import_fills(
    connection: Connection,
    tenant: Tenant,
    path: Path,
    *,
    profile: str = "efs",
    volume: Volume = "",
    currency: str = "",
    now: datetime = NOW,
) -> tuple[tuple[int, int, int], dict[int, str]]:
    """The numbers of created, updated and unchanged fills, and the refused lines."""
    sums, report = (0, 0, 0), ImportReport()
    with open_fill_file(path, card_profile(profile), report, now=now, volume=volume, currency=currency) as file:
        stations = read_stations(connection, tenant.company_id)
        for batch in in_batches(file.fills, BATCH_FILLS):
            stored = store_fills(connection, tenant, profile, batch, stations, far_miles=5)
            sums = (sums[0] + stored[0], sums[1] + stored[1], sums[2] + stored[2])
        finish_fills(connection, tenant)
    return sums, {one.line: one.message for one in report.rejected}


def fills(connection: Connection, tenant: Tenant) -> list[Any]:
    return (
        named(connection)
        .execute("SELECT * FROM fills WHERE company_id = %s AND environment = %s ORDER BY bought_at, id", tenant)
        .fetchall()
    )


def verdicts(connection: Connection, tenant: Tenant) -> list[Any]:
    return (
        named(connection)
        .execute(
            "SELECT * FROM stop_verdicts WHERE company_id = %s AND environment = %s ORDER BY route_id, number", tenant
        )
        .fetchall()
    )


def add_station(connection: Connection, station_id: str, **values: Any) -> None:
    row = {
        "name": "Lakeside Travel Plaza",
        "brand": "Lakeside",
        "city": "Elkhart",
        "state": "IN",
        "latitude": 41.7,
        "longitude": -86.0,
        **values,
    }
    connection.execute(
        "INSERT INTO stations (station_id, name, brand, city, state, latitude, longitude)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
        (station_id, *row.values()),
    )


def plaza_and_keystone(connection: Connection) -> None:
    """The two stations of the plan by hand."""
    add_station(connection, "S1")
    keystone = {"name": "Keystone Fuel", "brand": "Keystone", "city": "Clearfield", "state": "PA"}
    add_station(connection, "S2", **keystone, latitude=41.0, longitude=-78.4)


def lines_of(count: int) -> Iterator[str]:
    for number in range(count):
        yield efs(invoice=f"{number:07}", time=f"{number % 24:02}:{number // 24 % 60:02}")


_PLANNED = """
    SELECT r.environment, r.arrived_at, v.unit_number, p.document->'stops' AS stops FROM savings s
    JOIN routes r ON r.id = s.route_id JOIN plans p ON p.id = s.plan_id JOIN vehicles v ON v.id = s.vehicle_id
    WHERE s.company_id = %s AND p.document ? 'stops' ORDER BY s.route_id LIMIT 100
"""


def buy_planned_fuel(connection: Connection, company_id: UUID) -> None:
    """The fills of a company's trucks at their planned stops: most as planned, some with other gallons or at another
    place, and one that waits for a person. At most a hundred routes have some."""
    stations = read_stations(connection, company_id)
    bought: dict[Environment, list[FileFill]] = {one: [] for one in Environment}
    for number, route in enumerate(named(connection).execute(_PLANNED, (company_id,)).fetchall()):
        for stop in route.stops:
            near = stations.near(Point(stop["latitude"], stop["longitude"]), 1)
            if not near:
                continue
            _, station = near[0]
            zone = ZoneInfo(zone_of(station.state or "", station.place))
            local = (route.arrived_at + timedelta(minutes=1)).astimezone(zone).replace(tzinfo=None)
            gallons = stop["gallonsToFill"] * (0.6 if number % 3 == 1 else 1)
            price = stop["pricePerGallon"] + 0.03 * (number % 2)
            key = f"{number}-{stop['sequence']}"
            is_elsewhere = number % 4 == 3
            fill = FileFill(
                line=1,
                key=key,
                transaction_number=f"00{number}{stop['sequence']}",
                card_last_four="7890",
                local_time=local,
                has_time=True,
                unit_number=route.unit_number,
                location_name="COUNTY FUEL" if is_elsewhere else station.name,
                station_code=None if is_elsewhere else station.station_id,
                city=station.city,
                state=station.state or "",
                item="ULSD",
                fuel=Fuel.TRACTOR,
                gallons=round(gallons, 2),
                paid_cents=round(gallons * price * 100),
                currency="USD",
            )
            bought[Environment(route.environment)].append(fill)
    bought[Environment.LIVE].append(
        FileFill(
            *(1, "waits", "0099", "7890", datetime(2026, 11, 20, 9, 10), True, "TRK 905", "PILOT #410", None, "JOLIET"),
            *("IL", "PROD 7", Fuel.UNKNOWN, 60.0, 20730, "USD"),
        )
    )
    for environment, fills in bought.items():
        store_fills(connection, Tenant(company_id, environment), "efs", fills, stations, far_miles=5)


def trucks(connection: Connection, fleet: Fleet) -> list[UUID | None]:
    return [fill.vehicle_id for fill in fills(connection, fleet.live)]
