"""The vehicles that had a unit number, and until when: a purchase of last month belongs to the truck that had the
number then, not to its successor.

The time when a truck got its number is not known, only when it was entered here. So a number belongs to its first
holder from the beginning, and to a successor from the moment when the one before gave it up. A mapping comes before a
stored number."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.database.connections import Connection
from domain.database.statements import NotNull, Statement


class UnitHolder(NamedTuple):
    """A vehicle that has or had a unit number, by itself or through a mapping."""

    unit_number: NotNull[str]
    vehicle_id: NotNull[UUID]
    until: datetime | None
    """When it was retired or got another number; None if it has the number now."""
    is_mapping: NotNull[bool]


_HOLDERS = Statement(
    UnitHolder,
    """
    WITH asked AS (SELECT unnest(%(unit_numbers)s::text[]) AS unit_number)
    SELECT unit_number, vehicle_id, until, is_mapping FROM (
        SELECT asked.unit_number, m.target_id AS vehicle_id, NULL::timestamptz AS until, true AS is_mapping
        FROM asked JOIN mappings m ON m.company_id = %(company_id)s AND m.kind = 'unit_number'
             AND m.value = asked.unit_number
        UNION ALL
        SELECT asked.unit_number, v.id, v.retired_at, false
        FROM asked CROSS JOIN LATERAL (SELECT id, retired_at FROM vehicles WHERE company_id = %(company_id)s
             AND unit_number = asked.unit_number OFFSET 0) AS v
        UNION ALL
        SELECT asked.unit_number, f.vehicle_id, f.until, f.is_mapping
        FROM asked JOIN former_units f ON f.company_id = %(company_id)s AND f.unit_number = asked.unit_number
    ) AS held ORDER BY unit_number, is_mapping DESC, until NULLS LAST, vehicle_id
    """,
)


def read_unit_holders(
    connection: Connection, company_id: UUID, unit_numbers: Iterable[str]
) -> dict[str, list[UnitHolder]]:
    """The holders of each number: holders by a mapping first, then the earliest first."""
    named = sorted(set(unit_numbers))
    rows = _HOLDERS.all(connection, {"company_id": company_id, "unit_numbers": named}) if named else []
    return {number: list(held) for number, held in groupby(rows, lambda row: row.unit_number)}


def vehicle_of_unit(holders: Sequence[UnitHolder], at: datetime, time_zone: str) -> UUID | None:
    """The vehicle that had the number at that time; None if there was none, or the number changed hands on that day."""
    for is_mapping, held in groupby(holders, lambda one: one.is_mapping):
        candidates = _holders_on_day(list(held), at, time_zone)
        if candidates:
            return candidates[0] if len(candidates) == 1 else None
        if not is_mapping:
            break
    return None


def _holders_on_day(held: Sequence[UnitHolder], at: datetime, time_zone: str) -> list[UUID]:
    """The vehicles that had the number on the day of that moment, by the local clock."""
    day = at.astimezone(ZoneInfo(time_zone)).date()
    found: list[UUID] = []
    for one in held:
        last_day = one.until.astimezone(ZoneInfo(time_zone)).date() if one.until is not None else None
        if (last_day is None or last_day >= day) and one.vehicle_id not in found:
            found.append(one.vehicle_id)
        if last_day is None or last_day > day:
            break  # whoever comes later got the number after that day
    return found
