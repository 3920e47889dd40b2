"""What every page passes: who is signed in, whose pages these are, the form's token, one transaction, and an answer
for whatever goes wrong."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from uuid import UUID

import psycopg
import redis
from psycopg.errors import LockNotAvailable
from psycopg_pool import PoolTimeout
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from domain.accounts.contacts import Contacts
from domain.accounts.passwords import TooManyChecks
from domain.accounts.sessions import Session, find_session
from domain.accounts.tokens import form_token, is_form_token, new_token
from domain.accounts.users import MAY_MANAGE_KEYS, MAY_MATCH, MAY_SEE_REQUESTS
from domain.database import SERVING, Connection, Database
from domain.errors import FuelrouteError
from domain.jobs import Job, JobQueue
from domain.lifecycle import Role
from domain.observability import get_logger
from domain.operations import audit
from domain.operations.audit import Actor
from domain.settings import Settings
from ingress.console.browser import (
    SESSION,
    BadForm,
    Form,
    TooLarge,
    is_from_our_pages,
    read_cookie,
    read_file,
    read_form,
    read_query,
    set_cookie,
)
from ingress.console.importer import Importer
from ingress.console.rendering import make_templates, when
from ingress.console.streams import Streams

log = get_logger(__name__)

EVERYBODY: Collection[Role] = frozenset(Role)


class Refused(Exception):
    """A request that is answered with a page of its own: a status, a title, and what to do."""

    def __init__(self, status: int, title: str, what_to_do: str) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.what_to_do = what_to_do


def not_found() -> Refused:
    return Refused(404, "Not found", "There is nothing at this address, or it belongs to another company.")


class Console:
    """What the pages work with; one for each process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database.of(settings, SERVING, fail_fast=True)
        self.jobs = JobQueue.of(settings)
        self.contacts = Contacts.of(settings)
        self.streams = Streams()
        self.importer = Importer(self.database, self.jobs, self.contacts)
        self._templates = make_templates()

    def render(self, request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """A page for a browser. One that brings no cookie gets one, from which its forms' tokens are made: but not
        with the answer to a form. Another site's form comes without the cookie that the browser has, and would replace
        it: any site could sign people out."""
        token = read_cookie(request, SESSION)
        fresh = new_token() if token is None and request.method != "POST" else None
        context = {"session": None, "section": "", **values, "form_token": form_token(token or fresh or "")}
        response = HTMLResponse(self._templates.get_template(template).render(context), status)
        if fresh is not None:
            set_cookie(request, response, SESSION, fresh)
        return response


class Deed(NamedTuple):
    """What an action did, for the audit log, as far as its address and its form do not say it. It names drivers by
    their ids only, and no secret."""

    subject: str = ""
    """Otherwise what stands in the address."""
    affected: int = 1
    why: str = ""
    """Where the form asks for no reason."""
    company_id: UUID | None = None
    """Otherwise the company whose pages are shown."""


NOT_SAID = Deed()


@dataclass(slots=True)
class Page:
    """One request of somebody who is signed in, inside of a transaction."""

    console: Console
    request: Request
    connection: Connection
    session: Session
    token: str
    form: Form
    now: datetime
    jobs: list[Job] = field(default_factory=list)
    """Enqueued after the commit."""
    deed: Deed = NOT_SAID
    """For the audit log."""
    afterwards: list[Callable[[], object]] = field(default_factory=list)
    """Done after the commit."""

    @property
    def company_id(self) -> UUID:
        """Whose pages these are: the first argument of every query. Raises ChooseCompany."""
        if self.session.company_id is None:
            raise ChooseCompany
        return self.session.company_id

    @property
    def is_fragment(self) -> bool:
        """Whether a part of a page is asked for, to be put into it."""
        return self.request.headers.get("hx-request") == "true"

    def render(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        return self.console.render(
            self.request,
            template,
            status=status,
            session=self.session,
            may_match=self.session.role in MAY_MATCH,
            may_see_requests=self.session.role in MAY_SEE_REQUESTS,
            may_manage_keys=self.session.role in MAY_MANAGE_KEYS,
            when=lambda moment: when(moment, self.now, self.session.time_zone),
            now=self.now,
            **values,
        )


class ChooseCompany(Exception):
    """An operator has not said yet whose pages to show."""


Handler = Callable[[Page], Response]
Kept = Literal["for the company", "for the user", "elsewhere"]
"""How an action stands in the audit log: as one of the company whose pages are shown, as one of the user's own account,
or as its rule in `domain` keeps it, since commands follow the same rule."""
OpenHandler = Callable[[Console, Request, Form], Response]


def page(console: Console, path: str, handler: Handler) -> Route:
    """An address that shows something to everybody who is signed in."""

    async def endpoint(request: Request) -> Response:
        return await _answering(
            console, request, lambda: run_in_threadpool(_with_session, console, request, handler, read_query(request))
        )

    return Route(path, endpoint, methods=["GET"])


def stream(console: Console, path: str, handler: Handler) -> Route:
    """An address that goes on telling a page what `handler` shows, see `streams`."""

    async def endpoint(request: Request) -> Response:
        async def look() -> Response:
            return await _answering(
                console,
                request,
                lambda: run_in_threadpool(_with_session, console, request, handler, read_query(request)),
            )

        first = await look()
        if first.status_code != 200:
            return first
        session = read_cookie(request, SESSION) or ""
        return StreamingResponse(console.streams.tell(session, first, look), media_type="text/event-stream")

    return Route(path, endpoint, methods=["GET"])


def action(
    console: Console, path: str, handler: Handler, *, by: Collection[Role], kept: Kept = "for the company"
) -> Route:
    """An address that changes something, for those roles. The audit log keeps each that was not refused, in the
    transaction that did it, under the name of the page and its function, such as `keys.revoke`."""
    named: Any = getattr(handler, "func", handler)  # of a partial
    name = f"{named.__module__.rpartition('.')[2]}.{named.__name__}"

    def done_and_kept(page: Page) -> Response:
        response = handler(page)
        if response.status_code < 400 and kept != "elsewhere":
            _keep(page, name, kept)
        return response

    async def act(request: Request) -> Response:
        form = await _checked_form(request)
        return await run_in_threadpool(_with_session, console, request, done_and_kept, form, by)

    async def endpoint(request: Request) -> Response:
        return await _answering(console, request, lambda: act(request))

    return Route(path, endpoint, methods=["POST"])


def _keep(page: Page, name: str, kept: Kept) -> None:
    deed, session = page.deed, page.session
    is_own = kept == "for the user"
    company_id = None if is_own and session.role is Role.OPERATOR else deed.company_id or session.company_id
    in_address = " ".join(map(str, page.request.path_params.values()))
    audit.keep(
        page.connection,
        Actor(session.email, page.form.text("reason", most=audit.LONGEST_REASON) or deed.why),
        name,
        deed.subject or in_address or ("own account" if is_own else ""),
        company_id=company_id,
        affected=deed.affected,
        now=page.now,
    )


FileHandler = Callable[[Page, Path], Response]


def upload(console: Console, path: str, take: FileHandler, *, may: Callable[[Page], object]) -> Route:
    """An address that takes a file as the body of the request. Nothing of it is read before `may` has looked at who
    sends it. `take` takes the file away, unless it fails."""

    async def work(request: Request) -> Response:
        _check_origin(request, request.headers.get(FORM_HEADER, ""))

        def look(page: Page) -> Response:
            may(page)
            return Response()

        looked = await run_in_threadpool(_with_session, console, request, look, Form())
        if looked.status_code != 200 or "HX-Redirect" in looked.headers:
            return looked
        file, taken = await read_file(request), False

        def begin(page: Page) -> Response:
            nonlocal taken
            response = take(page, file)
            taken = True
            return response

        try:
            return await run_in_threadpool(_with_session, console, request, begin, Form())
        finally:
            if not taken:
                file.unlink(missing_ok=True)

    async def endpoint(request: Request) -> Response:
        return await _answering(console, request, lambda: work(request))

    return Route(path, endpoint, methods=["POST"])


FORM_HEADER = "X-Form-Token"
"""It has the form's token where the body is a file."""


def open_page(console: Console, path: str, show: OpenHandler, act: OpenHandler) -> Route:
    """An address for those who are not signed in: `show` answers GET, `act` takes the form."""

    async def work(request: Request) -> Response:
        if request.method == "POST":
            return await run_in_threadpool(act, console, request, await _checked_form(request))
        return await run_in_threadpool(show, console, request, read_query(request))

    async def endpoint(request: Request) -> Response:
        return await _answering(console, request, lambda: work(request))

    return Route(path, endpoint, methods=["GET", "POST"])


def see_other(path: str) -> Response:
    """After a form, the browser shows a page that may be loaded again."""
    return RedirectResponse(path, 303)


async def _checked_form(request: Request) -> Form:
    """Only a form of our own pages, in the browser that got it. Raises Refused, BadForm."""
    form = await read_form(request)
    _check_origin(request, form.text("form_token"))
    return form


def _check_origin(request: Request, shown: str) -> None:
    """`shown`: the form's token. Raises Refused."""
    token = read_cookie(request, SESSION)
    if token is None or not is_from_our_pages(request) or not is_form_token(shown, token):
        raise Refused(403, "This form is out of date", "Go back, load the page again, and send the form once more.")


def _with_session(
    console: Console, request: Request, handler: Handler, form: Form, by: Collection[Role] = EVERYBODY
) -> Response:
    token = read_cookie(request, SESSION)
    now = datetime.now(UTC)
    with console.database.transaction() as connection:
        session = find_session(connection, token, now=now) if token is not None else None
        if token is None or session is None:
            return _to_sign_in(request)
        if session.role not in by:
            raise Refused(403, "You may not do this", f"Your role is {session.role}: ask an owner of your company.")
        shown = Page(console, request, connection, session, token, form, now)
        try:
            response = handler(shown)
        except ChooseCompany:
            return see_other("/companies")
    if shown.jobs:
        console.jobs.put(*shown.jobs)
    for do in shown.afterwards:
        do()
    return response


def _to_sign_in(request: Request) -> Response:
    path = f"/sign-in?next={quote(request.url.path)}" if request.method == "GET" else "/sign-in"
    if request.headers.get("hx-request") == "true":  # the whole page goes there, not the part
        return Response(headers={"HX-Redirect": "/sign-in"})
    return see_other(path)


async def _answering(console: Console, request: Request, work: Callable[[], Awaitable[Response]]) -> Response:
    """The answer, or a page that says what is wrong and what to do."""
    try:
        return await work()
    except Refused as refused:
        return refusal(console, request, refused)
    except BadForm as error:
        return refusal(console, request, Refused(400, "This form cannot be read", f"{_sentence(str(error))}"))
    except TooLarge as error:
        return refusal(console, request, Refused(413, "This file is too large", _sentence(str(error))))
    except FuelrouteError as error:
        return refusal(console, request, Refused(409, "This cannot be done", _sentence(str(error))))
    except TooManyChecks:
        return refusal(console, request, Refused(503, "Too many people are signing in", "Try again in a moment."))
    except LockNotAvailable:
        return refusal(
            console,
            request,
            Refused(
                409, "Something else is at work on the same data", "Nothing was changed. Try again when it is done."
            ),
        )
    except (PoolTimeout, psycopg.OperationalError):
        log.warning("console.database_away", exc_info=True)
        return refusal(
            console, request, Refused(503, "The database does not answer", "Nothing was changed. Try again shortly.")
        )
    except redis.RedisError:
        log.warning("console.redis_away", exc_info=True)
        return refusal(
            console, request, Refused(503, "Redis does not answer", "Nothing was changed. Try again shortly.")
        )
    except ClientDisconnect:
        return Response(status_code=499)  # nobody reads it
    except Exception:
        log.exception("console.failed", method=request.method, path=getattr(request.scope.get("route"), "path", ""))
        return refusal(
            console, request, Refused(500, "Something failed on our side", "Nothing was changed. Try again shortly.")
        )


def refusal(console: Console, request: Request, refused: Refused) -> Response:
    """As a page, or as the part of one that was asked for."""
    is_part = request.headers.get("hx-request") == "true"
    template = "_refused.html" if is_part else "refused.html"
    response = console.render(
        request, template, status=refused.status, title=refused.title, what_to_do=refused.what_to_do
    )
    if is_part:  # what was to be replaced stays, so that it can be corrected
        response.headers["HX-Retarget"] = "#notices"
        response.headers["HX-Reswap"] = "innerHTML"
    return response


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
