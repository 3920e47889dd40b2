"""A user's choices for lists: the columns of tables, and filters saved under a name."""

from starlette.responses import Response

from domain.accounts.saved_filters import (
    LONGEST_FILTER_QUERY,
    UnusableFilter,
    remove_filter,
    rename_filter,
    save_filter,
)
from domain.accounts.table_columns import store_table_columns
from domain.accounts.users import EVERYBODY
from domain.audit.entries import Actor
from domain.lifecycle import Role
from domain.wording import sentence
from ingress.console.addresses import action_at
from ingress.console.browser import own_path
from ingress.console.pages.fleet import fleet_and_stations, fleet_map
from ingress.console.pages.routes import routes
from ingress.console.refusals import Refused, known, not_found
from ingress.console.signed_in import Page, see_other
from ingress.console.tables import FilteredList

_LISTS = {one.name: one for one in (routes.FILTERED, fleet_map.FILTERED)}
_TABLES = {table.name: table for table in (routes.TABLE, *fleet_and_stations.TABLES.values())}
_OF_COMPANY = frozenset(Role) - {Role.OPERATOR}
_LONGEST_PATH = 4_000


def choose_columns(page: Page, _: Actor) -> Response:
    table = known(_TABLES.get(page.request.path_params["name"]))
    wanted = table.known(page.form.all("column"))
    chosen = None if wanted == table.known(table.usual()) or page.form.text("usual") else wanted
    store_table_columns(page.connection, page.session.user_id, table.name, chosen)
    return see_other(own_path(page.form.text("next", most=_LONGEST_PATH)))


def save(page: Page, _: Actor) -> Response:
    """Save the present filter. The list is shown with it."""
    wanted = _list(page)
    query = wanted.query_of(page.form.text("query", most=LONGEST_FILTER_QUERY * 3))
    if not query:
        raise Refused(400, "There is nothing to save", "Filter the list first.")
    _store(page, wanted, query)
    return see_other(f"{wanted.path}?{query}")


def _store(page: Page, wanted: FilteredList, query: str) -> None:
    try:
        save_filter(page.connection, page.company_id, page.session.user_id, wanted.name, page.form.text("name"), query)
    except UnusableFilter as error:
        raise _unusable(error) from None


def rename(page: Page, _: Actor) -> Response:
    wanted, name = _list(page), page.form.packed("name")
    try:
        is_known = rename_filter(
            page.connection, page.company_id, page.session.user_id, wanted.name, name, page.form.text("new_name")
        )
    except UnusableFilter as error:
        raise _unusable(error) from None
    if not is_known:
        raise not_found()
    return _back(page, wanted)


def remove(page: Page, _: Actor) -> Response:
    wanted = _list(page)
    remove_filter(page.connection, page.company_id, page.session.user_id, wanted.name, page.form.packed("name"))
    return _back(page, wanted)


def _back(page: Page, wanted: FilteredList) -> Response:
    query = wanted.query_of(page.form.text("query", most=LONGEST_FILTER_QUERY * 3))
    return see_other(f"{wanted.path}{'?' if query else ''}{query}")


def _unusable(error: UnusableFilter) -> Refused:
    return Refused(400, "This filter cannot be saved", sentence(str(error)))


def _list(page: Page) -> FilteredList:
    return known(_LISTS.get(page.request.path_params["name"]))


ADDRESSES = [
    action_at("/tables/{name}", choose_columns, by=EVERYBODY),
    action_at("/filters/{name}", save, by=_OF_COMPANY),
    action_at("/filters/{name}/rename", rename, by=_OF_COMPANY),
    action_at("/filters/{name}/remove", remove, by=_OF_COMPANY),
]
