"""Completed trips with fuel levels, as a truck with a certain burn and gauge sends them."""

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from domain.burn.learning import TruckToLearn, learn_truck, let_trips_wait
from domain.burn.levels import LevelAtMile
from domain.database.connections import Connection, Tenant
from domain.ids import new_id
from domain.roads import Point
from domain.roads.sphere import MILES_PER_DEGREE
from tests.domain.driven_lanes.driving import stop_at, store_completed, store_fixes
from tests.factories import Fleet

MPH = 55.0


def levels(
    miles: float,
    mpg: float,
    start: datetime,
    *,
    capacity_gallons: float = 200.0,
    begins: float = 90.0,
    every_miles: float = 5.0,
    bought: Mapping[float, float] | None = None,
    noise_percent: float = 1.0,
    seed: int = 1,
    shown: Any = None,
) -> list[LevelAtMile]:
    """The levels of a trip in whole percents. `bought` has gallons by mile, `shown` what the gauge makes of a level at
    a mile."""
    rng, found = random.Random(seed), []
    for number in range(int(miles / every_miles) + 1):
        mile = number * every_miles
        gallons = sum(gallons for at, gallons in (bought or {}).items() if at <= mile)
        level = begins + 100 * (gallons - mile / mpg) / capacity_gallons
        level = shown(mile, level) if shown is not None else level
        noisy = round(min(max(level + rng.gauss(0, noise_percent), 0.0), 100.0))
        found.append(LevelAtMile(start + timedelta(hours=mile / MPH), mile, float(noisy)))
    return found


def driven(
    connection: Connection,
    fleet: Fleet,
    tenant: Tenant,
    start: datetime,
    *,
    miles: float = 900.0,
    mpg: float = 5.6,
    truck: int = 0,
    road_miles: float | None = None,
    **gauge: Any,
) -> UUID:
    """A completed route due north whose truck sent these levels."""
    sent = levels(miles, mpg, start, **{"bought": {450.0: 90.0}, **gauge})
    ends = [stop_at(place, name) for place, name in ((place_at(0), "A yard"), (place_at(miles), "Another yard"))]
    route_id = store_completed(
        connection, fleet, tenant, ends, start, sent[-1].at, truck=truck, distance_miles=road_miles or miles
    )
    store_fixes(connection, tenant, fleet.trucks[truck], ((one.at, place_at(one.mile), one.percent) for one in sent))
    let_trips_wait(connection, [route_id])
    return route_id


def place_at(mile: float) -> Point:
    return Point(30.0 + mile / MILES_PER_DEGREE, -100.0)


def learn(connection: Connection, fleet: Fleet, tenant: Tenant, now: datetime, *, truck: int = 0) -> None:
    """Learn one truck an hour later, as the scheduler's pass does."""
    learn_truck(connection, TruckToLearn(*tenant, fleet.trucks[truck]), now=now + timedelta(hours=1))


def card_fill(
    connection: Connection, fleet: Fleet, tenant: Tenant, at: datetime, gallons: float, *, truck: int = 0
) -> None:
    """A purchase by a fuel card that needs nobody."""
    fill_id = new_id()
    connection.execute(
        "INSERT INTO fills (id, company_id, environment, profile, key, bought_at, time_zone, has_time, fuel, gallons,"
        " paid_cents, currency, vehicle_id, score) VALUES (%s, %s, %s, 'efs', %s, %s, 'UTC', true, 'tractor', %s, 1000,"
        " 'USD', %s, 100)",
        (fill_id, *tenant, str(fill_id), at, gallons, fleet.trucks[truck]),
    )
