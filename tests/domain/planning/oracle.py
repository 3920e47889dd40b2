"""The oracle: HiGHS, on the same trip stated as a mixed-integer program."""

from itertools import pairwise

import highspy
import numpy as np

from domain.planning.trips import PUMP_STEP_GALLONS, Trip

DOLLARS_LOST_TO_ROUNDING = 0.50


def milp(trip: Trip, must_stop_at: int | None = None, step_gallons: float | None = None) -> highspy.HighsLp:
    """The trip as a mixed-integer program: fuel on the road before and after each candidate, a stop or not, gallons,
    in any fractions or in whole steps."""
    columns: list[tuple[float, float, float]] = []
    rows: list[tuple[float, float, dict[int, float]]] = []

    def column(low: float, high: float, cost: float = 0.0) -> int:
        columns.append((low, high, cost))
        return len(columns) - 1

    def row(low: float, high: float, terms: dict[int, float]) -> None:
        rows.append((low, high, terms))

    reserve, usable, inf = trip.reserve_gallons, trip.usable_gallons, highspy.kHighsInf
    start = min(trip.start_gallons, usable)
    fuel, mile = column(start, start), 0.0
    stops: list[int] = []
    steps: list[int] = []
    margin = trip.margin_gallons
    stopped = column(0, 0)  # with a negative margin: 1 behind the first stop
    first = reserve + min(margin, 0.0)

    def after_stops(gallons: dict[int, float], road_gallons: float = 0.0) -> None:
        """The limits of fuel that change with the first stop. A negative margin ends with any of the stops, a positive
        one with their number."""
        row(first + road_gallons, inf, gallons)
        if margin > 0:
            row(reserve + margin + road_gallons, inf, {**gallons, **dict.fromkeys(stops, margin)})
        elif margin < 0 and stops:
            row(first + road_gallons, inf, {**gallons, stopped: margin})

    row(reserve + margin, inf, {fuel: 1})
    for i, candidate in enumerate(trip.candidates):
        burned = _road_gallons(trip, mile, candidate.mile)
        into, out = (
            _gallons_a_mile(trip, candidate.mile) * detour
            for detour in (candidate.detour_miles_in, candidate.detour_miles_out)
        )
        arriving, leaving = column(first, usable), column(first, usable)
        stop = column(float(i == must_stop_at), 1, trip.stop_cost)
        bought = column(0, usable - first, candidate.price)
        row(-burned, -burned, {arriving: 1, fuel: -1})
        after_stops({arriving: 1, stop: -into})
        above = max(candidate.floor_gallons - first, 0.0)
        if margin >= 0:
            row(reserve, inf, {arriving: 1, stop: -into - above})
        elif candidate.floor_gallons > reserve and stops:
            row(first - above, inf, {arriving: 1, stop: -into - above, stopped: -above})
        row(-inf, usable, {arriving: 1, stop: -into, bought: 1})
        row(0, 0, {leaving: 1, arriving: -1, bought: -1, stop: into + out})
        row(0, inf, {bought: 1, stop: -max(trip.min_purchase_gallons, PUMP_STEP_GALLONS, into + out)})
        row(-inf, 0, {bought: 1, stop: first - usable})
        if step_gallons is not None:
            steps.append(column(0, inf))
            row(0, 0, {bought: 1, steps[-1]: -step_gallons})
        fuel, mile = leaving, candidate.mile
        stops.append(stop)
        if margin < 0:
            before, stopped = stopped, column(0, 1)
            row(0, inf, {stopped: 1, before: -1})
            row(0, inf, {stopped: 1, stop: -1})
            after_stops({leaving: 1})
    burned = _road_gallons(trip, mile, trip.distance_miles)
    left = column(0, inf, -trip.leftover_value_per_gallon)
    row(burned + trip.end_gallons, burned + trip.end_gallons, {fuel: 1, left: -1})
    after_stops({fuel: 1}, burned)
    if trip.max_stops is not None:
        row(-inf, trip.max_stops, dict.fromkeys(stops, 1.0))
    if trip.first_stops is not None:
        row(1, inf, {stops[index]: 1.0 for index in trip.first_stops})
        for other in set(range(len(stops))) - trip.first_stops:
            row(-inf, 0, {stops[other]: 1.0, **{stops[one]: -1.0 for one in trip.first_stops if one < other}})
    return _program(columns, rows, [*stops, *steps])


def _gallons_a_mile(trip: Trip, mile: float) -> float:
    """The burn of the leg that ends at this mile or behind it."""
    for before, after in pairwise(trip.burned):
        if mile <= after.mile:
            return (after.gallons - before.gallons) / (after.mile - before.mile)
    return 1 / trip.mpg


def _road_gallons(trip: Trip, from_mile: float, to_mile: float) -> float:
    """The burn of the road, leg by leg."""
    legs = pairwise([one.mile for one in trip.burned] or [0.0, trip.distance_miles])
    parts = [(max(from_mile, begin), min(to_mile, end)) for begin, end in legs]
    return sum((end - begin) * _gallons_a_mile(trip, end) for begin, end in parts if end > begin)


def _program(
    columns: list[tuple[float, float, float]], rows: list[tuple[float, float, dict[int, float]]], whole: list[int]
) -> highspy.HighsLp:
    """The program of these columns and rows, in which the columns `whole` are whole numbers."""
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(columns), len(rows)
    lp.col_lower_, lp.col_upper_, lp.col_cost_ = map(np.array, zip(*columns, strict=True))
    lp.row_lower_, lp.row_upper_ = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.cumsum([0, *(len(terms) for _, _, terms in rows)])
    lp.a_matrix_.index_ = np.array([index for _, _, terms in rows for index in terms])
    lp.a_matrix_.value_ = np.array([value for _, _, terms in rows for value in terms.values()])
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if i in whole else kinds.kContinuous for i in range(len(columns))]
    return lp


def exact_highs() -> highspy.Highs:
    """HiGHS on one thread, which searches for the optimum itself and not for something near it."""
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.silent()
    for option in ("primal_feasibility_tolerance", "mip_feasibility_tolerance", "mip_abs_gap"):
        highs.setOptionValue(option, 1e-9)
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.setOptionValue("threads", 1)
    return highs


def optimum(highs: highspy.Highs) -> float | None:
    """The least cost that `run()` found; None where it found no solution.

    Integrality holds to a tolerance only. So the choice of stops is fixed, and a linear program gives its cost.
    """
    if highs.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    values = highs.getSolution().col_value
    for column, kind in enumerate(highs.getLp().integrality_):
        if kind == highspy.HighsVarType.kInteger:
            highs.changeColBounds(column, round(values[column]), round(values[column]))
            highs.changeColIntegrality(column, highspy.HighsVarType.kContinuous)
    highs.run()
    return float(highs.getInfo().objective_function_value)


def milp_objective(trip: Trip, must_stop_at: int | None = None, step_gallons: float | None = None) -> float | None:
    highs = exact_highs()
    highs.passModel(milp(trip, must_stop_at, step_gallons))
    highs.run()
    return optimum(highs)
