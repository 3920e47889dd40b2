"""The size, weight and cargo of a truck: what may close a road to it."""

from dataclasses import dataclass


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
