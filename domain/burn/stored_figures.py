"""The figures of a company's trucks as they are stored, and the one that a plan takes."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, TypedDict
from uuid import UUID

from domain.burn.figures import (
    DEFAULT_CAPACITY_GALLONS,
    PROVEN_MILES,
    PROVEN_TRIPS,
    UNKNOWN_BURN,
    Burn,
    BurnTrip,
    FleetFigure,
    LearnedFigure,
    figure_of,
)
from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement
from domain.encoding import utc_text

_MOST_TRUCKS = 200
"""Most trucks whose figures make the company's median: those that learned last."""

_LEAST_TRUCKS, _LEAST_MILES = 3, 500.0
"""Fewest trucks of a median, and fewest miles of a truck that counts there."""


class StoredTrip(TypedDict):
    """A believed trip, by the id of its route."""

    routeId: str
    endedAt: str
    miles: float
    mpg: float


class KnownFigures(NamedTuple):
    """A truck's declared mpg, its own figure, and the median of its company where that may count. `choice` is the
    company's `mpg_choice`. Gauges show percents: where another tank was declared since the truck learned, the figure is
    that of the same percents, until the truck has learned again."""

    vehicle_id: UUID
    choice: str
    declared_mpg: float | None
    mpg: float | None
    spread_percent: float | None
    trips: list[StoredTrip] | None
    fleet_mpg: float | None
    fleet_spread_percent: float | None
    fleet_trucks: int | None
    fleet_of_model: bool | None

    @property
    def burn(self) -> Burn:
        """The figure of a plan, by the company's choice."""
        return figure_of(self.declared_mpg, self.own, self.fleet, self.choice)

    @property
    def own(self) -> LearnedFigure | None:
        if self.mpg is None or self.spread_percent is None or self.trips is None:
            return None
        trips = tuple(
            BurnTrip(UUID(trip["routeId"]), datetime.fromisoformat(trip["endedAt"]), trip["miles"], trip["mpg"])
            for trip in self.trips
        )
        return LearnedFigure(self.mpg, self.spread_percent, trips)

    @property
    def fleet(self) -> FleetFigure | None:
        if self.fleet_mpg is None:
            return None
        return FleetFigure(
            self.fleet_mpg, self.fleet_spread_percent or 0.0, self.fleet_trucks or 0, bool(self.fleet_of_model)
        )


_KNOWN = Statement(
    KnownFigures,
    f"""
    SELECT v.id AS vehicle_id, c.mpg_choice AS choice, v.mpg AS declared_mpg,
           own.mpg * own.capacity_gallons / coalesce(v.fuel_tank_capacity_gallons, {DEFAULT_CAPACITY_GALLONS}) AS mpg,
           own.spread_percent, own.trips,
           fleet.mpg AS fleet_mpg, fleet.spread_percent AS fleet_spread_percent, fleet.trucks AS fleet_trucks,
           fleet.of_model AS fleet_of_model
    FROM vehicles v JOIN companies c ON c.id = v.company_id
    LEFT JOIN learned_burns own ON own.company_id = v.company_id AND own.environment = %(environment)s
         AND own.vehicle_id = v.id
    LEFT JOIN LATERAL (
        SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY other.mpg) AS mpg,
               100 * stddev_samp(other.mpg) / avg(other.mpg) AS spread_percent, count(*)::int AS trucks, of_model
        FROM (
            SELECT newest.mpg, lower(model.make) = lower(v.make) AND lower(model.model) = lower(v.model) AS is_same
            FROM (
                SELECT vehicle_id, mpg FROM learned_burns
                WHERE company_id = v.company_id AND environment = %(environment)s AND vehicle_id <> v.id
                  AND mpg IS NOT NULL AND miles >= {_LEAST_MILES}
                ORDER BY learned_at DESC, vehicle_id LIMIT {_MOST_TRUCKS}
            ) AS newest
            JOIN vehicles model ON model.id = newest.vehicle_id
        ) AS other, (VALUES (true), (false)) AS kind (of_model)
        WHERE (%(always_fleet)s OR v.mpg IS NULL AND (own.mpg IS NULL
              OR own.miles < {PROVEN_MILES} OR jsonb_array_length(own.trips) < {PROVEN_TRIPS}))
          AND (other.is_same OR NOT of_model)
        GROUP BY of_model HAVING count(*) >= {_LEAST_TRUCKS} ORDER BY of_model DESC LIMIT 1
    ) AS fleet ON true
    WHERE v.company_id = %(company_id)s AND v.id = ANY(%(vehicle_ids)s)
    """,
)


def known_figures(
    connection: Connection, tenant: Tenant, vehicle_ids: Sequence[UUID], *, always_fleet: bool = False
) -> dict[UUID, KnownFigures]:
    """The figures that are known of each truck. The company's median is read where it may count, or `always_fleet`."""
    parameters = {**tenant._asdict(), "vehicle_ids": list(vehicle_ids), "always_fleet": always_fleet}
    return {row.vehicle_id: row for row in _KNOWN.all(connection, parameters)}


def figure_for_plan(connection: Connection, tenant: Tenant, vehicle_id: UUID) -> Burn:
    """The figure with which a plan of the truck is made now."""
    known = known_figures(connection, tenant, [vehicle_id]).get(vehicle_id)
    return known.burn if known is not None else UNKNOWN_BURN


def stored_trips(figure: LearnedFigure) -> list[StoredTrip]:
    """The trips of a figure as they are stored."""
    return [
        StoredTrip(
            routeId=str(trip.route_id),
            endedAt=utc_text(trip.ended_at),
            miles=round(trip.miles, 1),
            mpg=round(trip.mpg, 3),
        )
        for trip in figure.trips
    ]
