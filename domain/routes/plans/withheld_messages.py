"""Releases or discards messages that are withheld after a restore, as a person decides."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from domain.audit.entries import Action, Actor, record_action
from domain.database.connections import Connection
from domain.messages.message_text import corrected
from domain.messages.withholding import Withheld, discard_message, lock_withheld_messages, release_message
from domain.queue.jobs import after_commit, send_message_job
from domain.routes import transitions
from domain.routes.plans import replans
from domain.routes.plans.made_choices import not_delivered


def release_withheld(
    connection: Connection,
    company_id: UUID | None,
    ids: Sequence[UUID] | None,
    by: Actor,
    *,
    as_corrections: bool,
    now: datetime,
) -> list[Withheld]:
    """Sends withheld messages: these, or all for None. With `as_corrections` they say that they replace another plan.
    Returns the messages."""
    messages = lock_withheld_messages(connection, company_id, ids)
    for message in messages:
        text = corrected(message.text) if as_corrections and message.text is not None else message.text
        release_message(connection, message.id, text, now=now)
        after_commit(connection, send_message_job(message.id, message.company_id))
    _record(connection, by, Action("messages.release"), messages)
    return messages


def discard_withheld(
    connection: Connection, company_id: UUID | None, ids: Sequence[UUID] | None, by: Actor, *, now: datetime
) -> list[Withheld]:
    """Discards withheld messages: these, or all for None. Their routes stay as they are, and can be completed. "Send
    again" still sends one. Returns the messages."""
    messages = lock_withheld_messages(connection, company_id, ids)
    for message in messages:
        discard_message(connection, message.id)
        not_delivered(connection, message.plan_id)
        if transitions.message_given_up(connection, message.route_id, message.plan_id):
            replans.watch_again(connection, message.route_id, delivered=False, now=now)
    transitions.complete_routes(connection, [message.route_id for message in messages], now=now)
    _record(connection, by, Action("messages.discard"), messages)
    return messages


def _record(connection: Connection, by: Actor, action: Action, messages: Sequence[Withheld]) -> None:
    for company_id, affected in Counter(message.company_id for message in messages).items():
        record_action(connection, by, action, "withheld messages", company_id=company_id, affected=affected)
