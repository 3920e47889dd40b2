"""The size, weight and cargo of a truck: what may close a road to it."""

from dataclasses import dataclass

ORDINARY_FEET_HIGH, ORDINARY_FEET_WIDE, ORDINARY_POUNDS, ORDINARY_AXLE_POUNDS = 13.5, 8.5, 80_000.0, 17_000.0
"""A loaded tractor-trailer, for which main roads are open: 23 USC 127, with 34,000 lb on two axles, and 23 CFR 658; the
height is what most states allow."""

ORDINARY_FEET_LONG = 48.0
"""Its trailer alone, which every state allows (23 CFR 658.13): limits of 53 ft are often meant for the trailer."""


@dataclass(frozen=True, slots=True)
class TruckDimensions:
    """The known facts of a truck. For an unknown one (None) the roads assume a loaded tractor-trailer without such
    cargo. `weight_pounds` is the gross weight, `axle_weight_pounds` the load of the heaviest axle."""

    height_feet: float | None = None
    width_feet: float | None = None
    length_feet: float | None = None
    weight_pounds: float | None = None
    axle_weight_pounds: float | None = None
    axle_count: int | None = None
    hazmat: bool | None = None


ANY_TRUCK = TruckDimensions()
