"""The checks of a system that is quiet after a fault. Each complaint is a sentence.

The checks read the tables as the superuser, who sees every row, and then the same routes through the API.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from domain.ids import shown_id
from domain.operations.doctor.examination import examine
from domain.routes.reading.counts import COUNTED_COLUMNS
from domain.settings import Settings
from tests.chaos.clients import Clients
from tests.chaos.gateways import Post
from tests.chaos.model import Account, Journey, Load, Model, Possible
from tests.rows import named

Connection = psycopg.Connection[Any]

_HELD = {"ready": "draft", "far": "pending_window", "unmapped": "pending_mapping"}

_ROUTES = """
    SELECT r.id, r.company_id, r.environment, r.external_id, r.reference, r.status, r.closed_reason, r.scheduled_start,
           r.stops, r.vehicle_unit_number, r.pending_reason, r.plan_id, r.created_at,
           (SELECT max(m.retry_at) FROM messages m WHERE m.route_id = r.id AND m.status = 'pending') AS retry_at
    FROM routes r JOIN unnest(%s::uuid[], %s::text[], %s::text[]) AS asked (company_id, environment, external_id)
      USING (company_id, environment, external_id)
    ORDER BY r.created_at, r.id
"""

_STUCK = {
    "a route is still pending": "SELECT external_id || ' ' || coalesce(pending_detail, '') AS about FROM routes"
    " WHERE status = 'pending'",
    "a route waits for a mapping that exists": "SELECT r.external_id AS about FROM routes r JOIN mappings m"
    " ON m.company_id = r.company_id AND m.kind = 'unit_number' AND m.value = r.vehicle_unit_number"
    " WHERE r.status = 'pending_mapping' AND m.created_at < now() - %(import_pass)s",
    "positions are not processed": "SELECT vehicle_id || ' since ' || unprocessed_since AS about FROM tracks"
    " WHERE unprocessed_from IS NOT NULL",
    "a truck has arrived, and its route has no plan": "SELECT external_id AS about FROM routes"
    " WHERE status = 'draft' AND arrived_at IS NOT NULL",
    "a message is overdue": "SELECT id || ' attempts ' || attempts || ' ' || coalesce(error, '') AS about"
    " FROM messages WHERE status = 'pending' AND (retry_at < now() - interval '2 s')",
    "a review is overdue": "SELECT external_id AS about FROM routes WHERE review_at < now() - interval '2 s'",
    "a replan is due, and nothing makes it": "SELECT external_id AS about FROM routes"
    " WHERE replan IS NOT NULL AND review_at IS NULL",
}

_ALWAYS = {
    "a count differs from the table": f"""
        SELECT company_id || ' ' || environment || ' ' || status || ' ' || day || ': ' || sum(routes) AS about FROM (
            SELECT company_id, environment, status, day, -routes AS routes FROM {COUNTED_COLUMNS} AS parts
            UNION ALL
            SELECT company_id, environment, status, date_bin('1 day', scheduled_start, timestamptz 'epoch'), count(*)
            FROM routes GROUP BY 1, 2, 3, 4
        ) AS counted GROUP BY company_id, environment, status, day HAVING sum(routes) <> 0""",
    "two routes of a load are open": "SELECT company_id || ' ' || environment || ' ' || external_id AS about"
    " FROM routes WHERE status <> 'canceled' GROUP BY company_id, environment, external_id HAVING count(*) > 1",
    "an older route was not superseded": "SELECT o.external_id || ' by ' || n.external_id AS about FROM routes o"
    " JOIN companies c ON c.id = o.company_id AND c.superseding JOIN routes n ON n.company_id = o.company_id"
    " AND n.environment = o.environment AND n.reference = o.reference AND n.external_id <> o.external_id"
    " AND n.created_at > o.created_at WHERE o.reference <> '' AND o.created_at > now() - interval '10 min'"
    " AND o.status IN ('pending','pending_mapping','pending_window','draft','planned')"
    " AND n.status IN ('pending','pending_mapping','pending_window','draft','planned')",
    "a driver has two messages of a route": "SELECT route_id || ': ' || count(*) AS about FROM messages"
    " WHERE status IN ('sent','suppressed') AND text !~ '(^|\\n)CORRECTED' GROUP BY route_id HAVING count(*) > 1",
    "a driver has too many corrections": "SELECT route_id || ': ' || count(*) AS about FROM messages"
    " WHERE status IN ('sent','suppressed') AND text ~ '(^|\\n)CORRECTED' GROUP BY route_id HAVING count(*) > 2",
    "a route is active without a message": "SELECT r.external_id AS about FROM routes r WHERE r.status = 'active'"
    " AND NOT EXISTS (SELECT FROM messages m WHERE m.route_id = r.id AND m.status IN ('sent','suppressed'))",
    "a route ended in error": "SELECT external_id || ': ' || closed_reason AS about FROM routes WHERE status = 'error'",
    "a route left its company": "SELECT r.external_id AS about FROM routes r"
    " LEFT JOIN vehicles v ON v.id = r.vehicle_id LEFT JOIN drivers d ON d.id = r.driver_id"
    " WHERE v.company_id <> r.company_id OR d.company_id <> r.company_id",
    "a sandbox message left the house": "SELECT id::text AS about FROM messages"
    " WHERE environment = 'sandbox' AND (status = 'sent' OR channel <> 'sandbox')",
}


class Checks:
    """The complaints about a quiet system, and the same about the whole at the end."""

    def __init__(
        self,
        url: str,
        model: Model,
        clients: Clients,
        post: Post,
        accounts: Sequence[Account],
        *,
        import_pass_seconds: float,
    ) -> None:
        self._url, self._model, self._clients, self._post = url, model, clients, post
        self._patience = {"import_pass": timedelta(seconds=import_pass_seconds) + SLACK}
        self._accounts = {(account.company_id, str(account.environment)): account for account in accounts}
        self.made = 0
        """The number of loads that were compared with the model."""

    def connect(self) -> Connection:
        """A connection with short patience: PostgreSQL may still be away."""
        options = "-c statement_timeout=20000 -c lock_timeout=2000 -c timezone=UTC"
        return psycopg.connect(self._url, connect_timeout=2, autocommit=True, options=options)

    def look(self, loads: Sequence[Load], *, lately_frozen: bool) -> list[str]:
        """Everything that is not, or not yet, as it should be. Nothing: the system is quiet and right."""
        with self.connect() as connection:
            found = [*self._from(connection, _STUCK), *self._from(connection, _ALWAYS)]
            rows = self._rows(connection, loads)
            for load in loads:
                found += self._about(load, rows.get((load.account.tag, load.external_id), []), lately_frozen)
            found += self._post.complaints(connection)
        return found

    def look_outside(self, loads: Sequence[Load], threads: ThreadPoolExecutor) -> list[str]:
        """The complaints about these loads and the totals, as the API and the console show them."""
        with self.connect() as connection:
            rows = self._rows(connection, loads)
            totals = self._totals(connection)
        asked = [row for load in loads for row in rows.get((load.account.tag, load.external_id), [])]
        found = [*threads.map(self._read, asked)]
        for read in (self._read_total, self._read_page):
            found += threads.map(read, self._accounts.values(), [totals] * len(self._accounts))
        self.made += len(loads)
        return [complaint for complaint in found if complaint]

    def settle(self, loads: Iterable[Load]) -> None:
        """The model becomes certain of what the tables hold."""
        loads = list(loads)
        with self.connect() as connection:
            rows = self._rows(connection, loads)
        for load in loads:
            own = rows.get((load.account.tag, load.external_id), [])
            newest = self._newest(own)
            state = Possible(mark_of(newest), newest.status != "canceled") if newest else Possible(None, False)
            ids = [shown_id("rte", row.id) for row in own]
            load.settle(state, ids, {shown_id("rte", row.id) for row in own if row.status == "canceled"})
            if load.is_mapped is None and newest is not None and newest.status == "draft":
                load.is_mapped = True
        self._settle_journeys(rows)

    def _settle_journeys(self, rows: dict[tuple[str, str], list[Any]]) -> None:
        for journey in self._model.journeys:
            key = (journey.account.tag, journey.load.external_id if journey.load else "")
            newest = self._newest(rows.get(key, []))
            if newest is None:
                continue
            journey.status = newest.status
            journey.is_unsure = False
            if newest.status in ("completed", "canceled", "error"):
                journey.leg, journey.fixes = "none", []
            elif newest.status in ("planned", "active") and journey.leg != "at last":
                journey.leg = "at first"

    # --- The tables ----------------------------------------------------------------------------------------------

    def _from(self, connection: Connection, statements: dict[str, str]) -> Iterator[str]:
        for what, statement in statements.items():
            rows = named(connection).execute(f"{statement} LIMIT 5", self._patience).fetchall()
            if rows:
                yield f"{what}: {'; '.join(str(row.about) for row in rows)}"

    def _rows(self, connection: Connection, loads: Sequence[Load]) -> dict[tuple[str, str], list[Any]]:
        asked = [[load.account.company_id for load in loads], [str(load.account.environment) for load in loads]]
        by_load: dict[tuple[str, str], list[Any]] = {}
        for row in named(connection).execute(_ROUTES, (*asked, [load.external_id for load in loads])).fetchall():
            account = self._accounts[row.company_id, row.environment]
            by_load.setdefault((account.tag, row.external_id), []).append(row)
        return by_load

    def _totals(self, connection: Connection) -> dict[tuple[Any, str], int]:
        rows = connection.execute("SELECT company_id, environment, count(*) FROM routes GROUP BY 1, 2").fetchall()
        return {(company_id, environment): count for company_id, environment, count in rows}

    @staticmethod
    def _newest(rows: list[Any]) -> Any:
        """The open route, else the newest one."""
        return next((row for row in rows if row.status != "canceled"), rows[-1] if rows else None)

    def _about(self, load: Load, rows: list[Any], lately_frozen: bool) -> Iterator[str]:
        label = f"{load.account.tag} {load.external_id}"
        by_id = {shown_id("rte", row.id): row for row in rows}
        for lost in set(load.ids) - set(by_id):
            yield f"{label}: the route {lost} was answered 2xx and is lost"
        for route_id in load.canceled & set(by_id):
            if by_id[route_id].status != "canceled":
                yield f"{label}: the route {route_id} was canceled and is {by_id[route_id].status}"
        if len(set(by_id) - set(load.ids)) > load.doubts:
            yield f"{label}: {len(rows)} routes, of which only {load.ids} were made, with {load.doubts} in doubt"
        newest = self._newest(rows)
        state = Possible(mark_of(newest), newest.status != "canceled") if newest else Possible(None, False)
        if not load.allows(state, lately_frozen=lately_frozen):
            yield f"{label}: is {state} {newest and newest.closed_reason}, may be {sorted(map(str, load.possible))}"
        if newest is not None:
            yield from self._differences(label, newest)
            if state.is_open and newest.status not in self._expected(load, newest):
                yield f"{label}: the route {newest.id} is {newest.status}, not {self._expected(load, newest)}"

    def _differences(self, label: str, row: Any) -> Iterator[str]:
        """The stored input against the body that was pushed under its mark."""
        one = self._model.inputs.get(mark_of(row))
        if one is None:
            yield f"{label}: holds an input that nobody pushed: {row.stops}"
            return
        pushed = one.body
        stored = (row.reference, row.scheduled_start, row.vehicle_unit_number, [stop["name"] for stop in row.stops])
        wanted = (
            pushed["reference"],
            one.start,
            pushed["vehicle"]["unitNumber"],
            [stop["name"] for stop in pushed["stops"]],
        )
        if stored != wanted:
            yield f"{label}: stored {stored}, pushed {wanted}"

    def _expected(self, load: Load, row: Any) -> set[str]:
        kind = self._model.inputs[mark_of(row)].kind
        if kind == "journey":
            return self._expected_of(load, row)
        if kind == "unmapped" and load.is_mapped is not False:
            return {"draft", "pending_mapping"}  # until the import pass, when the job was lost: `_STUCK` tells
        return {_HELD[kind]}

    def _expected_of(self, load: Load, row: Any) -> set[str]:
        journey = next((one for one in self._model.journeys if one.load is load), None)
        if journey is None:  # its truck drives another load by now
            return {"completed"}
        if journey.fixes or journey.is_unsure:
            return {"draft", "planned", "active", "completed"}
        if journey.leg in ("at last", "none"):
            return {"completed"}
        if journey.leg == "at first":
            started = {"active", "planned"} if self._waits_lawfully(journey, row) else {"active"}
            # a dispatcher may say so while the truck's positions, which may be later, are at the last stop
            return started | ({"completed"} if journey.place == journey.stops[1].get("name") else set())
        stands_there = journey.place == journey.stops[0].get("name")
        return {"draft", "planned", "active"} if stands_there else {"draft"}

    @staticmethod
    def _waits_lawfully(journey: Journey, row: Any) -> bool:
        """A message to a gateway that failed is tried again after a pause."""
        return journey.account.has_gateway and row.retry_at is not None and row.retry_at > datetime.now(UTC) - SLACK

    # --- The API -------------------------------------------------------------------------------------------------

    def _read(self, row: Any) -> str | None:
        account = self._accounts[row.company_id, row.environment]
        route_id = shown_id("rte", row.id)
        status, route = self._clients.ask_patiently(account, "GET", f"/v1/routes/{route_id}")
        label = f"{account.tag} {row.external_id}"
        if status != 200:
            return f"{label}: reading {route_id} is answered {status} {route}"
        told = (route["externalId"], route["status"], route["reference"], route["stops"][0]["name"])
        wanted = (row.external_id, row.status, row.reference, row.stops[0]["name"])
        if told != wanted and not (row.retry_at is not None and route["status"] == "active"):
            return f"{label}: the API tells {told}, the table {wanted}"
        return None

    def _read_total(self, account: Account, totals: dict[tuple[Any, str], int]) -> str | None:
        status, found = self._clients.ask_patiently(account, "GET", "/v1/routes?limit=1")
        total = totals.get((account.company_id, str(account.environment)), 0)
        if status != 200 or found["total"] != total:
            return f"{account.tag}: the list is answered {status} with total {found and found['total']}, not {total}"
        return None

    def _read_page(self, account: Account, totals: dict[tuple[Any, str], int]) -> str | None:
        page = self._clients.look(account.company_id, f"/routes?environment={account.environment}")
        told = _TOTAL.search(page)
        total = totals.get((account.company_id, str(account.environment)), 0)
        if told is None or int(told[1].replace(",", "")) != total:
            return f"{account.tag}: the console tells {told and told[1]} routes, the table has {total}"
        return None


def ask_doctor(settings: Settings) -> list[str]:
    """The problems that `fuelroute doctor` finds: its invariants of the data were written without this model."""
    results = examine(settings, seconds=60, now=datetime.now(UTC))
    problems = [finding for result in results for finding in result.findings if finding.is_problem]
    return [f"the doctor: {found.what}. {found.what_to_do}. {', '.join(found.examples)}" for found in problems]


_TOTAL = re.compile(r'<p class="faint">([\d,]+) routes?')

SLACK = timedelta(seconds=15)
"""A retry may begin so long after its time: the sweep runs now and then, and a claim holds for a while."""


def mark_of(row: Any) -> str:
    return str(row.stops[0]["name"].rpartition(" ")[2])
