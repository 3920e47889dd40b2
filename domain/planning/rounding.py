"""Purchases in gallons as a pump shows them: in tenths, or in finer steps where the tank leaves no room for tenths."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from domain.planning.optimizer import NearStops, solve, solve_within
from domain.planning.pump_steps import CHEAPER_DOLLARS, STEPS_GALLONS, cheapest_in_steps
from domain.planning.trips import Infeasible, Purchase, Solution, Trip, drive_trip, fuel_without_purchases, objective_of

MAX_ROUNDING_LOSS_DOLLARS = 0.50
"""Most dollars that rounding to tenths may cost. Most trips lose less; a trip with many stops at very different prices
may lose more."""

SPARE_GALLONS = 0.01
"""Slack at each limit; enough for rounding to 0.001 gal."""


def solve_rounded(
    trip: Trip, known: Sequence[Purchase] | None = None, *, stops_without_limit: int = 0
) -> Solution | Infeasible:
    """The cheapest purchases that a pump can show. `known` purchases and `stops_without_limit` make it faster, as in
    `solve`."""
    near = NearStops(MAX_ROUNDING_LOSS_DOLLARS)
    solution = solve(trip, known, near, stops_without_limit=stops_without_limit)
    rounded = _rounded_optimum(trip, solution)
    if isinstance(solution, Infeasible) or isinstance(rounded, Infeasible):
        return rounded
    lost = rounded.objective - solution.objective
    if lost <= CHEAPER_DOLLARS:
        return rounded
    if lost > near.slack_dollars:
        near = NearStops(lost)
        solve_within(trip, near.max_stops, rounded.objective, near)
    return cheapest_in_steps(trip, rounded, near)


def rounded_optimum(trip: Trip) -> Solution | Infeasible:
    """The optimum, rounded. Rarely, other purchases that a pump can show cost some cents less; whether there are any is
    the same."""
    return _rounded_optimum(trip, solve(trip))


def _rounded_optimum(trip: Trip, solution: Solution | Infeasible) -> Solution | Infeasible:
    """The optimum, rounded. Where it uses every last thousandth of a gallon in the tank, the optimum with a little to
    spare is rounded instead."""
    if isinstance(solution, Infeasible):
        return solution
    rounded = round_and_drive(trip, solution)
    if isinstance(rounded, Solution):
        return rounded
    tight = solve(with_room(trip, SPARE_GALLONS))
    return round_and_drive(trip, tight) if isinstance(tight, Solution) else rounded


def with_room(trip: Trip, gallons: float) -> Trip:
    """The trip with limits that leave so much room."""
    return replace(
        trip,
        reserve_gallons=trip.reserve_gallons + gallons,
        end_gallons=trip.end_gallons + gallons,
        usable_gallons=trip.usable_gallons - gallons,
        min_purchase_gallons=trip.min_purchase_gallons + gallons,
        candidates=tuple(
            one._replace(floor_gallons=one.floor_gallons + gallons) if one.floor_gallons else one
            for one in trip.candidates
        ),
    )


def round_and_drive(trip: Trip, solution: Solution) -> Solution | Infeasible:
    """Round the solution to whole steps, and drive it again with the rounded numbers, so that it keeps every limit.

    Finer steps are taken where tenths break a limit, or would cost more than `MAX_ROUNDING_LOSS_DOLLARS`.
    """
    for step in STEPS_GALLONS:
        gallons = _rounded(trip, solution.purchases, step)
        if gallons is None:
            continue
        purchases = tuple(
            Purchase(purchase.candidate_index, amount)
            for purchase, amount in zip(solution.purchases, gallons, strict=True)
        )
        objective = objective_of(trip, purchases)
        if objective <= solution.objective + MAX_ROUNDING_LOSS_DOLLARS:
            drive_trip(trip, purchases)
            return Solution(purchases, objective)
    return Infeasible(0.0, trip.distance_miles, "the trip takes every last thousandth of a gallon in the tank")


def _rounded(trip: Trip, purchases: Sequence[Purchase], step: float) -> list[float] | None:
    """Gallons in whole steps that keep every limit; None when no whole steps at these stops do.

    Totals are rounded, not purchases: the total at a stop is what was bought up to and including it. Each limit is a
    limit on totals. The tank sets the highest total at each stop; the fuel needed to reach the next stop sets the
    lowest; the smallest purchase sets how far two totals are apart.

    Rounded up, totals keep every limit but the tank's. So a total is lowered where the tank is full, and those before
    it where they would come too near. For example, in tenths, with room for 89.96 gal at the first stop:

        exact purchases   89.96, 50.07    totals  89.96, 140.03
        rounded up                        totals  90.0,  140.1
        the tank holds no 90.0            totals  89.9,  140.1     purchases  89.9, 50.2

    No rounded totals that keep the tank's limits are higher than these. So where they fall below the lowest that is
    needed, no others would do.
    """
    if not purchases:
        return []
    per_gallon = round(1 / step)

    def up(gallons: float) -> int:
        return math.ceil(gallons * per_gallon - 1e-6)

    def down(gallons: float) -> int:
        return math.floor(gallons * per_gallon + 1e-6)

    # Steps are counted from here on, one value for each stop.
    arriving = fuel_without_purchases(trip, purchases)
    # on arriving at the next stop
    needed = [trip.lowest_on_arriving(trip.candidates[index], 1) for index, _ in purchases[1:]]
    needed.append(max(trip.reserve_gallons, trip.end_gallons))
    highest = [down(trip.usable_gallons - gallons) for gallons in arriving[:-1]]
    lowest = [up(need - gallons) for need, gallons in zip(needed, arriving[1:], strict=True)]
    smallest = [up(trip.smallest_purchase(trip.candidates[index])) for index, _ in purchases]
    totals = [up(total) for total in accumulate(gallons for _, gallons in purchases)]

    for stop in range(1, len(totals)):
        totals[stop] = max(totals[stop], totals[stop - 1] + smallest[stop])
    for stop in reversed(range(len(totals))):
        totals[stop] = min(totals[stop], highest[stop])
        if stop + 1 < len(totals):
            totals[stop] = min(totals[stop], totals[stop + 1] - smallest[stop + 1])
    bought = [after - before for before, after in pairwise([0, *totals])]
    enough = all(total >= low for total, low in zip(totals, lowest, strict=True))
    if not enough or any(amount < least for amount, least in zip(bought, smallest, strict=True)):
        return None
    return [amount / per_gallon for amount in bought]
