"""When a plan made at the first stop no longer fits what is known on leaving it. Rules only."""

from collections.abc import Sequence

FUEL_CHANGE_PERCENT = 10.0
"""Of capacity. A smaller change moves a purchase by some gallons, and the driver sees that at the pump."""

SETTLED_PERCENT = 1.0
"""Two readings in a row nearer than this: nobody is pumping at the moment."""

SAVING_CHANGE = 10.0
"""Dollars. For less nobody is bothered with new instructions."""


def fuel_changed(planned_percent: float, readings: Sequence[float], *, departed: bool) -> bool:
    """Whether the tank no longer holds what the plan was made with; `readings` in percent, the newest first.

    One odd reading proves nothing: two in a row must be off, to the same side. As long as the truck stands they must
    also agree, so that the driver is told once the tank is full and not while it fills.
    """
    if len(readings) < 2:
        return False
    newest, before = readings[0], readings[1]
    off = min(newest, before) > planned_percent + FUEL_CHANGE_PERCENT
    off |= max(newest, before) < planned_percent - FUEL_CHANGE_PERCENT
    return off and (departed or abs(newest - before) <= SETTLED_PERCENT)


def saving_moved(before: float | None, after: float | None) -> bool:
    """Whether new prices change a plan's saving enough to tell; None, of a plan without purchases, is no saving."""
    return abs((after or 0.0) - (before or 0.0)) > SAVING_CHANGE
