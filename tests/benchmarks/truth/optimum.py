"""The optimum that knows everything: the true burn, the true prices, and which stations are open.

The optimizer plans with one mileage. So the road is measured here by what it burns: a mile of it is what burns as much
as a mile at the truck's mileage.
"""

from domain.accounts.policy import PlanPolicy
from domain.planning.optimizer import solve
from domain.planning.plan_inputs import by_policy, limits_of
from domain.planning.trips import Candidate, Solution, fuel_without_purchases
from domain.planning.trips import Trip as PlannedTrip
from domain.stations.offers import Offer
from tests.benchmarks.truth.driver import Outcome
from tests.benchmarks.truth.world import Trip


def best(trip: Trip, policy: PlanPolicy) -> tuple[PlannedTrip, Solution] | None:
    """The best drive of the trip under the policy; None where none keeps its limits."""
    truck = trip.truck
    candidates = [
        _candidate(trip, one)
        for one in trip.offers
        if one.detour_miles <= policy.max_detour_miles and not trip.is_closed(one)
    ]
    planned = PlannedTrip(
        distance_miles=trip.burned(trip.road.distance_miles) * truck.mpg,
        start_gallons=trip.start_gallons,
        usable_gallons=truck.usable_gallons,
        mpg=truck.mpg,
        candidates=tuple(candidates),
        **by_policy(policy, limits_of(policy, truck.capacity_gallons)),
    )
    solution = solve(planned)
    return (planned, solution) if isinstance(solution, Solution) else None


def _candidate(trip: Trip, offer: Offer) -> Candidate:
    mpg = trip.truck.mpg
    detour_miles = offer.detour_miles * trip.gallons_a_mile(offer.mile) * mpg
    mile = trip.burned(offer.mile) * mpg
    return Candidate(offer.station.station_id, mile, detour_miles, detour_miles, trip.true_price(offer))


def compare(outcome: Outcome, trip: Trip, policy: PlanPolicy) -> None:
    """Adds to a drive what the optimum costs, and the price at which fuel left in the tank is counted."""
    found = best(trip, policy)
    if found is None:
        return
    planned, solution = found
    gallons = sum(one.gallons for one in solution.purchases)
    fuel = sum(planned.candidates[one.candidate_index].price * one.gallons for one in solution.purchases)
    outcome.optimum_dollars = fuel + policy.stop_cost * len(solution.purchases)
    outcome.optimum_left_gallons = fuel_without_purchases(planned, solution.purchases)[-1] + gallons
    prices = [one.price for one in planned.candidates]
    outcome.mean_price = sum(prices) / len(prices)
    outcome.fuel_price = fuel / gallons if gallons else outcome.mean_price
