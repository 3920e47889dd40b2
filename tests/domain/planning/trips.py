"""Trips for tests: random ones, ones of round numbers, and one whose limits are changed one at a time."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, pairwise

from hypothesis import strategies as st

from domain.planning.trips import BurnedBy, Candidate, Trip


def random_trip(seed: int) -> Trip:
    """A trip from short to cross-country, with no candidate to twenty, and with each limit tight now and then."""
    rng = random.Random(seed)
    distance = rng.choice([rng.uniform(50, 600), rng.uniform(600, 2800)])
    usable = rng.uniform(80, 250)
    reserve = rng.uniform(0.05, 0.3) * usable
    lowest_price = rng.choice([2.8, 2.8, 2.8, -1.0, -3.0])
    candidates: list[Candidate] = []
    for i in range(rng.randint(0, 20)):
        nearby = rng.choice(candidates).mile + rng.uniform(0, 5) if candidates else distance
        mile = min(rng.choice([rng.uniform(0, distance), rng.uniform(0, distance), nearby]), distance)
        into = rng.choice([0.0, rng.uniform(0, 5), rng.uniform(0, 40)])
        out = rng.choice([into, into, rng.uniform(0, 5)])
        price = round(rng.uniform(lowest_price, lowest_price + 2), rng.choice([1, 3]))
        candidates.append(Candidate(f"S{i}", mile, into, out, price))
    return Trip(
        distance_miles=distance,
        start_gallons=rng.uniform(0.9 * reserve, usable * 1.05),
        end_gallons=rng.choice([0.0, rng.uniform(0, usable), usable * 0.25]),
        reserve_gallons=reserve,
        usable_gallons=usable,
        min_purchase_gallons=rng.choice([0.0, 30.0, rng.uniform(0, 0.8 * usable)]),
        stop_cost=rng.choice([0.0, 20.0, rng.uniform(0, 60)]),
        mpg=rng.uniform(4.5, 9.0),
        max_stops=rng.choice([None, None, rng.randint(0, 5)]),
        candidates=tuple(sorted(candidates, key=lambda candidate: candidate.mile)),
        leftover_value_per_gallon=rng.choice([0.0, 0.0, rng.uniform(2, 5)]),
        margin_gallons=rng.choice([0.0, 0.0, rng.uniform(0, 0.3) * usable]),
    )


def with_random_legs(trip: Trip) -> Trip:
    """The trip over one to six legs, each with a burn of its own: some burn nothing, some twice as much."""
    rng = random.Random(repr(trip))
    stations = [one.mile for one in trip.candidates]
    inner = {rng.choice([rng.uniform(0, trip.distance_miles), *stations]) for _ in range(rng.randint(0, 5))}
    miles = [0.0, *sorted(mile for mile in inner if 0 < mile < trip.distance_miles), trip.distance_miles]
    legs = [(after - before) / trip.mpg * rng.choice([0, 0.7, 1, 1.2, 2]) for before, after in pairwise(miles)]
    return replace(trip, burned=tuple(map(BurnedBy, miles, accumulate(legs, initial=0.0))))


def with_random_floors(trip: Trip, highest_share: float = 0.6) -> Trip:
    """The trip with a floor at most of its stations: some below the reserve, some up to this share of the tank."""
    rng = random.Random(repr(trip))
    return with_each(
        trip,
        lambda one: one._replace(floor_gallons=rng.choice([0.0, rng.uniform(0, highest_share) * trip.usable_gallons])),
    )


def with_random_first_stops(trip: Trip) -> Trip:
    """The trip whose first stop is at one of some of its stations."""
    rng = random.Random(repr(trip))
    indexes = range(len(trip.candidates))
    return replace(trip, first_stops=frozenset(rng.sample(indexes, k=min(len(indexes), rng.randint(1, 6)))))


def with_each(trip: Trip, change: Callable[[Candidate], Candidate]) -> Trip:
    return replace(trip, candidates=tuple(map(change, trip.candidates)))


VARIANTS: dict[str, Callable[[Trip], Trip]] = {
    "no reserve": lambda trip: replace(trip, reserve_gallons=0.0),
    "half a tank in reserve": lambda trip: replace(trip, reserve_gallons=trip.usable_gallons / 2),
    "a margin until the first stop": lambda trip: replace(trip, margin_gallons=0.2 * trip.usable_gallons),
    "less than the reserve until the first stop": lambda trip: replace(
        trip,
        margin_gallons=-0.6 * trip.reserve_gallons,
        start_gallons=min(trip.start_gallons, 2 * trip.reserve_gallons),
    ),
    "less than the reserve, and floors": lambda trip: with_random_floors(
        replace(trip, margin_gallons=-0.9 * trip.reserve_gallons, start_gallons=0.8 * trip.reserve_gallons)
    ),
    "nothing wanted at the end": lambda trip: replace(trip, end_gallons=0.0),
    "most of a tank wanted at the end": lambda trip: replace(trip, end_gallons=0.8 * trip.usable_gallons),
    "no smallest purchase": lambda trip: replace(trip, min_purchase_gallons=0.0),
    "a large smallest purchase": lambda trip: replace(trip, min_purchase_gallons=0.6 * trip.usable_gallons),
    "free stops": lambda trip: replace(trip, stop_cost=0.0),
    "dear stops": lambda trip: replace(trip, stop_cost=80.0),
    "no detours": lambda trip: with_each(trip, lambda one: one._replace(detour_miles_in=0.0, detour_miles_out=0.0)),
    "long detours": lambda trip: with_each(trip, lambda one: one._replace(detour_miles_in=30.0, detour_miles_out=45.0)),
    "any number of stops": lambda trip: replace(trip, max_stops=None),
    "no stops": lambda trip: replace(trip, max_stops=0),
    "one stop": lambda trip: replace(trip, max_stops=1),
    "three stops": lambda trip: replace(trip, max_stops=3),
    "nothing for what is left": lambda trip: replace(trip, leftover_value_per_gallon=0.0),
    "some of the price for what is left": lambda trip: replace(trip, leftover_value_per_gallon=3.0),
    "more than any price for what is left": lambda trip: replace(trip, leftover_value_per_gallon=6.0),
    "the first stop at some stations": with_random_first_stops,
    "less than the reserve until one of some stations": lambda trip: with_random_first_stops(
        replace(trip, margin_gallons=-0.8 * trip.reserve_gallons, start_gallons=0.9 * trip.reserve_gallons, max_stops=3)
    ),
    "low floors": lambda trip: with_random_floors(trip, 0.3),
    "floors": with_random_floors,
    "floors up to a full tank": lambda trip: with_random_floors(trip, 1.0),
    "a floor and one stop": lambda trip: with_random_floors(replace(trip, max_stops=1)),
    "floors and no smallest purchase": lambda trip: with_random_floors(replace(trip, min_purchase_gallons=0.0)),
    "floors that rise along the road": lambda trip: with_each(
        trip, lambda one: one._replace(floor_gallons=trip.reserve_gallons + 0.2 * one.mile / trip.mpg)
    ),
    "legs": with_random_legs,
    "legs and floors": lambda trip: with_random_floors(with_random_legs(trip)),
    "positive prices": lambda trip: with_each(trip, lambda one: one._replace(price=one.price % 1 + 3)),
    "negative prices": lambda trip: with_each(trip, lambda one: one._replace(price=one.price % 1 - 3)),
}


@st.composite
def coarse_trips(draw: st.DrawFn) -> Trip:
    """Trips of round numbers, so that limits meet exactly, prices tie and stations share a mile."""
    distance = draw(st.integers(1, 30)) * 40
    candidates = draw(
        st.lists(
            st.builds(
                lambda mile, into, out, price, floor: Candidate(
                    "S", float(mile * 40), float(into * 5), float(out * 5), price / 4, float(floor * 5)
                ),
                st.integers(0, distance // 40),
                st.integers(0, 4),
                st.integers(0, 4),
                st.integers(-8, 20),
                st.just(0) | st.integers(0, 16),
            ),
            max_size=8,
        )
    )
    reserve = draw(st.integers(0, 4))
    return Trip(
        distance_miles=float(distance),
        start_gallons=float(draw(st.integers(10, 100))),
        end_gallons=float(draw(st.integers(0, 100))),
        reserve_gallons=5.0 * reserve,
        usable_gallons=100.0,
        min_purchase_gallons=float(draw(st.integers(0, 8)) * 10),
        stop_cost=float(draw(st.sampled_from([0, 5, 20]))),
        mpg=5.0,
        max_stops=draw(st.none() | st.integers(0, 4)),
        candidates=tuple(sorted(candidates, key=lambda candidate: candidate.mile)),
        leftover_value_per_gallon=draw(st.sampled_from([0, 0, 2, 4])),
        margin_gallons=float(draw(st.sampled_from([0, 0, 5, 30]) | st.just(-5 * draw(st.integers(0, reserve))))),
    )


def trip(*candidates: tuple[float, float], **changes: float | int | None) -> Trip:
    """A trip of 500 miles at 5 mpg, from 60 gal of 100 usable, with a reserve of 10. Candidates are (mile, price), on
    the road."""
    given = Trip(
        distance_miles=500.0,
        start_gallons=60.0,
        end_gallons=10.0,
        reserve_gallons=10.0,
        usable_gallons=100.0,
        min_purchase_gallons=0.0,
        stop_cost=0.0,
        mpg=5.0,
        max_stops=None,
        candidates=tuple(
            Candidate(f"S{i}", float(mile), 0.0, 0.0, price) for i, (mile, price) in enumerate(candidates)
        ),
    )
    return replace(given, **changes)  # type: ignore[arg-type]
