"""The fuel profile: each figure of the drawing is one of the plan's own."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.planning.fuel_plan import ComputedPlan
from domain.planning.retrace import planned_levels
from domain.routes.reading.history import DrivenLevel
from ingress.console.profile import PLOT, Profile, draw_profile
from tests.domain.planning.plans import drive_shown_plan, feasible, inputs, meridian, priced
from tests.ingress.console.test_timeline import FIRST, SECOND, history, plan

MILES = 900.0
STATIONS = (priced(100, 3.10), priced(300, 2.80), priced(520, 3.40), priced(700, 2.95))


def computed(*stations: Any, miles: float = MILES, **policy: Any) -> ComputedPlan:
    return feasible(inputs(meridian(miles), *(stations or STATIONS), **policy))


def drawn(one: ComputedPlan, driven: tuple[DrivenLevel, ...] = (), **stored: Any) -> Profile:
    profile = draw_profile(history(**stored), one.explanation(), driven)
    assert profile is not None
    return profile


def points(text: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, _, y in (point.partition(",") for point in text.split())]


def mile_at(x: float) -> float:
    return (x - PLOT.left) / (PLOT.right - PLOT.left) * MILES


def gallons_at(y: float) -> float:
    return (PLOT.tank_bottom - y) / (PLOT.tank_bottom - PLOT.tank_top) * 200


def test_each_step_stands_at_its_mile_with_the_gallons_of_the_plan() -> None:
    one = computed()
    profile = drawn(one)
    assert len(profile.refills) == len(one.document()["stops"]) > 0
    for refill, stop in zip(profile.refills, one.document()["stops"], strict=True):
        assert mile_at(refill.x) == pytest.approx(stop["milesFromOrigin"], abs=0.2)
        bought = gallons_at(refill.full_y) - gallons_at(refill.empty_y)
        assert bought == pytest.approx(stop["gallonsToFill"], abs=0.15)
        assert refill.label == f"{stop['gallonsToFill']:.0f} gal at ${stop['pricePerGallon']:.2f}"
    corners = points(profile.levels)
    assert len(corners) == 2 + 2 * len(profile.refills)
    assert mile_at(corners[0][0]) == 0
    assert mile_at(corners[-1][0]) == MILES
    assert gallons_at(corners[0][1]) == pytest.approx(100, abs=0.2)
    assert gallons_at(profile.reserve_y) == pytest.approx(30, abs=0.2)
    assert min(gallons_at(y) for _, y in corners) >= 30 - 0.2


@given(
    prices=st.lists(st.floats(2, 6).map(lambda price: round(price, 3)), min_size=4, max_size=4),
    detours=st.lists(st.floats(0, 4), min_size=4, max_size=4),
)
def test_the_levels_are_those_of_the_driven_plan(prices: list[float], detours: list[float]) -> None:
    places = zip((100.0, 300.0, 520.0, 700.0), prices, detours, strict=True)
    one = computed(*(priced(mile, price, east_miles=detour) for mile, price, detour in places))
    levels = planned_levels(one.explanation())
    assert [level.gallons for level in (*levels[1:-1:2], levels[-1])] == pytest.approx(
        drive_shown_plan(one.document(), one.explanation()), abs=1e-6
    )
    profile = drawn(one)
    for x, y in points(profile.levels):
        assert PLOT.left <= x <= PLOT.right
        assert PLOT.tank_top <= y <= PLOT.tank_bottom
    for dot in profile.dots:
        assert PLOT.prices_top <= dot.y <= PLOT.prices_bottom
    assert len(profile.dots) == 4
    assert profile.rows[-1].what == "the plan ends"
    assert profile.rows[-1].gallons == pytest.approx(levels[-1].gallons)


def test_a_dearer_station_stands_higher_and_the_chosen_one_on_top() -> None:
    profile = drawn(computed())
    assert [dot.is_chosen for dot in profile.dots] == sorted(dot.is_chosen for dot in profile.dots)
    by_label = {dot.label: dot.y for dot in profile.dots}
    assert by_label["Station 520, mile 520.0, $3.400"] < by_label["Station 300, mile 300.0, $2.800"]


def test_the_borders_of_states_stand_where_the_road_crosses_them() -> None:
    """The road leaves Texas for Oklahoma at 34 N and Oklahoma for Kansas at 37 N."""
    codes = [(tick.label, mile_at(tick.at)) for tick in drawn(computed()).states]
    assert [code for code, _ in codes] == ["TX", "OK", "KS", "NE", ""], "South Dakota is too narrow for its name"
    assert codes[0][1] == 0
    assert codes[2][1] == pytest.approx(7 * 69.09, abs=3)


def test_readings_lie_over_the_plan_at_the_mile_that_the_truck_had_reached() -> None:
    profile = drawn(computed(), (DrivenLevel(0, 50.0), DrivenLevel(450, 25.0)))
    (first, second) = points(profile.readings)
    assert (mile_at(first[0]), gallons_at(first[1])) == (0, 100)
    assert mile_at(second[0]) == pytest.approx(450, abs=0.1)
    assert gallons_at(second[1]) == 50


def test_a_plan_before_ends_where_the_current_one_does() -> None:
    one = computed()
    before = {**one.document(), "totalDistanceMiles": 1000.0, "stops": []}
    stored = [plan(FIRST, 1, document=before), plan(SECOND, 2, document=one.document())]
    (version,) = drawn(one, plans=stored, plan_id=SECOND).versions
    assert version.number == 1
    begin, end = points(version.points)
    assert mile_at(begin[0]) == pytest.approx(-100, abs=0.2)
    assert mile_at(end[0]) == MILES
    assert gallons_at(begin[1]) == pytest.approx(80, abs=0.2), "40 % of 200 gal"


def test_where_there_is_nothing_to_draw_there_is_no_profile() -> None:
    one = computed()
    failed: Any = {**one.explanation(), "infeasible": {"from_mile": 0.0, "to_mile": 9.0, "reason": "too far"}}
    nowhere: Any = {**one.explanation(), "inputs": {**one.explanation()["inputs"], "distance_miles": 0.0}}
    assert draw_profile(history(), failed, ()) is None
    assert draw_profile(history(), nowhere, ()) is None
    without_road: Any = {**one.explanation(), "line": [], "line_miles": [], "candidates": []}
    alone = draw_profile(history(), without_road, ())
    assert alone is not None
    assert (alone.states, alone.dots, alone.refills) == ([], [], [])
