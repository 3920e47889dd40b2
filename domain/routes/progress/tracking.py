"""Makes a route follow its truck: waiting fixes become visits, and visits move the route on."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.burn.shortfalls import NextLook
from domain.database.connections import Connection, as_array
from domain.database.statements import NotNull, Scalar, Statement
from domain.documents import PlanCause
from domain.lifecycle import Environment, RouteStatus
from domain.queue.jobs import after_commit, build_plan_job
from domain.routes.plans import review_requests
from domain.routes.plans.deviating_trucks import FoundDeviation, WatchedTruck, follow_trucks
from domain.routes.plans.first_plan import plan_with_new_levels
from domain.routes.plans.fuel_looks import Looked, TruckToLookAt, look_at_trucks
from domain.routes.plans.replans import ask_for_replans
from domain.routes.transitions import complete_routes, store_first_arrivals
from domain.routes.visits import ask_for_visits, read_visits, store_fuel_visits, store_visits
from domain.settings import Settings
from domain.telematics import fix_batches, fixes_to_visits, tracks, watches
from domain.telematics.arrivals import Visit
from domain.telematics.fix_batches import DrivenStretch, FixBatch, Flag, ReceivedFix
from domain.telematics.fixes_to_visits import FuelVisit, OpenRoute
from domain.telematics.rechecks import WaitingAgain, process_trucks
from domain.telematics.tracks import Track


class Processed(NamedTuple):
    """The ends of visits that are new, of the trucks that were processed."""

    arrivals: int
    departures: int


def process_vehicles(
    connection: Connection, environment: str, vehicle_ids: Sequence[UUID], *, settings: Settings, now: datetime
) -> Processed:
    """Compares the unprocessed fixes of these vehicles with the stops of their present routes. Vehicles without
    unprocessed fixes are left alone, and those that another worker processes at this moment."""
    early = timedelta(hours=settings.early_arrival_hours)

    # Lock: routes before tracks, as everywhere, so that no two transactions wait for each other. The statements go out
    # together.
    waiting = tracks.waiting_trucks(connection, environment, vehicle_ids, early=early)
    route_ids = [route_id for truck in waiting.values() for route_id in truck.route_ids]
    routes = _LOCK_OPEN_ROUTES.execute(connection, (as_array(route_ids),))
    stored_visits = ask_for_visits(connection, route_ids)
    locked, changed_tracks = tracks.lock_tracks(connection, environment, waiting)

    # Load: the route that each truck is on, its fixes, its visits so far.
    open_routes = [route for route in routes if route.vehicle_id in waiting]
    visits = read_visits(stored_visits)
    current = fixes_to_visits.current_routes(open_routes, locked, early=early)
    moving = [(track, current[track.vehicle_id]) for track in locked if track.vehicle_id in current]
    since = {
        track.vehicle_id: fixes_to_visits.first_that_may_count(track, route, early=early) for track, route in moving
    }
    batches = _load_batches(
        connection, environment, moving, since, visits, radius_meters=settings.arrival_radius_meters
    )

    # Decide.
    found = _compare(moving, batches, visits, early=early, radius_meters=settings.arrival_radius_meters)
    changed = _without_awaited(connection, environment, found.changed)

    # Store, and collect the jobs that follow.
    companies = {vehicle_id: route.company_id for vehicle_id, route in current.items()}
    fix_batches.flag_implausible(connection, Environment(environment), found.flags, companies, now=now)
    rest_from = {vehicle_id: batch.rest_from for vehicle_id, batch in batches.items() if batch.rest_from is not None}
    looked = look_at_trucks(connection, environment, _to_look_at(environment, locked, current, batches, found))
    tracks.note_processed(connection, environment, _with_looks(locked, current, looked), rest_from, now=now)
    followed, unwatched = _watched(locked, current, batches, found.visits)
    watches.unwatch(connection, environment, unwatched)
    process_trucks(
        connection,
        (
            WaitingAgain(environment, waiting[vehicle_id].company_id, vehicle_id)
            for vehicle_id in (*rest_from, *changed_tracks)
        ),
    )
    store_fuel_visits(connection, found.fuel_visits)
    move_on(connection, changed, found.visits, standing=found.standing, still_moving=rest_from, now=now)
    plan_with_new_levels(connection, [route.id for _, route in moving if _waits_for_plan(route)], now=now)
    _replan(connection, follow_trucks(connection, environment, followed), looked, now=now)
    return Processed(*_new_ends(changed, visits, found.visits))


def _load_batches(
    connection: Connection,
    environment: str,
    moving: Sequence[tuple[Track, OpenRoute]],
    since: Mapping[UUID, datetime],
    visits: Mapping[UUID, dict[int, Visit]],
    *,
    radius_meters: float,
) -> dict[UUID, FixBatch]:
    """The batch of each truck; without fixes where they move nothing. Most trucks that are looked at or compared with
    their road are far from every stop, and others stand at one. No stretch is asked for where the newest place moves
    something already."""
    idle = {
        track.vehicle_id: (track, route)
        for track, route in moving
        if fixes_to_visits.moves_nothing(
            route,
            visits.get(route.id, {}),
            DrivenStretch.of_newest(track, since[track.vehicle_id]),
            radius_meters=radius_meters,
        )
    }
    portion = fix_batches.portion_of(len(since))
    stretches = fix_batches.load_stretches(
        connection, environment, [track for track, _ in idle.values()], since, portion=portion
    )
    batches = {
        vehicle_id: FixBatch([], None, stretch.newest_at, stretch.due_at)
        for vehicle_id, stretch in stretches.items()
        if fixes_to_visits.moves_nothing(
            route := idle[vehicle_id][1], visits.get(route.id, {}), stretch, radius_meters=radius_meters
        )
    }
    rest = [track for track, _ in moving if track.vehicle_id not in batches]
    return batches | fix_batches.load_fix_batches(connection, environment, rest, since, portion=portion)


class _Findings(NamedTuple):
    """The outcome of comparing several trucks' fixes with the stops of their routes."""

    flags: list[Flag]
    changed: list[OpenRoute]
    """The routes whose visits have changed, those of fuel stops left aside."""
    standing: list[UUID]
    """The routes whose truck was at the first stop before these fixes."""
    visits: dict[UUID, dict[int, Visit]]
    """All visits after these fixes: by route, then by position of the stop."""
    fuel_visits: dict[UUID, list[FuelVisit]]
    """The visits of fuel stops, of the routes where these have changed."""
    due: dict[UUID, datetime]
    """The vehicles whose fixes make a look at their fuel due, each with the time of the newest such fix."""


def _compare(
    moving: Iterable[tuple[Track, OpenRoute]],
    batches: Mapping[UUID, FixBatch],
    visits: Mapping[UUID, dict[int, Visit]],
    *,
    early: timedelta,
    radius_meters: float,
) -> _Findings:
    """Decide which fixes are implausible, and which visits the others make. `visits` are the stored ones."""
    found = _Findings([], [], [], dict(visits), {}, {})
    for track, route in moving:
        batch = batches[track.vehicle_id]
        fixes = fixes_to_visits.fixes_of_route(route, track, batch.fixes)
        believed, new_flags = fixes_to_visits.believed_fixes(fixes)
        found.flags.extend(Flag(track.vehicle_id, moment, implausible) for moment, implausible in new_flags.items())
        before = visits.get(route.id, {})
        after = fixes_to_visits.visits_after(route, track, before, believed, early=early, radius_meters=radius_meters)
        if is_standing(route, before):
            found.standing.append(route.id)
        if after != before:
            found.visits[route.id] = after
            found.changed.append(route)
        if route.status == RouteStatus.ACTIVE and (
            fueled := fixes_to_visits.fuel_visits_after(
                route, track, after, believed, early=early, radius_meters=radius_meters
            )
        ):
            found.fuel_visits[route.id] = fueled
        if due_at := batch.due_at or _newest_due(track.look, believed):
            found.due[track.vehicle_id] = due_at
    return found


def _newest_due(look: NextLook | None, believed: Sequence[ReceivedFix]) -> datetime | None:
    if look is None:
        return None
    due = [one.fix.recorded_at for one in believed if look.is_due(one.fix.recorded_at, one.fuel_percent)]
    return due[-1] if due else None


def _new_ends(
    changed: Iterable[OpenRoute],
    before: Mapping[UUID, Mapping[int, Visit]],
    after: Mapping[UUID, Mapping[int, Visit]],
) -> tuple[int, int]:
    """Count the arrivals and the departures that the changed routes have now and had not before."""
    arrivals = departures = 0
    for route in changed:
        known = before.get(route.id, {})
        for stop, visit in after[route.id].items():
            arrivals += stop not in known
            departures += visit.departed_at is not None and (stop not in known or known[stop].departed_at is None)
    return arrivals, departures


_AWAITED = Scalar(
    NotNull[UUID],
    "SELECT former_vehicle_id FROM routes WHERE former_vehicle_id = ANY(%s) AND environment = %s"
    " AND status = 'pending' AND arrived_at IS NOT NULL",
)


def _without_awaited(connection: Connection, environment: str, changed: Sequence[OpenRoute]) -> list[OpenRoute]:
    """Leave out the routes that would start now although another route of their truck, which had started before, is
    about to be imported again. That import decides which of them has the truck, and has the truck processed again."""
    starting = [route.vehicle_id for route in changed if route.arrived_at is None]
    if not starting:
        return list(changed)
    awaited = set(_AWAITED.all(connection, (starting, environment)))
    return [route for route in changed if route.arrived_at is not None or route.vehicle_id not in awaited]


def is_standing(route: OpenRoute, visits: Mapping[int, Visit]) -> bool:
    """True if the truck, by these visits, is still at the first stop, and the route has a plan to review there."""
    return route.status != RouteStatus.DRAFT and all(visit.departed_at is None for visit in visits.values())


def _waits_for_plan(route: OpenRoute) -> bool:
    """True if the truck had arrived before these fixes, and the route has no plan yet."""
    return route.status == RouteStatus.DRAFT and route.arrived_at is not None


def move_on(
    connection: Connection,
    changed: Sequence[OpenRoute],
    visits: Mapping[UUID, Mapping[int, Visit]],
    *,
    standing: Sequence[UUID],
    still_moving: Collection[UUID] = (),
    now: datetime,
) -> None:
    """Stores the visits of these locked routes, which have changed, and takes the steps that follow: a plan or a review
    is due, or the route is completed.

    `standing` are the routes whose truck was at the first stop before. A vehicle in `still_moving` has fixes left, so
    it may be elsewhere by now: its plan is made later, when the sweep enqueues it.
    """
    store_visits(connection, {route.id: visits[route.id] for route in changed}, now=now)
    started = store_first_arrivals(connection, [route.id for route in changed], now=now)
    due = [
        build_plan_job(route.id, route.company_id)
        for route in changed
        if route.id in started and route.arrived_at is None and route.vehicle_id not in still_moving
    ]
    after_commit(connection, *due)
    review_requests.after_new_fixes(connection, standing, now=now)
    complete_routes(connection, [route.id for route in changed], now=now)


def _watched(
    locked: Sequence[Track],
    current: Mapping[UUID, OpenRoute],
    batches: Mapping[UUID, FixBatch],
    visits: Mapping[UUID, Mapping[int, Visit]],
) -> tuple[list[WatchedTruck], list[UUID]]:
    """The trucks whose fixes are compared with the roads of their plans; and those no longer watched, because they are
    on no active route."""
    watched = [track for track in locked if track.watch_at is not None]
    active = {track.vehicle_id for track in watched} & {
        vehicle_id for vehicle_id, route in current.items() if route.status == RouteStatus.ACTIVE
    }
    followed = []
    for track in watched:
        if track.vehicle_id not in active or track.watch_at is None:
            continue
        _, rest_from, newest_at, _ = batches[track.vehicle_id]
        if newest_at is not None and newest_at >= track.watch_at:
            route = current[track.vehicle_id]
            followed.append(WatchedTruck(track, route.id, visits.get(route.id, {}), rest_from))
    return followed, [track.vehicle_id for track in watched if track.vehicle_id not in active]


def _with_looks(
    locked: Sequence[Track], current: Mapping[UUID, OpenRoute], looked: Mapping[UUID, Looked]
) -> list[Track]:
    """The tracks with the next looks at their trucks: none where a truck is on no active route."""
    active = {vehicle_id for vehicle_id, route in current.items() if route.status == RouteStatus.ACTIVE}
    noted = []
    for track in locked:
        if (found := looked.get(track.vehicle_id)) is not None:
            noted.append(track.with_look(found.look, found.low_since))
        else:
            noted.append(track if track.vehicle_id in active else track.with_look(None, None))
    return noted


def _to_look_at(
    environment: str,
    locked: Sequence[Track],
    current: Mapping[UUID, OpenRoute],
    batches: Mapping[UUID, FixBatch],
    found: _Findings,
) -> list[TruckToLookAt]:
    """The trucks on active routes whose look is due; of the sandbox those whose look may be due: an earlier job may
    have left some looks."""
    trucks = []
    for track in locked:
        route, look = current.get(track.vehicle_id), track.look
        if route is None or look is None or route.status != RouteStatus.ACTIVE:
            continue
        _, rest_from, newest_at, _ = batches[track.vehicle_id]
        due_at = found.due.get(track.vehicle_id)
        may_be_due = environment != Environment.LIVE and newest_at is not None and newest_at >= look.since
        if due_at is not None or may_be_due:
            trucks.append(TruckToLookAt(track, route.id, found.visits.get(route.id, {}), rest_from, due_at))
    return trucks


def _replan(
    connection: Connection,
    deviations: Mapping[UUID, FoundDeviation],
    looked: Mapping[UUID, Looked],
    *,
    now: datetime,
) -> None:
    """Has plans made again, each for the reason that showed first. A new plan is watched from its beginning, so the
    other one shows again."""
    causes = dict[UUID, PlanCause]()
    shortfalls = {vehicle_id: one.shortfall for vehicle_id, one in looked.items() if one.shortfall is not None}
    for vehicle_id in deviations.keys() | shortfalls.keys():
        found, short = deviations.get(vehicle_id), shortfalls.get(vehicle_id)
        if found is not None and (short is None or found.deviation.at <= short.at):
            kind, at, text = found.deviation
            passed = found.fuel_stops_passed
            causes[found.route_id] = PlanCause(kind=kind, at=at.isoformat(), text=text, fuelStopsPassed=passed)
        elif short is not None:
            passed = short.fuel_stops_passed
            cause = PlanCause(kind=short.kind, at=short.at.isoformat(), text=short.text, fuelStopsPassed=passed)
            causes[short.route_id] = cause
    ask_for_replans(connection, causes, now=now)


_LOCK_OPEN_ROUTES = Statement(
    OpenRoute,
    """
    SELECT id, company_id, environment, vehicle_id, status, scheduled_start, stops, arrived_at, imported_at, fuel_visits
    FROM routes
    WHERE id = ANY(%s) AND status IN ('draft', 'planned', 'active') ORDER BY id FOR UPDATE
    """,
)
