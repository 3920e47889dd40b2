"""The notices of a company for people, the newest first; tests of a channel; and retention."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.audit.entries import Action, Actor
from domain.database.connections import Connection
from domain.database.statements import Command, Scalar, Statement
from domain.ids import first_id_of, new_id
from domain.notices.notice_text import text_of_test
from domain.notices.subscriptions import OPERATORS, SUBSCRIPTIONS, UnusableSubscription, record_subscription_action
from domain.queue.jobs import after_commit, send_notice_job

MOST_TESTS = 10
TESTS_WITHIN = timedelta(minutes=10)
"""The span in which tests of one owner's subscriptions are counted and limited, because the person behind a channel
need not have asked for a test."""


class Notice(NamedTuple):
    """One text to a subscription, and its outcome."""

    id: UUID
    subscription_id: UUID
    name: str | None
    """The subscription's name; None if it was removed."""
    kind: str
    part: str
    opened_at: datetime
    text: str | None
    status: str
    attempts: int
    due_at: datetime | None
    retry_at: datetime | None
    settled_at: datetime | None
    error: str | None


_LIST = Statement(
    Notice,
    """
    SELECT n.id, n.subscription_id, s.name, n.kind, n.part, n.opened_at, n.text, n.status, n.attempts, n.due_at,
           n.retry_at, n.settled_at, n.error
    FROM notices n LEFT JOIN notice_subscriptions s ON s.id = n.subscription_id AND s.company_id = n.company_id
    WHERE n.company_id = %(company_id)s
      AND (%(subscription_ids)s::uuid[] IS NULL OR n.subscription_id = ANY(%(subscription_ids)s))
    ORDER BY n.id DESC LIMIT %(limit)s
    """,
)


def list_notices(
    connection: Connection, company_id: UUID, *, subscription_ids: Iterable[UUID] | None = None, limit: int
) -> list[Notice]:
    """The company's notices, or those of some subscriptions, newest first."""
    ids = list(subscription_ids) if subscription_ids is not None else None
    parameters = {"company_id": company_id, "subscription_ids": ids, "limit": limit}
    return _LIST.all(connection, parameters)


_COUNT_TESTS = Scalar(int, "SELECT count(*) FROM notices WHERE company_id = %s AND id > %s AND part = 'test'")
_INSERT_TEST = Command(
    "INSERT INTO notices (id, company_id, subscription_id, kind, part, opened_at, ended_at, text, status, due_at,"
    " retry_at) VALUES (%s, %s, %s, 'test', 'test', %s, %s, %s, 'pending', %s, %s)"
)


def send_test_notice(
    connection: Connection,
    company_id: UUID,
    subscription_id: UUID,
    by: Actor,
    *,
    company: str,
    console: str,
    now: datetime,
) -> None:
    """Stores a notice that tells of no need, whatever the hour. The scheduler sends one to the operators, a job any
    other. Raises UnknownSubscription, UnusableSubscription."""
    subscription = SUBSCRIPTIONS.lock(connection, company_id, subscription_id)
    if subscription.disabled_at is not None:
        raise UnusableSubscription("the subscription is switched off: switch it on first")
    if _COUNT_TESTS.one(connection, (company_id, first_id_of(now - TESTS_WITHIN))) >= MOST_TESTS:
        raise UnusableSubscription(
            f"{MOST_TESTS} tests were sent within {TESTS_WITHIN // timedelta(minutes=1)} minutes: wait a few minutes"
        )
    notice_id = new_id()
    page = "operator-notices" if company_id == OPERATORS else "notices"
    text = text_of_test(subscription.name, company=company, address=f"{console}/{page}")
    _INSERT_TEST.execute(connection, (notice_id, company_id, subscription_id, now, now, text, now, now))
    record_subscription_action(connection, by, Action("notices.test"), company_id, subscription_id)
    if company_id != OPERATORS:
        after_commit(connection, send_notice_job(notice_id, company_id))


_FORGET = Command(
    "DELETE FROM notices WHERE id IN"
    " (SELECT id FROM notices WHERE id < %s AND ended_at IS NOT NULL ORDER BY id LIMIT %s)"
)


def forget_notices(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes old notices whose need is over. A notice stays while its need lasts, and keeps the need from being told
    again. Returns how many were deleted."""
    return _FORGET.execute(connection, (first_id_of(now - timedelta(days=days)), limit)).rowcount
