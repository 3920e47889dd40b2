"""Pairs reversals with the purchases that they take back, whichever came first."""

from typing import NamedTuple
from uuid import UUID

from domain.database import Connection, Tenant
from domain.statements import Statement


class _Paired(NamedTuple):
    id: UUID
    route_id: UUID | None


_PAIR = Statement(
    _Paired,
    """
    WITH back AS (
        SELECT id, profile, fuel, card_last_four, unit_number, gallons, paid_cents, bought_at,
               coalesce(transaction_number, '') AS number, coalesce(item, '') AS item,
               coalesce(location_name, '') AS place,
               row_number() OVER (PARTITION BY profile, item, card_last_four, unit_number, location_name, gallons,
                                  transaction_number ORDER BY bought_at, id) AS turn
        FROM fills WHERE company_id = %(company_id)s AND environment = %(environment)s
          AND 'reversal' = ANY(review) AND review <> '{}' AND counter_id IS NULL AND gallons < 0
    ), taken AS (
        SELECT back.id AS back_id, f.id, back.turn,
               dense_rank() OVER (PARTITION BY back.id ORDER BY (coalesce(f.transaction_number, '') = back.number) DESC,
                                  f.bought_at DESC, f.id) AS rank,
               count(*) FILTER (WHERE coalesce(f.transaction_number, '') = back.number AND back.number <> '')
                   OVER (PARTITION BY back.id) AS numbered,
               count(*) OVER (PARTITION BY back.id) AS fitting,
               coalesce(f.transaction_number, '') = back.number AND back.number <> '' AS is_numbered
        FROM back JOIN fills f ON f.company_id = %(company_id)s AND f.environment = %(environment)s
             AND f.bought_at <= back.bought_at + interval '1 day' AND f.bought_at >= back.bought_at - interval '60 days'
             AND f.gallons = -back.gallons AND f.paid_cents = -back.paid_cents AND f.profile = back.profile
             AND f.card_last_four IS NOT DISTINCT FROM back.card_last_four
             AND f.unit_number IS NOT DISTINCT FROM back.unit_number
             AND coalesce(f.item, '') = back.item AND coalesce(f.location_name, '') = back.place
             AND f.counter_id IS NULL
    ), pair AS (
        SELECT DISTINCT ON (id) back_id, id FROM taken
        WHERE CASE WHEN numbered > 0 THEN is_numbered AND rank = turn ELSE fitting = 1 END
        ORDER BY id, back_id
    )
    UPDATE fills f SET counter_id = CASE WHEN f.id = pair.id THEN pair.back_id ELSE pair.id END,
        review = CASE WHEN f.id = pair.id THEN f.review ELSE '{}' END,
        score = CASE WHEN f.id = pair.id THEN f.score ELSE 100 END
    FROM pair WHERE f.id IN (pair.id, pair.back_id)
    RETURNING f.id, f.route_id
    """,
)
"""A reversal takes back the fill of the same card, unit, place, item, gallons and amount: the one with its transaction
number, else the only one of the 60 days before. Among equals, one each."""


def pair_reversals(connection: Connection, tenant: Tenant) -> set[UUID]:
    """The routes of the fills that were paired. The caller has locked the company."""
    paired = _PAIR.all(connection, tenant._asdict())
    return {row.route_id for row in paired if row.route_id is not None}
