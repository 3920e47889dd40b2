"""Completed routes teach the burn of their trucks. Each waits in `trip_burns` until it is measured.

A route waits from the transaction that completes it, and waits again when its fills change, so none is forgotten when a
process dies. A truck learns as a whole: all its newest trips are measured again from their stored levels, with the
fills and the tank of that moment. So whatever comes late, or twice, or in another order, the figure is the same.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, DEFAULT_MPG
from domain.burn.learned import MOST_TRIPS, TripBurn, agreed_burn, believed, measure_trip
from domain.burn.stored_figures import known_figures, stored_trips
from domain.burn.tanks import differs, tank_by_fills, tanks_by_fills
from domain.burn.trip_levels import (
    CardFuel,
    LevelFix,
    levels_of,
    one_purchase_a_stop,
    pack_levels,
    unpack_levels,
)
from domain.database.connections import Connection, Tenant, as_json
from domain.database.fence import is_at_work
from domain.database.statements import Command, Scalar, Statement, in_turns
from domain.driven_lanes.learning import LATE_FIXES
from domain.lifecycle import Environment
from domain.roads import Point
from domain.roads.implausible_fixes import plausible_fixes

_MOST_KEPT = 40
"""Most trips that are kept of a truck, the newest: those that count, and some that once did."""

_MOST_FIXES = 40_000
"""Most fixes read of one trip: two weeks of a truck that reports every half minute."""

_NOTE = Command(
    """
    INSERT INTO trip_burns (route_id, company_id, environment, vehicle_id, started_at, ended_at)
    SELECT r.id, r.company_id, r.environment, r.vehicle_id, least(visited.left_at, r.completed_at), r.completed_at
    FROM routes r
    CROSS JOIN LATERAL (SELECT coalesce(min(coalesce((departure_evidence->>'seenUntil')::timestamptz, departed_at)),
                                        min(arrived_at), r.completed_at) AS left_at
                        FROM visits WHERE route_id = r.id) AS visited
    WHERE r.id = ANY(%s) AND r.status = 'completed' AND r.vehicle_id IS NOT NULL
    ON CONFLICT (route_id) DO NOTHING
    """
)
"""A truck may have left at any moment of a silence that hides its departure."""


def let_trips_wait(connection: Connection, route_ids: Sequence[UUID]) -> None:
    """Let completed routes wait for their burn to be measured."""
    _NOTE.execute(connection, (list(route_ids),))


_AGAIN = Command(
    "UPDATE trip_burns SET measured_at = NULL WHERE route_id IN (SELECT route_id FROM trip_burns"
    " WHERE route_id = ANY(%s) AND measured_at IS NOT NULL ORDER BY route_id FOR UPDATE)"
)


def measure_again(connection: Connection, route_ids: Sequence[UUID]) -> None:
    """Let the trips of these routes be measured again: their fills have changed."""
    _AGAIN.execute(connection, (list(route_ids),))


_KEEP_LEVELS = Command(
    "UPDATE trip_burns t SET levels = new.levels FROM unnest(%s::uuid[], %s::bytea[]) AS new (route_id, levels)"
    " WHERE t.route_id = new.route_id AND t.measured_at IS NULL"
)


def keep_levels(connection: Connection, levels: Mapping[UUID, bytes]) -> None:
    """Store the packed levels of trips that wait to be measured, so that their positions are not read."""
    _KEEP_LEVELS.execute(connection, (list(levels), list(levels.values())))


class TruckToLearn(NamedTuple):
    """A truck with a trip that waits, or whose tank was changed since it learned."""

    company_id: UUID
    environment: str
    vehicle_id: UUID

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.company_id, Environment(self.environment))


_IS_DUE = """
    (t.measured_at IS NULL AND t.completed_at <= %(now)s::timestamptz
     - CASE t.environment WHEN 'live' THEN %(late)s::interval ELSE interval '0' END)
"""
_CAPACITY = f"coalesce(v.fuel_tank_capacity_gallons, {DEFAULT_CAPACITY_GALLONS})"
_WAITING = Statement(
    TruckToLearn,
    in_turns(
        "company_id, environment, vehicle_id",
        f"""
        SELECT t.company_id, t.environment, t.vehicle_id, min(t.completed_at) AS since
        FROM trip_burns t WHERE {_IS_DUE} AND {is_at_work("t.company_id")} GROUP BY 1, 2, 3
        UNION
        SELECT b.company_id, b.environment, b.vehicle_id, b.learned_at
        FROM learned_burns b JOIN vehicles v ON v.company_id = b.company_id AND v.id = b.vehicle_id
        WHERE b.capacity_gallons <> {_CAPACITY} AND {is_at_work("b.company_id")}
        """,
    ).replace("LIMIT %s", "LIMIT %(limit)s"),
)


def trucks_to_learn(connection: Connection, *, now: datetime, limit: int) -> list[TruckToLearn]:
    """Trucks that have something to learn now, of all companies in turns."""
    found = _WAITING.all(connection, {"now": now, "late": LATE_FIXES, "limit": limit})
    return list(dict.fromkeys(found))


class _Trip(NamedTuple):
    route_id: UUID
    started_at: datetime
    ended_at: datetime
    levels: bytes | None
    road_miles: float | None
    """The length of the whole road, by its first plan: those that are made on the way begin where the truck is. NULL
    where the levels are kept."""


_LOCK_TRIPS = Statement(
    _Trip,
    f"""
    SELECT t.route_id, t.started_at, t.ended_at, t.levels, CASE WHEN t.levels IS NULL THEN coalesce((
        SELECT (p.document->>'totalDistanceMiles')::float8 FROM plans p
        WHERE p.route_id = r.id AND p.revision = r.revision AND p.document IS NOT NULL
        ORDER BY p.generated_at, p.id LIMIT 1), r.distance_miles) END AS road_miles
    FROM trip_burns t JOIN routes r ON r.id = t.route_id
    WHERE t.route_id IN (
        SELECT route_id FROM trip_burns t
        WHERE company_id = %(company_id)s AND environment = %(environment)s AND vehicle_id = %(vehicle_id)s
          AND {_IS_DUE}
        UNION
        (SELECT route_id FROM trip_burns t
         WHERE company_id = %(company_id)s AND environment = %(environment)s AND vehicle_id = %(vehicle_id)s
           AND measured_at IS NOT NULL
         ORDER BY ended_at DESC, route_id LIMIT %(most)s))
    ORDER BY t.route_id FOR UPDATE OF t
    """,
)


class _Fix(NamedTuple):
    latitude: float
    longitude: float
    recorded_at: datetime
    fuel_percent: float | None
    accuracy_meters: float | None


_FIXES = Statement(
    _Fix,
    "SELECT latitude, longitude, recorded_at, fuel_percent, accuracy_meters FROM positions"
    " WHERE vehicle_id = %s AND environment = %s AND company_id = %s AND recorded_at BETWEEN %s AND %s"
    " AND NOT implausible ORDER BY recorded_at LIMIT %s",
)


class _Fill(NamedTuple):
    bought_at: datetime
    gallons: float


_FILLS = Statement(
    _Fill,
    """
    SELECT bought_at, gallons FROM fills
    WHERE vehicle_id = %s AND environment = %s AND company_id = %s AND bought_at BETWEEN %s AND %s
      AND has_time AND fuel = 'tractor' AND gallons > 0 AND counter_id IS NULL AND review = '{}'
      AND NOT flags @> '{far}'
    """,
)
"""Fills that need nobody any more, and whose truck was near."""

_CAPACITY_OF = Scalar(float, f"SELECT {_CAPACITY} FROM vehicles v WHERE v.company_id = %s AND v.id = %s")


class Learned(NamedTuple):
    """The number of a truck's trips that count, and of those that do not."""

    believed: int
    doubted: int


def learn_truck(connection: Connection, truck: TruckToLearn, *, now: datetime) -> Learned:
    """Measure the newest trips of a truck, and store what they teach."""
    span = {**truck._asdict(), "now": now, "late": LATE_FIXES, "most": MOST_TRIPS}
    rows = _LOCK_TRIPS.all(connection, span)
    capacity = _CAPACITY_OF.first(connection, (truck.company_id, truck.vehicle_id)) or DEFAULT_CAPACITY_GALLONS
    packed = {row.route_id: _packed(connection, truck, row) for row in rows}
    levels = {row.route_id: unpack_levels(packed[row.route_id], row.started_at) for row in rows}
    bought = _bought(connection, truck, rows)
    tanks = [tank for parts in levels.values() for tank in tanks_by_fills(parts, bought)]
    tank = tank_by_fills(tanks)
    if tank is not None and differs(tank, capacity):
        bought = []  # gallons of the pump and percents of the gauge speak of two tanks: the gauge alone is consistent
    known_mpg = _known_mpg(connection, truck)
    trips = believed(
        [
            measure_trip(
                TripBurn(row.route_id, row.started_at, row.ended_at),
                levels[row.route_id],
                bought,
                capacity_gallons=capacity,
                known_mpg=known_mpg,
            )
            for row in rows
        ]
    )
    _store_trips(connection, trips, packed, now)
    _TRIM.execute(connection, span)
    _store_figure(connection, truck, trips, capacity, tank, len(tanks), now)
    counting = sum(trip.doubt is None for trip in trips)
    return Learned(counting, len(trips) - counting)


def _packed(connection: Connection, truck: TruckToLearn, trip: _Trip) -> bytes:
    """The trip's levels, packed: those that are kept, or else those of the truck's positions."""
    if trip.levels is not None:
        return trip.levels
    whose = (truck.vehicle_id, truck.environment, truck.company_id)
    rows = _FIXES.all(connection, (*whose, trip.started_at, trip.ended_at, _MOST_FIXES))
    rows = plausible_fixes(rows, truck.environment)  # those far from every stop carry no flag
    fixes = [LevelFix(Point(row.latitude, row.longitude), row.recorded_at, row.fuel_percent) for row in rows]
    return pack_levels(levels_of(fixes, road_miles=trip.road_miles), trip.started_at)


def _bought(connection: Connection, truck: TruckToLearn, trips: Sequence[_Trip]) -> list[CardFuel]:
    if not trips:
        return []
    first, last = min(trip.started_at for trip in trips), max(trip.ended_at for trip in trips)
    rows = _FILLS.all(connection, (truck.vehicle_id, truck.environment, truck.company_id, first, last))
    return one_purchase_a_stop([CardFuel(row.bought_at, row.gallons) for row in rows])


def _known_mpg(connection: Connection, truck: TruckToLearn) -> list[float]:
    """The figures by which a trip is believed: of the truck's record, and of its company's trucks or the default."""
    known = known_figures(connection, truck.tenant, [truck.vehicle_id], always_fleet=True).get(truck.vehicle_id)
    if known is None:
        return [DEFAULT_MPG]
    others = known.fleet.mpg if known.fleet is not None else DEFAULT_MPG
    return [others, known.declared_mpg] if known.declared_mpg else [others]


_STORE_TRIPS = Command(
    """
    UPDATE trip_burns t SET levels = new.levels, measured_at = %s, miles = new.miles, gallons = new.gallons,
        spread_gallons = new.spread_gallons, by_card = new.by_card, doubt = new.doubt
    FROM unnest(%s::uuid[], %s::bytea[], %s::float8[], %s::float8[], %s::float8[], %s::boolean[], %s::text[])
         AS new (route_id, levels, miles, gallons, spread_gallons, by_card, doubt)
    WHERE t.route_id = new.route_id
    """
)


def _store_trips(
    connection: Connection, trips: Sequence[TripBurn], packed: Mapping[UUID, bytes], now: datetime
) -> None:
    stored = [
        (
            trip.route_id,
            packed[trip.route_id],
            trip.miles,
            trip.gallons,
            trip.spread_gallons,
            trip.by_card,
            trip.doubt,
        )
        for trip in trips
    ]
    if stored:
        _STORE_TRIPS.execute(connection, (now, *(list(column) for column in zip(*stored, strict=True))))


_TRIM = Command(
    f"""
    DELETE FROM trip_burns WHERE route_id IN (
        SELECT route_id FROM trip_burns
        WHERE company_id = %(company_id)s AND environment = %(environment)s AND vehicle_id = %(vehicle_id)s
          AND measured_at IS NOT NULL
        ORDER BY ended_at DESC, route_id OFFSET {_MOST_KEPT})
    """
)

_STORE_FIGURE = Command(
    """
    INSERT INTO learned_burns (company_id, environment, vehicle_id, learned_at, capacity_gallons, mpg, spread_percent,
        miles, trips, tank_gallons, tank_fills)
    VALUES (%(company_id)s, %(environment)s, %(vehicle_id)s, %(now)s, %(capacity_gallons)s, %(mpg)s,
        %(spread_percent)s, %(miles)s, %(trips)s, %(tank_gallons)s, %(tank_fills)s)
    ON CONFLICT (company_id, environment, vehicle_id) DO UPDATE SET learned_at = excluded.learned_at,
        capacity_gallons = excluded.capacity_gallons, mpg = excluded.mpg, spread_percent = excluded.spread_percent,
        miles = excluded.miles, trips = excluded.trips, tank_gallons = excluded.tank_gallons,
        tank_fills = excluded.tank_fills
    """
)


def _store_figure(
    connection: Connection,
    truck: TruckToLearn,
    trips: Sequence[TripBurn],
    capacity_gallons: float,
    tank_gallons: float | None,
    tank_fills: int,
    now: datetime,
) -> None:
    figure = agreed_burn(trips)
    _STORE_FIGURE.execute(
        connection,
        {
            **truck._asdict(),
            "now": now,
            "capacity_gallons": capacity_gallons,
            "mpg": figure.mpg if figure is not None else None,
            "spread_percent": figure.spread_percent if figure is not None else None,
            "miles": figure.miles if figure is not None else 0.0,
            "trips": as_json(stored_trips(figure) if figure is not None else []),
            "tank_gallons": tank_gallons,
            "tank_fills": tank_fills,
        },
    )


_GIVE_UP = Command(
    "UPDATE trip_burns t SET measured_at = %(now)s, levels = coalesce(levels, ''), doubt = 'levels'"
    " WHERE company_id = %(company_id)s AND environment = %(environment)s AND vehicle_id = %(vehicle_id)s"
    f" AND {_IS_DUE}"
)
_GIVE_UP_TANK = Command(
    f"UPDATE learned_burns b SET mpg = b.mpg * b.capacity_gallons / {_CAPACITY}, capacity_gallons = {_CAPACITY}"
    " FROM vehicles v WHERE v.id = b.vehicle_id"
    " AND v.company_id = b.company_id AND b.company_id = %(company_id)s AND b.environment = %(environment)s"
    " AND b.vehicle_id = %(vehicle_id)s"
)


def give_up(connection: Connection, truck: TruckToLearn, *, now: datetime) -> None:
    """End the wait of a truck whose trips cannot be measured by a fault of ours: it would fail again every minute."""
    parameters = {**truck._asdict(), "now": now, "late": LATE_FIXES}
    _GIVE_UP.execute(connection, parameters)
    _GIVE_UP_TANK.execute(connection, parameters)
