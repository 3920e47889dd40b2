"""Messages that are withheld after a restore from a backup.

The database of a backup does not know what was sent after its last change. A driver may have the message of a route
that could have started by the time of the restore, whatever the restored database says. So these messages wait until a
person releases or discards them; `routes.plans.withheld_messages` does both. Messages of routes that start later go out
as always.

A withheld message counts as one that may have reached the driver (`claimed_until` is in the past): the next message for
the load says that it is a correction.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.fence import is_at_work, require_not_fenced
from domain.database.statements import Command, NotNull, Statement
from domain.lifecycle import Environment

_WHY = "Withheld after a restore: the driver may have it already"

_WITHHOLD_PENDING = Command(
    f"""
    WITH locked AS (
        SELECT r.id FROM routes r JOIN messages m ON m.route_id = r.id
        WHERE m.status = 'pending' AND m.environment = '{Environment.LIVE}' AND r.scheduled_start <= %(until)s
        ORDER BY r.id FOR UPDATE OF r
    )
    UPDATE messages SET withheld_since = %(now)s, error = '{_WHY}', retry_at = NULL,
        claimed_until = least(coalesce(claimed_until, %(now)s), %(now)s)
    FROM locked WHERE route_id = locked.id AND status = 'pending'
    """
)


def withhold_pending_messages(connection: Connection, *, until: datetime, now: datetime) -> int:
    """Withhold the pending messages of routes that start by `until`. Returns how many."""
    return _WITHHOLD_PENDING.execute(connection, {"until": until, "now": now}).rowcount


_WITHHOLD_NEW = Command(
    f"""
    UPDATE messages m SET withheld_since = %(now)s, error = '{_WHY}', retry_at = NULL, claimed_until = %(now)s
    FROM routes r
    WHERE m.id = %(id)s AND r.id = m.route_id AND m.environment = '{Environment.LIVE}'
      AND r.scheduled_start <= (SELECT max(withholds_until) FROM restores)
    """
)


def withhold_new_message(connection: Connection, message_id: UUID, *, now: datetime) -> bool:
    """Withhold a message that was just queued, if the database was restored and the driver may have a message that the
    restored database does not know. The caller has locked the route."""
    return _WITHHOLD_NEW.execute(connection, {"id": message_id, "now": now}).rowcount == 1


class Withheld(NamedTuple):
    """A message that waits for a person's decision."""

    id: UUID
    company_id: UUID
    route_id: UUID
    plan_id: UUID
    driver_id: UUID
    external_id: str
    scheduled_start: datetime
    withheld_since: NotNull[datetime]
    text: str | None


_LIST = Statement(
    Withheld,
    f"""
    SELECT m.id, m.company_id, m.route_id, m.plan_id, m.driver_id, r.external_id, r.scheduled_start, m.withheld_since,
           m.text
    FROM messages m JOIN routes r ON r.id = m.route_id
    WHERE m.status = 'pending' AND m.withheld_since IS NOT NULL
      AND (%(company_id)s::uuid IS NULL OR m.company_id = %(company_id)s)
      AND CASE WHEN %(ids)s::uuid[] IS NULL THEN {is_at_work("m.company_id")} ELSE m.id = ANY(%(ids)s) END
    ORDER BY r.id, m.created_at, m.id
    """,
)
_LOCK = Statement(Withheld, f"{_LIST.text} FOR UPDATE OF r")


def list_withheld_messages(connection: Connection, company_id: UUID | None) -> list[Withheld]:
    """The withheld messages of a company, or of all companies for None. Copies of those that left do not count."""
    return _LIST.all(connection, {"company_id": company_id, "ids": None})


def lock_withheld_messages(
    connection: Connection, company_id: UUID | None, ids: Sequence[UUID] | None
) -> list[Withheld]:
    """Lock the routes of the withheld messages, or of those with these ids, and read the messages. Raises MovedCompany
    for the id of a message that waits in another cell."""
    messages = _LOCK.all(connection, {"company_id": company_id, "ids": list(ids) if ids is not None else None})
    for owner_id in {one.company_id for one in messages}:
        require_not_fenced(connection, owner_id)
    return messages


_RELEASE = Command(
    "UPDATE messages SET withheld_since = NULL, error = NULL, attempts = 0, text = %(text)s, queued_at = %(now)s,"
    " retry_at = %(now)s WHERE id = %(id)s"
)


def release_message(connection: Connection, message_id: UUID, text: str | None, *, now: datetime) -> None:
    """Queue a withheld message again, with this text and a fresh set of attempts. The caller has locked the route."""
    _RELEASE.execute(connection, {"id": message_id, "text": text, "now": now})


_DISCARD = Command(
    "UPDATE messages SET status = 'failed', error = 'Discarded after a restore', withheld_since = NULL WHERE id = %s"
)


def discard_message(connection: Connection, message_id: UUID) -> None:
    """Let a withheld message fail. The caller has locked the route."""
    _DISCARD.execute(connection, (message_id,))
