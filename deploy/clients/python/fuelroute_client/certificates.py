"""Checks the certificate of a fuel plan: the plan keeps its limits, and no other plan within them costs less.

Run `python certificates.py FILE`. It shares nothing with the optimizer, and counts in whole numbers.

A level is the fuel in the tank and what the road has burned so far: driving on leaves it as it is. The bound has a cost
function of the level before each candidate and behind the last: a truck that has stopped before pays no less for the
rest of its trip. A level without a piece cannot reach the end. That is checked from the last candidate to the first:

    before(level) <= behind(level)                                                       where the truck drives past
    before(level) <= stop cost + price * gallons + behind(level + gallons - detour)      for every stop

Then each candidate is tried as the first stop. The least cost that is found is one that no plan can undercut.
"""

import json
import re
import sys
from itertools import pairwise
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ONE = 10**12  # numbers are counted in parts of this size; prices times gallons in ONE * ONE parts of a dollar
CENT = ONE // 100
ROUNDING = 51 * CENT  # dollars that gallons as a pump shows them may cost more than gallons in any fraction
TINY = ONE // 10**6  # gallons by which any plan may break a limit: far more than fractions of parts come to
TRIP = """distance_miles mpg burned start_gallons usable_gallons reserve_gallons end_gallons min_purchase_gallons
    stop_cost leftover_value_per_gallon spare_gallons margin_gallons max_stops"""


class Refused(Exception):
    """The certificate does not prove what it says; the text says why."""


def must(kept: bool, otherwise: str) -> None:
    if not kept:
        raise Refused(otherwise)


def parts(digits: str) -> int:
    must(bool(re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,12})?", digits)), f"{digits[:30]} is not a plain number")
    whole, _, decimals = digits.partition(".")
    return int(whole + decimals.ljust(12, "0"))


def fields(pairs: Any, names: str) -> Any:
    kept = type(pairs) is tuple and sorted(name for name, _ in pairs) == sorted(names.split())
    must(kept, f"expected each of these fields once: {names}")
    return [dict(pairs)[name] for name in names.split()]


def number(value: Any, least: Any = 0) -> int:
    must(type(value) is int and value >= least, "a number is missing or too small")
    return int(value)


def pieces(rows: Any) -> Any:
    """Pieces from level to level, with the cost `base + slope * level`. A row without a cost begins a gap."""
    for (low, *line), (high, *_) in pairwise(rows):
        must(number(low, -inf) < number(high, -inf), "the levels of a cost function do not rise")
        if line:
            base, slope = line
            yield low, high, number(base, -inf) * ONE, number(slope, -inf)


def between(function: Any, low: Any, high: Any) -> Any:
    """The pieces of a function from one level to another, cut there. There may be no gap."""
    for lowest, highest, base, slope in function:
        if lowest <= low < min(highest, high):
            yield low, min(highest, high), base, slope
            low = highest
    must(low >= high, "the bound calls a level a dead end that is none")


class Certificate:
    """Limits and candidates, as levels. Other plans may break each limit by `room`, or leave that if it is negative."""

    def __init__(self, trip: Any, candidates: Any) -> None:
        distance, mpg, legs, *limits, margin, most_stops = fields(trip, TRIP)
        start, usable, reserve, end, least, self.stop_cost, self.worth, spare = map(number, limits)
        must(spare <= CENT and type(legs) is list and (mpg is None) == bool(legs), "the limits are wrong")
        self.most_stops, self.room = inf if most_stops is None else number(most_stops) // ONE, TINY - spare
        self.legs = [tuple(map(number, leg)) for leg in legs or ([0, 0], [number(mpg) * ONE, ONE * ONE])]
        rise = all(a < c and b <= d for (a, b), (c, d) in pairwise(self.legs))
        must(rise and self.legs[0] == (0, 0) and self.legs[-1][0] >= number(distance), "the legs are wrong")
        first, burned = reserve + number(margin, -inf), self.burn(distance)
        self.start, self.end, self.full = min(start, usable), end + burned, usable + burned + self.room
        self.lowest, self.lowest_unstopped = (max(fuel, end) + burned - self.room for fuel in (reserve, first))
        self.candidates, mile_before = list[Any](), 0
        for name, mile, into, out, pump_price, price, floor in candidates:
            must(isinstance(name, str) and mile_before <= number(mile) <= distance, "the candidates are out of order")
            burned, mile_before = self.burn(mile), mile
            into, out = (self.burn(mile, number(miles)) for miles in (into, out))
            self.candidates.append(one := SimpleNamespace(price=number(price, -inf), pump_price=number(pump_price)))
            one.lowest, one.passing = max(reserve, number(floor)) + burned + into, reserve + burned
            one.first = (first if first < reserve else max(first, floor)) + burned + into
            one.highest, one.full, one.detour = usable + burned - out, usable + burned, into + out
            one.smallest = max(least, ONE // 10, one.detour)

    def burn(self, mile: int, detour: int | None = None) -> int:
        """Gallons of the road up to a mile, or of a detour there."""
        (a, b), (c, d) = next(leg for leg in pairwise(self.legs) if mile <= leg[1][0])
        return b + (d - b) * (mile - a) // (c - a) if detour is None else (d - b) * detour // (c - a)

    def drive(self, stops: Any, dollars: Any, cost: Any) -> int:
        """The cost of the plan by its objective, after driving it."""
        must(len(stops) <= self.most_stops, "the plan makes too many stops")
        level, exact, due, before = self.start, self.stop_cost * len(stops) * ONE, 0, -1
        for place, gallons, paid in stops:
            one = self.candidates[at := number(place) // ONE]
            must(at > before and number(gallons) >= one.smallest - TINY, f"the plan buys too little at candidate {at}")
            must(level >= (one.first if before < 0 else one.lowest) - TINY, f"too little fuel at candidate {at}")
            level, exact, due, before = level + gallons - one.detour, exact + gallons * one.price, due + paid, at
            must(one.passing - TINY <= level <= one.highest + TINY, f"the plan leaves candidate {at} too low or high")
            must(paid == (gallons * one.pump_price // CENT + ONE // 2) // ONE * CENT, "the plan's dollars are wrong")
        must(level + TINY >= (self.lowest if stops else self.lowest_unstopped) + self.room, "too little at the end")
        exact -= self.worth * (level - self.end)
        must(dollars == due and abs(number(cost, -inf) * ONE - exact) <= TINY * ONE, "the plan's totals are wrong")
        return int(exact)

    def check_passing(self, before: Any, behind: Any, lowest: Any, highest: Any) -> None:
        for low, high, base, slope in behind if before is not behind else ():
            for a, b, base_before, slope_before in between(before, max(low, lowest), min(high, highest)):
                for level in (a, b):
                    must(base_before + slope_before * level <= base + slope * level, "the bound of passing by is wrong")

    def with_stop(self, one: Any, behind: Any) -> Any:
        """The function behind a stop and the cost of the stop, but for price times the level on arriving."""
        paid = self.stop_cost * ONE + one.price * one.detour
        cut = ((low, min(high, one.highest + self.room), *line) for low, high, *line in behind)
        return [(low, high, base + paid, slope + one.price) for low, high, base, slope in cut if low < high]

    def check_stop(self, one: Any, before: Any, behind: Any) -> None:
        rise = one.smallest - one.detour - self.room
        for low, high, base, slope in self.with_stop(one, behind):
            for a, b, base_before, slope_before in between(before, one.lowest - self.room, high - rise):
                for leaving in (max(low, a + rise), min(max(low, b + rise), high), high):
                    for arriving in (a, min(b, leaving - rise)):  # at the corners of all pairs of levels
                        asked = base_before + (slope_before + one.price) * arriving
                        must(asked <= base + slope * leaving, "the bound of stopping is wrong")

    def first_stop(self, one: Any, behind: Any) -> Any:
        """The least cost of a trip with its first stop at a candidate."""
        lowest = self.start + one.smallest - one.detour - self.room
        reached = [(max(low, lowest), *others) for low, *others in self.with_stop(one, behind)]
        costs = [base + slope * level for low, high, base, slope in reached if low <= high for level in (low, high)]
        return min(costs) - one.price * self.start if costs and self.start >= one.first - self.room else inf

    def least_cost(self, counts_stops: Any, functions: Any) -> Any:
        """The cost that no plan can undercut, after checking the functions; infinite where there is no plan."""
        count, counts_stops = len(self.candidates), counts_stops is True
        layers = int(min(self.most_stops, count)) if counts_stops else 1
        known = {(number(at) // ONE, number(left) // ONE): list(pieces(rows)) for at, left, rows in functions}
        must(len(known) == len(functions), "a cost function comes twice")
        least = -self.worth * (self.start - self.end) if self.start >= self.lowest_unstopped else inf
        behind = [known.get((count, left), []) for left in range(layers)]  # by the stops left, where they count
        for function in behind:
            self.check_passing(function, [(self.lowest, self.full, self.worth * self.end, -self.worth)], -inf, inf)
        for at, one in reversed(list(enumerate(self.candidates))):
            least = min([least, *(self.first_stop(one, function) for function in behind[-1:])])
            before = [known.get((at, left), behind[left]) for left in range(layers)]
            highest = self.candidates[at - 1].full + self.room
            for left in range(layers) if at else ():
                self.check_passing(before[left], behind[left], one.passing - self.room, highest)
                if left >= counts_stops:
                    self.check_stop(one, before[left], behind[left - counts_stops])
            behind = before
        return least


def check_certificate(text: bytes) -> str:
    """Check a certificate, and say what it proves. Raises Refused where it does not."""
    hooks: Any = dict.fromkeys(("parse_float", "parse_int", "parse_constant"), parts) | {"object_pairs_hook": tuple}
    try:
        file = fields(json.loads(text.decode(), **hooks), "format about trip candidates plan bound")
        kind, _, trip, candidates, plan, bound = file
        must(kind == "fuelroute-certificate-1", "it is no certificate of this version")
        certificate = Certificate(trip, candidates)
        least = certificate.least_cost(*fields(bound, "counts_stops functions"))
        spare = f" with {(TINY - certificate.room) / ONE:f} gallons of room" if certificate.room < 0 else ""
        others = f"no plan that passes these {len(candidates)} truck stops within these limits{spare}"
        if plan is None:
            must(least == inf, "the bound leaves a plan possible")
            return f"There is {others}."
        *totals, above, chosen = fields(plan, "stops dollars cost above_least chosen")
        cost, why = certificate.drive(*totals), " as its driver's choice" if chosen else ""
        must(least < inf and cost - least <= number(above) * ONE, "other plans may cost less than it says")
        must(chosen is True or above <= ROUNDING, "it does not say that the plan is the cheapest")
        told = f"costs ${cost / ONE**2:.4f}{why}, at most ${above / ONE:.4f} more than the cheapest"
        return f"The plan {told}: {others} costs less than ${least / ONE**2:.4f}."
    except (ValueError, TypeError, KeyError, IndexError, StopIteration, RuntimeError) as error:
        raise Refused(f"it is no certificate: {type(error).__name__}") from error


if __name__ == "__main__":
    try:
        print(check_certificate(Path(sys.argv[1]).read_bytes()))
    except Refused as error:
        sys.exit(f"Refused: {error}")
