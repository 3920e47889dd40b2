"""Fills a database: fleets, keys, and any number of routes in any mix of statuses, by COPY.

Routes are loaded without indexes and foreign keys' checks; the indexes are the migrations' own, made again afterwards.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg

from domain.accounts.companies import create_company
from domain.accounts.keys import create_key
from domain.accounts.policy import Policy
from domain.contract.shapes import RATE_LIMIT_REQUESTS, RATE_LIMIT_WINDOW_SECONDS, SCOPES
from domain.database.connections import Connection, Database
from domain.database.options import HOUSEKEEPING
from domain.encoding import write
from domain.ids import new_id
from domain.lifecycle import SHOWS_PLAN, Environment, PendingReason, RouteStatus
from domain.routes.reading.counts import fold, reconcile
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG
from tests.rows import named

FIVE_STOPS: list[dict[str, Any]] = [
    {**JOLIET, "address": "2000 Centerpoint Way, Joliet, IL 60436"},
    {
        "name": "Elkhart cross dock",
        "address": "1 Toll Road, Elkhart, IN 46514",
        "latitude": 41.742,
        "longitude": -85.98,
    },
    {**PERRYSBURG, "address": "26000 Glenwood Road, Perrysburg, OH 43551"},
    {"name": "Clearfield drop lot", "address": "PA-879, Clearfield, PA 16830", "latitude": 41.035, "longitude": -78.4},
    {**NEWARK, "address": "1210 Corbin Street, Elizabeth, NJ 07201"},
]

MAX_REQUESTS_PER_SECOND = 15_000

_VARIANTS = 1009
"""Different starts, stops and plans; a prime, so that they meet in every combination."""

_LINES_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Fleet:
    """A company with trucks 00000, 00001 ..., each with a driver: Driver 00000 ..."""

    company_id: UUID
    trucks: list[UUID]
    drivers: list[UUID]


@dataclass(frozen=True, slots=True)
class Lot:
    """Routes of one fleet that look alike; `starts` is the first and the last scheduled start."""

    fleet: Fleet
    routes: int
    status: RouteStatus
    starts: tuple[datetime, datetime]
    reason: PendingReason | None = None
    unit_number: str = "{truck:05}"
    driver_name: str = "Driver {truck:05}"
    retry_at: datetime | None = None
    """When a pending route's import is due."""
    plans: Sequence[UUID] = field(default=(), repr=False)
    """Ids from `load_plans`, for the statuses that have one. None are given to a lot whose routes have `own_plans`."""
    own_plans: bool = False
    """Each route names a plan of its own, which is not there yet; `load_facts` makes it."""


def load_fleet(connection: Connection, trucks: int, name: str = "Benchmark Freight") -> Fleet:
    company_id = create_company(connection, Policy(name=name))
    fleet = Fleet(company_id, [new_id() for _ in range(trucks)], [new_id() for _ in range(trucks)])
    with connection.cursor() as cursor:
        with cursor.copy("COPY vehicles (id, company_id, unit_number, mpg) FROM STDIN") as copy:
            for number, truck in enumerate(fleet.trucks):
                copy.write_row((truck, company_id, f"{number:05}", 6.5))
        with cursor.copy("COPY drivers (id, company_id, name) FROM STDIN") as copy:
            for number, driver in enumerate(fleet.drivers):
                copy.write_row((driver, company_id, f"Driver {number:05}"))
    return fleet


def load_keys(connection: Connection, fleet: Fleet, share: float = 1.0) -> list[bytes]:
    """Enough keys with every scope that the rate limit is counted and refuses nobody, however fast the service is;
    `share` is the part of all requests that they will make.
    """
    needed = MAX_REQUESTS_PER_SECOND * RATE_LIMIT_WINDOW_SECONDS / RATE_LIMIT_REQUESTS
    return [
        create_key(
            connection, fleet.company_id, DOT, name="bench", environment=Environment.LIVE, scopes=list(SCOPES)
        ).key.encode()
        for _ in range(1 + round(needed * share))
    ]


def load_routes(database: Database, lots: Sequence[Lot], advance: Callable[[int], object] = lambda _: None) -> None:
    """Adds the routes; `advance` is told of each thousand."""
    with (
        database.transaction(limits=HOUSEKEEPING) as connection,
        _bare_routes(connection),
        connection.cursor() as cursor,
    ):
        for lot in lots:
            with cursor.copy(f"COPY routes ({_COLUMNS}) FROM STDIN") as copy:
                for first in range(0, lot.routes, _LINES_AT_ONCE):
                    count = min(_LINES_AT_ONCE, lot.routes - first)
                    copy.write("".join(_lines(lot, first, count)))
                    advance(count)
    with database.transaction(limits=HOUSEKEEPING) as connection:
        reconcile(connection)  # no trigger has counted them
        fold(connection, limit=1_000_000)
    with psycopg.connect(database.url, autocommit=True) as direct:
        direct.execute("VACUUM ANALYZE routes")


@contextmanager
def _bare_routes(connection: Connection) -> Iterator[None]:
    """The table without secondary indexes and checks of foreign keys while it is filled."""
    indexes = (
        named(connection)
        .execute("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'routes' AND indexname <> 'routes_pkey'")
        .fetchall()
    )
    connection.execute("SET LOCAL session_replication_role = replica")
    connection.execute("SET LOCAL maintenance_work_mem = '1GB'")
    for index in indexes:
        connection.execute(f'DROP INDEX "{index.indexname}"')
    yield
    for index in indexes:
        connection.execute(index.indexdef)


_COLUMNS = (
    "id, company_id, environment, external_id, reference, vehicle_unit_number, driver_name, scheduled_start, stops,"
    " status, pending_reason, pending_detail, vehicle_id, driver_id, imported_at, arrived_at, plan_id, retry_at,"
    " completed_at, closed_reason"
)
_NULL = r"\N"


def _lines(lot: Lot, first: int, count: int) -> Iterator[str]:
    """COPY's text format. Nothing in it needs escaping."""
    fleet, matched, arrived = lot.fleet, lot.reason is None, lot.status in SHOWS_PLAN
    step = (lot.starts[1] - lot.starts[0]) / _VARIANTS
    starts = [(lot.starts[0] + step * number).isoformat() for number in range(_VARIANTS)]
    stops = write(FIVE_STOPS).decode()
    now = datetime.now(UTC)
    imported_at = (min(lot.starts[0], now) - timedelta(hours=3)).isoformat() if matched else _NULL
    retry_at = lot.retry_at.isoformat() if lot.retry_at is not None else _NULL
    detail = f"{lot.reason.value}: waits for it." if lot.reason is not None else _NULL
    for number in range(first, first + count):
        truck = number % len(fleet.trucks)
        route_id = new_id()
        start = starts[number % _VARIANTS]
        fields = (
            route_id,
            fleet.company_id,
            "live",
            f"LOADED-{route_id.hex[-16:]}",
            f"PO-{number}",
            lot.unit_number.format(number=number, truck=truck),
            lot.driver_name.format(number=number, truck=truck),
            start,
            stops,
            lot.status,
            lot.reason or _NULL,
            detail,
            fleet.trucks[truck] if matched else _NULL,
            fleet.drivers[truck] if matched else _NULL,
            imported_at,
            start if arrived else _NULL,
            _plan_id(lot, number) if arrived else _NULL,
            retry_at,
            start if lot.status is RouteStatus.COMPLETED else _NULL,
            "Canceled via API" if lot.status is RouteStatus.CANCELED else _NULL,
        )
        yield "\t".join(map(str, fields)) + "\n"


def _plan_id(lot: Lot, number: int) -> UUID | str:
    if lot.own_plans:
        return new_id()
    return lot.plans[number % len(lot.plans)] if lot.plans else _NULL


def load_plans(connection: Connection, fleet: Fleet) -> list[UUID]:
    """Plans with three fuel stops, as the planner would store them. They are shared by many routes, which costs a
    reader the same and the disk little.
    """
    owner = new_id()
    connection.execute(
        "INSERT INTO routes (id, company_id, environment, external_id, scheduled_start, stops, status)"
        " VALUES (%s, %s, 'live', 'PLANS', now(), %s, 'completed')",
        (owner, fleet.company_id, write(FIVE_STOPS).decode()),
    )
    document = write(_plan_document()).decode()
    timeline = write(
        [{"stop": stop, "mile": 210.0 * stop, "plannedArrival": "2026-12-01T08:00:00Z"} for stop in range(5)]
    ).decode()
    plans = [new_id() for _ in range(_VARIANTS)]
    with (
        connection.cursor() as cursor,
        cursor.copy(
            "COPY plans (id, company_id, environment, route_id, revision, generated_at, document, fuel_percent,"
            " timeline) FROM STDIN"
        ) as copy,
    ):
        for plan in plans:
            copy.write_row((plan, fleet.company_id, "live", owner, 1, datetime.now(UTC), document, 50, timeline))
    return plans


def _plan_document() -> dict[str, Any]:
    fuel_stops = [
        {
            "sequence": number,
            "name": f"Blue Mesa exit {number}",
            "address": f"I-80 exit {number}, Toledo, OH",
            "latitude": 41.5,
            "longitude": -83.5,
            "milesFromOrigin": 180.0 + 210 * number,
            "gallonsToFill": 60.0,
            "pricePerGallon": 3.599,
            "totalCost": 215.94,
            "arrivalFuelPercent": 22,
            "estimatedArrival": "2026-12-01T12:00:00Z",
        }
        for number in range(3)
    ]
    return {
        "generatedAt": "2026-12-01T08:00:00Z",
        "totalDistanceMiles": 841.2,
        "totalGallons": 180.0,
        "totalCost": 647.82,
        "averagePricePerGallon": 3.599,
        "savingsPerGallon": 0.211,
        "savingsTotal": 37.98,
        "stops": fuel_stops,
    }
