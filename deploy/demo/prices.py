"""Today's prices of the demo's truck stops. Prices older than a week make no plan, so they change every day."""

import csv
import tempfile
from datetime import date, datetime, timedelta
from pathlib import Path

from deploy.demo.trips import chance_of
from domain.database.connections import Connection
from domain.database.statements import Scalar
from domain.stations.stations import store_station_rows

_AGE = timedelta(hours=24)
_PRICED_AT = Scalar(datetime | None, "SELECT max(priced_at) FROM stations WHERE station_id = ANY(%s)")


def keep_prices_fresh(connection: Connection, stations: Path, *, now: datetime) -> bool:
    """Gives the truck stops of the file new prices, some cents from those of the file, if the newest are a day old.
    Returns False if they are fresh."""
    with stations.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    priced_at = _PRICED_AT.first(connection, ([row["station_id"] for row in rows],))
    if priced_at is None or now - priced_at < _AGE:
        return False
    for row in rows:
        row["retail_price"] = f"{float(row['retail_price']) + _cents(row['brand'], now.date()) / 100:.3f}"
    with tempfile.TemporaryDirectory(prefix="fuelroute-demo-") as folder:
        path = Path(folder, "stations.csv")
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
        store_station_rows(connection, path, now=now)
    return True


def _cents(brand: str, day: date) -> int:
    """A chain moves all its prices at once."""
    return chance_of(f"{brand} {day}").randint(-6, 6)
