"""The cost of drivers' habits of fueling for the trips of plans, beside the cost of the plans.

Each trip is driven over the stored explanation of its plan: the same road, tank, level, prices and limits, with nothing
that was learned later. So it is done soon after a driver has the plan, long before retention deletes the explanation;
what comes of it is stored for good. A trip whose explanation is gone is counted as left out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.fence import is_at_work
from domain.database.statements import Command, NotNull, Statement, in_turns
from domain.lifecycle import Environment
from domain.planning.explanation import Explanation, unpack_explanation
from domain.planning.habits import (
    Habit,
    buys_usual_gallons,
    cheapest_in_reach,
    fills_up_below,
    fuel_by_habit,
    habit_dollars,
    paid_at_pumps,
)
from domain.planning.reasons import trip_of
from domain.planning.trips import Purchase, Trip, drive_trip
from domain.savings.driver_habits import LeftOut
from domain.savings.usual_fueling import UsualFueling, UsualFuelings, chain_of
from domain.stations.prices import PRICE_DECIMALS

LOW_TANK_SHARE = 0.3
"""The part of the tank below which a driver of the first habit fills up."""


class PaidByHabits(NamedTuple):
    """Cents paid at the pumps by each habit; None where the habit does not arrive, or is not known."""

    below_30_cents: int | None
    cheapest_cents: int | None
    usual_cents: int | None


# --- One trip --------------------------------------------------------------------------------------------------


def drive_habits(
    explanation: Explanation, usual: UsualFueling | None, brands: Mapping[str, str | None]
) -> PaidByHabits:
    """Drive each habit over the trip of a plan. `brands` has the brands of its stations by their ids. Raises BrokenPlan
    if the plan does not keep its own limits."""
    trip = trip_at_pumps(explanation)
    plan = [Purchase(index, one["gallons"]) for index, one in enumerate(explanation["candidates"]) if one["gallons"]]
    *_, left = drive_trip(trip, plan)
    _, price = paid_at_pumps(trip, plan)
    capacity = explanation["inputs"]["capacity_gallons"]

    def cents(habit: Habit) -> int | None:
        fueling = fuel_by_habit(trip, habit)
        dollars = habit_dollars(trip, fueling, left_gallons=left, price_without_stop=price or 0.0)
        return None if dollars is None else round(100 * dollars)

    return PaidByHabits(
        cents(fills_up_below(LOW_TANK_SHARE * capacity)),
        cents(cheapest_in_reach),
        _mean([(share, cents(habit)) for share, habit in _usual_habits(explanation, usual, capacity, brands)]),
    )


def trip_at_pumps(explanation: Explanation) -> Trip:
    """The trip of a plan with the net prices at its pumps, whatever prices the plan compared, and without a limit of
    stops."""
    trip = trip_of(explanation)
    prices = [round(one["net_price"], PRICE_DECIMALS) for one in explanation["candidates"]]
    candidates = tuple(one._replace(price=price) for one, price in zip(trip.candidates, prices, strict=True))
    return replace(trip, candidates=candidates, max_stops=None)


def _usual_habits(
    explanation: Explanation, usual: UsualFueling | None, capacity_gallons: float, brands: Mapping[str, str | None]
) -> Sequence[tuple[float, Habit]]:
    """The habit at each chain, with the share of the chain: a driver of one chain alone is driven for each."""
    if usual is None:
        return []
    gallons = usual.tank_share * capacity_gallons
    chains = [chain_of(brands.get(one["station_id"]), one["name"]) for one in explanation["candidates"]]
    if not usual.chains:
        return [(1.0, buys_usual_gallons(gallons, range(len(chains))))]
    return [
        (share, buys_usual_gallons(gallons, {index for index, own in enumerate(chains) if own == chain}))
        for chain, share in usual.chains.items()
    ]


def _mean(costs: Sequence[tuple[float, int | None]]) -> int | None:
    known = [share * cents for share, cents in costs if cents is not None]
    return round(sum(known)) if known and len(known) == len(costs) else None


# --- Trips that wait -------------------------------------------------------------------------------------------


class WaitingTrip(NamedTuple):
    """A trip over which no habit was driven yet."""

    route_id: UUID
    company_id: UUID
    environment: str
    plan_id: UUID


_WAITING = Statement(
    WaitingTrip,
    in_turns(
        "route_id, company_id, environment, plan_id",
        "SELECT h.route_id, h.company_id, h.environment, h.plan_id, h.planned_at AS since FROM habit_costs h"
        f" WHERE h.driven_at IS NULL AND {is_at_work('h.company_id')}",
    ),
)


def waiting_trips(connection: Connection, *, limit: int) -> list[WaitingTrip]:
    """Trips that wait, of all companies in turns, the oldest first."""
    return _WAITING.all(connection, (limit,))


class _Trip(NamedTuple):
    plan_id: UUID
    planned_at: datetime
    vehicle_id: UUID
    explanation: bytes | None
    time_zone: str


_TRIP = Statement(
    _Trip,
    """
    SELECT s.plan_id, s.planned_at, s.vehicle_id, p.explanation, c.time_zone
    FROM savings s JOIN companies c ON c.id = s.company_id LEFT JOIN plans p ON p.id = s.plan_id
    WHERE s.company_id = %s AND s.environment = %s AND s.route_id = %s
    """,
)


class _Brand(NamedTuple):
    station_id: str
    brand: NotNull[str]


_BRANDS = Statement(_Brand, "SELECT station_id, brand FROM stations WHERE station_id = ANY(%s) AND brand IS NOT NULL")
_STORE = Command(
    "UPDATE habit_costs SET driven_at = %(now)s, left_out = %(left_out)s, below_30_cents = %(below_30_cents)s,"
    " cheapest_cents = %(cheapest_cents)s, usual_cents = %(usual_cents)s, usual_of = %(usual_of)s"
    " WHERE route_id = %(route_id)s AND plan_id = %(plan_id)s AND driven_at IS NULL"
)
"""A plan that took the place of this one meanwhile waits on."""


def drive_waiting(connection: Connection, waiting: WaitingTrip, fuelings: UsualFuelings, *, now: datetime) -> bool:
    """Drive the habits over one trip and store what they pay. Returns False where the trip is left out."""
    tenant = Tenant(waiting.company_id, Environment(waiting.environment))
    trip = _TRIP.first(connection, (*tenant, waiting.route_id))
    if trip is None or trip.plan_id != waiting.plan_id or trip.explanation is None:
        leave_out(connection, waiting, LeftOut.FORGOTTEN, now=now)
        return False
    explanation = unpack_explanation(trip.explanation)
    tank_gallons = explanation["inputs"]["capacity_gallons"]
    usual = fuelings.of(
        connection, tenant, trip.vehicle_id, trip.planned_at, time_zone=trip.time_zone, tank_gallons=tank_gallons
    )
    stations = list({one["station_id"] for one in explanation["candidates"]})
    brands = dict(_BRANDS.all(connection, (stations,))) if usual is not None else {}
    costs = drive_habits(explanation, usual, brands)
    _store(connection, waiting, None, costs, usual.of if usual is not None else None, now)
    return True


def leave_out(connection: Connection, waiting: WaitingTrip, why: LeftOut, *, now: datetime) -> None:
    """Note that no habit can be driven over a trip."""
    _store(connection, waiting, why, PaidByHabits(None, None, None), None, now)


def _store(
    connection: Connection,
    waiting: WaitingTrip,
    left_out: LeftOut | None,
    costs: PaidByHabits,
    usual_of: str | None,
    now: datetime,
) -> None:
    which = {"route_id": waiting.route_id, "plan_id": waiting.plan_id}
    _STORE.execute(connection, {**which, **costs._asdict(), "left_out": left_out, "usual_of": usual_of, "now": now})
