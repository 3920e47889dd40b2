"""Price sets: one for each import of prices, and for each change by hand, so that a plan knows which prices it saw.

A price set is also the stored request for reviews of the plans that it may change. Stations stand below plans, so the
job `plans.after_prices` asks for the reviews.

Changes of the same prices follow one another, so a greater number is a newer price set. A change of a company's own
prices waits only for others of that company, and for changes of the prices that all companies share."""

from datetime import datetime
from uuid import UUID

from domain.audit.entries import Actor, AnyAction, audit_subject, record_action
from domain.database.connections import PRICE_LOCKS, Connection
from domain.database.fence import is_at_work
from domain.database.statements import Command, NotNull, Scalar
from domain.queue.jobs import SWEEP_GRACE, after_commit, after_prices_job

_LOCK_FOR_ALL = Command("LOCK TABLE price_sets IN EXCLUSIVE MODE")
_LOCK_BESIDE_OTHERS = Command("LOCK TABLE price_sets IN ROW EXCLUSIVE MODE")
"""It waits for `_LOCK_FOR_ALL`, and the other way round; companies do not wait for one another."""
_LOCK_COMPANY = Command(f"SELECT FROM pg_advisory_xact_lock({PRICE_LOCKS}, hashtext(%s))")
_FORGET_OLDER = Command(
    "DELETE FROM price_sets WHERE kind = %s AND company_id IS NOT DISTINCT FROM %s AND reviews_due_at IS NULL"
)
"""Each plan looks for the newest price sets that its company sees, whose kind and company few rows may have."""
_INSERT_PRICE_SET = Command(
    "INSERT INTO price_sets (kind, company_id, imported_at, reviews_due_at) VALUES (%s, %s, %s, %s)"
)


def begin_price_set(connection: Connection, kind: str, company_id: UUID | None, *, now: datetime) -> None:
    """Add a price set, and have the plans reviewed after the commit; with a `company_id` of None, of prices that all
    companies share. Others wait from here until the commit, so read and stage a file before. A transaction that adds
    both kinds adds that of all companies first; otherwise two of them would wait for each other."""
    lock_prices(connection, company_id)
    _FORGET_OLDER.execute(connection, (kind, company_id))
    _INSERT_PRICE_SET.execute(connection, (kind, company_id, now, now + SWEEP_GRACE))
    after_commit(connection, after_prices_job(company_id))


def lock_prices(connection: Connection, company_id: UUID | None) -> None:
    """Wait for others that change the company's prices, or with None those of all companies; others then wait."""
    if company_id is None:
        _LOCK_FOR_ALL.execute(connection)
    else:
        _LOCK_BESIDE_OTHERS.execute(connection)
        _LOCK_COMPANY.execute(connection, (str(company_id),))


_AT_WORK = is_at_work("price_sets.company_id")
_DUE = Scalar(
    UUID | None,
    f"SELECT DISTINCT company_id FROM price_sets WHERE reviews_due_at <= %s AND {_AT_WORK} ORDER BY 1 NULLS FIRST",
)
_TAKE = Command(
    f"UPDATE price_sets SET reviews_due_at = NULL WHERE reviews_due_at IS NOT NULL AND {_AT_WORK}"
    " AND (%(company_id)s::uuid IS NULL OR company_id = %(company_id)s)"
)


def due_price_changes(connection: Connection, *, now: datetime) -> list[UUID | None]:
    """Companies whose price sets wait for reviews and whose job seems lost; None for prices that all companies share.
    Price sets of a company that is paused, or behind the fence, wait."""
    return _DUE.all(connection, (now,))


def take_price_changes(connection: Connection, company_id: UUID | None) -> bool:
    """Take the company's price sets that wait for reviews; with None those of all companies, because shared prices may
    change every plan. Returns False if none wait. The caller asks for the reviews in the same transaction."""
    return _TAKE.execute(connection, {"company_id": company_id}).rowcount > 0


def record_by_hand(
    connection: Connection, by: Actor, action: AnyAction, kind: str, key: object, company_id: UUID | None = None
) -> None:
    """Write to the audit log what was done to a station, a deal or a tax. Stations and taxes belong to no company."""
    subject = audit_subject(kind, str(key))
    record_action(connection, by.with_reason("by hand"), action, subject, company_id=company_id)


_NEWEST = Scalar(
    NotNull[int], "SELECT coalesce(max(id), 0) FROM price_sets WHERE company_id IS NULL OR company_id = %s"
)


def newest_price_set(connection: Connection, company_id: UUID) -> int:
    """The number of the last change of prices that the company sees; 0 before the first."""
    return _NEWEST.one(connection, (company_id,))
