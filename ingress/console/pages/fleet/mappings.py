"""The page Mappings: searches, changes and removes the decisions of the page Matching."""

from starlette.responses import Response

from domain.accounts.users import MAY_MATCH
from domain.audit.entries import Actor
from domain.fleet.mappings import KIND_NAMES, list_mappings, remove_mapping
from domain.fleet.records import ID_KIND
from ingress.console.addresses import action_at, page_at
from ingress.console.pages.fleet.matching import kind_of, matched_of, require_shown_mapping
from ingress.console.refusals import not_found
from ingress.console.signed_in import Page, see_other

_PAGE_SIZE = 50


def show(page: Page) -> Response:
    matched, number = matched_of(page), page.form.number("page", most=10_000)
    found = list_mappings(
        page.connection,
        page.company_id,
        matched,
        page.form.text("q"),
        limit=_PAGE_SIZE + 1,
        offset=number * _PAGE_SIZE,
    )
    return page.render(
        "mappings.html",
        section="mappings",
        matched=matched,
        id_kind=ID_KIND[matched],
        mappings=found[:_PAGE_SIZE],
        has_more=len(found) > _PAGE_SIZE,
        page_number=number,
        q=page.form.text("q"),
        kind_names=KIND_NAMES,
        done="The mapping is removed." if page.form.text("done") == "removed" else "",
    )


def remove(page: Page, by: Actor) -> Response:
    matched = matched_of(page)
    kind, value = kind_of(page, matched), page.form.packed("value")
    require_shown_mapping(page, matched, kind, value)
    if not remove_mapping(page.connection, page.company_id, kind, value, by):
        raise not_found()
    return see_other(f"/mappings/{matched}s?done=removed")


ADDRESSES = [
    page_at("/mappings/{matched}", show),
    action_at("/mappings/{matched}/remove", remove, by=MAY_MATCH),
]
