"""Files of fuel cards for tests: lines as a card writes them, and their import."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from domain.contract.csvfiles import ImportReport
from domain.database import Connection, Tenant
from domain.fills.card_files import Volume, open_fill_file
from domain.fills.importing import fill_batches, finish_fills, read_stations, store_fills
from domain.fills.profiles import card_profile
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
    if "currency" not in changes:
        row["currency"] = "USD"
    return ",".join(str(value) for value in row.values())


def write_efs(path: Path, *lines: str) -> Path:
    path.write_text("\n".join([EFS_HEADER, *lines]) + "\n", encoding="utf-8")
    return path


def import_fills(
    connection: Connection,
    tenant: Tenant,
    path: Path,
    *,
    profile: str = "efs",
    volume: Volume = "",
    now: datetime = NOW,
) -> tuple[tuple[int, int, int], dict[int, str]]:
    """The numbers of created, updated and unchanged fills, and the refused lines."""
    sums, report = (0, 0, 0), ImportReport()
    with open_fill_file(path, card_profile(profile), report, now=now, volume=volume) as file:
        stations = read_stations(connection)
        for batch in fill_batches(file.fills):
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
        " VALUES (%s, %s, %s, %s, %s, %s, %s)",
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
