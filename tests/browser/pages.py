"""Every page of the console, and how to come to it. The tests, the screenshots and the benchmark of the console use
this list. A page that is missing here fails `test_found_routes_are_shown_in_pages.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.companies import read_plan_policy
from domain.accounts.contacts import IN_CLEAR
from domain.accounts.users import create_user, make_password_link
from domain.connectors.connectors import CONNECTORS, ConnectorValues, add_connector, pause_connector
from domain.connectors.vendor import VendorVehicle
from domain.connectors.vendor_vehicles import match_vehicles
from domain.database.connections import Database, Tenant
from domain.ids import new_id, shown_id
from domain.lifecycle import Environment, Role
from domain.notices.notice_log import send_test_notice
from domain.notices.subscriptions import (
    OPERATORS,
    SUBSCRIPTIONS,
    SubscriptionValues,
    add_subscription,
    disable_subscription,
)
from domain.planning.explanation import pack_explanation
from domain.replay.portions import finish_replay, solve_next_portion
from domain.replay.replays import start_replay
from domain.replay.terms import Terms, replay_terms
from domain.savings.spans import month_of
from domain.webhooks.delivery_log import send_test
from domain.webhooks.endpoints import ENDPOINTS, EndpointChanges, add_endpoint
from ingress.console.record_kinds import RECORD_KINDS
from tests.domain.fills.cards import buy_planned_fuel
from tests.domain.replay.driven import explained, store_driven
from tests.factories import DOT, signed_in
from tests.rows import named
from tests.service import eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page


@dataclass(frozen=True, slots=True)
class Site:
    """A running console, and the company whose pages are shown."""

    url: str
    database: Database
    company_id: UUID

    def cookie(self, role: Role, email: str = "") -> str:
        """The token of a session in which a new user of the company is signed in."""
        with self.database.transaction() as connection:
            return signed_in(connection, role, self.company_id, email)

    def route(self) -> str:
        """The page of the route with the longest explanation: the fullest there is."""
        row = self._first(
            "SELECT route_id AS id FROM plans WHERE company_id = %s ORDER BY pg_column_size(explanation) DESC LIMIT 1"
        )
        return f"/routes/{shown_id('rte', row.id)}"

    def stop(self) -> str:
        """The page of a truck's time at the first stop of a route."""
        row = self._first(
            "SELECT route_id AS id FROM visits WHERE company_id = %s AND stop = 0 ORDER BY route_id LIMIT 1"
        )
        return f"/routes/{shown_id('rte', row.id)}/stops/1"

    def open_route(self) -> str:
        """The page of a route that has not ended, if there is one that is under way."""
        row = self._first(
            "SELECT id FROM routes WHERE company_id = %s AND status IN ('active', 'draft', 'planned')"
            " ORDER BY status, id LIMIT 1"
        )
        return f"/routes/{shown_id('rte', row.id)}"

    def fleet_map(self) -> str:
        """The map of the environment in which trucks drive."""
        return f"/map?environment={self._driven_truck().environment}"

    def truck(self) -> str:
        """The page of a truck on its way, if there is one."""
        row = self._driven_truck()
        return f"/map/trucks/{shown_id('veh', row.id)}?environment={row.environment}"

    def _driven_truck(self) -> Any:
        return self._first(
            "SELECT v.id, coalesce(t.environment, 'live') AS environment FROM vehicles v"
            " LEFT JOIN tracks t ON t.vehicle_id = v.id LEFT JOIN routes r ON r.vehicle_id = v.id"
            " AND r.environment = t.environment AND r.status = 'active'"
            " WHERE v.company_id = %s AND v.retired_at IS NULL ORDER BY r.id, t.newest_at, v.id LIMIT 1"
        )

    def request(self) -> str:
        """The page of a request that failed, or of any other. The log has each a second after its answer."""
        row = self._first(
            "SELECT r.id FROM request_log r JOIN api_keys k ON k.id = r.key_id WHERE k.company_id = %s"
            " ORDER BY r.status >= 400 DESC, r.id DESC LIMIT 1"
        )
        return f"/requests/{row.id.hex}"

    def connector(self) -> str:
        """The page of a connector with vehicles, one of them without a match. It is made where there is none."""
        with self.database.transaction() as connection:
            known = CONNECTORS.all(connection, self.company_id)
            if not known:
                tenant = Tenant(self.company_id, Environment.SANDBOX)
                values = ConnectorValues("samsara", {"token": "a-token"}, url="https://api.samsara.com")
                made = add_connector(connection, tenant, values, DOT, allowed=AllowedHosts(), contacts=IN_CLEAR)
                pause_connector(connection, self.company_id, made.id, DOT, now=datetime.now(UTC))
                (unit,) = connection.execute(
                    "SELECT unit_number FROM vehicles WHERE company_id = %s ORDER BY id LIMIT 1", (self.company_id,)
                ).fetchone() or ("",)
                stranger = VendorVehicle("281474977075805", f"Freightliner {unit}")
                named = [stranger, VendorVehicle("281474977075806", unit)]
                match_vehicles(connection, self.company_id, made.id, named, now=datetime.now(UTC))
                known = [made]
        return f"/connectors/{shown_id('con', known[0].id)}"

    def connectors(self) -> str:
        """The list of connectors, with one."""
        self.connector()
        return "/connectors"

    def webhook(self) -> str:
        """The page of an endpoint with a delivery. It is made where there is none."""
        with self.database.transaction() as connection:
            known = ENDPOINTS.all(connection, self.company_id)
            if not known:
                tenant = Tenant(self.company_id, Environment.SANDBOX)
                values = EndpointChanges(url="https://tms.example.com/fuelroute?code=1", description="the TMS")
                made = add_endpoint(connection, tenant, values, DOT, allowed=AllowedHosts(), contacts=IN_CLEAR)
                send_test(connection, self.company_id, made.endpoint.id, DOT, now=datetime.now(UTC))
                known = [made.endpoint]
        return f"/webhooks/{shown_id('whe', known[0].id)}"

    def webhooks(self) -> str:
        """The list of endpoints, with one."""
        self.webhook()
        return "/webhooks"

    def webhook_delivery(self) -> str:
        """The page of its newest delivery."""
        path = self.webhook()
        row = self._first("SELECT event_id AS id FROM webhook_deliveries WHERE company_id = %s ORDER BY number DESC")
        return f"{path}/{shown_id('evt', row.id)}"

    def fills(self) -> str:
        """The list of fills. There are some after this."""
        self._buy_fuel()
        return "/fills"

    def fills_to_review(self) -> str:
        """The list of fills that wait for a person."""
        self._buy_fuel()
        return "/fills?list=review"

    def bought(self) -> str:
        """Planned against bought, in the environment of the fills."""
        row = self._first("SELECT environment FROM savings WHERE company_id = %s ORDER BY environment LIMIT 1")
        self._buy_fuel()
        return f"/bought?environment={row.environment if row is not None else Environment.LIVE}&by=truck"

    def compliance(self) -> str:
        """Compliance, in the environment of the savings; a trip has ended."""
        row = self._first("SELECT environment FROM savings WHERE company_id = %s ORDER BY environment LIMIT 1")
        return f"/compliance?environment={row.environment if row is not None else Environment.LIVE}"

    def replay(self) -> str:
        """The page of a finished replay. A trip is driven for it where none was."""
        now = datetime.now(UTC)
        with self.database.transaction() as connection:
            ask = named(connection)
            if not ask.execute(_LAST_DRIVEN, (self.company_id,)).fetchone():
                (truck,) = ask.execute(_SOMEBODY, (self.company_id, self.company_id)).fetchall()
                body = {"vehicle": {"unitNumber": truck.unit_number}, "driver": {"name": truck.name}}
                live = Tenant(self.company_id, Environment.LIVE)
                store_driven(connection, live, pack_explanation(explained()), now=now, externalId="driven", **body)
            (row,) = ask.execute(_LAST_DRIVEN, (self.company_id,)).fetchall()
            terms = replay_terms(read_plan_policy(connection, self.company_id), Terms(), Terms(), weighs_deals=True)
            span, tenant = month_of(row.planned_at.date(), "UTC"), Tenant(self.company_id, row.environment)
            replay_id = start_replay(connection, tenant, span, terms, DOT, by_workers=False, now=now)
        while solve_next_portion(self.database.transaction, replay_id, now=now) is not None:
            pass
        finish_replay(self.database.transaction, replay_id, now=now)
        return f"/replays/{shown_id('rpl', replay_id)}"

    def _buy_fuel(self) -> None:
        with self.database.transaction() as connection:
            buy_planned_fuel(connection, self.company_id)

    def subscription(self) -> str:
        """The page of a subscription with a notice. It is made where there is none."""
        with self.database.transaction() as connection:
            known = SUBSCRIPTIONS.all(connection, self.company_id)
            if not known:
                values = SubscriptionValues(
                    name="Night desk",
                    kinds=("vehicle_unmapped", "error", "late"),
                    url="slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
                    after_minutes=5,
                    quiet_from=22 * 60,
                    quiet_until=6 * 60,
                    time_zone="America/Chicago",
                )
                made = add_subscription(
                    connection, self.company_id, None, values, DOT, allowed=AllowedHosts(), contacts=IN_CLEAR
                )
                words = {"company": "Demo", "console": "https://console.example.com"}
                send_test_notice(connection, self.company_id, made.id, DOT, **words, now=datetime.now(UTC))
                disable_subscription(connection, self.company_id, made.id, DOT, now=datetime.now(UTC))
                known = [made]
        return f"/notices/{shown_id('sub', known[0].id)}"

    def operators_subscription(self) -> str:
        """The page of a subscription of the operators. It is made where there is none."""
        with self.database.transaction() as connection:
            known = SUBSCRIPTIONS.all(connection, OPERATORS)
            if not known:
                values = SubscriptionValues(
                    name="On call",
                    kinds=("redis_away", "unserved", "stalled"),
                    url="slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
                    after_minutes=5,
                    quiet_from=None,
                    quiet_until=None,
                    time_zone="America/Chicago",
                )
                known = [
                    add_subscription(
                        connection, OPERATORS, None, values, DOT, allowed=AllowedHosts(), contacts=IN_CLEAR
                    )
                ]
                disable_subscription(connection, OPERATORS, known[0].id, DOT, now=datetime.now(UTC))
        return f"/operator-notices/{shown_id('sub', known[0].id)}"

    def notices(self) -> str:
        """The list of subscriptions, with one."""
        self.subscription()
        return "/notices"

    def _first(self, query: LiteralString) -> Any:
        """The row that a query finds for the company, once there is one."""

        def look() -> Any:
            with self.database.transaction() as connection:
                return named(connection).execute(query, (self.company_id,)).fetchone()

        return eventually(look, bool)

    def password_link(self) -> str:
        """The address of a link for a new user."""
        with self.database.transaction() as connection:
            email = f"{new_id().hex[-8:]}@example.com"
            user_id = create_user(connection, DOT, email=email, role=Role.VIEWER, company_id=self.company_id)
            return f"/set-password/{make_password_link(connection, user_id, now=datetime.now(UTC))}"


_LAST_DRIVEN = (
    "SELECT s.environment, s.planned_at FROM savings s JOIN routes r ON r.id = s.route_id"
    " WHERE r.status = 'completed' AND s.company_id = %s ORDER BY s.planned_at DESC LIMIT 1"
)
_SOMEBODY = (
    "SELECT v.unit_number, d.name FROM vehicles v CROSS JOIN drivers d WHERE v.company_id = %s AND d.company_id = %s"
    " AND v.retired_at IS NULL AND d.retired_at IS NULL AND v.unit_number IS NOT NULL ORDER BY v.id, d.id LIMIT 1"
)


def this_quarter(_: Site) -> str:
    """The address of this quarter's report. The page shows the last quarter unless one is chosen, and a new service
    drove nothing in it."""
    today = datetime.now(UTC)
    return f"/ifta?quarter={today.year}Q{(today.month + 2) // 3}"


def wait_for_maps(page: "Page") -> None:
    """Wait until each map of the page is drawn, or the browser has found that it cannot draw it."""
    page.locator(":is([data-state=loading], [data-state=shown])").wait_for(state="detached")


def make_key(page: "Page") -> None:
    """Go from the page API keys to the page that shows a new key."""
    page.get_by_label("Name").fill("TMS")
    page.get_by_label("sandbox").check()
    for scope in page.get_by_role("group", name="Scopes").get_by_role("checkbox").all():
        scope.check()
    page.get_by_role("button", name="Create the key").click()
    page.locator("code.secret").wait_for()


def invite_user(page: "Page") -> None:
    """Go from the page Users to the page that shows an invitation's link."""
    page.get_by_label("E-mail").fill(f"{new_id().hex}@example.com")
    page.locator("section").get_by_label("dispatcher").check()
    page.get_by_role("button", name="Make the invitation").click()
    page.locator("code.secret").wait_for()


def rotate_secret(page: "Page") -> None:
    """Go from the page of an endpoint to the page that shows its new secret."""
    page.locator("summary", has_text="Rotate the secret").click()
    page.get_by_role("button", name="Make a new secret").click()
    page.locator("code.secret").wait_for()


@dataclass(frozen=True, slots=True)
class Visit:
    """One page: its name, its address in the console's table, who sees it, and where it is."""

    name: str
    address: str
    path: str | Callable[[Site], str] = ""
    """Empty where the address itself leads to the page."""
    role: Role | None = Role.OWNER
    """None where nobody is signed in."""
    act: "Callable[[Page], None] | None" = None
    """The steps that lead to a page whose address is not known before."""
    like: str = ""
    """A page that looks the same. The README shows only that one."""

    def path_in(self, site: Site) -> str:
        return self.path(site) if callable(self.path) else self.path or self.address


def open_first_record(page: "Page") -> None:
    """Go from a list of records to the form of one."""
    page.locator("main tbody a").locator("visible=true").first.click()
    page.wait_for_url("**/one?*")


def open_step(page: "Page") -> None:
    """Open the form of one action on a route. The page shows one form at a time."""
    page.locator("summary", has_text="Enter an arrival or departure").click()
    page.locator("details[open] :is(input, select):focus").wait_for()


def import_vehicles(page: "Page") -> None:
    """Go from the list of vehicles to the page of an import with a refused row."""
    page.locator("summary", has_text="Import a CSV file").click()
    text = b"unit_number,vin,mpg\n4199,1FUJHHDR7NLZ90199,7.1\n4198,1FUJHHDR7NLZ90198,a lot\n"
    page.get_by_label("CSV file").set_input_files({"name": "fleet.csv", "mimeType": "text/csv", "buffer": text})
    page.get_by_role("button", name="Import").click()
    page.get_by_role("heading", name="Refused rows").wait_for()


def preview_load(page: "Page") -> None:
    """A load between two towns, asked for again while the machine is too busy for it."""

    def look() -> int:
        page.goto("/previews?from=Memphis%2C+TN&to=Albuquerque%2C+NM&fuel=25", timeout=120_000)
        return page.locator("#result").count()

    eventually(look, lambda found: found == 1, 900, "the preview")
    wait_for_maps(page)


def preview_routes(page: "Page") -> None:
    """Look at the columns of a file of routes, one of which has a name of its own, and at its first routes."""
    columns = "Our Ref,unitNumber,driverName,scheduledStart,stop1_name,stop1_latitude,stop1_longitude,stop2_name"
    rows = [
        f"LOAD-{number},4101,Ann Lee,2026-12-01T08:00:00-06:00,Joliet,41.462,-88.125,Port Newark,{latitude},-74.1"
        for number, latitude in enumerate(("40.695", "40.7", "407"), start=1)
    ]
    text = "\n".join([f"{columns},stop2_latitude,stop2_longitude", *rows, ""]).encode()
    page.get_by_label("File").set_input_files({"name": "loads.csv", "mimeType": "text/csv", "buffer": text})
    page.get_by_role("button", name="Preview").click()
    page.get_by_label("Field of the column Our Ref").fill("externalId")
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="The first routes").wait_for()


def push_routes(page: "Page") -> None:
    """Push a file of routes, and go to the page that follows it."""
    preview_routes(page)
    page.get_by_label("Environment").select_option("sandbox")
    page.get_by_role("button", name="Push the routes").click()
    page.get_by_role("heading", name="Refused rows").wait_for()


def preview_fills(page: "Page") -> None:
    """Look at the columns and the first purchases of a fuel card's file."""
    columns = "Card #,Tran Date,Tran Time,Invoice,Unit,Location Name,City,State/ Prov,Item,Disc PPU,Qty,Amt,Currency"
    rows = [
        f"7083051234567890,2026-11-2{number},09:1{number},90{number},410{number},PILOT #{number},JOLIET,IL,{item},"
        f"3.455,{gallons},{gallons * 3.455:.2f},USD"
        for number, (item, gallons) in enumerate((("ULSD", 101.5), ("DEFD", 8.25), ("PROD 7", 60.0)), start=1)
    ]
    text = "\n".join([columns, *rows, rows[0].replace("2026-11-21", "yesterday"), ""]).encode()
    page.get_by_label("File").set_input_files({"name": "efs.csv", "mimeType": "text/csv", "buffer": text})
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="The first fills").wait_for()


def import_fills(page: "Page") -> None:
    """Store the purchases of a file, and go to the page that follows it."""
    preview_fills(page)
    page.get_by_role("button", name="Import the fills").click()
    page.get_by_role("heading", name="Refused rows").wait_for()


def look_at_any_file(page: "Page") -> None:
    """Look at a file of prices on the page that takes any file."""
    rows = [
        "Store No.,City,State,Retail Price,Best Discounted Price,Notes",
        "305,Elkhart,IN,3.999,3.499,",
        "9,Gary,IN,,x,",
    ]
    text = "\n".join([*rows, ""]).encode()
    page.get_by_label("File").set_input_files({"name": "loves.csv", "mimeType": "text/csv", "buffer": text})
    page.get_by_role("button", name="Look at it").click()
    page.get_by_role("heading", name="This is a file of prices").wait_for()


def import_any_file(page: "Page") -> None:
    """Store the prices of a file, and go to the page that follows it."""
    look_at_any_file(page)
    page.get_by_role("button", name="Import the file").click()
    page.get_by_role("heading", name="Refused rows").wait_for()


def open_fill(page: "Page") -> None:
    """Go from the list of fills to one that waits for a person."""
    page.locator("main tbody a").first.click()
    page.get_by_role("heading", name="Decide").wait_for()


def see_trucks(page: "Page") -> None:
    """Wait until the map, or the list alone, shows the fleet."""
    page.locator("#fleet[data-ready]").wait_for()
    wait_for_maps(page)


PAGES = (
    Visit("sign-in", "/sign-in", role=None),
    Visit("set-password", "/set-password/{token}", Site.password_link, role=None),
    Visit("overview", "/overview"),
    Visit("map", "/map", Site.fleet_map, act=see_trucks),
    Visit("map-truck", "/map/trucks/{id}", Site.truck),
    Visit("routes", "/routes"),
    Visit("route", "/routes/{id}", Site.route),
    Visit("route-step", "/routes/{id}", Site.open_route, act=open_step),
    Visit("stop", "/routes/{id}/stops/{stop}", Site.stop, like="route"),
    Visit("previews", "/previews", act=preview_load),
    Visit("route-files", "/route-files", act=preview_routes),
    Visit("route-upload", "/route-files/{id}", "/route-files", act=push_routes),
    Visit("matching", "/matching/{matched}", "/matching/vehicles"),
    Visit("mappings", "/mappings/{matched}", "/mappings/vehicles"),
    Visit("spelling-rules", "/mappings/vehicles/rules", "/mappings/vehicles/rules?before=TRK%20"),
    Visit("vehicles", "/vehicles"),
    Visit("vehicle", "/vehicles/one", "/vehicles", act=open_first_record),
    Visit("vehicle-new", "/vehicles/new", like="vehicle"),
    Visit("import", "/vehicles/imports/{id}", "/vehicles", act=import_vehicles),
    Visit("drivers", "/drivers", like="vehicles"),
    Visit("driver", "/drivers/one", "/drivers", act=open_first_record, like="vehicle"),
    Visit("stations", "/stations"),
    Visit("station", "/stations/one", "/stations", role=Role.OPERATOR, act=open_first_record),
    Visit("deals", "/deals", like="stations"),
    Visit("deal", "/deals/one", "/deals", act=open_first_record, like="station"),
    Visit("taxes", "/taxes", like="stations"),
    Visit("tax", "/taxes/one", "/taxes", act=open_first_record, like="station"),
    Visit("prices", "/prices"),
    Visit("savings", "/savings"),
    Visit("driven-lanes", "/savings/lanes", like="savings"),
    Visit("savings-plans", "/savings/plans"),
    Visit("savings-statements", "/savings/statements", like="savings"),
    Visit("ifta", "/ifta", this_quarter),
    Visit("any-file", "/import", act=look_at_any_file),
    Visit("price-upload", "/prices/imports/{id}", "/import", act=import_any_file),
    Visit("fill-files", "/fill-files", act=preview_fills),
    Visit("fill-upload", "/fill-files/{id}", "/fill-files", act=import_fills),
    Visit("fills", "/fills", Site.fills),
    Visit("fill-cards", "/fills/cards", like="fills"),
    Visit("fill", "/fills/{id}", Site.fills_to_review, act=open_fill),
    Visit("bought", "/bought", Site.bought),
    Visit("replays", "/replays", like="savings"),
    Visit("replay", "/replays/{id}", Site.replay, like="savings"),
    Visit("compliance", "/compliance", Site.compliance, like="bought"),
    Visit("policy", "/policy"),
    Visit("keys", "/keys"),
    Visit("key-made", "/keys", act=make_key),
    Visit("connectors", "/connectors", Site.connectors),
    Visit("connector", "/connectors/{id}", Site.connector),
    Visit("webhooks", "/webhooks", Site.webhooks),
    Visit("webhook-secret", "/webhooks/{id}", Site.webhook, act=rotate_secret),
    Visit("webhook", "/webhooks/{id}", Site.webhook),
    Visit("webhook-delivery", "/webhooks/{id}/{event}", Site.webhook_delivery),
    Visit("notices", "/notices", Site.notices),
    Visit("subscription", "/notices/{id}", Site.subscription),
    Visit("users", "/users"),
    Visit("user-link", "/users", act=invite_user),
    Visit("requests", "/requests"),
    Visit("request", "/requests/{id}", Site.request),
    Visit("audit", "/audit"),
    Visit("account", "/account"),
    Visit("queues", "/queues", role=Role.OPERATOR),
    Visit("operator-notices", "/operator-notices", role=Role.OPERATOR, like="notices"),
    Visit(
        "operator-subscription",
        "/operator-notices/{id}",
        Site.operators_subscription,
        role=Role.OPERATOR,
        like="subscription",
    ),
    Visit("queue-jobs", "/queues/{queue}/{place}", "/queues/imports/waiting", role=Role.OPERATOR),
    Visit("queue-rates", "/queues/{queue}/rates", "/queues/imports/rates", role=Role.OPERATOR),
    Visit("overdue", "/queues/overdue/{figure}", "/queues/overdue/held", role=Role.OPERATOR),
    Visit("dead-letters", "/queues/dead", role=Role.OPERATOR),
    Visit("companies", "/companies", role=Role.OPERATOR),
    Visit("find", "/find", "/find?q=1"),
)

SHOWN = tuple(visit for visit in PAGES if not visit.like)
"""The pages of the README."""

WITH_MAP = {"map", "overview", "route", "route-step", "previews"}
"""The pages that show a map: their pictures need more colors."""

_OTHERS = [one.name for one in RECORD_KINDS if one.name != "vehicles"]
NO_PAGES = {
    "/": "leads to the first page",
    "/sign-in/openid": "leads to the provider",
    "/sign-in/openid/callback": "leads on from the provider",
    "/set-password/{token}/openid": "leads to the provider",
    "/sign-in/openid/bind": "the answer to a page that comes from the provider",
    "/healthz": "for machines",
    "/readyz": "for machines",
    "/queues/stream": "events for the page Queues",
    "/map/fleet": "for the script of the page Map",
    "/map/stream": "events for the page Map",
    "/queues/workers/{id}": "the jobs that a worker holds, as those that wait",
    "/matching/{matched}/candidates": "a part of Matching and Mappings",
    "/matching/{matched}/progress": "a part of Matching",
    "/static/base-map/{z:int}/{x:int}/{y:int}": "a tile of the maps",
    "/static/maplibre-gl-worker.mjs": "a script of the maps",
    "/savings.csv": "a file",
    "/bought.csv": "a file",
    "/replays/{id}/trips.csv": "a file",
    "/compliance.csv": "a file",
    "/price-runs/{id}.csv": "a file",
    "/ifta-trucks.csv": "a file",
    "/savings/plans.csv": "a file",
    "/savings/habits.csv": "a file",
    "/savings/statement.csv": "a file",
    "/savings/statement.pdf": "a file",
    "/ifta.csv": "a file",
    "/routes.csv": "a file",
    "/routes/{id}/certificate.json": "a file",
    "/routes/{id}/stops/{stop}/statement.pdf": "a file",
    **{f"/{one.name}/list.csv": "a file" for one in RECORD_KINDS},
    **{f"/{one.name}.csv": "a file" for one in RECORD_KINDS},
    **{f"/{name}/new": "as that of vehicles" for name in _OTHERS},
    **{f"/{name}/imports/{{id}}": "as that of vehicles" for name in _OTHERS},
}
"""Addresses that show no page of their own, and why."""
