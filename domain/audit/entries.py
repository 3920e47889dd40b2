"""The audit log: the actions of people on a company or on the whole service, with person, time and reason.

Each row is written in the transaction that did the action."""

from datetime import datetime, timedelta
from typing import Literal, NamedTuple, NewType, TypeAlias, get_args
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, Statement
from domain.errors import FuelrouteError
from domain.ids import IdKind, first_id_of, new_id, shown_id

Action = NewType("Action", str)
"""The name of an action: a subject and a verb, such as `Action("keys.revoke")` where that is recorded. A name is stored
data: it never changes, even if its page does, and no other action gets it."""

RecordAction = Literal["add", "change", "retire", "remove", "import", "export contacts"]
"""Actions on a vehicle, driver, station, deal or tax, on files of them, and on the policy. The subject names it."""

QueueAction = Literal["pause", "resume", "replay", "discard"]
"""Actions on the queues of the whole service."""

AnyAction: TypeAlias = Action | RecordAction | QueueAction

LONGEST_REASON = 500
_LONGEST_SUBJECT = 300

MOST_SEARCHED = 10_000
"""Rows that a search for a text compares."""


class NoReason(FuelrouteError):
    """An action on the whole service was given no reason."""

    def __init__(self) -> None:
        super().__init__("say why: the reason is kept in the audit log")


class Actor(NamedTuple):
    """The person who acts, and the reason."""

    name: str
    """The e-mail address of a user of the console, or `user@host` of a person at the command line."""
    reason: str = ""

    def with_reason(self, text: str) -> "Actor":
        """The person with `text` as the reason, unless there is a reason already."""
        return self if self.reason.strip() else self._replace(reason=text)


def service_actor(reason: str) -> Actor:
    """The service itself, which acts for this reason."""
    return Actor("Fuelroute", reason)


def action_in_words(action: str) -> str:
    """A stored name for people: `users.change_role` becomes `users: change role`."""
    return action.replace(".", ": ").replace("_", " ")


class AuditRow(NamedTuple):
    id: UUID
    at: datetime
    actor: str
    action: str
    subject: str
    reason: str
    affected: int
    company_id: UUID | None
    """None for an action on the whole service."""


def audit_subject(kind: str, key: str) -> str:
    """The subject under which the log keeps something without an id of its own: `deal 12`, `station LOVES-1`."""
    return f"{kind} {key}"


_RECORD = Command(
    "INSERT INTO audit_log (id, company_id, at, actor, action, subject, reason, affected)"
    " VALUES (%s, %s, clock_timestamp(), %s, %s, %s, %s, %s)"
)


def record_action(
    connection: Connection,
    by: Actor,
    action: AnyAction,
    subject: str,
    *,
    company_id: UUID | None,
    affected: int = 1,
) -> None:
    """Write one row. `company_id` is None for an action on the whole service. Neither subject nor reason may hold a
    secret. The subject names drivers by id only, because drivers can be erased."""
    reason = by.reason.strip()[:LONGEST_REASON]
    _RECORD.execute(connection, (new_id(), company_id, by.name, action, subject[:_LONGEST_SUBJECT], reason, affected))


_KINDS: dict[IdKind, str] = {
    "con": "connector ",
    "drv": "driver ",
    "hld": "held price ",
    "src": "price source ",
    "veh": "vehicle ",
    "whe": "webhook endpoint ",
}
"""The word before an id in a subject. Ids of other kinds stand alone."""


def subject_of(kind: IdKind, id: UUID) -> str:
    """The subject under which the log keeps what was done to something with an id: `driver drv_...`."""
    return f"{_KINDS.get(kind, '')}{shown_id(kind, id)}"


def record_about(
    connection: Connection, by: Actor, action: AnyAction, kind: IdKind, id: UUID, *, company_id: UUID
) -> None:
    """Write one row about something with an id."""
    record_action(connection, by, action, subject_of(kind, id), company_id=company_id)


def require_reason(by: Actor) -> Actor:
    """The actor, if there is a reason. Raises NoReason otherwise, and nothing is done."""
    if not by.reason.strip():
        raise NoReason
    return by


# --- Reading -----------------------------------------------------------------------------------------------------

_COLUMNS = "id, at, actor, action, subject, reason, affected, company_id"
_LATEST = Statement(
    AuditRow,
    f"SELECT {_COLUMNS} FROM audit_log WHERE company_id IS NULL AND action = ANY(%s) ORDER BY id DESC LIMIT %s",
)


def latest_actions(connection: Connection, *, limit: int = 50) -> list[AuditRow]:
    """The actions on the queues, newest first."""
    return _LATEST.all(connection, (list(get_args(QueueAction)), limit))


_OF_SUBJECT = Statement(
    AuditRow,
    f"SELECT {_COLUMNS} FROM audit_log WHERE subject = %s AND company_id IS NOT DISTINCT FROM %s::uuid"
    " ORDER BY id DESC LIMIT %s",
)


def actions_on_subject(connection: Connection, company_id: UUID | None, subject: str, *, limit: int) -> list[AuditRow]:
    """The actions on one subject of a company, or of the whole service for None; newest first."""
    return _OF_SUBJECT.all(connection, (subject, company_id, limit))


_SEARCH = """
    SELECT {columns} FROM (
        SELECT {columns} FROM audit_log WHERE {whose} AND id < %(before)s ORDER BY id DESC LIMIT %(searched)s
    ) AS newest
    WHERE strpos(lower(concat_ws(' ', actor, replace(action, '_', ' '), action, subject, reason)), lower(%(text)s)) > 0
    ORDER BY id DESC LIMIT %(limit)s
"""
_SEARCH_ALL = Statement(AuditRow, _SEARCH.format(columns=_COLUMNS, whose="true"))
_SEARCH_COMPANY = Statement(AuditRow, _SEARCH.format(columns=_COLUMNS, whose="company_id = %(company_id)s"))
_NEWEST = UUID(int=2**128 - 1)


def search_actions(
    connection: Connection,
    company_id: UUID | None,
    text: str = "",
    *,
    before: UUID | None = None,
    limit: int,
) -> list[AuditRow]:
    """The actions of a company, or all actions for None, that contain the text; newest first.

    Only the `MOST_SEARCHED` newest rows before the row `before` are searched."""
    statement = _SEARCH_ALL if company_id is None else _SEARCH_COMPANY
    return statement.all(
        connection,
        {
            "company_id": company_id,
            "text": text,
            "before": before or _NEWEST,
            "searched": MOST_SEARCHED,
            "limit": limit,
        },
    )


# --- Forgetting --------------------------------------------------------------------------------------------------

_FORGET = Command("DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE id < %s ORDER BY id LIMIT %s)")


def forget_entries(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Delete at most `limit` rows that are older than `days`. Returns how many were deleted."""
    return _FORGET.execute(connection, (first_id_of(now - timedelta(days=days)), limit)).rowcount
