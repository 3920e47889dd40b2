"""Pairs reversals with the purchases that they take back, in any order.

A reversal takes back a purchase of equal fuel, state, gallons and amount: the one that shares its number, or the only
one of its card, unit, place and item within 60 days. It may also take back figures that the card has corrected since;
then the correction goes on counting. Corrected figures with its number come before another purchase that is alike. A
reversal that fits none or several waits for a person."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, NotNull, Statement
from domain.fills.card_files import CORRECTED
from domain.fills.repeated import CardPurchase, numbers_of, plain_number
from domain.ids import new_id


class _Purchase(NamedTuple):
    """A reversal, or a purchase of the figures that one takes back."""

    back_id: NotNull[UUID]
    """The reversal; its own id for a reversal."""
    id: UUID
    profile: str
    transaction_number: str | None
    invoice_number: str | None
    card_last_four: str | None
    unit_number: str | None
    location_name: str | None
    item: str | None
    vehicle_id: UUID | None
    gallons: float
    paid_cents: int
    bought_at: datetime
    route_id: UUID | None


_WAITING = """
    company_id = %(company_id)s AND environment = %(environment)s AND review <> '{}' AND 'reversal' = ANY(review)
    AND counter_id IS NULL AND gallons < 0 AND decided_by IS NULL
"""
_OWN = ", ".join(f"f.{name}" for name in _Purchase._fields[1:])
_REVERSALS = Statement(
    _Purchase, f"SELECT f.id AS back_id, {_OWN} FROM fills f WHERE {_WAITING} ORDER BY bought_at, id"
)
_SAME_KIND = """
    f.company_id = %(company_id)s AND f.environment = %(environment)s
    AND f.fuel = back.fuel AND f.currency = back.currency
    AND f.state IS NOT DISTINCT FROM back.state
    AND f.bought_at <= back.bought_at + interval '1 day' AND f.bought_at >= back.bought_at - interval '60 days'
"""
_FITTING = Statement(
    _Purchase,
    f"""
    SELECT back.id AS back_id, {_OWN}
    FROM (SELECT id, gallons, paid_cents, fuel, currency, state, bought_at FROM fills WHERE {_WAITING}) AS back
    JOIN fills f ON {_SAME_KIND} AND f.paid_cents = -back.paid_cents AND f.gallons = -back.gallons
         AND f.counter_id IS NULL
    ORDER BY f.bought_at DESC, f.id DESC
    """,
)
_FITTING_TOLD = Statement(
    _Purchase,
    f"""
    SELECT DISTINCT back.id AS back_id, {_OWN}
    FROM (SELECT id, gallons, paid_cents, fuel, currency, state, bought_at FROM fills WHERE {_WAITING}) AS back
    JOIN fills f ON {_SAME_KIND} AND f.gallons > 0
    JOIN fill_tellings t ON t.fill_id = f.id AND t.company_id = f.company_id AND t.environment = f.environment
         AND t.is_replaced AND NOT t.is_taken_back AND t.gallons = -back.gallons AND t.paid_cents = -back.paid_cents
    ORDER BY f.bought_at DESC, f.id DESC
    """,
)
_COUNTER = Command("UPDATE fills SET counter_id = %s, review = '{}', twin_id = NULL, score = 100 WHERE id = %s")
_MARK_TOLD = Command(
    "UPDATE fill_tellings SET is_taken_back = true WHERE fill_id = %s AND is_replaced"
    " AND gallons = -(SELECT gallons FROM fills WHERE id = %s)"
)


def pair_reversals(connection: Connection, tenant: Tenant) -> set[UUID]:
    """Pairs the reversals. Returns the routes of the paired fills. The caller has locked the company."""
    waiting = _REVERSALS.all(connection, tenant._asdict())
    if not waiting:
        return set()
    fitting, told = (_by_reversal(one.all(connection, tenant._asdict())) for one in (_FITTING, _FITTING_TOLD))
    pairs, pairs_told, taken = list[_Pair](), list[_Pair](), set[_Taken]()
    for is_meant in (_shares_number, _is_alike):  # a number tells more than figures that are equal by chance
        for candidates, found in ((fitting, pairs), (told, pairs_told)):
            new = _pairs(waiting, candidates, taken, is_meant)
            found += new
            paired = {back.id for back, _ in new}
            waiting = [back for back in waiting if back.id not in paired]
    for back, bought in pairs_told:
        _COUNTER.execute(connection, (bought.id, back.id))
        _MARK_TOLD.execute(connection, (bought.id, back.id))
    for back, bought in pairs:
        _COUNTER.execute(connection, (bought.id, back.id))
        _COUNTER.execute(connection, (back.id, bought.id))
        _ask_about_earlier_figures(connection, bought.id)
    return {one.route_id for pair in (*pairs, *pairs_told) for one in pair if one.route_id is not None}


def _by_reversal(fitting: Sequence[_Purchase]) -> Mapping[UUID, Sequence[_Purchase]]:
    found: dict[UUID, list[_Purchase]] = defaultdict(list)
    for one in fitting:
        found[one.back_id].append(one)
    return found


_Pair = tuple[_Purchase, _Purchase]
"""A reversal, and the purchase that it takes back."""
_Taken = tuple[UUID, float, int]
"""A purchase, with the gallons and cents of the reversal: the purchase may have had other figures before."""


def _pairs(
    waiting: Sequence[_Purchase],
    fitting: Mapping[UUID, Sequence[_Purchase]],
    taken: set[_Taken],
    is_meant: Callable[[_Purchase, _Purchase], bool],
) -> list[_Pair]:
    """One purchase for each reversal that means one, which is then `taken`: the newest that shares its number, or the
    only one that is alike."""
    found = []
    for back in waiting:
        own = back.gallons, back.paid_cents
        meant = [one for one in fitting.get(back.id, ()) if is_meant(back, one) and (one.id, *own) not in taken]
        if meant and (len(meant) == 1 or is_meant is _shares_number):
            found.append((back, meant[0]))
            taken.add((meant[0].id, *own))
    return found


def _shares_number(back: _Purchase, one: _Purchase) -> bool:
    """True if both name one transaction of one card or truck."""
    ours = numbers_of(back.transaction_number, back.invoice_number)
    theirs = numbers_of(one.transaction_number, one.invoice_number)
    is_one_card = back.card_last_four is not None and back.card_last_four == one.card_last_four
    is_one_truck = back.vehicle_id is not None and back.vehicle_id == one.vehicle_id
    is_one_unit = plain_number(back.unit_number) == plain_number(one.unit_number)
    return bool(ours & theirs) and (is_one_card or is_one_truck or is_one_unit)


def _is_alike(back: _Purchase, one: _Purchase) -> bool:
    return (
        back.profile == one.profile
        and back.card_last_four == one.card_last_four
        and back.unit_number == one.unit_number
        and (back.location_name or "") == (one.location_name or "")
        and (back.item or "") == (one.item or "")
    )


class _Earlier(NamedTuple):
    gallons: float
    paid_cents: int


_EARLIER = Statement(
    _Earlier,
    "SELECT DISTINCT t.gallons, t.paid_cents FROM fill_tellings t JOIN fills f ON f.id = t.fill_id"
    " WHERE t.fill_id = %s AND t.is_replaced AND NOT t.is_taken_back AND t.gallons <> f.gallons",
)
_REVIVE = Command(
    """
    WITH moved AS (
        UPDATE fill_tellings SET fill_id = %(new_id)s, is_replaced = false
        WHERE fill_id = %(fill_id)s AND gallons = %(gallons)s AND paid_cents = %(paid_cents)s)
    INSERT INTO fills (id, company_id, environment, profile, key, transaction_number, invoice_number, card_last_four,
        driver_name, file_id, has_time, has_zone, unit_number, location_name, station_code, city, state, item, fuel,
        gallons, paid_cents, currency, bought_at, time_zone, vehicle_id, station_id, route_id, score,
        miles_from_truck, review)
    SELECT %(new_id)s, company_id, environment, profile, %(key)s, transaction_number, invoice_number,
        card_last_four, driver_name, file_id, has_time, has_zone, unit_number, location_name, station_code, city, state,
        item, fuel, %(gallons)s, %(paid_cents)s, currency, bought_at, time_zone, vehicle_id, station_id, route_id,
        score, miles_from_truck, ARRAY[%(doubt)s::text]
    FROM fills WHERE id = %(fill_id)s
    """
)


def _ask_about_earlier_figures(connection: Connection, fill_id: UUID) -> None:
    """Ask a person about earlier gallons that the card never took back: either its correction was taken back, or the
    files came in another order. The person decides whether the earlier figures count."""
    for one in _EARLIER.all(connection, (fill_id,)):
        own = new_id()
        more = {"new_id": own, "key": own.hex, "fill_id": fill_id, "doubt": CORRECTED}
        _REVIVE.execute(connection, {**one._asdict(), **more})


class WaitingReversal(NamedTuple):
    """A reversal that has taken nothing back yet, and the file that brought it."""

    id: UUID
    file_id: UUID | None
    transaction_number: str | None
    invoice_number: str | None


_WAITING_FOR = Statement(
    WaitingReversal,
    f"SELECT id, file_id, transaction_number, invoice_number FROM fills WHERE {_WAITING}"
    " AND gallons = -%(gallons)s::float8 AND paid_cents = -%(paid_cents)s::bigint AND fuel = %(fuel)s"
    " AND card_last_four IS NOT DISTINCT FROM %(card_last_four)s AND state IS NOT DISTINCT FROM %(state)s ORDER BY id",
)


def take_back_figures(
    connection: Connection, tenant: Tenant, purchase: CardPurchase, fill_id: UUID
) -> WaitingReversal | None:
    """The waiting reversal that fits just these figures of the transaction, if there is one: it takes them back, and
    the fill keeps its own."""
    ours = numbers_of(purchase.transaction_number, purchase.invoice_number)
    for one in _WAITING_FOR.all(connection, {**purchase._asdict(), **tenant._asdict()}):
        if ours & numbers_of(one.transaction_number, one.invoice_number):
            _COUNTER.execute(connection, (fill_id, one.id))
            return one
    return None
