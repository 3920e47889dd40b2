"""Real data of trackers, as public reports show it: the cases of `tests/cases/telematics_rules`."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from domain.planning.gauges import Reading
from domain.planning.second_readings import count_readings
from domain.roads import Point
from domain.roads.implausible_fixes import implausible_fixes
from domain.roads.sphere import MILES_PER_DEGREE
from domain.telematics.arrivals import Fix, drop_reason, process_fixes
from tests.domain.telematics.test_arrivals import DEPOT, NOON, PORT, at, fix

CASES = Path(__file__).parents[2] / "cases" / "telematics_rules"


def case(name: str) -> dict[str, Any]:
    return dict(json.loads((CASES / f"{name}.json").read_text()))


def level(readings: list[list[float]]) -> float:
    """The newest level that counts, of minutes, miles and percents."""
    read = [
        Reading(percent, NOON + timedelta(minutes=minutes), Point(30.0 + miles / MILES_PER_DEGREE, -100.0))
        for minutes, miles, percent in readings
    ]
    return count_readings(read, mpg=6.5, capacity_gallons=200).counted[-1].percent


@pytest.mark.parametrize("name", ["restart_zeros", "not_available", "two_sources", "slosh"])
def test_a_level_that_is_none_is_not_planned_with(name: str) -> None:
    seen = case(name)

    assert level(seen["readings"]) == seen["level_before"]
    assert level([*seen["readings"], *seen["then"]]) == seen["level_after"]


def visits(fixes: list[Fix]) -> dict[int, Any]:
    wild = implausible_fixes(fixes)
    return process_fixes([DEPOT, PORT], {}, [one for one in fixes if one.recorded_at not in wild])


@pytest.mark.parametrize("name", ["gate_beside_a_road", "stuck_fix"])
def test_a_truck_that_passes_has_not_arrived(name: str) -> None:
    passing = [fix(seconds / 60, DEPOT, meters, mph) for seconds, meters, mph in case(name)["fixes"]]

    assert visits(passing) == {}


def test_a_truck_in_a_repair_hall_leaves_when_it_drives_off() -> None:
    seen = case("drift_of_a_parked_truck")

    (visit,) = visits([fix(minutes, DEPOT, *rest) for minutes, *rest in seen["fixes"]]).values()

    assert (visit.arrived_at, visit.departed_at) == (at(seen["arrived"]), at(seen["departed"]))


def test_a_position_without_a_fix_is_dropped() -> None:
    seen = case("position_without_a_fix")
    fixes = [Fix(NOON + timedelta(seconds=seconds), *place) for seconds, *place in seen["fixes"]]

    reasons = [drop_reason(one, now=NOON, live=False) for one in fixes]

    assert reasons == ["null_island"] * seen["dropped"] + [None] * (len(fixes) - seen["dropped"])
