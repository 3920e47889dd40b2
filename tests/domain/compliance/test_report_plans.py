"""The report of compliance examines the stops of its span alone, however many answers drivers gave before, also behind
the second wall."""

from typing import Any

import pytest

from domain.compliance.report import _LINES, _LIST, ComplianceBy
from domain.database.connections import Connection
from domain.database.statements import Statement
from domain.database.visibility import of_tenants
from tests.domain.database.test_statements import in_libpq_style
from tests.domain.helpers import go_behind_the_wall
from tests.factories import Fleet
from tests.rows import nodes


@pytest.fixture
def walled(connection: Connection, fleet: Fleet) -> Connection:
    go_behind_the_wall(connection, of_tenants([fleet.live]))
    return connection


def plan_of(connection: Connection, statement: Statement[Any]) -> dict[str, Any]:
    text = in_libpq_style(statement.text)
    ((explained,),) = connection.execute(f"EXPLAIN (GENERIC_PLAN, FORMAT JSON) {text}").fetchall()
    plan: dict[str, Any] = explained[0]["Plan"]
    return plan


def tables(plan: dict[str, Any]) -> set[str]:
    return {node["Relation Name"] for node in nodes(plan) if "Relation Name" in node}


@pytest.mark.parametrize("statement", [*_LINES.values(), _LIST], ids=[*_LINES, "list"])
def test_the_cost_of_a_refusal_is_worked_out_for_refused_stops_alone(
    walled: Connection, statement: Statement[Any]
) -> None:
    """Nothing below the condition runs for any other stop. Without nested loops PostgreSQL plans as it does for the
    answers of years: it would work out the cost of each, and join it."""
    walled.execute("SET LOCAL enable_nestloop = off")
    plan = plan_of(walled, statement)
    guards = [node for node in nodes(plan) if "'refused'" in node.get("One-Time Filter", "")]
    assert guards
    assert "plans" in tables(guards[0])


@pytest.mark.parametrize("statement", [*_LINES.values(), _LIST], ids=[*_LINES, "list"])
def test_only_the_report_by_choice_looks_for_choices(walled: Connection, statement: Statement[Any]) -> None:
    looks = "plan_choices" in tables(plan_of(walled, statement))
    assert looks is (statement is _LINES[ComplianceBy.CHOICE])


def test_a_page_of_stops_is_cut_before_their_outcomes_are_looked_up(walled: Connection) -> None:
    """Their costs are worked out after that, too."""
    limits = [tables(node) for node in nodes(plan_of(walled, _LIST)) if node["Node Type"] == "Limit"]
    assert any("told_stops" in below and not below & {"driver_answers", "stop_verdicts", "plans"} for below in limits)
