"""The preview of a load for people, as `fuelroute preview` prints it."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Console
from rich.table import Table

from domain.contract.shapes import FuelPlan
from domain.previews.shapes import LoadPreview
from domain.routes.plans.stored_choices import KINDS_IN_WORDS
from domain.text import printable


def print_preview(preview: LoadPreview, screen: Console) -> None:
    facts = Table(box=None, pad_edge=False, show_header=False)
    for name, value in _facts(preview):
        facts.add_row(name, printable(value))
    tables = [facts]
    if preview.fuel_plan is not None:
        tables += [_fuel_stops(preview.fuel_plan), _alternatives(preview), _simple_ways(preview)]
    for table in [*tables, _states(preview), _assumed(preview)]:
        if table.row_count:
            screen.print(table, highlight=False, markup=False)


def _facts(preview: LoadPreview) -> Iterator[tuple[str, str]]:
    first, last, vehicle = preview.stops[0], preview.stops[-1], preview.vehicle
    yield "load", f"{first.name} to {last.name}"
    hours = f", {preview.hours:,.1f} h with rests, fuel stops and waits" if preview.hours is not None else ""
    yield "road", f"{preview.distance_miles:,.1f} mi, {preview.driving_hours:,.1f} h of driving{hours}"
    yield (
        "truck",
        (
            f"{vehicle.unit_number or 'any'}: {vehicle.fuel_tank_capacity_gallons:g} gal, {vehicle.mpg:g} mpg,"
            f" {vehicle.fuel_percent:g} % at the start"
        ),
    )
    yield "leaves", _moment(preview.departure)
    yield "arrives", _moment(preview.arrival)
    if preview.infeasible is not None:
        leg = preview.infeasible
        yield "no plan", f"from mile {leg.from_mile:,.0f} to {leg.to_mile:,.0f}: {leg.reason}"
    if preview.fuel_plan is not None:
        plan = preview.fuel_plan
        yield "fuel", f"{plan.total_gallons:,.1f} gal for ${plan.total_cost:,.2f}, ${plan.average_price_per_gallon:.3f}"
    yield "a mile", f"${preview.cost_per_mile:.3f}" if preview.cost_per_mile is not None else "no price is known"
    if preview.end_fuel_percent is not None:
        yield "left", f"{preview.end_fuel_percent:g} % at the destination"
    for one in preview.relaxed:
        yield "relaxed", f"{one.limit}: {_number(one.policy)} by the policy, {_number(one.used)} used"
    for way in preview.second_ways:
        yield "second way", way.text


def _fuel_stops(plan: FuelPlan) -> Table:
    table = _table("fuel stops", "mile", "station", "gallons", "$ a gallon", "$", "arrives with", "at")
    for stop in plan.stops:
        place = ", ".join(filter(None, (stop.name, stop.address)))
        table.add_row(
            f"{stop.miles_from_origin:,.1f}",
            printable(place),
            f"{stop.gallons_to_fill:.1f}",
            f"{stop.price_per_gallon:.3f}",
            f"{stop.total_cost:.2f}",
            f"{stop.arrival_fuel_percent} %",
            _moment(stop.estimated_arrival),
        )
    return table


def _alternatives(preview: LoadPreview) -> Table:
    table = _table("other plans", "condition", "first stop", "stops", "$", "costs more")
    for one in preview.alternatives:
        stops = one.fuel_plan.stops
        table.add_row(
            KINDS_IN_WORDS[one.kind],
            printable(stops[0].name) if stops else "",
            str(len(stops)),
            f"{one.fuel_plan.total_cost:.2f}",
            f"{one.extra_cost:.2f}",
        )
    return table


def _simple_ways(preview: LoadPreview) -> Table:
    table = _table("ways of fueling", "way", "$ for fuel and stops", "less leftover", "stops")
    for one in preview.simple_ways:
        table.add_row(one.name, _dollars(one.cost), _dollars(one.cost_less_leftover), str(one.stops))
    return table


def _states(preview: LoadPreview) -> Table:
    table = _table("by state", "state", "miles", "gal burned", "gal bought", "$", "tax a gallon", "surcharge", "tax $")
    for one in preview.states:
        table.add_row(
            one.state,
            f"{one.miles:,.1f}",
            f"{one.gallons_burned:,.1f}",
            f"{one.gallons_bought:,.1f}",
            f"{one.dollars:,.2f}",
            *(
                "not known" if rate is None else f"{rate:.4f}"
                for rate in (one.tax_per_gallon, one.surcharge_per_gallon)
            ),
            _dollars(one.tax_dollars),
        )
    return table


def _assumed(preview: LoadPreview) -> Table:
    table = _table("assumed", "what", "how")
    for one in preview.assumed:
        table.add_row(one.field, printable(one.text))
    return table


_LEFT = ("station", "condition", "first stop", "way", "state", "at", "what", "how")


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="left" if heading in _LEFT else "right")
    return table


def _moment(time: datetime | None) -> str:
    return f"{time:%Y-%m-%d %H:%MZ}" if time is not None else "not known"


def _dollars(amount: float | None) -> str:
    return f"{amount:,.2f}" if amount is not None else "not known"


def _number(value: float | None) -> str:
    return f"{value:g}" if value is not None else "none"
