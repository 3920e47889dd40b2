"""One request of a signed-in user: the session, the role, the company, one transaction."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from domain import clock
from domain.accounts.sessions import Session, find_session
from domain.accounts.tokens import is_form_token, is_of_company
from domain.accounts.users import MAY_MANAGE_KEYS, MAY_MATCH, MAY_SEE_REQUESTS
from domain.audit.entries import LONGEST_REASON, Actor
from domain.database.connections import Connection, Tenant
from domain.database.options import TimeLimits
from domain.database.owned import Owned
from domain.database.statements import Row
from domain.database.visibility import EVERYTHING, of_companies, set_visibility
from domain.ids import IdKind, read_id
from domain.lifecycle import Environment, Role
from domain.needs.need_counts import count_needs_briefly
from domain.needs.route_needs import RoutesInNeed
from domain.queue.jobs import after_commit
from domain.webhooks.endpoints import delivery_jobs
from ingress.console.browser import FORM_HEADER, LONGEST_NEXT, SESSION, Form, read_cookie, sent_form_token
from ingress.console.console import Console, console_of
from ingress.console.navigation import LONGEST_COUNT_MILLISECONDS, ShownGroup, navigation_of
from ingress.console.refusals import Refused, known, not_found
from ingress.console.rendering import absolute, happened, when


@dataclass(slots=True)
class Page:
    """A request of a signed-in user, inside a transaction."""

    console: Console
    request: Request
    connection: Connection
    session: Session
    token: str
    form: Form
    now: datetime
    afterwards: list[Callable[[], object]] = field(default_factory=list)
    """Calls to make after the commit."""

    @property
    def company_id(self) -> UUID:
        """The company whose pages are shown, the first argument of every query. Raises ChooseCompany if an operator has
        not chosen one; the page to choose is shown then. Raises Refused as `chosen_company_id`."""
        company_id = self.chosen_company_id
        if company_id is None:
            raise ChooseCompany
        return company_id

    @property
    def chosen_company_id(self) -> UUID | None:
        """The company whose pages are shown; None if an operator has not chosen one. Raises Refused for a form, or a
        part that updates itself, on a page from before this company was chosen."""
        chosen = self.session.company_id
        in_token = chosen if self.session.role is Role.OPERATOR else None
        if chosen is not None and not is_of_company(sent_form_token(self.request, self.form), in_token):
            raise Refused(
                409,
                "You have chosen another company meanwhile",
                "Nothing was changed. Load the page again: it then shows that company.",
            )
        return chosen

    @property
    def tenant(self) -> Tenant:
        """The company in the environment that the address or the form names; live without one."""
        is_sandbox = self.form.text("environment") == Environment.SANDBOX
        return Tenant(self.company_id, Environment.SANDBOX if is_sandbox else Environment.LIVE)

    def id_in_address(self, kind: IdKind, name: str = "id") -> UUID:
        """The id in the address. Raises Refused, which is answered 404, for any other text."""
        return known(read_id(kind, self.request.path_params[name]))

    def moment(self, name: str, what_to_do: str) -> datetime:
        """The time in the form, which a browser writes in the company's zone. Raises Refused for any other text."""
        try:
            return typed_moment(self.form.text(name), ZoneInfo(self.session.time_zone), self.now)
        except (ValueError, OverflowError):
            raise Refused(400, "This is no time", what_to_do) from None

    def actor(self) -> Actor:
        """The user, with the reason in the form."""
        return Actor(self.session.email, self.form.text("reason", most=LONGEST_REASON))

    def field_of_moment(self, moment: datetime) -> str:
        """The text of a time for a browser's field."""
        return f"{moment.astimezone(ZoneInfo(self.session.time_zone)):%Y-%m-%dT%H:%M}"

    @property
    def is_fragment(self) -> bool:
        """True if htmx asks for a part of a page."""
        return _is_for_part(self.request)

    def render(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        return self.console.render(
            self.request,
            template,
            status=status,
            session=self.session,
            may_see_requests=self.session.role in MAY_SEE_REQUESTS,
            navigation=[] if self.is_fragment else self._navigation(**values),
            may_match=self.session.role in MAY_MATCH,
            may_manage_keys=self.session.role in MAY_MANAGE_KEYS,
            absolute=lambda moment: absolute(moment, self.session.time_zone),
            when=lambda moment: when(moment, self.now, self.session.time_zone),
            happened=lambda moment: happened(moment, self.now, self.session.time_zone),
            now=self.now,
            **values,
        )

    def _navigation(
        self, section: str = "", routes_in_need: Sequence[RoutesInNeed] | None = None, **_: Any
    ) -> list[ShownGroup]:
        needs = {} if self.session.company_id is None else self._count_needs(self.session.company_id, routes_in_need)
        return navigation_of(self.session.role, section, needs)

    def _count_needs(self, company_id: UUID, found: Sequence[RoutesInNeed] | None) -> Mapping[str, int]:
        live = Tenant(company_id, Environment.LIVE)
        count = partial(count_needs_briefly, self.connection, live, found, now=self.now)
        return self.console.need_counts.get(company_id, partial(count, milliseconds=LONGEST_COUNT_MILLISECONDS))


def typed_moment(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    """The time in a text, by default in the zone. While clocks go back a local time has two moments: the later one
    counts, unless it is still to come. Raises ValueError or OverflowError for any other text."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        return clock.second_of_two(moment.replace(tzinfo=zone).astimezone(UTC), zone, latest=now)
    return moment.astimezone(UTC)


Handler = Callable[[Page], Response]


class ChooseCompany(Exception):
    """An operator has not chosen a company yet."""


def named_in_address(page: Page, owned: Owned[Row], owner_id: UUID | None = None) -> Row:
    """The row that the address names by its `id`, locked for an action. `owner_id` is by default the company whose
    pages are shown. Raises Unknown if the owner has no such row; the answer is 404."""
    read = owned.find if page.request.method == "GET" else owned.lock
    owner_id = page.company_id if owner_id is None else owner_id
    return read(page.connection, owner_id, owned.read_id(page.request.path_params["id"]))


def see_other(path: str) -> Response:
    """The answer to a form, which sends the browser to a page that may be loaded again."""
    return RedirectResponse(path, 303)


def answer_signed_in(
    request: Request,
    handler: Handler,
    form: Form,
    *,
    by: Collection[Role],
    is_hidden: bool = False,
    limits: TimeLimits | None = None,
) -> Response:
    """Run the handler in a transaction, if the person is signed in and has one of the roles `by`. The transaction sees
    only the person's company, or for an operator, who looks after all companies, everything. `is_hidden`: for other
    roles the address does not exist. `limits`: those of the transaction, where they are not the console's. Raises
    Refused and whatever the handler raises, after rolling the transaction back; Refused also for a part of a page that
    is older than the session."""
    console, token, now = console_of(request), read_cookie(request, SESSION), clock.now()
    with console.database.transaction(EVERYTHING, limits=limits) as connection:
        session = find_session(connection, token, now=now) if token is not None else None
        if token is None or session is None:
            if token is not None:
                console.forget_owner(token)
            return _to_sign_in(request)
        page_token = request.headers.get(FORM_HEADER)
        if page_token is not None and not is_form_token(page_token, token):
            raise Refused(409, "Somebody has signed in since this page was loaded", "Load the page again.")
        if session.role not in by:
            raise not_found() if is_hidden else _forbidden(session.role)
        if session.role is not Role.OPERATOR:
            set_visibility(connection, of_companies(() if session.company_id is None else (session.company_id,)))
        page = Page(console, request, connection, session, token, form, now)
        try:
            response = handler(page)
        except ChooseCompany:
            return _lead_to(request, "/companies")
        if request.method == "POST" and session.company_id is not None:  # it may have changed routes
            after_commit(connection, *delivery_jobs(connection, [session.company_id]))
            page.afterwards.append(partial(console.need_counts.forget, session.company_id))
    for call in page.afterwards:
        call()
    return response


def _to_sign_in(request: Request) -> Response:
    shown = _shown_address(request)
    return _lead_to(request, f"/sign-in?next={quote(shown)}" if shown else "/sign-in")


def _lead_to(request: Request, path: str) -> Response:
    """Leads the browser to another page: the whole page, also where htmx asks for a part of one."""
    return Response(headers={"HX-Redirect": path}) if _is_for_part(request) else see_other(path)


def _is_for_part(request: Request) -> bool:
    return request.headers.get("hx-request") == "true"


def _shown_address(request: Request) -> str:
    """The path of the page that the person sees or asks for, with its query, such as the id of a record or the days of
    a report; without a query that is too long. Empty for a form, and for a part whose page is not told."""
    if _is_for_part(request):
        address = request.headers.get("hx-current-url", "")
    else:
        address = str(request.url) if request.method == "GET" else ""
    try:
        _, _, path, query, _ = urlsplit(address)
    except ValueError:  # no browser's
        return ""
    return f"{path}?{query}" if query and len(path) + len(query) < LONGEST_NEXT else path


def _forbidden(role: str) -> Refused:
    return Refused(403, "You may not do this", f"Your role is {role}: ask an owner of your company.")
