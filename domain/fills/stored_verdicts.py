"""Compares the fills of routes with their plans, and stores the verdicts and the amounts really paid.

It runs in the transaction of each change that can matter: an import, a person's decision, a new plan of the driver, a
completed route. So reports only add up."""

import itertools
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.burn.learning import measure_again
from domain.database.connections import Connection
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.documents import FuelPlanDocument
from domain.fills.verdicts import BoughtFill, Comparison, PlannedStop, compare_with_plan
from domain.lifecycle import RouteStatus
from domain.planning.choice_costs import had_by_driver
from domain.roads.sphere import point_or_none, stop_point
from domain.savings.recording import record_bought

ROUTE_SLACK = timedelta(hours=2)
"""A truck also fuels for a route this long before its first stop and after its last one."""


_WITH_FILLS = Scalar(
    NotNull[UUID],
    "SELECT DISTINCT route_id FROM fills WHERE route_id = ANY(%(ids)s)"
    " UNION SELECT DISTINCT route_id FROM stop_verdicts WHERE route_id = ANY(%(ids)s)",
)
_LOCK = Scalar(UUID, "SELECT id FROM routes WHERE id = ANY(%s) ORDER BY id FOR UPDATE")


class _Counted(NamedTuple):
    """A route with savings."""

    route_id: UUID
    company_id: UUID
    environment: str
    status: str
    planned_at: datetime
    vehicle_id: UUID
    driver_id: UUID


_COUNTED = Statement(
    _Counted,
    "SELECT s.route_id, s.company_id, s.environment, r.status, s.planned_at, s.vehicle_id, s.driver_id"
    " FROM savings s JOIN routes r ON r.id = s.route_id WHERE s.route_id = ANY(%s)",
)


class _Plan(NamedTuple):
    route_id: UUID
    document: NotNull[FuelPlanDocument]
    id: UUID
    station_ids: list[str] | None
    fuel_stops_passed: int | None
    """The fuel stops of the plan before that were behind the truck when this plan was made; None for the first plan."""


_PLANS = Statement(
    _Plan,
    f"""
    SELECT p.route_id, p.document, p.id, p.station_ids, (p.cause->>'fuelStopsPassed')::int AS fuel_stops_passed
    FROM routes r JOIN plans p ON p.route_id = r.id AND p.generated_at <=
         (SELECT current.generated_at FROM plans current WHERE current.id = r.plan_id)
    WHERE r.id = ANY(%s) AND p.document IS NOT NULL AND p.revision = r.revision
      AND (p.id = r.plan_id OR p.generated_at >= r.arrived_at AND {had_by_driver("p")})
    ORDER BY p.route_id, p.generated_at DESC, p.id DESC
    """,
)
"""The driver's plan, and earlier plans that the driver had."""


class _Fill(NamedTuple):
    id: UUID
    route_id: NotNull[UUID]
    fuel: str
    gallons: float
    paid_cents: int
    name: str
    latitude: float | None
    longitude: float | None
    waits: bool
    """True if its route is not compared: a person must decide first, or the payment is not in US dollars."""


_FILLS = Statement(
    _Fill,
    """
    SELECT f.id, f.route_id, f.fuel, f.gallons, f.paid_cents,
           coalesce(s.name, f.location_name, f.city, f.state, 'unknown place') AS name, s.latitude, s.longitude,
           f.review <> '{}' OR f.currency <> 'USD' AS waits
    FROM fills f LEFT JOIN stations s ON s.station_id = f.station_id
    WHERE f.route_id = ANY(%s) AND f.counter_id IS NULL AND f.fuel IN ('tractor', 'unknown')
    ORDER BY f.route_id, f.bought_at, f.id
    """,
)

_LET_GO = Command(
    """
    UPDATE fills f SET route_id = NULL, stop_number = NULL
    FROM routes r
    WHERE r.id = ANY(%s) AND f.route_id = r.id AND r.status IN ('planned', 'active', 'completed')
      AND (f.vehicle_id IS DISTINCT FROM r.vehicle_id
           OR f.bought_at < coalesce(r.arrived_at, r.imported_at) - %s::interval
                            - CASE WHEN f.has_time THEN interval '0' ELSE interval '12 hours' END
              AND (f.decided_at IS NULL OR f.decided_at < r.imported_at))
    """
)
"""Takes an earlier run's fills off a restarted route: those of another truck, and those from before the truck set out.
Fills that a person put on the route since the restart stay."""

_DROP = Command("DELETE FROM stop_verdicts WHERE route_id = ANY(%s)")
_STORE = Command(
    """
    INSERT INTO stop_verdicts (route_id, number, company_id, environment, planned_at, vehicle_id, driver_id, verdict,
        place, planned_gallons, planned_cents, bought_gallons, paid_cents, price_cents, gallons_cents, place_cents)
    SELECT route_id, number, s.company_id, s.environment, s.planned_at, s.vehicle_id, s.driver_id, verdict,
        place, planned_gallons, planned_cents, row.bought_gallons, row.paid_cents, price_cents, gallons_cents,
        place_cents
    FROM unnest(%s::uuid[], %s::int[], %s::text[], %s::text[], %s::float8[], %s::bigint[], %s::float8[], %s::bigint[],
                %s::bigint[], %s::bigint[], %s::bigint[])
        AS row (route_id, number, verdict, place, planned_gallons, planned_cents, bought_gallons, paid_cents,
                price_cents, gallons_cents, place_cents)
    JOIN savings s USING (route_id)
    """
)
_NUMBER = Command(
    "UPDATE fills f SET stop_number = new.number FROM unnest(%s::uuid[], %s::int[]) AS new (id, number)"
    " WHERE f.id = new.id AND f.stop_number IS DISTINCT FROM new.number"
)


def update_verdicts(connection: Connection, route_ids: Iterable[UUID], *, lock: bool = True) -> None:
    """Compare the fills of these routes with their plans again, and store the verdicts and payments. `lock`: the routes
    are locked here, in the order of their ids; otherwise the caller has locked them."""
    asked = list(route_ids)
    ids = sorted(_WITH_FILLS.all(connection, {"ids": asked})) if asked else []
    if not ids:
        return
    if lock:
        _LOCK.all(connection, (ids,))
    _LET_GO.execute(connection, (ids, ROUTE_SLACK))
    measure_again(connection, ids)
    counted = {row.route_id: row for row in _COUNTED.all(connection, (ids,))}
    planned = told_stops(connection, list(counted))
    fills: dict[UUID, list[_Fill]] = {}
    for fill in _FILLS.all(connection, (ids,)):
        fills.setdefault(fill.route_id, []).append(fill)
    _DROP.execute(connection, (ids,))
    compared: dict[UUID, Comparison] = {}
    for route_id, route in counted.items():
        own = fills.get(route_id, [])
        if own and not any(fill.waits for fill in own):
            compared[route_id] = compare_with_plan(
                planned.get(route_id, []),
                [_bought(fill) for fill in own],
                is_finished=route.status == RouteStatus.COMPLETED,
            )
    _store(connection, compared)
    _number(connection, fills, compared)
    record_bought(
        connection,
        {
            route_id: (
                float(sum(one.gallons for one in fills[route_id])),
                sum(one.paid_cents for one in fills[route_id]),
            )
            if route_id in compared
            else None
            for route_id in counted
        },
    )


def drop_verdicts(connection: Connection, route_ids: Sequence[UUID]) -> None:
    """Delete the verdicts of routes that ended in `error`."""
    _DROP.execute(connection, (list(route_ids),))


def told_stops(connection: Connection, route_ids: Sequence[UUID]) -> dict[UUID, list[PlannedStop]]:
    """The fuel stops that the driver was told, in driving order: those of the current plan, after those of earlier
    plans that were behind the truck when the plan was replaced on the way."""
    found: dict[UUID, list[PlannedStop]] = {}
    for route_id, plans in itertools.groupby(_PLANS.all(connection, (list(route_ids),)), lambda plan: plan.route_id):
        stops: list[PlannedStop] = []
        passed: int | None = None
        for number, plan in enumerate(plans):
            own = [
                PlannedStop(
                    stop["name"],
                    stop_point(stop),
                    float(stop["gallonsToFill"]),
                    float(stop["pricePerGallon"]),
                    round(stop["totalCost"] * 100),
                    plan.id,
                    plan.station_ids[at] if plan.station_ids is not None else None,
                )
                for at, stop in enumerate(plan.document["stops"])
            ]
            stops = own if number == 0 else own[: passed or 0] + stops
            passed = plan.fuel_stops_passed
        found[route_id] = stops
    return found


def _bought(fill: _Fill) -> BoughtFill:
    return BoughtFill(fill.name, point_or_none(fill.latitude, fill.longitude), fill.gallons, fill.paid_cents)


def _store(connection: Connection, compared: dict[UUID, Comparison]) -> None:
    rows = [
        (route_id, number, *verdict)
        for route_id, comparison in compared.items()
        for number, verdict in enumerate(comparison.verdicts, start=1)
    ]
    if rows:
        _STORE.execute(connection, tuple(list(column) for column in zip(*rows, strict=True)))


def _number(connection: Connection, fills: dict[UUID, list[_Fill]], compared: dict[UUID, Comparison]) -> None:
    numbers: dict[UUID, int | None] = {one.id: None for own in fills.values() for one in own}
    for route_id, comparison in compared.items():
        numbers |= {fill.id: number for fill, number in zip(fills[route_id], comparison.numbers, strict=True)}
    if numbers:
        _NUMBER.execute(connection, (list(numbers), list(numbers.values())))
