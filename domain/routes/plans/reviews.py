"""Reviews of the plans of routes: begun, finished, and repeated when they fail. When one is asked for is in
`review_requests`; how the plans are compared is in `planning/reviews.py`.

What a route keeps of its reviews:

- `review_at`: a review is due. Its job is enqueued at once; from this time on the sweep enqueues it again. NULL: none.
- `review_requests`: how many reviews were asked for so far. A review that ends sets `review_at` to NULL only when none
  was asked for since it began.
- `review_cause`: `dispatcher` where somebody asked for the review that is due; its plan is made in any case.
- `attempts`: failed reviews in a row. While a failed one waits for its next attempt, requests enqueue nothing.
- `correction_id`: the plan that replaces the one that the driver has. It becomes `plan_id` when its message is out.
- `corrected_at`: when that happened last. From then on the plan is not reviewed any more; it may still be made anew on
  the way (`replans`).

For example: the truck takes 50 gallons at its first stop. The fixes that tell so ask for a review; its worker finds the
fuel changed, stores the new plan as `correction_id` and queues a message. When the message is sent, the route shows the
new plan and has `corrected_at`.
"""

from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from domain.database import Connection
from domain.jobs import SWEEP_GRACE, Job
from domain.lifecycle import RouteStatus
from domain.messages.discarding import discard_messages
from domain.messages.due_messages import is_being_sent
from domain.planning import reviews
from domain.planning.fuel_plan import FuelPlan, NoPlan
from domain.planning.reviews import PlanUnderReview, Review
from domain.planning.stored_plans import store_plan
from domain.routes import events
from domain.routes.plans.first_plan import queue_message_of
from domain.routes.transitions import RETRY_WAIT
from domain.statements import Command, Statement
from domain.stations.candidates import Corridor

_END_WHERE_IMPOSSIBLE = Command(
    "UPDATE routes SET review_at = NULL, review_cause = NULL WHERE id = %s AND review_at IS NOT NULL"
    " AND (status NOT IN ('planned', 'active') OR corrected_at IS NOT NULL)"
)
"""The plan is over, or was corrected: without this its review would be due for ever."""

_END_REVIEW = Command(
    """
    UPDATE routes SET attempts = 0, review_at = CASE WHEN review_requests <> %(begun)s THEN review_at END,
        review_cause = CASE WHEN review_requests <> %(begun)s THEN review_cause END
    WHERE id = %(id)s AND coalesce(correction_id, plan_id) = %(plan_id)s
    """
)
"""Unless another review was asked for since this one began."""


class _Reviewed(NamedTuple):
    status: str


_LOCK_REVIEWED = Statement(
    _Reviewed,
    "SELECT status FROM routes WHERE id = %s AND coalesce(correction_id, plan_id) = %s"
    " AND status IN ('planned', 'active') AND corrected_at IS NULL FOR UPDATE",
)
_REVIEW_LATER = Command("UPDATE routes SET review_at = %s WHERE id = %s")
_CORRECT = Command("UPDATE routes SET correction_id = %s WHERE id = %s")
_REPLACE = Command(
    "UPDATE routes SET plan_id = %s, distance_miles = %s, attempts = 0, retry_at = NULL,"
    " updated_at = clock_timestamp() WHERE id = %s"
)

ReviewOutcome = Literal["confirmed", "replaced", "corrected", "being_sent", "outdated"]


def begin_review(connection: Connection, route_id: UUID, *, now: datetime) -> Review | None:
    """The review of a route's plan that is due. None where none is, or where neither fuel nor prices have changed: then
    the review has ended.
    """
    plan = reviews.plan_under_review(connection, route_id)
    if plan is None:
        _END_WHERE_IMPOSSIBLE.execute(connection, (route_id,))
        return None
    review = reviews.load_review(connection, route_id, plan, now=now)
    if review is not None and not review.is_needed:
        _end(connection, route_id, plan)
        return None
    return review


def finish_review(
    connection: Connection, review: Review, corridor: Corridor, new: FuelPlan | NoPlan, *, now: datetime
) -> tuple[ReviewOutcome, list[Job]]:
    """Keeps the plan, or replaces it where the new one is worth it. Returns the outcome and the jobs to enqueue after
    the commit.

    - `confirmed`: the plan stays.
    - `replaced`: the plan was not sent yet; the new one takes its place and is sent instead.
    - `corrected`: the plan was sent, so the driver gets a corrected message. The new plan is the route's plan once that
      message is out.
    - `being_sent`: a worker is sending the plan's message at this moment, so the review is repeated a little later.
    - `outdated`: the route or its plan has changed while the new plan was computed; nothing is stored.
    """
    old, route = review.plan, review.task.route
    current = _LOCK_REVIEWED.first(connection, (route.id, old.id))
    if current is None:
        return "outdated", []
    if isinstance(new, NoPlan) or not reviews.is_worth_replacing(review, new):
        _end(connection, route.id, old)
        reviews.confirm_plan(connection, review, corridor, new)
        if old.review_cause is not None:
            why = "no plan is feasible now" if isinstance(new, NoPlan) else "fuel and prices have not changed enough"
            events.keep(connection, route.id, "plan_kept", why, now=now)
        return "confirmed", []
    if is_being_sent(connection, old.id, now=now):
        _REVIEW_LATER.execute(connection, (now + SWEEP_GRACE, route.id))
        return "being_sent", []
    discard_messages(connection, [route.id], "The plan was replaced before delivery")
    _end(connection, route.id, old)
    plan_id = store_plan(connection, review.task, corridor, new, now=now, cause=reviews.cause_of(review, now=now))
    was_sent = current.status == RouteStatus.ACTIVE
    if was_sent:
        _CORRECT.execute(connection, (plan_id, route.id))
    else:
        _REPLACE.execute(connection, (plan_id, new.inputs.road_miles, route.id))
    return "corrected" if was_sent else "replaced", [queue_message_of(connection, route, plan_id, new, now=now)]


def _end(connection: Connection, route_id: UUID, plan: PlanUnderReview) -> None:
    _END_REVIEW.execute(connection, {"begun": plan.review_requests, "id": route_id, "plan_id": plan.id})


class _Retried(NamedTuple):
    review_at: datetime | None


_RETRY_REVIEW = Statement(
    _Retried,
    f"""
    UPDATE routes SET
        attempts = CASE WHEN attempts + 1 < %(most)s THEN attempts + 1 ELSE 0 END,
        review_at = CASE WHEN attempts + 1 < %(most)s THEN %(now)s::timestamptz + {RETRY_WAIT} END,
        review_cause = CASE WHEN attempts + 1 < %(most)s THEN review_cause END,
        replan = CASE WHEN attempts + 1 < %(most)s THEN replan END
    WHERE id = %(id)s AND status IN ('planned', 'active') AND review_at IS NOT NULL
    RETURNING review_at
    """,  # noqa: S608 (constants of this module)
)


def review_failed(connection: Connection, route_id: UUID, *, max_attempts: int, now: datetime) -> bool:
    """A review, or a plan made anew, failed unexpectedly: it is repeated after a growing wait. After the last attempt
    the plan stays until a review is asked for again. Returns whether this was the last attempt.
    """
    row = _RETRY_REVIEW.first(connection, {"most": max_attempts, "now": now, "id": route_id})
    if row is not None:
        events.keep(connection, route_id, "review_failed", "it failed on our side; see the log", now=now)
    return row is not None and row.review_at is None
