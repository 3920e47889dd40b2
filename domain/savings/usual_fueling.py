"""The fueling of a truck in the quarter before: the usual part of its tank at a stop, and the chains of the pumps.

It is told from fills of that quarter alone, which was over when the plan was made. Fuel cards do not tell the level at
which the driver stopped; a driver who fills up stops where the tank has room for what he buys."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement
from domain.savings.spans import Span, quarter_of
from domain.stations.chains import brand_of

LEAST_STOPS_OF_TRUCK = 10
"""Stops of a truck in the quarter before from which its own habit is told; below, the company's counts."""
LEAST_STOPS_OF_COMPANY = 50
_MOST_STOPS = 5_000
"""Most stops of a company that are read, the newest."""
_LEAST_SHARE = 0.1
"""The part of the gallons from which on a chain is one of the usual ones."""


class UsualFueling(NamedTuple):
    """The usual part of the tank at a stop, from 0 to 1, and the share of each usual chain in their gallons."""

    of: str
    """`truck` or `company`: whose fills told it."""
    stops: int
    tank_share: float
    chains: dict[str, float]
    """Shares by the name of the chain; they add up to 1. Empty where no chain sold a tenth of the gallons."""


class Stop(NamedTuple):
    """The diesel that a truck bought at one place on one day."""

    gallons: float
    tank_gallons: float | None
    brand: str | None
    place: str | None


_STOPS = """
    SELECT sum(f.gallons) AS gallons, max(v.fuel_tank_capacity_gallons) AS tank_gallons, max(s.brand) AS brand,
           coalesce(max(s.name), max(f.location_name)) AS place
    FROM fills f JOIN vehicles v ON v.id = f.vehicle_id LEFT JOIN stations s ON s.station_id = f.station_id
    WHERE f.company_id = %(company_id)s AND f.environment = %(environment)s
      AND f.bought_at >= %(start)s AND f.bought_at < %(end)s
      AND f.fuel = 'tractor' AND f.counter_id IS NULL AND f.review = '{}'
"""
_GROUPED = """
    GROUP BY f.vehicle_id, (f.bought_at AT TIME ZONE f.time_zone)::date, coalesce(f.station_id, f.location_name)
    HAVING sum(f.gallons) > 0
"""
_OF_TRUCK = Statement(Stop, f"{_STOPS} AND f.vehicle_id = %(vehicle_id)s {_GROUPED}")
_OF_COMPANY = Statement(
    Stop,
    f"{_STOPS} AND v.fuel_tank_capacity_gallons > 0 {_GROUPED}"
    f" ORDER BY max(f.bought_at) DESC, f.vehicle_id, coalesce(f.station_id, f.location_name) LIMIT {_MOST_STOPS}",
)


def quarter_before(planned_at: datetime, time_zone: str) -> Span:
    """The quarter before the one in which a plan was made, in the company's time zone."""
    quarter = quarter_of(planned_at.astimezone(ZoneInfo(time_zone)).date(), time_zone)
    return quarter_of(quarter.first_day - timedelta(days=1), time_zone)


class UsualFuelings:
    """Reads how trucks were fueled, each truck and quarter once."""

    def __init__(self) -> None:
        self._known: dict[tuple[UUID, str, datetime], UsualFueling | None] = {}
        """Keys are the id of the truck, or of the company, its environment, and the beginning of the quarter."""

    def of(
        self,
        connection: Connection,
        tenant: Tenant,
        vehicle_id: UUID,
        planned_at: datetime,
        *,
        time_zone: str,
        tank_gallons: float,
    ) -> UsualFueling | None:
        """The usual fueling of a truck with this tank before a plan was made: its own, else its company's; None where
        both have too few fills."""
        span = quarter_before(planned_at, time_zone)
        asked = {**span.asked(tenant), "vehicle_id": vehicle_id}
        own, company = (vehicle_id, tenant.environment, span.start), (tenant.company_id, tenant.environment, span.start)
        if own not in self._known:
            stops = [one._replace(tank_gallons=tank_gallons) for one in _OF_TRUCK.all(connection, asked)]
            self._known[own] = usual_fueling("truck", stops, least=LEAST_STOPS_OF_TRUCK)
        if self._known[own] is None and company not in self._known:
            self._known[company] = usual_fueling(
                "company", _OF_COMPANY.all(connection, asked), least=LEAST_STOPS_OF_COMPANY
            )
        return self._known[own] or self._known[company]


def usual_fueling(of: str, stops: Sequence[Stop], *, least: int) -> UsualFueling | None:
    """The median part of the tank at these stops, and the mix of their chains; None for fewer than `least`."""
    shares = [one.gallons / one.tank_gallons for one in stops if one.tank_gallons]
    if len(shares) < least:
        return None
    gallons = Counter[str]()
    for one in stops:
        gallons.update({chain_of(one.brand, one.place): one.gallons})
    total = math.fsum(gallons.values())
    usual = {chain: sold for chain, sold in gallons.items() if chain and sold >= _LEAST_SHARE * total}
    sold_by_usual = math.fsum(usual.values())
    chains = {chain: sold / sold_by_usual for chain, sold in sorted(usual.items())}
    return UsualFueling(of, len(shares), min(median(shares), 1.0), chains)


def chain_of(brand: str | None, name: str | None) -> str:
    """One name for the chain of a station, whatever its spelling; empty where its names tell none."""
    known = brand_of(brand or "", name or "")
    return " ".join(sorted(known.chains)) or (" ".join(sorted(known.names[0])) if known.names else "")
