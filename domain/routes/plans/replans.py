"""Replans: plans that are made again on the way. They are begun and finished here, and the driver is told or not.

A route whose driver has a plan is watched, where its company wants that, from the moment for which the plan was made:

1. `deviating_trucks.follow_trucks` runs when the truck's fixes are processed and show a deviation. The cause is
stored in `routes.replan`, and the truck is not watched meanwhile. `fuel_looks` finds trucks whose fuel does not last,
unless their company does not want that; `closed_stations` stores a cause where a station ahead was closed, or refused
by the driver, for every company; `choices` stores one for the choice of a driver.
2. `begin_replan`, `finish_replan`: the job of reviews makes the plan, with its retries. Each replan is stored with
its cause, and counts as one of the two of a trip. Those for fuel, and for a higher level at the next fuel stop, are
counted apart, and so are those after refusals; those for closed stations are not counted.
3. If the driver is told, the plan is a correction (`routes.correction_id`), which the route shows once its message
is out; one that he asked for on his page, by a choice or a refusal, at once, for the page shows it to him; another one
once he answers to it there. If not, the driver keeps the old plan, and the truck is compared with the road of the new
one.
4. `watch_again`, when that message has ended, or at once: the truck is watched from the moment for which the newest
plan was made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from domain.burn.by_miles import next_look_by_time
from domain.burn.fill_levels import ToldFill, arrives_below_reserve, is_raised
from domain.burn.shortfalls import ANY_PERCENT, NEAR_FILL_MILES, NextLook, Outlook, first_look, look_behind_fill
from domain.clock import later
from domain.database.connections import Connection, as_array, as_json
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.documents import FuelPlanDocument, FuelStopDocument, PlanCause, TimelineEntry
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.plan_changes import SAVING_CHANGE_DOLLARS
from domain.planning.plan_tasks import PlanTask, live_now, plan_task_as_of, route_to_plan
from domain.planning.raised_levels import begins_before
from domain.planning.stored_plans import note_taken, store_plan
from domain.queue.jobs import SWEEP_GRACE
from domain.roads import Point
from domain.routes import transitions
from domain.routes.events import record_event
from domain.routes.plans.closed_meanwhile import is_closed_meanwhile
from domain.routes.plans.first_plan import queue_message_of
from domain.routes.plans.fuel_outlooks import beginning_of, fuel_of_trips
from domain.routes.plans.made_choices import KeptChoice, kept_choice, note_kept, note_made, refusal_of, wanted_by
from domain.routes.plans.measured_burn import with_measured_burn
from domain.routes.plans.planned_stops import index_of_stops
from domain.routes.plans.review_requests import RequestedReview, enqueue_reviews
from domain.stations.corridor_offers import Corridor
from domain.telematics import watches

MOST_REPLANS = 2
"""Most replans on one trip."""

MOST_BURN_REPLANS = 2
LEAST_BETWEEN = timedelta(minutes=30)
"""Most replans that a driver is told on one trip because the fuel does not last, and the shortest time between one of
them and the plan before. They have limits of their own: a truck that runs dry has no use for those of the others."""

MOST_BURN_ATTEMPTS = 8
"""Most of them together with those that the driver is not told, and the attempts that found no feasible plan. Half an
hour on, another station may be in reach."""

MOST_LEVEL_REPLANS, MOST_LEVEL_ATTEMPTS = 1, 3
"""Most replans that a driver is told on one trip because the level at his next fuel stop is too low for the way behind
it, and most that are made. He is told none after a replan because the fuel does not last."""

MOST_REFUSED_REPLANS = 3
"""Most plans that are made on one trip because the driver cannot fuel where he was told, feasible or not. A driver who
refuses every stop is then the dispatcher's."""

LEAST_MORE_GALLONS = 10.0
"""A driver is told to buy more at the stop that he has anyway where it is at least this much."""

MADE_ANEW = """(SELECT count(*) FROM plans made WHERE made.route_id = r.id AND made.revision = r.revision
                   AND made.cause->>'kind' IN ('off_road', 'stop_passed'))"""


MADE_AFTER_REFUSALS = """(SELECT count(*) FROM plans made WHERE made.route_id = r.id AND made.revision = r.revision
                          AND made.cause->>'kind' = 'refused')"""

_ASK = Statement(
    RequestedReview,
    """
    UPDATE routes r SET replan = new.cause, review_requests = review_requests + 1,
                        review_at = coalesce(review_at, %(due)s)
    FROM jsonb_to_recordset(%(causes)s) AS new (route_id uuid, cause jsonb)
    WHERE r.id = ANY(%(ids)s) AND r.id = new.route_id AND r.status IN ('planned', 'active')
    RETURNING r.id, r.company_id, r.attempts
    """,
)


def ask_for_replans(connection: Connection, causes: Mapping[UUID, PlanCause], *, now: datetime) -> None:
    """Has these locked routes replanned, each for its cause, after the commit. Those that have just ended are not."""
    if causes:
        asked = as_json([{"route_id": route_id, "cause": cause} for route_id, cause in causes.items()])
        parameters = {"due": now + SWEEP_GRACE, "causes": asked, "ids": as_array(causes)}
        enqueue_reviews(connection, _ASK.all(connection, parameters))


class DueReplan(NamedTuple):
    """A replan that is due."""

    replan: NotNull[PlanCause]
    plan_id: NotNull[UUID]
    """The driver's plan."""
    document: NotNull[FuelPlanDocument]
    timeline: list[TimelineEntry]
    review_requests: int
    fuel_stops_passed: NotNull[int]
    at: NotNull[datetime]
    """The time of the fix that is the reason."""

    @property
    def next_stop(self) -> FuelStopDocument | None:
        """The driver's next fuel stop."""
        return next(iter(self.document["stops"][self.fuel_stops_passed :]), None)


_DUE = Statement(
    DueReplan,
    """
    SELECT r.replan, p.id AS plan_id, p.document, p.timeline, r.review_requests,
           coalesce((r.replan->>'fuelStopsPassed')::int, t.fuel_stops_passed, 0) AS fuel_stops_passed,
           (r.replan->>'at')::timestamptz AS at
    FROM routes r JOIN plans p ON p.id = r.plan_id
    LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    WHERE r.id = %s AND r.replan IS NOT NULL AND r.review_at IS NOT NULL AND r.status = 'active'
      AND r.correction_id IS NULL AND p.document IS NOT NULL
    """,
)


@dataclass(frozen=True, slots=True)
class Replan:
    """A replan under way, and its inputs."""

    due: DueReplan
    task: PlanTask
    outlook: Outlook | None = None
    """The truck's fuel on its way to the driver's next stop; None where its levels tell nothing."""
    kept: KeptChoice | None = None
    """The choice that the driver has, while its first fuel stop is ahead. The new plan keeps it where it can."""

    def cause_of(self, new: ComputedPlan | NoPlan) -> PlanCause:
        """The cause of the new plan, with the driver's choice that it keeps, or why it gives that up. A plan without
        the stop that he refused on his page is there at once."""
        cause = self.due.replan
        if isinstance(new, NoPlan):
            return cause
        if cause["kind"] == "refused" and avoids_closed(cause, new):
            cause = PlanCause(**{**cause, "takenByDriver": True})
        if self.kept is None:
            return cause
        keeps_level_at = self.task.level_at is not None and not begins_before(new, self.task.level_at)
        if new.chosen is not None or keeps_level_at:
            return self.kept.in_cause(cause)
        why = new.given_up or "the truck needs fuel before"
        return PlanCause(**{**cause, "text": f"{cause['text']}; {self.kept.in_words} was chosen, but {why}"})


def _load_replan(connection: Connection, route_id: UUID, *, now: datetime) -> Replan | None:
    """A replan that is due; None where none is. A live plan starts where the truck is now; a sandbox plan where it was
    at the fix that is the reason, because time is simulated there."""
    due = _DUE.first(connection, (route_id,))
    route = route_to_plan(connection, route_id) if due is not None else None
    if due is None or route is None:
        return None
    task, outlook = with_measured_burn(connection, plan_task_as_of(connection, route, live_now(route, now) or due.at))
    is_low = outlook is not None and arrives_below_reserve(outlook, task.policy.reserve_percent)
    is_shown = task.burn.measured_spread_percent is not None
    if due.replan["kind"] == "level" and due.next_stop is not None and (is_low or is_shown):
        task = replace(task, level_at=Point(due.next_stop["latitude"], due.next_stop["longitude"]))
    if due.replan["kind"] == "choice":
        task = replace(task, wanted=wanted_by(connection, due.replan, fuel_stops_passed=due.fuel_stops_passed))
        return Replan(due, task, outlook)
    kept = kept_choice(connection, due.plan_id) if not due.fuel_stops_passed else None
    return Replan(due, replace(task, wanted=kept.wanted) if kept is not None else task, outlook, kept)


_FORGET_WHERE_IMPOSSIBLE = Command(
    "UPDATE routes SET replan = NULL WHERE id = %s AND replan IS NOT NULL"
    " AND (status <> 'active' OR correction_id IS NOT NULL)"
)
_FORGET = Command("UPDATE routes SET replan = NULL WHERE id = %s AND replan = %s")


def begin_replan(connection: Connection, route_id: UUID, *, now: datetime) -> Replan | None:
    """The replan of a route; None where none can be made: the route has ended, its truck has reached the last stop, or
    the driver is just being told another plan. Once that message has ended, the truck is compared with the road of that
    plan."""
    _FORGET_WHERE_IMPOSSIBLE.execute(connection, (route_id,))
    replan = _load_replan(connection, route_id, now=now)
    if replan is not None and not replan.task.stops_left:
        _FORGET.execute(connection, (route_id, as_json(replan.due.replan)))
        return None
    return replan


_LOCK = Scalar(
    UUID,
    "SELECT id FROM routes WHERE id = %s AND status = 'active' AND plan_id = %s AND correction_id IS NULL"
    " AND replan = %s FOR UPDATE",
)
_END = Command(
    "UPDATE routes SET replan = NULL, attempts = 0, correction_id = %s,"
    " review_at = CASE WHEN review_requests <> %s THEN review_at END WHERE id = %s"
)

_END_ALONE = Command(
    "UPDATE routes SET replan = NULL, attempts = 0,"
    " review_at = CASE WHEN review_requests <> %s OR review_cause IS NOT NULL THEN review_at END WHERE id = %s"
)
"""Ends a replan of which nothing is stored: a review that a dispatcher asked for before it stays due."""

_STANDING_REFUSAL = Scalar(
    UUID,
    "SELECT id FROM driver_answers WHERE route_id = %s AND id = ANY(%s::uuid[]) AND left_out_until IS NOT NULL LIMIT 1",
)

ReplanOutcome = Literal["corrected", "not_told", "infeasible", "outdated"]


def finish_replan(
    connection: Connection, replan: Replan, corridor: Corridor, new: ComputedPlan | NoPlan, *, now: datetime
) -> ReplanOutcome:
    """Stores the plan that was made anew, with its cause.

    - `corrected`: the driver gets a corrected message.
    - `not_told`: his fuel stops are still ahead, at about the same cost, or bring him on above the floor, or the level
      of the next one is about the same, or he has taken back his refusal meanwhile. He keeps his plan.
    - `infeasible`: there is no plan from there. He keeps his plan.
    - `outdated`: the route or its plan has changed meanwhile, or a station of the new plan was closed or refused, and
      the plan is made once more; nothing is stored.
    """
    due, route = replan.due, replan.task.route
    if _LOCK.first(connection, (route.id, due.plan_id, as_json(due.replan))) is None:
        return "outdated"
    if is_closed_meanwhile(connection, route, new, now=now):
        ask_for_replans(connection, {route.id: due.replan}, now=now)
        return "outdated"
    if _is_taken_back(connection, route.id, due.replan):
        _END_ALONE.execute(connection, (due.review_requests, route.id))
        watch_again(connection, route.id, delivered=False, now=now)
        return "not_told"
    choice_id = UUID(due.replan["choice"]) if "choice" in due.replan else None
    refusal = refusal_of(connection, choice_id, new) if choice_id is not None else None
    if refusal is not None:
        record_event(connection, route.id, "choice_refused", f"{due.replan['text']}: {refusal}", now=now)
        _END_ALONE.execute(connection, (due.review_requests, route.id))
        watch_again(connection, route.id, delivered=False, now=now)
        return "infeasible" if isinstance(new, NoPlan) else "not_told"
    cause = replan.cause_of(new)
    plan_id = store_plan(connection, replan.task, corridor, new, now=now, cause=cause, before=due.timeline)
    if isinstance(new, NoPlan) or not _is_told(replan, new):
        _END.execute(connection, (None, due.review_requests, route.id))
        watch_again(connection, route.id, delivered=False, now=now)
        return "infeasible" if isinstance(new, NoPlan) else "not_told"
    if choice_id is not None and new.chosen is not None:
        note_made(connection, choice_id, plan_id, new.chosen)
    elif replan.kept is not None and new.chosen is not None:
        note_kept(connection, replan.kept.id, new.chosen)
    _END.execute(connection, (plan_id, due.review_requests, route.id))
    why = cause if cause["kind"] in _TOLD_TO_DRIVERS or cause["text"] != due.replan["text"] else None
    queue_message_of(connection, route, plan_id, new, now=now, why=why)
    if "takenByDriver" in cause and transitions.driver_has_plan(connection, route.id, plan_id, now=now):
        watch_again(connection, route.id, delivered=True, now=now)
    return "corrected"


def correction_seen(connection: Connection, route_id: UUID, plan_id: UUID, *, now: datetime) -> None:
    """Gives the driver of a locked route its correction: he has answered to it on his page, so he has seen it before
    its message is out."""
    note_taken(connection, plan_id)
    if transitions.driver_has_plan(connection, route_id, plan_id, now=now):
        watch_again(connection, route_id, delivered=True, now=now)


def _is_taken_back(connection: Connection, route_id: UUID, cause: PlanCause) -> bool:
    """True for a cause of refusals none of which stands any more: the driver goes there after all, or has fueled."""
    refusals = list(cause.get("closures", {}))
    return cause["kind"] == "refused" and _STANDING_REFUSAL.first(connection, (route_id, refusals)) is None


_TOLD_TO_DRIVERS = ("station_closed", "refused", "burn", "level", "choice")
"""The causes that a message names: those that a driver does not know by himself, and his own answers."""


def _is_told(replan: Replan, new: ComputedPlan) -> bool:
    """True if the driver is told the new plan. After a station was closed or refused, only that station counts.
    Where his fuel does not last, the place and the gallons of his next purchase count, and no dollars. One of his fuel
    stops may have been closed or refused since the replan was asked for: then he is told in any case."""
    due = replan.due
    if due.replan["kind"] == "choice":
        return True
    if due.replan["kind"] in ("station_closed", "refused"):
        return avoids_closed(due.replan, new)
    if _is_any_closed(due.document["stops"][due.fuel_stops_passed :], new):
        return True
    if due.replan["kind"] == "burn":
        lasts = replan.outlook is not None and not replan.outlook.falls_short
        return not lasts and _fuels_otherwise(due.next_stop, new)
    if due.replan["kind"] == "level":
        return replan.task.level_at is not None and _is_other_purchase(due, replan.task.level_at, new)
    return _is_worth_telling(due.document, due.fuel_stops_passed, new)


def _is_worth_telling(old: FuelPlanDocument, fuel_stops_passed: int, new: ComputedPlan) -> bool:
    """True if one of the driver's fuel stops is no longer ahead, or his payments from here on change by more than
    $10."""
    ahead = old["stops"][fuel_stops_passed:]
    if ahead:
        found = index_of_stops(ahead).passes(new.inputs.road, new.limits.max_detour_miles)
        if len({one.station_index for one in found}) < len(ahead):
            return True
    return abs(new.total_cost - sum(stop["totalCost"] for stop in ahead)) > SAVING_CHANGE_DOLLARS


def avoids_closed(cause: PlanCause | None, new: ComputedPlan) -> bool:
    """True if one of the closed stations that the plan is made for is closed when the truck arrives there, or is not on
    its road any more. A station that opens in time, or was opened again, may stay in the driver's plan."""
    stations = set(cause.get("closures", {}).values()) if cause is not None else set()
    closed = {offer.station.station_id for offer in new.inputs.closed}
    return not stations.issubset({offer.station.station_id for offer in new.inputs.offers} - closed)


def _is_any_closed(stops: Sequence[FuelStopDocument], new: ComputedPlan) -> bool:
    closed = {(offer.station.latitude, offer.station.longitude) for offer in new.inputs.closed}
    return any((stop["latitude"], stop["longitude"]) in closed for stop in stops)


def _fuels_otherwise(next_stop: FuelStopDocument | None, new: ComputedPlan) -> bool:
    """True if the new plan's first purchase is elsewhere than the driver's next one, or a good deal larger, or if it is
    reached with some of the reserve."""
    if not new.stops:
        return False
    first = new.stops[0]
    if next_stop is None or new.is_low_on_fuel:
        return True
    place = (first.station.latitude, first.station.longitude)
    more = first.gallons_to_fill - next_stop["gallonsToFill"]
    return place != (next_stop["latitude"], next_stop["longitude"]) or more >= LEAST_MORE_GALLONS


def _is_other_purchase(due: DueReplan, level_at: Point, new: ComputedPlan) -> bool:
    """True if the new plan fuels before the driver's next fuel stop and keeps the reserve so, or begins with that stop
    and a higher level there, without one more stop."""
    if begins_before(new, level_at):
        return not new.is_low_on_fuel
    new_stop = next(iter(new.stops), None)
    if due.next_stop is None or new_stop is None or len(new.stops) > len(due.document["stops"]) - due.fuel_stops_passed:
        return False
    return is_raised(_told(due.next_stop), _told(new_stop.document()))


def _told(stop: FuelStopDocument) -> ToldFill:
    return ToldFill((stop["latitude"], stop["longitude"]), stop["gallonsToFill"], stop.get("fillToPercent"))


class _NewestPlan(NamedTuple):
    environment: str
    vehicle_id: NotNull[UUID]
    as_of: NotNull[datetime]
    kind: str | None
    watch_road: bool | None
    watch_burn: bool


_TO_WATCH = Statement(
    _NewestPlan,
    f"""
    SELECT r.environment, r.vehicle_id, coalesce(road.as_of, road.generated_at) AS as_of,
           road.cause->>'kind' AS kind,
           c.replan_en_route AND {MADE_ANEW} < {MOST_REPLANS} AS watch_road, c.watch_burn
    FROM routes r JOIN companies c ON c.id = r.company_id
    CROSS JOIN LATERAL (SELECT * FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision
                        ORDER BY n.generated_at DESC, n.id DESC LIMIT 1) AS road
    WHERE r.id = %s AND r.status = 'active' AND r.correction_id IS NULL
      AND (c.watch_burn OR c.replan_en_route AND {MADE_ANEW} < {MOST_REPLANS})
    """,
)


def watch_again(connection: Connection, route_id: UUID, *, delivered: bool, now: datetime) -> None:
    """Watches the truck of a locked route from the beginning of its newest plan, where its company wants that.
    `delivered`: the driver has just got that plan."""
    truck = _TO_WATCH.first(connection, (route_id,))
    if truck is None:
        return
    look = _first_look(connection, route_id, truck) if truck.watch_burn else None
    if look is None and not truck.watch_road:
        return
    watches.watch_truck(
        connection,
        truck.environment,
        truck.vehicle_id,
        since=truck.as_of,
        road=bool(truck.watch_road),
        look=look,
        new_plan=delivered,
        now=now,
    )


def _first_look(connection: Connection, route_id: UUID, truck: _NewestPlan) -> NextLook | None:
    """The first look at the truck's fuel. It comes soon where the plan was made because the fuel did not last."""
    if truck.kind == "burn":
        return NextLook(later(truck.as_of, LEAST_BETWEEN), ANY_PERCENT, later(truck.as_of, 2 * LEAST_BETWEEN))
    trip = fuel_of_trips(connection, [route_id]).get(route_id)
    begins = beginning_of(trip) if trip is not None else None
    if trip is None or begins is None:
        return None
    level_percent, ahead = begins
    if truck.kind == "level" and ahead.mile <= NEAR_FILL_MILES:
        return look_behind_fill(at=truck.as_of, ahead=ahead)
    look = first_look(at=truck.as_of, level_percent=level_percent, ahead=ahead)
    return look._replace(by=next_look_by_time(truck.as_of, miles_left=ahead.mile).by) if trip.is_assumed else look
