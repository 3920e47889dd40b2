"""The pages Savings: the savings of plans in a span of days, in all, by week, and by truck, driver or lane; the plans
behind each figure; and both as CSV files."""

from collections.abc import Iterable
from datetime import date, timedelta
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from uuid import UUID

from starlette.responses import Response

from domain.accounts.companies import read_company
from domain.database.connections import Tenant
from domain.files.csvfiles import write_records
from domain.ids import read_id, shown_id
from domain.lifecycle import Environment
from domain.savings.driver_habits import HABIT_BASIS
from domain.savings.export import CSV_COLUMNS, line_row, plan_row
from domain.savings.habit_report import HABIT_COLUMNS, habit_row, savings_by_habit
from domain.savings.report import (
    Dimension,
    LineOrder,
    PlanFilter,
    SavingsLine,
    Week,
    plans_behind,
    savings_by_line,
    savings_by_week,
    total_of,
)
from domain.savings.spans import Span
from domain.wording import sentence
from ingress.console.addresses import as_download, page_at
from ingress.console.downloads import Download
from ingress.console.refusals import Refused, not_found
from ingress.console.report_choices import address_with, named_spans, span_of, today_of
from ingress.console.savings_chart import PLOT, draw_prices, draw_savings
from ingress.console.signed_in import Page

LINES, PLANS = 50, 100
"""Lines and plans on one page."""
MOST_PLANS = 100_000
"""Most plans in one file."""

_COLUMNS = {**CSV_COLUMNS, "habit": HABIT_COLUMNS}
NAMES = {Dimension.TRUCK: "Trucks", Dimension.DRIVER: "Drivers", Dimension.LANE: "Lanes"}


class _Wanted(NamedTuple):
    """The choices in the address."""

    tenant: Tenant
    span: Span
    by: Dimension
    order: LineOrder
    ascending: bool
    only: PlanFilter
    page: int


def show(page: Page) -> Response:
    wanted = _wanted(page)
    weeks = savings_by_week(page.connection, wanted.tenant, wanted.span)
    found = savings_by_line(
        page.connection,
        wanted.tenant,
        wanted.span,
        wanted.by,
        order=wanted.order,
        ascending=wanted.ascending,
        limit=LINES,
        offset=wanted.page * LINES,
    )
    return page.render(
        "savings.html",
        **_head(page, wanted, weeks, target=_target(page, wanted)),
        found=found,
        pages=-(-found.total // LINES),
        names=NAMES,
        habits=savings_by_habit(page.connection, wanted.tenant, wanted.span),
        habit_basis=sentence(HABIT_BASIS).rstrip("."),
        plans_of=lambda line: address_with(page, "/savings/plans", _FIELDS, page=None, **_fields_of(wanted.by, line)),
    )


def show_plans(page: Page) -> Response:
    """The plans behind a figure."""
    wanted = _wanted(page)
    weeks = savings_by_week(page.connection, wanted.tenant, wanted.span, wanted.only)
    shown = plans_behind(
        page.connection, wanted.tenant, wanted.span, wanted.only, limit=PLANS, offset=wanted.page * PLANS
    )
    return page.render(
        "savings_plans.html",
        **_head(page, wanted, weeks),
        only=wanted.only,
        prices=draw_prices(weeks) if wanted.only.origin and wanted.only.destination else None,
        plans=list(shown),
        pages=-(-total_of(weeks).plans // PLANS),
    )


def export(page: Page) -> Response:
    """The lines as a CSV file."""
    wanted = _wanted(page)
    found = savings_by_line(
        page.connection, wanted.tenant, wanted.span, wanted.by, order=wanted.order, ascending=wanted.ascending
    )
    return _file(wanted, wanted.by, (line_row(wanted.by, line) for line in found.lines))


def export_plans(page: Page) -> Response:
    """The plans behind a figure as a CSV file."""
    wanted = _wanted(page)
    weeks = savings_by_week(page.connection, wanted.tenant, wanted.span, wanted.only)
    if total_of(weeks).plans > MOST_PLANS:
        raise Refused(
            400,
            "These are too many plans for one file",
            f"Go back and choose fewer days: {MOST_PLANS:,} plans are the limit. `fuelroute savings report` has none.",
        )
    plans = plans_behind(page.connection, wanted.tenant, wanted.span, wanted.only)
    return _file(wanted, "plan", map(plan_row, plans))


def export_habits(page: Page) -> Response:
    """The savings against habits as a CSV file, with the method of each."""
    wanted = _wanted(page)
    habits = savings_by_habit(page.connection, wanted.tenant, wanted.span)
    return _file(wanted, "habit", map(habit_row, habits))


def _file(wanted: _Wanted, kind: str, rows: Iterable[dict[str, Any]]) -> Response:
    name = f"savings-by-{kind}-{wanted.span.first_day}-{wanted.span.last_day}.csv"
    return Download(name, lambda file: write_records(file, _COLUMNS[kind], rows))


# --- What the address asks for ---------------------------------------------------------------------------------

_ONLY = ("vehicle", "driver", "origin", "destination")
_FIELDS = ("environment", "from", "to", "by", "order", "direction", *_ONLY, "page")
_BYS = {str(one): one for one in Dimension}
_ORDERS = {str(one): one for one in LineOrder}


def _wanted(page: Page) -> _Wanted:
    """Read the choices from the address. Raises Refused for those that are not offered."""
    form = page.form
    return _Wanted(
        tenant=page.tenant,
        span=span_of(page),
        by=_BYS.get(form.text("by"), Dimension.TRUCK),
        order=_ORDERS.get(form.text("order"), LineOrder.SAVED),
        ascending=form.text("direction") == "up",
        only=PlanFilter(
            _id(page, "vehicle", "veh"), _id(page, "driver", "drv"), _place(page, "origin"), _place(page, "destination")
        ),
        page=form.number("page"),
    )


def _id(page: Page, name: str, kind: Literal["veh", "drv"]) -> UUID | None:
    text = page.form.text(name)
    found = read_id(kind, text)
    if text and found is None:
        raise not_found()
    return found


def _place(page: Page, name: str) -> str | None:
    return page.form.packed(name) or None


def _fields_of(by: Dimension, line: SavingsLine) -> dict[str, str]:
    """The fields of an address that shows the plans of a line. `_place` reads the places."""
    if line.id is None:
        return {"origin": quote(line.name or "", safe=""), "destination": quote(line.other or "", safe="")}
    return {"vehicle": shown_id("veh", line.id)} if by is Dimension.TRUCK else {"driver": shown_id("drv", line.id)}


# --- What both pages begin with --------------------------------------------------------------------------------


def _target(page: Page, wanted: _Wanted) -> float:
    """The company's target in dollars a week, for live routes only; 0 for none."""
    if wanted.tenant.environment is not Environment.LIVE:
        return 0
    return read_company(page.connection, page.company_id).savings_target_per_week


def whole_weeks(weeks: list[Week], span: Span, today: date) -> list[Week]:
    """The weeks of the span from Monday to Sunday that are over."""
    week_days, last_day = timedelta(days=6), min(span.last_day, today - timedelta(days=1))
    return [week for week in weeks if week.first_day.weekday() == 0 and week.first_day + week_days <= last_day]


def _head(page: Page, wanted: _Wanted, weeks: list[Week], *, target: float = 0) -> dict[str, Any]:
    return {
        "section": "savings",
        "wanted": wanted,
        "weeks": weeks,
        "chart": draw_savings(weeks, target=target),
        "target": target,
        "whole_weeks": (whole := whole_weeks(weeks, wanted.span, today_of(page))),
        "weeks_on_target": sum(float(week.figures.saved) >= target for week in whole),
        "plot": PLOT,
        "total": total_of(weeks),
        "address": lambda path, **changes: address_with(page, path, _FIELDS, **changes),
        "path": page.request.url.path,
        "spans": named_spans(page),
        "environments": list(Environment),
        "orders": list(LineOrder),
        "kept": {name: page.form.secret(name) for name in ("environment", "by", *_ONLY) if page.form.secret(name)},
    }


ADDRESSES = [
    page_at("/savings", show),
    page_at("/savings.csv", export, run=as_download),
    page_at("/savings/habits.csv", export_habits, run=as_download),
    page_at("/savings/plans", show_plans),
    page_at("/savings/plans.csv", export_plans, run=as_download),
]
