"""The stops of the newest plans, driven on the embedded roads and on Valhalla's: how far both differ, and where."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypedDict
from uuid import UUID

import numpy as np

from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.documents import StopDocument
from domain.fleet.dimensions import dimensions_of
from domain.ids import shown_id
from domain.roads import Point, Road, Roads
from domain.roads.sphere import are_apart, places_along, stop_point, unit_vectors
from domain.roads.states import default_states

ELSEWHERE_MILES = 2.0
"""Roads nearer than this count as the same one: the embedded lines are simplified."""

STRETCH_MILES = 5.0
"""A shorter stretch apart is the way to a stop."""

_STEP_MILES = 1.0


class PlannedStops(NamedTuple):
    """The stops of a route with a plan, and what is known of its truck."""

    route_id: UUID
    company_id: UUID
    external_id: str
    stops: list[StopDocument]
    height_feet: float | None
    width_feet: float | None
    length_feet: float | None
    weight_pounds: float | None
    axle_weight_pounds: float | None
    axle_count: int | None
    hazmat: str | None


_NEWEST = """
    SELECT r.id AS route_id, r.company_id, r.external_id, r.stops, v.height_feet, v.width_feet, v.length_feet,
           v.weight_pounds, v.axle_weight_pounds, v.axle_count, v.hazmat
    FROM plans p JOIN routes r ON r.plan_id = p.id JOIN vehicles v ON v.id = r.vehicle_id
    WHERE {} ORDER BY p.id DESC LIMIT %(limit)s
"""
_NEWEST_OF_ALL = Statement(PlannedStops, _NEWEST.format("true"))
_NEWEST_OF_COMPANY = Statement(PlannedStops, _NEWEST.format("p.company_id = %(company_id)s"))


def newest_planned_stops(connection: Connection, company_id: UUID | None, *, limit: int) -> list[PlannedStops]:
    """The routes with the newest plans: of one company, or for the operator of all."""
    if company_id is None:
        return _NEWEST_OF_ALL.all(connection, {"limit": limit})
    return _NEWEST_OF_COMPANY.all(connection, {"company_id": company_id, "limit": limit})


class Stretch(TypedDict):
    """A part of Valhalla's road that lies elsewhere than the embedded one. Its middle is in degrees."""

    from_mile: float
    to_mile: float
    state: str
    latitude: float
    longitude: float


class ComparedRoad(TypedDict):
    """One route on both roads. The figures of Valhalla are None where it has no road; `reason` says why."""

    route_id: str
    company_id: str
    external_id: str
    origin: str
    destination: str
    embedded_miles: float
    embedded_minutes: float
    valhalla_miles: float | None
    valhalla_minutes: float | None
    more_miles: float | None
    more_minutes: float | None
    apart: list[Stretch]
    reason: str | None


@dataclass(frozen=True, slots=True)
class RoadComparison:
    """Drives stops on two roads. `valhalla` falls back to `embedded` and says so."""

    embedded: Roads
    valhalla: Roads

    def of(self, planned: PlannedStops) -> ComparedRoad:
        points = [stop_point(stop) for stop in planned.stops]
        truck = dimensions_of(planned)
        embedded, real = self.embedded.through(points, truck), self.valhalla.through(points, truck)
        is_real = real.source == "valhalla"
        return {
            "route_id": shown_id("rte", planned.route_id),
            "company_id": shown_id("cmp", planned.company_id),
            "external_id": planned.external_id,
            "origin": planned.stops[0]["name"],
            "destination": planned.stops[-1]["name"],
            "embedded_miles": round(embedded.distance_miles, 1),
            "embedded_minutes": _minutes(embedded),
            "valhalla_miles": round(real.distance_miles, 1) if is_real else None,
            "valhalla_minutes": _minutes(real) if is_real else None,
            "more_miles": round(real.distance_miles - embedded.distance_miles, 1) if is_real else None,
            "more_minutes": round(_minutes(real) - _minutes(embedded), 1) if is_real else None,
            "apart": list(stretches_apart(real, embedded)) if is_real else [],
            "reason": None if is_real else real.fallback_reason,
        }


def _minutes(road: Road) -> float:
    return round(60 * road.stop_hours[-1], 1)


def worst_first(compared: list[ComparedRoad]) -> list[ComparedRoad]:
    """Roads that differ most in time first, roads that Valhalla does not have last."""
    return sorted(compared, key=_minutes_off, reverse=True)


def _minutes_off(one: ComparedRoad) -> float:
    return -1 if one["more_minutes"] is None else abs(one["more_minutes"])


def stretches_apart(road: Road, other: Road) -> Iterator[Stretch]:
    """The parts of a road that lie further than `ELSEWHERE_MILES` from the other one."""
    if road.distance_miles < STRETCH_MILES:
        return
    places = places_along(road.line, road.line_miles, _STEP_MILES)
    along = unit_vectors(places_along(other.line, other.line_miles, _STEP_MILES / 2))
    step = road.distance_miles / (len(places) - 1)
    padded = np.concatenate([[False], are_apart(places, along, ELSEWHERE_MILES), [False]])
    edges = np.flatnonzero(np.diff(padded.astype(np.int8)))
    for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if (end - first) * step < STRETCH_MILES:
            continue
        middle = Point(*places[(first + end) // 2].tolist())
        yield {
            "from_mile": round(first * step, 1),
            "to_mile": round(min(end * step, road.distance_miles), 1),
            "state": default_states().at(middle),
            "latitude": round(middle.latitude, 4),
            "longitude": round(middle.longitude, 4),
        }
