"""The statement that matches and imports, compared with the rule in Python: random fleets, on real PostgreSQL."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from domain.database.connections import Connection, as_array
from domain.database.options import BY_KEY, SERVING, pool_options
from domain.database.visibility import of_companies
from domain.fleet.matching import GivenReference, Matched, unclear_references, why_unclear
from domain.fleet.spelling_rules import checked_rule, store_spelling_rule
from domain.ids import new_id
from domain.routes.intake.imports import import_routes
from domain.routes.intake.route_matching import _ATTEMPT_ALL, _ATTEMPT_FREE
from tests.domain.helpers import go_behind_the_wall, pushed, route_row
from tests.factories import Fleet, make_fleet
from tests.repeatable import examples

VINS = ("1XKAD49X0CJ000001", "1XKAD49X0CJ000002")
NAMES = ("Ann Lee", "Bo Diaz")
SPELLED = ("12", "21", "11", "112", "T 1", "T 12", "1%", "T 3")
"""Unit numbers of which rules make a unit, or two: `12` is 2 with `1` before it, and 1 with `2` after it."""
SPELLING_RULES = (("T ", ""), ("1", ""), ("", "2"), ("", "%"), ("T", ""), ("1", "2"))


class Record(NamedTuple):
    """A vehicle with unit number and VIN, or a driver with external id and name."""

    unique: str | None
    shared: str | None
    retired: bool


def records(shared: Sequence[str]) -> st.SearchStrategy[list[Record]]:
    """In a fleet a unit number or external id is unique, a VIN or name is not."""
    record = st.builds(Record, st.sampled_from([None, "1", "2", "12"]), st.sampled_from([None, *shared]), st.booleans())
    return st.lists(record, max_size=4, unique_by=lambda one: one.unique or object())


def references(unique: str, shared: str, values: Sequence[str]) -> st.SearchStrategy[dict[str, str]]:
    """The references of a push: either, or both; `3` is always unknown."""
    either = {unique: st.sampled_from(["1", "2", "3", *SPELLED]), shared: st.sampled_from(values)}
    return st.fixed_dictionaries({}, optional=either).filter(bool)


class _Found(NamedTuple):
    """The record that all references lead to; without one, the sentence that says why."""

    id: UUID | None
    why_not: str | None


Meanings = dict[str, Callable[[str], list[UUID]]]
"""The records that a value can mean, by the kind of the reference."""

VEHICLE_REFERENCES = {"unitNumber": ("unit number", "unit_number"), "vin": ("VIN", "vin")}
DRIVER_REFERENCES = {"name": ("name", "driver_name"), "externalId": ("external id", "driver_external_id")}
"""The name of a pushed field in the hold reason, and the kind of its mappings."""


def _stored_fleet(
    connection: Connection,
    fleet: Fleet,
    now: datetime,
    vehicles: list[Record],
    drivers: list[Record],
    mapped: dict[tuple[str, str], int],
    rules: Collection[tuple[str, str]],
) -> Meanings:
    """Store these records, mappings and spelling rules in place of the company's fleet."""
    meanings: Meanings = {}
    for before, after in rules:
        store_spelling_rule(connection, fleet.company_id, checked_rule(before, after))
    for table, kinds, columns, stored in (
        ("vehicles", ("unit_number", "vin"), "unit_number, vin", vehicles),
        ("drivers", ("driver_external_id", "driver_name"), "external_id, name", drivers),
    ):
        connection.execute(f"DELETE FROM {table} WHERE company_id = %s", (fleet.company_id,))
        ids = [new_id() for _ in stored]
        for record_id, record in zip(ids, stored, strict=True):
            connection.execute(
                f"INSERT INTO {table} (id, company_id, {columns}, retired_at) VALUES (%s, %s, %s, %s, %s)",
                (record_id, fleet.company_id, record.unique, record.shared, now if record.retired else None),
            )
        in_service = [(record_id, one) for record_id, one in zip(ids, stored, strict=True) if not one.retired]
        for position, kind in enumerate(kinds):
            targets = {
                value: in_service[number % len(in_service)][0]
                for (mapped_kind, value), number in mapped.items()
                if mapped_kind == kind and in_service
            }
            for value, target in targets.items():
                connection.execute(
                    "INSERT INTO mappings (company_id, kind, value, target_id) VALUES (%s, %s, %s, %s)",
                    (fleet.company_id, kind, value, target),
                )
            meanings[kind] = _lookup(
                targets,
                [(record_id, one[:2][position]) for record_id, one in in_service],
                rules if kind == "unit_number" else (),
            )
    return meanings


def _lookup(
    mapped: dict[str, UUID], stored: Sequence[tuple[UUID, str | None]], rules: Collection[tuple[str, str]]
) -> Callable[[str], list[UUID]]:
    """A function that gives the records a value can mean, as the fleet's README says it."""

    def candidates(value: str) -> list[UUID]:
        if value in mapped:
            return [mapped[value]]
        exactly = [record_id for record_id, one in stored if one == value]
        spelled = [
            record_id
            for record_id, one in stored
            if one is not None and any(f"{before}{one}{after}" == value for before, after in rules)
        ]
        return exactly or spelled

    return candidates


def _find(
    subject: Matched, pushed_references: dict[str, str], kinds: dict[str, tuple[str, str]], meanings: Meanings
) -> _Found:
    """The rule in Python."""
    given_references = [
        GivenReference(text, pushed_references[field], meanings[kind](pushed_references[field]))
        for field, (text, kind) in kinds.items()
        if field in pushed_references
    ]
    unclear = unclear_references(given_references)
    return _Found(None, why_unclear(subject, unclear)) if unclear else _Found(given_references[0].candidates[0], None)


def _expected(
    vehicle: _Found, driver: _Found, scheduled_start: datetime, window_days: float, now: datetime
) -> tuple[str, str | None, str | None]:
    """Status, reason and detail: vehicle first, then driver, then the window."""
    if vehicle.id is None:
        return "pending_mapping", "vehicle_unmapped", vehicle.why_not
    if driver.id is None:
        return "pending_mapping", "driver_unmapped", driver.why_not
    if scheduled_start - now > timedelta(days=window_days):
        days = "1 day" if window_days == 1 else f"{window_days:g} days"
        detail = (
            f"The scheduled start is more than {days} ahead. The route is imported by itself when its "
            "start enters the import window."
        )
        return "pending_window", "outside_import_window", detail
    return "draft", None, None


routes = st.tuples(
    references("unitNumber", "vin", VINS),
    references("externalId", "name", NAMES),
    st.sampled_from([timedelta(days=-9), timedelta(microseconds=-1), timedelta(0), timedelta(microseconds=1)]),
)
KINDS = {
    "unit_number": ("1", "2", "3"),
    "vin": VINS,
    "driver_external_id": ("1", "2", "3"),
    "driver_name": NAMES,
}
mappings = st.dictionaries(
    st.sampled_from([(kind, value) for kind, values in KINDS.items() for value in values]),
    st.integers(0, 3),
    max_size=4,
)
"""The number of a record in service, by kind and value."""


@pytest.mark.slow
@hypothesis_settings(
    deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    vehicles=records(VINS),
    drivers=records(NAMES),
    mapped=mappings,
    rules=st.sets(st.sampled_from(SPELLING_RULES), max_size=4),
    wanted=st.lists(routes, min_size=1, max_size=8),
    window_days=st.floats(0, 3660, allow_subnormal=False),
)
def test_the_statement_decides_as_the_rule_in_python_does(
    connection: Connection,
    now: datetime,
    vehicles: list[Record],
    drivers: list[Record],
    mapped: dict[tuple[str, str], int],
    rules: set[tuple[str, str]],
    wanted: list[tuple[dict[str, str], dict[str, str], timedelta]],
    window_days: float,
) -> None:
    fleet = make_fleet(connection, import_window_days=window_days)
    meanings = _stored_fleet(connection, fleet, now, vehicles, drivers, mapped, rules)
    opening = now + timedelta(days=window_days)
    ids = [
        pushed(connection, fleet.live, now=now, start=opening + more, vehicle=vehicle, driver=driver)
        for vehicle, driver, more in wanted
    ]

    outcomes = import_routes(connection, ids, now=now)

    for route_id, (vehicle, driver, more) in zip(ids, wanted, strict=True):
        truck = _find("vehicle", vehicle, VEHICLE_REFERENCES, meanings)
        person = _find("driver", driver, DRIVER_REFERENCES, meanings)
        expected = _expected(truck, person, opening + more, window_days, now)
        outcome, row = outcomes[route_id], route_row(connection, route_id)
        assert (outcome.status, outcome.reason, outcome.detail) == expected
        assert (row.status, row.pending_reason, row.pending_detail) == expected
        assert (outcome.vehicle_id, outcome.driver_id) == (row.vehicle_id, row.driver_id) == (truck.id, person.id)
        assert (row.imported_at, row.retry_at) == (now if expected[0] == "draft" else None, None)


@pytest.mark.parametrize("vehicle", [{"unitNumber": "T7"}, {"vin": "1XKAD49X0CJ000007"}])
@pytest.mark.parametrize("driver", [{"name": "Driver 7"}, {"externalId": "D7"}])
def test_a_reference_is_looked_up_by_its_own_index_in_tables_without_statistics(
    connection: Connection, fleet: Fleet, now: datetime, vehicle: dict[str, str], driver: dict[str, str]
) -> None:
    """Another index of the same company's rows, where it is smaller, would cost less by PostgreSQL's guess."""
    for number in range(500):
        connection.execute(
            "INSERT INTO vehicles (id, company_id, unit_number, vin) VALUES (%s, %s, %s, %s)",
            (new_id(), fleet.company_id, f"T{number}", "1XKAD49X0CJ000007" if number == 7 else None),
        )
        connection.execute(
            "INSERT INTO drivers (id, company_id, name, external_id) VALUES (%s, %s, %s, %s)",
            (new_id(), fleet.company_id, f"Driver {number}", "D7" if number == 7 else None),
        )
    route_id = pushed(connection, fleet.live, now=now, start=now, vehicle=vehicle, driver=driver)
    for option in pool_options(SERVING, BY_KEY)["options"].removeprefix("-c ").split(" -c "):
        connection.execute("SELECT set_config(%s, %s, true)", option.split("="))
    go_behind_the_wall(connection, of_companies([fleet.company_id]))

    parameters = {"ids": as_array([route_id]), "visited": False, "now": now}
    cursor = connection.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + _ATTEMPT_ALL.text, parameters)

    ((explained,),) = cursor.fetchall()
    assert _rows_read_in_vain(explained[0]["Plan"]) < 10
    assert route_row(connection, route_id).status == "draft"


def test_psycopg_keeps_the_statement_parsed() -> None:
    """psycopg parses a text of more than 4,096 characters again at each use, which a single push would feel."""
    assert max(len(_ATTEMPT_ALL.text), len(_ATTEMPT_FREE.text)) <= 4096


def _rows_read_in_vain(plan: dict[str, Any]) -> float:
    below = sum(_rows_read_in_vain(part) for part in plan.get("Plans", ()))
    return float(plan.get("Rows Removed by Filter", 0) * plan["Actual Loops"]) + below
