"""The fuel card's files of the demo: the purchases of its trucks, as an EFS export has them."""

import csv
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from deploy.demo.past import StoredTrip
from domain.database.connections import Connection, Tenant
from domain.fills.local_times import zone_of
from domain.fills.profiles import card_profile
from domain.operations import import_records
from domain.operations.import_kinds import FillsFile
from domain.operations.import_runs import ImportRun
from domain.planning.fuel_plan import PlannedFuelStop
from domain.roads import Point
from domain.settings import Settings
from domain.stations.offers import Station

_COMES_AFTER = timedelta(hours=30)
"""The card's file comes this long after a purchase."""
_HEADER = (
    *("Card #", "Tran Date", "Tran Time", "Invoice", "Unit", "Driver Name", "Odometer", "Location Name", "City"),
    *("State/ Prov", "Fees", "Item", "Unit Price", "Disc PPU", "Disc Cost", "Qty", "Disc Amt", "Disc Type", "Amt"),
    *("DB", "Currency"),
)
_PARTLY, _MISSED, _ELSEWHERE = 0.08, 0.05, 0.06
"""Shares of the planned fuel stops where the driver buys less, nothing, or at another truck stop."""


def import_card_files(
    connection: Connection,
    tenant: Tenant,
    trips: Iterable[StoredTrip],
    settings: Settings,
    actor: str,
    *,
    now: datetime,
    seed: int,
) -> int:
    """Imports a file for each month, as a person does who drops it on the console. Returns the number of purchases."""
    by_month: dict[str, list[list[str]]] = {}
    for bought_at, row in sorted(_purchases(trips, seed=seed)):
        if bought_at <= now - _COMES_AFTER:
            by_month.setdefault(f"{bought_at:%Y-%m}", []).append(row)
    if by_month:
        by_month[max(by_month)].append(_unknown_unit(now - _COMES_AFTER))
    with tempfile.TemporaryDirectory(prefix="fuelroute-demo-") as folder:
        for month, rows in sorted(by_month.items()):
            path = Path(folder, f"efs-{month}.csv")
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([_HEADER, *rows])
            _import(connection, tenant, path, settings, actor, now=now)
    return sum(map(len, by_month.values()))


def _import(
    connection: Connection, tenant: Tenant, path: Path, settings: Settings, actor: str, *, now: datetime
) -> None:
    file = FillsFile(
        path=path,
        company_id=tenant.company_id,
        environment=tenant.environment,
        profile=card_profile("efs"),
        far_miles=settings.fill_far_miles,
    )
    record = import_records.begin(
        connection, tenant.company_id, file.kind, actor, rows_total=file.rows_total(), now=now
    )
    ImportRun(file, lambda: nullcontext(connection), actor, record=record, time=lambda: now).store()


def _purchases(trips: Iterable[StoredTrip], *, seed: int) -> Iterator[tuple[datetime, list[str]]]:
    for one in trips:
        for number, stop in enumerate(one.plan.stops):
            chance = one.trip.draws(seed, f"stop {number}")
            luck, gallons, price, station = chance.random(), stop.gallons_to_fill, stop.price_per_gallon, stop.station
            if luck < _MISSED:
                continue
            if luck < _MISSED + _PARTLY:
                gallons *= chance.uniform(0.45, 0.75)
            elif luck < _MISSED + _PARTLY + _ELSEWHERE:
                station, price = _another(one, stop)
            else:
                gallons += chance.uniform(-3, 3)
            bought_at = one.drive.bought_at(number)
            yield (
                bought_at,
                _row(one, station, bought_at, gallons, price + chance.choice((0, 0, 0, 0.02, 0.05)), number),
            )


def _another(one: StoredTrip, stop: PlannedFuelStop) -> tuple[Station, float]:
    """The next truck stop of another brand along the road, and its price."""
    others = [offer for offer in one.corridor.offers if offer.station.brand != stop.station.brand]
    if not others:
        return stop.station, stop.price_per_gallon
    near = min(others, key=lambda offer: abs(offer.mile - stop.miles_from_origin - 4))
    return near.station, near.net_price


def _row(
    one: StoredTrip, station: Station, bought_at: datetime, gallons: float, price: float, number: int
) -> list[str]:
    zone = zone_of(station.state or "", Point(station.latitude, station.longitude))
    local = bought_at.astimezone(ZoneInfo(zone))
    quantity, paid = round(gallons, 2), round(price, 3)
    amount = round(quantity * paid, 2)
    return [
        f"70830512345{1000 + one.trip.truck}",
        f"{local:%Y-%m-%d}",
        f"{local:%H:%M}",
        f"{one.trip.truck:02}{one.trip.number:04}{number}",
        one.truck.unit_number,
        one.truck.driver_name.upper(),
        "",
        station.name.upper(),
        (station.city or "").upper(),
        station.state or "",
        "0.00",
        "ULSD",
        f"{paid:.3f}",
        f"{paid:.3f}",
        "0.00",
        f"{quantity:.2f}",
        "0.00",
        "",
        f"{amount:.2f}",
        "N",
        "USD/Gallons",
    ]


def _unknown_unit(at: datetime) -> list[str]:
    """A purchase of a unit that the fleet does not know: a person has to say whose it is."""
    return [
        *("7083051234599", f"{at:%Y-%m-%d}", f"{at:%H:%M}", "9900001", "TRK-5299", "RELIEF DRIVER", ""),
        *("PRAIRIE STAR ELKHART", "ELKHART", "IN", "0.00", "ULSD", "3.569", "3.569", "0.00", "62.40", "0.00", ""),
        *("222.71", "N", "USD/Gallons"),
    ]
