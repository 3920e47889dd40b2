"""Lives of the routes of two trucks in random order, against a small model of decisions 4, 10 and 11: what starts a
route, and what lets a truck go."""

import contextlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.audit.entries import Actor
from domain.database.connections import Connection, Database, Tenant
from domain.lifecycle import HELD, Environment, RouteStatus
from domain.routes import transitions
from domain.routes.events import ImpossibleStep
from domain.routes.intake.fleet_changes import add_mapping
from domain.routes.intake.imports import import_routes
from domain.routes.intake.pushes import Push, store_pushes
from domain.routes.progress.dispatcher_entries import enter_stop_event
from domain.routes.transitions import cancel_route, end_routes, expire_started_routes
from domain.settings import Settings
from domain.telematics.arrivals import TruckRoute, current_route
from domain.telematics.manual_stop_events import ImpossibleStopEvent
from tests.domain.helpers import deliver, planned_by_hand, positions_at, post
from tests.domain.trucks import hours, minutes, process
from tests.factories import DOT, JOLIET, NEWARK, PERRYSBURG, Fleet, make_fleet, route_input
from tests.repeatable import examples
from tests.rows import named

EARLY = hours(12)
PLACES = {"Joliet": JOLIET, "Perrysburg": PERRYSBURG, "Newark": NEWARK}
UNITS = ("101", "102")
STARTED = ("planned", "active")
LOADS = ("A", "B", "C")


@dataclass
class Stand:
    """The place where a truck was last seen, by its own clock and by ours."""

    place: str
    recorded_at: datetime
    received_at: datetime


@dataclass
class World:
    connection: Connection
    settings: Settings
    fleet: Fleet
    tenant: Tenant
    now: datetime
    simulated: timedelta = timedelta(0)
    """The time by which the trucks' clocks are ahead; 0 of live ones."""
    stands: dict[str, Stand] = field(default_factory=dict)
    """The stand of each truck, by unit number."""
    jumps: list[float] = field(default_factory=list)
    """The hours by which the simulated clock is changed before each stand."""

    @property
    def is_live(self) -> bool:
        return self.tenant.environment == Environment.LIVE

    def routes(self) -> list[Any]:
        return (
            named(self.connection)
            .execute("SELECT * FROM routes WHERE company_id = %s ORDER BY created_at", (self.fleet.company_id,))
            .fetchall()
        )

    def route(self, load: str) -> Any:
        """The one that the load names now; None: none."""
        found = [one for one in self.routes() if one.external_id == load and one.status != "canceled"]
        return found[0] if found else None

    # What happens

    def push(self, load: str, start: float, first: str, unit: str) -> None:
        last = NEWARK if first != "Newark" else JOLIET
        body = route_input(
            self.now + self.simulated + hours(start),
            externalId=load,
            vehicle={"unitNumber": unit},
            stops=[PLACES[first], last],
        )
        store_pushes(self.connection, [Push(self.tenant, body)], now=self.now)

    def push_again(self, load: str, start: float, unit: str | None) -> None:
        """Pushes the same stops, and unless told the same truck."""
        route = self.route(load)
        if route is not None:
            body = route_input(
                route.scheduled_start + hours(start),
                externalId=load,
                vehicle={"unitNumber": unit or route.vehicle_unit_number},
                stops=route.stops,
            )
            store_pushes(self.connection, [Push(self.tenant, body)], now=self.now)

    def map_unit(self, number: int) -> None:
        add_mapping(self.connection, self.fleet.company_id, "unit_number", "mapped", self.fleet.trucks[number], DOT)

    def stand(self, unit: str, place: str) -> None:
        self.simulated += hours(self.jumps.pop() if self.jumps else 0)
        before = self.stands.get(unit)
        self.now += hours(10) if before is not None and before.place != place else minutes(5)
        first = self.now + self.simulated
        post(
            self.connection,
            self.tenant,
            positions_at(PLACES[place], first, unit_number=unit),
            now=self.now + minutes(1),
        )
        self.now += minutes(1)
        self.stands[unit] = Stand(place, first, self.now)

    def work(self) -> None:
        """Every job that waits is done, until none follows."""
        for _ in range(3):
            self.now += timedelta(seconds=1)
            import_routes(self.connection, [one.id for one in self.routes() if one.status in HELD], now=self.now)
            process(self.connection, self.settings, self.fleet, now=self.now, live=self.is_live)

    def process(self) -> None:
        process(self.connection, self.settings, self.fleet, now=self.now, live=self.is_live)

    def plan(self, load: str) -> None:
        route = self.route(load)
        if route is not None and route.status == "draft" and route.arrived_at is not None:
            planned_by_hand(self.connection, route.id, now=self.now)

    def send(self, load: str) -> None:
        route = self.route(load)
        if route is not None:
            for message in (
                named(self.connection)
                .execute("SELECT id FROM messages WHERE route_id = %s AND status = 'pending'", (route.id,))
                .fetchall()
            ):
                deliver(self.connection, message.id, settings=self.settings, now=self.now)

    def fail(self, load: str) -> None:
        route = self.route(load)
        if route is not None:
            transitions.planning_failed(self.connection, route.id, max_attempts=1, now=self.now)

    def end(self, load: str) -> None:
        route = self.route(load)
        if route is not None:
            end_routes(self.connection, [route.id], "it is over", now=self.now)

    def cancel(self, load: str) -> None:
        route = self.route(load)
        if route is not None:
            cancel_route(self.connection, self.tenant, route.id, now=self.now)

    def enter_arrival(self, load: str) -> None:
        route = self.route(load)
        if route is not None:
            moment, by = self.now + self.simulated, Actor("ann@example.com", "he says so")
            with contextlib.suppress(ImpossibleStopEvent, ImpossibleStep):
                enter_stop_event(
                    *(self.connection, self.tenant, route.id, 0, "arrival", moment, by),
                    settings=self.settings,
                    now=self.now,
                )

    def wait(self, amount: float) -> None:
        self.now += hours(amount)
        if amount > 300:
            expire_started_routes(self.connection, expiry_days=14, now=self.now)

    # What holds at any time

    def check(self) -> None:
        started: dict[UUID, UUID] = {}
        for route in self.routes():
            if not (route.status in STARTED or (route.status == "draft" and route.arrived_at is not None)):
                continue
            assert route.vehicle_id not in started, "two started routes of one truck"
            started[route.vehicle_id] = route.id
            visits = named(self.connection).execute("SELECT * FROM visits WHERE route_id = %s", (route.id,)).fetchall()
            assert visits, "started without a visit"
            assert min(visit.arrived_at for visit in visits) == route.arrived_at
            for visit in visits:
                assert visit.vehicle_id == route.vehicle_id, "a visit of another truck"
                assert route.scheduled_start - visit.arrived_at <= EARLY, "a visit too early for the start"
            (since,) = (
                named(self.connection)
                .execute(
                    "SELECT count(*) AS starts FROM visits o WHERE o.vehicle_id = %s AND o.environment = %s"
                    " AND o.route_id <> %s AND o.stored_at > %s",
                    (route.vehicle_id, route.environment, route.id, max(visit.stored_at for visit in visits)),
                )
                .fetchall()
            )
            assert since.starts == 0, "another route was started since"

    # What holds once everything is done that is due

    def check_standing(self) -> None:
        """A truck that stands at the first stop of its next route has started it."""
        for unit, truck in zip(UNITS, self.fleet.trucks, strict=True):
            stand = self.stands.get(unit)
            own = [one for one in self.routes() if one.vehicle_id == truck]
            if stand is None or any(
                one.status in STARTED or (one.status == "draft" and one.arrived_at is not None) for one in own
            ):
                continue
            newest = stand.recorded_at + minutes(1)
            drafts = [
                TruckRoute(one.id, RouteStatus.DRAFT, one.scheduled_start, None) for one in own if one.status == "draft"
            ]
            following = current_route(drafts, newest, early=EARLY)
            if following is None:
                continue
            (route,) = (one for one in own if one.id == following.route_id)
            at_first_stop = route.stops[0]["name"] == PLACES[stand.place]["name"]
            in_time = route.scheduled_start - stand.recorded_at <= EARLY
            known = stand.received_at >= route.imported_at or stand.recorded_at >= route.imported_at - minutes(15)
            (free,) = (
                named(self.connection)
                .execute("SELECT free_since FROM tracks WHERE vehicle_id = %s", (truck,))
                .fetchall()
            )
            own_now = free.free_since is None or free.free_since <= stand.recorded_at
            assert not (at_first_stop and in_time and known and own_now), f"{route.external_id} was not started"


loads, places = st.sampled_from(LOADS), st.sampled_from(["Joliet", "Joliet", "Perrysburg", "Newark"])
steps = st.one_of(
    st.tuples(
        st.just("push"),
        loads,
        st.sampled_from([0.0, 3.0, -2.0, 11.0, 13.0, -30.0, 96.0, 400.0]),
        places,
        st.sampled_from(["101", "101", "mapped", "102", "999"]),
    ),
    st.tuples(
        st.just("push_again"),
        loads,
        st.sampled_from([0.0, 0.5, 6.0, 12.0, 96.0, 400.0, -24.0]),
        st.sampled_from([None, None, "101", "102", "mapped"]),
    ),
    st.tuples(st.just("map_unit"), st.sampled_from([0, 1])),
    st.tuples(st.just("stand"), st.sampled_from(["101", "101", "101", "102"]), places),
    st.tuples(st.sampled_from(["plan", "send", "fail", "end", "cancel", "enter_arrival"]), loads),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 1.0, 5.0, 14.0, 350.0])),
    st.tuples(st.just("process")),
)
lives = st.lists(st.tuples(steps, st.sampled_from([True, True, False])), min_size=10, max_size=20)
"""Steps, and whether the workers do everything that is due after each."""


def live_through(world: World, taken: list[tuple[tuple[Any, ...], bool]]) -> None:
    """It begins with three drafts of one truck: two at the same first stop."""
    world.map_unit(0)
    for load, start, first in (("A", 0.0, "Joliet"), ("B", 3.0, "Joliet"), ("C", 6.0, "Newark")):
        world.push(load, start, first, "mapped")
    world.work()
    for (what, *arguments), works in [*taken, (("process",), True)]:
        getattr(world, what)(*arguments)
        world.check()
        if works:
            world.work()
            world.check()
        if works and world.is_live:
            world.check_standing()


@pytest.mark.slow
@hypothesis_settings(
    deadline=None, max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lives)
def test_routes_of_two_trucks_agree_with_the_model_in_any_order_of_steps(
    database: Database, settings: Settings, now: datetime, taken: list[tuple[tuple[Any, ...], bool]]
) -> None:
    with database.pipelined_transaction() as connection:
        fleet = make_fleet(connection)
        live_through(World(connection, settings, fleet, fleet.live, now), taken)


@pytest.mark.slow
@hypothesis_settings(
    deadline=None, max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lives, st.lists(st.sampled_from([0.0, 0.0, 0.0, -72.0, -5.0, 5.0, 72.0]), min_size=25, max_size=25))
def test_sandbox_routes_agree_with_the_model_though_the_clock_jumps(
    database: Database,
    settings: Settings,
    now: datetime,
    taken: list[tuple[tuple[Any, ...], bool]],
    jumps: list[float],
) -> None:
    """In the sandbox the trucks' clocks jump ahead and back."""
    with database.pipelined_transaction() as connection:
        fleet = make_fleet(connection)
        world = World(connection, settings, fleet, fleet.sandbox, now, jumps=jumps)
        live_through(world, taken)
