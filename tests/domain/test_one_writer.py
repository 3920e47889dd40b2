"""Each table is written by the folder of its subject only; housekeeping alone deletes across subjects, and a move
writes the rows that replication does not carry."""

import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from sqlmodel import SQLModel

import domain.tables  # noqa: F401 (fills the metadata)
from domain.database.statements import Statement
from tests.domain.database.test_statements import MODULES
from tests.domain.test_import_order import folder

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
    "price_sources": "stations",
    "price_runs": "stations",
    "file_profiles": "files",
    "driven_lanes": "driven_lanes",
    "driven_roads": "driven_lanes",
    "plans": "planning",
    "positions": "telematics",
    "tracks": "telematics",
    "dropped_fixes": "telematics",
    "connectors": "connectors",
    "connector_vehicles": "connectors",
    "messages": "messages",
    "savings": "savings",
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
    "sandbox_drives": "sandbox",
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
WRITES = re.compile(r"\b(?:INSERT INTO|(?<!DO )(?<!KEY )(?<!FOR )UPDATE|DELETE FROM)\s+(\w+)")


def statements_of(value: Any) -> Iterator[Statement[Any]]:
    """Also those in lists, tuples and dictionaries."""
    if isinstance(value, Statement):
        yield value
    elif isinstance(value, dict):
        yield from statements_of(list(value.values()))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from statements_of(one)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_module_writes_tables_of_its_own_subject_only(module: ModuleType) -> None:
    place = folder(module.__name__) if module.__name__.startswith("domain.") else module.__name__
    written = {
        table
        for value in vars(module).values()
        for statement in statements_of(value)
        for table in WRITES.findall(statement.text)
        if table in OWNERS
    }
    others = {table for table in written if OWNERS[table] != place}
    assert others == set() or place in ("housekeeping", "moving")


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
