"""What every page passes: who is signed in, whose pages these are, the form's token, one transaction, and an answer
for whatever goes wrong."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from uuid import UUID

import psycopg
import redis
from psycopg.errors import LockNotAvailable
from psycopg_pool import PoolTimeout
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from domain.accounts.contacts import Contacts
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
    MAX_FORM_BYTES,
    SESSION,
    BadForm,
    Form,
    TooLarge,
    TooSlow,
    declared_bytes,
    is_from_our_pages,
    network_of_client,
    read_cookie,
    read_file,
    read_form,
    read_query,
    require_file,
    set_cookie,
)
from ingress.console.downloads import Download, Downloads, TooManyDownloads
from ingress.console.fairness import PATIENCE_SECONDS, Owners, Threads
from ingress.console.importer import IMPORTS_AT_A_TIME, Importer, NoRoom, Upload
from ingress.console.rendering import make_templates, when
from ingress.console.streams import Streams
from ingress.turns import NothingFree, Shares

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


_REPORTS_AT_A_TIME = 2
_OTHER_CONNECTIONS = _REPORTS_AT_A_TIME + IMPORTS_AT_A_TIME


class Console:
    """What the pages work with; one for each process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        at_a_time = max(2, settings.database_pool_size - _OTHER_CONNECTIONS)  # each works with a connection
        self.database = Database(
            settings.require_database_url(),
            pool_size=at_a_time + _OTHER_CONNECTIONS,
            timeout_seconds=settings.database_timeout_seconds,
            limits=SERVING,
            fail_fast=True,
        )
        self.pages = Threads("page", at_a_time, of_one=at_a_time // 2, waiting=400)
        self.reports = Threads("report", _REPORTS_AT_A_TIME, of_one=1, waiting=40, patience_seconds=30)
        """Threads for work that takes seconds: the pages are answered meanwhile."""
        self.passwords = Threads("password", 1, of_one=1, waiting=60)
        """A check of a password takes a processor for a while, and anybody may ask for one."""
        self.known_browsers = Threads("known-browser", 1, of_one=1, waiting=60)
        """Checks passwords of browsers in which the user has signed in before: strangers cannot stand before them."""
        body_bytes = settings.body_memory_megabytes << 20
        self.bodies = Shares(body_bytes, of_one=body_bytes // 32)
        """Bytes of forms, held from before one is read until it has arrived."""
        self.downloads = Downloads()
        self._owners = Owners()
        self.jobs = JobQueue.of(settings)
        self.contacts = Contacts.of(settings)
        self.streams = Streams()
        self.importer = Importer(self.database, self.jobs, self.contacts)
        self._templates = make_templates()

    def close(self) -> None:
        """Waits for what runs."""
        self.importer.close()
        for threads in (self.pages, self.reports, self.passwords, self.known_browsers):
            threads.close()

    async def owner_of(self, request: Request) -> str:
        """The owner of the share that the request counts for. Raises NothingFree."""
        token, network = read_cookie(request, SESSION), network_of_client(request)
        if token is None:
            return network
        look_up = partial(self.pages.run, network, partial(self._look_up_owner, token))
        return await self._owners.of(token, look_up) or network

    def _look_up_owner(self, token: str) -> str | None:
        with self.database.transaction() as connection:
            session = find_session(connection, token, now=datetime.now(UTC))
        if session is None:
            return None
        is_operator = session.role is Role.OPERATOR
        return f"operator {session.user_id}" if is_operator else f"company {session.company_id}"

    def forget_owner(self, token: str) -> None:
        """Nobody is signed in with that token any more."""
        self._owners.forget(token)

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


class AuditedAction(NamedTuple):
    """What an action did, for the audit log, as far as its address and its form do not say it. It names drivers by
    their ids only, and no secret."""

    subject: str = ""
    """Otherwise what stands in the address."""
    affected: int = 1
    why: str = ""
    """Where the form asks for no reason."""
    company_id: UUID | None = None
    """Otherwise the company whose pages are shown."""


NOTHING_TO_ADD = AuditedAction()


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
    audited: AuditedAction = NOTHING_TO_ADD
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
OpenAction = Callable[[Console, Request, Form], Awaitable[Response]]

Way = Callable[[Console, Request, Callable[[], Response]], Awaitable[Response]]
"""Does the work for an answer: in its threads, with whatever else it needs. Raises NothingFree."""


async def quickly(console: Console, request: Request, work: Callable[[], Response]) -> Response:
    """Most pages."""
    return await console.pages.run(await console.owner_of(request), work)


async def with_patience(console: Console, request: Request, work: Callable[[], Response]) -> Response:
    """Pages that may take seconds."""
    return await console.reports.run(await console.owner_of(request), work)


async def with_password(console: Console, request: Request, work: Callable[[], Response]) -> Response:
    """Pages that check or set a password."""
    return await console.passwords.run(await console.owner_of(request), work)


async def as_download(console: Console, request: Request, work: Callable[[], Response]) -> Response:
    """A file, which has its place until it has arrived. Raises TooManyDownloads too."""
    owner = await console.owner_of(request)
    leave = console.downloads.enter(owner, read_cookie(request, SESSION) or owner)
    response = None
    try:
        response = await console.reports.run(owner, work)
    finally:
        if isinstance(response, Download):
            response.done = leave
        else:
            leave()
    return response


def page(console: Console, path: str, handler: Handler, *, way: Way = quickly) -> Route:
    """An address that shows something to everybody who is signed in."""

    async def endpoint(request: Request) -> Response:
        return await _answering(
            console,
            request,
            lambda: way(console, request, partial(_with_session, console, request, handler, read_query(request))),
        )

    return Route(path, endpoint, methods=["GET"])


def stream(console: Console, path: str, handler: Handler) -> Route:
    """An address that goes on telling a page what `handler` shows, see `streams`."""

    async def endpoint(request: Request) -> Response:
        async def look() -> Response:
            return await _answering(
                console,
                request,
                lambda: quickly(
                    console, request, partial(_with_session, console, request, handler, read_query(request))
                ),
            )

        first = await look()
        if first.status_code != 200:
            return first
        session, owner = read_cookie(request, SESSION) or "", await console.owner_of(request)
        return StreamingResponse(console.streams.tell(session, owner, first, look), media_type="text/event-stream")

    return Route(path, endpoint, methods=["GET"])


def action(
    console: Console,
    path: str,
    handler: Handler,
    *,
    by: Collection[Role],
    kept: Kept = "for the company",
    way: Way = quickly,
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
        form = await _checked_form(console, request)
        return await way(console, request, partial(_with_session, console, request, done_and_kept, form, by))

    async def endpoint(request: Request) -> Response:
        return await _answering(console, request, lambda: act(request))

    return Route(path, endpoint, methods=["POST"])


def _keep(page: Page, name: str, kept: Kept) -> None:
    audited, session = page.audited, page.session
    is_own = kept == "for the user"
    company_id = None if is_own and session.role is Role.OPERATOR else audited.company_id or session.company_id
    in_address = " ".join(map(str, page.request.path_params.values()))
    audit.record_action(
        page.connection,
        Actor(session.email, page.form.text("reason", most=audit.LONGEST_REASON) or audited.why),
        name,
        audited.subject or in_address or ("own account" if is_own else ""),
        company_id=company_id,
        affected=audited.affected,
        now=page.now,
    )


FileHandler = Callable[[Page, Upload], Response]


def upload(console: Console, path: str, take: FileHandler, *, may: Callable[[Page], object]) -> Route:
    """An address that takes a file as the body of the request. Nothing of it is read before `may` has looked at who
    sends it, and before the file has its place. `take` sees to its end, unless it fails."""

    async def work(request: Request) -> Response:
        _check_origin(request, request.headers.get(FORM_HEADER, ""))
        require_file(request)

        def look(page: Page) -> Response:
            may(page)
            return Response()

        looked = await quickly(console, request, partial(_with_session, console, request, look, Form()))
        if looked.status_code != 200 or "HX-Redirect" in looked.headers:
            return looked
        uploaded, taken = await console.importer.place(await console.owner_of(request)), False

        def begin(page: Page) -> Response:
            response = take(page, uploaded)
            page.afterwards.append(let_go)
            return response

        def let_go() -> None:
            nonlocal taken
            taken = True

        try:
            try:
                with uploaded.file as file:
                    await read_file(request, file, console.settings.body_timeout_seconds)
            except OSError:
                raise NoRoom from None
            return await with_patience(console, request, partial(_with_session, console, request, begin, Form()))
        finally:
            if not taken:
                uploaded.remove()

    async def endpoint(request: Request) -> Response:
        return await _answering(console, request, lambda: work(request))

    return Route(path, endpoint, methods=["POST"])


FORM_HEADER = "X-Form-Token"
"""It has the form's token where the body is a file."""


def open_page(console: Console, path: str, show: OpenHandler, act: OpenAction) -> Route:
    """An address for those who are not signed in: `show` answers GET, `act` takes the form."""

    async def work(request: Request) -> Response:
        if request.method == "POST":
            return await act(console, request, await _checked_form(console, request))
        return await quickly(console, request, partial(show, console, request, read_query(request)))

    async def endpoint(request: Request) -> Response:
        return await _answering(console, request, lambda: work(request))

    return Route(path, endpoint, methods=["GET", "POST"])


def see_other(path: str) -> Response:
    """After a form, the browser shows a page that may be loaded again."""
    return RedirectResponse(path, 303)


async def _checked_form(console: Console, request: Request) -> Form:
    """Only a form of our own pages, in the browser that got it. Raises Refused, BadForm, TooSlow, NothingFree."""
    try:
        size = declared_bytes(request, MAX_FORM_BYTES)
        async with console.bodies.part(await console.owner_of(request), size, patience_seconds=PATIENCE_SECONDS):
            form = await read_form(request, console.settings.body_timeout_seconds)
    except TooLarge:
        raise BadForm(f"the form is too large: {MAX_FORM_BYTES >> 10} KiB are the limit") from None
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
            if token is not None:
                console.forget_owner(token)
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
    except TooSlow:
        return _last(refusal(console, request, Refused(408, "This did not arrive in time", "Send it once more.")))
    except TooManyDownloads as error:
        return refusal(console, request, Refused(429, "One file at a time", str(error)))
    except NothingFree:
        return refusal(
            console, request, Refused(429, "Too much is asked for at a time", "Try again in a moment: others wait too.")
        )
    except FuelrouteError as error:
        return refusal(console, request, Refused(409, "This cannot be done", _sentence(str(error))))
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


async def refuse(console: Console, request: Request, refused: Refused) -> Response:
    """The page for an address that there is not: anybody may ask for many of them."""
    work = partial(refusal, console, request, refused)
    return await _answering(console, request, lambda: quickly(console, request, work))


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


def _last(response: Response) -> Response:
    """The connection ends with it: the rest of the request may come for ever."""
    response.headers["Connection"] = "close"
    return response


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
