"""The page Find: one search box for everything that a person may name. It leads to the page of what it finds.

It scans no large table. Routes, requests, fleet and stations are searched by the lists of their own pages, which are
bounded and use these indexes: `routes_by_start` for words among the latest routes, `routes_external_id`,
`routes_canceled` and `routes_superseding` for a whole load number or order number, the order of each list of the fleet
and of stations, and the primary keys of ids and of the request log.
"""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, urlencode

from starlette.responses import Response

from domain.accounts.users import MAY_SEE_REQUESTS
from domain.database.connections import Tenant
from domain.database.listing import MOST_COUNTED
from domain.ids import read_id
from domain.lifecycle import Environment
from domain.requests.search import RequestSearch, search_requests
from domain.routes.reading.search import RouteSearch, search_routes
from domain.wording import counted
from ingress.console.addresses import page_at
from ingress.console.record_kinds import DRIVERS, STATION_LIST, VEHICLES, AnyRecordKind
from ingress.console.rendering import state_words
from ingress.console.signed_in import Page, see_other

SHOWN = 6
"""Most hits of one kind on the page; the list of the kind has the others."""


class Hit(NamedTuple):
    path: str
    name: str
    about: str


class Group(NamedTuple):
    """The hits of one kind."""

    title: str
    hits: Sequence[Hit]
    total: str
    """The number of hits in words."""
    all_path: str
    """The list of that kind, with the same search; empty where all hits are on the page."""


def show(page: Page) -> Response:
    text = page.form.text("q")
    groups = _groups(page, text) if text else []
    if direct := _page_of_id(text) or _only_hit(groups):
        return see_other(direct)
    return page.render("find.html", section="find", q=text, groups=groups)


def _page_of_id(text: str) -> str | None:
    """The page of a whole id, such as `rte_...`; None for any other text. The page decides whether the id is the
    company's."""
    if read_id("rte", text):
        return f"/routes/{text}"
    if read_id("veh", text):
        return f"/vehicles/one?id={text}"
    return f"/drivers/one?id={text}" if read_id("drv", text) else None


def _only_hit(groups: Sequence[Group]) -> str | None:
    hits = [hit for group in groups for hit in group.hits]
    return hits[0].path if len(hits) == 1 and not groups[0].all_path else None


def _groups(page: Page, text: str) -> list[Group]:
    """The hits by kind, without kinds that have none."""
    groups = [_routes(page, text, environment) for environment in Environment]
    groups += [_records(page, text, kind) for kind in (VEHICLES, DRIVERS, STATION_LIST)]
    if page.session.role in MAY_SEE_REQUESTS:
        groups.append(_requests(page, text))
    return [group for group in groups if group.hits]


def _routes(page: Page, text: str, environment: Environment) -> Group:
    found = search_routes(
        page.connection, Tenant(page.company_id, environment), RouteSearch(text=text), limit=SHOWN, offset=0
    )
    hits = [
        Hit(
            f"/routes/{route.id}",
            route.external_id,
            ", ".join(
                filter(
                    None,
                    (
                        route.reference if route.reference != route.external_id else None,
                        state_words(route.status, route.pending.reason if route.pending else None),
                        route.vehicle.unit_number,
                        route.driver.name,
                        f"{route.stops[0].name} → {route.stops[-1].name}",
                    ),
                )
            ),
        )
        for route in found.routes
    ]
    address = f"/routes?{urlencode({'environment': environment, 'q': text})}"
    title = "Routes" if environment == Environment.LIVE else "Sandbox routes"
    total = f"{counted(found.total, 'route')}{', and there may be more' if found.is_partial else ''}"
    return Group(title, hits, total, address if found.total > len(hits) or found.is_partial else "")


def _records(page: Page, text: str, kind: AnyRecordKind) -> Group:
    found = kind.listing.find(page.connection, kind.scope(page), text, limit=SHOWN, offset=0)
    hits = [
        Hit(
            f"/{kind.name}/one?id={quote(kind.key(row), safe='')}",
            kind.title(row),
            ", ".join(
                filter(
                    None,
                    (
                        kind.shown(row, kind.field(name))
                        for name in kind.listed
                        if kind.field(name).kind == "text" and kind.shown(row, kind.field(name)) != kind.title(row)
                    ),
                )
            ),
        )
        for row in found.rows
    ]
    total = (
        f"more than {MOST_COUNTED:,} {kind.name}"
        if found.total > MOST_COUNTED
        else counted(found.total, kind.one, kind.name)
    )
    return Group(
        kind.name.capitalize(), hits, total, f"/{kind.name}?{urlencode({'q': text})}" if found.has_more else ""
    )


def _requests(page: Page, text: str) -> Group:
    found = search_requests(page.connection, page.company_id, RequestSearch(text=text), limit=SHOWN)
    hits = [
        Hit(
            f"/requests/{one.id.hex}",
            f"{one.method} {one.path if one.path != '(none)' else 'an unknown address'}",
            ", ".join(filter(None, (str(one.status), one.code, one.subject, one.shown_request_id))),
        )
        for one in found.requests
    ]
    more = found.has_more or found.is_partial
    total = f"{counted(len(hits), 'request')}{', and there may be more' if more else ''}"
    return Group("API requests", hits, total, f"/requests?{urlencode({'q': text})}" if more else "")


ADDRESSES = [page_at("/find", show)]
