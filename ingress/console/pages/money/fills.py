"""The pages Fills: purchases of fuel cards, a person's decisions about them, and planned against bought."""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from starlette.responses import Response

from domain.accounts.users import MAY_DISPATCH
from domain.audit.entries import Actor, actions_on_subject
from domain.files.csvfiles import write_records
from domain.files.products import Fuel
from domain.fills.bought_report import (
    BOUGHT_COLUMNS,
    BoughtBy,
    BoughtStop,
    bought_lines,
    bought_row,
    bought_stops,
    stop_row,
    total_bought,
)
from domain.fills.fill_lists import (
    FLAG_REASONS,
    MOST_COUNTED_FILLS,
    REVIEW_REASONS,
    FillList,
    ShownFill,
    count_fills,
    list_fills,
    read_fill,
    route_choices,
)
from domain.fills.importing import BATCH_FILLS, read_stations
from domain.fills.matching_again import end_matching, match_fills_again
from domain.fills.reviewing import BY_RULE, NO_ROUTE, Decision, UnusableDecision, decide
from domain.ids import read_id, shown_id
from domain.lifecycle import Environment
from domain.savings.spans import Span
from ingress.console.addresses import action_at, as_download, in_report_threads, page_at
from ingress.console.downloads import Download
from ingress.console.refusals import Refused, known
from ingress.console.report_choices import address_with, drivers_hidden, named_spans, sees_drivers, span_of
from ingress.console.signed_in import Page, see_other
from ingress.console.stale_forms import require_seen, state_of

FILLS, STOPS, LINES = 100, 100, 100
"""Most fills, stops, and lines of planned against bought on one page."""
MOST_STOPS = 100_000
"""Most stops in one file."""

_LISTS = {str(one): one for one in FillList}
_KEPT = ("environment", "from", "to", "by", "page")
_BYS = {str(one): one for one in BoughtBy}
_NAMES = {FillList.ALL: "All", FillList.REVIEW: "To review", FillList.FLAGGED: "Flagged"}
MOST_MATCHED = 5_000
"""Most fills that the page matches again; `fuelroute fills match` takes more."""
_DONE = {
    "matched": "All that waits was matched again with the trucks, mappings, stations and routes of now.",
    "decided": "It is stored, and what depends on it is computed again.",
}


def show(page: Page) -> Response:
    tenant, which = page.tenant, _LISTS.get(page.form.text("list"), FillList.ALL)
    number = page.form.number("page")
    fills = list_fills(page.connection, tenant, which, limit=FILLS + 1, offset=number * FILLS)
    return page.render(
        "fills.html",
        section="fills",
        tenant=tenant,
        which=which,
        names=_NAMES,
        counts={one: count_fills(page.connection, tenant, one) for one in (FillList.REVIEW, FillList.FLAGGED)},
        most_counted=MOST_COUNTED_FILLS,
        environments=list(Environment),
        fills=fills[:FILLS],
        number=number,
        has_more=len(fills) > FILLS,
        reviews=REVIEW_REASONS,
        flags=FLAG_REASONS,
        done=_DONE.get(page.form.text("done"), ""),
    )


def match_again(page: Page, by: Actor) -> Response:
    """Match the waiting fills once more, up to `MOST_MATCHED`."""
    tenant, stations = page.tenant, read_stations(page.connection, page.company_id)
    settled, after = 0, UUID(int=0)
    for _ in range(MOST_MATCHED // BATCH_FILLS):
        done = match_fills_again(
            page.connection,
            tenant,
            stations,
            after=after,
            far_miles=page.console.settings.fill_far_miles,
            now=page.now,
        )
        settled += done.settled
        if done.last_id is None:
            break
        after = done.last_id
    end_matching(page.connection, tenant, by, settled=settled)
    return see_other(f"/fills?environment={tenant.environment}&list=review&done=matched")


# --- One fill, and the decision about it -------------------------------------------------------------------------


def show_fill(page: Page, *, fault: str = "", status: int = 200) -> Response:
    fill_id = page.id_in_address("fil")
    fill = known(read_fill(page.connection, page.company_id, fill_id))
    shown = shown_id("fil", fill_id)
    return page.render(
        "fill.html",
        status=status,
        section="fills",
        fill=fill,
        shown=shown,
        seen=state_of(_decided_on(fill)),
        reviews=REVIEW_REASONS,
        flags=FLAG_REASONS,
        fuels=[one for one in Fuel if one is not Fuel.UNKNOWN],
        routes=route_choices(page.connection, page.company_id, fill),
        entries=actions_on_subject(page.connection, page.company_id, shown, limit=20),
        may_decide=page.session.role in MAY_DISPATCH,
        form=page.form,
        fault=fault,
    )


def _decided_on(fill: ShownFill) -> tuple[object, ...]:
    """The purchase, its matches, and what was decided before: on these a person decides."""
    told = (fill.bought_at, fill.fuel, fill.gallons, fill.paid_cents, fill.currency)
    matched = (fill.vehicle_id, fill.station_id, fill.route_id, fill.counter_id, fill.twin_id)
    return *told, *matched, fill.review, fill.decided_by


def decide_fill(page: Page, by: Actor) -> Response:
    """Confirm the matches, or change them. Raises Refused if they, or what the card says, have changed since the page
    was loaded."""
    fill_id, form = page.id_in_address("fil"), page.form
    fill = known(read_fill(page.connection, page.company_id, fill_id))
    require_seen(page, _decided_on(fill), "this fill")
    fuel, route = form.text("fuel"), form.text("route")
    route_id = read_id("rte", route)
    if fuel not in ("", *Fuel) or (route not in (BY_RULE, NO_ROUTE) and route_id is None):
        raise Refused(400, "This form is not complete", "Go back and choose a fuel and a route from the lists.")
    decision = Decision(
        unit_number=form.text("unit") or None,
        station_id=form.text("station") or None,
        fuel=Fuel(fuel) if fuel else None,
        route=route_id or route,
        is_twice=form.text("twice") == "yes",
    )
    far_miles = page.console.settings.fill_far_miles
    with page.connection.transaction():  # what fails in it leaves the page its connection
        decide(page.connection, page.company_id, fill_id, decision, by, far_miles=far_miles, now=page.now)
    return see_other(f"/fills?environment={fill.environment}&list=review&done=decided")


# --- Planned against bought --------------------------------------------------------------------------------------


def show_bought(page: Page) -> Response:
    tenant, span = page.tenant, span_of(page)
    kinds = {name: one for name, one in _BYS.items() if one is not BoughtBy.DRIVER or sees_drivers(page)}
    by, number = kinds.get(page.form.text("by"), BoughtBy.WEEK), page.form.number("page")
    weeks = bought_lines(page.connection, tenant, span, BoughtBy.WEEK)
    total = total_bought(weeks)
    lines = weeks if by is BoughtBy.WEEK else bought_lines(page.connection, tenant, span, by)
    return page.render(
        "bought.html",
        section="bought",
        tenant=tenant,
        span=span,
        by=by,
        kinds=kinds,
        total=total,
        lines=lines[:LINES],
        found=len(lines),
        stops=list(_stops(page, span, limit=STOPS, offset=number * STOPS)),
        number=number,
        pages=-(-total.stops // STOPS),
        environments=list(Environment),
        spans=named_spans(page)[:2],
        address=lambda path, **changes: address_with(page, path, _KEPT, **changes),
    )


def _stops(page: Page, span: Span, **portion: int) -> Iterator[BoughtStop]:
    """The stops behind the report, without their drivers for a person who may not see them."""
    for stop in bought_stops(page.connection, page.tenant, span, **portion):
        yield stop if sees_drivers(page) else stop._replace(driver_name=None)


def export_bought(page: Page) -> Response:
    tenant, span, by = page.tenant, span_of(page), page.form.text("by")
    if by == BoughtBy.DRIVER and not sees_drivers(page):
        raise drivers_hidden()
    rows: Iterable[dict[str, Any]]
    if by in _BYS:
        kind = _BYS[by]
        rows = [bought_row(kind, line) for line in bought_lines(page.connection, tenant, span, kind)]
    else:
        by = "stop"
        if total_bought(bought_lines(page.connection, tenant, span, BoughtBy.WEEK)).stops > MOST_STOPS:
            raise Refused(
                400,
                "These are too many stops for one file",
                f"Choose fewer days: {MOST_STOPS:,} stops are the limit. `fuelroute fills compared` has none.",
            )
        rows = map(stop_row, _stops(page, span))
    name = f"bought-by-{by}-{span.first_day}-{span.last_day}.csv"
    return Download(name, lambda file: write_records(file, BOUGHT_COLUMNS[by], rows))


ADDRESSES = [
    page_at("/fills", show),
    action_at("/fills/match", match_again, by=MAY_DISPATCH, run=in_report_threads),
    page_at("/fills/{id}", show_fill),
    action_at("/fills/{id}", decide_fill, by=MAY_DISPATCH, again=show_fill, faults={UnusableDecision: 400}),
    page_at("/bought", show_bought),
    page_at("/bought.csv", export_bought, run=as_download),
]
