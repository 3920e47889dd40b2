"""Checks the certificate of a fuel plan: the plan keeps its limits, and no other plan within them costs less.

It shares nothing with the optimizer, and counts in whole numbers. A level is the fuel in the tank and what the road has
burned so far: driving on leaves it as it is. The bound has a cost function of the level before each candidate and at
the end: a truck that has stopped pays no less for the rest of its trip, and has no way on from a level without a piece:
    before(level) <= behind(level)                                                       where the truck drives past
    before(level) <= stop cost + price * gallons + behind(level + gallons - detour)      for every stop

The bound is for any fractions of gallons, and a plan in tenths costs some cents more. So every way to begin the trip in
tenths is followed from stop to stop, while its cost and the bound for the rest are below the cost of the plan.
"""

import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ONE = 10**12  # numbers are counted in parts of this size; prices times gallons in ONE * ONE parts of a dollar
TINY, EDGE = ONE // 10**6, 100  # parts of a gallon by which plans may break a limit; and others in whole steps may
FAR, NEVER, MOST_WAYS = ONE**2, ONE**6, 5_000  # above any level; above any cost; to begin a trip
STEPS = {1: ""} | {ONE // parts: f" in steps of 1/{parts} gallon" for parts in (10, 100, 1000)}
FILE = "format about trip candidates plan bound"
TRIP = """distance_miles mpg burned start_gallons usable_gallons reserve_gallons end_gallons min_purchase_gallons
    stop_cost leftover_value_per_gallon spare_gallons margin_gallons max_stops"""


class Refused(Exception):
    """The certificate does not prove what it says; the text says why."""


class NotProven(Refused):
    """The plan keeps its limits, but another one costs less, or may."""


def must(kept: bool, otherwise: str, refusal: type[Refused] = Refused) -> None:
    if not kept:
        raise refusal(otherwise)


def parts(digits: str) -> int:
    must(bool(re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,12})?", digits)), f"{digits[:30]} is not a plain number")
    return int(digits.replace(".", "") + "0" * (12 - len(digits.partition(".")[2])))


def fields(pairs: Any, names: str) -> Any:
    must(type(pairs) is tuple and sorted(name for name, _ in pairs) == sorted(names.split()), f"expected once: {names}")
    return [dict(pairs)[name] for name in names.split()]


def number(value: Any, least: Any = 0) -> int:
    must(type(value) is int and value >= least, "a number is missing or too small")
    return int(value)


class Certificate:
    """Limits and candidates, as levels. Other plans may break each limit by `room`, or leave that if it is negative."""

    def __init__(self, trip: Any, candidates: Any) -> None:
        distance, mpg, legs, *limits, margin, most_stops = fields(trip, TRIP)
        start, usable, reserve, end, least, self.stop_cost, self.worth, self.spare = map(number, limits)
        must(self.spare <= ONE // 100 and type(legs) is list and (mpg is None) == bool(legs), "the limits are wrong")
        self.most_stops, self.room = FAR if most_stops is None else number(most_stops) // ONE, TINY - self.spare
        self.legs = [tuple(map(number, leg)) for leg in legs or ([0, 0], [number(mpg) * ONE, ONE * ONE])]
        must(self.legs[0] == (0, 0) and all(a < c and b <= d for (a, b), (c, d) in pairwise(self.legs)), "wrong legs")
        first, burned = reserve + number(margin, -FAR), self.burn(number(distance))
        self.start, self.end, self.full = min(start, usable), end + burned, usable + burned
        self.lowest, self.lowest_unstopped = (max(fuel, end) + burned for fuel in (reserve, first))
        self.candidates, mile_before = list[Any](), 0
        for name, mile, into, out, pump_price, price, floor in candidates:
            must(isinstance(name, str) and mile_before <= number(mile) <= distance, "the candidates are out of order")
            burned, mile_before = self.burn(mile), mile
            into, out = (self.burn(mile, number(miles)) for miles in (into, out))
            self.candidates.append(one := SimpleNamespace(price=number(price, -FAR), pump_price=number(pump_price)))
            one.lowest, one.passing = max(reserve, number(floor)) + burned + into, reserve + burned
            one.first = (first if first < reserve else max(first, floor)) + burned + into
            one.highest, one.full, one.detour = usable + burned - out, usable + burned, into + out
            one.smallest = max(least, ONE // 10, one.detour)

    def burn(self, mile: int, detour: int | None = None) -> int:  # by the road up to a mile, or by a detour there
        (a, b), (c, d) = next(leg for leg in pairwise(self.legs) if mile <= leg[1][0])
        return b + (d - b) * (mile - a) // (c - a) if detour is None else (d - b) * detour // (c - a)

    def drive(self, step: int, stops: Any, dollars: Any, cost: Any) -> int:
        """The cost of a plan in whole steps by its objective, after driving it."""
        level, exact, due, before = self.start, self.stop_cost * len(stops) * ONE, 0, -1
        for place, gallons, paid in stops:
            one = self.candidates[at := number(place) // ONE]
            must(level >= (one.first if before < 0 else one.lowest) - TINY, f"too little fuel at candidate {at}")
            must(at > before and number(gallons) >= one.smallest - TINY, f"the plan buys too little at candidate {at}")
            level, exact, due, before = level + gallons - one.detour, exact + gallons * one.price, due + paid, at
            must(one.passing - TINY <= level <= one.highest + TINY, f"the plan leaves candidate {at} too low or high")
            owed = (gallons * one.pump_price * 100 // ONE + ONE // 2) // ONE * ONE // 100
            must(paid == owed and gallons % step == 0 and len(stops) <= self.most_stops, "wrong dollars, step or stops")
        must(level >= (self.lowest if stops else self.lowest_unstopped) - TINY, "too little at the end")
        exact -= self.worth * (level - self.end)
        must(dollars == due and abs(number(cost, -FAR) * ONE - exact) <= TINY * ONE, "the plan's totals are wrong")
        return int(exact)

    def pieces(self, rows: Any) -> Any:
        """Pieces, each from a level to just below another one, with the cost `base + slope * level`; or dead ends."""
        for (low, *line), (high, *_) in pairwise([(-FAR,), *rows, (FAR,)]):
            must(number(low, -FAR) < number(high, -FAR), "the levels of a cost function do not rise")
            base, slope = line or (NEVER, 0)
            yield low, high - 1, number(base, -FAR) * ONE, number(slope, -FAR)

    def below(self, most: int, function: Any, step: int, low: int, high: int, slope: int, base: int) -> Any:
        """Ends of pieces where a function and `base + slope * level` are below `most`, `low` to `high` in steps."""
        for lowest, highest, more, steeper in function:
            ends = low - min(0, (low - lowest) // step * step), high + min(0, (highest - high) // step * step)
            if more < NEVER and ends[0] <= ends[1] and min(base + more + (slope + steeper) * at for at in ends) < most:
                yield from ends

    def after_stop(self, one: Any, step: int, room: int, stops: int, low: int, high: int, slope: int, base: int) -> Any:
        """The cheapest ways to levels behind a stop, from ways that cost `base + slope * level` ahead of it."""
        low -= min(0, (low + room - (one.lowest if stops else one.first)) // step * step)
        rise = -((room - one.smallest) // step * step) - one.detour  # by the least that is bought
        fullest = low + (one.highest + room - rise - low) // step * step  # arriving fuller leaves no room for the least
        if low <= min(high, fullest):
            paid = base + self.stop_cost * ONE + one.price * one.detour
            best = min(high, fullest) if slope < one.price else low  # to arrive with, where more is bought
            if low < best:
                yield low + rise, best + rise, slope, paid + (one.price - slope) * rise
            yield best + rise, fullest + rise, one.price, paid + (slope - one.price) * best

    def check_bound(self, counts_stops: Any, functions: Any) -> None:
        """No truck that has stopped before pays less for the rest of its trip than the functions say."""
        end = SimpleNamespace(passing=-FAR, lowest=FAR, highest=0, smallest=0, detour=0)  # nobody stops there
        self.counts_stops, self.left = counts_stops is True, (FAR, self.worth * self.end, -self.worth)
        layers = range(min(self.most_stops, len(self.candidates)) if self.counts_stops else 1)  # by the stops left
        known = {(number(at) // ONE, number(left) // ONE): list(self.pieces(rows)) for at, left, rows in functions}
        must(len(known) == len(functions) and max(known, default=(0,))[0] <= len(self.candidates), "odd functions")
        behind = [[(self.lowest - self.room, *self.left)] for _ in layers]
        for at, one in reversed(list(enumerate([*self.candidates, end]))):
            one.behind, unless = behind, [list(self.pieces([]))] * len(layers) if one is end else behind
            before = [known.get((at, left), unless[left]) for left in layers]
            lowest, highest = one.passing - self.room, self.candidates[at - 1].full + self.room if at else 0
            stopped = [[], *behind][: len(layers)] if self.counts_stops else behind
            for function, past, after in zip(before, behind, stopped, strict=True) if at else ():
                for low, high, base, slope in function:
                    way: Any = (max(low, lowest), min(high, highest), -slope, -base)
                    stops: Any = [(after, *other) for other in self.after_stop(one, 1, self.room, 1, *way)]
                    wrong = [self.below(0, ahead, 1, *other) for ahead, *other in ((past, *way), *stops)]
                    must(not [level for levels in wrong for level in levels], "the bound is wrong")
            behind = before

    def check_cost(self, step: int, most: int) -> None:
        """No plan in whole steps costs less than `most`."""
        room, ways = EDGE - self.spare, {(0, self.start, self.start, 0): 0}
        ends = [[(lowest - room, *self.left)] for lowest in (self.lowest_unstopped, self.lowest)]
        cheaper = [*self.below(most, ends[0], 1, self.start, self.start, 0, 0)]
        for one in self.candidates:
            for (stops, low, high, slope), base in [way for way in ways.items() if way[0][0] < self.most_stops]:
                behind = one.behind[-1 - stops if self.counts_stops else 0]
                for a, b, tilt, cost in self.after_stop(one, step, room, stops, low, high, slope, base):
                    if levels := [*self.below(most, behind, step, a, b, tilt, cost)]:
                        key = stops + 1 if self.most_stops < FAR else 1, min(levels), max(levels), tilt
                        ways[key] = min(cost, ways.get(key, cost))
                        cheaper += self.below(most, ends[1], step, key[1], key[2], tilt, cost)
                        must(not cheaper and len(ways) < MOST_WAYS, "another plan costs less, or may", NotProven)
        must(not cheaper, "the trip without a stop costs less", NotProven)


def check_certificate(text: bytes) -> str:
    """Check a certificate, and say what it proves. Raises Refused where it does not."""
    hooks: Any = dict.fromkeys(("parse_float", "parse_int", "parse_constant"), parts) | {"object_pairs_hook": tuple}
    try:
        kind, _, trip, candidates, plan, bound = fields(json.loads(text.decode(), **hooks), FILE)
        must(kind in ("fuelroute-certificate-1", "fuelroute-certificate-2"), "it is no certificate of a known version")
        checked = Certificate(trip, candidates)
        checked.check_bound(*fields(bound, "counts_stops functions"))
        room = f" with {checked.spare / ONE:f} gallons of room" if checked.spare else ""
        others = f"that passes these {len(candidates)} truck stops within these limits{room}"
        if plan is None:
            checked.check_cost(1, NEVER)
            return f"There is no plan {others}."
        if kind[-1] == "1":  # the bound alone proves it, to 51 cents
            *totals, above, chosen = fields(plan, "stops dollars cost above_least chosen")
            step, steps, cost, more, equal = 1, "", checked.drive(1, *totals), number(above) * ONE, 51 * ONE**2 // 100
        else:
            *totals, step, chosen, other = fields(plan, "stops dollars cost step_gallons chosen cheapest")
            steps, cost, equal = STEPS[step], checked.drive(1 if other else step, *totals), ONE**2 // 10**4
            more = cost - checked.drive(step, *fields(other, "stops dollars cost")) if other else 0
        checked.check_cost(step, cost - more - (equal if step > 1 else 0))
        told = f"{'at most ' if kind[-1] == '1' else ''}${more / ONE**2:.4f} more than the cheapest"
        must(chosen is True or more <= equal, f"the plan costs {told}", NotProven)
        told = f"${cost / ONE**2:.4f}{' as its driver chose' if chosen else ''}, {told}: no plan{steps} {others}"
        return f"The plan costs {told} costs less than ${(cost - more) / ONE**2:.4f}."
    except (ValueError, TypeError, KeyError, IndexError, StopIteration, RuntimeError) as error:
        raise Refused(f"it is no certificate: {type(error).__name__}") from error


if __name__ == "__main__":
    try:
        print(check_certificate(Path(sys.argv[1]).read_bytes()))
    except Refused as error:
        print("Not proven:" if isinstance(error, NotProven) else "Refused:", error, file=sys.stderr)
        sys.exit(3 if isinstance(error, NotProven) else 1)
