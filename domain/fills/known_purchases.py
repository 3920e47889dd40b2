"""Reads the stored purchases that rows of a file may be, and the figures that other rows had for them."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from datetime import UTC, date, timedelta
from itertools import islice
from typing import NamedTuple
from uuid import UUID, uuid5

from domain.database.connections import Connection, Tenant, as_array
from domain.database.index_order import in_index_order
from domain.database.statements import Command, Statement
from domain.fills.repeated import SAME_CENTS, CardPurchase, Sameness, numbers_of, sameness, share_a_number

LOOKED_AROUND, DAYS_AROUND = timedelta(hours=36), 2
"""Longest time between a purchase and the day when it was posted."""
MOST_LOOKED_AT, MOST_OF_A_KIND = 20_000, 200
"""Most purchases of other files with which a batch is compared, and most with equal amounts with which a row is."""


class Telling(NamedTuple):
    """Figures of a fill in a row with this key."""

    key: str
    gallons: float
    paid_cents: int
    fill_id: UUID
    is_replaced: bool = False
    """True if the card corrected them, so that other figures count."""
    is_taken_back: bool = False

    @property
    def claimed(self) -> UUID:
        """The id that stands for them among the fills of a file. Corrected figures do not stand for the fill itself,
        because the file may have the correction, too."""
        return uuid5(self.fill_id, f"{self.gallons}|{self.paid_cents}") if self.is_replaced else self.fill_id


_TELLING = ", ".join(Telling._fields)
_TOLD = Statement(
    Telling,
    f"SELECT {_TELLING} FROM fill_tellings"
    " WHERE company_id = %(company_id)s AND environment = %(environment)s AND key = ANY(%(keys)s::text[])",
)
_TELL = Command(
    """
    INSERT INTO fill_tellings (company_id, environment, key, gallons, paid_cents, fill_id, is_replaced, is_taken_back)
    VALUES (%(company_id)s, %(environment)s, %(key)s, %(gallons)s, %(paid_cents)s, %(fill_id)s, %(is_replaced)s,
        %(is_taken_back)s)
    ON CONFLICT (company_id, environment, key, gallons, paid_cents) DO UPDATE SET fill_id = excluded.fill_id,
        is_replaced = excluded.is_replaced, is_taken_back = excluded.is_taken_back
    """
)


def read_tellings(connection: Connection, tenant: Tenant, keys: Sequence[str]) -> list[Telling]:
    return _TOLD.all(connection, {**tenant._asdict(), "keys": as_array(keys)})


def keep_telling(connection: Connection, tenant: Tenant, telling: Telling) -> None:
    """Keep the figures of a row, so that it is recognized when its file comes again."""
    _TELL.execute(connection, {**tenant._asdict(), **telling._asdict()})


_REPLACE = Command(
    "UPDATE fill_tellings SET is_replaced = true"
    " WHERE fill_id = %(fill_id)s AND gallons = %(gallons)s AND paid_cents = %(paid_cents)s"
)


def replace_figures(connection: Connection, tenant: Tenant, own: Telling) -> None:
    """Keep the figures of a fill as replaced, from all rows that had them. `own` are those of its own row."""
    keep_telling(connection, tenant, own._replace(is_replaced=True))
    _REPLACE.execute(connection, own._asdict())


_REPLACED = Statement(Telling, f"SELECT {_TELLING} FROM fill_tellings WHERE fill_id = ANY(%s) AND is_replaced")

PURCHASE_COLUMNS = ", ".join(f"f.{name}" for name in CardPurchase._fields)
"""The columns of a purchase in the table `fills f`."""
_CANDIDATES = Statement(
    CardPurchase,
    f"""
    SELECT {PURCHASE_COLUMNS} FROM (
        SELECT * FROM fills f
        WHERE f.company_id = %(company_id)s AND f.environment = %(environment)s
          AND f.bought_at BETWEEN %(since)s AND %(until)s AND f.file_id IS DISTINCT FROM %(file_id)s
        ORDER BY f.bought_at DESC, f.id OFFSET 0) AS f
    WHERE (f.vehicle_id, (f.bought_at AT TIME ZONE 'UTC')::date)
              IN (SELECT vehicle_id, day + apart FROM unnest(%(vehicle_ids)s::uuid[], %(vehicle_days)s::date[])
                      AS row (vehicle_id, day), generate_series(-{DAYS_AROUND}, {DAYS_AROUND}) AS apart)
       OR (f.paid_cents, (f.bought_at AT TIME ZONE 'UTC')::date)
              IN (SELECT cents + more, day + apart FROM unnest(%(cents)s::bigint[], %(cents_days)s::date[])
                      AS row (cents, day), generate_series(-{DAYS_AROUND}, {DAYS_AROUND}) AS apart,
                      generate_series(-{SAME_CENTS}, {SAME_CENTS}) AS more)
    LIMIT {MOST_LOOKED_AT}
    """,
)
"""One reading of the days of a batch, in the order of the index by time. Searching each truck and amount by itself
would be faster, but PostgreSQL has no statistics in a first import, and took the wrong index for each."""


class Candidates:
    """The stored purchases that a batch of rows may be, by truck and by amount."""

    def __init__(self, purchases: Iterable[CardPurchase], replaced: Iterable[Telling] = ()) -> None:
        """`replaced`: earlier figures of the purchases."""
        by_id = {one.id: one for one in purchases}
        self._replaced = {one.claimed: one for one in replaced}
        earlier = [
            by_id[one.fill_id]._replace(id=claimed, gallons=one.gallons, paid_cents=one.paid_cents)
            for claimed, one in self._replaced.items()
        ]
        self._alike: dict[Hashable, list[CardPurchase]] = defaultdict(list)
        for one in (*by_id.values(), *earlier):
            for trait in _traits(one, near=False):
                self._alike[trait].append(one)

    def closest(
        self, new: CardPurchase, known: set[UUID], wanted: Sameness, *, by_number: bool = False
    ) -> CardPurchase | None:
        """The nearest purchase with this relation to the row, without those that other rows of the file are.
        `by_number`: both share the number of a transaction or receipt."""
        if not self._alike:
            return None
        unknown = {
            one.id: one
            for trait in _traits(new, near=True)
            for one in islice((one for one in self._alike.get(trait, ()) if one.id not in known), MOST_OF_A_KIND)
        }
        fitting = {
            one.id: one
            for one in unknown.values()
            if sameness(new, one) is wanted and (not by_number or share_a_number(new, one))
        }
        found = sorted(fitting.values(), key=lambda one: _distance(new, one))
        if wanted is Sameness.CORRECTED and len(found) > 1:
            return None  # two lines of one receipt: nobody knows which was corrected
        return found[0] if found else None

    def telling_of(self, found: CardPurchase, key: str) -> Telling:
        """The figures of a row with this key, to keep with the purchase that it repeats."""
        before = self._replaced.get(found.id)
        return (
            before._replace(key=key) if before is not None else Telling(key, found.gallons, found.paid_cents, found.id)
        )


def read_candidates(
    connection: Connection, tenant: Tenant, file_id: UUID, purchases: Sequence[CardPurchase]
) -> Candidates:
    """The purchases around those days with an equal truck or amount, without those that this file brought."""
    trucks = {(one.vehicle_id, _utc_day(one)) for one in purchases if one.vehicle_id is not None}
    amounts = {(one.paid_cents, _utc_day(one)) for one in purchases}
    times = [one.bought_at for one in purchases]
    parameters = {
        **tenant._asdict(),
        "file_id": file_id,
        "since": min(times) - LOOKED_AROUND,
        "until": max(times) + LOOKED_AROUND,
        "vehicle_ids": as_array(one for one, _ in trucks),
        "vehicle_days": as_array(day for _, day in trucks),
        "cents": as_array(one for one, _ in amounts),
        "cents_days": as_array(day for _, day in amounts),
    }
    with in_index_order(connection):
        found = _CANDIDATES.all(connection, parameters)
    return Candidates(found, _REPLACED.all(connection, ([one.id for one in found],)) if found else ())


def _utc_day(one: CardPurchase) -> date:
    return one.bought_at.astimezone(UTC).date()


def _traits(one: CardPurchase, *, near: bool) -> Iterator[Hashable]:
    """Traits of which two similar purchases share one: the amount, a number, or the truck with its gallons. `near` adds
    the neighbouring values."""
    yield from (_around(one.paid_cents) if near else (one.paid_cents,))
    yield from numbers_of(one.transaction_number, one.invoice_number)
    tenth = round(one.gallons * 10)
    if one.vehicle_id is not None:
        for gallons in range(tenth - 2, tenth + 3) if near else (tenth,):
            yield one.vehicle_id, gallons


def _around(cents: int) -> range:
    return range(cents - SAME_CENTS, cents + SAME_CENTS + 1)


def _distance(new: CardPurchase, one: CardPurchase) -> tuple[bool, float, float, str]:
    """An order of candidates: purchases that still count first, then the nearest in gallons and time."""
    apart = abs((new.bought_at - one.bought_at).total_seconds())
    return one.counter_id is not None, abs(new.gallons - one.gallons), apart, str(one.id)
