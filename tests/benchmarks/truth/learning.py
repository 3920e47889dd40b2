"""The burn that a truck's trips teach, as `domain/burn/learning.py` has it, but without its tables: no fuel card, no
other trucks of the company."""

from collections.abc import Sequence
from typing import Any

from domain.ids import new_id
from tests.benchmarks.truth.driver import Fix
from tests.benchmarks.truth.versions import BURN_FIGURES, DEFAULT_MPG, LEVELS, module

LEARNED: Any = module("domain.burn.learned")
"""The rule; None in a checkout that learns nothing."""


class TruckHistory:
    """The trips of one truck."""

    def __init__(self) -> None:
        self.trips: list[Any] = []

    def burn(self, declared_mpg: float | None) -> Any:
        """The burn with which the truck is planned: a `Burn`, or its mpg in earlier checkouts."""
        if BURN_FIGURES is None:
            return declared_mpg
        if LEARNED is None or not self.trips:
            return BURN_FIGURES.figure_of(declared_mpg)
        return BURN_FIGURES.figure_of(declared_mpg, LEARNED.agreed_burn(LEARNED.believed(self.trips)))

    def add(self, fixes: Sequence[Fix], *, capacity_gallons: float, declared_mpg: float | None) -> None:
        """The truck has completed a trip."""
        if LEARNED is None:
            return
        trip = LEARNED.TripBurn(new_id(), fixes[0].at, fixes[-1].at)
        levels = [LEVELS.LevelAtMile(*one) for one in fixes]
        known = [DEFAULT_MPG, *([declared_mpg] if declared_mpg else [])]
        measured = LEARNED.measure_trip(trip, [levels], [], capacity_gallons=capacity_gallons, known_mpg=known)
        self.trips.append(measured)
