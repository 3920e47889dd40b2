"""The page Mappings: the decisions of the page Matching are searched, changed and removed."""

from starlette.responses import Response

from domain.accounts.users import MAY_MATCH
from domain.fleet.mappings import list_mappings, mappings_of, remove_mapping
from domain.fleet.records import ID_KIND
from domain.ids import shown_id
from ingress.console.addresses import audited_action_at, page_at
from ingress.console.pages.fleet.matching import KIND_NAMES, in_words, kind_of, subject_of
from ingress.console.refusals import not_found
from ingress.console.signed_in import AuditedAction, Page, see_other

_PAGE_SIZE = 50


def show(page: Page) -> Response:
    subject, number = subject_of(page), page.form.number("page", most=10_000)
    found = list_mappings(
        page.connection,
        page.company_id,
        subject,
        page.form.text("q"),
        limit=_PAGE_SIZE + 1,
        offset=number * _PAGE_SIZE,
    )
    return page.render(
        "mappings.html",
        section="mappings",
        subject=subject,
        mappings=found[:_PAGE_SIZE],
        has_more=len(found) > _PAGE_SIZE,
        page_number=number,
        q=page.form.text("q"),
        kind_names=KIND_NAMES,
        done="The mapping is removed." if page.form.text("done") == "removed" else "",
    )


def remove(page: Page) -> Response:
    subject = subject_of(page)
    kind, value = kind_of(page, subject), page.form.packed("value")
    target_id = mappings_of(page.connection, page.company_id, subject, [value]).get((kind, value))
    if target_id is None or not remove_mapping(page.connection, page.company_id, kind, value):
        raise not_found()
    page.audited = AuditedAction(f"{in_words(subject, kind, value)} was {shown_id(ID_KIND[subject], target_id)}")
    return see_other(f"/mappings/{subject}s?done=removed")


ADDRESSES = [
    page_at("/mappings/{subject}", show),
    audited_action_at("/mappings/{subject}/remove", remove, by=MAY_MATCH, audited_as="mappings.remove"),
]
