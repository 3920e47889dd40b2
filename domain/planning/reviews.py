"""Reviews: a stored plan is compared with a new one, made as of now, and kept or replaced. When a review is due, and
what it does to the route, is in `routes/plans/reviews.py`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database import Connection
from domain.documents import FuelPlanDocument, PlanCause, StopDocument
from domain.planning.fuel_plan import DEFAULT_CAPACITY_GALLONS, DEFAULT_MPG, FuelPlan, NoPlan
from domain.planning.plan_changes import fuel_changed, level_on_leaving, same_trip, saving_moved
from domain.planning.plan_tasks import (
    RouteToPlan,
    Task,
    live_now,
    newest_at_first_stop,
    place_of,
    route_to_plan,
    task_as_of,
)
from domain.planning.stored_plans import ROAD_MILES
from domain.roads import CIRCUITY, Point, great_circle_miles
from domain.statements import Command, NotNull, Statement
from domain.stations.candidates import Corridor

_READINGS = 10
"""So many of the newest readings are read. Two are compared, but those from further along the road may say nothing."""


class PlanUnderReview(NamedTuple):
    """The plan that a route has: the correction that waits to be sent, else the current one."""

    id: UUID
    document: NotNull[FuelPlanDocument]
    road_miles: NotNull[float]
    fuel_percent: float
    """The level that the truck read when it was made, or for which a review found nothing better."""
    fuel_at: datetime | None
    """When the truck read the level that it was made with; None: none was known."""
    price_set: int | None
    """The newest import of prices that it was made or reviewed with."""
    review_requests: int
    """How many reviews of the route had been asked for when this one began."""
    review_cause: str | None
    """`dispatcher`: somebody asked for this one."""
    departed_at: datetime | None
    """When the truck was seen to leave its first stop: the time of the fix that decided it."""
    newest_price_set: int | None
    """The newest import of prices by now."""

    @property
    def prices_changed(self) -> bool:
        """Prices were imported since it was made or reviewed: they may be those of other stations."""
        return self.newest_price_set != self.price_set


@dataclass(frozen=True, slots=True)
class Review:
    """A plan that may have to be replaced, what a new one is made from, and whether the fuel is a reason for it."""

    plan: PlanUnderReview
    task: Task
    fuel_changed: bool

    @property
    def is_needed(self) -> bool:
        """Without a change of fuel or prices a new plan would be the same, unless somebody knows better."""
        return self.fuel_changed or self.plan.prices_changed or self.plan.review_cause is not None


_PLAN_UNDER_REVIEW = Statement(
    PlanUnderReview,
    f"""
    SELECT p.id, p.document, {ROAD_MILES} AS road_miles, p.fuel_percent, p.fuel_at, p.price_set, r.review_requests,
           r.review_cause,
           (SELECT min(coalesce((departure_evidence->'fixes'->-1->>'recordedAt')::timestamptz, departed_at))
            FROM visits WHERE route_id = r.id AND departed_at IS NOT NULL) AS departed_at,
           (SELECT max(id) FROM price_sets WHERE company_id IS NULL OR company_id = r.company_id) AS newest_price_set
    FROM routes r JOIN plans p ON p.id = coalesce(r.correction_id, r.plan_id)
    WHERE r.id = %s AND r.arrived_at IS NOT NULL AND r.status IN ('planned', 'active') AND r.review_at IS NOT NULL
      AND r.corrected_at IS NULL
    """,  # noqa: S608 (constants of the package)
)


def plan_under_review(connection: Connection, route_id: UUID) -> PlanUnderReview | None:
    """None when no review of the route is due, or none can be: its plan is over, or was corrected already."""
    return _PLAN_UNDER_REVIEW.first(connection, (route_id,))


def load_review(connection: Connection, route_id: UUID, plan: PlanUnderReview, *, now: datetime) -> Review | None:
    """What is needed to review a plan; None where the route was pushed again just now.

    A live plan is reviewed as of now. A sandbox plan is reviewed as of the departure from the first stop, or before the
    departure as of the newest fix from that stop, because the sandbox's time is simulated.
    """
    route = route_to_plan(connection, route_id)
    if route is None:
        return None
    as_of = live_now(route, now) or plan.departed_at or newest_at_first_stop(connection, route)
    changed = _fuel_changed(connection, route, plan, until=plan.departed_at or as_of)
    return Review(plan, task_as_of(connection, route, as_of), changed)


def is_worth_replacing(review: Review, new: FuelPlan | NoPlan) -> bool:
    """Whether the new plan replaces the one under review.

    - No plan is feasible any more: the driver keeps the plan there is.
    - The fuel changed by more than 10 % of capacity: replaced, whatever the new plan saves.
    - Only prices changed: replaced when the plan's saving changes by more than $10. The savings are compared only
      over the same road with about the same fuel, see `same_trip`.
    """
    if isinstance(new, NoPlan):
        return False
    return review.fuel_changed or (_is_comparable(review, new) and _saving_moved(review.plan, new))


def cause_of(review: Review, *, now: datetime) -> PlanCause:
    """Why the plan under review is replaced."""
    if review.plan.review_cause is not None:
        return PlanCause(kind="dispatcher", at=now.isoformat(), text="a dispatcher asked for it")
    if review.fuel_changed:
        return PlanCause(kind="fuel", at=now.isoformat(), text="the fuel at the first stop has changed")
    return PlanCause(kind="prices", at=now.isoformat(), text="prices have changed")


_CONFIRM = Command("UPDATE plans SET fuel_percent = %s, price_set = %s WHERE id = %s")


def confirm_plan(connection: Connection, review: Review, corridor: Corridor, new: FuelPlan | NoPlan) -> None:
    """Keeps the plan, and stores what it was reviewed with, so that the same change is not reviewed again.

    - No plan is feasible with the new fuel level: that level is stored, because there is nothing better for it.
    - The new prices change too little: they are stored, but the fuel level stays the one that the plan was made with.
      For example: made with 40 %, reviewed at 48 %, then at 56 %. Each reading is 8 % from the one before, but 56 % is
      16 % from the 40 % of the plan, and that is a change.
    - The savings cannot be compared, for the truck has gone far or is filling its tank: nothing is stored, so the next
      review looks at these prices again.
    """
    old = review.plan
    if isinstance(new, NoPlan):
        _CONFIRM.execute(connection, (review.task.read_percent, corridor.price_set, old.id))
    elif _is_comparable(review, new):
        _CONFIRM.execute(connection, (old.fuel_percent, corridor.price_set, old.id))


def _is_comparable(review: Review, new: FuelPlan) -> bool:
    before, after = review.plan.fuel_percent, review.task.read_percent
    driven_miles = review.plan.road_miles - new.inputs.road_miles
    return same_trip(review.plan.document, driven_miles=driven_miles, percent_before=before, percent_after=after)


def _saving_moved(old: PlanUnderReview, new: FuelPlan) -> bool:
    return saving_moved(old.document["savingsTotal"], new.savings_total)


class _Reading(NamedTuple):
    fuel_percent: NotNull[float]
    latitude: float
    longitude: float
    stop: StopDocument
    """The first one that was reached."""


_READINGS_AT_FIRST_STOP = Statement(
    _Reading,
    """
    SELECT f.fuel_percent, f.latitude, f.longitude,
           r.stops->coalesce((SELECT min(stop) FROM visits WHERE route_id = r.id), 0) AS stop
    FROM routes r JOIN positions f ON f.vehicle_id = r.vehicle_id AND f.environment = r.environment
    WHERE r.id = %(id)s AND f.recorded_at BETWEEN r.arrived_at AND %(until)s
      AND (%(fuel_at)s::timestamptz IS NULL OR f.recorded_at > %(fuel_at)s)
      AND f.fuel_percent IS NOT NULL AND NOT f.implausible
    ORDER BY f.recorded_at DESC LIMIT %(most)s
    """,
)


def _fuel_changed(connection: Connection, route: RouteToPlan, plan: PlanUnderReview, *, until: datetime) -> bool:
    """Whether the tank held something else at the first stop than the plan was made with.

    `until` is when the truck left the stop, or now. Later readings are left out, because the trip itself burns fuel and
    later stops fill the tank.
    """
    rows = _READINGS_AT_FIRST_STOP.all(
        connection, {"id": route.id, "until": until, "fuel_at": plan.fuel_at, "most": _READINGS}
    )
    levels = [
        level_on_leaving(
            row.fuel_percent,
            CIRCUITY * great_circle_miles(place_of(row.stop), Point(row.latitude, row.longitude)),
            mpg=route.mpg or DEFAULT_MPG,
            capacity_gallons=route.fuel_tank_capacity_gallons or DEFAULT_CAPACITY_GALLONS,
            plan=plan.document,
        )
        for row in rows
    ]
    departed = plan.departed_at is not None
    return fuel_changed(plan.fuel_percent, [level for level in levels if level is not None], departed=departed)
