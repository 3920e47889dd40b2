"""The pages Requests: the last requests of each API key, and the answers."""

from datetime import datetime
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from domain.accounts.keys import list_keys
from domain.accounts.users import MAY_SEE_REQUESTS
from domain.ids import read_id, shown_id
from domain.requests.redaction import MOST_CHARACTERS
from domain.requests.search import MOST_REQUESTS_SEARCHED, RequestSearch, find_request, find_route, search_requests
from ingress.console.addresses import page_at
from ingress.console.refusals import known
from ingress.console.signed_in import Page
from ingress.http.problems import KINDS

PAGE_SIZE = 50
_FILTERS = ("key", "status", "code", "q", "from", "to")
_STATUSES = {"2xx": range(200, 300), "3xx": range(300, 400), "4xx": range(400, 500), "5xx": range(500, 600)}


def show(page: Page) -> Response:
    """The list of requests, newest first."""
    form = page.form
    keys = {shown_id("key", key.id): key for key in reversed(list_keys(page.connection, page.company_id))}
    key = keys.get(form.text("key"))
    wanted = RequestSearch(
        key_id=key.id if key is not None else None,
        statuses=_STATUSES.get(form.text("status")),
        code=form.text("code"),
        text=form.text("q"),
        since=_moment(page, "from"),
        until=_moment(page, "to"),
    )
    before = known(read_id("req", f"req_{form.text('before')}")) if form.text("before") else None
    found = search_requests(page.connection, page.company_id, wanted, limit=PAGE_SIZE, before=before)
    query = {name: form.text(name) for name in _FILTERS if form.text(name)}
    return page.render(
        "requests.html",
        section="requests",
        found=found,
        keys=keys,
        keys_by_id={key.id: key for key in keys.values()},
        codes=[code for code in KINDS if code != "unauthorized"],  # without a valid key nothing is kept
        statuses=list(_STATUSES),
        form=form,
        is_filtered=any(wanted),
        is_first=before is None,
        most_searched=MOST_REQUESTS_SEARCHED,
        days=page.console.settings.request_log_days,
        address=lambda **more: f"/requests?{urlencode({**query, **more})}",
    )


def show_one(page: Page) -> Response:
    """The details of one request."""
    request_id = known(read_id("req", f"req_{page.request.path_params['id']}"))
    request = known(find_request(page.connection, page.company_id, request_id))
    return page.render(
        "request.html",
        section="requests",
        one=request,
        key=next((key for key in list_keys(page.connection, page.company_id) if key.id == request.key_id), None),
        title=KINDS[request.code].title if request.code in KINDS else "",
        route_id=find_route(page.connection, request),
        sent=_readable(request.sent) if request.sent is not None else None,
        most_kilobytes=MOST_CHARACTERS >> 10,
    )


def _moment(page: Page, name: str) -> datetime | None:
    """A time in the company's zone; None for an empty field. Raises Refused for any other text."""
    return page.moment(name, f"Go back and correct the time in “{name}”.") if page.form.text(name) else None


def _readable(sent: str) -> str:
    """The body with indents, or as it is if it was cut."""
    return sent if sent.endswith("…") else msgspec.json.format(sent, indent=2)


ADDRESSES = [
    page_at("/requests", show, by=MAY_SEE_REQUESTS, is_hidden=False),
    page_at("/requests/{id}", show_one, by=MAY_SEE_REQUESTS, is_hidden=False),
]
