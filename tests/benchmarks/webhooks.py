"""Webhooks: how many deliveries one worker process makes a second, and how long an idle stack takes from the commit to
the endpoint."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import uvloop

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import IN_CLEAR
from domain.database.connections import Tenant
from domain.encoding import write
from domain.ids import new_id
from domain.lifecycle import Environment, PendingReason, RouteStatus
from domain.queue.job_queue import JobQueue
from domain.queue.jobs import deliver_webhooks_job
from domain.webhooks.deliveries import DeliveryClaim
from domain.webhooks.endpoints import EndpointChanges, NewSecret, add_endpoint
from domain.webhooks.sending import Sender
from tests.benchmarks.harness import Bench, Figure, Stack, busiest
from tests.benchmarks.load import LoadFailed
from tests.benchmarks.loader import Fleet, Lot, load_fleet, load_routes
from tests.factories import DOT, route_body
from tests.service import Client, Service
from tests.webhook_receiver import running_receiver

COMPANIES = 8
EVENTS = 8_000
PER_SECOND = 500
IDLE_MS = 100
PUSHES = 100
_ALLOWED = "127.0.0.0/8"
_AT_A_TIME = 32
_PATIENCE_SECONDS = 300


class _Run(NamedTuple):
    rate: float
    note: str = ""


def run(bench: Bench) -> list[Figure]:
    with bench.stack("webhooks") as stack:
        with stack.database.transaction() as connection:
            fleets = [load_fleet(connection, 10) for _ in range(COMPANIES)]
        host, port = stack.start_constant()
        url = f"http://{host}:{port}/"
        made = [_add_endpoint(stack, fleet, url) for fleet in fleets]
        stack.start("workers", "--queues", "webhooks", WEBHOOK_ALLOWED_HOSTS=_ALLOWED)
        results = bench.alternate(
            "webhooks",
            {"bare": lambda: _post_bare(stack, url, made[0]), "deliveries": lambda: _deliver(stack, fleets, made)},
        )
        with bench.task("webhooks: an idle stack"):
            milliseconds = _idle_milliseconds(stack)
    bare, deliveries = results.values()
    note = deliveries[-1].note
    return [
        Figure("webhooks: a bare loop that signs and posts", "/s", [one.rate for one in bare], note=bare[-1].note),
        Figure(
            f"webhooks: deliveries of one worker process to {COMPANIES} endpoints",
            "/s",
            [one.rate for one in deliveries],
            at_least=PER_SECOND,
            note=note,
        ),
        Figure(
            "webhooks: idle, from commit to endpoint, p50",
            "ms",
            [milliseconds[len(milliseconds) // 2]],
            at_most=IDLE_MS,
        ),
        Figure("webhooks: idle, from commit to endpoint, p95", "ms", [milliseconds[len(milliseconds) * 95 // 100]]),
    ]


def _add_endpoint(stack: Stack, fleet: Fleet, url: str) -> NewSecret:
    with stack.database.transaction() as connection:
        return add_endpoint(
            connection,
            Tenant(fleet.company_id, Environment.LIVE),
            EndpointChanges(url=url),
            DOT,
            allowed=AllowedHosts.read(_ALLOWED),
            contacts=IN_CLEAR,
        )


def _deliver(stack: Stack, fleets: list[Fleet], made: list[NewSecret]) -> _Run:
    """Routes of all companies become drafts at once. The time is the database's, from the first attempt to the last
    end."""
    stack.execute("TRUNCATE routes CASCADE")
    stack.execute("TRUNCATE webhook_events CASCADE")
    start = datetime.now(UTC) + timedelta(hours=12)
    ends = (start, start + timedelta(days=5))
    each = EVENTS // COMPANIES
    lots = [
        Lot(fleet, each, RouteStatus.PENDING, ends, reason=PendingReason.NOT_ATTEMPTED, retry_at=start)
        for fleet in fleets
    ]
    load_routes(stack.database, lots)
    stack.execute("UPDATE routes SET status = 'draft'")
    stack.execute("ANALYZE webhook_deliveries")
    JobQueue.of(stack.settings).put(*(deliver_webhooks_job(one.endpoint.id, one.endpoint.company_id) for one in made))
    with stack.watched() as shares:
        stack.wait_until(
            "SELECT NOT EXISTS (SELECT FROM webhook_deliveries WHERE status = 'pending')", seconds=_PATIENCE_SECONDS
        )
    (row,) = stack.query(
        "SELECT count(*) FILTER (WHERE status = 'delivered') AS delivered, max(attempts) AS attempts,"
        " extract(epoch FROM max(ended_at) - (SELECT min(at) FROM webhook_attempts))::float8 AS seconds"
        " FROM webhook_deliveries"
    )
    if (row.delivered, row.attempts) != (EVENTS, 1):
        raise LoadFailed(f"of {EVENTS:,} events {row.delivered:,} were delivered, in up to {row.attempts} attempts")
    return _Run(row.delivered / row.seconds, f"{busiest(shares)}; {row.seconds:.1f} s")


def _post_bare(stack: Stack, url: str, made: NewSecret) -> _Run:
    """Measure the client alone: it posts signed bodies to the receiver, and keeps nothing."""
    body = write(route_body(datetime.now(UTC))).decode() * 3  # about as long as a route
    now = datetime.now(UTC)
    claimed = DeliveryClaim(1, 1, new_id(), None, "route.imported", body, 0, now, url, until=now)

    async def post() -> float:
        sender = Sender(allowed=AllowedHosts.read(_ALLOWED), timeout_seconds=10)
        left = iter(range(EVENTS // 2))

        async def line() -> None:
            for _ in left:
                outcome = await sender.send(url, [made.secret], claimed)
                if outcome.error is not None:
                    raise LoadFailed(outcome.error)

        started = time.perf_counter()
        await asyncio.gather(*(line() for _ in range(_AT_A_TIME)))
        seconds = time.perf_counter() - started
        await sender.close()
        return EVENTS // 2 / seconds

    with stack.watched() as shares, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rate = runner.run(post())
    return _Run(rate, busiest(shares))


def _idle_milliseconds(stack: Stack) -> list[float]:
    """One push at a time: from the moment that the event was captured, just before its commit, to the request."""
    stack.execute("UPDATE webhook_endpoints SET disabled_at = now()")
    address = stack.start_ingress()
    stack.start("workers", "--queues", "imports")
    with Service(f"http://{address[0]}:{address[1]}", stack.database, stack.settings).new_tenant() as client:
        return sorted(_push_and_wait(stack, client))


def _push_and_wait(stack: Stack, client: Client) -> list[float]:
    milliseconds = []
    with running_receiver() as receiver:
        _add_endpoint_of(stack, client, receiver.url)
        for number in range(PUSHES):
            client.push(route_body(datetime.now(UTC) + timedelta(hours=1)))
            received = receiver.wait_for(number + 1, seconds=30)[number]
            arrived = datetime.now(UTC) - timedelta(seconds=time.monotonic() - received.at)
            happened = datetime.fromisoformat(received.document["timestamp"])
            milliseconds.append((arrived - happened).total_seconds() * 1000)
    return milliseconds


def _add_endpoint_of(stack: Stack, client: Client, url: str) -> None:
    with stack.database.transaction() as connection:
        add_endpoint(
            connection,
            client.fleet.live,
            EndpointChanges(url=url),
            DOT,
            allowed=AllowedHosts.read(_ALLOWED),
            contacts=IN_CLEAR,
        )
