"""Every page of the console, and how to come to it: what the tests look at, what the screenshots and the benchmark of
the console show. A page that is missing here fails `test_pages.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

from domain.accounts.users import create_user, make_password_link
from domain.database import Database
from domain.ids import new_id, shown_id
from domain.lifecycle import Role
from tests.factories import signed_in
from tests.rows import named

if TYPE_CHECKING:
    from playwright.sync_api import Page


@dataclass(frozen=True, slots=True)
class Site:
    """A running console, and the company whose pages are shown."""

    url: str
    database: Database
    company_id: UUID

    def cookie(self, role: Role, email: str = "") -> str:
        """Of a browser in which a new user of the company is signed in."""
        with self.database.transaction() as connection:
            return signed_in(connection, role, self.company_id, email)

    def route(self) -> str:
        """The page of the route with the longest explanation: the fullest there is."""
        with self.database.transaction() as connection:
            found = named(connection).execute(
                "SELECT route_id AS id FROM plans WHERE company_id = %s"
                " ORDER BY pg_column_size(explanation) DESC LIMIT 1",
                (self.company_id,),
            )
            row = found.fetchone()
        assert row is not None, "no route of the company has a plan"
        return f"/routes/{shown_id('rte', row.id)}"

    def password_link(self) -> str:
        """For a new user."""
        with self.database.transaction() as connection:
            email = f"{new_id().hex[-8:]}@example.com"
            user_id = create_user(connection, email=email, role=Role.VIEWER, company_id=self.company_id)
            return f"/set-password/{make_password_link(connection, user_id, now=datetime.now(UTC))}"


def make_key(page: "Page") -> None:
    """From the page API keys to the one that shows a new key."""
    page.get_by_label("Name").fill("TMS")
    page.get_by_label("sandbox").check()
    for scope in page.get_by_role("group", name="Scopes").get_by_role("checkbox").all():
        scope.check()
    page.get_by_role("button", name="Create the key").click()


@dataclass(frozen=True, slots=True)
class Visit:
    """One page: its name, its address in the console's table, who sees it, and where it is."""

    name: str
    address: str
    path: str | Callable[[Site], str] = ""
    """The address itself unless given."""
    role: Role | None = Role.OWNER
    """None: nobody is signed in."""
    act: "Callable[[Page], None] | None" = None
    """What is done on the page to come to this one, which has no address of its own."""

    def path_in(self, site: Site) -> str:
        return self.path(site) if callable(self.path) else self.path or self.address


PAGES = (
    Visit("sign-in", "/sign-in", role=None),
    Visit("set-password", "/set-password/{token}", Site.password_link, role=None),
    Visit("routes", "/routes"),
    Visit("route", "/routes/{id}", Site.route),
    Visit("matching", "/matching/{subject}", "/matching/vehicles"),
    Visit("mappings", "/mappings/{subject}", "/mappings/vehicles"),
    Visit("keys", "/keys"),
    Visit("key-made", "/keys", act=make_key),
    Visit("account", "/account"),
    Visit("queues", "/queues", role=Role.OPERATOR),
    Visit("queue-jobs", "/queues/{queue}/{place}", "/queues/imports/waiting", role=Role.OPERATOR),
    Visit("queue-rates", "/queues/{queue}/rates", "/queues/imports/rates", role=Role.OPERATOR),
    Visit("overdue", "/queues/overdue/{figure}", "/queues/overdue/held", role=Role.OPERATOR),
    Visit("dead-letters", "/queues/dead", role=Role.OPERATOR),
    Visit("audit", "/audit"),
    Visit("companies", "/companies", role=Role.OPERATOR),
)

NO_PAGES = {
    "/": "leads to the first page",
    "/healthz": "for machines",
    "/queues/stream": "events for the page Queues",
    "/queues/workers/{id}": "the jobs that a worker holds, as those that wait",
    "/matching/{subject}/candidates": "a part of Matching and Mappings",
    "/matching/{subject}/progress": "a part of Matching",
}
"""Addresses that show no page of their own, and why."""
