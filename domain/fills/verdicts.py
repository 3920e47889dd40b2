"""The rule that compares a route's planned fuel stops with what was bought, in whole cents.

Of a planned stop, with planned gallons g at price p, and bought gallons G for C cents:

- gallons: p x (G - g), rounded to a cent; price: the rest of C - p x g.

Of a missed stop, everything that was planned counts as gallons: -p x g. A purchase elsewhere is measured by the price r
of the stops that were missed, else of the whole plan, else by its own: gallons: r x G; wrong place: the rest of C. So a
stop that was swapped for another one of the same gallons costs nothing by gallons, and the difference of the
prices by its place. Each row's causes add up to what was paid less what was planned.
"""

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from domain.fills.matching import STATION_OF_STOP_MILES
from domain.roads import Point, great_circle_miles

FOLLOWED_GALLONS, FOLLOWED_SHARE = 5.0, 0.1
"""A stop was followed if its gallons differ from the plan's by at most the larger of five gallons and a tenth."""


class Verdict(StrEnum):
    """The outcome of a planned fuel stop."""

    FOLLOWED = "followed"
    PARTLY = "partly"
    """Fuel was bought there, but other gallons."""
    MISSED = "missed"
    ELSEWHERE = "elsewhere"
    """Fuel was bought at a station outside of the plan."""


class PlannedStop(NamedTuple):
    name: str
    place: Point
    gallons: float
    price_per_gallon: float
    cents: int
    plan_id: UUID | None = None
    station_id: str | None = None
    """The station; None where a plan of an older release names none."""


class BoughtFill(NamedTuple):
    """A purchase of tractor diesel. `place` is None if its station is not known."""

    name: str
    place: Point | None
    gallons: float
    cents: int


class StopVerdict(NamedTuple):
    """One row of the comparison. The causes are in cents; more than planned is positive."""

    verdict: Verdict
    place: str
    planned_gallons: float
    planned_cents: int
    bought_gallons: float
    paid_cents: int
    price_cents: int
    gallons_cents: int
    place_cents: int


class Comparison(NamedTuple):
    verdicts: list[StopVerdict]
    numbers: list[int]
    """The number of each fill's row, from 1."""


def compare_with_plan(planned: Sequence[PlannedStop], fills: Sequence[BoughtFill], *, is_finished: bool) -> Comparison:
    """Compare the planned stops, in driving order, with the fills, in order of time. While the route is not finished,
    stops after the last one with a fill are left out: they may still be followed."""
    stops_of = _stops_of(planned, fills)
    at_stop = [[fill for fill, stop in zip(fills, stops_of, strict=True) if stop == one] for one in range(len(planned))]
    reached = max((stop for stop in stops_of if stop is not None), default=-1)
    judged = len(planned) if is_finished else reached + 1
    verdicts = [_of_stop(stop, at_stop[one]) for one, stop in enumerate(planned[:judged])]
    missed = [stop for one, stop in enumerate(planned[:judged]) if not at_stop[one]]
    measure = _price(missed) or _price(planned)
    numbers = []
    for fill, stop in zip(fills, stops_of, strict=True):
        if stop is None:
            verdicts.append(_elsewhere(fill, measure))
            numbers.append(len(verdicts))
        else:
            numbers.append(stop + 1)
    return Comparison(verdicts, numbers)


def _stops_of(planned: Sequence[PlannedStop], fills: Sequence[BoughtFill]) -> list[int | None]:
    """The planned stop of each fill. If the plan stops twice at one station, a fill belongs to the first one that is
    not behind the last fill and has none yet, or else to the last one."""
    stops: list[int | None] = []
    for fill in fills:
        here = [
            number
            for number, stop in enumerate(planned)
            if fill.place is not None and great_circle_miles(fill.place, stop.place) <= STATION_OF_STOP_MILES
        ]
        last = max((stop for stop in stops if stop is not None), default=-1)
        ahead = [number for number in here if number not in stops and number > last]
        stops.append(ahead[0] if ahead else here[-1] if here else None)
    return stops


def _of_stop(stop: PlannedStop, fills: Sequence[BoughtFill]) -> StopVerdict:
    bought, paid = float(sum(fill.gallons for fill in fills)), sum(fill.cents for fill in fills)
    by_gallons = -stop.cents if not fills else _cents(stop.price_per_gallon, bought - stop.gallons)
    return StopVerdict(
        _verdict(stop, bought) if fills else Verdict.MISSED,
        stop.name,
        stop.gallons,
        stop.cents,
        bought,
        paid,
        paid - stop.cents - by_gallons,
        by_gallons,
        0,
    )


def _verdict(stop: PlannedStop, bought: float) -> Verdict:
    is_near = abs(bought - stop.gallons) <= max(FOLLOWED_GALLONS, FOLLOWED_SHARE * stop.gallons)
    return Verdict.FOLLOWED if is_near else Verdict.PARTLY


def _elsewhere(fill: BoughtFill, measure: float | None) -> StopVerdict:
    by_gallons = fill.cents if measure is None else _cents(measure, fill.gallons)
    return StopVerdict(
        Verdict.ELSEWHERE, fill.name, 0.0, 0, fill.gallons, fill.cents, 0, by_gallons, fill.cents - by_gallons
    )


def _price(stops: Sequence[PlannedStop]) -> float | None:
    """The average price of the stops, dollars a gallon."""
    gallons = sum(stop.gallons for stop in stops)
    return sum(stop.cents for stop in stops) / 100 / gallons if gallons > 0 else None


def _cents(price_per_gallon: float, gallons: float) -> int:
    cents = Decimal(repr(price_per_gallon)) * Decimal(repr(gallons)) * 100
    return int(cents.quantize(Decimal(1), ROUND_HALF_EVEN))
