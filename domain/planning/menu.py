"""The menu of a plan: up to three other plans that its driver may choose, each the cheapest under one condition, with
its extra cost.

The conditions are those of `ChoiceKind`. Another chain is within an hour's drive of the planned stop, parking and
showers within an hour and a half; earlier and later mean half an hour to an hour and a half. Everything else is as in
the plan: its road, prices, closed stations, limits and floors. So a choice is a plan like any other, and the optimizer
finds it on the plan's trip with one limit more: the candidates for the first stop, or one stop fewer.

A choice's extra cost is the difference of two sums, both to the cent: what is paid at the pumps (less the tax, where
the policy compares such prices) and for the stops, less the worth of the fuel left."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from domain.languages.words import text_to_say
from domain.lifecycle import ChoiceKind
from domain.planning.explanation import ExplainedChoice
from domain.planning.fuel_plan import Chosen, ComputedPlan, NoPlan, cents, finished_plan
from domain.planning.rounding import solve_rounded
from domain.planning.trips import Infeasible, Solution, Trip, drive_trip
from domain.stations.chains import Brand, BrandMatch, brand_match, brand_of
from domain.stations.offers import Station

MOST_CHOICES = 3

NEAR_HOURS, FAR_HOURS = 0.5, 1.5
"""An earlier or a later stop is between these hours of driving from the planned one."""

CHAIN_HOURS = 1.0
"""Furthest drive from the planned stop to one of another chain."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Another plan for the driver, and the dollars that it costs more: in all (`extra`), and at the pumps alone."""

    kind: ChoiceKind
    plan: ComputedPlan
    extra: Decimal
    extra_at_pumps: Decimal


def find_choices(plan: ComputedPlan, *, most: int | None = MOST_CHOICES) -> list[Choice]:
    """The choices of a driver with this plan, the cheapest first: none is the plan itself, and no two are the same.
    `most` is None for all of them."""
    least = plan.chosen.cheapest if plan.chosen is not None else plan
    places = {_places(plan)}
    found: list[Choice] = []
    for kind, trip in _conditions(plan, replace(least.trip, first_stops=None)):
        stops = len(least.purchases) if trip.first_stops is None else 0  # of the same trip, but for the limit
        other = _plan_of(plan, trip, stops_without_limit=stops)
        if other is not None and _places(other) not in places:
            places.add(_places(other))
            found.append(choice_of(kind, other, least))
    return sorted(_most_wanted(found)[:most], key=lambda one: one.extra)


def _conditions(plan: ComputedPlan, trip: Trip) -> Iterator[tuple[ChoiceKind, Trip]]:
    """The trip of each kind of choice, from the trip without a condition."""
    if plan.chosen is not None:
        yield ChoiceKind.CHEAPEST, plan.chosen.cheapest.trip
    if plan.purchases:
        for kind, first_stops in _first_stops(plan).items():
            if first_stops:
                yield kind, replace(trip, first_stops=frozenset(first_stops))
        yield ChoiceKind.FEWER_STOPS, replace(trip, max_stops=len(plan.purchases) - 1)


def _first_stops(plan: ComputedPlan) -> dict[ChoiceKind, list[int]]:
    """The candidates for the first stop under each condition on it."""
    inputs, planned = plan.inputs, plan.purchases[0].candidate_index
    miles = [one.mile for one in plan.trip.candidates]
    hours = np.interp(miles, inputs.road.stop_miles, inputs.road.stop_hours)
    found: dict[ChoiceKind, list[int]] = {
        kind: [] for kind in (ChoiceKind.OTHER_CHAIN, ChoiceKind.EARLIER, ChoiceKind.LATER, ChoiceKind.AMENITIES)
    }
    stop = inputs.offers[planned].station
    chain = _chain(stop)
    for index, later_hours in enumerate((hours - hours[planned]).tolist()):
        apart, station = abs(later_hours), inputs.offers[index].station
        if apart > FAR_HOURS:
            continue
        if apart > NEAR_HOURS:
            found[ChoiceKind.EARLIER if later_hours < 0 else ChoiceKind.LATER].append(index)
        if apart <= CHAIN_HOURS and brand_match(chain, _chain(station)) == BrandMatch.OTHER:
            found[ChoiceKind.OTHER_CHAIN].append(index)
        if has_more_amenities(station, stop):
            found[ChoiceKind.AMENITIES].append(index)
    return found


def _chain(station: Station) -> Brand:
    return brand_of(station.brand or "", station.name, station.city or "")


def has_more_amenities(station: Station, planned: Station) -> bool:
    """True if the station has parking for trucks or showers that the planned one is not known to have."""
    has_parking = bool(station.parking_spaces) and not planned.parking_spaces
    has_showers = bool(station.showers) and not planned.showers
    return has_parking or has_showers


def _plan_of(plan: ComputedPlan, trip: Trip, *, stops_without_limit: int = 0) -> ComputedPlan | None:
    """The cheapest plan of the trip; None where none is feasible."""
    solution = solve_rounded(trip, stops_without_limit=stops_without_limit)
    if not isinstance(solution, Solution):
        return None
    return finished_plan(plan.inputs, plan.limits, trip, solution, generated_at=plan.generated_at)


def _places(plan: ComputedPlan) -> tuple[int, ...]:
    return tuple(purchase.candidate_index for purchase in plan.purchases)


class Wanted(NamedTuple):
    """A choice that a driver has taken, whose plan is made anew: the station of its first stop, or None where only the
    number of stops counts, and the most stops. `instead_of` is the station where he would fuel next without a
    choice. A choice that the driver has already is kept while it costs at most `most_cents`; None for one whose plan is
    made now."""

    kind: ChoiceKind
    station_id: str | None = None
    most_stops: int | None = None
    instead_of: str | None = None
    most_cents: int | None = None


def plan_as_wanted(cheapest: ComputedPlan, wanted: Wanted) -> ComputedPlan | NoPlan:
    """The plan of a choice that the driver takes now. For a choice that he has already it is the cheapest plan where
    the choice can be kept no more, and says why."""
    plan = plan_as_chosen(cheapest, wanted)
    if wanted.most_cents is None:
        return plan
    if isinstance(plan, NoPlan):
        return replace(cheapest, given_up=plan.infeasible.reason)
    extra_cents = round(100 * plan.chosen.explained["extra_cost"]) if plan.chosen is not None else 0
    if extra_cents > wanted.most_cents:
        return replace(cheapest, given_up=f"it costs ${extra_cents / 100:,.2f} more by now")
    return plan


def plan_as_chosen(cheapest: ComputedPlan, wanted: Wanted) -> ComputedPlan | NoPlan:
    """The cheapest plan that a driver wants, where it can still be made. `cheapest` is the plan without a condition.

    Its extra cost is the one beyond the plan that he would keep: the truck may have burned less than planned, so that
    it could do without the stop by now, but that is no reason to ask for the price of all fuel."""
    kept = _kept(cheapest, wanted)
    trip = kept.trip if wanted.kind is ChoiceKind.CHEAPEST else cheapest.trip
    if wanted.station_id is not None:
        at = _at_station(trip, wanted.station_id)
        if not at:
            return _no_plan(cheapest, _why_not_there(cheapest, wanted.station_id))
        trip = replace(trip, first_stops=at)
    if wanted.most_stops is not None:
        trip = replace(trip, max_stops=wanted.most_stops)
    plan = _plan_of(cheapest, trip)
    if plan is None:
        return _no_plan(cheapest, text_to_say("the truck has no fuel for it any more, or no room to buy"))
    choice = choice_of(wanted.kind, plan, kept)
    explained = ExplainedChoice(
        kind=wanted.kind,
        extra_cost=float(choice.extra),
        extra_at_pumps=float(choice.extra_at_pumps),
        cheapest_cost=kept.total_cost,
    )
    return replace(plan, chosen=Chosen(kept, explained))


def _kept(cheapest: ComputedPlan, wanted: Wanted) -> ComputedPlan:
    """The plan with the stop that the driver would keep. Where that is behind him or closed, the cheapest plan with any
    stop; where there is none, the cheapest plan."""
    trip = cheapest.trip
    at = _at_station(trip, wanted.instead_of) if wanted.instead_of is not None else frozenset[int]()
    for first_stops in (at, frozenset(range(len(trip.candidates)))):
        kept = _plan_of(cheapest, replace(trip, first_stops=first_stops)) if first_stops else None
        if kept is not None:
            return kept
    return cheapest


def _at_station(trip: Trip, station_id: str) -> frozenset[int]:
    return frozenset(index for index, one in enumerate(trip.candidates) if one.station_id == station_id)


def _no_plan(cheapest: ComputedPlan, reason: str) -> NoPlan:
    end = cheapest.trip.distance_miles
    return NoPlan(cheapest.inputs, cheapest.limits, cheapest.trip, Infeasible(0.0, end, reason))


def _why_not_there(cheapest: ComputedPlan, station_id: str) -> str:
    is_closed = any(one.station.station_id == station_id for one in cheapest.inputs.closed)
    if is_closed:
        return text_to_say("its station is closed, or was refused")
    return text_to_say("its station is not ahead any more, or has no price")


def choice_of(kind: ChoiceKind, plan: ComputedPlan, cheapest: ComputedPlan) -> Choice:
    """The plan beside the cheapest one."""
    at_pumps = sum(one.total_cost for one in plan.stops) - sum(one.total_cost for one in cheapest.stops)
    return Choice(kind, plan, _dollars(plan) - _dollars(cheapest), Decimal(at_pumps))


def _dollars(plan: ComputedPlan) -> Decimal:
    """The cost of a plan by its policy's objective, to the cent."""
    trip = plan.trip
    fuel = [
        cents(Decimal(str(gallons)) * Decimal(str(trip.candidates[index].price))) for index, gallons in plan.purchases
    ]
    left = drive_trip(trip, plan.purchases)[-1] - trip.end_gallons
    worth = cents(Decimal(str(trip.leftover_value_per_gallon * left)))
    return sum(fuel, cents(Decimal(str(trip.stop_cost * len(plan.purchases))))) - worth


_IN_TIME = (ChoiceKind.EARLIER, ChoiceKind.LATER)


def _most_wanted(found: list[Choice]) -> list[Choice]:
    """The choices in the order in which a driver wants them: the cheapest first, but the dearer of an earlier and a
    later stop behind those that differ in other respects."""
    ordered = sorted(found, key=lambda one: one.extra)
    in_time = [one for one in ordered if one.kind in _IN_TIME]
    return [*(one for one in ordered if one not in in_time[1:]), *in_time[1:]]
