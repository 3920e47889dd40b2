"""Checks that many contract tests share: problem documents, a route's row, and a status that a test sets directly."""

from typing import Any

import httpx

from domain.database.connections import as_json
from domain.ids import new_id
from tests.rows import named, stored_id
from tests.service import Client

PROBLEM_TYPE = "application/problem+json"
PROBLEM_FIELDS = {"type", "title", "status", "code", "detail"}


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document of an answer, after every check that each must pass (Errors, the table of fields)."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == PROBLEM_TYPE
    assert answer.headers["X-Request-Id"]
    document = answer.json()
    assert document.keys() == PROBLEM_FIELDS | ({"errors"} if code == "validation_error" else set())
    assert document["type"] == "about:blank"
    assert document["status"] == status
    assert document["code"] == code
    assert isinstance(document["title"], str)
    assert document["title"]
    assert isinstance(document["detail"], str)
    assert document["detail"]
    if code == "validation_error":
        assert document["errors"], "a validation error names what is invalid"
        for error in document["errors"]:
            assert error.keys() == {"field", "message"}
            assert isinstance(error["field"], str)
            assert isinstance(error["message"], str)
            assert error["message"]
    return dict(document)


def invalid_fields(answer: httpx.Response) -> list[str]:
    """The fields that a 400 names, each once."""
    fields = [error["field"] for error in problem(answer, 400, "validation_error")["errors"]]
    assert len(fields) == len(set(fields)), fields
    return sorted(fields)


def accepted(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The route that a push answered."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    return dict(answer.json())


def put_in_status(client: Client, route_id: str, status: str, *, plan: dict[str, Any] | None = None) -> None:
    """Sets a route's status, and its plan, where the way there is another test's business. What waits for its window
    starts a month later, or the service's next pass would import it.
    """
    held = status.startswith("pending")
    days_later = 30 if status == "pending_window" else 0
    with client.service.database.transaction() as connection:
        plan_id = None
        if plan is not None:
            plan_id = new_id()
            connection.execute(
                "INSERT INTO plans (id, company_id, environment, route_id, revision, generated_at, document, timeline,"
                " fuel_percent)"
                " SELECT %s, company_id, environment, id, 1, now(), %s, %s, 50 FROM routes WHERE id = %s",
                (plan_id, as_json(plan), as_json(_TIMELINE), stored_id(route_id)),
            )
        connection.execute(
            "UPDATE routes SET status = %s, pending_reason = %s, pending_detail = %s, retry_at = NULL, plan_id = %s,"
            " scheduled_start = scheduled_start + %s * interval '1 day', updated_at = clock_timestamp() WHERE id = %s",
            (
                status,
                "error" if held else None,
                "Set by a test" if held else None,
                plan_id,
                days_later,
                stored_id(route_id),
            ),
        )


_TIMELINE = [
    {"stop": 0, "mile": 0, "plannedArrival": "2026-11-20T11:00:00Z"},
    {"stop": 1, "mile": 812.4, "plannedArrival": "2026-11-21T04:00:00Z"},
]


def stored_route(client: Client, route_id: str) -> Any:
    """A route's row, for what the API does not show."""
    with client.service.database.transaction() as connection:
        row = named(connection).execute("SELECT * FROM routes WHERE id = %s", (stored_id(route_id),)).fetchone()
    assert row is not None
    return row


def count_routes(client: Client) -> int:
    """The number of routes of the client's company, in any environment and status."""
    with client.service.database.transaction() as connection:
        row = (
            named(connection)
            .execute("SELECT count(*) AS total FROM routes WHERE company_id = %s", (client.fleet.company_id,))
            .fetchone()
        )
    assert row is not None
    return int(row.total)
