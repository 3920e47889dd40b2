"""The world of one scenario: the service of its lane, a company with its TMS and trucks, people, and the end that each
scenario must have."""

import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import httpx
from redis import Redis

from domain.audit.entries import AuditRow, search_actions
from domain.lifecycle import Environment, Role
from domain.messages.due_messages import list_messages
from domain.operations.import_records import latest_imports
from domain.queue.jobs import QUEUES
from domain.queue.redis_clients import redis_client
from domain.queue.redis_layout import dead_letters_key, messages_key
from domain.routes.reading import counts
from tests.factories import JOLIET, NEWARK, PERRYSBURG, route_body, signed_in
from tests.faults.points import Point, When
from tests.faults.processes import Processes
from tests.gateway import Gateway, running_gateway
from tests.ingress.console.conftest import Browser
from tests.rows import named, stored_id
from tests.service import Client, Service, eventually
from tests.webhook_receiver import Receiver, running_receiver

SECONDS = 60
"""The longest time from the death of a process to the end that the route must have."""

KILLED = -signal.SIGKILL


class World:
    """The service of one lane, and a company of its own for one scenario."""

    def __init__(self, service: Service, processes: Processes, point: Point, when: When) -> None:
        self.service, self.processes, self.point, self.when = service, processes, point, when
        self.open = ExitStack()
        self._deaths_before = len(processes.deaths)
        self._messages_sent: list[tuple[Tms, str, int]] = []

    # What a scenario arranges

    def tms(
        self, environment: Environment = Environment.LIVE, *, gateway: Gateway | None = None, **policy: Any
    ) -> "Tms":
        """A company, whose drivers are told through the gateway, or else through the outbox."""
        tms = Tms(self.open.enter_context(self.service.new_tenant(environment, **policy)))
        if gateway is not None:
            with self.service.database.transaction() as connection:
                connection.execute("UPDATE companies SET message_url = %s WHERE id = %s", (gateway.url, tms.company_id))
        return tms

    def gateway(self) -> Gateway:
        return self.open.enter_context(running_gateway())

    def receiver(self) -> Receiver:
        """An endpoint of webhooks."""
        return self.open.enter_context(running_receiver())

    def browser(self, tms: "Tms") -> Browser:
        """The browser of one of the company's dispatchers, in the console."""
        self.processes.start("console")
        with self.service.database.transaction() as connection:
            token = signed_in(connection, Role.OWNER, tms.company_id)
        url = f"http://127.0.0.1:{self.processes.ports['console']}"
        return self.open.enter_context(Browser(url, cookies={"fuelroute": token}))

    # The fault

    def strike(self) -> None:
        """From here on, the first process that reaches the fault point dies there."""
        self.processes.arm(self.point, self.when)

    def await_strike(self) -> None:
        self.processes.wait_for_the_strike()

    def submit(self, browser: Browser, route_id: str, action: str, **fields: Any) -> None:
        """Sends a form of a route's page, and sends it again when there is no answer."""
        path = f"/routes/{route_id}"
        insist(lambda: browser.get(path))
        browser.look(path)
        answer = insist(lambda: browser.submit(f"{path}/{action}", reason="The driver called", **fields))
        assert answer.status_code == 303, answer.text

    def command(self, *arguments: str) -> None:
        """Gives a command of the operator, and gives it again when it died."""
        status = self.processes.command(*arguments)
        if status == KILLED:
            status = self.processes.command(*arguments)
        assert status == 0, f"{arguments} ended with status {status}"

    # What holds in the end

    def expect_messages(self, tms: "Tms", route_id: str, sent: int) -> list[Any]:
        """The messages of a route that its driver got, once there are so many; the others were discarded."""
        self._messages_sent.append((tms, route_id, sent))
        return eventually(
            lambda: tms.sent(route_id), lambda messages: len(messages) == sent, SECONDS, f"{sent} sent messages"
        )

    def prove_nothing_is_left(self) -> None:
        """No work is due, no job waits or is held, no message was sent since, no count is wrong, and no process died
        beside the one."""
        with redis_client(self.service.settings.require_redis_url()) as client:
            eventually(lambda: self._left(client), lambda left: not left, SECONDS, "nothing to be left")
        assert [len(tms.sent(route_id)) for tms, route_id, _ in self._messages_sent] == [
            sent for _, _, sent in self._messages_sent
        ]
        with self.service.database.transaction() as connection:
            assert counts.reconcile(connection) == []
        died = eventually(lambda: self.processes.deaths[self._deaths_before :], bool, SECONDS, "a death")
        assert [status for _, status in died] == [KILLED], died

    def _left(self, client: Redis) -> dict[str, int]:
        with self.service.database.transaction() as connection:
            rows = named(connection).execute(_LEFT).fetchall()
        left = {row.what: row.number for row in rows}
        for queue in QUEUES:
            left[f"jobs of {queue}"] = client.hlen(messages_key(queue))
            left[f"dead letters of {queue}"] = client.zcard(dead_letters_key(queue))
        return {what: number for what, number in left.items() if number}


_LEFT = """
    SELECT 'pending routes' AS what, count(*) AS number FROM routes WHERE status = 'pending'
    UNION ALL SELECT 'routes without their plan', count(*) FROM routes WHERE status = 'draft' AND arrived_at IS NOT NULL
    UNION ALL SELECT 'reviews', count(*) FROM routes WHERE review_at IS NOT NULL
    UNION ALL SELECT 'replans', count(*) FROM routes WHERE replan IS NOT NULL
    UNION ALL SELECT 'menus', count(*) FROM plans WHERE menu_due_at IS NOT NULL
    UNION ALL SELECT 'corrections', count(*) FROM routes WHERE correction_id IS NOT NULL
    UNION ALL SELECT 'trucks', count(*) FROM tracks WHERE unprocessed_from IS NOT NULL
    UNION ALL SELECT 'messages', count(*) FROM messages WHERE status = 'pending'
    UNION ALL SELECT 'webhooks', count(*) FROM webhook_deliveries WHERE status = 'pending'
    UNION ALL SELECT 'planned routes', count(*) FROM routes WHERE status = 'planned'
    UNION ALL SELECT 'routes with one externalId', count(*) - count(DISTINCT (company_id, environment, external_id))
              FROM routes WHERE status <> 'canceled'
    UNION ALL SELECT 'plans sent twice', count(*) - count(DISTINCT plan_id) FROM messages
              WHERE status IN ('sent', 'suppressed')
"""


def insist(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer. What is not answered, or answered with a fault of the service, is asked again."""

    def answer() -> httpx.Response | None:
        with suppress(httpx.TransportError):
            return ask()
        return None

    answered = eventually(answer, lambda one: one is not None and one.status_code < 429, SECONDS, "an answer")
    assert answered is not None
    return answered


class Tms:
    """One company's TMS and trucks. What is not answered is asked again."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.company_id = client.fleet.company_id
        self.shown_company_id = client.fleet.shown_company_id

    def push(self, body: dict[str, Any]) -> str:
        """The id of the route that the push leads to."""
        answer = insist(lambda: self.client.push(body))
        assert answer.status_code in (200, 201, 202), answer.text
        return str(answer.json()["id"])

    def draft(self, **changes: Any) -> tuple[str, dict[str, Any]]:
        """A route that waits for its truck, and its body."""
        body = route_body(datetime.now(UTC), **{"stops": [JOLIET, PERRYSBURG, NEWARK], **changes})
        route_id = self.push(body)
        self.wait_for(route_id, "draft")
        return route_id, body

    def stand_at(self, stop: dict[str, Any], *, at: datetime | None = None, **more: Any) -> None:
        """Fixes of truck 101 at a stop, which make an arrival."""
        moment = at or datetime.now(UTC)
        answer = insist(lambda: self.client.post_fixes(stop, at=moment, **{"fuelPercent": 60, **more}))
        assert answer.status_code == 202, answer.text

    def started(self, **changes: Any) -> tuple[str, dict[str, Any]]:
        """An active route whose truck is at its first stop."""
        route_id, _ = self.draft(**changes)
        self.stand_at(JOLIET)
        return route_id, self.wait_for(route_id, "active")

    def route(self, route_id: str) -> dict[str, Any]:
        answer = insist(lambda: self.client.get(f"/v1/routes/{route_id}"))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def wait_for(self, route_id: str, *statuses: str) -> dict[str, Any]:
        return eventually(
            lambda: self.route(route_id), lambda route: route["status"] in statuses, SECONDS, f"status {statuses}"
        )

    def found(self, external_id: str) -> list[Any]:
        answer = insist(lambda: self.client.get("/v1/routes", params={"externalId": external_id}))
        return list(answer.json()["data"])

    def statuses(self) -> list[str]:
        """The statuses of all routes, for a company whose key is not valid any more."""
        with self.client.service.database.transaction() as connection:
            rows = named(connection).execute("SELECT status FROM routes WHERE company_id = %s", (self.company_id,))
            return [row.status for row in rows]

    def messages(self, route_id: str) -> list[Any]:
        with self.client.service.database.transaction() as connection:
            return [one for one in list_messages(connection, self.company_id) if one.route_id == stored_id(route_id)]

    def sent(self, route_id: str) -> list[Any]:
        """The messages of a route that its driver got; in the sandbox, those that the driver would have got."""
        return [one for one in self.messages(route_id) if one.status in ("sent", "suppressed")]

    def newest_import_id(self) -> UUID:
        """The file of vehicles that the console took last."""
        with self.client.service.database.transaction() as connection:
            (newest,) = latest_imports(connection, self.company_id, "vehicles", limit=1)
        return newest.id

    def audited(self, action: str) -> list[AuditRow]:
        with self.client.service.database.transaction() as connection:
            found = search_actions(connection, self.company_id, limit=100)
        return [entry for entry in found if entry.action == action]


def mapping_command(tms: Tms, unit_number: str) -> tuple[str, ...]:
    """The command by which the unit number means truck 102."""
    truck = tms.client.fleet.shown_trucks[1]
    return (
        "mappings",
        "add",
        "--company",
        tms.shown_company_id,
        "--kind",
        "unit_number",
        "--value",
        unit_number,
        "--to",
        truck,
    )
