"""Matches fills again that wait for a person, or have no route or a canceled one, once what they waited for may have
come."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from domain.accounts.companies import lock_company
from domain.audit.entries import Action, Actor, record_action
from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, Statement
from domain.fills.card_holders import CardHolder, assign_card
from domain.fills.finding import KEPT_COLUMNS, KeptFill, ToMatch, kept_to_match, match_fills
from domain.fills.importing import BATCH_FILLS, MATCHED, finish_fills, read_stations
from domain.fills.matching import KnownStations
from domain.fills.stored_verdicts import update_verdicts
from domain.lifecycle import Environment

_OPEN = Statement(
    KeptFill,
    f"""
    SELECT {KEPT_COLUMNS} FROM fills
    WHERE company_id = %(company_id)s AND environment = %(environment)s AND decided_by IS NULL AND counter_id IS NULL
      AND (review <> '{{}}'
           OR bought_at >= %(since)s AND (route_id IS NULL OR EXISTS (
               SELECT FROM routes r WHERE r.id = route_id AND r.status = 'canceled'))
           OR unit_number IN (SELECT unit_number FROM former_units WHERE company_id = %(company_id)s
                              UNION SELECT unit_number FROM vehicles WHERE company_id = %(company_id)s
                              GROUP BY unit_number HAVING count(*) > 1)) AND id > %(after)s
    ORDER BY id LIMIT %(limit)s FOR UPDATE
    """,
)
_REMATCH = Command(f"UPDATE fills SET {MATCHED} WHERE id = %(id)s")

_OF_CARD = Statement(
    KeptFill,
    f"""
    SELECT {KEPT_COLUMNS} FROM fills
    WHERE company_id = %(company_id)s AND environment = %(environment)s AND card_last_four = %(card)s
      AND unit_number IS NULL AND decided_by IS NULL AND counter_id IS NULL AND id > %(after)s
    ORDER BY id LIMIT %(limit)s FOR UPDATE
    """,
)

LOOKED_BACK = timedelta(days=60)
"""Age up to which fills without a route, or on a canceled one, are matched again: their route may have been pushed
late."""


class Rematched(NamedTuple):
    last_id: UUID | None
    """The id of the last fill of the portion; None once all are done."""
    settled: int
    """The number of fills that waited for a person and no longer do."""


def match_fills_again(
    connection: Connection,
    tenant: Tenant,
    stations: KnownStations,
    *,
    after: UUID = UUID(int=0),  # noqa: B008 (a value)
    far_miles: float,
    now: datetime,
) -> Rematched:
    """Match a portion of the fills again that wait for a person, have no route or a canceled one, or have a unit number
    that changed hands: a truck, a mapping, a station or a route may have come since. Decisions stay."""
    lock_company(connection, tenant.company_id)
    parameters: dict[str, Any] = {
        **tenant._asdict(),
        "since": now - LOOKED_BACK,
        "after": after,
        "limit": BATCH_FILLS,
    }
    rows = _OPEN.all(connection, parameters)
    settled = _rematch(connection, tenant, rows, [kept_to_match(row) for row in rows], stations, far_miles)
    return Rematched(rows[-1].id if len(rows) == BATCH_FILLS else None, settled)


def _rematch(
    connection: Connection,
    tenant: Tenant,
    rows: Sequence[KeptFill],
    asked: Sequence[ToMatch],
    stations: KnownStations,
    far_miles: float,
) -> int:
    """Match these fills again. Returns how many no longer wait."""
    matches = match_fills(connection, tenant, asked, stations, far_miles=far_miles)
    routes: set[UUID | None] = set()
    settled = 0
    for row, one in zip(rows, matches, strict=True):
        _REMATCH.execute(connection, {**one._asdict(), "id": row.id})
        routes |= {row.route_id, one.route_id}
        settled += not one.review
    update_verdicts(connection, {one for one in routes if one is not None})
    return settled


def end_matching(connection: Connection, tenant: Tenant, by: Actor, *, settled: int) -> None:
    """The last step after all portions of `match_fills_again`, which settled so many fills."""
    finish_fills(connection, tenant)
    subject = f"{tenant.environment} fills"
    record_action(connection, by, Action("fills.match"), subject, company_id=tenant.company_id, affected=settled)


def assign_card_and_match(
    connection: Connection,
    company_id: UUID,
    card: str,
    holder: CardHolder,
    by: Actor,
    *,
    far_miles: float,
    now: datetime,
) -> int:
    """Stores who has a card, and credits its fills that wait. Returns how many do not wait any more. Raises
    UnusableCard, UnknownTarget, UnknownCompany, RetiredCompany."""
    assign_card(connection, company_id, card, holder, by.name, now=now)
    settled = sum(
        match_card_again(connection, Tenant(company_id, one), card, far_miles=far_miles) for one in Environment
    )
    record_action(connection, by, Action("fills.assign"), f"card …{card}", company_id=company_id, affected=settled)
    return settled


def match_card_again(connection: Connection, tenant: Tenant, card: str, *, far_miles: float) -> int:
    """Match the fills of a newly assigned card that name no unit. Returns how many no longer wait. Decisions on single
    fills stay."""
    stations = read_stations(connection, tenant.company_id)
    after, settled = UUID(int=0), 0
    while True:
        parameters = {**tenant._asdict(), "card": card, "after": after, "limit": BATCH_FILLS}
        rows = _OF_CARD.all(connection, parameters)
        asked = [kept_to_match(row)._replace(former_vehicle_id=None) for row in rows]
        settled += _rematch(connection, tenant, rows, asked, stations, far_miles)
        if len(rows) < BATCH_FILLS:
            return settled
        after = rows[-1].id
