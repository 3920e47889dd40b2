"""The vote of a lane's driven roads: the road on which most of the recent ones agree, if there is one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np
import shapely

from domain.driven_lanes.driven_road import DrivenRoad, flattened, map_scale

COMMON_ROAD_MILES = 1.0
"""Two roads within this distance of each other count as one: their stations and detours are the same."""

AGREEING_SHARE = 0.90
"""Two roads agree when this share of the miles of each lies on the other."""

FEWEST_AGREEING = 3

COUNTED_DAYS = 180.0
"""Oldest trip that counts, in days."""

HALF_LIFE_DAYS = 45.0
"""A trip weighs half as much as one that ended this many days later."""

ANOTHER_TRIP = timedelta(hours=20)
"""Trips of one truck that ended closer together count as one: three of them in a day prove nothing."""

_SAMPLE_MILES = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Witness:
    """A driven road and its route. `ended_at` is when the truck reached the last stop."""

    route_id: UUID
    vehicle_id: UUID
    ended_at: datetime
    road: DrivenRoad


def share_in_common(one: DrivenRoad, other: DrivenRoad) -> float:
    """The share of their miles that both roads have in common, by the road with the smaller share."""
    return min(_share_on(one, other), _share_on(other, one))


def _share_on(one: DrivenRoad, other: DrivenRoad) -> float:
    """The share of a road's miles that lie on the other one."""
    samples = np.linspace(0.0, one.miles[-1], max(int(one.miles[-1] / _SAMPLE_MILES), 1) + 1)
    unwrapped = np.unwrap(one.line[:, 1], period=360)
    places = np.stack([np.interp(samples, one.miles, one.line[:, 0]), np.interp(samples, one.miles, unwrapped)], axis=1)
    flat = flattened(np.concatenate([other.line, places]))
    line, points = flat[: len(other.line)], flat[len(other.line) :]
    tree = shapely.STRtree(shapely.linestrings(np.stack([line[:-1], line[1:]], axis=1)))
    reach = COMMON_ROAD_MILES * map_scale(places)
    (near, _), distance = tree.query_nearest(
        shapely.points(points), max_distance=float(reach.max()), return_distance=True, all_matches=False
    )
    return float(np.count_nonzero(distance <= reach[near]) / len(points))


def weight_of(witness: Witness, newest_at: datetime) -> float:
    return float(0.5 ** ((newest_at - witness.ended_at) / timedelta(days=HALF_LIFE_DAYS)))


def vote(witnesses: Sequence[Witness]) -> tuple[Witness, Sequence[Witness]] | None:
    """The road that the lane's trucks take now, and the trips that agree on it, the newest first. It is the newest of
    the roads with which most agree. None where fewer than three independent trips agree, or they are not the majority
    by weight. The order of the witnesses makes no difference."""
    ordered = sorted(witnesses, key=lambda one: (one.ended_at, one.route_id), reverse=True)
    if not ordered:
        return None
    ordered = [one for one in ordered if ordered[0].ended_at - one.ended_at <= timedelta(days=COUNTED_DAYS)]
    weights = np.array([weight_of(one, ordered[0].ended_at) for one in ordered])
    agree = np.eye(len(ordered), dtype=bool)
    for first in range(len(ordered)):
        for second in range(first):
            common = share_in_common(ordered[first].road, ordered[second].road)
            agree[first, second] = agree[second, first] = common >= AGREEING_SHARE
    support = agree @ weights
    best = int(np.argmax(np.round(support, 9)))
    agreeing = [one for one, agrees in zip(ordered, agree[best], strict=True) if agrees]
    if (
        support[best] <= weights.sum() / 2
        or count_independent([(one.vehicle_id, one.ended_at) for one in agreeing]) < FEWEST_AGREEING
    ):
        return None
    return ordered[best], agreeing


def count_independent(ends: Iterable[tuple[UUID, datetime]]) -> int:
    """Count the trips, by vehicle and end, that are independent: of different trucks, or of different days."""
    last_of: dict[UUID, datetime] = {}
    count = 0
    for vehicle_id, ended_at in sorted(ends, key=lambda one: one[1]):
        last = last_of.get(vehicle_id)
        if last is None or ended_at - last >= ANOTHER_TRIP:
            last_of[vehicle_id] = ended_at
            count += 1
    return count
