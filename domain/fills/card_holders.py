"""Cards that name no unit: a person says once to which truck or driver each belongs, from a day on.

A driver's fills go to the truck of the driver's route at that time. Nothing else proves the truck, so other fills
wait."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID

from domain.accounts.companies import lock_company
from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.errors import FuelrouteError
from domain.fleet.records import require_in_service

FROM_THE_BEGINNING = date(2000, 1, 1)
"""A day before all purchases in files."""
ANY_NAME = ""


class CardAssignment(NamedTuple):
    """A card's truck or driver from a day on; neither if the card has none any more."""

    card_last_four: str
    driver_name: str
    first_day: date
    vehicle_id: UUID | None
    driver_id: UUID | None
    assigned_by: str


class UnusableCard(FuelrouteError):
    """The card cannot be assigned this way; the text says why."""


_COLUMNS = ", ".join(CardAssignment._fields)
_OF_CARDS = Statement(
    CardAssignment,
    f"SELECT {_COLUMNS} FROM card_assignments WHERE company_id = %s AND card_last_four = ANY(%s)"
    " ORDER BY first_day DESC, driver_name DESC",
)
_ALL = Statement(
    CardAssignment,
    f"SELECT {_COLUMNS} FROM card_assignments WHERE company_id = %s ORDER BY card_last_four, driver_name, first_day",
)
_ASSIGN = Command(
    """
    INSERT INTO card_assignments (company_id, card_last_four, driver_name, first_day, vehicle_id, driver_id,
        assigned_by, assigned_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (company_id, card_last_four, driver_name, first_day) DO UPDATE SET vehicle_id = excluded.vehicle_id,
        driver_id = excluded.driver_id, assigned_by = excluded.assigned_by, assigned_at = excluded.assigned_at
    """
)


_NAMES = Scalar(
    NotNull[str],
    "SELECT DISTINCT driver_name FROM fills WHERE company_id = %s AND card_last_four = %s AND driver_name IS NOT NULL"
    " AND unit_number IS NULL ORDER BY driver_name",
)


def list_assignments(connection: Connection, company_id: UUID) -> list[CardAssignment]:
    return _ALL.all(connection, (company_id,))


class CardHolder(NamedTuple):
    """The truck or driver that has a card; neither of them if nobody has it any more."""

    vehicle_id: UUID | None = None
    driver_id: UUID | None = None
    driver_name: str | None = None
    """The name that files write beside the card; None for the only one so far."""
    first_day: date | None = None
    """The first day on which it counts; None for all days."""


def assign_card(
    connection: Connection, company_id: UUID, card: str, holder: CardHolder, by: str, *, now: datetime
) -> None:
    """Store who has a card. Raises UnusableCard, with the reason, UnknownTarget, UnknownCompany, RetiredCompany."""
    lock_company(connection, company_id)
    if not re.fullmatch(r"[0-9]{4}", card):
        raise UnusableCard(f"{card[:20]!r} is not the last four digits of a card")
    if holder.driver_id is not None:
        require_in_service(connection, company_id, "driver", holder.driver_id)
    name = _only_name(connection, company_id, card) if holder.driver_name is None else holder.driver_name
    first_day = holder.first_day or FROM_THE_BEGINNING
    _ASSIGN.execute(connection, (company_id, card, name, first_day, holder.vehicle_id, holder.driver_id, by, now))


def _only_name(connection: Connection, company_id: UUID, card: str) -> str:
    """The only name beside the card so far. Two cards may end in the same digits, so fills with a new name are not
    credited."""
    by_words = {_words(name): name for name in _NAMES.all(connection, (company_id, card))}
    if len(by_words) > 1:
        names = ", ".join(sorted(by_words.values()))
        raise UnusableCard(f"several people have a card that ends in {card}: say which by the name, one of {names}")
    return next(iter(by_words.values()), ANY_NAME)


class Nameless(NamedTuple):
    """A fill without a unit number."""

    card_last_four: str | None
    driver_name: str | None
    local_time: datetime
    since: datetime
    """The moment of the purchase, or the beginning of its day."""
    until: datetime


class _Driver(NamedTuple):
    id: NotNull[UUID]
    name: NotNull[str]


_DRIVERS = Statement(
    _Driver,
    """
    SELECT id, name FROM drivers WHERE company_id = %(company_id)s AND name IS NOT NULL
    UNION SELECT target_id, value FROM mappings WHERE company_id = %(company_id)s AND kind = 'driver_name'
    """,
)


class _Driven(NamedTuple):
    number: NotNull[int]
    vehicle_id: NotNull[UUID]


_DRIVEN = Statement(
    _Driven,
    """
    SELECT DISTINCT asked.number, r.vehicle_id
    FROM unnest(%(numbers)s::int[], %(driver_ids)s::uuid[], %(since)s::timestamptz[], %(until)s::timestamptz[])
         AS asked (number, driver_id, since, until)
    JOIN routes r ON r.company_id = %(company_id)s AND r.environment = %(environment)s
         AND r.driver_id = asked.driver_id AND r.vehicle_id IS NOT NULL
         AND r.scheduled_start <= asked.until + interval '3 days'
         AND r.scheduled_start >= asked.since - interval '60 days'
    WHERE r.status IN ('planned', 'active', 'completed', 'error') AND r.arrived_at <= asked.until
      AND coalesce(CASE WHEN r.status = 'error' THEN r.updated_at ELSE r.completed_at END, 'infinity') >= asked.since
    """,
)


def trucks_of_cards(connection: Connection, tenant: Tenant, fills: Sequence[Nameless]) -> list[UUID | None]:
    """The truck of each fill, by its card, or by the driver whose name stands beside it."""
    cards = sorted({one.card_last_four for one in fills if one.card_last_four})
    assigned: dict[str, list[CardAssignment]] = defaultdict(list)
    for row in _OF_CARDS.all(connection, (tenant.company_id, cards)):
        assigned[row.card_last_four].append(row)
    holders = [_holder(assigned.get(one.card_last_four or "", ()), one) for one in fills]
    drivers = _drivers_by_name(connection, tenant.company_id, fills)
    of_drivers = {
        number: holder.driver_id if holder is not None else drivers.get(_words(one.driver_name or ""))
        for number, (one, holder) in enumerate(zip(fills, holders, strict=True))
    }
    driven = _driven(connection, tenant, fills, {number: one for number, one in of_drivers.items() if one is not None})
    return [
        holder.vehicle_id if holder is not None and holder.vehicle_id is not None else driven.get(number)
        for number, holder in enumerate(holders)
    ]


def _holder(assignments: Iterable[CardAssignment], fill: Nameless) -> CardAssignment | None:
    """The assignment of the card on that day; the latest one counts."""
    words = _words(fill.driver_name or "")
    return next(
        (
            one
            for one in assignments
            if one.first_day <= fill.local_time.date()
            and (one.driver_name == ANY_NAME or not words or _words(one.driver_name) == words)
        ),
        None,
    )


def _drivers_by_name(connection: Connection, company_id: UUID, fills: Sequence[Nameless]) -> dict[frozenset[str], UUID]:
    """The drivers by their names beside cards. A name that two drivers share is left out."""
    wanted = {_words(one.driver_name) for one in fills if one.driver_name}
    found: dict[frozenset[str], set[UUID]] = defaultdict(set)
    for driver in _DRIVERS.all(connection, {"company_id": company_id}) if wanted else ():
        found[_words(driver.name)].add(driver.id)
    return {words: ids.copy().pop() for words, ids in found.items() if words in wanted and len(ids) == 1}


def _driven(
    connection: Connection, tenant: Tenant, fills: Sequence[Nameless], drivers: dict[int, UUID]
) -> dict[int, UUID]:
    """The truck of each fill whose driver drove only one at that time."""
    if not drivers:
        return {}
    parameters = {
        **tenant._asdict(),
        "numbers": list(drivers),
        "driver_ids": list(drivers.values()),
        "since": [fills[number].since for number in drivers],
        "until": [fills[number].until for number in drivers],
    }
    found: dict[int, set[UUID]] = defaultdict(set)
    for row in _DRIVEN.all(connection, parameters):
        found[row.number].add(row.vehicle_id)
    return {number: ids.copy().pop() for number, ids in found.items() if len(ids) == 1}


def _words(name: str) -> frozenset[str]:
    """The words of a name. Cards write `DOE,JAN` for Jan Doe."""
    return frozenset(re.findall(r"\w+", name.casefold()))


class WaitingCard(NamedTuple):
    """A card whose fills wait for a truck."""

    card_last_four: str | None
    driver_name: str | None
    fills: NotNull[int]
    first_day: NotNull[date]
    last_day: NotNull[date]
    """The days of its purchases where they were made, as `CardAssignment.first_day` counts them."""


_WAITING = Statement(
    WaitingCard,
    """
    SELECT card_last_four, driver_name, count(*)::int AS fills,
           min((bought_at AT TIME ZONE time_zone)::date) AS first_day,
           max((bought_at AT TIME ZONE time_zone)::date) AS last_day
    FROM fills WHERE company_id = %(company_id)s AND environment = %(environment)s AND review <> '{}'
      AND 'unit' = ANY(review) AND unit_number IS NULL AND counter_id IS NULL
    GROUP BY card_last_four, driver_name ORDER BY fills DESC, card_last_four, driver_name LIMIT 500
    """,
)


def waiting_cards(connection: Connection, tenant: Tenant) -> list[WaitingCard]:
    """The cards without a unit whose fills wait, those with most fills first."""
    return _WAITING.all(connection, tenant._asdict())
