"""The floors of a trip: the least fuel on arriving at each station, if the truck buys there."""

from collections.abc import Sequence
from dataclasses import replace

from domain.planning.trips import Trip

FLOOR_DECIMALS = 2


def with_floors(trip: Trip, floors: Sequence[float], highest_gallons: float) -> Trip:
    """The trip with these floors, in gallons, one for each candidate. Those above the highest are lowered to it. One
    that the reserve covers is left out."""
    lowered = [round(min(floor, highest_gallons), FLOOR_DECIMALS) for floor in floors]
    return replace(
        trip,
        candidates=tuple(
            one._replace(floor_gallons=floor if floor > trip.reserve_gallons else 0.0)
            for one, floor in zip(trip.candidates, lowered, strict=True)
        ),
    )
