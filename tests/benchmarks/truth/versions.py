"""The names of the domain that not every checkout has. The judge looks for them, so that it runs on earlier ones."""

from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from domain.planning.plan_inputs import PlanInputs

DEFAULT_MPG = 6.5


def module(name: str) -> ModuleType | None:
    """A module of the domain; None in a checkout without it."""
    package = name.rpartition(".")[0]
    return import_module(name) if find_spec(package) and find_spec(name) else None


BURN_FIGURES = module("domain.burn.figures")


def figure_of(declared_mpg: float | None) -> Any:
    """The burn with which a truck is planned: a `Burn`, or its mpg in earlier checkouts."""
    return BURN_FIGURES.figure_of(declared_mpg) if BURN_FIGURES is not None else declared_mpg


def mpg_of(burn: Any) -> float:
    return float(getattr(burn, "mpg", burn) or DEFAULT_MPG)


def plan_inputs(*, burn: Any, **given: Any) -> PlanInputs:
    """The inputs of a plan, as this checkout has them."""
    name = "burn" if "burn" in {one.name for one in fields(PlanInputs)} else "mpg"
    return PlanInputs(**given, **{name: burn})
