"""The needs of a company: those of its routes, and those that it has as a whole. Notices tell of all.

Operators see similar work of all companies as figures; `overdue.py` says where its limits differ."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID

from domain.burn.tank_proposals import OTHER_TANKS, proposed_tanks
from domain.database.connections import Connection, Tenant
from domain.database.statements import NotNull, Scalar, Statement
from domain.ids import shown_id
from domain.needs.need import Need, Summary
from domain.needs.route_needs import MOST_OF_A_NEED, ROUTE_NEEDS, RouteNeed, RoutesInNeed, find_routes_in_need
from domain.stations.held_prices import WAITING_PRICES, count_held, held_prices
from domain.stations.price_presence import HAS_PRICES, has_prices
from domain.stations.price_sources import HAS_TROUBLE, SOURCES


@dataclass(frozen=True, kw_only=True)
class CompanyNeed(Need):
    """A need of the company as a whole, in both environments: it has no routes to name."""

    source: str
    """SQL from FROM on, with a row for each case that `look` finds."""
    look: Callable[[Connection, UUID, datetime], Summary | None]


def _look_for_no_prices(connection: Connection, company_id: UUID, now: datetime) -> Summary | None:
    if has_prices(connection, company_id, now=now):
        return None
    return Summary("no truck stop has a price of the last seven days", "", "/stations", 0)


def _look_for_late_price_files(connection: Connection, company_id: UUID, now: datetime) -> Summary | None:
    late = [source for source in SOURCES.all(connection, company_id) if source.trouble_since(now) is not None]
    if not late:
        return None
    what_to_do = f"The last fault: {late[0].fault}" if late[0].fault else "Ask whoever sends the file"
    return Summary(f"no price file from {late[0].name}", what_to_do, "/prices", len(late) - 1)


def _look_for_other_tanks(connection: Connection, company_id: UUID, _: datetime) -> Summary | None:
    proposed = proposed_tanks(connection, company_id, limit=MOST_OF_A_NEED)
    if not proposed:
        return None
    first = proposed[0]
    what = f"the tank of truck {first.unit_number or 'without a number'} seems to hold {first.tank_gallons:g} gal"
    path = f"/vehicles/one?id={shown_id('veh', first.vehicle_id)}"
    return Summary(what, "Declare that on its page, or keep it as it is", path, len(proposed) - 1)


_OPEN_FILLS = "FROM fills WHERE company_id = %(company_id)s AND environment = 'live' AND review <> '{}'"


class _OpenFill(NamedTuple):
    day: NotNull[date]
    location_name: str | None
    fills: int


_NEWEST_OPEN_FILL = Statement(
    _OpenFill,
    f"""
    SELECT (bought_at AT TIME ZONE time_zone)::date AS day, location_name, count(*) OVER () AS fills
    FROM (SELECT id, bought_at, time_zone, location_name {_OPEN_FILLS}
          ORDER BY bought_at DESC, id LIMIT {MOST_OF_A_NEED}) AS f
    ORDER BY bought_at DESC, id LIMIT 1
    """,
)


def _look_for_open_fills(connection: Connection, company_id: UUID, _: datetime) -> Summary | None:
    newest = _NEWEST_OPEN_FILL.first(connection, {"company_id": company_id})
    if newest is None:
        return None
    what = f"the fill of {newest.day:%b %d, %Y} at {newest.location_name or 'an unknown place'} waits for a decision"
    return Summary(what, "Say which truck, station or route is its own", _OPEN_FILLS_PAGE, newest.fills - 1)


def _look_for_held_prices(connection: Connection, company_id: UUID, _: datetime) -> Summary | None:
    first = held_prices(connection, company_id, limit=1)
    if not first:
        return None
    more = count_held(connection, company_id) - 1
    return Summary(f"the price of {first[0].place} is held", "Accept or refuse it", "/prices", more)


_TO_AMEND = "FROM ifta_filings WHERE company_id = %(company_id)s AND reopened_at IS NULL AND is_to_amend"
_QUARTERS_TO_AMEND = Scalar(str, f"SELECT quarter {_TO_AMEND} ORDER BY quarter DESC LIMIT {MOST_OF_A_NEED}")


def _look_for_quarters_to_amend(connection: Connection, company_id: UUID, _: datetime) -> Summary | None:
    quarters = _QUARTERS_TO_AMEND.all(connection, {"company_id": company_id})
    if not quarters:
        return None
    what = f"the miles or gallons of {quarters[0]} have changed since it was filed"
    what_to_do = "Look whether the return has to be amended"
    return Summary(what, what_to_do, f"/ifta?quarter={quarters[0]}", len(quarters) - 1)


_OPEN_FILLS_PAGE = "/fills?list=review"


COMPANY_NEEDS: tuple[RouteNeed | CompanyNeed, ...] = (
    *ROUTE_NEEDS,
    CompanyNeed(
        kind="no_prices",
        ended="Truck stops have fresh prices again",
        label="No truck stop has a price of the last seven days",
        path="/stations",
        source=f"FROM companies one WHERE one.id = %(company_id)s AND NOT ({HAS_PRICES})",
        look=_look_for_no_prices,
    ),
    CompanyNeed(
        kind="price_file_late",
        ended="The price files come again",
        label="A price file is late",
        path="/prices",
        source=f"FROM price_sources WHERE company_id = %(company_id)s AND {HAS_TROUBLE}",
        look=_look_for_late_price_files,
    ),
    CompanyNeed(
        kind="prices_held",
        ended="No price is held any more",
        label="Prices are held until a person decides",
        path="/prices",
        source=WAITING_PRICES,
        look=_look_for_held_prices,
    ),
    CompanyNeed(
        kind="fills_to_review",
        ended="No fill waits for a decision any more",
        label="Fills wait for a decision",
        path=_OPEN_FILLS_PAGE,
        source=_OPEN_FILLS,
        look=_look_for_open_fills,
    ),
    CompanyNeed(
        kind="tank_differs",
        ended="No tank waits for a decision any more",
        label="The tank of a truck differs from the declared one",
        path="/vehicles",
        source=OTHER_TANKS,
        look=_look_for_other_tanks,
    ),
    CompanyNeed(
        kind="ifta_changed",
        ended="No filed quarter of fuel tax differs any more",
        label="A filed quarter of fuel tax has changed since",
        path="/ifta",
        source=_TO_AMEND,
        look=_look_for_quarters_to_amend,
    ),
)


def find_needs(
    connection: Connection, tenant: Tenant, *, kinds: Collection[str], now: datetime
) -> dict[str, RoutesInNeed | Summary]:
    """The needs of these kinds that there are, by their kinds."""
    found: dict[str, RoutesInNeed | Summary | None] = {
        one.need.kind: one for one in find_routes_in_need(connection, tenant, now=now) if one.need.kind in kinds
    }
    for need in COMPANY_NEEDS:
        if isinstance(need, CompanyNeed) and need.kind in kinds:
            found[need.kind] = need.look(connection, tenant.company_id, now)
    return {kind: one for kind, one in found.items() if one is not None}
