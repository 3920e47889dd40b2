"""The pages Routes: the list, and a page for each route."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from domain.contract.shapes import Route
from domain.database.connections import Tenant
from domain.encoding import write
from domain.ids import shown_id
from domain.lifecycle import Environment, PendingReason, RouteStatus
from domain.planning.explanation import Explanation, FullExplanation, ReasonedCandidate, StoredExplanation
from domain.planning.reasons import with_reasons
from domain.planning.road_notes import RoadInWords, road_in_words
from domain.planning.ways_out import way_out_in_words
from domain.routes.plans.stored_choices import StoredChoice, choice_in_words, extra_in_words, menu_of
from domain.routes.reading.explanations import read_certificate
from domain.routes.reading.history import (
    History,
    read_driven_levels,
    read_driven_trail,
    read_history,
    read_packed_explanation,
)
from domain.routes.reading.lookups import read_routes
from domain.routes.reading.search import (
    MOST_RECORDS,
    MOST_ROUTES_SEARCHED,
    FoundRoutes,
    RouteSearch,
    every_route,
    search_routes,
)
from domain.sandbox.drives import read_drive
from domain.stations.places import places_of_stations
from domain.wording import counted
from ingress.console.addresses import as_download, in_report_threads, page_at
from ingress.console.downloads import csv_download
from ingress.console.drawing import WIDTH, Frame, draw_ground, draw_moving, drawn_candidates
from ingress.console.maps import with_map
from ingress.console.pages.fleet.fleet_and_stations import USUAL_CLOSURE
from ingress.console.pages.routes.route_actions import DONE, possible_steps
from ingress.console.profile import PLOT, Profile, draw_profile
from ingress.console.refusals import Refused, known
from ingress.console.rendering import state_words
from ingress.console.route_map import GroundOfMap, map_ground, map_moving
from ingress.console.signed_in import Page
from ingress.console.tables import Column, FilteredList, ListTable, ShownTable, saved_filters, shown_table
from ingress.console.timeline import timeline

PAGE_SIZE = 50
MOST_EXPORTED = MOST_ROUTES_SEARCHED
"""Most routes in one file."""
STATIONS = 100
"""Stations on one page of those along a road."""
MOST_COMPARED = 3_000
"""Most stations along a road for which the cost of a stop is computed: these take half a second."""
_FILTERS = ("environment", "status", "held", "unit", "driver", "q", "from", "to")
_STATUSES = {str(status): status for status in RouteStatus}
_REASONS = {str(reason): reason for reason in PendingReason}


TABLE = ListTable(
    "routes",
    "/routes",
    (
        Column("route", "Route"),
        Column("status", "Status"),
        Column("unit", "Unit"),
        Column("driver", "Driver"),
        Column("start", "Start", is_sortable=True),
        Column("stops", "From and to"),
        Column("plan", "Fuel plan"),
        Column("reference", "Order number", is_usual=False),
        Column("miles", "Miles", is_number=True, is_usual=False),
        Column("created", "Pushed", is_usual=False),
        Column("id", "Id", is_usual=False),
    ),
    order="-start",
)
FILTERED = FilteredList("routes", "/routes", (*_FILTERS, "order"))


class _Asked(NamedTuple):
    """The routes that an address asks for, and the table that shows them."""

    tenant: Tenant
    wanted: RouteSearch
    table: ShownTable


def _asked(page: Page) -> _Asked:
    form = page.form
    wanted = RouteSearch(
        status=_STATUSES.get(form.text("status")),
        start_from=_start_of(page, "from"),
        start_to=_start_of(page, "to", days=1),
        held=_REASONS.get(form.text("held")),
        unit=form.text("unit"),
        driver=form.text("driver"),
        text=form.text("q"),
    )
    table = shown_table(page, TABLE, {name: form.text(name) for name in _FILTERS})
    return _Asked(page.tenant, wanted, table)


def _found(page: Page, asked: _Asked, *, limit: int, offset: int) -> FoundRoutes:
    return search_routes(
        page.connection,
        asked.tenant,
        asked.wanted,
        limit=limit,
        offset=offset,
        earliest_first=not asked.table.is_descending,
    )


def show(page: Page) -> Response:
    """Show the list of routes, or the part of it that refreshes itself."""
    number, asked = page.form.number("page", most=1_000_000), _asked(page)
    found = _found(page, asked, limit=PAGE_SIZE, offset=number * PAGE_SIZE)
    values = {name: page.form.text(name) for name in _FILTERS if page.form.text(name)}
    return page.render(
        "_routes.html" if page.is_fragment else "routes.html",
        section="routes",
        found=found,
        table=asked.table,
        filters=saved_filters(page, FILTERED) if not page.is_fragment else None,
        most_searched=MOST_ROUTES_SEARCHED,
        most_records=MOST_RECORDS,
        most_exported=MOST_EXPORTED,
        environment=asked.tenant.environment,
        form=page.form,
        statuses=list(RouteStatus),
        reasons=list(PendingReason),
        is_filtered=any(asked.wanted),
        page_number=number,
        pages=-(-found.total // PAGE_SIZE),
        value_of=lambda route, name: EXPORTED[name](route, ZoneInfo(page.session.time_zone)) or "",
        of_environment=lambda one: f"/routes?{urlencode({**values, 'environment': one})}",
    )


def export(page: Page) -> Response:
    """The routes of all pages, with the list's columns and in its order, as a CSV file."""
    asked = _asked(page)
    if _found(page, asked, limit=1, offset=0).total > MOST_EXPORTED:
        raise Refused(
            400,
            "These are too many routes for one file",
            f"Go back and choose a status or fewer days: {MOST_EXPORTED:,} routes are the limit.",
        )
    zone = ZoneInfo(page.session.time_zone)
    routes = every_route(page.connection, asked.tenant, asked.wanted, earliest_first=not asked.table.is_descending)
    rows = ([EXPORTED[one.name](route, zone) for one in asked.table.columns] for route in routes)
    head = [one.title for one in asked.table.columns]
    return csv_download("fuelroute-routes.csv", head, rows)


def _moment(at: datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M}"


def _plan_in_words(route: Route) -> str:
    plan = route.fuel_plan
    return f"{counted(len(plan.stops), 'stop')}, ${plan.total_cost:,.2f}" if plan is not None else ""


EXPORTED: dict[str, Callable[[Route, ZoneInfo], object]] = {
    "route": lambda route, _: route.external_id,
    "status": lambda route, _: state_words(route.status, route.pending.reason if route.pending else None),
    "unit": lambda route, _: route.vehicle.unit_number,
    "driver": lambda route, _: route.driver.name,
    "start": lambda route, zone: _moment(route.scheduled_start, zone),
    "stops": lambda route, _: f"{route.stops[0].name} → {route.stops[-1].name}",
    "plan": lambda route, _: _plan_in_words(route),
    "reference": lambda route, _: route.reference,
    "miles": lambda route, _: route.distance_miles,
    "created": lambda route, zone: _moment(route.created_at, zone),
    "id": lambda route, _: route.id,
}
"""The values of the columns in the CSV file, and in the list where it shows them as plain text."""


def _start_of(page: Page, name: str, *, days: int = 0) -> datetime | None:
    """The first moment of the day in the form, or `days` later, in the company's zone; None for an empty field. Raises
    Refused for any other text."""
    day = page.form.text(name)
    if not day:
        return None
    try:
        midnight = datetime.combine(datetime.fromisoformat(day).date() + timedelta(days=days), time())
        return midnight.replace(tzinfo=ZoneInfo(page.session.time_zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Refused(400, "This is no date", f"Go back and correct the day in “{name}”.") from None


def show_one(page: Page) -> Response:
    """Show a route, or the part of its page that moves: status, stops, truck and timeline. Once there is another plan,
    the part has the road and its stations too."""
    history = _history(page)
    tenant = Tenant(page.company_id, Environment(history.route.environment))
    (versioned,) = read_routes([(tenant, history.route.id)]).on(page.connection)
    version, route = known(versioned)
    moving: dict[str, Any] = {
        "route": route,
        "stored": history.route,
        "truck": history.truck,
        "drive": read_drive(page.connection, page.company_id, history.route.id),
        "width": WIDTH,
        "map_moving": map_moving(history),
        "events": timeline(history, route.stops),
        "version": version,
        "seen": page.form.text("seen") if page.is_fragment else version,
    }
    if page.is_fragment and page.form.text("drawn") == str(history.route.plan_id or ""):
        drawing = draw_moving(history, Frame.read(page.form.text("frame")))
        return page.render("_route_now.html", **moving, drawing=drawing)
    explanation = read_packed_explanation(page.connection, page.company_id, history.route)
    drawn = explanation.part(drawn_candidates(explanation)) if explanation else None
    ground = draw_ground(history, drawn)
    moving |= {
        "ground": ground,
        "drawing": draw_moving(history, ground.frame),
        "map_ground": _map_ground(page, history, drawn),
    }
    if page.is_fragment:
        response = page.render("_route_drawn.html", **moving)
        response.headers["HX-Retarget"] = ".now"
        response.headers["HX-Reswap"] = "outerHTML"
        return response
    response = page.render(
        "route.html",
        section="routes",
        **moving,
        visits=history.visits,
        plans=history.plans,
        messages=history.messages,
        current_plan=history.current_plan,
        fill_levels=history.fill_levels,
        menu=_menu(page, history),
        choice_in_words=choice_in_words,
        extra_in_words=extra_in_words,
        planned_stations=history.planned_stations,
        found_closed=history.found_closed,
        until=page.field_of_moment(page.now + USUAL_CLOSURE),
        of_present_input={plan.id for plan in history.plans if plan.revision == history.route.revision},
        explained=_explained(page, explanation) if explanation else None,
        profile=_profile(page, history, drawn) if drawn else None,
        plot=PLOT,
        most_compared=MOST_COMPARED,
        api_view=msgspec.json.format(write(route), indent=2).decode(),
        api_url=page.console.settings.api_address(),
        steps=possible_steps(page, history),
        done=DONE.get(page.form.text("done"), ""),
    )
    return with_map(page.console.settings, response)


def certificate(page: Page) -> Response:
    """The certificate of the route's current plan."""
    route_id = page.id_in_address("rte")
    written = known(read_certificate(page.connection, route_id, company_id=page.company_id))
    headers = {"Content-Disposition": f'attachment; filename="certificate-{shown_id("rte", route_id)}.json"'}
    return Response(written, media_type="application/json", headers=headers)


def _menu(page: Page, history: History) -> list[StoredChoice]:
    plan_id = history.route.plan_id
    tenant = Tenant(page.company_id, Environment(history.route.environment))
    return menu_of(page.connection, tenant, plan_id) if plan_id is not None else []


def _map_ground(page: Page, history: History, explanation: Explanation | None) -> GroundOfMap:
    station_ids = {one["station_id"] for one in explanation["candidates"]} if explanation else set()
    places = places_of_stations(page.connection, sorted(station_ids))
    return map_ground(history, explanation, places, read_driven_trail(page.connection, page.company_id, history))


def _profile(page: Page, history: History, explanation: Explanation) -> Profile | None:
    driven = read_driven_levels(page.connection, page.company_id, history, explanation)
    return draw_profile(history, explanation, driven)


class Explained(NamedTuple):
    """The explanation of a plan, with one page of the stations along the road."""

    document: FullExplanation
    road: RoadInWords
    stations: list[ReasonedCandidate]
    total: int
    page: int
    pages: int
    is_asked: bool
    """True if the address names the page."""

    @property
    def signs(self) -> dict[str, str]:
        """The road and the exit to each fuel stop, such as `I-80 E, exit 122`, by its station."""
        return {one["station_id"]: one["sign"] for one in self.document["candidates"] if "sign" in one}

    @property
    def ways_out(self) -> dict[str, str]:
        """The way out of each fuel stop in words, by its station."""
        chosen = [one for one in self.document["candidates"] if "way_out" in one]
        return {one["station_id"]: way_out_in_words(one["way_out"]) for one in chosen}


def _explained(page: Page, explanation: StoredExplanation) -> Explained:
    total = len(explanation)
    pages = max(1, -(-total // STATIONS))
    number = min(page.form.number("stations"), pages - 1)
    shown = range(number * STATIONS, min((number + 1) * STATIONS, total))
    is_whole = total <= MOST_COMPARED
    indexes = range(total) if is_whole else sorted({*shown, *explanation.chosen})
    document = with_reasons(explanation.part(indexes), is_whole=is_whole)
    stations = [one for index, one in zip(indexes, document["candidates"], strict=True) if index in shown]
    road = road_in_words(document["sources"]["roads"])
    return Explained(document, road, stations, total, number, pages, bool(page.form.text("stations")))


def _history(page: Page) -> History:
    """The history of the route in the address. Raises Refused if the company has no such route."""
    return known(read_history(page.connection, page.company_id, page.id_in_address("rte")))


ADDRESSES = [
    page_at("/routes", show),
    page_at("/routes.csv", export, run=as_download),
    page_at("/routes/{id}", show_one),
    page_at("/routes/{id}/certificate.json", certificate, run=in_report_threads),
]
