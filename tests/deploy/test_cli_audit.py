"""Commands keep the same entries in the audit log as the console, under the name of the person at the terminal."""

from datetime import datetime

import pytest

from deploy.cli.arguments import acting
from domain.audit.entries import search_actions
from domain.database.connections import Database
from domain.ids import shown_id
from tests.deploy.commands import Cli
from tests.domain.helpers import imported
from tests.factories import Fleet

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


def entries(database: Database, fleet: Fleet) -> list[tuple[str, str, str]]:
    """Action, subject and reason of what was done at this terminal, oldest first."""
    with database.transaction() as connection:
        found = search_actions(connection, fleet.company_id, acting().name, limit=20)
    return [(one.action, one.subject, one.reason) for one in reversed(found)]


def test_a_canceled_route_is_in_the_audit_log(cli: Cli, fleet: Fleet, database: Database, now: datetime) -> None:
    with database.transaction() as connection:
        route = shown_id("rte", imported(connection, fleet.live, now=now))

    assert "say why" in cli("routes", "cancel", route, "--reason", " ").sentence
    cli("routes", "cancel", route, "--reason", "the load is gone")

    assert entries(database, fleet) == [("route_actions.cancel", route, "the load is gone")]


def test_changes_of_a_fleet_are_in_the_audit_log(cli: Cli, fleet: Fleet, database: Database) -> None:
    company, truck, driver = ("--company", fleet.shown_company_id), fleet.shown_trucks[0], fleet.shown_drivers[0]

    cli("mappings", "add", *company, "--kind", "unit_number", "--value", "TRUCK-9", "--to", truck)
    cli("vehicles", "retire", *company, truck)
    cli("drivers", "retire", *company, driver)

    assert entries(database, fleet) == [
        ("matching.map_reference", f"unit number TRUCK-9 is {truck}", ""),
        ("retire", f"vehicle {truck}", "by hand"),
        ("retire", f"driver {driver}", "by hand"),
    ]


def test_keys_the_policy_and_the_end_of_a_company_are_in_the_audit_log(
    cli: Cli, fleet: Fleet, database: Database
) -> None:
    company = fleet.shown_company_id
    form = ("--name", "TMS", "--environment", "live", "--scope", "routes:read", "--json")

    key = cli("keys", "create", "--company", company, *form).document["id"]
    cli("keys", "revoke", key)
    cli("companies", "set", company, "--stop-cost", "25", "--superseding")
    cli("companies", "set", company)
    cli("companies", "retire", company)

    assert entries(database, fleet) == [
        ("keys.create", f"{key} TMS", ""),
        ("keys.revoke", key, ""),
        ("change", "policy", "A newer load with the same reference, Cost of a stop, dollars"),
        ("companies.retire", company, ""),
    ], "a command that changes nothing leaves no entry"
