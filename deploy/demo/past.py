"""Stores the demo's quarter of history: each step by the function of the service that takes it every day, as of the
moment at which it happened. Positions of the last days alone are stored, and the database's own times are set back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from deploy.demo.drives import Drive
from deploy.demo.trips import Lane, PastTrip, market_shift
from domain.accounts.companies import read_plan_policy
from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, DEFAULT_MPG
from domain.burn.learning import TruckToLearn, keep_levels, learn_truck
from domain.burn.stored_figures import figure_for_plan
from domain.burn.trip_levels import levels_of, pack_levels
from domain.contract.shapes import DriverRef, RouteInput, RouteStopInput, VehicleRef
from domain.database.connections import Connection, Tenant, pipelined
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.encoding import utc_text
from domain.ids import shown_id
from domain.planning.fuel_on_board import FuelOnBoard
from domain.planning.fuel_plan import ComputedPlan
from domain.planning.gauges import Gauge, Reading
from domain.planning.plan_tasks import PlanTask, route_to_plan
from domain.planning.stored_plans import plan_for_task
from domain.queue.jobs import in_batches
from domain.roads import Road, Roads
from domain.roads.sphere import stop_point
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, store_pushes
from domain.routes.plans import delivery, first_plan
from domain.routes.transitions import complete_routes, store_first_arrivals
from domain.routes.visits import store_fuel_visits, store_visits
from domain.settings import Settings
from domain.stations.corridor_offers import Corridor, StationPlaces, offers_along
from domain.stations.offers import Offer
from domain.stations.prices import PRICE_DECIMALS, PriceParts
from domain.telematics.arrivals import Evidence, Fix, Visit
from domain.telematics.feed import store_positions
from domain.telematics.fixes_to_visits import FuelVisit

STOOD_BEFORE = timedelta(minutes=9)
"""The truck comes to the first stop this long before it leaves."""
PUSHED_BEFORE = timedelta(hours=18)
_WITH_POSITIONS = timedelta(days=8)
"""Trips that ended within this time have their fixes."""
_FIX_STEP = timedelta(minutes=2)
_LEVEL_STEP = timedelta(minutes=12)
"""Time between two fixes of a recent trip, and between two levels of an older one."""


class FleetTruck(NamedTuple):
    """A truck of the demo's fleet, and its driver."""

    vehicle_id: UUID
    unit_number: NotNull[str]
    mpg: float | None
    capacity_gallons: float | None
    driver_name: NotNull[str]


_VEHICLES = Statement(
    FleetTruck,
    """
    SELECT v.id AS vehicle_id, v.unit_number, v.mpg, v.fuel_tank_capacity_gallons AS capacity_gallons,
           d.name AS driver_name
    FROM vehicles v JOIN drivers d ON d.company_id = v.company_id
         AND d.external_id = 'DRV-' || (v.unit_number::int - 5100)
    WHERE v.company_id = %s AND v.unit_number BETWEEN '5201' AND '5299' AND v.retired_at IS NULL
    ORDER BY v.unit_number
    """,
)


def fleet_of(connection: Connection, company_id: UUID) -> list[FleetTruck]:
    """The trucks of the demo's fleet, in the order of their unit numbers."""
    return _VEHICLES.all(connection, (company_id,))


@dataclass(frozen=True, slots=True, eq=False)
class StoredTrip:
    """A trip of the history with its route, its plan and the way it was driven."""

    trip: PastTrip
    route_id: UUID
    truck: FleetTruck
    plan: ComputedPlan
    drive: Drive
    corridor: Corridor


class History:
    """Stores trips in one transaction, each as of its own moment."""

    def __init__(
        self, connection: Connection, tenant: Tenant, roads: Roads, settings: Settings, *, now: datetime
    ) -> None:
        self.connection, self.tenant, self.settings, self.now = connection, tenant, settings, now
        self.fleet = fleet_of(connection, tenant.company_id)
        self.policy = read_plan_policy(connection, tenant.company_id)
        self.roads, self.places = roads, StationPlaces()
        self._lanes: dict[Lane, tuple[Road, Corridor]] = {}
        vehicles = [truck.vehicle_id for truck in self.fleet]
        self._burns = {one: figure_for_plan(connection, tenant, one) for one in vehicles}

    def push(self, bodies: Sequence[RouteInput], *, at: datetime) -> list[UUID]:
        """Pushes and imports routes. Returns their ids."""
        stored = store_pushes(self.connection, [Push(self.tenant, body) for body in bodies], now=at)
        ids = [one.route_id for one in stored]
        for batch in in_batches(ids):
            import_routes(self.connection, batch, now=at, wait=True)
        return ids

    def route_input(self, trip: PastTrip) -> RouteInput:
        truck = self.fleet[trip.truck]
        return RouteInput(
            external_id=trip.external_id,
            reference=f"PO-{trip.external_id[3:]}",
            vehicle=VehicleRef(unit_number=truck.unit_number),
            driver=DriverRef(name=truck.driver_name),
            scheduled_start=trip.starts_at,
            stops=[RouteStopInput(**place) for place in trip.lane.stops],
        )

    def complete(self, trips: Sequence[PastTrip]) -> list[StoredTrip]:
        """Stores trips that have ended."""
        ids = self.push([self.route_input(trip) for trip in trips], at=self.now)
        self._arrive(trips, ids)
        with pipelined(self.connection):
            stored = [self._plan(trip, route_id) for trip, route_id in zip(trips, ids, strict=True)]
        for number in range(max((one.trip.number for one in stored), default=0)):
            self._end([one for one in stored if one.trip.number == number + 1])
        set_back(self.connection, self.tenant, stored, now=self.now)
        return stored

    def _arrive(self, trips: Sequence[PastTrip], route_ids: Sequence[UUID]) -> None:
        visits = {route_id: {0: _first_visit(trip)} for trip, route_id in zip(trips, route_ids, strict=True)}
        store_visits(self.connection, visits, now=self.now)
        store_first_arrivals(self.connection, route_ids, now=self.now)

    def _plan(self, trip: PastTrip, route_id: UUID) -> StoredTrip:
        """Makes the plan of a route, and gives it to the driver."""
        at = trip.starts_at - STOOD_BEFORE + timedelta(seconds=40)
        task = self._task(trip, route_id, at)
        road, today = self.lane(trip.lane)
        corridor = as_of(today, at, market_shift(at, now=self.now), now=self.now)
        plan = plan_for_task(task, road, corridor, further=corridor, now=at)
        if not isinstance(plan, ComputedPlan):
            raise ValueError(f"{trip.external_id} has no feasible plan")
        first_plan.finish_plan(self.connection, task, corridor, plan, now=at)
        told = at + timedelta(seconds=2)
        delivery.start_delivery(self.connection, self.message_of(route_id), settings=self.settings, now=told)
        truck = self.fleet[trip.truck]
        drive = Drive.of(
            plan,
            trip.starts_at,
            lateness=trip.lateness,
            start_percent=trip.fuel_percent,
            mpg=(truck.mpg or DEFAULT_MPG) * trip.mpg_factor,
            capacity_gallons=truck.capacity_gallons or DEFAULT_CAPACITY_GALLONS,
        )
        return StoredTrip(trip, route_id, truck, plan, drive, corridor)

    def message_of(self, route_id: UUID) -> UUID:
        """The message of a route's plan that is to be sent."""
        return _MESSAGE.one(self.connection, (route_id,))

    def has_positions(self, drive: Drive) -> bool:
        """True for a trip that ended lately."""
        return drive.arrival > self.now - _WITH_POSITIONS

    def _task(self, trip: PastTrip, route_id: UUID, at: datetime) -> PlanTask:
        route = route_to_plan(self.connection, route_id)
        if route is None:
            raise ValueError(f"{trip.external_id} was not imported")
        place, percent = stop_point(route.stops[0]), trip.fuel_percent
        return PlanTask(
            route=route,
            policy=self.policy,
            as_of=at,
            position=place,
            position_at=at,
            fuel=FuelOnBoard(Gauge(percent, at, percent, 0.0, 0.0, at), Reading(percent, at, place, 0.0)),
            burn=self._burns[route.vehicle_id],
            stops_left=(1,),
            departure=trip.starts_at,
        )

    def lane(self, lane: Lane) -> tuple[Road, Corridor]:
        """The road of a lane, and the offers along it today."""
        if lane not in self._lanes:
            road = self.roads.through([stop_point(stop) for stop in lane.stops])  # type: ignore[arg-type]
            arrivals = [self.now]
            corridor = offers_along(
                self.connection,
                self.tenant.company_id,
                road,
                self.policy.max_detour_miles,
                self.places,
                now=self.now,
                arrivals=lambda miles: arrivals * len(miles),
            )
            self._lanes[lane] = road, corridor
        return self._lanes[lane]

    def _end(self, trips: Sequence[StoredTrip]) -> None:
        """Completes trips, at most one of each truck."""
        for one in (one for one in trips if self.has_positions(one.drive)):
            fixes = one.drive.positions(shown_id("veh", one.truck.vehicle_id), _FIX_STEP)
            for batch in in_batches(fixes, 1000):
                store_positions(self.connection, self.tenant, list(enumerate(batch)), now=one.drive.arrival)
        visits = {one.route_id: {0: _first_visit(one.trip), 1: _last_visit(one)} for one in trips}
        store_visits(self.connection, visits, now=self.now)
        store_fuel_visits(self.connection, {one.route_id: _fuel_visits(one) for one in trips})
        complete_routes(self.connection, [one.route_id for one in trips], now=self.now)
        older = {
            one.route_id: pack_levels(
                levels_of(one.drive.level_fixes(_LEVEL_STEP), road_miles=one.plan.inputs.road_miles),
                one.drive.departure,
            )
            for one in trips
        }
        keep_levels(self.connection, older)

    def learn_burns(self) -> None:
        """Learns the burn of all trucks from their trips and fills."""
        for truck in self.fleet:
            learn_truck(self.connection, TruckToLearn(*self.tenant, truck.vehicle_id), now=self.now)


def as_of(corridor: Corridor, then: datetime, shift: float, *, now: datetime) -> Corridor:
    """The offers of today as they were then: every price differs by `shift` dollars a gallon."""
    back = now - then
    prices = corridor.prices
    return replace(
        corridor,
        offers=[_offer_as_of(offer, shift) for offer in corridor.offers],
        prices=prices._replace(
            imported_at=_earlier(prices.imported_at, back),
            oldest_at=_earlier(prices.oldest_at, back),
            newest_at=_earlier(prices.newest_at, back),
        ),
    )


def _offer_as_of(offer: Offer, shift: float) -> Offer:
    """The market moves retail prices and net prices alike; discounts stay."""
    parts = offer.parts
    if parts is not None:
        retail = None if parts.retail_price is None else round(parts.retail_price + shift, PRICE_DECIMALS)
        deals = [
            replace(one, net_price=round(one.net_price + shift, PRICE_DECIMALS)) if one.net_price is not None else one
            for one in parts.deals
        ]
        parts = PriceParts(retail, deals)
    return offer._replace(net_price=round(offer.net_price + shift, PRICE_DECIMALS), parts=parts)


def _earlier(moment: datetime | None, back: timedelta) -> datetime | None:
    return moment - back if moment is not None else None


def _first_visit(trip: PastTrip) -> Visit:
    came, left, stop = trip.starts_at - STOOD_BEFORE, trip.starts_at, trip.lane.stops[0]
    fixes = [Fix(came + wait, stop["latitude"], stop["longitude"], 0.0, 8) for wait in (timedelta(), _TWO_MINUTES)]
    gone = [
        Fix(left + timedelta(seconds=30 * number), stop["latitude"] + 0.008 * number, stop["longitude"], 45.0, 8)
        for number in (1, 2)
    ]
    return Visit(came, Evidence(_INSIDE, tuple(fixes)), left, Evidence(_OUTSIDE, tuple(gone)))


def _last_visit(one: StoredTrip) -> Visit:
    came, stop = one.drive.arrival, one.trip.lane.stops[-1]
    fixes = [Fix(came + wait, stop["latitude"], stop["longitude"], 0.0, 8) for wait in (timedelta(), _TWO_MINUTES)]
    return Visit(came, Evidence(_INSIDE, tuple(fixes)))


def _fuel_visits(one: StoredTrip) -> list[FuelVisit]:
    """The visits of the plan's fuel stops. One where the driver goes to another truck stop instead has no times."""
    visits = []
    for number, stop in enumerate(one.plan.stops):
        halt = one.drive.halt_at(number) if not one.trip.buys_elsewhere(number) else (None, None)
        came, left = (utc_text(at) if at is not None else None for at in halt)
        place = stop.station
        visits.append(FuelVisit(latitude=place.latitude, longitude=place.longitude, arrivedAt=came, departedAt=left))
    return visits


_TWO_MINUTES = timedelta(minutes=2)
_INSIDE, _OUTSIDE = "inside for 2 minutes", "two fixes in a row outside above 5 mph"


_MESSAGE = Scalar(UUID, "SELECT id FROM messages WHERE route_id = %s AND status = 'pending'")

_OF_TRIPS = """
    unnest(%(routes)s::uuid[], %(pushed)s::timestamptz[], %(planned)s::timestamptz[], %(ended)s::timestamptz[])
    AS trip (route_id, pushed_at, planned_at, ended_at)
"""
_SET_BACK = tuple(
    Command(text)
    for text in (
        f"""
        UPDATE routes r SET created_at = trip.pushed_at, imported_at = trip.pushed_at + interval '1 second',
            updated_at = trip.ended_at
        FROM {_OF_TRIPS} WHERE r.id = trip.route_id AND r.company_id = %(company_id)s
        """,
        f"""
        UPDATE messages m SET created_at = trip.planned_at, queued_at = trip.planned_at
        FROM {_OF_TRIPS} WHERE m.route_id = trip.route_id AND m.company_id = %(company_id)s
        """,
        f"""
        UPDATE visits v SET stored_at = trip.ended_at
        FROM {_OF_TRIPS} WHERE v.route_id = trip.route_id AND v.company_id = %(company_id)s
        """,
        f"""
        UPDATE trip_burns b SET completed_at = trip.ended_at
        FROM {_OF_TRIPS} WHERE b.route_id = trip.route_id AND b.company_id = %(company_id)s
        """,
        f"""
        UPDATE driven_roads d SET completed_at = trip.ended_at
        FROM {_OF_TRIPS} WHERE d.route_id = trip.route_id AND d.company_id = %(company_id)s
        """,
    )
)
"""Times that the database takes from its own clock."""


def set_back(connection: Connection, tenant: Tenant, trips: Iterable[StoredTrip], *, now: datetime) -> None:
    """Sets the database's own times of trips to the moments at which they happened; of a trip that has not ended, to
    its beginning."""
    rows = [
        (
            one.route_id,
            one.trip.starts_at - PUSHED_BEFORE,
            one.plan.generated_at,
            one.drive.arrival + _TWO_MINUTES if one.drive.arrival < now else one.trip.starts_at,
        )
        for one in trips
    ]
    routes, pushed, planned, ended = (list(column) for column in zip(*rows, strict=True))
    asked = {"routes": routes, "pushed": pushed, "planned": planned, "ended": ended, "company_id": tenant.company_id}
    for command in _SET_BACK:
        command.execute(connection, asked)
