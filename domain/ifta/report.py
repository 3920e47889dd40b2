"""The report of a quarter: miles, gallons burned, gallons planned to be bought and the tax on them, by state.

Miles are planned ones, since no odometer is read. Gallons are credited as fuel cards sold them for each truck with
fills in the quarter, and as planned for the others; a line for each truck and state says which.
"""

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date, datetime, timedelta
from typing import TextIO
from uuid import UUID

from domain.database.connections import Connection
from domain.files.csvfiles import write_rows
from domain.ids import shown_id
from domain.ifta.driven_routes import (
    BoughtGallons,
    QuarterRoutes,
    TaxRate,
    read_bought_gallons,
    read_driven_routes,
    read_tax_rates,
)
from domain.ifta.legs import NO_LEGS, DrivenLeg, driven_legs
from domain.queue.jobs import in_batches
from domain.roads import Roads
from domain.roads.default_roads import default_roads
from domain.roads.states import ELSEWHERE, default_states

IFTA_BASIS = "planned, not bought: miles of plans over the legs driven, gallons as planned"
CREDITED_BASIS = "credited: what fuel cards sold to trucks with fills in the quarter, planned gallons of the others"

_PORTION = 50
"""Routes read at once."""

REPORT_DECIMALS = 2

NO_MEMBERS = frozenset(("AK", "HI", "DC", "MX", "NT", "NU", "YT", ELSEWHERE))
"""Places with roads that are no members of IFTA, and the sea that a ferry crosses: no tax is due there."""


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
    """The tax with the planned gallons; None where the rate is unknown."""
    gallons_bought: float
    """The gallons that fuel cards sold."""
    gallons_credited: float
    """Gallons bought for trucks with fills, planned gallons for the others."""
    tax_credited_dollars: float | None
    """The tax with the credited gallons; None where the rate is unknown."""


@dataclass(frozen=True, slots=True)
class CreditedLine:
    """The gallons credited to a truck in a state, and their source: `fills`, or `plan` for a truck without any."""

    vehicle_id: str
    unit_number: str | None
    state: str
    source: str
    gallons_planned: float
    gallons_credited: float


@dataclass(frozen=True, slots=True)
class QuarterTotals:
    """The sums of the lines; a tax is None where that of a member of IFTA is None."""

    miles: float
    gallons_burned: float
    gallons_planned: float
    tax_dollars: float | None
    gallons_bought: float
    gallons_credited: float
    tax_credited_dollars: float | None


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
    credited_basis: str
    vehicles: Sequence[CreditedLine]
    vehicles_with_fills: int


def make_quarter_report(
    connection: Connection,
    driven: QuarterRoutes,
    *,
    now: datetime,
    progress: Callable[[int], object] = lambda _: None,
    filed: Mapping[str, DrivenLeg] = NO_LEGS,
    note_legs: Callable[[Sequence[DrivenLeg]], object] = lambda _: None,
) -> QuarterReport:
    """Make the report. `progress` is called with the number of routes done in each step, `note_legs` with the legs of
    each route. Legs that were `filed` and have not changed count as they were filed."""
    miles, burned, planned = (defaultdict[str, float](float) for _ in range(3))
    planned_of = _PlannedOf(float)
    units: dict[UUID, str | None] = {}
    counts: Counter[str] = Counter()
    states = default_states()
    for portion in in_batches(driven.route_ids, _PORTION):
        for route in read_driven_routes(connection, driven.tenant, portion):
            legs = list(driven_legs(route, driven.start, driven.end, _embedded_roads, states, filed))
            note_legs(legs)
            for leg in legs:
                for state, driven_miles in leg.miles.items():
                    miles[state] += driven_miles
                    burned[state] += driven_miles / leg.mpg
                for state, gallons in leg.purchases:
                    planned[state] += gallons
                    if route.vehicle_id is not None:
                        planned_of[route.vehicle_id, state] += gallons
                        units[route.vehicle_id] = route.unit_number
            counts.update(_counts(legs))
        progress(len(portion))
    bought = read_bought_gallons(connection, driven)
    vehicles = _credited(planned_of, units, bought)
    rates = read_tax_rates(connection, driven.quarter)
    lines = [
        _line(
            state,
            miles[state],
            burned[state],
            planned[state],
            math.fsum(one.gallons for one in bought if one.state == state),
            math.fsum(one.gallons_credited for one in vehicles if one.state == state),
            rates.get(state),
        )
        for state in sorted(miles.keys() | planned.keys() | {one.state for one in bought})
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
        credited_basis=CREDITED_BASIS,
        vehicles=vehicles,
        vehicles_with_fills=len({one.vehicle_id for one in bought}),
    )


def write_ifta_csv(file: TextIO, report: QuarterReport) -> None:
    """Write the lines of the states."""
    columns = ["quarter", *(field.name for field in fields(StateLine)), "basis"]
    write_rows(file, columns, ([report.quarter, *asdict(line).values(), report.basis] for line in report.states))


def write_credited_csv(file: TextIO, report: QuarterReport) -> None:
    """Write the gallons credited, by truck and state, with their source."""
    columns = ["quarter", *(field.name for field in fields(CreditedLine))]
    write_rows(file, columns, ([report.quarter, *asdict(line).values()] for line in report.vehicles))


_PlannedOf = defaultdict[tuple[UUID, str], float]


def _credited(
    planned_of: Mapping[tuple[UUID, str], float], units: Mapping[UUID, str | None], bought: Sequence[BoughtGallons]
) -> list[CreditedLine]:
    """The credited gallons. A truck with fills is credited only its fills, in every state: its file has been
    imported."""
    with_fills = {one.vehicle_id for one in bought}
    names = {**units, **{one.vehicle_id: one.unit_number for one in bought}}
    gallons = {(one.vehicle_id, one.state): one.gallons for one in bought}
    found = []
    for vehicle_id, state in sorted(
        planned_of.keys() | gallons.keys(), key=lambda one: (names[one[0]] or "", one[0], one[1])
    ):
        planned = round(planned_of.get((vehicle_id, state), 0.0), REPORT_DECIMALS)
        is_bought = vehicle_id in with_fills
        found.append(
            CreditedLine(
                shown_id("veh", vehicle_id),
                names[vehicle_id],
                state,
                "fills" if is_bought else "plan",
                planned,
                round(gallons.get((vehicle_id, state), 0.0), REPORT_DECIMALS) if is_bought else planned,
            )
        )
    return found


def _counts(legs: Sequence[DrivenLeg]) -> Mapping[str, int]:
    return {
        "routes": int(bool(legs)),
        "legs": len(legs),
        "rebuilt": sum(leg.rebuilt and leg.planned for leg in legs),
        "without_plan": sum(not leg.planned for leg in legs),
    }


def _line(
    state: str,
    miles: float,
    burned: float,
    planned: float,
    bought: float,
    credited: float,
    rate: TaxRate | None,
) -> StateLine:
    """The line of a state. A purchase is credited the rate. The surcharge is owed on all gallons burned; purchases do
    not change it."""
    burned, planned = round(burned, REPORT_DECIMALS), round(planned, REPORT_DECIMALS)
    credited = round(credited, REPORT_DECIMALS)
    return StateLine(
        state,
        round(miles, REPORT_DECIMALS),
        burned,
        planned,
        rate.rate_per_gallon if rate is not None else None,
        rate.surcharge_per_gallon if rate is not None else None,
        tax_due(rate, burned, planned),
        round(bought, REPORT_DECIMALS),
        credited,
        tax_due(rate, burned, credited),
    )


def tax_due(rate: TaxRate | None, burned: float, credited: float) -> float | None:
    """The tax of a state in dollars, for gallons burned and gallons bought there; None where no rate is known."""
    if rate is None:
        return None
    return round(rate.rate_per_gallon * (burned - credited) + rate.surcharge_per_gallon * burned, REPORT_DECIMALS)


def _totals(lines: Sequence[StateLine]) -> QuarterTotals:
    def total(values: Iterable[float]) -> float:
        return round(math.fsum(values), REPORT_DECIMALS)

    def tax(tax_of: Callable[[StateLine], float | None]) -> float | None:
        taxes = [(line.state, tax_of(line)) for line in lines]
        known = [tax for _, tax in taxes if tax is not None]
        return total(known) if all(tax is not None or state in NO_MEMBERS for state, tax in taxes) else None

    return QuarterTotals(
        miles=total(line.miles for line in lines),
        gallons_burned=total(line.gallons_burned for line in lines),
        gallons_planned=total(line.gallons_planned for line in lines),
        tax_dollars=tax(lambda line: line.tax_dollars),
        gallons_bought=total(line.gallons_bought for line in lines),
        gallons_credited=total(line.gallons_credited for line in lines),
        tax_credited_dollars=tax(lambda line: line.tax_credited_dollars),
    )


@functools.cache
def _embedded_roads() -> Roads:
    """The embedded roads, loaded when the first way has to be found again."""
    return default_roads(None)
