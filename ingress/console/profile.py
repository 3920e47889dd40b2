"""The fuel profile of a plan as figures of an SVG.

Above is the net price of each station along the road, below it the fuel in the tank, mile by mile. Over it lie the
readings of the truck's gauge and the earlier plans."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

import numpy as np

from domain.languages.words import purchase_in_words
from domain.planning.explanation import ExplainedCandidate, Explanation
from domain.planning.retrace import TankLevel, planned_levels, shown_levels
from domain.roads.states import default_states
from domain.routes.reading.history import DrivenLevel, History


class Plot(NamedTuple):
    """The places of the two parts of the drawing."""

    width: float = 1000
    height: float = 400
    left: float = 58
    right: float = 984
    prices_top: float = 34
    prices_bottom: float = 128
    tank_top: float = 168
    tank_bottom: float = 368


PLOT = Plot()
_MOST_LABELS = 14
"""Most refills with a label. More labels would cover each other, and the text under the pointer and the table have them
all."""
_MOST_ROWS = 100
"""Most rows of the table. More would tell people no more than the plan's stops above it."""
_MOST_STATES = 60
"""Most states with borders. More borders would cover the fuel, so a way that goes to and fro more often has none."""
_NARROWEST_STATE = 30.0
"""Narrowest stretch with room for the name of its state."""
_TICKS = 8
_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


class Tick(NamedTuple):
    at: float
    label: str


class Dot(NamedTuple):
    x: float
    y: float
    label: str
    is_chosen: bool


class Refill(NamedTuple):
    x: float
    empty_y: float
    full_y: float
    label: str
    """The gallons and the price, short enough for the drawing; empty without room."""
    title: str
    anchor: str
    """The side of the step with its label, in the words of SVG."""


class Version(NamedTuple):
    """Another plan of the route, laid over the current one so that both end at one place."""

    id: UUID
    number: int
    points: str


class Row(NamedTuple):
    """One line of the profile as a table."""

    mile: float
    what: str
    gallons: float
    percent: float


class Profile(NamedTuple):
    levels: str
    """Points of a polyline, like the fields below."""
    area: str
    reserve_y: float
    wanted: tuple[float, float] | None
    """The line of the fuel wanted at the end: where it begins, and its height."""
    miles: list[Tick]
    gallons: list[Tick]
    prices: list[Tick]
    states: list[Tick]
    """The places where the road enters each state; a label is empty without room. No places if there are too many."""
    dots: list[Dot]
    refills: list[Refill]
    readings: str
    versions: list[Version]
    rows: list[Row]


class _Scale(NamedTuple):
    """Turns miles, gallons and dollars into places."""

    distance: float
    capacity: float
    least_price: float
    most_price: float

    def x(self, mile: float) -> float:
        return round(PLOT.left + (PLOT.right - PLOT.left) * mile / self.distance, 1)

    def tank(self, gallons: float) -> float:
        return round(PLOT.tank_bottom - (PLOT.tank_bottom - PLOT.tank_top) * gallons / self.capacity, 1)

    def price(self, dollars: float) -> float:
        share = (dollars - self.least_price) / (self.most_price - self.least_price)
        return round(PLOT.prices_bottom - (PLOT.prices_bottom - PLOT.prices_top) * share, 1)

    def line(self, levels: Iterable[TankLevel], *, from_mile: float = 0.0) -> str:
        return " ".join(f"{self.x(mile + from_mile):g},{self.tank(gallons):g}" for mile, gallons in levels)


def draw_profile(
    history: History | None, explanation: Explanation, driven: Sequence[DrivenLevel] = ()
) -> Profile | None:
    """The profile of a plan; None if there is nothing to draw: no plan is feasible, or the way has no length. Without a
    history it is the plan of a load that nobody drives."""
    inputs = explanation["inputs"]
    if explanation["infeasible"] is not None or inputs["distance_miles"] <= 0:
        return None
    levels = planned_levels(explanation)
    scale = _scale_of(explanation)
    end_y = scale.tank(inputs["end_gallons"])
    return Profile(
        levels=scale.line(levels),
        area=f"{scale.line(levels)} {PLOT.right:g},{PLOT.tank_bottom:g} {PLOT.left:g},{PLOT.tank_bottom:g}",
        reserve_y=scale.tank(inputs["reserve_gallons"]),
        wanted=(PLOT.right - 90, end_y) if inputs["end_gallons"] > inputs["reserve_gallons"] else None,
        miles=[Tick(scale.x(mile), f"{mile:,.0f}") for mile in _round_steps(0, scale.distance)],
        gallons=[Tick(scale.tank(one), f"{one:,.0f}") for one in _round_steps(0, scale.capacity, most=5)],
        prices=_price_ticks(scale),
        states=_states(explanation, scale),
        dots=_dots(explanation, scale),
        refills=_refills(explanation, levels, scale),
        readings=scale.line(TankLevel(one.mile, one.percent / 100 * scale.capacity) for one in driven),
        versions=_versions(history, explanation, scale) if history is not None else [],
        rows=_rows(explanation, levels),
    )


def _scale_of(explanation: Explanation) -> _Scale:
    inputs = explanation["inputs"]
    prices = [one["net_price"] for one in explanation["candidates"]] or [0.0]
    least, most = min(prices), max(prices)
    room = max((most - least) * 0.08, 0.02)
    return _Scale(inputs["distance_miles"], inputs["capacity_gallons"], least - room, most + room)


def _round_steps(first: float, last: float, *, most: int = _TICKS) -> list[float]:
    """A few round numbers from the first to the last."""
    step = next((step for step in _STEPS if (last - first) / step <= most), _STEPS[-1])
    return [step * number for number in range(math.ceil(first / step), math.floor(last / step) + 1)]


def _price_ticks(scale: _Scale) -> list[Tick]:
    cents = _round_steps(scale.least_price * 100, scale.most_price * 100, most=4)
    return [Tick(scale.price(one / 100), f"${one / 100:.2f}") for one in cents]


def _states(explanation: Explanation, scale: _Scale) -> list[Tick]:
    if not explanation["line"]:
        return []
    line, miles = np.array(explanation["line"]), np.array(explanation["line_miles"])
    step_miles = scale.distance / (PLOT.right - PLOT.left)
    begins = [one for one in default_states().stretches(line, miles, step_miles) if one[0] < scale.distance]
    if len(begins) > _MOST_STATES:
        return []
    ends = [*(mile for mile, _ in begins[1:]), scale.distance]
    return [
        Tick(scale.x(mile), state if scale.x(end) - scale.x(mile) >= _NARROWEST_STATE and len(state) == 2 else "")
        for (mile, state), end in zip(begins, ends, strict=True)
    ]


def _dots(explanation: Explanation, scale: _Scale) -> list[Dot]:
    """The stations as dots. Chosen ones come last, so that they lie on top."""
    dots = [
        Dot(
            scale.x(one["mile"]),
            scale.price(one["net_price"]),
            f"{one['name']}, mile {one['mile']:,.1f}, ${one['net_price']:.3f}",
            bool(one["gallons"]),
        )
        for one in explanation["candidates"]
    ]
    return sorted(dots, key=lambda dot: dot.is_chosen)


def _refills(explanation: Explanation, levels: Sequence[TankLevel], scale: _Scale) -> list[Refill]:
    bought = [one for one in explanation["candidates"] if one["gallons"]]
    has_labels = len(bought) <= _MOST_LABELS
    steps = zip(levels[1:-1:2], levels[2:-1:2], bought, strict=True)
    return [
        Refill(
            scale.x(before.mile),
            scale.tank(before.gallons),
            scale.tank(after.gallons),
            f"{one['gallons']:.0f} gal at ${one['net_price']:.2f}" if has_labels else "",
            f"{one['name']}, mile {one['mile']:,.1f}: {_purchase(one)} at ${one['net_price']:.3f}",
            "end" if scale.x(before.mile) > (PLOT.left + PLOT.right) / 2 else "start",
        )
        for before, after, one in steps
    ]


def _purchase(one: ExplainedCandidate) -> str:
    return purchase_in_words(one["gallons"], one.get("fill_to_percent"))


def _versions(history: History, explanation: Explanation, scale: _Scale) -> list[Version]:
    current = history.current_plan
    if current is None or current.document is None:
        return []
    inputs, road = explanation["inputs"], current.document["totalDistanceMiles"]
    return [
        Version(
            plan.id,
            number,
            scale.line(
                shown_levels(plan.document, start_gallons=plan.fuel_percent / 100 * scale.capacity, mpg=inputs["mpg"]),
                from_mile=road - plan.document["totalDistanceMiles"],
            ),
        )
        for number, plan in enumerate(history.plans, start=1)
        if plan.id != current.id and plan.revision == current.revision and plan.document is not None
    ]


def _rows(explanation: Explanation, levels: Sequence[TankLevel]) -> list[Row]:
    capacity = explanation["inputs"]["capacity_gallons"]
    names = [one["name"] for one in explanation["candidates"] if one["gallons"]]
    whats = [
        "the plan begins",
        *(what for name in names for what in (f"arrives at {name}", f"leaves {name}")),
        "the plan ends",
    ]
    return [
        Row(level.mile, what, level.gallons, 100 * level.gallons / capacity)
        for level, what in zip(levels[:_MOST_ROWS], whats, strict=False)
    ]
