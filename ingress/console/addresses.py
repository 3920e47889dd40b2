"""The kinds of addresses: pages, actions, streams, uploads, and pages for people who are not signed in.

Each page module lists its addresses, and beside each the roles that it is for. Errors become pages in `refusals`."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeAlias

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from domain.accounts.sessions import Session
from domain.accounts.tokens import is_form_token
from domain.accounts.users import EVERYBODY
from domain.audit.entries import Actor
from domain.database.options import REPORTING, TimeLimits
from domain.errors import FuelrouteError
from domain.files.reading_ends import ReadingEnded, reading_ends, reading_within
from domain.lifecycle import Role
from domain.wording import sentence
from ingress.console.browser import (
    FORM_HEADER,
    MAX_FORM_BYTES,
    SESSION,
    BadForm,
    Form,
    TooLarge,
    TooSlow,
    declared_bytes,
    is_from_our_pages,
    read_cookie,
    read_file,
    read_form,
    read_query,
    require_file,
)
from ingress.console.console import Console, console_of
from ingress.console.downloads import Download
from ingress.console.fairness import PATIENCE_SECONDS
from ingress.console.importer import NoRoom, Upload
from ingress.console.refusals import FormFault, Refused, answer_error
from ingress.console.signed_in import Handler, Page, answer_signed_in

# --- Threads that do the work ------------------------------------------------------------------------------------

Runner = Callable[[Request, Callable[[], Response]], Awaitable[Response]]
"""Runs the work of a request in a thread of some kind. Raises CapacityTimeout if none is free in time."""


async def in_page_threads(request: Request, work: Callable[[], Response]) -> Response:
    console = console_of(request)
    return await console.pages.run(await console.owner_of(request), work)


async def in_report_threads(request: Request, work: Callable[[], Response]) -> Response:
    """Run the work of a page that may take seconds."""
    console = console_of(request)
    return await console.reports.run(await console.owner_of(request), work)


async def in_password_thread(request: Request, work: Callable[[], Response]) -> Response:
    """Run the work of a page that checks or sets a password."""
    console = console_of(request)
    return await console.passwords.run(await console.owner_of(request), work)


async def as_download(request: Request, work: Callable[[], Response]) -> Response:
    """Run the work that makes a file. The file keeps its place until it has arrived. Raises TooManyDownloads too."""
    console = console_of(request)
    owner = await console.owner_of(request)
    leave = console.downloads.enter(owner, read_cookie(request, SESSION) or owner)
    response = None
    try:
        response = await console.reports.run(owner, work)
    finally:
        if isinstance(response, Download):
            response.done, response.transfers = leave, console.downloads.transfers
        else:
            leave()
    return response


_LIMITS: dict[Runner, TimeLimits] = {in_report_threads: REPORTING, as_download: REPORTING}
"""The limits of transactions in which pages are shown, where they are not the console's."""

# --- Addresses ---------------------------------------------------------------------------------------------------


def page_at(
    path: str,
    handler: Handler,
    *,
    by: Collection[Role] = EVERYBODY,
    is_hidden: bool = True,
    run: Runner = in_page_threads,
) -> Route:
    """An address that shows something to the roles `by`. For other roles it does not exist, or, with an `is_hidden` of
    False, they are told that they may not see it."""
    limits = _LIMITS.get(run)

    async def endpoint(request: Request) -> Response:
        form = read_query(request)
        work = partial(answer_signed_in, request, handler, form, by=by, is_hidden=is_hidden, limits=limits)
        return await run(request, work)

    return Route(path, endpoint, methods=["GET"])


def stream_at(
    path: str,
    handler: Handler,
    *,
    by: Collection[Role],
    follow: Callable[[Form, Response], Form] = lambda form, _: form,
) -> Route:
    """An address that sends a page again and again what `handler` shows, see `streams`. `follow` makes the form for the
    next time from the last form and its answer."""

    async def endpoint(request: Request) -> Response:
        form = read_query(request)
        viewer: Session | None = None

        def show(page: Page) -> Response:
            nonlocal viewer
            viewer = page.session
            return handler(page)

        async def look() -> Response:
            nonlocal form
            work = partial(answer_signed_in, request, show, form, by=by, is_hidden=True)
            response = await in_page_threads(request, work)
            form = follow(form, response)
            return response

        async def refresh() -> Response:
            try:
                return await look()
            except Exception as error:  # the stream goes on, as it has begun
                return await answer_error(request, error)

        first = await look()
        if first.status_code != 200 or viewer is None:
            return first
        if request.method == "HEAD":  # events without a body would hold up whoever uses the connection next
            return Response(media_type="text/event-stream")
        console = console_of(request)
        session, owner = read_cookie(request, SESSION) or "", await console.owner_of(request)
        events = console.streams.events(
            session,
            owner,
            first,
            refresh,
            person=str(viewer.user_id),
            is_operator=viewer.role is Role.OPERATOR,
        )
        return StreamingResponse(events, media_type="text/event-stream")

    return Route(path, endpoint, methods=["GET"])


Faults: TypeAlias = Mapping[type[Exception], int]
"""Errors about what a form says, each with the status of the answer."""
ActionHandler = Callable[[Page, Actor], Response]
"""Hands the user and the reason to the action in `domain`, which writes to the audit log. One that needs no entry names
the argument `_`."""


class FaultPage(Protocol):
    """Shows the page of a form again, with what is wrong."""

    def __call__(self, page: Page, *, fault: str, status: int) -> Response: ...


def action_at(
    path: str,
    handler: ActionHandler,
    *,
    by: Collection[Role],
    run: Runner = in_page_threads,
    again: FaultPage | None = None,
    faults: Faults | None = None,
) -> Route:
    """An address that changes something, for the roles `by`. `again` answers a FormFault, and the errors `faults`, each
    with its status."""

    def act(page: Page) -> Response:
        try:
            return handler(page, page.actor())
        except FuelrouteError as error:
            status = _status_of(error, faults or {})
            if again is None or status is None:
                raise
            return again(page, fault=sentence(str(error)), status=status)

    async def endpoint(request: Request) -> Response:
        form = await _read_checked_form(request)
        return await run(request, partial(answer_signed_in, request, act, form, by=by))

    return Route(path, endpoint, methods=["POST"])


def _status_of(error: FuelrouteError, faults: Faults) -> int | None:
    if isinstance(error, FormFault):
        return error.status
    return next((faults[kind] for kind in type(error).__mro__ if kind in faults), None)


LOOK_SECONDS = 8.0
"""Time to read a file for a look before its import. The page's transaction ends after 30 s without a statement."""

FileHandler = Callable[[Page, Upload], Response]


def upload_at(
    path: str,
    take: FileHandler,
    *,
    by: Collection[Role],
    check: Callable[[Page], object],
    seconds: Callable[[Form], float] = lambda _: LOOK_SECONDS,
) -> Route:
    """An address that takes a file as the body of the request, for the roles `by`; for other roles it does not exist.
    The file is read only after `check` has accepted the sender and the file has its place. `take` owns the file from
    then on, unless it fails. `seconds` tells how long it may read the file."""

    async def endpoint(request: Request) -> Response:
        form = read_query(request)
        _require_own_form(request, request.headers.get(FORM_HEADER, ""))
        require_file(request)
        console = console_of(request)

        def check_sender(page: Page) -> Response:
            check(page)
            return Response()

        answer = partial(answer_signed_in, request, form=form, by=by, is_hidden=True)
        checked = await in_page_threads(request, partial(answer, check_sender))
        if checked.status_code != 200 or "HX-Redirect" in checked.headers:
            return checked
        upload, is_taken = await console.importer.place(await console.owner_of(request)), False

        left = threading.Event()

        def take_file(page: Page) -> Response:
            with reading_within(seconds(form)), _while_waited_for(left):
                response = take(page, upload)
            page.afterwards.append(let_go)
            return response

        def let_go() -> None:
            nonlocal is_taken
            is_taken = True

        try:
            try:
                async with console.importer.arrivals.moving() as transfer:
                    await read_file(request, upload.file, transfer, console.settings.body_timeout_seconds)
                upload.file.flush()
            except TimeoutError:  # it was the slowest, and others waited
                raise TooSlow from None
            except OSError:
                raise NoRoom from None
            watch = asyncio.create_task(_note_leaving(request, left))
            try:
                return await in_report_threads(request, partial(answer, take_file, limits=REPORTING))
            finally:
                watch.cancel()
        finally:
            if not is_taken:
                upload.remove()

    return Route(path, endpoint, methods=["POST"])


@contextmanager
def _while_waited_for(left: threading.Event) -> Iterator[None]:
    """Lets a file be read as long as its sender waits. Raises Refused once the sender has left."""
    try:
        with reading_ends(lambda: "nobody waits for it" if left.is_set() else ""):
            yield
    except ReadingEnded as ended:
        raise Refused(400, "This file was not read", sentence(str(ended))) from None


async def _note_leaving(request: Request, left: threading.Event) -> None:
    """Notes when the sender leaves: after the body, the next thing to come is the end of the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    left.set()


AwaitedHandler = Callable[[Console, Request, Form], Awaitable[Response]]


def awaited_page_at(path: str, handler: AwaitedHandler) -> Route:
    """An address for people who are not signed in. Its handler waits for another server without holding a thread."""

    async def endpoint(request: Request) -> Response:
        return await handler(console_of(request), request, read_query(request))

    return Route(path, endpoint, methods=["GET"])


OpenHandler = Callable[[Console, Request, Form], Response]
OpenAction = Callable[[Console, Request, Form], Awaitable[Response]]


def open_page_at(path: str, show: OpenHandler, act: OpenAction) -> Route:
    """An address for people who are not signed in: `show` answers GET, `act` takes the form."""

    async def endpoint(request: Request) -> Response:
        console = console_of(request)
        if request.method == "POST":
            return await act(console, request, await _read_checked_form(request))
        return await in_page_threads(request, partial(show, console, request, read_query(request)))

    return Route(path, endpoint, methods=["GET", "POST"])


# --- Forms -------------------------------------------------------------------------------------------------------


async def _read_checked_form(request: Request) -> Form:
    """Read the form, which must come from a page of ours in the browser that got it. Raises Refused for another site's
    form, and BadForm, TooSlow or CapacityTimeout; each is answered with its page."""
    console = console_of(request)
    try:
        size = declared_bytes(request, MAX_FORM_BYTES)
        async with console.bodies.permit(await console.owner_of(request), size, patience_seconds=PATIENCE_SECONDS):
            form = await read_form(request, console.settings.body_timeout_seconds)
    except TooLarge:
        raise BadForm(f"the form is too large: {MAX_FORM_BYTES >> 10} KiB are the limit") from None
    _require_own_form(request, form.text("form_token"))
    return form


def _require_own_form(request: Request, form_token: str) -> None:
    """Check that the form is ours. Raises Refused for a form of another site or another browser."""
    token = read_cookie(request, SESSION)
    if token is None or not is_from_our_pages(request) or not is_form_token(form_token, token):
        raise Refused(403, "This form is out of date", "Go back, load the page again, and send the form once more.")
