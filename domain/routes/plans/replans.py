"""Plans that are made anew on the way: asked for, begun, finished. What a truck does to be asked for one is in
`planning/deviations.py`; which fixes are compared is in `telematics/watches.py`.

A route whose driver has a plan is watched, where its company wants that, from the moment of which the plan was made:

1. `follow_trucks`, when the truck's fixes are processed: they show a deviation. Its cause is stored in `routes.replan`,
   and the truck is not watched meanwhile.
2. `begin_replan`, `finish_replan`: the job of reviews makes the plan, with its retries. Every plan made anew is stored
   with its cause, and counts as one of the two of a trip.
3. Where the driver is told, the plan is a correction (`routes.correction_id`), which the route shows once its message
   is out. Where he is not, he keeps his plan, and the truck is compared with the road of the new one.
4. `watch_again`, when that message has ended, or at once: the truck is watched from the moment of which the newest plan
   was made.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from domain.database import Connection, as_json
from domain.documents import PlanCause
from domain.jobs import SWEEP_GRACE, Job, review_plan
from domain.lifecycle import Environment
from domain.planning import replans
from domain.planning.deviations import Deviation, TrackedFix, Watch, follow
from domain.planning.fuel_plan import FuelPlan, NoPlan
from domain.planning.replans import Replan
from domain.planning.stored_plans import store_plan
from domain.routes.plans.first_plan import queue_message_of
from domain.statements import Command, IdRow, Statement
from domain.stations.candidates import Corridor
from domain.telematics import watches
from domain.telematics.arrivals import Visit
from domain.telematics.tracks import Track


class WatchedTruck(NamedTuple):
    """A truck on an active route; `until`: only its fixes before that time are known by now."""

    track: Track
    route_id: UUID
    visits: Mapping[int, Visit]
    until: datetime | None


def follow_trucks(
    connection: Connection, environment: str, trucks: Sequence[WatchedTruck], *, now: datetime
) -> list[Job]:
    """Compares the fixes of these trucks with the roads of their plans. Their routes and tracks are locked. Returns the
    jobs to enqueue after the commit.

    Only trucks with a fix at `watch_at` or later are looked at: the others show nothing new.
    """
    if not trucks:
        return []
    found = replans.followed_routes(connection, [truck.route_id for truck in trucks])
    unwatched, spans = list[UUID](), dict[UUID, tuple[datetime, datetime | None]]()
    for truck in trucks:
        route, since = found.get(truck.route_id), truck.track.watch_from
        if route is None or since is None or route.waits or not (route.replans_en_route and route.may_replan):
            unwatched.append(truck.track.vehicle_id)
        else:
            spans[truck.track.vehicle_id] = max(since, route.as_of), truck.until
    fixes = watches.fixes_between(connection, environment, spans)

    next_watches, deviations = dict[UUID, Watch](), dict[UUID, tuple[UUID, Deviation]]()
    for truck in trucks:
        vehicle_id = truck.track.vehicle_id
        if not fixes.get(vehicle_id):
            continue
        route = found[truck.route_id]
        way = route.way({stop: visit.arrived_at for stop, visit in truck.visits.items()})
        if way is None:
            unwatched.append(vehicle_id)
            continue

        def history(vehicle_id: UUID = vehicle_id, since: datetime = route.as_of) -> Sequence[TrackedFix]:
            until = spans[vehicle_id][1]
            return watches.fixes_between(connection, environment, {vehicle_id: (since, until)})[vehicle_id]

        deviation, next_watches[vehicle_id] = follow(
            way,
            fixes[vehicle_id],
            fuel_stops_passed=truck.track.fuel_stops_passed,
            history=history,
            newest_decides=environment == Environment.LIVE,
        )
        if deviation is not None:
            deviations[vehicle_id] = truck.route_id, deviation
    watches.unwatch(connection, environment, unwatched)
    watches.store_watches(connection, environment, next_watches, paused=deviations.keys())
    return [
        job
        for vehicle_id, (route_id, deviation) in deviations.items()
        for job in _ask(connection, route_id, deviation, next_watches[vehicle_id].fuel_stops_passed, now=now)
    ]


class _Asked(NamedTuple):
    id: UUID
    company_id: UUID
    attempts: int


_ASK = Statement(
    _Asked,
    "UPDATE routes SET replan = %s, review_requests = review_requests + 1, review_at = coalesce(review_at, %s)"
    " WHERE id = %s RETURNING id, company_id, attempts",
)


def _ask(connection: Connection, route_id: UUID, deviation: Deviation, passed: int, *, now: datetime) -> list[Job]:
    at = deviation.at.isoformat()
    cause = PlanCause(kind=deviation.kind, at=at, text=deviation.text, fuelStopsPassed=passed)
    rows = _ASK.all(connection, (as_json(cause), now + SWEEP_GRACE, route_id))
    return [review_plan(row.id, row.company_id) for row in rows if row.attempts == 0]


_FORGET_WHERE_IMPOSSIBLE = Command(
    "UPDATE routes SET replan = NULL WHERE id = %s AND replan IS NOT NULL"
    " AND (status <> 'active' OR correction_id IS NOT NULL)"
)


def begin_replan(connection: Connection, route_id: UUID, *, now: datetime) -> Replan | None:
    """The plan of a route that is to be made anew. None where none is: the route has ended, or the driver is just being
    told of another plan. Once that message has ended, the truck is compared with the road of that plan."""
    _FORGET_WHERE_IMPOSSIBLE.execute(connection, (route_id,))
    return replans.load_replan(connection, route_id, now=now)


_LOCK = Statement(
    IdRow,
    "SELECT id FROM routes WHERE id = %s AND status = 'active' AND plan_id = %s AND correction_id IS NULL"
    " AND replan = %s FOR UPDATE",
)
_END = Command(
    "UPDATE routes SET replan = NULL, attempts = 0, correction_id = %s,"
    " review_at = CASE WHEN review_requests <> %s THEN review_at END WHERE id = %s"
)

ReplanOutcome = Literal["corrected", "not_told", "infeasible", "outdated"]


def finish_replan(
    connection: Connection, replan: Replan, corridor: Corridor, new: FuelPlan | NoPlan, *, now: datetime
) -> tuple[ReplanOutcome, list[Job]]:
    """Stores the plan that was made anew, with its cause. Returns the outcome and the jobs to enqueue after the commit.

    - `corrected`: the driver gets a corrected message.
    - `not_told`: his fuel stops are still ahead, at about the same cost. He keeps his plan.
    - `infeasible`: there is no plan from there. He keeps his plan.
    - `outdated`: the route or its plan has changed meanwhile; nothing is stored.
    """
    due, route = replan.due, replan.task.route
    if _LOCK.first(connection, (route.id, due.plan_id, as_json(due.replan))) is None:
        return "outdated", []
    plan_id = store_plan(connection, replan.task, corridor, new, now=now, cause=due.replan, before=due.timeline)
    if isinstance(new, NoPlan) or not replans.is_worth_telling(due.document, due.fuel_stops_passed, new):
        _END.execute(connection, (None, due.review_requests, route.id))
        jobs = _watch(connection, route.id, new_plan=False, now=now)
        return ("infeasible" if isinstance(new, NoPlan) else "not_told"), jobs
    _END.execute(connection, (plan_id, due.review_requests, route.id))
    return "corrected", [queue_message_of(connection, route, plan_id, new, now=now)]


def watch_again(connection: Connection, route_id: UUID, *, delivered: bool, now: datetime) -> list[Job]:
    """After the end of a message: the truck of a locked route is watched from the beginning of its newest plan, where
    its company wants that. Returns the jobs to enqueue after the commit.
    """
    return _watch(connection, route_id, new_plan=delivered, now=now)


def _watch(connection: Connection, route_id: UUID, *, new_plan: bool, now: datetime) -> list[Job]:
    truck = replans.truck_to_watch(connection, route_id)
    if truck is None:
        return []
    return watches.watch_truck(
        connection, truck.environment, truck.vehicle_id, since=truck.as_of, new_plan=new_plan, now=now
    )
