"""Routes, as the API shows them."""

import sys
import time
from typing import Annotated, Any
from uuid import UUID

import msgspec
import typer

from deploy.cli.arguments import AsJson, CompanyId, Limit, RouteArgument, acting, known_id
from deploy.cli.failures import CommandFailed
from deploy.cli.output import print_fields, print_table, screen, show, show_sentence
from deploy.cli.records import Offset
from deploy.cli.storing import transaction, transaction_about
from domain import clock
from domain.contract.shapes import Route, StopType
from domain.database.connections import Tenant
from domain.lifecycle import Environment, PendingReason, RouteStatus
from domain.routes.reading.lookups import read_any_route
from domain.routes.reading.search import MOST_ROUTES_SEARCHED, RouteSearch, search_routes
from domain.text import printable
from domain.wording import counted

app = typer.Typer(no_args_is_help=True)

_LOOK_SECONDS = 1.0
"""The time between two readings of a watched route."""
_ENDED = {RouteStatus.COMPLETED, RouteStatus.CANCELED, RouteStatus.ERROR}


@app.command("list")
def routes_list(
    company_id: CompanyId,
    environment: Annotated[
        Environment, typer.Option("--environment", help="The environment of the routes.")
    ] = Environment.LIVE,
    status: Annotated[RouteStatus | None, typer.Option("--status", help="Only routes of this status.")] = None,
    held: Annotated[PendingReason | None, typer.Option("--held", help="Only routes that are held for this.")] = None,
    unit: Annotated[
        str, typer.Option("--unit", metavar="TEXT", help="Only those of trucks with this in the unit number.")
    ] = "",
    driver: Annotated[
        str, typer.Option("--driver", metavar="TEXT", help="Only those of drivers with this in the name.")
    ] = "",
    search: Annotated[
        str,
        typer.Option(
            "--search", metavar="TEXT", help="Only those with this in the externalId, the reference or a stop's name."
        ),
    ] = "",
    limit: Limit = 50,
    offset: Offset = 0,
    as_json: AsJson = False,
) -> None:
    """Lists a company's routes, those that start last first."""
    wanted = RouteSearch(status=status, held=held, unit=unit, driver=driver, text=search)
    with transaction_about(company_id) as connection:
        found = search_routes(connection, Tenant(company_id, environment), wanted, limit=limit, offset=offset)

    def text() -> None:
        columns = ("id", "external_id", "status", "held", "scheduled_start", "truck", "driver")
        print_table([_listed(route) for route in found.routes], *columns)
        total = counted(found.total, "route")
        shown = total if len(found.routes) == found.total else f"{len(found.routes):,} of {total}"
        screen.print(shown + (f" among the last {MOST_ROUTES_SEARCHED:,}" if found.is_partial else ""))

    show(as_json, {"data": found.routes, "total": found.total, "is_partial": found.is_partial}, text)


def _listed(route: Route) -> dict[str, Any]:
    return {
        "id": route.id,
        "external_id": route.external_id,
        "status": route.status,
        "held": route.pending.reason if route.pending is not None else None,
        "scheduled_start": route.scheduled_start,
        "truck": route.vehicle.unit_number,
        "driver": route.driver.name,
    }


@app.command("show")
def routes_show(route_id: RouteArgument, as_json: AsJson = False) -> None:
    """Shows a route: its stops, with the times at which the truck was there, and its fuel plan."""
    _, route = _find(route_id)

    def text() -> None:
        print_fields(_listed(route))
        if route.pending is not None:
            print_fields({"why": route.pending.detail})
        names = ("sequence", "name", "type", "planned_arrival", "actual_arrival", "actual_departure")
        print_table([{name: getattr(stop, name) for name in names} for stop in route.stops], *names)
        plan = route.fuel_plan
        if plan is not None:
            screen.print(
                f"fuel plan ({plan.status}): {plan.total_distance_miles:,.0f} miles, {plan.total_gallons:,.1f} gallons,"
                f" ${plan.total_cost:,.2f}; why: fuelroute explain {route.id}"
            )

    show(as_json, route, text)


@app.command("cancel")
def routes_cancel(
    route_id: RouteArgument,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason; the route keeps it.")],
    as_json: AsJson = False,
) -> None:
    """Cancels a route that has not started, as the API's DELETE does."""
    from domain.routes.progress import dispatcher_entries

    by = acting(reason)
    tenant, route = _find(route_id)
    with transaction_about(tenant.company_id) as connection:
        effect = dispatcher_entries.cancel(connection, tenant, _read(route.id), by, now=clock.now())
    if effect == "refuse":
        raise CommandFailed(f"the route is {_find(route_id)[1].status}: it can no longer be canceled")
    what = "canceled" if effect == "cancel" else "was canceled already"
    show_sentence(as_json, {"id": route_id, "status": RouteStatus.CANCELED}, f"{route_id} {what}")


@app.command("watch")
def routes_watch(route_id: RouteArgument, as_json: AsJson = False) -> None:
    """Prints what becomes of a route, a line for each change, until it has ended. Ctrl-C ends it earlier."""
    last: tuple[Any, ...] | None = None
    while True:
        _, route = _find(route_id)
        plan = route.fuel_plan
        reached = _reached(route)
        seen = (route.status, route.pending, reached, plan and plan.total_cost)
        if seen != last:
            if as_json:
                sys.stdout.write(msgspec.json.encode(route).decode() + "\n")
                sys.stdout.flush()
            else:
                screen.print(_line(route, reached))
            last = seen
        if route.status in _ENDED:
            return
        time.sleep(_LOOK_SECONDS)


def _reached(route: Route) -> str:
    stops = [stop for stop in route.stops if stop.type is not StopType.FUEL_STOP]
    return f"{sum(stop.actual_arrival is not None for stop in stops)} of {len(stops)} stops"


def _line(route: Route, reached: str) -> str:
    plan = route.fuel_plan
    parts = [
        f"{clock.now():%H:%M:%SZ}",
        f"{route.status:<9}",
        printable(route.pending.detail) if route.pending is not None else reached,
        f"plan ${plan.total_cost:,.2f}" if plan is not None else "",
    ]
    return "  ".join(filter(None, parts))


def _find(route_id: str) -> tuple[Tenant, Route]:
    with transaction() as connection:
        found = read_any_route(connection, _read(route_id))
    if found is None:
        raise _no_route(route_id)
    return found


def _read(route_id: str) -> UUID:
    return known_id("rte", route_id, _no_route)


def _no_route(route_id: str) -> CommandFailed:
    return CommandFailed(f"there is no route {route_id!r}: see `fuelroute routes list`")
