"""Dispatch by the service: real PostgreSQL, Redis, ingress and workers. Trucks post their fixes, drivers read their
messages. It happens in the sandbox, where time is simulated and no message leaves the house."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import UUID

import httpx
from rich.progress import Progress

from domain import clock
from domain.accounts.keys import create_key
from domain.contract.shapes import SCOPES
from domain.ids import new_id, read_id
from domain.lifecycle import Environment
from domain.stations.stations import store_station_rows
from tests.benchmarks.harness import Bench, Stack
from tests.benchmarks.load import LoadFailed
from tests.benchmarks.truth.driver import Fix, Order
from tests.benchmarks.truth.network import network
from tests.benchmarks.truth.orders import orders_of
from tests.benchmarks.truth.world import Trip, Truck
from tests.factories import DOT, make_fleet

STEP_SECONDS = 60.0
"""The longest wait for what follows from a fix."""
LOOK_SECONDS = 0.02


@contextmanager
def running(progress: Progress) -> Iterator["Service"]:
    """The service with the stations of the judge's world."""
    with Bench(progress).stack("truth") as stack:
        host, port = stack.start_ingress()
        stack.start("workers")
        store_network(stack, now=clock.now())
        yield Service(stack, f"http://{host}:{port}")


def store_network(stack: Stack, *, now: datetime) -> None:
    """Imports the stations of the judge's world, with prices as of that time."""
    path = stack.settings.data / "stations.csv"
    rows = zip(network().stations, network().net_prices, strict=True)
    names = "station_id,name,brand,address,city,state,latitude,longitude"
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{names},retail_price\n")
        for one, price in rows:
            cells = ",".join(str(getattr(one, name) or "") for name in names.split(","))
            file.write(f"{cells},{price}\n")
    with stack.database.transaction() as connection:
        store_station_rows(connection, path, now=now)


class Service:
    def __init__(self, stack: Stack, url: str) -> None:
        self.stack, self.url = stack, url

    def dispatch(self, truck: Truck, replans_en_route: bool) -> "ByService":
        """A company of its own with one truck."""
        with self.stack.database.transaction() as connection:
            fleet = make_fleet(connection, replan_en_route=replans_en_route)
            connection.execute(
                "UPDATE vehicles SET fuel_tank_capacity_gallons = %s, mpg = %s WHERE id = %s",
                (truck.capacity_gallons, truck.declared_mpg, fleet.trucks[0]),
            )
            made = create_key(
                connection,
                fleet.company_id,
                DOT,
                name="judge",
                environment=Environment.SANDBOX,
                scopes=list(SCOPES),
            )
        client = httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {made.key}"}, verify=False, trust_env=False
        )
        return ByService(self.stack, client)


class ByService:
    """The dispatch of one truck, trip after trip."""

    def __init__(self, stack: Stack, client: httpx.Client) -> None:
        self.stack, self.client = stack, client

    def begin(self, trip: Trip, fix: Fix) -> Sequence[Order]:
        self.trip, self.told, self.from_mile = trip, set[UUID](), 0.0
        self.route_id = self._push(fix)
        self._post(*(fix._replace(at=fix.at + timedelta(seconds=15 * number)) for number in (-2, -1, 0)))
        self._await("status IN ('active', 'completed', 'error')")
        return self._read(fix) or []

    def see(self, fix: Fix) -> Sequence[Order] | None:
        self._post(fix)
        self._await("replan IS NULL AND correction_id IS NULL")
        return self._read(fix)

    def end(self, fix: Fix) -> None:
        """The truck stands at its destination; one that is out of fuel is towed there."""
        there = fix._replace(mile=self.trip.road.distance_miles)
        self._post(*(there._replace(at=fix.at + timedelta(minutes=number)) for number in (5, 10, 15)))
        self._await("status IN ('completed', 'error')")

    def _push(self, fix: Fix) -> UUID:
        line = self.trip.road.line
        body = {
            "externalId": new_id().hex,
            "vehicle": {"unitNumber": "101"},
            "driver": {"name": "Ann Lee"},
            "scheduledStart": fix.at.isoformat(),
            "stops": [
                {"name": name, "latitude": float(line[at][0]), "longitude": float(line[at][1])}
                for name, at in (("Start", 0), ("End", -1))
            ],
        }
        answer = self.client.post("/v1/routes", json=body)
        answer.raise_for_status()
        route_id = read_id("rte", answer.json()["id"])
        assert route_id is not None
        return route_id

    def _post(self, *fixes: Fix) -> None:
        positions = [
            {
                "unitNumber": "101",
                "latitude": place.latitude,
                "longitude": place.longitude,
                "recordedAt": one.at.isoformat(),
                "speedMph": 60 if 0 < one.mile < self.trip.road.distance_miles else 0,
                "fuelPercent": one.percent,
            }
            for one in fixes
            for place in [self.trip.place_at(one.mile)]
        ]
        self.client.post("/telematics/positions", json={"positions": positions}).raise_for_status()

    def _await(self, condition: str) -> None:
        """Waits until the workers have done what follows from the fixes."""
        deadline = time.monotonic() + STEP_SECONDS
        statement = (
            f"SELECT {condition} AND NOT EXISTS (SELECT FROM tracks t WHERE t.vehicle_id = r.vehicle_id"
            " AND t.environment = r.environment AND t.unprocessed_from IS NOT NULL) AS is_done"
            " FROM routes r WHERE id = %s"
        )
        while not self.stack.query(statement, self.route_id)[0].is_done:
            if time.monotonic() > deadline:
                raise LoadFailed(f"waited {STEP_SECONDS:g} s for {condition}")
            time.sleep(LOOK_SECONDS)

    def _read(self, fix: Fix) -> list[Order] | None:
        """The orders of a message that the driver has not read yet."""
        rows = self.stack.query(
            "SELECT m.id, m.text, p.document FROM messages m JOIN plans p ON p.id = m.plan_id WHERE m.route_id = %s"
            " ORDER BY m.created_at, m.id",
            self.route_id,
        )
        new = [row for row in rows if row.id not in self.told]
        self.told |= {row.id for row in new}
        return orders_of(self.trip, new[-1].text, new[-1].document, fix.mile) if new else None
