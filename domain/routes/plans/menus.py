"""Makes the menus of the plans that drivers get.

A plan whose driver is told waits for its menu (`plans.menu_due_at`), and a job of its own makes it, so neither the plan
nor its message waits. The plan is computed again as of its own moment. Where that gives other stations, because prices
have changed in between, the plan has no menu: none of its figures would be true. `choices` takes a choice."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.fence import is_at_work
from domain.database.statements import NotNull, OwnedRow, Scalar, Statement, in_turns
from domain.documents import FuelPlanDocument, PlanCause
from domain.planning.fuel_plan import ComputedPlan
from domain.planning.menu import Choice
from domain.planning.plan_tasks import PlanTask, plan_task_as_of, route_to_plan
from domain.planning.stored_plans import begin_attempt_at_menu, end_menu
from domain.roads.sphere import stop_point
from domain.routes.plans.made_choices import store_choices, wanted_by
from domain.routes.plans.measured_burn import with_measured_burn


class _Due(NamedTuple):
    route_id: UUID
    as_of: NotNull[datetime]
    cause: PlanCause | None
    document: NotNull[FuelPlanDocument]
    station_ids: NotNull[list[str]]
    has_left: bool
    """True if the truck had left its first stop by then."""


_DUE = Statement(
    _Due,
    """
    SELECT p.route_id, coalesce(p.as_of, p.generated_at) AS as_of, p.cause, p.document, p.station_ids,
           EXISTS (SELECT FROM visits v WHERE v.route_id = p.route_id AND v.departed_at <= p.as_of) AS has_left
    FROM plans p JOIN routes r ON r.id = p.route_id AND r.revision = p.revision
    WHERE p.id = %s AND p.menu_due_at IS NOT NULL AND p.document IS NOT NULL AND p.station_ids <> '{}'
      AND r.status IN ('planned', 'active') AND coalesce(r.correction_id, r.plan_id) = p.id
    """,
)


class MenuTask(NamedTuple):
    """A menu to make: the plan that it belongs to, and the task of computing that plan again."""

    plan_id: UUID
    station_ids: Sequence[str]
    task: PlanTask


_LOCK_ROUTE_OF_PLAN = Scalar(
    UUID, "SELECT r.id FROM plans p JOIN routes r ON r.id = p.route_id WHERE p.id = %s FOR UPDATE OF r"
)


def begin_menu(connection: Connection, plan_id: UUID, *, max_attempts: int) -> MenuTask | None:
    """The menu of a plan. None where none is due: there is one, the plan has no fuel stop, its driver will not drive by
    it any more, or `max_attempts` were begun and none has ended: the menu may be what kills the workers."""
    _LOCK_ROUTE_OF_PLAN.first(connection, (plan_id,))  # before its plan, as everywhere
    attempts = begin_attempt_at_menu(connection, plan_id)
    due = _DUE.first(connection, (plan_id,)) if attempts <= max_attempts else None
    route = route_to_plan(connection, due.route_id) if due is not None else None
    if due is None or route is None:
        end_menu(connection, plan_id)
        return None
    task = plan_task_as_of(connection, route, due.as_of)
    if due.has_left:
        task, _ = with_measured_burn(connection, task)
    return MenuTask(plan_id, due.station_ids, _as_then(connection, task, due))


def _as_then(connection: Connection, task: PlanTask, due: _Due) -> PlanTask:
    """The task with what its cause decided."""
    if due.cause is None:
        return task
    if due.cause["kind"] == "level":
        first = due.document["stops"][0]
        return replace(task, level_at=stop_point(first))
    wanted = wanted_by(connection, due.cause, fuel_stops_passed=due.cause.get("fuelStopsPassed", 0))
    return replace(task, wanted=wanted)


def finish_menu(connection: Connection, menu: MenuTask, choices: Sequence[Choice]) -> bool:
    """Stores the menu of a plan, unless it has one or waits for none any more. Returns whether it was stored."""
    route = menu.task.route
    if _LOCK_ROUTE_OF_PLAN.first(connection, (menu.plan_id,)) is None or not end_menu(connection, menu.plan_id):
        return False
    store_choices(connection, route, menu.plan_id, choices)
    return True


def is_same_plan(menu: MenuTask, plan: ComputedPlan) -> bool:
    """True if the plan that was computed again stops at the same stations."""
    return [stop.station.station_id for stop in plan.stops] == list(menu.station_ids)


_DUE_MENUS = Statement(
    OwnedRow,
    in_turns(
        "id, company_id",
        "SELECT p.id, p.company_id, p.menu_due_at AS since FROM plans p"
        f" WHERE p.menu_due_at <= %s AND {is_at_work('p.company_id')}",
    ),
)


def due_menus(connection: Connection, *, now: datetime, limit: int = 10_000) -> dict[UUID, UUID]:
    """Plans whose menu is due and whose job seems lost, each with its company."""
    return dict(_DUE_MENUS.all(connection, (now, limit)))
