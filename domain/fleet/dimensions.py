"""The measures of a vehicle as the roads ask for them."""

from typing import Protocol

from domain.fleet.vehicles import Hazmat
from domain.roads.truck_dimensions import TruckDimensions


class MeasuredVehicle(Protocol):
    """A row with the measures of a vehicle, as its table has them."""

    @property
    def height_feet(self) -> float | None: ...
    @property
    def width_feet(self) -> float | None: ...
    @property
    def length_feet(self) -> float | None: ...
    @property
    def weight_pounds(self) -> float | None: ...
    @property
    def axle_weight_pounds(self) -> float | None: ...
    @property
    def axle_count(self) -> int | None: ...
    @property
    def hazmat(self) -> str | None: ...


def dimensions_of(vehicle: MeasuredVehicle) -> TruckDimensions:
    return TruckDimensions(
        height_feet=vehicle.height_feet,
        width_feet=vehicle.width_feet,
        length_feet=vehicle.length_feet,
        weight_pounds=vehicle.weight_pounds,
        axle_weight_pounds=vehicle.axle_weight_pounds,
        axle_count=vehicle.axle_count,
        hazmat=vehicle.hazmat == Hazmat.YES if vehicle.hazmat is not None else None,
    )
