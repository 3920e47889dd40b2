"""Compares trucks on their way with the roads of their plans. `replans` makes new plans. The rules are in
`planning/deviations.py`; `telematics/watches.py` says which fixes are compared."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import numpy as np

from domain.burn.shortfalls import PlannedBurn
from domain.database.connections import Connection
from domain.database.statements import NotNull, Statement
from domain.documents import FuelPlanDocument, TimelineEntry
from domain.lifecycle import Environment
from domain.planning.deviations import (
    Deviation,
    NextComparison,
    PlannedWay,
    TrackedFix,
    find_deviation,
    with_levels_of_gauge,
)
from domain.planning.explanation import unpack_explanation
from domain.planning.second_readings import zero_counts
from domain.roads.highways import STRAIGHT_LINE_REASON
from domain.routes.plans.planned_stops import SHORTER_BY, planned_way
from domain.routes.plans.replans import MADE_ANEW, MOST_REPLANS
from domain.telematics import watches
from domain.telematics.arrivals import Visit
from domain.telematics.tracks import Track


class Followed(NamedTuple):
    """A route whose truck is on its way, with the driver's plan and the road of the newest plan, of which the driver
    may not have been told."""

    id: UUID
    replans_en_route: bool
    may_replan: bool | None
    """True while fewer than MOST_REPLANS plans were made on the way."""
    waits: bool | None
    """True while a new plan or its message is under way."""
    document: NotNull[FuelPlanDocument]
    shorter_by: float | None
    as_of: NotNull[datetime]
    timeline: list[TimelineEntry]
    fuel_percent: float
    fuel_at: datetime | None
    explanation: bytes | None

    def way(self, arrivals: Mapping[int, datetime]) -> PlannedWay | None:
        """The way that the truck is compared with; `arrivals` has the route's stops. None where no road is known,
        because the plan's line is straight there, and once the explanation of the plan was deleted."""
        if self.explanation is None:
            return None
        explanation = unpack_explanation(self.explanation)
        inputs, roads = explanation["inputs"], explanation["sources"].get("roads")
        if not inputs["distance_miles"] or (
            roads is not None and STRAIGHT_LINE_REASON in (roads["fallback_reason"] or "")
        ):
            return None
        return planned_way(
            self.document["stops"],
            self.timeline,
            np.array(explanation["line"], dtype=np.float64),
            np.array(explanation["line_miles"], dtype=np.float64),
            shorter_by=self.shorter_by,
            arrivals=arrivals,
            burn=PlannedBurn(inputs["mpg"], inputs["capacity_gallons"]),
            start_percent=self.fuel_percent if self.fuel_at is not None else None,
        )


_FOLLOWED = Statement(
    Followed,
    f"""
    SELECT r.id, c.replan_en_route AS replans_en_route, {MADE_ANEW} < {MOST_REPLANS} AS may_replan,
           r.correction_id IS NOT NULL OR r.replan IS NOT NULL AS waits, p.document,
           {SHORTER_BY} AS shorter_by, coalesce(road.as_of, road.generated_at) AS as_of, road.timeline,
           road.fuel_percent, road.fuel_at, road.explanation
    FROM routes r JOIN companies c ON c.id = r.company_id
    JOIN plans p ON p.id = r.plan_id AND p.document IS NOT NULL
    CROSS JOIN LATERAL (SELECT * FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision
                        ORDER BY n.generated_at DESC, n.id DESC LIMIT 1) AS road
    WHERE r.id = ANY(%s) AND r.status = 'active'
    """,
)


def followed_routes(connection: Connection, route_ids: Sequence[UUID]) -> dict[UUID, Followed]:
    return {row.id: row for row in _FOLLOWED.all(connection, (list(route_ids),))}


class WatchedTruck(NamedTuple):
    """A truck on an active route. `until`: only its fixes before that time are known so far."""

    track: Track
    route_id: UUID
    visits: Mapping[int, Visit]
    until: datetime | None


class FoundDeviation(NamedTuple):
    route_id: UUID
    deviation: Deviation
    fuel_stops_passed: int


def follow_trucks(
    connection: Connection, environment: str, trucks: Sequence[WatchedTruck]
) -> dict[UUID, FoundDeviation]:
    """Compares the fixes of these trucks with the roads of their plans. Their routes and tracks are locked, and each
    has a fix at `watch_at` or later: the others show nothing new. Returns the deviations, by vehicle; these trucks are
    not compared any more until a new plan is made."""
    if not trucks:
        return {}
    routes = followed_routes(connection, [truck.route_id for truck in trucks])
    spans = _spans(trucks, routes)
    fixes = watches.fixes_between(connection, environment, spans)

    unwatched = [truck.track.vehicle_id for truck in trucks if truck.track.vehicle_id not in spans]
    next_watches, deviations = dict[UUID, NextComparison](), dict[UUID, FoundDeviation]()
    for truck in trucks:
        vehicle_id = truck.track.vehicle_id
        if not fixes.get(vehicle_id):
            continue
        route = routes[truck.route_id]
        way = route.way({stop: visit.arrived_at for stop, visit in truck.visits.items()})
        if way is None:
            unwatched.append(vehicle_id)
            continue

        def history(
            vehicle_id: UUID = vehicle_id,
            since: datetime = route.as_of,
            start_percent: float | None = way.start_percent,
        ) -> Sequence[TrackedFix]:
            until = spans[vehicle_id][1]
            sent = watches.fixes_between(connection, environment, {vehicle_id: (since, until)})[vehicle_id]
            return with_levels_of_gauge(sent, start_percent=start_percent, zero_counts=zero_counts(environment))

        deviation, next_watches[vehicle_id] = find_deviation(
            way,
            fixes[vehicle_id],
            fuel_stops_passed=truck.track.fuel_stops_passed,
            history=history,
            newest_decides=environment == Environment.LIVE,
        )
        if deviation is not None:
            passed = next_watches[vehicle_id].fuel_stops_passed
            deviations[vehicle_id] = FoundDeviation(truck.route_id, deviation, passed)
    watches.unwatch(connection, environment, unwatched)
    watches.store_watches(connection, environment, next_watches, paused=deviations.keys())
    return deviations


def _spans(
    trucks: Sequence[WatchedTruck], routes: Mapping[UUID, Followed]
) -> dict[UUID, tuple[datetime, datetime | None]]:
    """The first and last time of each truck's compared fixes. Trucks whose plan may not be made again are left out."""
    spans = {}
    for truck in trucks:
        route, since = routes.get(truck.route_id), truck.track.watch_from
        if route is None or since is None or route.waits or not (route.replans_en_route and route.may_replan):
            continue
        spans[truck.track.vehicle_id] = max(since, route.as_of), truck.until
    return spans
