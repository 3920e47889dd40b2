"""The savings report as rows of named values, for CSV files and JSON documents."""

from datetime import date
from typing import Any

from domain.encoding import utc_text
from domain.ids import shown_id
from domain.savings.report import Dimension, Figures, SavedPlan, SavingsLine, Week
from domain.savings.statements import StatementTrip

_FIGURES = (
    "plans",
    "plans_with_purchase",
    "gallons",
    "planned_cost",
    "cost_at_average",
    "saved",
    "saved_per_gallon",
    "saved_percent",
    *("with_fills", "bought_gallons", "paid", "proven_saved", "chosen_extra"),
)
"""All amounts are in dollars."""

CSV_COLUMNS: dict[str, tuple[str, ...]] = {
    "week": ("week_from", *_FIGURES),
    Dimension.TRUCK: ("vehicle_id", "unit_number", "vin", *_FIGURES),
    Dimension.DRIVER: ("driver_id", "name", "external_id", *_FIGURES),
    Dimension.LANE: ("origin", "destination", *_FIGURES),
    "plan": (
        *("route_id", "external_id", "plan_id", "planned_at", "vehicle_id", "unit_number", "driver_id", "driver_name"),
        *("origin", "destination", *_FIGURES[2:]),
        *("below_30_cost", "cheapest_cost", "usual_cost"),
    ),
}
"""The columns of each kind of row."""


def week_row(week: Week) -> dict[str, Any]:
    return {"week_from": week.first_day.isoformat(), **figures_row(week.figures)}


def line_row(by: Dimension, line: SavingsLine) -> dict[str, Any]:
    names: tuple[str | None, ...] = (line.name, line.other)
    if line.id is not None:
        names = (shown_id("veh" if by is Dimension.TRUCK else "drv", line.id), *names)
    return {**dict(zip(CSV_COLUMNS[by], names, strict=False)), **figures_row(line.figures)}


def plan_row(plan: SavedPlan) -> dict[str, Any]:
    figures = figures_row(plan.figures)
    return {
        "route_id": shown_id("rte", plan.route_id),
        "external_id": plan.external_id,
        "plan_id": shown_id("pln", plan.plan_id),
        "planned_at": utc_text(plan.planned_at),
        "vehicle_id": shown_id("veh", plan.vehicle_id),
        "unit_number": plan.unit_number,
        "driver_id": shown_id("drv", plan.driver_id),
        "driver_name": plan.driver_name,
        "origin": plan.origin,
        "destination": plan.destination,
        **{name: figures[name] for name in _FIGURES[2:]},
        "saved": None if plan.saved_cents is None else figures["saved"],
        "below_30_cost": _dollars(plan.below_30_cents),
        "cheapest_cost": _dollars(plan.cheapest_cents),
        "usual_cost": _dollars(plan.usual_cents),
    }


STATEMENT_COLUMNS = (
    *("month", "route_id", "planned_at", "unit_number", "gallons", "planned_cost", "saved"),
    *("bought_gallons", "paid", "proven_saved", "below_30_cost", "cheapest_cost", "usual_cost"),
)
"""The columns of a statement's trips."""


def statement_row(month: date, trip: StatementTrip) -> dict[str, Any]:
    """A trip of a statement. What was bought stands only where it is proven."""
    is_proven = trip.at_average_cents is not None and trip.paid_cents is not None
    bought_gallons = round(trip.bought_gallons or 0.0, 3)  # a sum of doubles
    values = (
        *(f"{month:%Y-%m}", shown_id("rte", trip.route_id), utc_text(trip.planned_at), trip.unit_number),
        *(round(trip.gallons, 3), _dollars(trip.cost_cents), _dollars(trip.saved_cents)),
        bought_gallons if is_proven else None,
        _dollars(trip.paid_cents) if is_proven else None,
        _dollars((trip.at_average_cents or 0) - (trip.paid_cents or 0)) if is_proven else None,
        *map(_dollars, (trip.below_30_cents, trip.cheapest_cents, trip.usual_cents)),
    )
    return dict(zip(STATEMENT_COLUMNS, values, strict=True))


def _dollars(cents: int | None) -> float | None:
    return None if cents is None else cents / 100


def figures_row(figures: Figures) -> dict[str, Any]:
    values = (
        figures.gallons,
        figures.cost,
        figures.average_cost,
        figures.saved,
        figures.saved_per_gallon,
        figures.saved_percent,
    )
    numbers = (float(value) if value is not None else None for value in values)
    real = (figures.bought_gallons, figures.paid, figures.proven)
    proven = (float(one) if figures.with_fills else None for one in real)
    chosen_extra = float(figures.chosen_extra)
    names = (figures.plans, figures.with_purchase, *numbers, figures.with_fills, *proven, chosen_extra)
    return dict(zip(_FIGURES, names, strict=True))
