"""The rule that tells a new level to fill to at the purchase ahead, because the truck burns more than its plan says.

Without it the truck would be short on the way behind the purchase, and would need a stop of its own there. A few
gallons more at a pump where it stops anyway cost cents.

Example: 45 % of 200 gallons behind the purchase, and 390 miles to the next one. With 6.5 mpg 15 % are left there, the
reserve. With 6.0 mpg only 12 % are, so the truck has to leave with 48 %.
"""

from typing import NamedTuple

from domain.burn.shortfalls import ARRIVED_MILES, NEAR_FILL_MILES, SURE_SPREADS, Outlook, reason_of

LEAST_RAISED_PERCENT = 3.0
"""A driver is told a new level from so much more on. He stops the pump at round gallons."""

LEAST_RAISED_GALLONS = 5.0
"""A driver who fuels by gallons is told so many more, at least."""


BELOW_RESERVE_PERCENT = 2.0
"""A truck that arrives with so much less than the reserve is told an earlier stop, if that is cheap. Less is about what
a driver who stops the pump at round gallons makes of a level."""


class ToldFill(NamedTuple):
    """A purchase as the driver is told: its place, its gallons, and the level where he fuels by the gauge."""

    place: tuple[float, float]
    gallons: float
    percent: float | None


def left_behind_fill(outlook: Outlook) -> float | None:
    """The level that the planned purchase ahead leaves on arriving at the next one; None where none is ahead."""
    fill = outlook.ahead.fill
    return fill.percent - outlook.percent_per_mile * fill.miles if fill is not None else None


def needs_higher_level(outlook: Outlook) -> bool:
    """True if a purchase is near, and its planned level does not bring the truck to the next one, by a burn that the
    trip has shown to be higher. A truck that may not reach it needs another plan."""
    fill, left = outlook.ahead.fill, left_behind_fill(outlook)
    is_near = ARRIVED_MILES < outlook.ahead.mile - outlook.mile <= NEAR_FILL_MILES
    if fill is None or left is None or not is_near or outlook.falls_short:
        return False
    burns_more = outlook.burns_otherwise and outlook.mpg < outlook.planned.mpg
    spread_percent = outlook.burn_spread * outlook.percent_per_mile * fill.miles
    return burns_more and left + SURE_SPREADS * spread_percent < fill.least_percent


def arrives_below_reserve(outlook: Outlook, reserve_percent: float) -> bool:
    """True if the fuel lasts to the purchase ahead, but a good deal less than the reserve is left there."""
    planned_percent = min(reserve_percent, outlook.ahead.percent)
    is_ahead = outlook.ahead.fill is not None and outlook.ahead.mile - outlook.mile > ARRIVED_MILES
    return is_ahead and not outlook.falls_short and outlook.arrival_percent < planned_percent - BELOW_RESERVE_PERCENT


def is_raised(old: ToldFill, new: ToldFill) -> bool:
    """True if the new purchase is the old one with a level that is higher by enough to be told."""
    if old.place != new.place:
        return False
    if old.percent is None or new.percent is None:
        return new.gallons - old.gallons >= LEAST_RAISED_GALLONS
    return new.percent - old.percent >= LEAST_RAISED_PERCENT


def sentence_of(outlook: Outlook, name: str, next_name: str) -> str:
    """Why a new level is told, for people."""
    fill, left = outlook.ahead.fill, left_behind_fill(outlook)
    if fill is None or left is None:
        return ""
    return f"{reason_of(outlook)}; {fill.percent:.0f} % behind {name} would leave {max(left, 0.0):.0f} % at {next_name}"
