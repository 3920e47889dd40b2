"""The living fleet: drives the demo's trucks along the roads of their plans, and gives each a new trip when one ends.

Positions and routes go through the API, with the demo's key, as those of trackers and of a TMS do. Nothing is kept:
after a restart each truck goes on from its last fix."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Self
from uuid import UUID

import httpx
import psycopg

from deploy.demo.card_file import import_new_purchases
from deploy.demo.moves import MovingTruck, Way
from deploy.demo.present import LATE, LOW, LOW_PERCENT, SILENT, unit_in_tms
from deploy.demo.prices import keep_prices_fresh
from deploy.demo.trips import FIRST_UNIT, OFF_ROAD, PLACES, chance_of, external_id, next_lane
from domain import clock
from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, DEFAULT_MPG
from domain.contract.shapes import Position
from domain.database.connections import Connection, Database, Tenant
from domain.database.statements import Scalar, Statement
from domain.documents import FuelStopDocument
from domain.encoding import write
from domain.housekeeping.retention import delete_routes
from domain.ids import shown_id
from domain.lifecycle import Environment, RouteStatus
from domain.roads import Point, great_circle_miles
from domain.sandbox.demo_fleet import read_demo_fleet
from domain.sandbox.turns import road_of_plan
from domain.settings import Settings

HERE = Path(__file__).parent
_LOOK_SECONDS = 2.0
"""Wait between two looks at the speed."""
_GROUPS = 3
"""The trucks report in turns, a third of them at once, so that the map always moves."""
_TURN_SECONDS: Mapping[int, float] = {0: 100.0, 1: 20.0, 20: 4.0, 60: 2.0}
"""Time between two turns by speed. Each truck reports every third turn."""
_SILENT_FOR = timedelta(hours=4)
_RESTS = timedelta(minutes=40)
_LEAST_REST = timedelta(minutes=1)
"""Time after a trip until the next one is pushed; shorter at speed."""
_LONGEST_GAP = timedelta(minutes=5)
"""A truck moves at most as if its last fix were so old: nothing moved while the demo did not run."""
_DAILY_LOOK_SECONDS = 900.0
_KEPT = timedelta(days=180)
_START_AFTER = timedelta(minutes=3)
_DUE_AFTER_SHARE = 0.25
"""A truck that is late is due at its last stop after this part of its drive."""


class _Truck(NamedTuple):
    vehicle_id: UUID
    unit_number: str | None
    driver_name: str | None
    mpg: float | None
    capacity_gallons: float | None
    latitude: float | None
    longitude: float | None
    fuel_percent: float | None
    fix_at: datetime | None
    route_id: UUID | None
    status: str | None
    plan_id: UUID | None
    external_id: str | None
    ended_at: datetime | None
    """When its last trip was completed; None while one is under way."""


_TRUCKS = Statement(
    _Truck,
    """
    SELECT v.id AS vehicle_id, v.unit_number, d.name AS driver_name, v.mpg,
           v.fuel_tank_capacity_gallons AS capacity_gallons, fix.latitude, fix.longitude, fix.fuel_percent,
           fix.recorded_at AS fix_at, trip.id AS route_id, trip.status, trip.plan_id, trip.external_id,
           coalesce(trip.completed_at,
                    CASE WHEN trip.status IN ('error', 'canceled') THEN trip.updated_at END) AS ended_at
    FROM vehicles v
    LEFT JOIN drivers d ON d.company_id = v.company_id AND d.external_id = 'DRV-' || (v.unit_number::int - 5100)
         AND d.retired_at IS NULL
    LEFT JOIN tracks t ON t.vehicle_id = v.id AND t.environment = 'live'
    LEFT JOIN positions fix ON fix.vehicle_id = v.id AND fix.environment = 'live' AND fix.recorded_at = t.newest_at
    LEFT JOIN LATERAL (
        SELECT r.id, r.status, r.plan_id, r.external_id, r.completed_at, r.updated_at FROM routes r
        WHERE r.company_id = v.company_id AND r.environment = 'live' AND r.external_id ~ '^PR-[0-9]{4}-[0-9]+$'
          AND starts_with(r.external_id, 'PR-' || v.unit_number || '-') AND r.scheduled_start > %(recent)s::timestamptz
        ORDER BY r.scheduled_start DESC, r.id DESC LIMIT 1) AS trip ON true
    WHERE v.company_id = %(company_id)s AND v.unit_number BETWEEN '5201' AND '5224' AND v.retired_at IS NULL
    ORDER BY v.unit_number
    """,
)


_OLD_TRIPS = Scalar(
    UUID,
    "SELECT id FROM routes WHERE company_id = %s AND environment = 'live' AND external_id LIKE 'PR-%%'"
    " AND status IN ('completed', 'canceled', 'error') AND scheduled_start < %s ORDER BY id LIMIT 500 FOR UPDATE",
)


class _Plan(NamedTuple):
    id: UUID
    stops: list[FuelStopDocument]
    explanation: bytes | None


_PLANS = Statement(
    _Plan,
    "SELECT id, coalesce(document->'stops', '[]') AS stops, explanation FROM plans"
    " WHERE company_id = %s AND id = ANY(%s)",
)


class Feed:
    """Posts as the demo's TMS and its trackers do."""

    def __init__(self, url: str, key: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=15, headers={"Authorization": f"Bearer {key}"})

    def positions(self, fixes: Sequence[Position]) -> None:
        self._post("/telematics/positions", {"positions": fixes})

    def route(self, body: object) -> None:
        self._post("/v1/routes", body)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _post(self, path: str, body: object) -> None:
        headers = {"Content-Type": "application/json"}
        self._client.post(path, content=write(body), headers=headers).raise_for_status()


class LivingFleet:
    """The trucks of a demo's company, driven turn by turn."""

    def __init__(self, database: Database, company_id: UUID, feed: Feed, settings: Settings) -> None:
        self._settings = settings
        self._database, self._company_id, self._feed = database, company_id, feed
        self._trucks: dict[UUID, MovingTruck] = {}
        self._turn = 0

    def drive(self) -> None:
        """Drives until the demo is removed. Troubles of the servers pass by themselves."""
        turned_at = looked_at = -math.inf
        with self._feed:
            while True:
                with suppress(httpx.HTTPError, psycopg.OperationalError):
                    speed = self._speed()
                    if speed is None:
                        return
                    if time.monotonic() >= looked_at + _DAILY_LOOK_SECONDS:
                        looked_at = time.monotonic()
                        self.tidy(now=clock.now())
                    if time.monotonic() >= turned_at + _TURN_SECONDS.get(speed, _LOOK_SECONDS):
                        turned_at = time.monotonic()
                        self.take_turn(speed, now=clock.now())
                time.sleep(_LOOK_SECONDS)

    def _speed(self) -> int | None:
        with self._database.transaction() as connection:
            fleet = read_demo_fleet(connection, self._company_id)
        return fleet.speed_at(clock.now()) if fleet is not None else None

    def tidy(self, *, now: datetime) -> None:
        """Does what a demo of many days needs: once a day new prices and the card's file of the last trips. It forgets
        trips older than half a year."""
        with self._database.transaction() as connection:
            if keep_prices_fresh(connection, HERE / "stations.csv", now=now):
                tenant = Tenant(self._company_id, Environment.LIVE)
                import_new_purchases(connection, tenant, self._settings, "fuelroute demo", now=now)
        with self._database.transaction() as connection:
            old = _OLD_TRIPS.all(connection, (self._company_id, now - _KEPT))
            delete_routes(connection, old)

    def take_turn(self, speed: int, *, now: datetime) -> None:
        """Moves a third of the trucks, and pushes the routes whose time has come."""
        self._turn += 1
        recent = now - timedelta(days=30)
        with self._database.transaction() as connection:
            known = _TRUCKS.all(connection, {"company_id": self._company_id, "recent": recent})
            mine = [one for one in known if _number(one) % _GROUPS == self._turn % _GROUPS]
            self._read_ways(connection, mine)
        fixes = [fix for one in mine for fix in self._moved(one, speed, now)]
        if fixes:
            self._feed.positions(fixes)
        for one in mine:
            if speed and one.ended_at is not None and now - one.ended_at > max(_RESTS / speed, _LEAST_REST):
                self._push_next(one, now)

    def _read_ways(self, connection: Connection, trucks: Sequence[_Truck]) -> None:
        """Tells the trucks of new plans which way to take."""
        new: dict[UUID, MovingTruck] = {}
        for one in trucks:
            truck = self._truck(one)
            if truck is None:
                continue
            drives = one.status == RouteStatus.ACTIVE
            if not drives:
                truck.way = None
            elif one.plan_id is not None and (truck.way is None or truck.way.plan_id != one.plan_id):
                new[one.plan_id] = truck
        for plan in _PLANS.all(connection, (self._company_id, list(new))) if new else ():
            if plan.explanation is not None:
                new[plan.id].take(Way.of(plan.id, road_of_plan(plan.explanation), plan.stops, after_mile=-1.0))

    def _truck(self, one: _Truck) -> MovingTruck | None:
        """The truck as it was after its last turn, or by its last fix."""
        if one.latitude is None or one.longitude is None or one.fix_at is None:
            return None
        truck = self._trucks.get(one.vehicle_id)
        if truck is None:
            truck = self._trucks[one.vehicle_id] = MovingTruck(
                vehicle_id=shown_id("veh", one.vehicle_id),
                mpg=one.mpg or DEFAULT_MPG,
                capacity_gallons=one.capacity_gallons or DEFAULT_CAPACITY_GALLONS,
                place=Point(one.latitude, one.longitude),
                fuel_percent=one.fuel_percent or 50.0,
                moved_at=one.fix_at,
                leaves_road=_number(one) == OFF_ROAD,
            )
        return truck

    def _moved(self, one: _Truck, speed: int, now: datetime) -> Iterator[Position]:
        truck = self._truck(one)
        if truck is None:
            return
        if _number(one) == SILENT and one.status == RouteStatus.ACTIVE and truck.way is not None:
            yield from _catch_up(truck, speed, now)
            return
        truck.moved_at = max(truck.moved_at, now - _LONGEST_GAP)
        yield truck.move(now, speed)

    def _push_next(self, one: _Truck, now: datetime) -> None:
        """Pushes the next route of a truck, from where it is."""
        truck, number = self._trucks.get(one.vehicle_id), _number(one)
        if truck is None or one.external_id is None or one.driver_name is None:
            return
        trip = int(one.external_id.rpartition("-")[2]) + 1
        chance = chance_of(external_id(number, trip))
        here = min(PLACES, key=lambda name: great_circle_miles(truck.place, _point(PLACES[name])))
        truck.place = _point(PLACES[here])
        lane = next_lane(number, here, chance)
        stops = [dict(place) for place in lane.stops]
        if number in LATE:
            stops[-1]["arrivalWindow"] = {"end": now + lane.duration * _DUE_AFTER_SHARE}
        if number == LOW:
            truck.fuel_percent = LOW_PERCENT
        self._feed.route(
            {
                "externalId": external_id(number, trip),
                "reference": f"PO-{external_id(number, trip)[3:]}",
                "vehicle": {"unitNumber": unit_in_tms(number)},
                "driver": {"name": one.driver_name},
                "scheduledStart": now + _START_AFTER,
                "stops": stops,
            }
        )


def _catch_up(truck: MovingTruck, speed: int, now: datetime) -> Iterator[Position]:
    """The fixes of a truck without reception: none for hours, then those of the way since."""
    if now - truck.moved_at < _SILENT_FOR:
        return
    step = timedelta(minutes=5)
    while truck.moved_at + step <= now:
        yield truck.move(truck.moved_at + step, speed)


def _number(one: _Truck) -> int:
    return int(one.unit_number or FIRST_UNIT) - FIRST_UNIT


def _point(place: Mapping[str, float]) -> Point:
    return Point(place["latitude"], place["longitude"])
