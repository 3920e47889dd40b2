"""Finds the truck, the station and the route of fills, and the questions to a person about them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.database.connections import Connection, Tenant, as_array
from domain.database.statements import NotNull, Scalar, Statement
from domain.errors import FuelrouteError
from domain.files.products import Fuel
from domain.fills.card_files import AMOUNT_DOUBT, DOUBTS, FileFill
from domain.fills.card_holders import Nameless, trucks_of_cards
from domain.fills.local_times import utc_of_local, zone_of
from domain.fills.matching import SURE_SCORE, KnownStation, KnownStations, StationMatch, match_station
from domain.fills.stored_verdicts import ROUTE_SLACK
from domain.fleet.unit_holders import UnitHolder, read_unit_holders, vehicle_of_unit
from domain.ids import read_id, shown_id
from domain.roads import Point, great_circle_miles
from domain.telematics.readings import read_places_around

TRUCK_WITHIN = timedelta(minutes=20)
"""Span before and after a fill in which the truck's place is searched, because clocks of pumps are not exact."""
TANK_SLACK_SHARE, TANK_SLACK_GALLONS = 0.02, 2.0
"""Most by which a pump may show more than the tank holds."""
LEAST_DOLLARS, MOST_DOLLARS_PER_GALLON = 0.5, 15.0
"""Dollars a gallon. Outside of them the quantity or the price is wrong, and a person checks."""


class Matches(NamedTuple):
    """The matches of a fill, their certainty, and what a person has to decide or should see."""

    bought_at: datetime
    time_zone: str
    vehicle_id: UUID | None
    station_id: str | None
    route_id: UUID | None
    score: int
    miles_from_truck: float | None
    review: list[str]
    flags: list[str]


class KeptFill(NamedTuple):
    """A stored fill, as far as the rules ask."""

    id: UUID
    environment: str
    bought_at: datetime
    time_zone: str
    has_time: bool
    has_zone: bool
    transaction_number: str | None
    invoice_number: str | None
    unit_number: str | None
    card_last_four: str | None
    driver_name: str | None
    location_name: str | None
    station_code: str | None
    city: str | None
    state: NotNull[str]
    fuel: str
    gallons: float
    paid_cents: int
    currency: str
    vehicle_id: UUID | None
    station_id: str | None
    route_id: UUID | None
    counter_id: UUID | None
    review: list[str]


KEPT_COLUMNS = ", ".join(KeptFill._fields)


class ToMatch(NamedTuple):
    """The input of the rules for one fill. A person's decisions replace matches."""

    bought: FileFill | KeptFill
    local_time: datetime
    vehicle_id: UUID | None = None
    station_id: str | None = None
    doubts: Sequence[str] = ()
    former_vehicle_id: UUID | None = None
    """The truck of the earlier match, which stays unless the rules are certain of another one."""


def kept_to_match(kept: KeptFill) -> ToMatch:
    """A stored fill, for the rules as if it came in a file; its truck stays unless they are certain of another one."""
    local = kept.bought_at.astimezone(ZoneInfo(kept.time_zone))
    if not kept.has_zone:  # its station may be in another zone
        local = local.replace(tzinfo=None)
    doubts = [one for one in kept.review if one in DOUBTS]
    return ToMatch(kept, local, doubts=doubts, former_vehicle_id=kept.vehicle_id)


class _Tank(NamedTuple):
    id: UUID
    fuel_tank_capacity_gallons: float | None


_TANKS = Statement(_Tank, "SELECT id, fuel_tank_capacity_gallons FROM vehicles WHERE company_id = %s AND id = ANY(%s)")


class _FoundRoute(NamedTuple):
    number: int
    route_id: UUID
    is_within: bool
    """True if the truck was between the first and the last stop; False if it fueled a little before or after."""


_ROUTES = Statement(
    _FoundRoute,
    """
    SELECT asked.number, r.id AS route_id,
           asked.until >= r.arrived_at AND asked.since <= coalesce(closed.at, 'infinity') AS is_within
    FROM unnest(%(numbers)s::int[], %(vehicle_ids)s::uuid[], %(since)s::timestamptz[], %(until)s::timestamptz[])
         AS asked (number, vehicle_id, since, until)
    JOIN routes r ON r.company_id = %(company_id)s AND r.environment = %(environment)s
         AND r.vehicle_id = asked.vehicle_id AND r.scheduled_start <= asked.until + interval '3 days'
         AND r.scheduled_start >= asked.since - interval '60 days'
    CROSS JOIN LATERAL (SELECT CASE WHEN r.status = 'error' THEN r.updated_at ELSE r.completed_at END AS at) AS closed
    WHERE r.status IN ('planned', 'active', 'completed', 'error')
      AND r.arrived_at - %(slack)s::interval <= asked.until
      AND coalesce(closed.at, 'infinity') + %(slack)s::interval >= asked.since
    """,
)


class _Place(NamedTuple):
    """The station of a fill, and the moment of its local time there."""

    match: StationMatch
    time_zone: str
    at: datetime

    @property
    def station_id(self) -> str | None:
        return self.match.station.station_id if self.match.station is not None else None


class _Route(NamedTuple):
    route_id: UUID | None
    is_unclear: bool
    """Several routes fit."""


def match_fills(
    connection: Connection, tenant: Tenant, fills: Sequence[ToMatch], stations: KnownStations, *, far_miles: float
) -> list[Matches]:
    """The matches of fills. Given vehicles and stations stay."""
    first_times = [utc_of_local(fill.local_time, zone_of(fill.bought.state, None)) for fill in fills]
    trucks = _trucks(connection, tenant, fills, first_times)
    trails = _trails(connection, tenant, fills, trucks, first_times)
    places = [_place(stations, fill, trail) for fill, trail in zip(fills, trails, strict=True)]
    times = [place.at for place in places]
    moved = [number for number, at in enumerate(times) if at != first_times[number]]
    for number, trail in zip(moved, _trails(connection, tenant, *_at(moved, fills, trucks, times)), strict=True):
        trails[number] = trail
    routes = _routes(connection, tenant, fills, trucks, times)
    known = list({truck for truck in trucks if truck is not None})
    tanks = {row.id: row.fuel_tank_capacity_gallons for row in _TANKS.all(connection, (tenant.company_id, known))}
    return [
        _matches(fill, place, truck, route, trail, tanks.get(truck) if truck is not None else None, far_miles)
        for fill, place, truck, route, trail in zip(fills, places, trucks, routes, trails, strict=True)
    ]


def _at(
    numbers: Sequence[int], fills: Sequence[ToMatch], trucks: Sequence[UUID | None], times: Sequence[datetime]
) -> tuple[list[ToMatch], list[UUID | None], list[datetime]]:
    """The fills of these numbers, with their trucks and times."""
    return [fills[one] for one in numbers], [trucks[one] for one in numbers], [times[one] for one in numbers]


def _place(stations: KnownStations, fill: ToMatch, trail: Sequence[Point]) -> _Place:
    given = stations.by_id(fill.station_id)
    if given is not None:
        match = StationMatch(given, 100, False)
    else:
        match = match_station(
            stations,
            code=fill.bought.station_code,
            name=fill.bought.location_name,
            city=fill.bought.city,
            state=fill.bought.state,
            trail=trail,
        )
    zone = zone_of(fill.bought.state, match.station.place if match.station is not None else None)
    return _Place(match, zone, utc_of_local(fill.local_time, zone))


def _matches(
    fill: ToMatch,
    place: _Place,
    truck: UUID | None,
    route: _Route,
    trail: Sequence[Point],
    tank_gallons: float | None,
    far_miles: float,
) -> Matches:
    miles = _miles(place.match.station, trail)
    score = place.match.score if place.match.score >= SURE_SCORE else 50
    return Matches(
        place.at,
        place.time_zone,
        truck,
        place.station_id,
        route.route_id if _is_compared(fill) else None,
        0 if truck is None else score,
        miles,
        _questions(fill, place, truck, route),
        _flags(fill, tank_gallons, miles, far_miles),
    )


def _is_compared(fill: ToMatch) -> bool:
    """True if the fill counts for plans, or may count."""
    return fill.bought.fuel in (Fuel.TRACTOR, Fuel.UNKNOWN)


def _questions(fill: ToMatch, place: _Place, truck: UUID | None, route: _Route) -> list[str]:
    """The reasons why a person has to look at the fill."""
    review = list(fill.doubts)
    if truck is None and fill.bought.fuel != Fuel.OTHER:  # gasoline and farm diesel count nowhere
        review.append("unit")
    if fill.bought.fuel == Fuel.UNKNOWN:
        review.append("fuel")
    if _is_compared(fill) and route.is_unclear:
        review.append("route")
    if _is_compared(fill) and place.match.station is None and route.route_id is not None:
        review.append("station")
    if fill.bought.gallons > 0 and not _is_price(fill):
        review = [one for one in review if one != AMOUNT_DOUBT] + ["price"]
    if fill.bought.gallons < 0:
        review.append("reversal")
    return review


def _trucks(
    connection: Connection, tenant: Tenant, fills: Sequence[ToMatch], times: Sequence[datetime]
) -> list[UUID | None]:
    """The truck that had each fill's unit number at that time. Where that is not certain, a fill keeps its earlier
    truck."""
    named = {fill.bought.unit_number for fill in fills if fill.bought.unit_number and fill.vehicle_id is None}
    holders = read_unit_holders(connection, tenant.company_id, named)
    of_cards = _trucks_of_cards(connection, tenant, fills, times)
    return [
        fill.vehicle_id
        or vehicle_of_unit(holders.get(fill.bought.unit_number or "", ()), at, zone_of(fill.bought.state, None))
        or of_cards.get(number)
        or fill.former_vehicle_id
        for number, (fill, at) in enumerate(zip(fills, times, strict=True))
    ]


def _trucks_of_cards(
    connection: Connection, tenant: Tenant, fills: Sequence[ToMatch], times: Sequence[datetime]
) -> dict[int, UUID]:
    """The trucks of fills without a unit number, by their cards and drivers."""
    asked = {
        number: Nameless(fill.bought.card_last_four, fill.bought.driver_name, fill.local_time, *_span(fill, at))
        for number, (fill, at) in enumerate(zip(fills, times, strict=True))
        if not fill.bought.unit_number and fill.vehicle_id is None
    }
    if not asked:
        return {}
    found = trucks_of_cards(connection, tenant, list(asked.values()))
    return {number: truck for number, truck in zip(asked, found, strict=True) if truck is not None}


def _span(fill: ToMatch, at: datetime) -> tuple[datetime, datetime]:
    """The moment of a fill, or the whole day if the file has no time."""
    return (at, at) if fill.bought.has_time else (at - timedelta(hours=12), at + timedelta(hours=12))


def _trails(
    connection: Connection,
    tenant: Tenant,
    fills: Sequence[ToMatch],
    trucks: Sequence[UUID | None],
    times: Sequence[datetime],
) -> list[list[Point]]:
    """The places of each fill's truck at that time; empty if the file has only the day."""
    trails: list[list[Point]] = [[] for _ in fills]
    asked = [
        (number, truck, at)
        for number, (fill, truck, at) in enumerate(zip(fills, trucks, times, strict=True))
        if truck is not None and fill.bought.has_time
    ]
    places = read_places_around(connection, tenant, [(truck, at) for _, truck, at in asked], TRUCK_WITHIN)
    for (number, _, _), trail in zip(asked, places, strict=True):
        trails[number] = trail
    return trails


def _routes(
    connection: Connection,
    tenant: Tenant,
    fills: Sequence[ToMatch],
    trucks: Sequence[UUID | None],
    times: Sequence[datetime],
) -> list[_Route]:
    """The route of each fill. A route that the truck was on comes before one that it was near to. For a fill without a
    time the whole day counts."""
    asked = [
        (number, truck, *_span(fill, at))
        for number, (fill, truck, at) in enumerate(zip(fills, trucks, times, strict=True))
        if truck is not None
    ]
    candidates: dict[int, list[_FoundRoute]] = {}
    if asked:
        numbers, vehicle_ids, since, until = map(as_array, zip(*asked, strict=True))
        parameters = {
            **tenant._asdict(),
            "numbers": numbers,
            "vehicle_ids": vehicle_ids,
            "since": since,
            "until": until,
            "slack": ROUTE_SLACK,
        }
        for row in _ROUTES.all(connection, parameters):
            candidates.setdefault(row.number, []).append(row)
    found: list[_Route] = []
    for number in range(len(fills)):
        rows = candidates.get(number, [])
        best = [row for row in rows if row.is_within] or rows
        found.append(_Route(best[0].route_id, False) if len(best) == 1 else _Route(None, len(best) > 1))
    return found


def _is_price(fill: ToMatch) -> bool:
    return LEAST_DOLLARS <= fill.bought.paid_cents / 100 / fill.bought.gallons <= MOST_DOLLARS_PER_GALLON


def _miles(station: KnownStation | None, trail: Sequence[Point]) -> float | None:
    if station is None or not trail:
        return None
    return round(min(great_circle_miles(station.place, place) for place in trail), 1)


def _flags(fill: ToMatch, capacity: float | None, miles: float | None, far_miles: float) -> list[str]:
    flags = []
    most = capacity * (1 + TANK_SLACK_SHARE) + TANK_SLACK_GALLONS if capacity is not None else None
    if fill.bought.fuel == Fuel.TRACTOR and most is not None and fill.bought.gallons > most:
        flags.append("tank")
    if miles is not None and miles > far_miles:
        flags.append("far")
    return flags


class UnclearTruck(FuelrouteError):
    """Several trucks may be meant; the text names them."""

    def __init__(self, unit_number: str, holders: Sequence[UnitHolder]) -> None:
        ids = ", ".join(shown_id("veh", one) for one in dict.fromkeys(holder.vehicle_id for holder in holders))
        super().__init__(f"unit number {unit_number[:40]!r} changed hands on that day: give the truck's id, {ids}")


_VEHICLE = Scalar(UUID, "SELECT id FROM vehicles WHERE company_id = %s AND id = %s")


def find_truck(connection: Connection, company_id: UUID, named: str, *, at: datetime, time_zone: str) -> UUID | None:
    """The truck that a person names: by its id, by its unit number at that time, or by its present unit number. None if
    there is none. Raises UnclearTruck, which names them, if several fit."""
    vehicle_id = read_id("veh", named)
    if vehicle_id is not None:
        return _VEHICLE.first(connection, (company_id, vehicle_id))
    holders = read_unit_holders(connection, company_id, [named]).get(named, [])
    found = vehicle_of_unit(holders, at, time_zone)
    if found is None and len({one.vehicle_id for one in holders}) > 1:
        raise UnclearTruck(named, holders)
    in_service = [one.vehicle_id for one in holders if one.until is None]
    return found or (in_service[0] if in_service else None)
