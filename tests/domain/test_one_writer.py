"""Each table is written by the folder of its subject only; housekeeping alone deletes across subjects, a move writes
the rows that replication does not carry, and the demo sets the times back that the database took from its clock. Every
folder above may read a table, a folder below only one that `READERS_BELOW` names."""

import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from sqlmodel import SQLModel

import domain.tables  # noqa: F401 (fills the metadata)
from domain.accounts.contacts import SealedColumn
from domain.database.listing import Listing
from domain.database.owned import Owned
from domain.database.statements import Statement
from domain.fleet.records import FleetTable
from tests.domain.database.test_statements import MODULES
from tests.domain.test_import_order import ORDER, folder

OWNERS = {
    "companies": "accounts",
    "api_keys": "accounts",
    "users": "accounts",
    "sessions": "accounts",
    "devices": "accounts",
    "openid_proofs": "accounts",
    "password_links": "accounts",
    "recovery_codes": "accounts",
    "table_columns": "accounts",
    "saved_filters": "accounts",
    "sign_in_attempts": "accounts",
    "vehicles": "fleet",
    "drivers": "fleet",
    "mappings": "fleet",
    "former_names": "fleet",
    "spelling_rules": "fleet",
    "former_units": "fleet",
    "stations": "stations",
    "deals": "stations",
    "fuel_taxes": "stations",
    "price_sets": "stations",
    "quotes": "stations",
    "coming_prices": "stations",
    "station_codes": "stations",
    "held_prices": "stations",
    "station_closures": "stations",
    "price_sources": "stations",
    "price_runs": "stations",
    "file_profiles": "files",
    "driven_lanes": "driven_lanes",
    "driven_roads": "driven_lanes",
    "trip_burns": "burn",
    "learned_burns": "burn",
    "plans": "planning",
    "plan_choices": "routes",
    "positions": "telematics",
    "tracks": "telematics",
    "dropped_fixes": "telematics",
    "connectors": "connectors",
    "connector_vehicles": "connectors",
    "messages": "messages",
    "driver_links": "messages",
    "ifta_filings": "ifta",
    "savings": "savings",
    "habit_costs": "savings",
    "savings_statements": "savings",
    "statement_trips": "savings",
    "fills": "fills",
    "fill_tellings": "fills",
    "card_assignments": "fills",
    "stop_verdicts": "fills",
    "routes": "routes",
    "route_counts": "routes",
    "route_count_deltas": "routes",
    "change_marks": "routes",
    "last_writes": "routes",
    "visits": "routes",
    "route_events": "routes",
    "driver_answers": "driver_page",
    "trip_inputs": "replay",
    "replays": "replay",
    "replay_portions": "replay",
    "told_stops": "compliance",
    "dwells": "detention",
    "signing_keys": "signing",
    "sandbox_drives": "sandbox",
    "demo_fleets": "sandbox",
    "webhook_endpoints": "webhooks",
    "webhook_events": "webhooks",
    "webhook_deliveries": "webhooks",
    "webhook_attempts": "webhooks",
    "notice_subscriptions": "notices",
    "notices": "notices",
    "request_log": "requests",
    "queue_pauses": "operations",
    "audit_log": "audit",
    "csv_imports": "operations",
    "erasures": "housekeeping",
    "backfills": "shared",
    "restores": "operations",
    "company_moves": "shared",
}
READERS_BELOW = {
    ("plan_choices", "savings"): "what the choices of a route cost more than the cheapest plans",
    ("api_keys", "shared"): "a pause of a company notes its keys in the same statement",
    ("routes", "driven_lanes"): "the route on which a road was driven",
    ("visits", "driven_lanes"): "the time of driving is that between two visits",
    ("positions", "driven_lanes"): "the road that a truck took",
    ("routes", "burn"): "the miles of the road of a completed trip",
    ("plans", "burn"): "plans that are made on the way have only the rest of the road; the first one has all of it",
    ("visits", "burn"): "a trip begins when the truck leaves its first stop",
    ("positions", "burn"): "the fuel levels of a completed trip",
    ("fills", "burn"): "gallons of fuel cards are exact",
    ("routes", "planning"): "a plan is computed for a route, as it is at that moment",
    ("visits", "planning"): "a plan begins at the last stop that the truck has visited",
    ("positions", "planning"): "the place and the fuel level with which a plan begins",
    ("tracks", "planning"): "the newest fix of the truck tells where its plan begins",
    ("driver_answers", "planning"): "plans of a route leave out the stations that its driver refused",
    ("driver_answers", "routes"): "a refused stop ahead is a reason for a new plan; the answers stand in the history",
    ("routes", "telematics"): "open routes tell which fixes matter; the feed finds them in one statement",
    ("visits", "telematics"): "a fix after the last departure may move a route",
    ("routes", "messages"): "a message goes out only while its route wants it",
    ("restores", "messages"): "a message is withheld when the database is older than the driver's last message",
    ("routes", "savings"): "savings are counted by the truck, the driver and the status of a route",
    ("fills", "savings"): "a truck's own habit is told from what it bought in the quarter before",
    ("routes", "fills"): "a purchase belongs to the route that its truck was on",
    ("ifta_filings", "needs"): "a filed quarter that has changed since needs a person",
    ("erasures", "requests"): "entries that are written after their company was erased are removed",
}
"""Tables that a folder below their owner's reads, with the reason. Two statements would not see one moment."""
WRITES = re.compile(r"\b(?:INSERT INTO|(?<!DO )(?<!KEY )(?<!FOR )UPDATE|DELETE FROM)\s+(\w+)")


READS = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")


def statements_of(value: Any) -> Iterator[Statement[Any]]:
    """The statements in a value, also inside of lists, tuples, dictionaries, and makers of a table's statements."""
    if isinstance(value, Statement):
        yield value
    elif isinstance(value, dict):
        yield from statements_of(list(value.values()))
    elif isinstance(value, FleetTable | Listing | Owned | SealedColumn):
        yield from statements_of(vars(value))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from statements_of(one)


def tables_in(module: ModuleType, pattern: re.Pattern[str]) -> set[str]:
    """The tables that the pattern finds in the statements of a module."""
    statements = (statement for value in vars(module).values() for statement in statements_of(value))
    return {table for statement in statements for table in pattern.findall(statement.text) if table in OWNERS}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_module_writes_tables_of_its_own_subject_only(module: ModuleType) -> None:
    place = folder(module.__name__) if module.__name__.startswith("domain.") else module.__name__
    others = {table for table in tables_in(module, WRITES) if OWNERS[table] != place}
    assert others == set() or place in ("housekeeping", "moving", "deploy.demo.past")


def test_only_the_allowed_tables_are_read_from_below() -> None:
    read = {
        (table, folder(module.__name__)): module.__name__
        for module in MODULES
        if module.__name__.startswith("domain.")
        for table in tables_in(module, READS)
        if ORDER.index(OWNERS[table]) > ORDER.index(folder(module.__name__))
    }
    new = "; ".join(
        f"{read[table, place]} reads {table}, and {OWNERS[table]} stands above {place}: move the statement up, have the"
        " caller pass what it needs, or allow it in READERS_BELOW with the reason"
        for table, place in sorted(read.keys() - READERS_BELOW.keys())
    )
    assert not new
    assert READERS_BELOW.keys() - read.keys() == set(), "nothing reads these from below any more: take them out"


def test_every_table_has_an_owner() -> None:
    assert {str(name) for name in SQLModel.metadata.tables} == set(OWNERS)


def test_only_an_erasure_deletes_vehicles_and_drivers() -> None:
    """Routes name them without a foreign key: an erasure has deleted the routes of the company before."""
    deleting = {
        module.__name__
        for module in MODULES
        for value in vars(module).values()
        for statement in statements_of(value)
        if re.search(r"\b(?:DELETE FROM|TRUNCATE)\s+(?:vehicles|drivers)\b", statement.text)
    }
    assert deleting == {"domain.housekeeping.erasure"}
