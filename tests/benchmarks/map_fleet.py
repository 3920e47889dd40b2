"""A company whose trucks drive all over the country: what the page Map shows at its fullest."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from domain.database.connections import Database
from domain.database.options import HOUSEKEEPING
from domain.encoding import write
from domain.lifecycle import RouteStatus
from domain.telematics.position_partitions import maintain_partitions
from tests.benchmarks.loader import Fleet, Lot, load_fleet, load_routes

FIXES = 60
"""The fixes of each truck: one a minute for an hour."""

_ON_ITS_WAY = 0.8
"""The part of the trucks that drive a route with a plan. The others have a draft."""

_PLANS = """
    INSERT INTO plans (id, company_id, environment, route_id, revision, generated_at, document, fuel_percent, timeline)
    SELECT r.plan_id, r.company_id, 'live', r.id, 1, %(now)s, jsonb_build_object(
               'generatedAt', %(now)s::timestamptz, 'totalDistanceMiles', 841.2, 'totalGallons', 120, 'totalCost', 430,
               'averagePricePerGallon', 3.6, 'savingsPerGallon', 0.2, 'savingsTotal', 24, 'stops',
               (SELECT jsonb_agg(jsonb_build_object(
                    'sequence', n, 'name', 'Blue Mesa exit ' || n, 'address', 'I-80 exit ' || n, 'latitude', 41.5,
                    'longitude', -86.0 + 4 * n, 'milesFromOrigin', 100 + 210 * n, 'gallonsToFill', 60,
                    'pricePerGallon', 3.599, 'totalCost', 215.94, 'arrivalFuelPercent', 22, 'estimatedArrival', NULL))
                FROM generate_series(0, 2) AS n)),
           50, %(timeline)s
    FROM routes r WHERE r.company_id = %(company)s AND r.plan_id IS NOT NULL
"""
_VISITS = """
    INSERT INTO visits (company_id, environment, route_id, stop, vehicle_id, arrived_at, departed_at)
    SELECT company_id, environment, id, 0, vehicle_id, arrived_at, arrived_at FROM routes
    WHERE company_id = %(company)s AND status = 'active'
"""
_TRACKS = """
    INSERT INTO tracks (company_id, vehicle_id, environment, oldest_at, newest_at, latitude, longitude)
    SELECT company_id, id, 'live', %(now)s::timestamptz - interval '1 hour',
           %(now)s::timestamptz - random() * interval '1 minute', 31 + 16 * random(), -120 + 44 * random()
    FROM vehicles WHERE company_id = %(company)s
"""
_POSITIONS = """
    INSERT INTO positions (company_id, environment, vehicle_id, recorded_at, latitude, longitude, speed_mph,
                           fuel_percent, received_at)
    SELECT t.company_id, 'live', t.vehicle_id, t.newest_at - n * interval '1 minute', t.latitude,
           t.longitude - n * 0.015, 55, 20 + 70 * random(), t.newest_at
    FROM tracks t CROSS JOIN generate_series(0, %(fixes)s - 1) AS n WHERE t.company_id = %(company)s
    ORDER BY n DESC, t.vehicle_id
"""
"""In the order in which they come in."""
MOVE = """
    UPDATE tracks SET newest_at = now(), latitude = latitude + 0.001, longitude = longitude + 0.01
    WHERE company_id = %s AND environment = 'live' AND vehicle_id = ANY(
        ARRAY(SELECT vehicle_id FROM tracks WHERE company_id = %s AND environment = 'live' LIMIT %s))
"""


def load_map_fleet(database: Database, trucks: int) -> Fleet:
    """The company with so many trucks."""
    now = datetime.now(UTC)
    with database.transaction(limits=HOUSEKEEPING) as connection:
        maintain_partitions(connection, retention_days=30, now=now)
        fleet = load_fleet(connection, trucks)
    driving = round(trucks * _ON_ITS_WAY)
    drafts = Fleet(fleet.company_id, fleet.trucks[driving:], fleet.drivers[driving:])
    starts = (now - timedelta(hours=10), now - timedelta(hours=1))
    lots = [
        Lot(fleet, driving, RouteStatus.ACTIVE, starts, own_plans=True),
        Lot(drafts, trucks - driving, RouteStatus.DRAFT, (now + timedelta(hours=1), now + timedelta(hours=20))),
    ]
    load_routes(database, lots)
    asked = {"company": fleet.company_id, "now": now, "fixes": FIXES, "timeline": _timeline()}
    with database.transaction(limits=HOUSEKEEPING) as connection:
        for statement in (_PLANS, _VISITS, _TRACKS, _POSITIONS):
            connection.execute(statement, asked)
        for table in ("vehicles", "drivers", "plans", "visits", "tracks", "positions"):
            connection.execute(f"ANALYZE {table}")
    return fleet


def move_trucks(database: Database, company_id: UUID, trucks: int) -> None:
    with database.transaction() as connection:
        connection.execute(MOVE, (company_id, company_id, trucks))


def _timeline() -> str:
    miles = enumerate((None, 210.0, 420.0, 630.0, 841.2))
    return write(
        [{"stop": stop, "mile": mile, "plannedArrival": "2026-12-01T08:00:00Z"} for stop, mile in miles]
    ).decode()
