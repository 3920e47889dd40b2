"""A route's `stops` with the plan's fuel stops among them: each once, in driving order, the destination last."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.burn.figures import figure_of
from domain.contract.shapes import Route, StopType
from domain.encoding import write
from domain.ids import new_id
from domain.lifecycle import Environment, RouteStatus
from domain.planning.fuel_plan import ComputedPlan, compute_plan
from domain.planning.plan_inputs import PlanInputs
from domain.planning.plan_tasks import PlanTask, RouteToPlan
from domain.planning.stored_plans import timeline_of
from domain.roads import Point
from domain.routes.reading.answers import RouteRow, route_answer
from domain.stations.offers import Offer, Station
from tests.domain.planning.plans import meridian, usual_policy
from tests.repeatable import examples

NOW = datetime(2026, 11, 21, 14, 0, 0, 123456, tzinfo=UTC)


def computed(
    stop_miles: list[float], station_miles: list[float], fuel_percent: float, windows: list[int | None]
) -> ComputedPlan:
    """The plan of a road with stops and truck stops at these miles, and with windows that open after so many hours."""
    opens = [None if hours is None else NOW + timedelta(hours=hours) for hours in windows]
    plan = compute_plan(
        PlanInputs(
            road=meridian(*stop_miles) if stop_miles else meridian(0.0),
            fuel_percent=fuel_percent,
            policy=usual_policy(min_purchase_gallons=1.0, stop_cost=0.0),
            offers=[
                Offer(Station(f"S{mile}", f"fuel at {mile}", None, None, None, None, 30.0, -100.0), mile, 0.0, price)
                for mile, price in zip(sorted(station_miles), (3.0 - 0.01 * n for n in range(99)), strict=False)
            ],
            departure=NOW,
            opens=opens or [None],
            capacity_gallons=200.0,
            burn=figure_of(5.0),
        )
    )
    assert isinstance(plan, ComputedPlan), plan
    return plan


def planned(
    stop_miles: list[float],
    station_miles: list[float],
    *,
    reached: int = 0,
    fuel_percent: float = 16.0,
    windows: list[int | None] | None = None,
    scheduled_start: datetime = NOW,
) -> tuple[Route, ComputedPlan]:
    """An active route as the API answers it, and its plan. The truck is at the stop `reached`; the stops ahead of it
    are at `stop_miles`."""
    plan = computed(stop_miles, station_miles, fuel_percent, windows or [None] * len(stop_miles))
    stops: list[dict[str, Any]] = [
        {"name": f"stop {index}", "latitude": 30.0, "longitude": -100.0}
        for index in range(reached + 1 + len(stop_miles))
    ]
    known: dict[str, Any] = {"stops": stops, "scheduled_start": scheduled_start}
    route = RouteToPlan(**{**dict.fromkeys(RouteToPlan._fields), **known})
    stops_left = tuple(range(reached + 1, len(stops)))
    task = PlanTask(route, usual_policy(), NOW, Point(30.0, -100.0), NOW, None, figure_of(5.0), stops_left, NOW)
    row = RouteRow(
        id=new_id(),
        company_id=new_id(),
        environment=Environment.LIVE,
        external_id="LOAD",
        reference=None,
        status=RouteStatus.ACTIVE,
        pending_reason=None,
        pending_detail=None,
        vehicle_id=None,
        unit_number=None,
        driver_id=None,
        driver_name=None,
        scheduled_start=scheduled_start,
        created_at=NOW,
        distance_miles=plan.trip.distance_miles,
        stops=write(stops).decode(),
        plan=write(plan.document()).decode(),
        timeline=write(timeline_of(task, plan)).decode(),
        visits=None,
    )
    return route_answer(row), plan


def check(route: Route, plan: ComputedPlan, stop_miles: list[float]) -> None:
    first_ahead = len([stop for stop in route.stops if stop.type is not StopType.FUEL_STOP]) - len(stop_miles)
    assert [stop.sequence for stop in route.stops] == list(range(len(route.stops)))
    assert route.stops[-1].type is StopType.DESTINATION
    fuel = [stop for stop in route.stops if stop.type is StopType.FUEL_STOP]
    assert [stop.name for stop in fuel] == [stop.station.name for stop in plan.stops]
    assert [stop.planned_arrival for stop in fuel] == [stop.estimated_arrival for stop in plan.stops]
    pushed = [stop.name for stop in route.stops if stop.type is not StopType.FUEL_STOP]
    assert pushed == [f"stop {index}" for index in range(len(pushed))]
    mile, passed = 0.0, 0
    for stop in route.stops:
        if stop.type is StopType.FUEL_STOP:
            here = next(one.miles_from_origin for one in plan.stops if one.station.name == stop.name)
            assert passed >= first_ahead  # not among the stops that were reached before
        else:
            passed += 1
            here = stop_miles[passed - 1 - first_ahead] if passed > first_ahead else 0.0
        assert here >= mile - 0.0051  # what rounding to a hundredth of a mile may do
        mile = here
    times = [stop.planned_arrival for stop in route.stops if stop.planned_arrival is not None]
    assert all(before <= after for before, after in pairwise(times))


@pytest.mark.slow
@given(st.data())
@hypothesis_settings(max_examples=examples(75), deadline=None)
def test_every_purchase_is_among_the_stops_once_and_in_driving_order(data: st.DataObject) -> None:
    legs = data.draw(st.lists(st.sampled_from([0.0, 0.001, 0.004]) | st.floats(0, 300), min_size=1, max_size=5))
    stop_miles = [sum(legs[: index + 1]) for index in range(len(legs))]
    total = stop_miles[-1]
    near_a_stop = st.builds(
        lambda mile, off: min(max(mile + off, 0.0), total),
        st.sampled_from([0.0, *stop_miles]),
        st.sampled_from([0.0, 0.001, 0.004, 0.005, 0.006, -0.001, -0.004, -0.005, -0.006]),
    )
    extra = data.draw(st.lists(near_a_stop | st.floats(0, total), max_size=12))
    every_hundred = [min(100.0 * n, total) for n in range(int(total // 100) + 2)]
    windows = data.draw(st.lists(st.none() | st.integers(0, 60), min_size=len(legs), max_size=len(legs)))
    reached = data.draw(st.integers(0, 3))
    fuel_percent = data.draw(st.sampled_from([15.0, 16.0, 24.0, 60.0]))

    route, plan = planned(
        stop_miles, [*every_hundred, *extra], reached=reached, fuel_percent=fuel_percent, windows=windows
    )

    check(route, plan, stop_miles)


@pytest.mark.parametrize("end", [95.874, 95.876, 95.875])
def test_fuel_at_the_end_of_the_road_comes_before_the_destination(end: float) -> None:
    route, plan = planned([end], [end], fuel_percent=30.0)

    assert [stop.type for stop in route.stops] == [StopType.WAYPOINT, StopType.FUEL_STOP, StopType.DESTINATION]
    check(route, plan, [end])


def test_fuel_where_the_truck_stands_comes_after_the_stop_that_it_has_reached() -> None:
    route, plan = planned([300.0], [0.0], reached=2)

    assert [stop.name for stop in route.stops] == ["stop 0", "stop 1", "stop 2", "fuel at 0.0", "stop 3"]
    check(route, plan, [300.0])


def test_fuel_stops_are_shown_when_every_stop_was_reached() -> None:
    route, _ = planned([], [0.0], reached=1, fuel_percent=16.0)

    assert [stop.name for stop in route.stops] == ["stop 0", "fuel at 0.0", "stop 1"]


def test_a_truck_that_left_before_its_start_has_planned_arrivals_in_order() -> None:
    route, plan = planned([100.0], [50.0], fuel_percent=30.0, scheduled_start=NOW + timedelta(hours=5))

    check(route, plan, [100.0])
