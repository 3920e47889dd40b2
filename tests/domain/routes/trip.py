"""A trip whose truck stands at its first stop and has a plan: what reviews are tested with."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from domain.contract.shapes import Position
from domain.database.connections import Connection, Tenant
from domain.planning import stored_plans
from domain.planning.plan_tasks import PlanTask, arrivals_on, load_plan_task, road_ahead
from domain.queue.jobs import Job
from domain.roads.highways import HighwayRoads
from domain.routes.plans import first_plan, review_requests, reviews
from domain.routes.plans.reviews import ReviewOutcome
from domain.routes.progress.tracking import process_vehicles
from domain.routes.reading.explanations import read_route_explanation
from domain.settings import Settings
from domain.stations.corridor_offers import StationPlaces, offers_along
from domain.stations.stations import store_station_rows
from tests.domain.helpers import deliver, imported, positions_at, post
from tests.factories import JOLIET, NEWARK, STATIONS, Fleet, put_demo_stations
from tests.jobs import jobs_after
from tests.rows import named

ROADS = HighwayRoads()

OUT_OF_TOWN = {"name": "on the road", "latitude": JOLIET["latitude"] + 0.008, "longitude": JOLIET["longitude"]}


class Trip:
    """Truck 101 at the first stop of a route, 40 % full, with a plan: every step of the workers by hand."""

    def __init__(
        self,
        connection: Connection,
        fleet: Fleet,
        settings: Settings,
        now: datetime,
        tenant: Tenant,
        *,
        planned: bool = True,
    ) -> None:
        self.connection, self.fleet, self.settings, self.tenant = connection, fleet, settings, tenant
        self.now = now
        put_demo_stations(connection, now=now)
        self.route_id = imported(connection, tenant, now=now, stops=[JOLIET, NEWARK])
        self.report(JOLIET, 40, 40, 40)
        if planned:
            self.plan()

    def plan(self) -> None:
        task = load_plan_task(self.connection, self.route_id, now=self.now)
        assert task is not None
        first_plan.finish_plan(self.connection, task, *self.made(task), now=self.now)

    def report(self, stop: dict[str, Any], *fuel_percents: float | None, speed_mph: float = 0) -> list[Job]:
        """A fix for each reading, half a minute apart; returns the jobs that follow."""
        positions: list[Position] = []
        for percent in fuel_percents:
            positions += positions_at(stop, self.now, count=1, speed_mph=speed_mph, fuel_percent=percent)
            self.now += timedelta(seconds=30)
        post(self.connection, self.tenant, positions, now=self.now)
        return self.process()

    def process(self) -> list[Job]:
        return jobs_after(
            self.connection,
            lambda: process_vehicles(
                self.connection, self.tenant.environment, self.fleet.trucks, settings=self.settings, now=self.now
            ),
        )

    def depart(self, fuel_percent: float | None = 40) -> list[Job]:
        return self.report(OUT_OF_TOWN, fuel_percent, fuel_percent, speed_mph=40)

    def depart_again(self) -> list[Job]:
        """The fixes that are there are processed once more."""
        self.connection.execute(
            "UPDATE tracks SET unprocessed_from = oldest_at WHERE vehicle_id = %s", (self.fleet.trucks[0],)
        )
        return self.process()

    def new_prices(self, change: float) -> list[Job]:
        """All prices of Ohio change by so many dollars a gallon."""
        store_station_rows(self.connection, STATIONS, now=self.now)
        self.connection.execute("UPDATE stations SET retail_price = retail_price + %s WHERE state = 'OH'", (change,))
        jobs = jobs_after(
            self.connection, lambda: review_requests.after_new_prices(self.connection, None, now=self.now)
        )
        return [job for job in jobs if job.payload == {"route_id": self.route_id}]

    def send(self) -> None:
        for message in self.messages("pending"):
            deliver(self.connection, message.id, settings=self.settings, now=self.now)

    def review(self) -> ReviewOutcome | None:
        review = reviews.begin_review(self.connection, self.route_id, now=self.now)
        if review is None:
            return None
        return reviews.finish_review(self.connection, review, *self.made(review.task), now=self.now)

    def made(self, task: PlanTask) -> Any:
        road = road_ahead(task, ROADS)
        corridor = offers_along(
            self.connection,
            self.fleet.company_id,
            road,
            5.0,
            StationPlaces(),
            now=self.now,
            arrivals=arrivals_on(task, road),
        )
        return corridor, stored_plans.plan_for_task(task, road, corridor, now=self.now)

    def messages(self, *statuses: str) -> Sequence[Any]:
        return (
            named(self.connection)
            .execute(
                "SELECT * FROM messages WHERE route_id = %s AND status = ANY(%s) ORDER BY created_at, id",
                (self.route_id, list(statuses)),
            )
            .fetchall()
        )

    @property
    def start_gallons(self) -> float:
        explanation = read_route_explanation(self.connection, self.route_id)
        assert explanation is not None
        gallons: float = explanation["inputs"]["start_gallons"]
        return gallons


SENT = ("sent", "suppressed")
