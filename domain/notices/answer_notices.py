"""Tells people of a company what drivers answer to their fuel stops: that they go there, have fueled, or cannot.

Answers are no needs: nothing has to be done about most of them. So they are gathered, and a subscription gets at most
one text in a quarter of an hour, however many drivers answer. A refusal that leaves a driver without a plan, and a
choice that a dispatcher decides on, are needs, and are told as such."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, NotNull, Statement
from domain.ids import first_id_of, new_id
from domain.lifecycle import AnswerKind
from domain.notices.notice_text import NEWEST_NAMED, AnswerInText, text_of_answers
from domain.notices.subscriptions import ANSWERS, LONGEST_WAIT_MINUTES, Subscription

GATHERED_MINUTES = 15
"""Shortest time from the first answer of a text until the text; a subscription may wait longer."""
TOLD_FOR = timedelta(days=1)
"""Answers that are older than this and the subscription's wait are no news: they are not told."""
_STORED_WITHIN = timedelta(minutes=1)
"""An answer is in the tables this long after its time at the latest, so no text passes over one that is on its way."""


class _Told(NamedTuple):
    subscription_id: UUID
    until: NotNull[datetime]
    is_under_way: NotNull[bool]


_TOLD = Statement(
    _Told,
    "SELECT subscription_id, max(ended_at) AS until, bool_or(settled_at IS NULL) AS is_under_way FROM notices"
    " WHERE company_id = %s AND kind = %s AND part = 'answers' AND id > %s GROUP BY subscription_id",
)


class _Answer(NamedTuple):
    external_id: str
    kind: str
    place: str
    answers: NotNull[int]
    first_at: NotNull[datetime]
    last_at: NotNull[datetime]


_NEWEST = Statement(
    _Answer,
    """
    SELECT r.external_id, a.kind, a.place, count(*) OVER () AS answers, min(a.answered_at) OVER () AS first_at,
           max(a.answered_at) OVER () AS last_at
    FROM driver_answers a JOIN routes r ON r.id = a.route_id AND r.company_id = a.company_id
    WHERE a.company_id = %(company_id)s AND a.environment = 'live' AND NOT a.is_late
      AND a.answered_at > %(since)s AND a.answered_at <= %(until)s
    ORDER BY a.answered_at DESC, a.id DESC LIMIT %(named)s
    """,
)
_TELL = Command(
    "INSERT INTO notices (id, company_id, subscription_id, kind, part, opened_at, ended_at, text, status, due_at,"
    " retry_at) VALUES (%(id)s, %(company_id)s, %(subscription_id)s, %(kind)s, 'answers', %(first_at)s, %(last_at)s,"
    " %(text)s, 'pending', %(now)s, %(now)s)"
)


def store_answer_notices(
    connection: Connection,
    company_id: UUID,
    subscriptions: Iterable[Subscription],
    *,
    company: str,
    console: str,
    now: datetime,
) -> None:
    """Stores a notice for each of these locked subscriptions that wants answers, has untold ones for long enough, and
    has no text of them on its way."""
    wanting = [one for one in subscriptions if ANSWERS.kind in one.kinds and not one.is_quiet(now)]
    if not wanting:
        return
    longest = TOLD_FOR + timedelta(minutes=LONGEST_WAIT_MINUTES)
    told = _TOLD.all(connection, (company_id, ANSWERS.kind, first_id_of(now - longest)))
    until = {one.subscription_id: one.until for one in told}
    busy = {one.subscription_id for one in told if one.is_under_way}
    for subscription in wanting:
        since = max(until.get(subscription.id, subscription.created_at), now - TOLD_FOR - _wait_of(subscription))
        newest = _untold(connection, company_id, subscription, since, now) if subscription.id not in busy else []
        if newest:
            answers = [AnswerInText(one.external_id, AnswerKind(one.kind), one.place) for one in newest]
            text = text_of_answers(answers, newest[0].answers, company=company, address=f"{console}{ANSWERS.path}")
            of = {"id": new_id(), "company_id": company_id, "subscription_id": subscription.id, "kind": ANSWERS.kind}
            times = {"first_at": newest[0].first_at, "last_at": newest[0].last_at, "now": now}
            _TELL.execute(connection, {**of, **times, "text": text})


def _untold(
    connection: Connection, company_id: UUID, subscription: Subscription, since: datetime, now: datetime
) -> list[_Answer]:
    """The newest untold answers; none while the first of all of them is younger than the subscription's wait."""
    asked = {"company_id": company_id, "since": since, "until": now - _STORED_WITHIN, "named": NEWEST_NAMED}
    newest = _NEWEST.all(connection, asked)
    return newest if newest and newest[0].first_at <= now - _wait_of(subscription) else []


def _wait_of(subscription: Subscription) -> timedelta:
    return timedelta(minutes=max(subscription.minutes_of(ANSWERS.kind), GATHERED_MINUTES))
