"""The fuel card's files of the demo: the purchases of its trucks, as an EFS export has them."""

import csv
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from deploy.demo.past import StoredTrip
from deploy.demo.trips import FIRST_UNIT, MISSED, PARTLY
from domain.database.connections import Connection, Tenant
from domain.database.statements import NotNull, Statement
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
_LAST_TRIPS = timedelta(days=7)
_HEADER = (
    *("Card #", "Tran Date", "Tran Time", "Invoice", "Unit", "Driver Name", "Odometer", "Location Name", "City"),
    *("State/ Prov", "Fees", "Item", "Unit Price", "Disc PPU", "Disc Cost", "Qty", "Disc Amt", "Disc Type", "Amt"),
    *("DB", "Currency"),
)


def import_card_files(
    connection: Connection,
    tenant: Tenant,
    trips: Iterable[StoredTrip],
    settings: Settings,
    actor: str,
    *,
    now: datetime,
) -> int:
    """Imports a file for each month, as a person does who drops it on the console. Returns the number of purchases."""
    by_month: dict[str, list[list[str]]] = {}
    for bought_at, row in sorted(_purchases(trips)):
        if bought_at <= now - _COMES_AFTER:
            by_month.setdefault(f"{bought_at:%Y-%m}", []).append(row)
    if by_month:
        by_month[max(by_month)].append(_unknown_unit(now - _COMES_AFTER))
    for month, rows in sorted(by_month.items()):
        _import(connection, tenant, month, rows, settings, actor, now=now)
    return sum(map(len, by_month.values()))


class _Stopped(NamedTuple):
    """A stop of the living fleet at a pump where its plan says to buy."""

    external_id: str
    unit_number: NotNull[str]
    driver_name: NotNull[str]
    number: NotNull[int]
    station_name: NotNull[str]
    city: str | None
    state: str | None
    latitude: NotNull[float]
    longitude: NotNull[float]
    gallons: NotNull[float]
    price: NotNull[float]
    stopped_at: NotNull[datetime]


_STOPPED = Statement(
    _Stopped,
    """
    SELECT r.external_id, v.unit_number, d.name AS driver_name, (stop->>'sequence')::int AS number,
           s.name AS station_name, s.city, s.state, s.latitude, s.longitude,
           (stop->>'gallonsToFill')::float8 AS gallons, (stop->>'pricePerGallon')::float8 AS price,
           pump.recorded_at AS stopped_at
    FROM routes r JOIN plans p ON p.id = r.plan_id JOIN vehicles v ON v.id = r.vehicle_id
    JOIN drivers d ON d.id = r.driver_id CROSS JOIN LATERAL jsonb_array_elements(p.document->'stops') AS stop
    JOIN stations s ON s.latitude = (stop->>'latitude')::float8 AND s.longitude = (stop->>'longitude')::float8
         AND s.name = stop->>'name'
    CROSS JOIN LATERAL (
        SELECT f.recorded_at FROM positions f
        WHERE f.vehicle_id = r.vehicle_id AND f.environment = r.environment
          AND f.recorded_at BETWEEN r.arrived_at AND r.completed_at AND f.speed_mph < 5
          AND abs(f.latitude - s.latitude) < 0.1 AND abs(f.longitude - s.longitude) < 0.1
        ORDER BY f.recorded_at LIMIT 1) AS pump
    WHERE r.company_id = %(company_id)s AND r.environment = %(environment)s AND r.status = 'completed'
      AND r.external_id LIKE 'PR-%%' AND r.completed_at BETWEEN %(since)s AND %(until)s
      AND NOT EXISTS (SELECT FROM fills f WHERE f.route_id = r.id)
    ORDER BY pump.recorded_at, r.id
    """,
)


def import_new_purchases(
    connection: Connection, tenant: Tenant, settings: Settings, actor: str, *, now: datetime
) -> int:
    """Imports the card's file of the living fleet's last trips. Returns the number of purchases."""
    days = {"since": now - _LAST_TRIPS, "until": now - _COMES_AFTER}
    rows = [
        _row(
            int(one.unit_number) - FIRST_UNIT,
            one.unit_number,
            one.driver_name,
            f"{one.external_id[3:].replace('-', '')}{one.number}",
            (one.station_name, one.city, one.state, Point(one.latitude, one.longitude)),
            one.stopped_at,
            one.gallons,
            one.price,
        )
        for one in _STOPPED.all(connection, {**tenant._asdict(), **days})
    ]
    if rows:
        _import(connection, tenant, f"{now:%Y-%m-%d}", rows, settings, actor, now=now)
    return len(rows)


def _import(
    connection: Connection,
    tenant: Tenant,
    name: str,
    rows: Sequence[Sequence[str]],
    settings: Settings,
    actor: str,
    *,
    now: datetime,
) -> None:
    with tempfile.TemporaryDirectory(prefix="fuelroute-demo-") as folder:
        path = Path(folder, f"efs-{name}.csv")
        with path.open("w", newline="", encoding="utf-8") as written:
            csv.writer(written).writerows([_HEADER, *rows])
        file = FillsFile(
            path=path,
            company_id=tenant.company_id,
            environment=tenant.environment,
            profile=card_profile("efs"),
            far_miles=settings.fill_far_miles,
        )
        total = file.rows_total()
        record = import_records.begin(connection, tenant.company_id, file.kind, actor, rows_total=total, now=now)
        ImportRun(file, lambda: nullcontext(connection), actor, record=record, time=lambda: now).store()


def _purchases(trips: Iterable[StoredTrip]) -> Iterator[tuple[datetime, list[str]]]:
    for one in trips:
        for number, stop in enumerate(one.plan.stops):
            chance = one.trip.chance_at(number)
            luck, gallons, price, station = chance.random(), stop.gallons_to_fill, stop.price_per_gallon, stop.station
            if luck < MISSED:
                continue
            if luck < MISSED + PARTLY:
                gallons *= chance.uniform(0.45, 0.75)
            elif one.trip.buys_elsewhere(number):
                station, price = _another(one, stop)
            else:
                gallons += chance.uniform(-3, 3)
            bought_at = one.drive.bought_at(number)
            yield (
                bought_at,
                _row(
                    one.trip.truck,
                    one.truck.unit_number,
                    one.truck.driver_name,
                    f"{one.trip.truck:02}{one.trip.number:04}{number}",
                    (station.name, station.city, station.state, Point(station.latitude, station.longitude)),
                    bought_at,
                    gallons,
                    price + chance.choice((0, 0, 0, 0.02, 0.05)),
                ),
            )


def _another(one: StoredTrip, stop: PlannedFuelStop) -> tuple[Station, float]:
    """The next truck stop of another brand along the road, and its price."""
    others = [offer for offer in one.corridor.offers if offer.station.brand != stop.station.brand]
    if not others:
        return stop.station, stop.price_per_gallon
    near = min(others, key=lambda offer: abs(offer.mile - stop.miles_from_origin - 4))
    return near.station, near.net_price


def _row(
    truck: int,
    unit_number: str,
    driver_name: str,
    invoice: str,
    place: tuple[str, str | None, str | None, Point],
    bought_at: datetime,
    gallons: float,
    price: float,
) -> list[str]:
    """A line of the file. `place` is the truck stop's name, city, state and point."""
    name, city, state, point = place
    local = bought_at.astimezone(ZoneInfo(zone_of(state or "", point)))
    quantity, paid = round(gallons, 2), round(price, 3)
    return [
        *(f"70830512345{1000 + truck}", f"{local:%Y-%m-%d}", f"{local:%H:%M}", invoice, unit_number),
        *(driver_name.upper(), "", name.upper(), (city or "").upper(), state or "", "0.00", "ULSD"),
        *(f"{paid:.3f}", f"{paid:.3f}", "0.00", f"{quantity:.2f}", "0.00", "", f"{round(quantity * paid, 2):.2f}"),
        *("N", "USD/Gallons"),
    ]


def _unknown_unit(at: datetime) -> list[str]:
    """A purchase of a unit that the fleet does not know: a person has to say whose it is."""
    return [
        *("7083051234599", f"{at:%Y-%m-%d}", f"{at:%H:%M}", "9900001", "TRK-5299", "RELIEF DRIVER", ""),
        *("PRAIRIE STAR ELKHART", "ELKHART", "IN", "0.00", "ULSD", "3.569", "3.569", "0.00", "62.40", "0.00", ""),
        *("222.71", "N", "USD/Gallons"),
    ]
