"""Operators see the running service, and its workers obey a pause."""

from datetime import UTC, datetime, timedelta

from domain.audit.entries import Actor
from domain.operations import pauses
from domain.operations.alerts import Measured, find_alerts
from domain.operations.measurements import measure
from domain.queue.jobs import QUEUES
from domain.queue.redis_clients import redis_client
from tests.factories import route_body
from tests.service import Client, Service, eventually

ANN = Actor("ann@example.com", "the fleet is being corrected")


def measured(service: Service) -> Measured:
    with (
        service.database.transaction() as connection,
        redis_client(service.settings.require_redis_url()) as client,
    ):
        return measure(connection, client, now=datetime.now(UTC))._replace(overdue={})


def await_heartbeats(service: Service) -> None:
    """Returns once each worker has told of itself again."""
    after = datetime.now(UTC)
    eventually(lambda: measured(service).workers, lambda found: all(one.beat_at > after for one in found))


def test_a_running_service_has_no_alert(service: Service) -> None:
    passes = {"import pass", "sweep", "autodrive", "notices", "operator notices", "read status", "housekeeping"}
    passes |= {"driven roads", "price sources", "burn", "fuel stops", "detention", "habits", "statements", "filings"}
    seen = eventually(lambda: measured(service), lambda seen: {one.name for one in seen.passes} == passes)

    assert eventually(lambda: find_alerts(measured(service), now=datetime.now(UTC)), lambda alerts: not alerts) == []
    assert {queue for worker in seen.workers for queue in worker.queues} == set(QUEUES)
    eventually(lambda: measured(service).passes, lambda passes: not any(one.failed for one in passes))
    later = eventually(lambda: measured(service), lambda later: later.workers[0].beat_at > seen.workers[0].beat_at)
    assert later.workers[0].started_at == seen.workers[0].started_at


def test_pushes_during_a_pause_of_imports_wait_and_are_imported_after_it(client: Client) -> None:
    service = client.service
    with service.database.transaction() as connection:
        pauses.pause(connection, "imports", ANN, now=datetime.now(UTC))
    try:
        found = eventually(lambda: measured(service), lambda seen: bool(seen.pauses))
        assert "imports is paused by ann@example.com: the fleet is being corrected" in {
            need.what for need in find_alerts(found, now=datetime.now(UTC))
        }
        for _ in range(2):  # each worker has read the pauses between two heartbeats
            await_heartbeats(service)
        pushed = client.push(route_body(datetime.now(UTC) + timedelta(hours=1)))
        assert (pushed.status_code, pushed.json()["status"]) == (202, "pending")
    finally:
        with service.database.transaction() as connection:
            pauses.resume(connection, "imports", ANN)
    client.wait_for(pushed.json()["id"], "draft")
