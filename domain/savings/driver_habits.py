"""The habits of drivers with which plans are compared: their names, the method of each in a sentence, and why a trip is
left out."""

from collections.abc import Mapping
from enum import StrEnum


class DriverHabit(StrEnum):
    """A habit of fueling with which plans are compared."""

    BELOW_30 = "below_30"
    CHEAPEST = "cheapest"
    USUAL = "usual"


HABIT_BASIS = (
    "habits: what the trips of plans would have cost at the pumps, over the road and with the tank, prices and limits"
    " of each plan; fuel left beyond or below the plan's end level counts at what the habit paid a gallon, or the plan"
    " where the habit bought none"
)
METHODS: Mapping[DriverHabit, str] = {
    DriverHabit.BELOW_30: "Fills up at the first truck stop once the tank is below 30 %.",
    DriverHabit.CHEAPEST: "Fills up at the cheapest truck stop that the tank still reaches.",
    DriverHabit.USUAL: (
        "Buys as the truck did in the quarter before, or its company where the truck has fewer than 10 stops in it: the"
        " median part of the tank, at the chains of that quarter by their gallons."
    ),
}
"""The method of each habit in a sentence, as it stands beside the figures."""

NAMES: Mapping[DriverHabit, str] = {
    DriverHabit.BELOW_30: "Fills up below 30 %",
    DriverHabit.CHEAPEST: "Cheapest truck stop in reach",
    DriverHabit.USUAL: "As in the quarter before",
}


class LeftOut(StrEnum):
    """Why a trip is not compared with a habit."""

    WAITING = "waiting"
    FORGOTTEN = "forgotten"
    FAILED = "failed"
    NO_WAY = "no_way"
    TOO_FEW_FILLS = "too_few_fills"


WHY_LEFT_OUT: Mapping[LeftOut, str] = {
    LeftOut.WAITING: "not compared yet",
    LeftOut.FORGOTTEN: "inputs no longer kept",
    LeftOut.FAILED: "could not be driven again",
    LeftOut.NO_WAY: "the habit does not arrive",
    LeftOut.TOO_FEW_FILLS: "too few fills in the quarter before",
}

ANEW = """
    plan_id = excluded.plan_id, planned_at = excluded.planned_at, driven_at = NULL, left_out = NULL,
    below_30_cents = NULL, cheapest_cents = NULL, usual_cents = NULL, usual_of = NULL
"""
"""SQL that lets a row of `habit_costs` wait again, with another plan."""
