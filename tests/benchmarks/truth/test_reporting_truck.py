from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from domain.roads import Point
from domain.roads.sphere import great_circle_miles
from tests.benchmarks.truth.driver import FUEL_STOP_TIME
from tests.benchmarks.truth.reporting_truck import ReportingTruck

FIX = timedelta(seconds=30)


@pytest.mark.slow
def test_a_truck_that_fuels_stands_at_the_pump() -> None:
    truck = ReportingTruck(1, datetime(2026, 12, 1, tzinfo=UTC), measured=timedelta(hours=1))
    truck.drive.fix_miles = 0.5
    offer = next(
        one
        for one in truck.trip.offers
        if one.mile > 20 and one.detour_miles > 0.5 and not truck.trip.is_skipped(one) and not truck.trip.is_closed(one)
    )
    pump = Point(offer.station.latitude, offer.station.longitude)
    stop = {**pump._asdict(), "milesFromOrigin": offer.mile, "gallonsToFill": 10.0}
    truck.tell("1. Fuel here", {"stops": [stop]})

    seen, moment = list[Point](), truck.start
    while truck.fix.mile < offer.mile + 10:
        moment += FIX
        position = truck.drive_until(moment)
        assert position is not None
        seen.append(Point(position.latitude, position.longitude))

    steps = [great_circle_miles(*two) for two in pairwise(seen)]
    assert abs(seen.count(pump) - FUEL_STOP_TIME / FIX) <= 1
    assert max(steps) < 1.1  # no truck jumps to the pump or back
