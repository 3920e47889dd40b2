"""The road of a plan in words: its source, what it knows of the truck, and what it cannot know."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import NamedTuple, cast

from domain.planning.explanation import ExplainedTruck, RoadOrigin
from domain.roads import Road
from domain.roads.truck_dimensions import TruckDimensions

EMBEDDED_NOTE = "the embedded roads know no low bridge, weight limit, hazmat ban or grade"
ASSUMED_TRUCK = "the roads assume a tractor-trailer of 80,000 lb"


def road_origin(road: Road, truck: TruckDimensions) -> RoadOrigin:
    """The source of a plan's road, for its explanation."""
    known = {name: value for name, value in asdict(truck).items() if value is not None}
    return {
        "source": road.source,
        "fallback_reason": road.fallback_reason,
        "truck": cast(ExplainedTruck, known),
    }


class RoadInWords(NamedTuple):
    """The road of a plan for people. `truck` is None for plans of earlier versions."""

    credit: str
    """The source of the road, and why the preferred one did not answer."""
    truck: str | None
    """The truck for which the road was chosen, such as `13.5 ft high, 80,000 lb, hazardous cargo`."""
    truck_note: str
    """The part that the truck had in the choice of the road."""


def road_in_words(roads: RoadOrigin) -> RoadInWords:
    """The words for the source of a plan's road."""
    truck = roads.get("truck")
    return RoadInWords(
        credit="; ".join(filter(None, (_credited(roads["source"]), roads["fallback_reason"]))),
        truck=None if truck is None else ", ".join(_parts(truck)) or "not given",
        truck_note=EMBEDDED_NOTE if roads["source"] != "valhalla" else "the vehicle" if truck else ASSUMED_TRUCK,
    )


def _credited(source: str) -> str:
    """The licence of the embedded roads wants their makers named where something was made from them."""
    return f"{source} (© OpenStreetMap contributors)" if "highway-graph" in source else source


def _parts(truck: ExplainedTruck) -> Iterator[str]:
    if "height_feet" in truck:
        yield f"{truck['height_feet']:g} ft high"
    if "width_feet" in truck:
        yield f"{truck['width_feet']:g} ft wide"
    if "length_feet" in truck:
        yield f"{truck['length_feet']:g} ft long"
    if "weight_pounds" in truck:
        yield f"{truck['weight_pounds']:,.0f} lb"
    if "axle_weight_pounds" in truck:
        yield f"{truck['axle_weight_pounds']:,.0f} lb on an axle"
    if "axle_count" in truck:
        yield f"{truck['axle_count']} axles"
    if "hazmat" in truck:
        yield "hazardous cargo" if truck["hazmat"] else "no hazardous cargo"
