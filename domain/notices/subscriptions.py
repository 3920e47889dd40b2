"""Subscriptions: who is told which needs, by which channel, and when not.

People of a company bring the URL of the channel, so it is treated as hostile, as a driver's contact is, by the rule in
`accounts/contact_urls.py`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID
from zoneinfo import available_timezones

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.companies import lock_company
from domain.accounts.contact_urls import channel_of, fault_of
from domain.accounts.contacts import Contacts, SealedColumn
from domain.accounts.users import MAY_MANAGE_USERS
from domain.audit.entries import Action, Actor, audit_subject, record_action
from domain.database.connections import Connection, as_json
from domain.database.owned import Owned
from domain.database.statements import Command, Statement
from domain.errors import FuelrouteError, Unknown
from domain.ids import new_id, shown_id
from domain.lifecycle import Role
from domain.needs.company_needs import COMPANY_NEEDS
from domain.needs.need import Need
from domain.needs.operator_needs import OPERATOR_NEEDS
from domain.notices.quiet_hours import MINUTES_OF_DAY, QuietHours

OPERATORS = UUID(int=0)
"""The owner of the operators' subscriptions and notices, in place of a company: no company has this id."""

MOST_SUBSCRIPTIONS = 50
"""Most subscriptions of a company: each is compared with its needs every minute, and may send as often."""

LONGEST_NAME = 100
LONGEST_WAIT_MINUTES = 7 * MINUTES_OF_DAY
_LONGEST_URL = 2_000


class UnusableSubscription(FuelrouteError):
    """A value cannot be set; the text names it."""


class UnknownSubscription(Unknown):
    def __init__(self, named: str) -> None:
        super().__init__(f"there is no subscription {named!r}")


class Subscription(NamedTuple):
    """A stored subscription without its URL."""

    id: UUID
    company_id: UUID
    user_id: UUID | None
    """The person who subscribed; None for the company's own."""
    name: str
    kinds: list[str]
    channel: str
    """The kind of gateway in its URL, such as `slack`."""
    after_minutes: int
    minutes_by_kind: dict[str, int]
    """Kinds that are told after another number of minutes than `after_minutes`."""
    quiet_from: int | None
    quiet_until: int | None
    time_zone: str
    created_at: datetime
    disabled_at: datetime | None

    @property
    def quiet_hours(self) -> QuietHours | None:
        return QuietHours.of(self.quiet_from, self.quiet_until, self.time_zone)

    def is_quiet(self, now: datetime) -> bool:
        return self.quiet_hours is not None and self.quiet_hours.have(now)

    def minutes_of(self, kind: str) -> int:
        """Minutes that a need of this kind must last before it is told."""
        return self.minutes_by_kind.get(kind, self.after_minutes)

    def is_for(self, user_id: UUID, role: Role) -> bool:
        """Tell if this person sees and changes it. Dispatchers see the company's and their own, owners also those of
        others."""
        return self.user_id in (None, user_id) or role in MAY_MANAGE_USERS


class SubscriptionValues(NamedTuple):
    """The values that people choose. A `url` of None leaves it as it is."""

    name: str
    kinds: Sequence[str]
    url: str | None
    after_minutes: int
    quiet_from: int | None
    quiet_until: int | None
    time_zone: str
    minutes_by_kind: Mapping[str, int] = {}


SUBSCRIPTIONS = Owned(Subscription, "notice_subscriptions", kind="sub", unknown=UnknownSubscription)
"""The subscriptions of companies and of the OPERATORS. They are locked before their notices."""


STATEMENTS = Need(
    kind="savings_statement",
    label="The statement of savings of the month before, as a signed PDF",
    ended="",
    path="/savings/statements",
)
"""A kind that is no need: it is told once for each month, and never ends."""

ANSWERS = Need(
    kind="driver_answers",
    label="Answers of drivers to their fuel stops, gathered for a quarter of an hour or longer",
    ended="",
    path="/routes?status=active",
)
"""A kind that is no need: answers are gathered, see `answer_notices.py`. Nobody gets them without choosing them."""

_NEEDS_OF_OPERATORS: Mapping[str, Need] = {need.kind: need for need in OPERATOR_NEEDS}
_NEEDS_OF_COMPANIES: Mapping[str, Need] = {need.kind: need for need in (*COMPANY_NEEDS, STATEMENTS, ANSWERS)}


def needs_of(owner_id: UUID) -> Mapping[str, Need]:
    """The needs that the owner of a subscription can be told, by their kinds: a company's with STATEMENTS and ANSWERS,
    or those of OPERATORS."""
    return _NEEDS_OF_OPERATORS if owner_id == OPERATORS else _NEEDS_OF_COMPANIES


def proposed_kinds(owner_id: UUID) -> list[str]:
    """The kinds that a new subscription of this owner is offered with: all but ANSWERS, which would fill a mailbox
    without anything to do."""
    return [kind for kind in needs_of(owner_id) if kind != ANSWERS.kind]


CHANNELS = SealedColumn("notice_subscriptions", "url")

_INSERT = Statement(
    Subscription,
    "INSERT INTO notice_subscriptions"
    " (id, company_id, user_id, name, kinds, url, channel, after_minutes, minutes_by_kind, quiet_from, quiet_until,"
    f" time_zone) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) RETURNING {SUBSCRIPTIONS.columns}",
)
_LOCK_ALL = Statement(
    Subscription,
    f"SELECT {SUBSCRIPTIONS.columns} FROM notice_subscriptions WHERE company_id = %s ORDER BY id FOR NO KEY UPDATE",
)


def add_subscription(
    connection: Connection,
    company_id: UUID,
    user_id: UUID | None,
    values: SubscriptionValues,
    by: Actor,
    *,
    allowed: AllowedHosts,
    contacts: Contacts,
) -> Subscription:
    """Stores a new, enabled subscription of a company, or of the OPERATORS. Raises UnusableSubscription, which names
    the value that cannot be set, UnknownCompany, RetiredCompany."""
    if values.url is None:
        raise UnusableSubscription("give the address that the notices go to")
    values = _checked(company_id, values, allowed)
    if company_id != OPERATORS:
        lock_company(connection, company_id)
    full = UnusableSubscription(f"there are {MOST_SUBSCRIPTIONS} subscriptions already: remove one first")
    SUBSCRIPTIONS.require_room(connection, (company_id,), MOST_SUBSCRIPTIONS, full)
    parameters = (
        *(new_id(), company_id, user_id, values.name, list(values.kinds), contacts.seal(values.url)),
        *(channel_of(values.url or ""), values.after_minutes, as_json(values.minutes_by_kind)),
        *(values.quiet_from, values.quiet_until, values.time_zone),
    )
    made = _INSERT.one(connection, parameters)
    record_subscription_action(connection, by, Action("notices.add"), company_id, made.id)
    return made


def record_subscription_action(
    connection: Connection, by: Actor, action: Action, company_id: UUID, subscription_id: UUID
) -> None:
    """Writes to the audit log what was done to a subscription. One of the operators belongs to no company."""
    kind = "operators' subscription" if company_id == OPERATORS else "notice subscription"
    subject = audit_subject(kind, shown_id("sub", subscription_id))
    record_action(connection, by, action, subject, company_id=None if company_id == OPERATORS else company_id)


def lock_subscriptions(connection: Connection, company_id: UUID) -> list[Subscription]:
    """A company's subscriptions, locked in the order of their ids."""
    return _LOCK_ALL.all(connection, (company_id,))


_SET = Command(
    """
    UPDATE notice_subscriptions
    SET name = %s, kinds = %s, url = coalesce(%s, url), channel = coalesce(%s, channel), after_minutes = %s,
        minutes_by_kind = %s, quiet_from = %s, quiet_until = %s, time_zone = %s
    WHERE company_id = %s AND id = %s
    """
)
_WAIT_NO_LONGER = Command(
    "UPDATE notices SET retry_at = %s WHERE company_id = %s AND subscription_id = %s AND status = 'pending'"
    " AND claimed_until IS NULL AND retry_at > %s"
)
_DISABLE = Command("UPDATE notice_subscriptions SET disabled_at = %s WHERE company_id = %s AND id = %s")
_REMOVE = Command("DELETE FROM notice_subscriptions WHERE company_id = %s AND id = %s")


def change_subscription(
    connection: Connection,
    company_id: UUID,
    subscription_id: UUID,
    values: SubscriptionValues,
    by: Actor,
    *,
    allowed: AllowedHosts,
    contacts: Contacts,
    now: datetime,
) -> None:
    """Changes a subscription. With another URL its waiting notices are due at once. Raises UnknownSubscription, and
    UnusableSubscription, which names the value that cannot be set."""
    SUBSCRIPTIONS.lock(connection, company_id, subscription_id)
    values = _checked(company_id, values, allowed)
    parameters = (
        *(values.name, list(values.kinds), contacts.seal(values.url)),
        *(channel_of(values.url) if values.url is not None else None, values.after_minutes),
        *(
            as_json(values.minutes_by_kind),
            values.quiet_from,
            values.quiet_until,
            values.time_zone,
            company_id,
            subscription_id,
        ),
    )
    _SET.execute(connection, parameters)
    if values.url is not None:
        _WAIT_NO_LONGER.execute(connection, (now, company_id, subscription_id, now))
    record_subscription_action(connection, by, Action("notices.change"), company_id, subscription_id)


def enable_subscription(connection: Connection, company_id: UUID, subscription_id: UUID, by: Actor) -> None:
    """Enables a subscription. Present needs are told as if they began now. Raises UnknownSubscription."""
    SUBSCRIPTIONS.lock(connection, company_id, subscription_id)
    _DISABLE.execute(connection, (None, company_id, subscription_id))
    record_subscription_action(connection, by, Action("notices.enable"), company_id, subscription_id)


def disable_subscription(
    connection: Connection, company_id: UUID, subscription_id: UUID, by: Actor, *, now: datetime
) -> None:
    """Disables a subscription: nothing more is sent to it, not even the end of a need. Raises UnknownSubscription."""
    SUBSCRIPTIONS.lock(connection, company_id, subscription_id)
    _DISABLE.execute(connection, (now, company_id, subscription_id))
    record_subscription_action(connection, by, Action("notices.disable"), company_id, subscription_id)


def remove_subscription(connection: Connection, company_id: UUID, subscription_id: UUID, by: Actor) -> None:
    """Removes it for good. Its notices stay until retention deletes them. Raises UnknownSubscription."""
    SUBSCRIPTIONS.lock(connection, company_id, subscription_id)
    _REMOVE.execute(connection, (company_id, subscription_id))
    record_subscription_action(connection, by, Action("notices.remove"), company_id, subscription_id)


# --- The rule for values ---------------------------------------------------------------------------------------


def _checked(owner_id: UUID, values: SubscriptionValues, allowed: AllowedHosts) -> SubscriptionValues:
    """The values to store. Raises UnusableSubscription, which names the value that cannot be set."""
    known = needs_of(owner_id)
    name, url = values.name.strip(), values.url.strip() if values.url is not None else None
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UnusableSubscription(f"the name is one line of at most {LONGEST_NAME} characters")
    if url is not None:
        if len(url) > _LONGEST_URL:
            raise UnusableSubscription(f"the address has at most {_LONGEST_URL:,} characters")
        if (fault := fault_of(url, allowed)) is not None:
            raise UnusableSubscription(f"the address {fault}")
    if not values.kinds or not {*values.kinds, *values.minutes_by_kind} <= set(known):
        raise UnusableSubscription(f"choose at least one kind of needs of {', '.join(known)}")
    if any(
        not 0 <= minutes <= LONGEST_WAIT_MINUTES for minutes in (values.after_minutes, *values.minutes_by_kind.values())
    ):
        raise UnusableSubscription(f"the wait is 0 to {LONGEST_WAIT_MINUTES:,} minutes")
    if (values.quiet_from is None) != (values.quiet_until is None):
        raise UnusableSubscription("quiet hours have a beginning and an end: give both, or neither")
    for minute in (values.quiet_from, values.quiet_until):
        if minute is not None and not 0 <= minute < MINUTES_OF_DAY:
            raise UnusableSubscription("quiet hours are times from 00:00 to 23:59")
    if values.time_zone not in available_timezones():
        raise UnusableSubscription(f"no such time zone: {values.time_zone!r}; use a name such as America/Chicago")
    kinds = [kind for kind in known if kind in values.kinds]
    minutes = {kind: values.minutes_by_kind[kind] for kind in kinds if kind in values.minutes_by_kind}
    return values._replace(name=name, url=url, kinds=kinds, minutes_by_kind=minutes)
