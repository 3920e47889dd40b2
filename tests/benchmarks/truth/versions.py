"""The names of the domain that not every checkout has. The judge looks for them, so that it runs on earlier ones."""

from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from types import ModuleType, SimpleNamespace
from typing import Any

from domain.planning.fuel_plan import ComputedPlan, NoPlan, compute_plan
from domain.planning.plan_inputs import PlanInputs
from domain.roads import Point
from domain.routes.plans import replans

DEFAULT_MPG = 6.5


def module(name: str) -> ModuleType | None:
    """A module of the domain; None in a checkout without it."""
    package = name.rpartition(".")[0]
    return import_module(name) if find_spec(package) and find_spec(name) else None


BURN_FIGURES: Any = module("domain.burn.figures")
LEVELS: Any = module("domain.burn.levels")
FILL_LEVELS: Any = module("domain.burn.fill_levels")
MENU: Any = module("domain.planning.menu")
CHEAP_MARGINS: Any = module("domain.planning.cheap_margins")
RAISED_LEVELS: Any = module("domain.planning.raised_levels")


def mpg_of(burn: Any) -> float:
    return float(getattr(burn, "mpg", burn) or DEFAULT_MPG)


def plan_inputs(*, burn: Any, **given: Any) -> PlanInputs:
    """The inputs of a plan, as this checkout has them."""
    name = "burn" if "burn" in {one.name for one in fields(PlanInputs)} else "mpg"
    return PlanInputs(**given, **{name: burn})


def plan_of(inputs: PlanInputs) -> ComputedPlan | NoPlan:
    """The plan, with a margin in a checkout that has one."""
    plan: ComputedPlan | NoPlan = getattr(CHEAP_MARGINS, "plan_with_margin", compute_plan)(inputs)
    return plan


def plan_for_level(inputs: PlanInputs, stop: tuple[float, float]) -> ComputedPlan | NoPlan:
    """The plan for another level at a stop; an earlier one knows only plans that keep the stop."""
    if hasattr(RAISED_LEVELS, "inputs_for_level"):
        return compute_plan(RAISED_LEVELS.inputs_for_level(inputs, stop))
    plan: ComputedPlan | NoPlan = RAISED_LEVELS.plan_for_level(inputs, stop)
    return plan


def measured(outlook: Any) -> Any:
    """The burn that the levels of a trip show, in place of the plan's."""
    spread = getattr(outlook, "burn_spread", None)
    known = {"measured_spread_percent": round(100 * spread, 2)} if spread is not None else {}
    return BURN_FIGURES.Burn(round(outlook.mpg, 2), "measured", instead_of_mpg=outlook.planned.mpg, **known)


def is_worth_telling(kind: str, document: Any, passed: int, outlook: Any, plan: ComputedPlan) -> bool:
    """The decision of `finish_replan`."""
    decide: Any = getattr(replans, "_is_told", replans._is_worth_telling)
    if len(signature(decide).parameters) == 3:
        return bool(decide(document, passed, plan))
    next_stop = next(iter(document["stops"][passed:]), None)
    level_at = Point(next_stop["latitude"], next_stop["longitude"]) if next_stop is not None else None
    due = SimpleNamespace(document=document, fuel_stops_passed=passed, replan={"kind": kind}, next_stop=next_stop)
    return bool(decide(SimpleNamespace(due=due, outlook=outlook, task=SimpleNamespace(level_at=level_at)), plan))
