"""The console of one process: what its requests share, and the shell of every page."""

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse

from domain import clock
from domain.accounts.attempts import site_of
from domain.accounts.contacts import Contacts
from domain.accounts.openid import OpenIdProvider
from domain.accounts.sessions import Session, find_session
from domain.accounts.tokens import form_token, new_token
from domain.database.connections import Database
from domain.database.options import SERVING
from domain.database.visibility import EVERYTHING, NOTHING
from domain.lifecycle import Role
from domain.queue.job_queue import JobQueue
from domain.settings import Settings
from ingress.console.browser import SESSION, network_of_client, read_cookie, set_cookie
from ingress.console.downloads import Downloads
from ingress.console.fairness import FairThreads, ShareOwners
from ingress.console.import_turns import IMPORTS_AT_A_TIME, MOST_LARGE
from ingress.console.importer import Importer
from ingress.console.maps import map_settings
from ingress.console.navigation import NeedCounts
from ingress.console.rendering import make_templates
from ingress.console.streams import Streams
from ingress.http.fair_queue import FairSemaphore
from ingress.previews.processes import PreviewProcesses

_REPORTS_AT_A_TIME = 2
_OTHER_CONNECTIONS = _REPORTS_AT_A_TIME + IMPORTS_AT_A_TIME


class Console:
    """The resources for the pages of one process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        at_a_time = max(2, settings.database_pool_size - _OTHER_CONNECTIONS)  # each works with a connection
        pool_size = at_a_time + _OTHER_CONNECTIONS + MOST_LARGE  # large imports keep theirs while others have a turn
        self.jobs = JobQueue.of(settings)
        self.database = Database.of(
            settings,
            SERVING,
            fail_fast=True,
            visible=lambda: NOTHING,
            pool_size=pool_size,
            put_jobs=self.jobs.put,
        )
        self.pages = FairThreads("page", at_a_time, of_one=at_a_time // 2, waiting=400)
        self.reports = FairThreads("report", _REPORTS_AT_A_TIME, of_one=1, waiting=40, patience_seconds=30)
        """Threads for work that takes seconds, while other pages are answered."""
        self.passwords = FairThreads("password", 1, of_one=1, waiting=60)
        """A thread for checks of passwords, which keep a processor busy, and which people who are not signed in may
        cause."""
        self.known_browsers = FairThreads("known-browser", 1, of_one=1, waiting=60)
        """A thread for checks of passwords from browsers that have signed in before, so that strangers cannot delay
        these."""
        body_bytes = settings.body_memory_megabytes << 20
        self.bodies = FairSemaphore(body_bytes, of_one=body_bytes // 32)
        """Bytes of memory for forms. A form holds its bytes from before it is read until it has arrived."""
        self.provider = OpenIdProvider.of(settings)
        self.provider_requests = FairSemaphore(16, of_one=4)
        """Sign-ins that wait for the provider. They hold no thread."""
        self.downloads = Downloads()
        self._owners = ShareOwners()
        self.contacts = Contacts.of(settings)
        self.streams = Streams()
        self.need_counts = NeedCounts()
        self.importer = Importer(self.database)
        self.previews = PreviewProcesses(settings)
        self._templates = make_templates()
        self._templates.globals["map_settings"] = map_settings(settings)
        self._templates.globals["provider"] = self.provider.label if self.provider is not None else ""

    def close(self) -> None:
        """Wait for the work that runs."""
        self.importer.close()
        for threads in (self.pages, self.reports, self.passwords, self.known_browsers):
            threads.close()

    async def owner_of(self, request: Request) -> str:
        """The owner whose share the request uses. Raises CapacityTimeout if looking up the session takes too long."""
        token, site = read_cookie(request, SESSION), site_of(network_of_client(request))
        if token is None:
            return site
        look_up = partial(self.pages.run, site, partial(self._look_up_owner, token))
        return await self._owners.of(token, look_up) or site

    def _look_up_owner(self, token: str) -> str | None:
        with self.database.transaction(EVERYTHING) as connection:
            session = find_session(connection, token, now=clock.now())
        if session is None:
            return None
        is_operator = session.role is Role.OPERATOR
        return f"operator {session.user_id}" if is_operator else f"company {session.company_id}"

    def forget_owner(self, token: str) -> None:
        """Forget the owner of a session that has ended."""
        self._owners.forget(token)

    def render(self, request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a page. A browser without a cookie gets one, from which the tokens of its forms are made. The answer
        to a form sets no cookie: another site's form comes without the browser's cookie, so a new one would replace it,
        and any site could sign people out."""
        token = read_cookie(request, SESSION)
        fresh = new_token() if token is None and request.method != "POST" else None
        session: Session | None = values.get("session")
        chosen = session.company_id if session is not None and session.role is Role.OPERATOR else None
        context = {"session": None, "section": "", **values, "form_token": form_token(token or fresh or "", chosen)}
        response = HTMLResponse(self._templates.get_template(template).render(context), status)
        if fresh is not None:
            set_cookie(request, response, SESSION, fresh)
        return response


def console_of(request: Request) -> Console:
    console: Console = request.app.state.console
    return console
