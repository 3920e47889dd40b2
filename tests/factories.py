"""Factories with which tests arrange: companies, fleets, routes and fixes, each with only what the test cares about."""

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from argon2 import PasswordHasher

from domain.accounts.companies import create_company
from domain.accounts.policy import Policy
from domain.accounts.sessions import begin_session, choose_company
from domain.accounts.users import create_user
from domain.audit.entries import Actor
from domain.contract.checking import read_body
from domain.contract.shapes import RouteInput
from domain.database.connections import Connection, Tenant
from domain.encoding import write
from domain.ids import new_id, shown_id
from domain.lifecycle import Environment, Role
from domain.stations.price_sets import begin_price_set
from domain.stations.stations import store_station_rows
from domain.telematics.arrivals import Fix

STATIONS = Path(__file__).parents[1] / "deploy" / "demo" / "stations.csv"
"""The truck stops of the demo."""

JOLIET: dict[str, Any] = {"name": "Joliet terminal", "latitude": 41.462, "longitude": -88.125}
PERRYSBURG: dict[str, Any] = {"name": "Perrysburg yard", "latitude": 41.535, "longitude": -83.470}
NEWARK: dict[str, Any] = {"name": "Port Newark", "latitude": 40.695, "longitude": -74.155}

PROCESS_HASHER = PasswordHasher(time_cost=1, memory_cost=32 * 1024)
"""Hashes the passwords in forked processes of the service: a sixth of the work of the service's own, and still more
than a page of the console takes."""

DOT = Actor("dot@example.com", "the driver called")
"""A dispatcher."""

PLAN: dict[str, Any] = {
    "generatedAt": "2026-11-20T10:00:00Z",
    "totalDistanceMiles": 812.4,
    "totalGallons": 150.0,
    "totalCost": 520.5,
    "averagePricePerGallon": 3.47,
    "savingsPerGallon": 0.21,
    "savingsTotal": 31.5,
    "stops": [
        {
            "sequence": 0,
            "name": "Lakeside Travel Plaza",
            "address": "100 Exit Rd, Elkhart, IN",
            "latitude": 41.7,
            "longitude": -86.0,
            "milesFromOrigin": 130.4,
            "gallonsToFill": 100.0,
            "pricePerGallon": 3.455,
            "totalCost": 345.5,
            "arrivalFuelPercent": 31,
            "estimatedArrival": "2026-11-20T15:00:00Z",
        },
        {
            "sequence": 1,
            "name": "Keystone Fuel",
            "address": None,
            "latitude": 41.0,
            "longitude": -78.4,
            "milesFromOrigin": 545.6,
            "gallonsToFill": 50.0,
            "pricePerGallon": 3.5,
            "totalCost": 175.0,
            "arrivalFuelPercent": 22,
            "estimatedArrival": None,
        },
    ],
}
"""A plan's document as it is stored: what the contract shows of it, but for its status."""

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Fleet:
    """A company with trucks 101 and 102, drivers Ann Lee and Bo Diaz."""

    company_id: UUID
    trucks: tuple[UUID, UUID]
    drivers: tuple[UUID, UUID]

    @property
    def shown_company_id(self) -> str:
        return shown_id("cmp", self.company_id)

    @property
    def shown_trucks(self) -> list[str]:
        return [shown_id("veh", truck) for truck in self.trucks]

    @property
    def shown_drivers(self) -> list[str]:
        return [shown_id("drv", driver) for driver in self.drivers]

    @property
    def live(self) -> Tenant:
        return Tenant(self.company_id, Environment.LIVE)

    @property
    def sandbox(self) -> Tenant:
        return Tenant(self.company_id, Environment.SANDBOX)


def make_fleet(connection: Connection, **policy: Any) -> Fleet:
    company_id = create_company(connection, Policy(name="Acme", **policy))
    trucks, drivers = (new_id(), new_id()), (new_id(), new_id())
    for truck, unit_number, vin in zip(trucks, ("101", "102"), ("1XKAD49X0CJ000101", "1XKAD49X0CJ000102"), strict=True):
        connection.execute(
            "INSERT INTO vehicles (id, company_id, unit_number, vin, fuel_tank_capacity_gallons, mpg)"
            " VALUES (%s, %s, %s, %s, 200, 6.5)",
            (truck, company_id, unit_number, vin),
        )
    for driver, name, external_id in zip(drivers, ("Ann Lee", "Bo Diaz"), ("D-1", "D-2"), strict=True):
        connection.execute(
            "INSERT INTO drivers (id, company_id, name, external_id) VALUES (%s, %s, %s, %s)",
            (driver, company_id, name, external_id),
        )
    return Fleet(company_id, trucks, drivers)


def forget_prices(connection: Connection) -> None:
    """Takes away the retail prices of all stations. Stations belong to no company, so the plans of other tests would
    stop at them."""
    connection.execute("UPDATE stations SET retail_price = NULL, priced_at = NULL")


def put_demo_stations(connection: Connection, *, now: datetime) -> None:
    """The demo's truck stops, priced now, and no others. The file is imported once; a later test copies what the import
    stored, which takes a twentieth of its time."""
    connection.execute("DELETE FROM stations")
    if not _imported_stations:
        store_station_rows(connection, STATIONS, now=now)
        _imported_stations.append(_stations_as_stored(connection))
        return
    with connection.cursor().copy("COPY stations FROM STDIN (FORMAT csv)") as copy:
        copy.write(_imported_stations[0].replace(_PRICED_AT, now.isoformat().encode()))
    begin_price_set(connection, "stations", None, now=now)


_imported_stations: list[bytes] = []
_PRICED_AT = b"when it was priced"


def _stations_as_stored(connection: Connection) -> bytes:
    """All stations as CSV, with a word in place of the moment of their price."""
    described = connection.execute("SELECT * FROM stations LIMIT 0").description or []
    priced_at = f"CASE WHEN priced_at IS NOT NULL THEN '{_PRICED_AT.decode()}' END"
    columns = ", ".join(priced_at if one.name == "priced_at" else one.name for one in described)
    with connection.cursor().copy(f"COPY (SELECT {columns} FROM stations) TO STDOUT (FORMAT csv)") as copy:
        return b"".join(bytes(part) for part in copy)


def signed_in(connection: Connection, role: Role, company_id: UUID | None, email: str = "") -> str:
    """The cookie of a browser in which a new user of that role is signed in: without a password, which takes long to
    hash. An operator looks at the company's pages."""
    own = None if role is Role.OPERATOR else company_id
    user_id = create_user(connection, DOT, email=email or f"{_word()}@example.com", role=role, company_id=own)
    token = begin_session(connection, user_id, address="127.0.0.1", now=datetime.now(UTC))
    if own != company_id and company_id is not None:
        choose_company(connection, token, company_id, DOT)
    return token


def _word() -> str:
    """A fresh word of letters alone: pages show e-mail addresses, and tests say which numbers a page does not show."""
    return new_id().hex.translate(str.maketrans("0123456789", "ghijklmnop"))


def route_body(start: datetime, **changes: Any) -> dict[str, Any]:
    """A valid body of POST /v1/routes, from Joliet to Newark with truck 101 and Ann Lee."""
    return {
        "externalId": f"LOAD-{next(_numbers)}",
        "vehicle": {"unitNumber": "101"},
        "driver": {"name": "Ann Lee"},
        "scheduledStart": start.isoformat(),
        "stops": [JOLIET, NEWARK],
        **changes,
    }


def route_input(start: datetime, **changes: Any) -> RouteInput:
    return read_body(write(route_body(start, **changes)), RouteInput)


def fixes_at(stop: dict[str, Any], start: datetime, *, count: int = 3, speed_mph: float | None = 0) -> list[Fix]:
    """Fixes at a stop, 30 s apart."""
    return [
        Fix(start + timedelta(seconds=30 * number), stop["latitude"], stop["longitude"], speed_mph)
        for number in range(count)
    ]
