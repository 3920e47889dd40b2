"""Compares the needs of a company with the notices of its subscriptions: opens notices, makes them due, ends them.

The beginning of a need is a row. It waits until the need has lasted long enough and the quiet hours are over; then it
is `pending`, and a worker sends it, see `notice_life`. When the need is gone, its end is another row, if the beginning
may have arrived. A person who was not told the beginning is not told the end. A told need counts as over once it has
been gone for a while (`FUELROUTE_NOTICES_END_SECONDS`), so one that comes and goes is one need. At most one notice of a
kind is on its way to a subscription: an end never overtakes its beginning, nor a beginning the end before it."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.fence import is_at_work
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.ids import new_id
from domain.lifecycle import Environment
from domain.needs.company_needs import find_needs
from domain.needs.need import Need, Summary
from domain.needs.route_needs import RoutesInNeed
from domain.notices.answer_notices import store_answer_notices
from domain.notices.notice_text import beginning_text, end_text
from domain.notices.subscriptions import OPERATORS, Subscription, lock_subscriptions, needs_of

DOUBT = "The sender did not come back: nobody knows whether it went out, so it is not sent again"
OVER = "The need was over before it was told"
UNWANTED = "Nobody wants to be told of it any more"


class Told(NamedTuple):
    """The outcome of one look at needs: the counts, and the notices to send after the commit."""

    opened: int = 0
    ended: int = 0
    due: Sequence[UUID] = ()


# --- The companies to look at ----------------------------------------------------------------------------------

_COMPANIES = Scalar(
    UUID,
    f"""
    SELECT c.id FROM companies c WHERE c.retired_at IS NULL AND {is_at_work("c.id")}
      AND (EXISTS (SELECT FROM notice_subscriptions s WHERE s.company_id = c.id AND s.disabled_at IS NULL)
           OR EXISTS (SELECT FROM notices n
                      WHERE n.company_id = c.id AND (n.ended_at IS NULL OR n.settled_at IS NULL)))
    ORDER BY c.id
    """,
)


def companies_to_tell(connection: Connection) -> list[UUID]:
    """Companies with an enabled subscription, or with a notice that is open or on its way."""
    return _COMPANIES.all(connection)


# --- One look at a company -------------------------------------------------------------------------------------


class _UnderWay(NamedTuple):
    """A notice that is open, or not settled."""

    id: UUID
    subscription_id: UUID
    kind: str
    part: str
    opened_at: datetime
    is_open: NotNull[bool]
    gone_at: datetime | None
    status: str
    is_claimed: NotNull[bool]
    retry_at: datetime | None


_UNDER_WAY = Statement(
    _UnderWay,
    "SELECT id, subscription_id, kind, part, opened_at, ended_at IS NULL AS is_open, gone_at, status,"
    " claimed_until IS NOT NULL AS is_claimed, retry_at FROM notices"
    " WHERE company_id = %s AND (ended_at IS NULL OR settled_at IS NULL) ORDER BY id FOR UPDATE",
)
_DOUBT = Command(
    "UPDATE notices SET status = 'doubtful', settled_at = %(now)s, retry_at = NULL, claimed_until = NULL,"
    " error = %(error)s WHERE company_id = %(company_id)s AND status = 'pending' AND claimed_until <= %(now)s"
)
_OPEN = Command(
    "INSERT INTO notices (id, company_id, subscription_id, kind, part, opened_at, ended_at)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s)"
)
_MAKE_DUE = Command(
    "UPDATE notices SET status = 'pending', text = %s, routes = %s, due_at = %s, retry_at = %s"
    " WHERE company_id = %s AND id = %s"
)
_END = Command("UPDATE notices SET ended_at = %s WHERE company_id = %s AND id = %s")
_GONE = Command("UPDATE notices SET gone_at = %s WHERE company_id = %s AND id = %s")
_DROP = Command(
    "UPDATE notices SET status = 'dropped', ended_at = coalesce(ended_at, %(now)s), settled_at = %(now)s,"
    " retry_at = NULL, error = %(why)s WHERE company_id = %(company_id)s AND id = %(id)s"
)


def tell_company(
    connection: Connection, company_id: UUID, *, console: str, end_after: timedelta, now: datetime
) -> Told:
    """Looks once at a company's needs. The answer has whatever is due, also where an earlier job was lost. A need that
    was told is over when it has been gone for `end_after`."""
    company = _AT_WORK.first(connection, (company_id,))
    if company is None:  # since the pass found it, it was retired or is being moved
        return Told()
    subscriptions = _enabled(connection, company_id)
    wanted = {kind for one in subscriptions.values() for kind in one.kinds}
    store_answer_notices(connection, company_id, subscriptions.values(), company=company, console=console, now=now)
    needs = find_needs(connection, Tenant(company_id, Environment.LIVE), kinds=wanted, now=now)
    return _Look(connection, company_id, company, console, subscriptions, needs, end_after, now).tell()


def _enabled(connection: Connection, owner_id: UUID) -> dict[UUID, Subscription]:
    return {one.id: one for one in lock_subscriptions(connection, owner_id) if one.disabled_at is None}


_OPERATORS_WAIT = Scalar(
    NotNull[bool],
    "SELECT EXISTS (SELECT FROM notice_subscriptions WHERE company_id = %(owner)s AND disabled_at IS NULL)"
    " OR EXISTS (SELECT FROM notices WHERE company_id = %(owner)s AND (ended_at IS NULL OR settled_at IS NULL))",
)


def are_operators_told(connection: Connection) -> bool:
    """Tell if an operator wants to be told something, or a notice to one is open or on its way."""
    return _OPERATORS_WAIT.one(connection, {"owner": OPERATORS})


def tell_operators(
    connection: Connection, urgent: Mapping[str, Summary], *, console: str, end_after: timedelta, now: datetime
) -> Told:
    """Does the same with what is urgent in the whole service. The scheduler sends what is due by itself: the queue may
    be what is in trouble."""
    subscriptions = _enabled(connection, OPERATORS)
    return _Look(connection, OPERATORS, "Fuelroute", console, subscriptions, urgent, end_after, now).tell()


_AT_WORK = Scalar(
    str, f"SELECT c.name FROM companies c WHERE c.id = %s AND c.retired_at IS NULL AND {is_at_work('c.id')}"
)


class _Look(NamedTuple):
    """One look at a company, or at the whole service, inside a transaction that has locked the subscriptions."""

    connection: Connection
    company_id: UUID
    """The company, or OPERATORS."""
    company: str
    console: str
    subscriptions: Mapping[UUID, Subscription]
    """The enabled subscriptions."""
    needs: Mapping[str, RoutesInNeed | Summary]
    end_after: timedelta
    now: datetime

    def tell(self) -> Told:
        _DOUBT.execute(self.connection, {"company_id": self.company_id, "now": self.now, "error": DOUBT})
        under_way = _UNDER_WAY.all(self.connection, (self.company_id,))
        ended = self.end_what_is_over(under_way)
        opened = self.open_what_began(under_way)
        return Told(opened, ended, self.make_due(_UNDER_WAY.all(self.connection, (self.company_id,))))

    def end_what_is_over(self, under_way: Sequence[_UnderWay]) -> int:
        """Ends open notices whose need is gone, and drops those that no subscription wants any more. Notices that a
        worker is sending now wait for the next comparison."""
        ended = 0
        for notice in under_way:
            if notice.status == "pending" and notice.is_claimed:
                continue
            is_wanted = self._is_wanted(notice)
            if not notice.is_open:
                if not is_wanted:
                    self._drop(notice, UNWANTED)
                continue
            if is_wanted and notice.kind in self.needs:
                if notice.gone_at is not None:
                    _GONE.execute(self.connection, (None, self.company_id, notice.id))
                continue
            if is_wanted and notice.status not in ("waiting", "pending") and not self._is_over(notice):
                continue
            ended += 1
            if notice.status in ("waiting", "pending"):
                self._drop(notice, OVER if is_wanted else UNWANTED)
                continue
            _END.execute(self.connection, (self.now, self.company_id, notice.id))
            if is_wanted and notice.status in ("sent", "doubtful"):
                self._open(notice.subscription_id, notice.kind, "end", notice.opened_at)
        return ended

    def _is_over(self, notice: _UnderWay) -> bool:
        """Tell if the need has been gone for long enough. The first comparison without it is noted."""
        if notice.gone_at is None:
            _GONE.execute(self.connection, (self.now, self.company_id, notice.id))
        return self.now - (notice.gone_at or self.now) >= self.end_after

    def open_what_began(self, under_way: Sequence[_UnderWay]) -> int:
        known = {(one.subscription_id, one.kind) for one in under_way if one.is_open}
        began = [
            (subscription.id, kind)
            for subscription in self.subscriptions.values()
            for kind in needs_of(self.company_id)
            if kind in self.needs and kind in subscription.kinds and (subscription.id, kind) not in known
        ]
        for subscription_id, kind in began:
            self._open(subscription_id, kind, "beginning", self.now)
        return len(began)

    def make_due(self, under_way: Sequence[_UnderWay]) -> list[UUID]:
        """Makes due the notices that have waited long enough, and lists all that are due. Notices are read in their
        order, because an earlier one holds up later ones of its kind."""
        due, on_their_way = list[UUID](), set[tuple[UUID, str]]()
        for notice in under_way:
            subscription = self.subscriptions.get(notice.subscription_id)
            key = notice.subscription_id, notice.kind
            if subscription is None or notice.status not in ("waiting", "pending") or key in on_their_way:
                continue
            on_their_way.add(key)
            if subscription.is_quiet(self.now) and notice.part != "test":
                continue
            if notice.status == "waiting" and not self._become_due(notice, subscription):
                continue
            if not notice.is_claimed and (notice.retry_at is None or notice.retry_at <= self.now):
                due.append(notice.id)
        return due

    def _become_due(self, notice: _UnderWay, subscription: Subscription) -> bool:
        """Writes the text of a waiting notice. Returns False if it has to wait longer."""
        if notice.part == "end":
            text, routes = self._end_text(needs_of(self.company_id)[notice.kind], notice, subscription), None
        elif self.now - notice.opened_at < timedelta(minutes=subscription.minutes_of(notice.kind)):
            return False
        else:
            found = self.needs[notice.kind]
            text = beginning_text(found, company=self.company, console=self.console)
            routes = found.routes if isinstance(found, RoutesInNeed) else None
        _MAKE_DUE.execute(self.connection, (text, routes, self.now, self.now, self.company_id, notice.id))
        return True

    def _end_text(self, need: Need, notice: _UnderWay, subscription: Subscription) -> str:
        return end_text(
            need, notice.opened_at, company=self.company, console=self.console, time_zone=subscription.time_zone
        )

    def _is_wanted(self, notice: _UnderWay) -> bool:
        subscription = self.subscriptions.get(notice.subscription_id)
        return subscription is not None and (notice.part == "test" or notice.kind in subscription.kinds)

    def _open(self, subscription_id: UUID, kind: str, part: str, opened_at: datetime) -> None:
        ended_at = self.now if part == "end" else None
        parameters = (new_id(), self.company_id, subscription_id, kind, part, opened_at, ended_at)
        _OPEN.execute(self.connection, parameters)

    def _drop(self, notice: _UnderWay, why: str) -> None:
        parameters = {"company_id": self.company_id, "id": notice.id, "now": self.now, "why": why}
        _DROP.execute(self.connection, parameters)
