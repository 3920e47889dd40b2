"""The report of a quarter: miles, gallons burned, gallons planned to be bought and the tax on them, by state.

All figures are planned ones: real purchases and odometers are not known here.
"""

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date, datetime, timedelta
from typing import TextIO
from uuid import UUID

from domain.contract.csvfiles import write_rows
from domain.database import Connection
from domain.ifta.driven_routes import QuarterRoutes, TaxRate, read_driven_routes, read_tax_rates
from domain.ifta.legs import DrivenLeg, driven_legs
from domain.queue.jobs import in_batches
from domain.roads import Roads, default_roads
from domain.roads.states import default_states

IFTA_BASIS = "planned, not bought: miles of plans over the legs driven, gallons as planned"

_PORTION = 50
"""The number of routes read at once."""

REPORT_DECIMALS = 2


@dataclass(frozen=True, slots=True)
class StateLine:
    """One line of the report. Taxes are in dollars, None where the rate is unknown."""

    state: str
    miles: float
    gallons_burned: float
    gallons_planned: float
    tax_per_gallon: float | None
    surcharge_per_gallon: float | None
    tax_dollars: float | None


@dataclass(frozen=True, slots=True)
class QuarterTotals:
    """The sums of the lines; the tax is None where one of them has none."""

    miles: float
    gallons_burned: float
    gallons_planned: float
    tax_dollars: float | None


@dataclass(frozen=True, slots=True)
class QuarterReport:
    """The report of a quarter. `ended`: the quarter was over when the report was made. `routes` and `legs` count the
    driven routes and legs, `legs_rebuilt` the legs with a line that was found again, `legs_without_plan` the legs
    without a plan."""

    basis: str
    company_id: UUID
    quarter: str
    first_day: date
    last_day: date
    time_zone: str
    ended: bool
    routes: int
    legs: int
    legs_rebuilt: int
    legs_without_plan: int
    states: Sequence[StateLine]
    totals: QuarterTotals


def make_quarter_report(
    connection: Connection, driven: QuarterRoutes, *, now: datetime, progress: Callable[[int], object] = lambda _: None
) -> QuarterReport:
    """Make the report. `progress` is called with the number of routes done in each step."""
    miles, burned, planned = (defaultdict[str, float](float) for _ in range(3))
    counts: Counter[str] = Counter()
    states = default_states()
    for portion in in_batches(driven.route_ids, _PORTION):
        for route in read_driven_routes(connection, driven.tenant, portion):
            legs = list(driven_legs(route, driven.start, driven.end, _embedded_roads, states))
            for leg in legs:
                for state, driven_miles in leg.miles.items():
                    miles[state] += driven_miles
                    burned[state] += driven_miles / leg.mpg
                for state, gallons in leg.purchases:
                    planned[state] += gallons
            counts.update(_counts(legs))
        progress(len(portion))
    rates = read_tax_rates(connection, driven.quarter)
    lines = [
        _line(state, miles[state], burned[state], planned[state], rates.get(state))
        for state in sorted(miles.keys() | planned.keys())
    ]
    return QuarterReport(
        basis=IFTA_BASIS,
        company_id=driven.tenant.company_id,
        quarter=str(driven.quarter),
        first_day=driven.quarter.first_day,
        last_day=driven.quarter.next_day - timedelta(days=1),
        time_zone=driven.time_zone,
        ended=driven.end <= now,
        routes=counts["routes"],
        legs=counts["legs"],
        legs_rebuilt=counts["rebuilt"],
        legs_without_plan=counts["without_plan"],
        states=lines,
        totals=_totals(lines),
    )


def write_ifta_csv(file: TextIO, report: QuarterReport) -> None:
    """Write the lines of the states."""
    columns = ["quarter", *(field.name for field in fields(StateLine)), "basis"]
    write_rows(file, columns, ([report.quarter, *asdict(line).values(), report.basis] for line in report.states))


def _counts(legs: Sequence[DrivenLeg]) -> Mapping[str, int]:
    return {
        "routes": int(bool(legs)),
        "legs": len(legs),
        "rebuilt": sum(leg.rebuilt and leg.planned for leg in legs),
        "without_plan": sum(not leg.planned for leg in legs),
    }


def _line(state: str, miles: float, burned: float, planned: float, rate: TaxRate | None) -> StateLine:
    """The line of a state. A purchase is credited the rate. The surcharge is owed on all gallons burned; purchases do
    not change it."""
    burned, planned = round(burned, REPORT_DECIMALS), round(planned, REPORT_DECIMALS)
    tax = None
    if rate is not None:
        tax = round(rate.rate_per_gallon * (burned - planned) + rate.surcharge_per_gallon * burned, REPORT_DECIMALS)
    return StateLine(
        state,
        round(miles, REPORT_DECIMALS),
        burned,
        planned,
        rate.rate_per_gallon if rate is not None else None,
        rate.surcharge_per_gallon if rate is not None else None,
        tax,
    )


def _totals(lines: Sequence[StateLine]) -> QuarterTotals:
    def total(values: Iterable[float]) -> float:
        return round(math.fsum(values), REPORT_DECIMALS)

    taxes = [line.tax_dollars for line in lines]
    known = [tax for tax in taxes if tax is not None]
    return QuarterTotals(
        miles=total(line.miles for line in lines),
        gallons_burned=total(line.gallons_burned for line in lines),
        gallons_planned=total(line.gallons_planned for line in lines),
        tax_dollars=total(known) if len(known) == len(taxes) else None,
    )


@functools.cache
def _embedded_roads() -> Roads:
    """The embedded roads, loaded when the first way has to be found again."""
    return default_roads(None)
