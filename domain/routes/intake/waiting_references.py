"""The references that held routes wait for, grouped for the matching screens, and the progress of these routes. A
mapping counts for both environments, so the routes of both are shown together."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import NotNull, Statement
from domain.fleet.api_lists import FleetRecord
from domain.fleet.mappings import mappings_of
from domain.fleet.matching import KINDS, GivenReference, MappingKind, Matched, unclear_references
from domain.fleet.spelling_rules import SpellingRule, list_spelling_rules, units_meant
from domain.lifecycle import PendingReason

MOST_GROUPS = 2_000
"""Most vehicles or drivers, by the TMS's names, that a screen shows: those that the most routes wait for."""


class _Group(NamedTuple):
    """Held routes that name the same vehicle or driver."""

    first: str | None
    second: str | None
    """The VIN or the driver's external id; the field before has the unit number or name."""
    routes: int
    sandbox_routes: int
    earliest_start: NotNull[datetime]


_COLUMNS: tuple[tuple[Matched, str, str, PendingReason], ...] = (
    ("vehicle", "vehicle_unit_number", "vehicle_vin", PendingReason.VEHICLE_UNMAPPED),
    ("driver", "driver_name", "driver_external_id", PendingReason.DRIVER_UNMAPPED),
)
_GROUPS: dict[Matched, Statement[_Group]] = {
    subject: Statement(
        _Group,
        f"SELECT {first} AS first, {second} AS second, count(*) AS routes,"
        " count(*) FILTER (WHERE environment = 'sandbox') AS sandbox_routes, min(scheduled_start) AS earliest_start"
        " FROM routes WHERE company_id = %s AND environment IN ('live', 'sandbox') AND status = 'pending_mapping'"
        f" AND pending_reason = '{reason}' GROUP BY 1, 2"
        f" ORDER BY routes DESC, earliest_start, 1, 2 LIMIT {MOST_GROUPS}",
    )
    for subject, first, second, reason in _COLUMNS
}


@dataclass(frozen=True, slots=True)
class WaitingReference:
    """A value that leads to no record, or not to one alone."""

    kind: MappingKind
    value: str
    routes: int
    sandbox_routes: int
    earliest_start: datetime
    fits: tuple[UUID, ...]
    """The records that the value can mean: none, several, or one that another reference of the route contradicts."""


def waiting_references(
    connection: Connection, company_id: UUID, subject: Matched, records: Sequence[FleetRecord]
) -> list[WaitingReference]:
    """The references that a company's held routes wait for, those with the most routes first. `records` is its
    fleet."""
    groups = _GROUPS[subject].all(connection, (company_id,))
    values = {value for group in groups for value in (group.first, group.second) if value is not None}
    mapped = mappings_of(connection, company_id, subject, list(values)) if values else {}
    rules = list_spelling_rules(connection, company_id) if subject == "vehicle" and values else []
    return _merged(subject, groups, mapped, records, rules)


def _merged(
    subject: Matched,
    groups: Iterable[_Group],
    mapped: Mapping[tuple[str, str], UUID],
    records: Sequence[FleetRecord],
    rules: Sequence[SpellingRule],
) -> list[WaitingReference]:
    kinds = KINDS[subject]
    stored: dict[tuple[str, str], list[UUID]] = {}
    for record in records:
        for kind in kinds:
            value = record.stored(kind)
            if value is not None:
                stored.setdefault((kind, value), []).append(record.id)

    def candidates(kind: MappingKind, value: str) -> list[UUID]:
        if (kind, value) in mapped:
            return [mapped[kind, value]]
        by_rule = units_meant(rules, value) if kind == "unit_number" else ()
        return stored.get((kind, value)) or [one for unit in by_rule for one in stored.get((kind, unit), [])]

    merged: dict[tuple[str, str], WaitingReference] = {}
    for group in groups:
        references = [
            GivenReference(kind, value, candidates(kind, value))
            for kind, value in zip(kinds, (group.first, group.second), strict=True)
            if value is not None
        ]
        for kind in kinds:
            for reference in unclear_references(references):
                if reference.kind == kind:
                    _add(merged, kind, reference, group)
    return sorted(merged.values(), key=lambda one: (-one.routes, one.earliest_start, one.kind, one.value))


def _add(
    merged: dict[tuple[str, str], WaitingReference], kind: MappingKind, reference: GivenReference, group: _Group
) -> None:
    known = merged.get((kind, reference.value))
    merged[kind, reference.value] = WaitingReference(
        kind,
        reference.value,
        group.routes + (known.routes if known else 0),
        group.sandbox_routes + (known.sandbox_routes if known else 0),
        min(group.earliest_start, known.earliest_start) if known else group.earliest_start,
        tuple(reference.candidates),
    )


class RouteNow(NamedTuple):
    """The present state of a route that waited for a reference."""

    id: UUID
    external_id: str
    environment: str
    status: str
    pending_detail: str | None


_NOW = Statement(
    RouteNow,
    "SELECT id, external_id, environment, status, pending_detail FROM routes"
    " WHERE company_id = %s AND id = ANY(%s) ORDER BY scheduled_start, id",
)


def routes_now(connection: Connection, company_id: UUID, route_ids: Sequence[UUID]) -> list[RouteNow]:
    """The company's routes among `route_ids`."""
    return _NOW.all(connection, (company_id, list(route_ids)))
