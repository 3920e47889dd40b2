"""Reviews of the plans of routes: a stored plan is compared with a new one, made as of now, and kept or replaced.
`review_requests` asks for them.

The values that a route keeps of its reviews:

- `review_at`: a review is due. Its job is enqueued at once; from this time on the sweep enqueues it again. NULL: none.
- `review_requests`: how many reviews were asked for so far. A review that ends sets `review_at` to NULL only when none
  was asked for since it began.
- `review_cause`: `dispatcher` where a dispatcher asked for the review that is due; its plan is made in any case.
- `attempts`: failed reviews in a row. While a failed one waits for its next attempt, requests enqueue nothing.
- `correction_id`: the plan that replaces the one that the driver has. It becomes `plan_id` when its message is out.
- `corrected_at`: when that happened last. From then on the plan is not reviewed any more; it may still be made anew on
  the way (`replans`).

For example: the truck takes 50 gallons at its first stop. The fixes that show it request a review; its worker finds the
fuel changed, stores the new plan as `correction_id` and queues a message. When the message is sent, the route shows the
new plan and has `corrected_at`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from domain.backoff import RETRY_WAIT
from domain.database.connections import Connection
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.documents import FuelPlanDocument, PlanCause, TimelineEntry
from domain.lifecycle import RouteStatus
from domain.messages.discarding import discard_messages
from domain.messages.due_messages import is_being_sent
from domain.planning.fuel_plan import ComputedPlan, NoPlan
from domain.planning.plan_changes import (
    cost_changed,
    price_rises_first,
    saving_changed,
    savings_compare,
)
from domain.planning.plan_tasks import (
    PlanTask,
    live_now,
    newest_at_first_stop,
    plan_task_as_of,
    route_to_plan,
)
from domain.planning.stored_plans import ROAD_MILES, confirm_plan, store_plan
from domain.queue.jobs import SWEEP_GRACE
from domain.routes import events
from domain.routes.plans import closed_stations
from domain.routes.plans.closed_meanwhile import is_closed_meanwhile
from domain.routes.plans.first_plan import queue_message_of
from domain.routes.plans.fuel_at_first_stop import has_other_fuel
from domain.routes.plans.measured_burn import with_measured_burn
from domain.routes.plans.replans import avoids_closed
from domain.routes.plans.review_requests import of_routes
from domain.stations.corridor_offers import Corridor


class PlanUnderReview(NamedTuple):
    """The plan under review: the correction that waits to be sent, or the current one."""

    id: UUID
    document: NotNull[FuelPlanDocument]
    road_miles: NotNull[float]
    fuel_percent: float
    """The level by which it was made, or at which a review found nothing better."""
    fuel_at: datetime | None
    """When the truck measured the level by which it was made; None if no level was known."""
    price_set: int | None
    """The newest import of prices by which it was made or reviewed."""
    review_requests: int
    """The number of reviews asked for when this one began."""
    review_cause: str | None
    """`dispatcher` if a dispatcher asked for this review."""
    departed_at: datetime | None
    """When the truck was seen to leave its first stop: the time of the fix that decided it."""
    newest_price_set: int | None
    """The newest import of prices so far."""
    as_of: datetime
    """The moment for which it was made."""
    timeline: list[TimelineEntry]

    @property
    def prices_changed(self) -> bool:
        """True if prices were imported since it was made or reviewed; they may be of other stations."""
        return self.newest_price_set != self.price_set


@dataclass(frozen=True, slots=True)
class Review:
    """A plan that may have to be replaced, the inputs of a new one, and whether the fuel is a reason for it. `closed`
    is the cause where the plan stops at a station that was closed since."""

    plan: PlanUnderReview
    task: PlanTask
    fuel_changed: bool
    closed: PlanCause | None = None

    @property
    def is_needed(self) -> bool:
        """True if fuel or prices have changed, a price rises before the late truck comes, a station was closed, or a
        dispatcher asked: otherwise a new plan would equal the old one."""
        is_asked = self.closed is not None or self.plan.review_cause is not None or self.comes_too_late
        return self.fuel_changed or self.plan.prices_changed or is_asked

    @property
    def comes_too_late(self) -> bool:
        """True if a price of the plan rises because the truck left its first stop late."""
        delay = (self.plan.departed_at or self.task.departure) - max(self.plan.as_of, self.task.route.scheduled_start)
        return price_rises_first(self.plan.document, delay=delay)


_PLAN_UNDER_REVIEW = Statement(
    PlanUnderReview,
    f"""
    SELECT p.id, p.document, {ROAD_MILES} AS road_miles, p.fuel_percent, p.fuel_at, p.price_set, r.review_requests,
           r.review_cause,
           (SELECT min(coalesce((departure_evidence->'fixes'->-1->>'recordedAt')::timestamptz, departed_at))
            FROM visits WHERE route_id = r.id AND departed_at IS NOT NULL) AS departed_at,
           (SELECT max(id) FROM price_sets WHERE company_id IS NULL OR company_id = r.company_id) AS newest_price_set,
           coalesce(p.as_of, p.generated_at) AS as_of, p.timeline
    FROM routes r
    JOIN plans p ON p.id = CASE WHEN r.correction_id IS NULL THEN r.plan_id ELSE r.correction_id END
    WHERE r.id = %s AND r.arrived_at IS NOT NULL AND r.status IN ('planned', 'active') AND r.review_at IS NOT NULL
      AND r.corrected_at IS NULL AND p.cause->>'kind' IS DISTINCT FROM 'choice'
    """,
)


def _plan_under_review(connection: Connection, route_id: UUID) -> PlanUnderReview | None:
    """The plan to review. None if no review is due, or none is possible: the plan is over, or was corrected already; or
    it is the driver's choice, which no review takes back while its message waits."""
    return _PLAN_UNDER_REVIEW.first(connection, (route_id,))


def _load_review(connection: Connection, route_id: UUID, plan: PlanUnderReview, *, now: datetime) -> Review | None:
    """Everything that a review of the plan needs; None if the route was pushed again just now. A live plan is reviewed
    as of now. In the sandbox, where time is simulated, it is reviewed as of the departure from the first stop, or
    before that as of the newest fix from that stop."""
    route = route_to_plan(connection, route_id)
    if route is None:
        return None
    as_of = live_now(route, now) or plan.departed_at or newest_at_first_stop(connection, route)
    task = plan_task_as_of(connection, route, as_of)
    if plan.departed_at is not None:
        task, _ = with_measured_burn(connection, task)
    changed = has_other_fuel(connection, task, plan, until=plan.departed_at or as_of)
    return Review(plan, task, changed, closed_stations.closed_ahead(connection, route_id, now=now))


_END_WHERE_IMPOSSIBLE = Command(
    "UPDATE routes SET review_at = NULL, review_cause = NULL WHERE id = %s AND review_at IS NOT NULL"
    " AND (status NOT IN ('planned', 'active') OR corrected_at IS NOT NULL) AND replan IS NULL"
)
"""Ends a review that can no longer be made, because the plan is over or was corrected: it would be due for ever. A
replan that was asked for since `begin_replan` found none stays due, here and below."""

_END_REVIEW = Command(
    """
    UPDATE routes SET attempts = 0,
        review_at = CASE WHEN review_requests <> %(begun)s OR replan IS NOT NULL THEN review_at END,
        review_cause = CASE WHEN review_requests <> %(begun)s THEN review_cause END
    WHERE id = %(id)s AND coalesce(correction_id, plan_id) = %(plan_id)s
    """
)
"""Ends the review, unless another one was asked for since it began."""

_LOCK_REVIEWED = Scalar(
    str,
    "SELECT status FROM routes WHERE id = %s AND coalesce(correction_id, plan_id) = %s"
    " AND status IN ('planned', 'active') AND corrected_at IS NULL AND replan IS NULL FOR UPDATE",
)
_REVIEW_LATER = Command("UPDATE routes SET review_at = %s WHERE id = %s")
_CORRECT = Command("UPDATE routes SET correction_id = %s WHERE id = %s")
_REPLACE = Command(
    "UPDATE routes SET plan_id = %s, distance_miles = %s, attempts = 0, retry_at = NULL,"
    " updated_at = clock_timestamp() WHERE id = %s"
)

ReviewOutcome = Literal["confirmed", "replaced", "corrected", "being_sent", "outdated"]


def begin_review(connection: Connection, route_id: UUID, *, now: datetime) -> Review | None:
    """The review that is due for a route's plan. None if none is, or if neither fuel nor prices have changed: then the
    review has ended."""
    plan = _plan_under_review(connection, route_id)
    if plan is None:
        _END_WHERE_IMPOSSIBLE.execute(connection, (route_id,))
        return None
    review = _load_review(connection, route_id, plan, now=now)
    if review is not None and not review.is_needed:
        _end(connection, route_id, plan)
        return None
    return review


def finish_review(
    connection: Connection, review: Review, corridor: Corridor, new: ComputedPlan | NoPlan, *, now: datetime
) -> ReviewOutcome:
    """Keeps the plan, or replaces it where the new one is worth it.

    - `confirmed`: the plan stays.
    - `replaced`: the plan was not sent yet; the new one takes its place and is sent instead.
    - `corrected`: the plan was sent, so the driver gets a corrected message. The new plan is the route's plan once that
      message is out.
    - `being_sent`: a worker is sending the plan's message at this moment, so the review is repeated a little later.
    - `outdated`: the route or its plan has changed while the new plan was computed, or a replan was asked for, or a
      station of the new plan was closed or refused, and the review is made once more; nothing is stored.
    """
    old, route = review.plan, review.task.route
    current = _LOCK_REVIEWED.first(connection, (route.id, old.id))
    if current is None:
        return "outdated"
    if is_closed_meanwhile(connection, route, new, now=now):
        of_routes(connection, [route.id], now=now)
        return "outdated"
    if isinstance(new, NoPlan) or not _is_worth_replacing(review, new):
        _end(connection, route.id, old)
        _confirm(connection, review, corridor, new)
        if review.closed is not None:  # this attempt is the one for the closed station
            store_plan(connection, review.task, corridor, new, now=now, cause=review.closed, before=old.timeline)
        if old.review_cause is not None:
            why = "no plan is feasible now" if isinstance(new, NoPlan) else "fuel and prices have not changed enough"
            events.record_event(connection, route.id, "plan_kept", why, now=now)
        return "confirmed"
    if is_being_sent(connection, old.id, now=now):
        _REVIEW_LATER.execute(connection, (now + SWEEP_GRACE, route.id))
        return "being_sent"
    discard_messages(connection, [route.id], "The plan was replaced before delivery")
    _end(connection, route.id, old)
    cause = _cause_of(review, now=now)
    plan_id = store_plan(connection, review.task, corridor, new, now=now, cause=cause, before=old.timeline)
    was_sent = current == RouteStatus.ACTIVE
    if was_sent:
        _CORRECT.execute(connection, (plan_id, route.id))
    else:
        _REPLACE.execute(connection, (plan_id, new.inputs.road_miles, route.id))
    queue_message_of(connection, route, plan_id, new, now=now, why=review.closed if was_sent else None)
    return "corrected" if was_sent else "replaced"


def _end(connection: Connection, route_id: UUID, plan: PlanUnderReview) -> None:
    _END_REVIEW.execute(connection, {"begun": plan.review_requests, "id": route_id, "plan_id": plan.id})


def _is_worth_replacing(review: Review, new: ComputedPlan | NoPlan) -> bool:
    """True if the new plan replaces the one under review.

    - No plan is feasible any more: the driver keeps the plan there is.
    - The fuel changed by more than 10 % of capacity: replaced, whatever the new plan saves.
    - A station of the plan is closed when the truck is there: replaced.
    - Only prices changed: replaced when the plan's saving changes by more than $10, when the new plan's gallons would
      cost more than $10 more at its stops, at the prices of now, or when one of its stations has no price any more. The
      plans are compared only over the same road with about the same fuel, see `savings_compare`.
    """
    if isinstance(new, NoPlan):
        return False
    if review.fuel_changed or avoids_closed(review.closed, new):
        return True
    moved = saving_changed(review.plan.document["savingsTotal"], new.savings_total)
    return _is_comparable(review, new) and (moved or _costs_more_by_now(review.plan, new))


def _costs_more_by_now(old: PlanUnderReview, new: ComputedPlan) -> bool:
    """True if the gallons of the new plan would cost more than $10 more at the stops of the old one, at today's prices;
    also if a station of the old plan is retired or has no price any more."""
    prices = {
        (station.name, station.latitude, station.longitude): price
        for station, price in ((offer.station, offer.net_price) for offer in new.inputs.offers)
    }
    stops = old.document["stops"]
    today = [prices.get((stop["name"], stop["latitude"], stop["longitude"])) for stop in stops]
    costs = [price * stop["gallonsToFill"] for price, stop in zip(today, stops, strict=True) if price is not None]
    if len(costs) < len(stops):
        return True
    gallons = sum(stop["gallonsToFill"] for stop in stops)
    return gallons > 0 and cost_changed(sum(costs) / gallons * new.total_gallons, new.total_cost)


def _cause_of(review: Review, *, now: datetime) -> PlanCause:
    """The cause that is stored with the plan that replaces the one under review."""
    if review.closed is not None:
        return review.closed
    if review.plan.review_cause is not None:
        return PlanCause(kind="dispatcher", at=now.isoformat(), text="a dispatcher asked for it")
    if review.fuel_changed:
        return PlanCause(kind="fuel", at=now.isoformat(), text="the fuel at the first stop has changed")
    why = "prices have changed" if review.plan.prices_changed else "a price rises before the truck is there"
    return PlanCause(kind="prices", at=now.isoformat(), text=why)


def _confirm(connection: Connection, review: Review, corridor: Corridor, new: ComputedPlan | NoPlan) -> None:
    """Keeps the plan, and stores the fuel and prices of the review, so that the same change is not reviewed again.

    - No plan is feasible with the new fuel level: that level is stored, because there is nothing better for it.
    - The new prices change too little: they are stored, but the fuel level stays the one that the plan was made with.
      For example: made with 40 %, reviewed at 48 %, then at 56 %. Each reading is 8 % from the one before, but 56 % is
      16 % from the 40 % of the plan, and that is a change.
    - The savings cannot be compared, for the truck has gone far or is filling its tank: nothing is stored, so the next
      review compares these prices again.
    """
    old = review.plan
    if isinstance(new, NoPlan):
        confirm_plan(connection, old.id, fuel_percent=review.task.read_percent, price_set=corridor.price_set)
    elif _is_comparable(review, new):
        confirm_plan(connection, old.id, fuel_percent=old.fuel_percent, price_set=corridor.price_set)


def _is_comparable(review: Review, new: ComputedPlan) -> bool:
    before, after = review.plan.fuel_percent, review.task.newest_percent
    driven_miles = review.plan.road_miles - new.inputs.road_miles
    return savings_compare(review.plan.document, driven_miles=driven_miles, percent_before=before, percent_after=after)


_RETRY_REVIEW = Scalar(
    NotNull[bool],
    f"""
    UPDATE routes SET
        attempts = CASE WHEN attempts + 1 < %(most)s THEN attempts + 1 ELSE 0 END,
        review_at = CASE WHEN attempts + 1 < %(most)s THEN %(now)s::timestamptz + {RETRY_WAIT} END,
        review_cause = CASE WHEN attempts + 1 < %(most)s THEN review_cause END,
        replan = CASE WHEN attempts + 1 < %(most)s THEN replan END
    WHERE id = %(id)s AND status IN ('planned', 'active') AND review_at IS NOT NULL
    RETURNING review_at IS NULL
    """,
)


def review_failed(connection: Connection, route_id: UUID, *, max_attempts: int, now: datetime) -> bool:
    """Stores that a review or a replan failed unexpectedly: it is repeated after a growing wait. After the last attempt
    the plan stays until a review is asked for again. Returns whether this was the last attempt."""
    was_last = _RETRY_REVIEW.first(connection, {"most": max_attempts, "now": now, "id": route_id})
    if was_last is not None:
        events.record_event(connection, route_id, "review_failed", "it failed on our side; see the log", now=now)
    return bool(was_last)
