"""A person's decision about two fills: one is the same purchase as the other, or takes back a part of it."""

from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, Statement
from domain.fills.finding import KeptFill
from domain.fills.known_purchases import Telling, replace_figures
from domain.fills.repeated import numbers_of


class _Twin(NamedTuple):
    id: UUID
    route_id: UUID | None


_TWIN = Statement(
    _Twin,
    "SELECT twin.id, twin.route_id FROM fills f"
    " JOIN fills twin ON twin.id = f.twin_id AND twin.company_id = f.company_id WHERE f.company_id = %s AND f.id = %s",
)
_TELL_OF_TWIN = Command(
    """
    WITH moved AS (UPDATE fill_tellings SET fill_id = %(twin_id)s WHERE fill_id = %(fill_id)s)
    INSERT INTO fill_tellings (company_id, environment, key, gallons, paid_cents, fill_id, is_replaced)
    SELECT company_id, environment, key, gallons, paid_cents, %(twin_id)s, false FROM fills
    WHERE company_id = %(company_id)s AND id = %(fill_id)s ON CONFLICT DO NOTHING
    """
)
_DELETE = Command("DELETE FROM fills WHERE company_id = %s AND id = %s")


def join_twin(connection: Connection, company_id: UUID, fill_id: UUID) -> set[UUID] | None:
    """Join a fill with its twin: the twin stays, and the file's row is recognized as it from now on. Returns the routes
    to compare again; None if the twin is gone."""
    twin = _TWIN.first(connection, (company_id, fill_id))
    if twin is None:
        return None
    _TELL_OF_TWIN.execute(connection, {"company_id": company_id, "fill_id": fill_id, "twin_id": twin.id})
    _DELETE.execute(connection, (company_id, fill_id))
    return {twin.route_id} if twin.route_id is not None else set()


class _Bought(NamedTuple):
    id: UUID
    key: str
    gallons: float
    paid_cents: int
    route_id: UUID | None
    transaction_number: str | None
    invoice_number: str | None


_LARGE_ENOUGH = Statement(
    _Bought,
    """
    SELECT id, key, gallons, paid_cents, route_id, transaction_number, invoice_number FROM fills
    WHERE company_id = %(company_id)s AND environment = %(environment)s AND vehicle_id = %(vehicle_id)s
      AND state = %(state)s AND fuel = %(fuel)s AND currency = %(currency)s AND counter_id IS NULL AND review = '{}'
      AND gallons >= -%(gallons)s::float8 AND paid_cents >= -%(paid_cents)s::bigint
      AND bought_at <= %(bought_at)s::timestamptz + interval '1 day'
      AND bought_at >= %(bought_at)s::timestamptz - interval '60 days'
    ORDER BY bought_at DESC, id DESC FOR UPDATE
    """,
)
_LESS = Command(
    "UPDATE fills SET gallons = round((gallons - %s)::numeric, 3), paid_cents = paid_cents - %s WHERE id = %s"
)
_COUNTER = Command("UPDATE fills SET counter_id = %s WHERE id = %s")


def take_back_part(connection: Connection, tenant: Tenant, back: KeptFill) -> set[UUID] | None:
    """Take the gallons of a confirmed reversal off the purchase that shares its number, or else off the last one of its
    truck in the state. Returns the routes to compare again; None if no purchase is as large, because none may count
    below zero."""
    large = _LARGE_ENOUGH.all(connection, {**tenant._asdict(), **back._asdict()})
    ours = numbers_of(back.transaction_number, back.invoice_number)
    numbered = [one for one in large if ours & numbers_of(one.transaction_number, one.invoice_number)]
    if not large:
        return None
    bought = (numbered or large)[0]
    _COUNTER.execute(connection, (bought.id, back.id))
    if bought.gallons == -back.gallons:
        _COUNTER.execute(connection, (back.id, bought.id))
    else:
        replace_figures(connection, tenant, Telling(bought.key, bought.gallons, bought.paid_cents, bought.id))
        _LESS.execute(connection, (-back.gallons, -back.paid_cents, bought.id))
    return {bought.route_id} if bought.route_id is not None else set()
