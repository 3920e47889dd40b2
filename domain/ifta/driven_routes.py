"""The input of a quarter's report, read from the tables: driven routes, their plans, rates of tax."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np

from domain.accounts.companies import time_zone_of
from domain.database.connections import Connection, Tenant
from domain.database.statements import NotNull, Scalar, Statement
from domain.documents import FuelPlanDocument, StopDocument, TimelineEntry
from domain.ifta.legs import DrivenRoute, PlannedPurchase, PlannedRoad
from domain.ifta.quarters import Quarter
from domain.lifecycle import Environment
from domain.planning.explanation import unpack_explanation
from domain.roads.sphere import stop_point


@dataclass(frozen=True, slots=True)
class QuarterRoutes:
    """The routes with an arrival in the quarter, which runs from `start` to before `end`."""

    tenant: Tenant
    quarter: Quarter
    time_zone: str
    start: datetime
    end: datetime
    route_ids: Sequence[UUID]


_DRIVEN = Scalar(
    UUID,
    """
    SELECT r.id FROM routes r
    WHERE r.company_id = %(company_id)s AND r.environment = %(environment)s AND r.arrived_at < %(end)s
      AND EXISTS (SELECT FROM visits v WHERE v.route_id = r.id AND v.arrived_at >= %(start)s AND v.arrived_at < %(end)s)
    ORDER BY r.id
    """,
)


def find_quarter_routes(connection: Connection, company_id: UUID, quarter: Quarter) -> QuarterRoutes:
    """The company's live routes that reached a stop in the quarter, by its time zone. Raises UnknownCompany where there
    is no such company."""
    time_zone = time_zone_of(connection, company_id)
    start, end = (
        datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(time_zone))
        for day in (quarter.first_day, quarter.next_day)
    )
    tenant = Tenant(company_id, Environment.LIVE)
    ids = _DRIVEN.all(connection, {**tenant._asdict(), "start": start, "end": end})
    return QuarterRoutes(tenant, quarter, time_zone, start, end, ids)


class _Route(NamedTuple):
    id: UUID
    stops: list[StopDocument]
    mpg: float | None
    vehicle_id: UUID | None
    unit_number: str | None


_ROUTES = Statement(
    _Route,
    "SELECT r.id, r.stops, v.mpg, r.vehicle_id, v.unit_number FROM routes r LEFT JOIN vehicles v ON v.id = r.vehicle_id"
    " WHERE r.company_id = %s AND r.environment = %s AND r.id = ANY(%s) ORDER BY r.id",
)


class _Arrival(NamedTuple):
    route_id: UUID
    stop: int
    arrived_at: datetime


_ARRIVALS = Statement(
    _Arrival,
    "SELECT route_id, stop, arrived_at FROM visits WHERE company_id = %s AND environment = %s AND route_id = ANY(%s)",
)


class _Plan(NamedTuple):
    id: UUID
    route_id: UUID
    document: NotNull[FuelPlanDocument]
    timeline: list[TimelineEntry]
    explanation: bytes | None
    fuel_stops_passed: int | None
    """The fuel stops of the plan before that were behind the truck when this plan was made; None for the first plan."""


_PLANS = Statement(
    _Plan,
    """
    SELECT p.id, p.route_id, p.document, p.timeline, p.explanation,
           (p.cause->>'fuelStopsPassed')::int AS fuel_stops_passed
    FROM routes r JOIN plans p ON p.route_id = r.id
         AND (p.revision = r.revision OR p.generated_at >= r.arrived_at)
    WHERE r.company_id = %s AND r.environment = %s AND r.id = ANY(%s) AND p.document IS NOT NULL
      AND (p.id = r.plan_id OR p.cause ? 'takenByDriver'
           OR EXISTS (SELECT FROM messages m WHERE m.plan_id = p.id AND m.status = 'sent'))
    ORDER BY p.route_id, p.generated_at DESC, p.id DESC
    """,
)
"""The current plans of routes, and earlier plans that the driver had. A plan of an earlier revision counts too, if it
was made since the first visit that the route still has: the truck drove by it. The timelines of earlier plans were
rewritten for the present stops."""


def read_driven_routes(connection: Connection, tenant: Tenant, route_ids: Sequence[UUID]) -> Iterator[DrivenRoute]:
    which = (*tenant, list(route_ids))
    arrivals: dict[UUID, dict[int, datetime]] = {}
    for arrival in _ARRIVALS.all(connection, which):
        arrivals.setdefault(arrival.route_id, {})[arrival.stop] = arrival.arrived_at
    plans: dict[UUID, list[PlannedRoad]] = {}
    newer: _Plan | None = None
    for plan in _PLANS.all(connection, which):
        replaced_by = newer if newer is not None and newer.route_id == plan.route_id else None
        purchases_behind = replaced_by.fuel_stops_passed if replaced_by is not None else None
        plans.setdefault(plan.route_id, []).append(_planned_road(plan, purchases_behind))
        newer = plan
    for route in _ROUTES.all(connection, which):
        yield DrivenRoute(
            route.stops,
            arrivals.get(route.id, {}),
            plans.get(route.id, ()),
            route.mpg,
            route.vehicle_id,
            route.unit_number,
            route.id,
        )


def _planned_road(plan: _Plan, purchases_behind: int | None) -> PlannedRoad:
    stops = plan.document["stops"]
    explanation = unpack_explanation(plan.explanation) if plan.explanation is not None else None
    said = [one["state"] for one in explanation["candidates"] if one["gallons"]] if explanation else []
    states = said if len(said) == len(stops) else [None] * len(stops)
    return PlannedRoad(
        miles={entry["stop"]: entry["mile"] for entry in plan.timeline if entry["mile"] is not None},
        purchases=[
            PlannedPurchase(stop["milesFromOrigin"], stop["gallonsToFill"], stop_point(stop), state)
            for stop, state in zip(stops, states, strict=True)
        ],
        line=np.array(explanation["line"], dtype=np.float64) if explanation else None,
        line_miles=np.array(explanation["line_miles"], dtype=np.float64) if explanation else None,
        mpg=explanation["inputs"]["mpg"] if explanation else None,
        purchases_behind=purchases_behind,
        plan_id=plan.id,
    )


class BoughtGallons(NamedTuple):
    """The tractor diesel that fuel cards sold to a truck in a state."""

    vehicle_id: NotNull[UUID]
    unit_number: str | None
    state: NotNull[str]
    gallons: float


_BOUGHT = Statement(
    BoughtGallons,
    """
    SELECT bought.vehicle_id, v.unit_number, bought.state, sum(bought.gallons) AS gallons
    FROM (
    SELECT f.vehicle_id, f.state, greatest(sum(f.gallons), 0) AS gallons
    FROM fills f
    WHERE f.company_id = %(company_id)s AND f.environment = %(environment)s
      AND f.bought_at >= %(first_day)s::date - interval '2 days'
      AND f.bought_at < %(next_day)s::date + interval '2 days'
      AND (f.bought_at AT TIME ZONE f.time_zone)::date >= %(first_day)s
      AND (f.bought_at AT TIME ZONE f.time_zone)::date < %(next_day)s
      AND f.fuel = 'tractor' AND f.counter_id IS NULL AND f.vehicle_id IS NOT NULL AND f.state IS NOT NULL
      AND NOT f.review && ARRAY['unit', 'fuel', 'quantity', 'price', 'reversal', 'twice', 'corrected']
    GROUP BY f.vehicle_id, f.state, (f.bought_at AT TIME ZONE f.time_zone)::date
    ) AS bought LEFT JOIN vehicles v ON v.id = bought.vehicle_id
    GROUP BY bought.vehicle_id, v.unit_number, bought.state
    ORDER BY v.unit_number, bought.vehicle_id, bought.state
    """,
)
"""A truck's total of a day in a state is never below zero, whatever was taken back there."""


def read_bought_gallons(connection: Connection, driven: QuarterRoutes) -> list[BoughtGallons]:
    """The fills of the quarter, on routes or not, by the day on their receipts. Fills whose truck, fuel or gallons wait
    for a person are left out."""
    quarter = driven.quarter
    days = {"first_day": quarter.first_day, "next_day": quarter.next_day}
    return _BOUGHT.all(connection, {**driven.tenant._asdict(), **days})


class TaxRate(NamedTuple):
    state: str
    rate_per_gallon: float
    surcharge_per_gallon: float


_RATES = Statement(
    TaxRate,
    "SELECT DISTINCT ON (state) state, rate_per_gallon, surcharge_per_gallon FROM fuel_taxes WHERE valid_from <= %s"
    " ORDER BY state, valid_from DESC",
)


def read_tax_rates(connection: Connection, quarter: Quarter) -> dict[str, TaxRate]:
    """The states' rates on the first day of the quarter, which hold for the whole quarter."""
    return {rate.state: rate for rate in _RATES.all(connection, (quarter.first_day,))}
