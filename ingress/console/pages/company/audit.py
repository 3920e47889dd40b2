"""The page Audit log: the actions of people, with time and reason. Owners see the actions on their company, operators
all actions."""

from uuid import UUID

from starlette.responses import Response

from domain.accounts.companies import names_of
from domain.accounts.users import MAY_MANAGE_KEYS
from domain.audit.entries import MOST_SEARCHED, search_actions
from domain.ids import read_id
from domain.lifecycle import Role
from ingress.console.addresses import page_at
from ingress.console.refusals import Refused, not_found
from ingress.console.signed_in import Page

_PAGE_SIZE = 100


def show(page: Page) -> Response:
    text = page.form.text("q")
    entries = search_actions(page.connection, _shown_company(page), text, before=_before(page), limit=_PAGE_SIZE + 1)
    return page.render(
        "audit.html",
        section="audit",
        entries=entries[:_PAGE_SIZE],
        older=entries[_PAGE_SIZE - 1].id.hex if len(entries) > _PAGE_SIZE else None,
        q=text,
        company=page.form.text("company"),
        company_names=names_of(page.connection, (one.company_id for one in entries if one.company_id is not None)),
        is_operator=page.session.role is Role.OPERATOR,
        is_first=not page.form.text("before"),
        most=MOST_SEARCHED,
    )


def _shown_company(page: Page) -> UUID | None:
    """The company whose actions are shown; None for all actions. Raises Refused if the user may not see them."""
    if page.session.role is not Role.OPERATOR:
        return page.company_id
    text = page.form.text("company")
    company_id = read_id("cmp", text)
    if text and company_id is None:
        raise Refused(400, "This is no company's id", "It looks like cmp_ and 32 digits. Go back and correct it.")
    return company_id


def _before(page: Page) -> UUID | None:
    """The row of the audit log after which older ones are shown; None for the first page. Raises Refused for an address
    that names none."""
    text = page.form.text("before")
    try:
        return UUID(hex=text) if text else None
    except ValueError:
        raise not_found() from None


ADDRESSES = [page_at("/audit", show, by=MAY_MANAGE_KEYS)]
