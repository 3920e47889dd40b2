"""The page of a truck's time at one stop, and its statement as a signed file."""

from collections.abc import Callable
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from domain.accounts.contacts import UnreadableContact
from domain.detention.dwells import Dwell, keep_free_time, read_dwell
from domain.detention.statement import facts, pdf_statement
from domain.ids import shown_id
from domain.signing.signed_pdf import load_pdf_libraries
from domain.signing.signing_keys import current_certificate, fingerprint, signing_key
from domain.wording import sentence
from ingress.console.addresses import in_report_threads, page_at
from ingress.console.refusals import Refused, known, not_found
from ingress.console.signed_in import Page

_LONGEST_NUMBER = 4


def show(page: Page) -> Response:
    route_id, dwell = _dwell(page)
    certificate = current_certificate(page.connection)
    return page.render(
        "dwell.html",
        section="routes",
        route=shown_id("rte", route_id),
        dwell=dwell,
        facts=list(facts(dwell)),
        fingerprint=fingerprint(certificate) if certificate is not None else "",
    )


def statement(page: Page) -> Response:
    """The statement of the stop, for a claim. From then on its free time stays."""
    route_id, dwell = _dwell(page)
    try:
        key = signing_key(page.connection, page.console.contacts, now=page.now)
    except UnreadableContact as error:
        raise Refused(409, "The key for signatures cannot be opened", sentence(str(error))) from None
    keep_free_time(page.connection, page.company_id, dwell, now=page.now)
    name = f"{shown_id('rte', route_id)}-stop-{dwell.stop + 1}.pdf"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(pdf_statement(dwell, key), media_type="application/pdf", headers=headers)


async def _with_pdf_libraries(request: Request, work: Callable[[], Response]) -> Response:
    """Loads them before the page's transaction, which ends after 10 s without a statement."""

    def load_and_work() -> Response:
        load_pdf_libraries()
        return work()

    return await in_report_threads(request, load_and_work)


def _dwell(page: Page) -> tuple[UUID, Dwell]:
    """The stop of the address. Raises Refused if the company has no such route, or its truck was not there."""
    route_id, number = page.id_in_address("rte"), page.request.path_params["stop"]
    if not (number.isascii() and number.isdecimal() and len(number) <= _LONGEST_NUMBER):
        raise not_found()
    radius = page.console.settings.arrival_radius_meters
    return route_id, known(
        read_dwell(page.connection, page.company_id, route_id, int(number) - 1, radius_meters=radius)
    )


ADDRESSES = [
    page_at("/routes/{id}/stops/{stop}", show),
    page_at("/routes/{id}/stops/{stop}/statement.pdf", statement, run=_with_pdf_libraries),
]
