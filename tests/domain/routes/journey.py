"""A journey along a real road, on which plans are made anew."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from domain.contract.shapes import Position
from domain.database.connections import Connection, Tenant
from domain.lifecycle import Environment
from domain.messages.due_messages import due_messages
from domain.planning import stored_plans
from domain.planning.explanation import unpack_explanation
from domain.planning.fuel_plan import NoPlan
from domain.planning.menu import find_choices
from domain.planning.plan_tasks import PlanTask, arrivals_on, load_plan_task, road_ahead
from domain.planning.relaxation import FURTHEST_DETOUR_MILES
from domain.queue.jobs import SWEEP_GRACE, Job, build_plan_job, process_positions_job, review_plan_job
from domain.roads import Point
from domain.roads.highways import HighwayRoads
from domain.roads.sphere import MILES_PER_DEGREE
from domain.routes.plans import first_plan, menus, replans, reviews
from domain.routes.plans.replans import Replan
from domain.routes.plans.review_requests import due_reviews
from domain.routes.plans.reviews import Review
from domain.routes.progress.tracking import process_vehicles
from domain.settings import Settings
from domain.stations.corridor_offers import StationPlaces, offers_along
from domain.telematics.due_trucks import MAY_WAIT
from domain.telematics.tracks import lost_processing
from tests.domain.helpers import deliver, imported, positions_at, post, route_row
from tests.factories import JOLIET, NEWARK, Fleet
from tests.jobs import jobs_of
from tests.rows import named

ROADS = HighwayRoads()

NETWORK = StationPlaces()

PERCENT_PER_MILE = 100 / 6.5 / 200


class Leg(NamedTuple):
    """Along the first plan's road from one mile to another, so many miles north of it."""

    from_mile: float
    to_mile: float
    north_miles: float = 0.0


class Journey:
    """Truck 101 on its way from Joliet to Newark with a plan that the driver has: every step of the workers by hand."""

    def __init__(
        self,
        connection: Connection,
        fleet: Fleet,
        settings: Settings,
        now: datetime,
        *,
        live: bool = False,
        planned: bool = True,
        percent: float = 40.0,
        horizon_miles: float = 10_000.0,
        menus: bool = False,
        **route: Any,
    ) -> None:
        self.connection, self.fleet, self.settings = connection, fleet, settings
        self.tenant = Tenant(fleet.company_id, Environment.LIVE if live else Environment.SANDBOX)
        self.start = self.now = now
        self.percent = percent
        self.horizon_miles = horizon_miles
        self.menus = menus
        self.route_id = imported(connection, self.tenant, now=now, **{"stops": [JOLIET, NEWARK], **route})
        post(connection, self.tenant, positions_at(JOLIET, now, fuel_percent=percent), now=now + timedelta(minutes=2))
        jobs_of(connection)
        self.run(self.process())
        if planned:
            self.run([build_plan_job(self.route_id)])

    # The workers

    def process(self) -> list[Job]:
        process_vehicles(
            self.connection, self.tenant.environment, self.fleet.trucks, settings=self.settings, now=self.now
        )
        return jobs_of(self.connection)

    def run(self, jobs: Sequence[Job]) -> None:
        """These jobs and all that follow from them."""
        waiting = list(jobs)
        while waiting:
            waiting += self.work(waiting.pop(0))

    def work(self, job: Job) -> list[Job]:
        match job.name:
            case "arrivals.process":
                return self.process()
            case "plans.build":
                task = load_plan_task(self.connection, self.route_id, now=self.now)
                if task is not None:
                    first_plan.finish_plan(self.connection, task, *self.made(task), now=self.now)
            case "plans.review":
                due = self.begun()
                if due is not None:
                    self.finished(due)
            case "plans.menu":
                self.make_menu(job.payload["plan_id"])
            case "messages.send":
                deliver(self.connection, job.payload["message_id"], settings=self.settings, now=self.now)
            case _:
                raise AssertionError(job)
        return jobs_of(self.connection)

    def make_menu(self, plan_id: UUID) -> None:
        menu = menus.begin_menu(self.connection, plan_id, max_attempts=8) if self.menus else None
        if menu is not None:
            _, plan = self.made(menu.task)
            assert menus.is_same_plan(menu, plan)
            menus.finish_menu(self.connection, menu, find_choices(plan))

    def begun(self) -> Replan | Review | None:
        begun = replans.begin_replan(self.connection, self.route_id, now=self.now)
        return begun or reviews.begin_review(self.connection, self.route_id, now=self.now)

    def finished(self, due: Replan | Review) -> str:
        made = self.made(due.task)
        if isinstance(due, Replan):
            return replans.finish_replan(self.connection, due, *made, now=self.now)
        return reviews.finish_review(self.connection, due, *made, now=self.now)

    def made(self, task: PlanTask) -> Any:
        road = road_ahead(task, ROADS).up_to(self.horizon_miles)
        arrivals = arrivals_on(task, road)
        corridor = offers_along(
            self.connection, self.fleet.company_id, road, 5.0, NETWORK, now=self.now, arrivals=arrivals
        )
        plan = stored_plans.plan_for_task(task, road, corridor, now=self.now)
        if isinstance(plan, NoPlan):
            further = offers_along(
                self.connection,
                self.fleet.company_id,
                road,
                FURTHEST_DETOUR_MILES,
                NETWORK,
                now=self.now,
                arrivals=arrivals,
            )
            plan = stored_plans.plan_for_task(task, road, corridor, further=further, now=self.now)
        return corridor, plan

    def lost_jobs(self) -> list[Job]:
        """Everything that is due, as the sweep would find it."""
        later = self.now + timedelta(minutes=10)
        messages = due_messages(self.connection, now=later, limit=100)
        mine = {message.id for message in self.messages()}
        return [
            *([review_plan_job(self.route_id)] if self.route_id in due_reviews(self.connection, now=later) else []),
            *(Job("messages.send", "messages", {"message_id": one}) for one in messages if one in mine),
            Job("arrivals.process", "arrivals", {}),
        ]

    # The truck

    def fixes(
        self, *legs: Leg, fueled: Sequence[tuple[float, float]] = (), minutes_apart: float = 2.0
    ) -> list[Position]:
        """At 60 mph; `fueled` are percents of the tank, each with the mile from which on they are in it."""
        first = (
            unpack_explanation(self.versions()[0].explanation)
            if self.versions() and self.versions()[0].explanation
            else None
        )
        line, miles = (first["line"], first["line_miles"]) if first else self.known_road()
        positions = []
        moment = self.now + timedelta(minutes=3)
        for leg in legs:
            count = max(1, round(abs(leg.to_mile - leg.from_mile) / minutes_apart))
            for step in range(count):
                mile = leg.from_mile + step / count * (leg.to_mile - leg.from_mile)
                place = at_mile(line, miles, mile, leg.north_miles)
                level = self.percent - PERCENT_PER_MILE * mile + sum(more for at, more in fueled if mile > at)
                positions.append(
                    Position(
                        unit_number="101",
                        latitude=place.latitude,
                        longitude=place.longitude,
                        recorded_at=moment,
                        speed_mph=60,
                        fuel_percent=level,
                    )
                )
                moment += timedelta(minutes=minutes_apart)
        return positions

    def known_road(self) -> tuple[Any, Any]:
        road = ROADS.through([Point(stop["latitude"], stop["longitude"]) for stop in (JOLIET, NEWARK)])
        return road.line.tolist(), road.line_miles.tolist()

    def report(self, positions: Sequence[Position]) -> list[Job]:
        if positions:
            self.now = max(self.now, positions[-1].recorded_at)
        post(self.connection, self.tenant, positions, now=self.now)
        return jobs_of(self.connection) or self.swept()

    def swept(self) -> list[Job]:
        """A live truck that is due for a look at its fuel alone waits for the sweep."""
        environment, company_id = self.tenant.environment, self.tenant.company_id
        waiting = lost_processing(self.connection, now=self.now + MAY_WAIT + SWEEP_GRACE)
        trucks = waiting.get((environment, company_id), [])
        return [process_positions_job(environment, trucks, company_id)] if trucks else []

    def drive(self, *legs: Leg, fueled: Sequence[tuple[float, float]] = ()) -> None:
        """A fix every four minutes is posted by itself, and what follows is done."""
        for position in self.fixes(*legs, fueled=fueled, minutes_apart=4.0):
            self.run(self.report([position]))

    # What came of it

    def versions(self) -> Sequence[Any]:
        return (
            named(self.connection)
            .execute("SELECT * FROM plans WHERE route_id = %s ORDER BY generated_at, id", (self.route_id,))
            .fetchall()
        )

    def causes(self) -> list[str | None]:
        return [version.cause and version.cause["kind"] for version in self.versions()]

    def messages(self) -> Sequence[Any]:
        return (
            named(self.connection)
            .execute("SELECT * FROM messages WHERE route_id = %s ORDER BY created_at, id", (self.route_id,))
            .fetchall()
        )

    @property
    def route(self) -> Any:
        return route_row(self.connection, self.route_id)

    @property
    def track(self) -> Any:
        return (
            named(self.connection)
            .execute(
                "SELECT * FROM tracks WHERE vehicle_id = %s AND environment = %s",
                (self.fleet.trucks[0], self.tenant.environment),
            )
            .fetchone()
        )

    @property
    def fuel_stops(self) -> list[dict[str, Any]]:
        """The fuel stops of the plan that the route shows."""
        (plan,) = [version for version in self.versions() if version.id == self.route.plan_id]
        stops: list[dict[str, Any]] = plan.document["stops"]
        return stops

    def fueled(self) -> list[tuple[float, float]]:
        """The mile of each purchase of the plan, and its percent of the tank."""
        return [(stop["milesFromOrigin"], stop["gallonsToFill"] / 2) for stop in self.fuel_stops]


def at_mile(line: Any, miles: Any, mile: float, north_miles: float) -> Point:
    at = next((number for number, one in enumerate(miles) if one > mile), len(miles) - 1)
    share = (mile - miles[at - 1]) / (miles[at] - miles[at - 1] or 1)
    (south, west), (north, east) = line[at - 1], line[at]
    latitude = south + share * (north - south) + north_miles / MILES_PER_DEGREE
    return Point(latitude, west + share * (east - west))
