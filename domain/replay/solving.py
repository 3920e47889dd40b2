"""Solves one driven trip on both sides of a replay, from its inputs alone.

Both sides have the exact optimum, without the rounding to what a pump shows: so a lower price never makes a trip
dearer, and a smaller network never makes it cheaper, to the cent."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from domain.accounts.policy import PlanPolicy
from domain.lifecycle import Objective
from domain.planning.floors import chance_below
from domain.planning.optimizer import solve
from domain.planning.plan_inputs import gallons_at, limits_of
from domain.planning.trips import drive_trip
from domain.planning.what_if import KeptTrip, Left, PassedStation, SolvedTrip, solve_under
from domain.replay.terms import QUOTES, ReplayTerms, Terms
from domain.stations.chains import brand_key
from domain.stations.prices import PRICE_DECIMALS, Deal, adjusted_price, net_price

CENT_DOLLARS = 0.01

Prices = Sequence[float | None]


class TripOutcome(StrEnum):
    """The outcome of a trip: compared, or why its two sides are not in the sums."""

    COMPARED = "compared"
    INFEASIBLE = "infeasible"
    """The first side keeps the policy's limits, or relaxes some; the second keeps fewer, or has no plan at all."""
    FEASIBLE = "feasible"
    """The second side keeps the policy's limits, the first does not."""
    OTHER_LIMITS = "other_limits"
    FORGOTTEN = "forgotten"
    UNREADABLE = "unreadable"
    TOO_FAR = "too_far"
    NO_PLAN = "no_plan"
    PRICES_UNKNOWN = "prices_unknown"
    BRANDS_UNKNOWN = "brands_unknown"


OUTCOMES_IN_WORDS: Mapping[TripOutcome, str] = {
    TripOutcome.COMPARED: "compared",
    TripOutcome.INFEASIBLE: "the limits of the policy cannot be kept any more",
    TripOutcome.FEASIBLE: "the limits of the policy can be kept now",
    TripOutcome.OTHER_LIMITS: "other limits had to be relaxed on each side",
    TripOutcome.FORGOTTEN: "its inputs are no longer kept",
    TripOutcome.UNREADABLE: "its inputs cannot be read",
    TripOutcome.TOO_FAR: "stations so far from the road were not looked at",
    TripOutcome.NO_PLAN: "no plan is feasible",
    TripOutcome.PRICES_UNKNOWN: "retail prices and deals were not kept apart then",
    TripOutcome.BRANDS_UNKNOWN: "the brand of a station is not known any more",
}


class Side(Struct, array_like=True, frozen=True):
    """The cheapest plan of one side. `cost_cents` counts the stops, too, and both sides by the first side's policy, as
    the optimizer does; `pump_cents` are paid at the pumps. `below_reserve` is the chance to fall below the reserve by
    a wrong mileage."""

    cost_cents: int
    pump_cents: int
    gallons: float
    stops: int
    detour_miles: float
    left_gallons: float
    below_reserve: float


class StationUse(Struct, array_like=True, frozen=True):
    """The purchases of a trip at one station on both sides."""

    station_id: str
    brand: str | None
    state: str | None
    gallons_before: float
    cents_before: int
    gallons_after: float
    cents_after: int


class DealUse(Struct, array_like=True, frozen=True):
    """A deal by whose price a trip buys: the gallons, and what the trip would cost more without it. None: without it
    no plan keeps the same limits. The number 0 stands for the quotes of price files."""

    number: int
    name: str
    gallons: float
    worth_cents: int | None


class OffNetworkUse(Struct, array_like=True, frozen=True):
    """The gallons of a trip at a station where the company had neither a deal nor a quote: as it is, and if every such
    station were a cent a gallon cheaper."""

    station_id: str
    brand: str | None
    gallons: float
    gallons_with_cent: float


class Solved(Struct, array_like=True, frozen=True):
    """The outcome of a trip, with both sides where they are compared."""

    outcome: TripOutcome
    before: Side | None = None
    after: Side | None = None
    stations: tuple[StationUse, ...] = ()
    deals: tuple[DealUse, ...] = ()
    off_network: tuple[OffNetworkUse, ...] = ()
    cent_worth_cents: float = 0.0
    """Cents that the trip would cost less if every station off the network were a cent a gallon cheaper."""


_OF_LEFT = {Left.TOO_FAR: TripOutcome.TOO_FAR, Left.INFEASIBLE: TripOutcome.NO_PLAN}


def solve_sides(inputs: KeptTrip, terms: ReplayTerms) -> Solved:
    """Both sides of a trip."""
    unknown = _unknown(inputs, terms)
    if unknown is not None:
        return Solved(unknown)
    policies = terms.policies()
    prices = [prices_under(inputs, one) for one in (terms.before, terms.after)]
    first = solve_under(inputs, policies[0], prices[0], solver=solve)
    second = first
    if policies[0] != policies[1] or not _stays_cheapest(first, policies[0], prices[0], prices[1]):
        second = solve_under(inputs, policies[1], prices[1], solver=solve, known=_solved(first))
    outcome = _outcome(first, second)
    if outcome is not TripOutcome.COMPARED or isinstance(first, Left) or isinstance(second, Left):
        return Solved(outcome)
    weighed = _weigh(inputs, policies[0], prices, (first, second)) if terms.weighs_deals else _Weighed()
    before, after = (
        _side(inputs, policies[0], policy, paid, solved)
        for policy, paid, solved in zip(policies, prices, (first, second), strict=True)
    )
    return Solved(outcome, before, after, _station_uses(inputs, prices, (first, second)), *weighed)


def _stays_cheapest(found: SolvedTrip | Left, policy: PlanPolicy, before: Prices, after: Prices) -> bool:
    """True if the cheapest plan is certainly the same with other prices: all are equal; or none is lower, and those
    where it buys are equal. Then every other plan costs what it cost before, or more, or is no plan any more."""
    if before == after:
        return True
    if isinstance(found, Left) or found.relaxed or policy.margin_dollars:
        return False
    if any(before[place] != after[place] for place, _ in found.purchases):
        return False
    return not any(new is not None and (old is None or new < old) for old, new in zip(before, after, strict=True))


def _solved(found: SolvedTrip | Left) -> SolvedTrip | None:
    return found if isinstance(found, SolvedTrip) else None


def _unknown(inputs: KeptTrip, terms: ReplayTerms) -> TripOutcome | None:
    sides = (terms.before, terms.after)
    if inputs.deals is None and (terms.weighs_deals or any(one.changes_prices for one in sides)):
        return TripOutcome.PRICES_UNKNOWN
    is_named = all(one.brand is not None for one in inputs.stations)
    if inputs.deals is None and not is_named and any(one.changes_network for one in sides):
        return TripOutcome.BRANDS_UNKNOWN
    return None


def _outcome(first: SolvedTrip | Left, second: SolvedTrip | Left) -> TripOutcome:
    if isinstance(first, Left):
        is_better = first is Left.INFEASIBLE and isinstance(second, SolvedTrip) and not second.relaxed
        return TripOutcome.FEASIBLE if is_better else _OF_LEFT[first]
    if isinstance(second, Left):
        return TripOutcome.INFEASIBLE if second is Left.INFEASIBLE else _OF_LEFT[second]
    relaxed = {(one.limit, one.used) for one in first.relaxed}, {(one.limit, one.used) for one in second.relaxed}
    if relaxed[0] == relaxed[1]:
        return TripOutcome.COMPARED
    if not relaxed[0]:
        return TripOutcome.INFEASIBLE
    return TripOutcome.FEASIBLE if not relaxed[1] else TripOutcome.OTHER_LIMITS


# --- Prices ----------------------------------------------------------------------------------------------------


def prices_under(inputs: KeptTrip, terms: Terms) -> Prices:
    """The net price at each station, None where the truck may not buy. A price that the terms do not touch stays as it
    is kept."""
    if not terms.changes_prices and not terms.changes_network:
        return [one.net_price for one in inputs.stations]
    return [_price_under(inputs, one, terms) if terms.has_brand(one.brand) else None for one in inputs.stations]


def _price_under(inputs: KeptTrip, station: PassedStation, terms: Terms) -> float | None:
    if not station.deals and station.quote is None and not terms.discounts:
        return station.net_price
    held = [] if inputs.deals is None else [inputs.deals[number] for number in station.deals]
    kept = [one for one in held if not terms.removes(one, station.station_id)]
    key = brand_key(station.brand)
    discounts = [Deal(dollars) for brand, dollars in terms.discounts if brand_key(brand) == key]
    keeps_quote = station.quote is None or not terms.removes_quotes
    if len(kept) == len(held) and keeps_quote:
        offered = net_price(station.retail_price, discounts) if discounts else None
        return station.net_price if offered is None else min(station.net_price, offered)
    quotes = [Deal(net_price=station.quote)] if station.quote is not None and keeps_quote else []
    price = net_price(station.retail_price, [*kept, *quotes, *discounts])
    return price if price is None or discounts else max(price, station.net_price)


# --- One side --------------------------------------------------------------------------------------------------


def _side(inputs: KeptTrip, valued_by: PlanPolicy, policy: PlanPolicy, prices: Prices, found: SolvedTrip) -> Side:
    *_, left = drive_trip(found.trip, found.solution.purchases)
    purchases = found.purchases
    pump_cents = sum(_cents(_paid(prices, index) * gallons) for index, gallons in purchases)
    detours = (inputs.stations[index].miles_in + inputs.stations[index].miles_out for index, _ in purchases)
    reserve_gallons = gallons_at(policy.reserve_percent, inputs.capacity_gallons)
    return Side(
        _cents(_cost(inputs, valued_by, prices, found, left)),
        pump_cents,
        round(sum(gallons for _, gallons in purchases), 3),
        len(purchases),
        round(sum(detours), 2),
        round(left, 3),
        round(chance_below(reserve_gallons, found.trip, found.solution.purchases, inputs.error), 4),
    )


def _cost(inputs: KeptTrip, policy: PlanPolicy, prices: Prices, found: SolvedTrip, left_gallons: float) -> float:
    """The cost of a plan as a policy counts it: fuel and stops, less the worth of the fuel left beyond what is
    wanted."""
    less_tax = policy.objective == Objective.TAX_ADJUSTED
    fuel = 0.0
    for index, gallons in found.purchases:
        price = _paid(prices, index)
        fuel += gallons * (adjusted_price(price, inputs.stations[index].tax) if less_tax else price)
    wanted_gallons = limits_of(policy, inputs.capacity_gallons).end_gallons
    worth = policy.leftover_value_per_gallon * (left_gallons - wanted_gallons)
    return fuel + policy.stop_cost * len(found.purchases) - worth


def _paid(prices: Prices, index: int) -> float:
    """The price at a station where a plan buys."""
    price = prices[index]
    if price is None:
        raise ValueError("a plan buys at a station without a price")
    return price


def _cents(dollars: float) -> int:
    return round(100 * dollars)


def _station_uses(
    inputs: KeptTrip, prices: Sequence[Prices], sides: tuple[SolvedTrip, SolvedTrip]
) -> tuple[StationUse, ...]:
    bought: dict[int, list[float]] = {}
    for side, (paid, solved) in enumerate(zip(prices, sides, strict=True)):
        for index, gallons in solved.purchases:
            sums = bought.setdefault(index, [0.0, 0, 0.0, 0])
            sums[2 * side] += round(gallons, 3)
            sums[2 * side + 1] += _cents(_paid(paid, index) * gallons)
    stations = inputs.stations
    return tuple(
        StationUse(
            stations[index].station_id,
            stations[index].brand,
            stations[index].state,
            sums[0],
            int(sums[1]),
            sums[2],
            int(sums[3]),
        )
        for index, sums in sorted(bought.items())
    )


# --- The worth of deals ----------------------------------------------------------------------------------------


class _Weighed(NamedTuple):
    deals: tuple[DealUse, ...] = ()
    off_network: tuple[OffNetworkUse, ...] = ()
    cent_worth_cents: float = 0.0


def _weigh(
    inputs: KeptTrip, policy: PlanPolicy, both: Sequence[Prices], solved: tuple[SolvedTrip, SolvedTrip]
) -> _Weighed:
    """The worth of each deal by whose price the plan buys, and of a cent at the stations off the network. A deal of
    which the plan does not buy is worth nothing on this trip: without it the same plan is the cheapest. `both` are the
    prices with all deals and without any, for which the trip is `solved`."""
    (prices, without_any), (found, found_without_any) = both, solved

    def cost_with(changed: Prices) -> tuple[SolvedTrip, float] | None:
        other: SolvedTrip | Left = found_without_any
        if changed != without_any:
            other = solve_under(inputs, policy, changed, solver=solve, known=found)
        if isinstance(other, Left) or _outcome(found, other) is not TripOutcome.COMPARED:
            return None
        *_, left = drive_trip(other.trip, other.solution.purchases)
        return other, _cost(inputs, policy, changed, other, left)

    *_, left = drive_trip(found.trip, found.solution.purchases)
    cost = _cost(inputs, policy, prices, found, left)
    uses = []
    for name, (number, label, gallons) in _deals_used(inputs, found).items():
        without = cost_with(prices_under(inputs, Terms(without_deals=(name,))))
        uses.append(DealUse(number, label, round(gallons, 3), None if without is None else _cents(without[1] - cost)))
    off = [not one.deals and one.quote is None for one in inputs.stations]
    cheaper = [
        price if price is None or not is_off else round(price - CENT_DOLLARS, PRICE_DECIMALS)
        for price, is_off in zip(prices, off, strict=True)
    ]
    with_cent = cost_with(cheaper) if any(off) else None
    if with_cent is None:
        return _Weighed(tuple(uses))
    after, cheaper_cost = with_cent
    return _Weighed(tuple(uses), _off_network(inputs, off, found, after), round(100 * (cost - cheaper_cost), 4))


def _deals_used(inputs: KeptTrip, found: SolvedTrip) -> dict[str, tuple[int, str, float]]:
    """The deals without which a price of the plan would be higher, by name: number, words and gallons."""
    used: dict[str, tuple[int, str, float]] = {}
    for index, gallons in found.purchases:
        station = inputs.stations[index]
        held = {str(number): (inputs.deals or {})[number] for number in station.deals}
        names = [*held, *([QUOTES] if station.quote is not None else [])]
        for name in names:
            if _price_under(inputs, station, Terms(without_deals=(name,))) != station.net_price:
                deal = held.get(name)
                label = "net prices of price files" if deal is None else deal_in_words(deal, station.station_id)
                before = used.get(name, (0, "", 0.0))[2]
                used[name] = (deal.number or 0 if deal is not None else 0, label, before + gallons)
    return used


def deal_in_words(deal: Deal, station_id: str) -> str:
    place = deal.brand if deal.brand is not None else station_id
    if deal.discount_per_gallon is not None:
        return f"{place}, ${deal.discount_per_gallon:.3f} off"
    return f"{place}, ${deal.net_price or 0.0:.3f} net"


def _off_network(
    inputs: KeptTrip, off: Sequence[bool], before: SolvedTrip, after: SolvedTrip
) -> tuple[OffNetworkUse, ...]:
    gallons: dict[int, list[float]] = {}
    for side, solved in enumerate((before, after)):
        for index, bought in solved.purchases:
            if off[index]:
                gallons.setdefault(index, [0.0, 0.0])[side] += round(bought, 3)
    return tuple(
        OffNetworkUse(inputs.stations[index].station_id, inputs.stations[index].brand, *both)
        for index, both in sorted(gallons.items())
    )


def with_brands(inputs: KeptTrip, brands: Mapping[str, str | None]) -> KeptTrip:
    """The inputs of a plan that kept no brands, with the brands that its stations have now."""
    stations = tuple(one._replace(brand=brands.get(one.station_id)) for one in inputs.stations)
    return replace(inputs, stations=stations)
