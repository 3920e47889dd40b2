"""After each job the endpoints of its companies get a hint, and only those."""

import time
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from domain.database.connections import Database
from domain.database.visibility import NOTHING
from domain.ids import new_id
from domain.queue.dramatiq_messages import COMPANIES, COMPANY
from domain.queue.job_queue import JobQueue
from domain.settings import Settings
from domain.webhooks.endpoints import disable_endpoint
from tests.domain.webhooks.endpoints import make_endpoint
from tests.factories import DOT, Fleet, make_fleet
from workers import webhook_hints
from workers.context import Context
from workers.webhook_hints import WebhookHints


@pytest.fixture
def hints(settings: Settings, jobs: JobQueue) -> Any:
    with Database.of(settings, visible=lambda: NOTHING) as database:
        yield WebhookHints(Context(settings, database, jobs))


def waiting(jobs: JobQueue) -> int:
    return jobs.length("webhooks").waiting


def ended(options: dict[str, Any] | None = None, queue: str = "imports") -> Any:
    return SimpleNamespace(queue_name=queue, options=options or {})


def after(hints: Any, message: Any, **more: Any) -> None:
    hints.after_process_message(None, message, **more)


@pytest.fixture
def fleets(database: Database) -> list[Fleet]:
    """Two companies, of which the first has an endpoint."""
    with database.transaction() as connection:
        found = [make_fleet(connection), make_fleet(connection)]
        make_endpoint(connection, found[0].live)
    return found


def test_a_job_of_a_company_with_an_endpoint_leaves_a_hint(
    hints: WebhookHints, jobs: JobQueue, fleets: list[Fleet]
) -> None:
    with_endpoint, without = (fleet.company_id.hex for fleet in fleets)

    for message in (
        ended({COMPANY: without}),
        ended({COMPANIES: [without]}),
        ended(),  # of an earlier release
        ended({COMPANY: with_endpoint}, "webhooks"),
        ended({COMPANY: new_id().hex}),
    ):
        after(hints, message)
    after(hints, ended({COMPANY: with_endpoint}), exception=ValueError())
    assert waiting(jobs) == 0

    after(hints, ended({COMPANIES: [without, with_endpoint]}))
    assert waiting(jobs) == 1


def test_a_new_endpoint_is_noticed_and_a_disabled_one_forgotten_soon(
    hints: WebhookHints,
    jobs: JobQueue,
    fleets: list[Fleet],
    database: Database,
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    company_id = fleets[1].company_id
    message = ended({COMPANY: company_id.hex})
    after(hints, message)
    with database.transaction() as connection:
        endpoint = make_endpoint(connection, fleets[1].live).endpoint
    after(hints, message)
    assert waiting(jobs) == 0

    moment = time.monotonic() + webhook_hints._REMEMBERED_SECONDS + 0.1
    monkeypatch.setattr("workers.webhook_hints.time", SimpleNamespace(monotonic=lambda: moment))
    after(hints, message)
    assert waiting(jobs) == 1

    jobs.client.flushdb()
    with database.transaction() as connection:
        disable_endpoint(connection, company_id, endpoint.id, DOT._replace(reason="moved"), now=now)
    moment += webhook_hints._REMEMBERED_SECONDS + 0.1
    after(hints, message)
    assert waiting(jobs) == 0


def test_a_database_that_is_away_costs_no_job(settings: Settings, jobs: JobQueue) -> None:
    with Database("postgresql://nobody@127.0.0.1:1/none", timeout_seconds=0.2) as nowhere:
        hints = WebhookHints(Context(settings, nowhere, jobs))
        after(hints, ended({COMPANY: new_id().hex}))
