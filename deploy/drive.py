"""Drives a route with a simulated truck, whose fixes go through the feed like those of a real one."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypedDict
from uuid import UUID

import httpx
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from domain import clock
from domain.accounts.keys import create_key, revoke_key
from domain.audit.entries import Actor
from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, DEFAULT_MPG
from domain.contract.shapes import Me, Position, PositionsAccepted
from domain.database.connections import Database
from domain.database.statements import Statement
from domain.documents import FuelPlanDocument, FuelStopDocument
from domain.encoding import write
from domain.errors import FuelrouteError
from domain.ids import read_id, shown_id
from domain.lifecycle import Environment, RouteStatus
from domain.roads import Point
from domain.roads.default_roads import default_roads
from domain.roads.sphere import stop_point
from domain.sandbox.simulated_truck import FIX_SECONDS, SimulatedTrip, Truck, refuel_at, refuels_on
from domain.settings import Settings
from domain.text import printable

START_FUEL_PERCENT = 25.0
PLAN_WAIT_SECONDS = 30.0
NEW_PLAN_WAIT_SECONDS = 5.0
_LONGEST_DRIVE = timedelta(days=14)
"""Longest validity of a key that a killed drive leaves behind."""


class CannotDrive(FuelrouteError):
    """The route cannot be driven; the text says why."""


def drive_route(
    settings: Settings,
    route_id: str,
    *,
    speed_mph: float = 60,
    fuel_percent: float = START_FUEL_PERCENT,
    jump: bool = False,
    by_way_of: Point | None = None,
    key: str | None = None,
    screen: Console | None = None,
) -> dict[str, Any]:
    """Drives a draft route from its first stop to its last, with `fuel_percent` in its tank at the start. A sandbox
    route is driven in simulated time, a live one in real time or, with `jump`, by appearing at each stop. `by_way_of`
    is a place before the second stop that the plan does not know. Returns the number of fixes and the route's status
    afterwards.

    `route_id` is the id as the API shows it. Raises CannotDrive.
    """
    with Database.of(settings) as database:
        route, vehicle_id = _load(database, route_id)
        live = route.environment == Environment.LIVE
        with _feed(settings, database, route, key) as post:
            truck = Truck(shown_id("veh", vehicle_id), _start_time(route, live), fuel_percent)
            tracker = _Tracker(post, real_time=live and not jump)
            if live and jump:
                _appear_at_stops(database, route, truck, tracker, screen)
            else:
                _drive(database, settings, route, truck, tracker, speed_mph, by_way_of, screen=screen)
        status = _wait_for(database, route.id, {RouteStatus.COMPLETED, RouteStatus.ERROR})
    return {"route_id": route_id, "fixes": tracker.fixes, "status": status}


_POSTED_AT_ONCE = 200


@dataclass(slots=True)
class _Tracker:
    """Posts fixes to the feed, many at once, or in real time each when it is due."""

    post: Callable[[list[Position]], None]
    real_time: bool
    fixes: int = 0
    unsent: list[Position] = field(default_factory=list)

    def add(self, fixes: Iterable[Position]) -> None:
        for fix in fixes:
            self.unsent.append(fix)
            if self.real_time or len(self.unsent) >= _POSTED_AT_ONCE:
                self.send()
            if self.real_time:
                time.sleep(FIX_SECONDS)

    def send(self) -> None:
        if self.unsent:
            self.post(self.unsent)
            self.fixes += len(self.unsent)
            self.unsent = []


class _Stop(TypedDict):
    """A stop in `routes.stops`, with the fields that the drive needs."""

    name: str
    latitude: float
    longitude: float


class _Route(NamedTuple):
    id: UUID
    company_id: UUID
    environment: str
    status: str
    pending_detail: str | None
    vehicle_id: UUID | None
    scheduled_start: datetime
    stops: list[_Stop]
    mpg: float
    capacity_gallons: float
    newest_at: datetime | None
    """The time of the truck's newest fix."""
    drives_itself: bool
    """True if the scheduler drives the truck in the sandbox."""


_ROUTE = Statement(
    _Route,
    """
    SELECT r.id, r.company_id, r.environment, r.status, r.pending_detail, r.vehicle_id, r.scheduled_start, r.stops,
           coalesce(v.mpg, %s) AS mpg, coalesce(v.fuel_tank_capacity_gallons, %s) AS capacity_gallons, t.newest_at,
           EXISTS (SELECT FROM sandbox_drives d WHERE d.vehicle_id = r.vehicle_id AND r.environment = 'sandbox'
                   AND d.ended_at IS NULL) AS drives_itself
    FROM routes r LEFT JOIN vehicles v ON v.id = r.vehicle_id
    LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    WHERE r.id = %s
    """,
)


def _load(database: Database, route_id: str) -> tuple[_Route, UUID]:
    """The route, and its vehicle's id."""
    known = read_id("rte", route_id)
    with database.transaction() as connection:
        given = (DEFAULT_MPG, DEFAULT_CAPACITY_GALLONS, known)
        route = _ROUTE.first(connection, given) if known is not None else None
    if route is None:
        raise CannotDrive(f"there is no route {route_id!r}")
    if route.status != RouteStatus.DRAFT or route.vehicle_id is None:
        why = f": {route.pending_detail}" if route.pending_detail else ""
        raise CannotDrive(f"the route is {route.status}, and only a draft can be driven{why}")
    if route.drives_itself:
        raise CannotDrive("its truck drives in the sandbox by itself; wait until it has arrived, or cancel its route")
    return route, route.vehicle_id


def _start_time(route: _Route, live: bool) -> datetime:
    """The time of the first fix: now, but in the sandbox not before the truck's last simulated fix, nor long before the
    route's start."""
    now = clock.now()
    if live:
        return now
    after_last = route.newest_at + timedelta(seconds=FIX_SECONDS) if route.newest_at else now
    if route.scheduled_start <= now:
        return max(now, after_last)
    shortly_before = route.scheduled_start - timedelta(minutes=15)
    return max(now, after_last, shortly_before)


@contextmanager
def _feed(
    settings: Settings, database: Database, route: _Route, key: str | None
) -> Iterator[Callable[[list[Position]], None]]:
    """Gives a function that posts fixes to the feed. Without a `key` it makes one for the drive, and revokes it
    afterwards. Raises CannotDrive for a key of another company or environment."""
    made = None
    if key is None:
        with database.transaction() as connection:
            made = create_key(
                connection,
                route.company_id,
                _ACTOR,
                name="fuelroute drive",
                environment=Environment(route.environment),
                scopes=["positions:write"],
                expires_at=clock.now() + _LONGEST_DRIVE,
            )
    headers = {"Authorization": f"Bearer {key or (made.key if made else '')}"}
    try:
        with httpx.Client(base_url=settings.api_address(), headers=headers, timeout=30) as client:

            def post(fixes: list[Position]) -> None:
                json = {"content-type": "application/json"}
                answer = client.post("/telematics/positions", content=write({"positions": fixes}), headers=json)
                if answer.status_code != 202:
                    raise _unexpected("the feed", answer)
                rejected = msgspec.json.decode(answer.content, type=PositionsAccepted).rejected
                if rejected:
                    raise CannotDrive(f"the feed refuses a position: {rejected[0].message}")

            if made is None:
                _require_own(client, route)
            yield post
    except httpx.TransportError as error:
        raise CannotDrive(
            f"no answer from {settings.api_address()} ({error}): is the ingress running there? If not, set"
            " FUELROUTE_API_URL"
        ) from None
    finally:
        if made is not None:
            with database.transaction() as connection:
                revoke_key(connection, made.id, _ACTOR)


def _require_own(client: httpx.Client, route: _Route) -> None:
    """Checks that the client's key works on the route's company and environment. Simulated positions by another key
    would be those of real trucks, or of nobody. Raises CannotDrive."""
    answer = client.get("/v1/me")
    if answer.status_code != 200:
        raise _unexpected("the API", answer)
    me = msgspec.json.decode(answer.content, type=Me)
    if (read_id("cmp", me.company.id), me.key.environment) != (route.company_id, route.environment):
        raise CannotDrive(f"the key is of another company or environment than the route, which is {route.environment}")


def _unexpected(what: str, answer: httpx.Response) -> CannotDrive:
    return CannotDrive(f"{what} answered {answer.status_code}: {answer.text[:200]}")


_ACTOR = Actor("fuelroute drive")

_JUMP_FIXES = [timedelta(seconds=seconds) for seconds in (0, 15, 30)]
_JUMP = timedelta(seconds=1)
_FURTHEST_AHEAD = timedelta(minutes=2)
"""Longest time by which fixes may be ahead of the clock; the feed drops those much further ahead."""


def _first_jump_at(route: _Route, now: datetime) -> datetime:
    """The time of the first fix: early enough that the fixes at all stops are past, but after the truck's newest."""
    first = now - (_JUMP_FIXES[-1] + _JUMP) * len(route.stops)
    return max(first, route.newest_at + _JUMP) if route.newest_at is not None else first


def _appear_at_stops(
    database: Database, route: _Route, truck: Truck, tracker: _Tracker, screen: Console | None
) -> None:
    """Posts three agreeing fixes at each stop, by which the truck stands there for half a minute: the service believes
    them, wherever the truck was before. They are of the last minutes, so that a jump takes a moment."""
    truck.now = _first_jump_at(route, truck.now)
    for index, stop in enumerate(route.stops):
        ahead = truck.now + _JUMP_FIXES[-1] - clock.now() - _FURTHEST_AHEAD
        time.sleep(max(ahead.total_seconds(), 0))
        arrived = truck.now
        for after in _JUMP_FIXES:
            truck.now = arrived + after
            tracker.add([truck.fix(stop_point(stop), 0)])
        truck.now += _JUMP
        tracker.send()
        if screen is not None:
            screen.print(f"  at {printable(stop['name'])}", style="dim", markup=False)
        if index == 0:
            _wait_for_plan(database, route.id)


def _drive(
    database: Database,
    settings: Settings,
    route: _Route,
    truck: Truck,
    tracker: _Tracker,
    speed_mph: float,
    by_way_of: Point | None,
    *,
    screen: Console | None,
) -> None:
    """Stands at each stop for a while and drives the road between, a fix every 30 s."""
    stops = [stop_point(stop) for stop in route.stops]
    road = default_roads(settings.roads_url()).through([stops[0], *filter(None, [by_way_of]), *stops[1:]])
    miles = list(road.stop_miles)
    turn = miles.pop(1) if by_way_of is not None else None
    trip = SimulatedTrip(truck, road, route.mpg, route.capacity_gallons, speed_mph)
    with _trip_shown(screen, road.distance_miles) as show:

        def drive_to(mile: float) -> None:
            while fixes := trip.drive_on(mile):
                tracker.add(fixes)
                show(trip.mile)

        for index, mile in enumerate(miles):
            if index == 1 and turn is not None:
                drive_to(turn)
                tracker.send()
                trip.refuels = refuels_on(road, _wait_for_another_plan(database, route.id), after_mile=turn)
            drive_to(mile)
            show(mile, printable(route.stops[index]["name"]))
            tracker.add(truck.stand(stops[index]))
            tracker.send()
            if index == 0:
                _wait_for_plan(database, route.id)
                trip.refuels = [refuel_at(stop, stop["milesFromOrigin"]) for stop in _plan_of(database, route.id).stops]


class _Show(Protocol):
    """Shows the truck's mile and, once it has reached a stop, the stop's name."""

    def __call__(self, mile: float, stop: str | None = None) -> None: ...


@contextmanager
def _trip_shown(screen: Console | None, miles: float) -> Iterator[_Show]:
    """A progress bar over the miles, or nothing without a screen."""
    if screen is None:
        yield lambda mile, stop=None: None
        return
    columns = (
        TextColumn("  {task.description:40.40}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} mi"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen) as bar:
        task = bar.add_task("", total=max(miles, 1))
        yield lambda mile, stop=None: bar.update(task, completed=mile, description=stop)


class _Planned(NamedTuple):
    plan_id: UUID | None
    document: FuelPlanDocument | None

    @property
    def stops(self) -> list[FuelStopDocument]:
        return self.document["stops"] if self.document is not None else []


_PLAN = Statement(
    _Planned, "SELECT r.plan_id, p.document FROM routes r LEFT JOIN plans p ON p.id = r.plan_id WHERE r.id = %s"
)


def _plan_of(database: Database, route_id: UUID) -> _Planned:
    with database.transaction() as connection:
        return _PLAN.one(connection, (route_id,))


def _wait_for_another_plan(database: Database, route_id: UUID) -> list[FuelStopDocument]:
    """Waits some seconds for a new plan of a truck that has left its road. Returns the fuel stops of the driver's plan,
    new or not."""
    had = _plan_of(database, route_id)
    deadline = time.monotonic() + NEW_PLAN_WAIT_SECONDS
    while (plan := _plan_of(database, route_id)).plan_id == had.plan_id and time.monotonic() < deadline:
        time.sleep(0.1)
    return plan.stops


class _State(NamedTuple):
    status: str
    closed_reason: str | None


_STATE = Statement(_State, "SELECT status, closed_reason FROM routes WHERE id = %s")


def _state(database: Database, route_id: UUID) -> _State:
    """The route's status now; `gone` for a deleted route."""
    with database.transaction() as connection:
        return _STATE.first(connection, (route_id,)) or _State("gone", None)


def _wait_for_plan(database: Database, route_id: UUID) -> None:
    """Waits until the driver has the plan. Raises CannotDrive if there will be none."""
    status = _wait_for(database, route_id, {RouteStatus.ACTIVE, RouteStatus.COMPLETED, RouteStatus.ERROR})
    if status == RouteStatus.ERROR:
        raise CannotDrive(f"the route is error: {_state(database, route_id).closed_reason or ''}")


def _wait_for(database: Database, route_id: UUID, wanted: set[RouteStatus]) -> str:
    deadline = time.monotonic() + PLAN_WAIT_SECONDS
    while True:
        status = _state(database, route_id).status
        if status in wanted or time.monotonic() > deadline:
            return status
        time.sleep(0.1)
