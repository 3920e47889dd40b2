"""The least cost of a trip with a stop at each candidate, by one pass forward and one backward, not by a plan for each.

A trip with a stop at candidate i is the way there, the stop, and the way on:

    least cost = min over h of S_i(h) + T_i(h)

S_i(h) is the least cost of coming back to the road from the stop with the level h, as in `optimizer`. T_i(h) is the
least cost from there to the destination. T is found like V, by following the truck backward from the destination. Seen
from there, levels are negative and a stop leads from -h to -g; it buys the same gallons at the same price.

Only costs are asked for here, not the purchases behind them. So pieces of T side by side that cost the same become one,
whichever stations they lead to. Without that, T has hundreds of pieces past thousands of stations of one price: the
smallest purchase costs the same at each of them, and each nearer one is in reach with a little less fuel.
"""

import math

from domain.planning.least_cost import (
    CostFunction,
    CostSegment,
    after_stops,
    at_least,
    cheaper,
    least_sum,
    stations_of,
    stops_before,
)
from domain.planning.trips import DOLLAR_TOLERANCE, GALLON_TOLERANCE, Trip


def costs_with_each_stop(trip: Trip) -> list[float | None]:
    """The least cost of the trip with a stop at each candidate, in the candidates' order; None where no plan can stop
    there."""
    costs, most_stops = _costs(trip, None)
    # A limit on stops multiplies the work, so the first attempt has none.
    if trip.max_stops is not None and most_stops > trip.max_stops:
        costs, _ = _costs(trip, trip.max_stops)
    return [cost if math.isfinite(cost) else None for cost in costs]


def _costs(trip: Trip, max_stops: int | None) -> tuple[list[float], int]:
    """The costs, infinite where there is no plan, and the most stops that one of these plans makes."""
    stations, counted = stations_of(trip), max_stops is not None
    ahead = ways_ahead(trip, max_stops)
    start: CostFunction = [(trip.start_usable_gallons, trip.start_usable_gallons, CostSegment(0.0, 0.0))]
    layers: list[CostFunction] = [[] for _ in range((max_stops or 0) + 1)]
    costs, most_stops = [], 0
    for station in stations:
        layers = [at_least(V, station.lowest_passing) for V in layers]
        begins = start if trip.may_begin_at(station.candidate_index) else []
        stopped = after_stops(layers, station, trip.stop_cost, counted=counted, start=begins)
        # Each stop made so far leaves one fewer for the rest of the trip.
        found = [least_sum(S, T) for S, T in zip(stopped, reversed(ahead.pop()), strict=True)]
        cost, before, after = min(found, key=lambda one: one[0])
        costs.append(cost)
        most_stops = max(most_stops, stops_before(before) + stops_before(after))
        layers = [*map(cheaper, layers, stopped)]
    return costs, most_stops


def ways_ahead(trip: Trip, max_stops: int | None) -> list[list[CostFunction]]:
    """T of each candidate, from the last to the first. Where stops are counted, each candidate has one T for each
    number of stops that may still be made.
    """
    arriving = at_end(trip)
    layers = [arriving] * (1 if max_stops is None else max_stops + 1)
    ahead = []
    for station in reversed(stations_of(trip)):
        backward = station.backward()
        layers = [at_least(T, backward.lowest_passing) for T in layers]
        ahead.append(layers)
        stopped = after_stops(layers, backward, trip.stop_cost, counted=max_stops is not None)
        layers = [_joined(cheaper(T, S)) for T, S in zip(layers, stopped, strict=True)]
    return ahead


def _joined(V: CostFunction) -> CostFunction:
    """The function with one piece for neighbors that cost the same after as many stops."""
    joined: CostFunction = []
    for low, high, line in V:
        if joined:
            since, until, before = joined[-1]
            base, slope = line.base - before.base, line.slope - before.slope
            if (
                until == low
                and abs(base + slope * low) < DOLLAR_TOLERANCE
                and abs(base + slope * high) < DOLLAR_TOLERANCE
                and stops_before(line) == stops_before(before)
            ):
                joined[-1] = since, high, before
                continue
        joined.append((low, high, line))
    return joined


def at_end(trip: Trip) -> CostFunction:
    """T at the destination: what is left there costs nothing, less its worth."""
    burned = trip.gallons_to(trip.distance_miles)
    most = trip.usable_gallons + GALLON_TOLERANCE
    wanted = max(trip.reserve_gallons, trip.end_gallons) - GALLON_TOLERANCE
    worth = trip.leftover_value_per_gallon
    left = CostSegment(worth * (burned + trip.end_gallons), worth)
    return [(-most - burned, -wanted - burned, left)] if wanted <= most else []
