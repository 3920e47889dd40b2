"""The road of a plan in words: its source, what it knows of the truck, and what it cannot know."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple, cast
from uuid import UUID

from domain.documents import DRIVEN_LANE, EXTRACT_GRAPH
from domain.ids import shown_id
from domain.planning.explanation import ExplainedSecondWay, ExplainedSign, ExplainedTrip, ExplainedTruck, RoadOrigin
from domain.wording import counted

if TYPE_CHECKING:  # one who reads a plan's road needs no numerics
    from domain.driven_lanes.lanes import LearnedLane
    from domain.roads import Road
    from domain.roads.truck_dimensions import TruckDimensions
    from domain.stations.second_ways import ComparedWay

EMBEDDED_NOTE = "the embedded roads know no low bridge, weight limit, hazmat ban or grade"
EXTRACT_NOTE = "the roads of the extract are for a truck of 13.5 ft and 80,000 lb without hazardous cargo"
ASSUMED_TRUCK = "the roads assume a tractor-trailer of 80,000 lb"


DRIVEN_NOTE = "trucks of the company drove this road; nothing tells what is closed to this truck"


def road_origin(
    road: "Road",
    truck: "TruckDimensions",
    *,
    lane: "LearnedLane | None" = None,
    second_ways: "Sequence[ComparedWay]" = (),
    signs: Sequence[ExplainedSign] = (),
) -> RoadOrigin:
    """The source of a plan's road, for its explanation. `lane` is the route's lane, if trucks have driven a road on
    it. `signs` are those along the road, where they are known."""
    known = {name: value for name, value in asdict(truck).items() if value is not None}
    origin: RoadOrigin = {
        "source": road.source,
        "fallback_reason": road.fallback_reason,
        "truck": cast(ExplainedTruck, known),
        "second_ways": [
            {
                "from_mile": round(way.from_mile, 1),
                "to_mile": round(way.to_mile, 1),
                "by": way.by,
                "longer_percent": round(way.longer_percent, 1),
                "longer_miles": round(way.longer_miles, 1),
                "shared_percent": round(way.shared_percent, 1),
                "stations": way.stations,
                "stations_shared": way.stations_shared,
            }
            for way in second_ways
        ],
    }
    if signs:
        origin["signs"] = [*signs]
    if lane is not None and DRIVEN_LANE in road.source:
        origin["trips"] = [
            {"route_id": shown_id("rte", UUID(trip["routeId"])), "ended_at": trip["endedAt"]} for trip in lane.trips
        ]
    return origin


class RoadInWords(NamedTuple):
    """The road of a plan for people. `truck` is None for plans of earlier versions."""

    credit: str
    """The source of the road, and why the preferred one did not answer."""
    truck: str | None
    """The truck for which the road was chosen, such as `13.5 ft high, 80,000 lb, hazardous cargo`."""
    truck_note: str
    """The truck's part in the choice of the road."""
    second_ways: list[str]
    """A sentence for each second way."""


def road_in_words(roads: RoadOrigin) -> RoadInWords:
    """The words for the source of a plan's road."""
    truck = roads.get("truck")
    return RoadInWords(
        credit="; ".join(
            filter(
                None, (_credited(roads["source"]), _trips_sentence(roads.get("trips", ())), roads["fallback_reason"])
            )
        ),
        truck=None if truck is None else ", ".join(_parts(truck)) or "not given",
        truck_note=_truck_note(roads["source"], truck),
        second_ways=[second_way_in_words(way) for way in roads.get("second_ways", ())],
    )


def second_way_in_words(way: ExplainedSecondWay) -> str:
    by = f" by {way['by']}" if way["by"] else ""
    miles = f"{abs(way['longer_miles']):,.0f} mi {'longer' if way['longer_miles'] >= 0 else 'shorter'}"
    return (
        f"A second way{by} is {way['longer_percent']:g} % longer in time ({miles}),"
        f" from mile {way['from_mile']:,.0f} to {way['to_mile']:,.0f}: {way['shared_percent']:.0f} % of it and"
        f" {way['stations_shared']} of its {counted(way['stations'], 'station')} lie on this road"
    )


def _truck_note(source: str, truck: ExplainedTruck | None) -> str:
    if DRIVEN_LANE in source:
        return DRIVEN_NOTE
    if source == EXTRACT_GRAPH:
        return EXTRACT_NOTE
    if source != "valhalla":
        return EMBEDDED_NOTE
    return "the vehicle" if truck else ASSUMED_TRUCK


def _trips_sentence(trips: Sequence[ExplainedTrip]) -> str:
    """The sentence about the trips from which the road is known."""
    if not trips:
        return ""
    each = ", ".join(f"{trip['route_id']} ({trip['ended_at'][:10]})" for trip in trips)
    return f"{len(trips)} trips of the company took it: {each}"


def _credited(source: str) -> str:
    """The licence of the embedded roads wants their makers named where something was made from them."""
    return f"{source} (© OpenStreetMap contributors)" if _is_from_openstreetmap(source) else source


def _is_from_openstreetmap(source: str) -> bool:
    return any(one in source for one in ("highway-graph", EXTRACT_GRAPH, DRIVEN_LANE))


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
