"""The fuel of trucks on their way: their levels along the road of the newest plan, and what is ahead of them by the
driver's plan; without levels, their miles. The rules are in `burn/shortfalls.py` and `burn/by_miles.py`."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.burn.by_miles import DrivenWay, miles_driven, outlook_by_miles
from domain.burn.fill_levels import arrives_below_reserve, needs_higher_level, sentence_of
from domain.burn.levels import LevelAtMile, shows_level
from domain.burn.shortfalls import TRIP_SPREAD, Ahead, Fill, Outlook, PlannedBurn, look_ahead, reason_of
from domain.burn.stored_figures import figure_for_plan
from domain.database.connections import Connection, Tenant, as_array
from domain.database.statements import NotNull, Statement
from domain.documents import FuelPlanDocument, TimelineEntry
from domain.lifecycle import Environment
from domain.planning.coarse_ways import CoarseWay, unpack_way
from domain.planning.deviations import PlannedWay, TrackedFix, miles_on_ways
from domain.roads import Point
from domain.routes.plans.planned_stops import SHORTER_BY, planned_way
from domain.telematics.looks import read_some_levels, read_some_places

STILL_AHEAD_MILES = 15.0
"""A fuel stop is ahead until the truck is this far behind it: the rule for passed stops decides first, and a level
behind a stop shows a purchase only after some readings."""


class FuelOfTrip(NamedTuple):
    """A route whose truck is on its way, with the driver's plan, and the road and the burn of the newest plan."""

    id: UUID
    company_id: UUID
    environment: str
    vehicle_id: NotNull[UUID]
    watch_burn: bool
    burn_floor_percent: float
    reserve_percent: float
    waits: bool | None
    """True while a new plan or its message is under way."""
    burn_replans: NotNull[int]
    """Number of plans that drivers were told on this trip because the fuel did not last."""
    burn_attempts: NotNull[int]
    """Number of plans for that reason, told or not, and of the attempts that found no feasible one."""
    level_attempts: NotNull[int]
    """Number of plans for a higher level at a fuel stop, told or not."""
    told: NotNull[int]
    """Number of plans for either reason that drivers were told."""
    document: NotNull[FuelPlanDocument]
    shorter_by: float | None
    as_of: NotNull[datetime]
    timeline: list[TimelineEntry]
    fuel_percent: float
    is_assumed: bool | None
    """True if no level of the truck was known when the newest plan was made."""
    coarse_way: bytes | None
    keeps_stop: bool | None
    """True if the driver's plan tells another level at a fuel stop that he had before, whatever is in reach before
    it."""


_TRIPS = Statement(
    FuelOfTrip,
    f"""
    SELECT r.id, r.company_id, r.environment, r.vehicle_id, c.watch_burn, c.burn_floor_percent, c.reserve_percent,
           r.correction_id IS NOT NULL OR r.replan IS NOT NULL AS waits, made.burn_replans, made.burn_attempts,
           made.level_attempts, made.told, p.document,
           {SHORTER_BY} AS shorter_by, coalesce(road.as_of, road.generated_at) AS as_of, road.timeline,
           road.fuel_percent, road.fuel_at IS NULL AS is_assumed, road.coarse_way,
           p.cause->>'kind' = 'level' AS keeps_stop
    FROM routes r JOIN companies c ON c.id = r.company_id
    JOIN plans p ON p.id = r.plan_id AND p.document IS NOT NULL
    CROSS JOIN LATERAL (SELECT * FROM plans n WHERE n.route_id = r.id AND n.revision = r.revision
                          AND n.document IS NOT NULL
                        ORDER BY n.generated_at DESC, n.id DESC LIMIT 1) AS road
    CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE n.cause->>'kind' = 'burn') AS burn_attempts,
                               count(m.plan_id) FILTER (WHERE n.cause->>'kind' = 'burn') AS burn_replans,
                               count(*) FILTER (WHERE n.cause->>'kind' = 'level') AS level_attempts,
                               count(m.plan_id) AS told
                        FROM plans n LEFT JOIN messages m ON m.plan_id = n.id
                        WHERE n.route_id = r.id AND n.revision = r.revision
                          AND n.cause->>'kind' IN ('burn', 'level')) AS made
    WHERE r.id = ANY(%s) AND r.status = 'active'
    """,
    binary=True,
)


def fuel_of_trips(connection: Connection, route_ids: Sequence[UUID]) -> dict[UUID, FuelOfTrip]:
    return {row.id: row for row in _TRIPS.all(connection, (as_array(route_ids),))}


class FuelAhead(NamedTuple):
    """The fuel of a truck and what is ahead of it. The outlook is None where its levels tell none."""

    outlook: Outlook | None
    mile: float
    ahead: Ahead
    name: str
    name_behind: str
    """The name of what is ahead behind that."""
    fuel_stops_passed: int
    is_current: bool
    """False where the truck has left the road since."""
    sends_levels: bool
    """False where it has sent none since its plan began, or next to nothing, or no percentage: trackers without a gauge
    send 0 or 255."""
    measured_mpg: float | None
    """The mpg of the newest plan, where the levels of the trip itself had shown it."""
    reserve_percent: float

    @property
    def needs_other_purchase(self) -> bool:
        """True if the fuel lasts to the next purchase, but the truck arrives there below the reserve, or needs a higher
        level there."""
        return self.outlook is not None and (self._is_below_reserve or needs_higher_level(self.outlook))

    @property
    def _is_below_reserve(self) -> bool:
        return self.outlook is not None and arrives_below_reserve(self.outlook, self.reserve_percent)

    @property
    def sentence(self) -> str:
        """Why the fuel, or the level of the next purchase, does not last, for people. The driver reads it in the
        message of the new plan, whose miles begin where the truck is, so it names the place alone."""
        if self.outlook is None:
            return ""
        if not self.outlook.falls_short and not self._is_below_reserve:
            return sentence_of(self.outlook, self.name, self.name_behind)
        left = max(self.outlook.arrival_percent, 0.0)
        return f"{reason_of(self.outlook)}; {left:.0f} % would be left at {self.name}"


class TruckOnTrip(NamedTuple):
    """A truck on its way. `arrivals` has the route's stops that it has reached; its fixes up to the one recorded `at`
    that time count."""

    trip: FuelOfTrip
    arrivals: Mapping[int, datetime]
    at: datetime


def fuel_ahead(connection: Connection, environment: str, trucks: Iterable[TruckOnTrip]) -> dict[UUID, FuelAhead]:
    """The fuel of trucks by their levels, by vehicle. Trucks without a known road are left out. To ask
    for thirty trucks at once takes two thirds of the time of asking for each by itself."""
    known = [(one, unpack_way(one.trip.coarse_way)) for one in trucks if one.trip.coarse_way is not None]
    if not known:
        return {}
    fixes = read_some_levels(connection, environment, {trip.vehicle_id: (trip.as_of, at) for (trip, _, at), _ in known})
    ways = [(_way(trip, coarse, arrivals), fixes[trip.vehicle_id]) for (trip, arrivals, _), coarse in known]
    return {
        trip.vehicle_id: _fuel_ahead(trip, coarse, way, of_truck, miles)
        for ((trip, _, _), coarse), (way, of_truck), miles in zip(known, ways, miles_on_ways(ways), strict=True)
    }


def _fuel_ahead(
    trip: FuelOfTrip, coarse: CoarseWay, way: PlannedWay, fixes: Sequence[TrackedFix], miles: Sequence[float | None]
) -> FuelAhead:
    levels = _levels(fixes, miles)
    mile = levels[-1].mile if levels else 0.0
    number, ahead = _ahead(trip, coarse, way, mile)
    planned = PlannedBurn(coarse.mpg, coarse.capacity_gallons)
    outlook = look_ahead(levels, planned=planned, ahead=ahead, floor_percent=trip.burn_floor_percent)
    name, name_behind = ([stop.name for stop in way.fuel_stops[number:]] + 2 * ["the end of the plan"])[:2]
    is_current = not fixes or (bool(levels) and levels[-1].at == fixes[-1].recorded_at)
    measured_mpg = coarse.mpg if coarse.mpg_is_measured else None
    sends_levels = _sends_levels(trip, fixes)
    return FuelAhead(
        outlook,
        mile,
        ahead,
        name,
        name_behind,
        number,
        is_current,
        sends_levels,
        measured_mpg,
        trip.reserve_percent,
    )


def _sends_levels(trip: FuelOfTrip, fixes: Sequence[TrackedFix]) -> bool:
    """The reading that the plan began with does not count."""
    return any(shows_level(one.fuel_percent) for one in fixes if one.recorded_at > trip.as_of)


def fuel_by_miles(
    connection: Connection, trip: FuelOfTrip, arrivals: Mapping[int, datetime], *, at: datetime
) -> Outlook | None:
    """The fuel of a truck that sends no level, by its miles up to the fix recorded at that time. None where no road is
    known, and while the truck is off it."""
    if trip.coarse_way is None:
        return None
    coarse = unpack_way(trip.coarse_way)
    way = _way(trip, coarse, arrivals)
    fixes = read_some_places(connection, trip.environment, trip.vehicle_id, since=trip.as_of, until=at)
    miles = way.miles_of(fixes) if fixes else []
    if not miles or miles[-1] is None:
        return None
    mile = max(one for one in miles if one is not None)
    number, ahead = _ahead(trip, coarse, way, mile)
    places = [Point(fix.latitude, fix.longitude) for fix in fixes]
    driven = miles_driven([way.place_at(0.0), *places], [0.0, *miles])
    passed = [(stop, stop.mile) for stop in way.fuel_stops[:number] if stop.mile is not None]
    off_road_miles = sum(way.percent_off_road(*one) for one in passed) / way.percent_per_mile
    bought_percent = sum(stop.percent for stop, _ in passed)
    mpg, spread_share = _newest_mileage(connection, trip, coarse)
    return outlook_by_miles(
        DrivenWay(at, mile, driven + off_road_miles, trip.fuel_percent + bought_percent),
        planned=PlannedBurn(coarse.mpg, coarse.capacity_gallons),
        mpg=mpg,
        spread_share=spread_share,
        ahead=ahead,
        floor_percent=trip.burn_floor_percent,
    )


def _newest_mileage(connection: Connection, trip: FuelOfTrip, coarse: CoarseWay) -> tuple[float, float]:
    """The mpg that a plan would be made with now, or that of this plan where the trip's own levels had shown it; and
    one standard deviation from trip to trip, as a share."""
    burn = figure_for_plan(connection, Tenant(trip.company_id, Environment(trip.environment)), trip.vehicle_id)
    spread_share = burn.spread_percent / 100 if burn.spread_percent is not None else TRIP_SPREAD
    return coarse.mpg if coarse.mpg_is_measured else burn.mpg, spread_share


def _levels(fixes: Sequence[TrackedFix], miles: Sequence[float | None]) -> list[LevelAtMile]:
    """The levels on the road. A truck that goes back a little has not moved."""
    levels: list[LevelAtMile] = []
    for fix, mile in zip(fixes, miles, strict=True):
        if mile is not None and fix.fuel_percent is not None:
            levels.append(LevelAtMile(fix.recorded_at, max(mile, levels[-1].mile if levels else 0.0), fix.fuel_percent))
    return levels


def _way(trip: FuelOfTrip, coarse: CoarseWay, arrivals: Mapping[int, datetime]) -> PlannedWay:
    return planned_way(
        trip.document["stops"],
        trip.timeline,
        coarse.line,
        coarse.line_miles,
        shorter_by=trip.shorter_by,
        arrivals=arrivals,
        burn=PlannedBurn(coarse.mpg, coarse.capacity_gallons),
    )


def _ahead(trip: FuelOfTrip, coarse: CoarseWay, way: PlannedWay, mile: float) -> tuple[int, Ahead]:
    """The driver's next fuel stop with its number, or the end of the plan. A plan that begins low on fuel may plan with
    less than the reserve up to its first purchase, but the fuel behind that has to last as usual. So has the fuel up to
    a stop that a plan for another level only keeps: stations before it may be in reach."""
    level, from_mile = trip.fuel_percent, 0.0
    for number, (stop, planned) in enumerate(zip(way.fuel_stops, trip.document["stops"], strict=True)):
        if stop.mile is None:
            continue
        if mile < stop.mile + STILL_AHEAD_MILES:
            off_road_miles = way.percent_off_road(stop, stop.mile) / 2 / way.percent_per_mile
            least = trip.reserve_percent if number or trip.keeps_stop else 0.0
            fill = _fill(trip, coarse, way, number)
            return number, Ahead(stop.mile, off_road_miles, max(planned["arrivalFuelPercent"], least), fill)
        level, from_mile = stop.filled_percent, stop.mile
    end = float(coarse.line_miles[-1])
    left, least = level - way.percent_per_mile * (end - from_mile), trip.reserve_percent if way.fuel_stops else 0.0
    return len(way.fuel_stops), Ahead(end, 0.0, max(left, least))


def _fill(trip: FuelOfTrip, coarse: CoarseWay, way: PlannedWay, number: int) -> Fill | None:
    """The driver's purchase at a fuel stop; None where the next one is not on the road. Its level counts as he reads
    it, and the way from a stop off the road begins there."""
    stop, planned = way.fuel_stops[number], trip.document["stops"][number : number + 2]
    behind = way.fuel_stops[number + 1] if number + 1 < len(way.fuel_stops) else None
    mile = behind.mile if behind is not None else float(coarse.line_miles[-1])
    if stop.mile is None or mile is None:
        return None
    percent = float(planned[0].get("fillToPercent", stop.filled_percent))
    off_road_percent = way.percent_off_road(stop, stop.mile) / 2
    if behind is not None:
        off_road_percent += way.percent_off_road(behind, mile) / 2
    miles = mile - stop.mile + off_road_percent / way.percent_per_mile
    left = planned[1]["arrivalFuelPercent"] if behind is not None else percent - way.percent_per_mile * miles
    return Fill(percent, miles, min(trip.reserve_percent, left))


def beginning_of(trip: FuelOfTrip) -> tuple[float, Ahead] | None:
    """The level and what is ahead where the newest plan begins; None where no road is known."""
    if trip.coarse_way is None:
        return None
    coarse = unpack_way(trip.coarse_way)
    return trip.fuel_percent, _ahead(trip, coarse, _way(trip, coarse, {}), 0.0)[1]
