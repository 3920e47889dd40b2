"""Delivers a message and moves its route on: one transaction with the steps of the message and of the route.

A worker calls `start_delivery`, then `message_life.hand_over` outside any transaction, then `finish_delivery`. The two
transactions lock the route before the message, as everywhere."""

from datetime import datetime
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command
from domain.messages import message_life
from domain.messages.due_messages import send_next_messages
from domain.messages.gateways import Fault
from domain.messages.message_life import MessageClaim, MessageStatus, Settled
from domain.routes import events, transitions
from domain.routes.plans import replans
from domain.routes.plans.made_choices import not_delivered
from domain.settings import Settings

_LOCK_ROUTE = Command("SELECT FROM routes WHERE id = (SELECT route_id FROM messages WHERE id = %s) FOR UPDATE")


def start_delivery(
    connection: Connection, message_id: UUID, *, settings: Settings, now: datetime
) -> MessageClaim | MessageStatus | None:
    """Begins an attempt: a claim if a gateway must be called, otherwise the message's status now. None: nothing to do,
    or not now. See `message_life.claim`."""
    _LOCK_ROUTE.execute(connection, (message_id,))
    step = message_life.claim(connection, message_id, settings=settings, now=now)
    return step if isinstance(step, MessageClaim) else _move_on(connection, step, now=now)


def finish_delivery(
    connection: Connection, claimed: MessageClaim, fault: Fault | None, *, settings: Settings, now: datetime
) -> MessageStatus | None:
    """Stores the end of an attempt. `fault` is the gateway's fault; None when the gateway took the message. Returns the
    message's status now. See `message_life.settle`."""
    _LOCK_ROUTE.execute(connection, (claimed.message_id,))
    settled = message_life.settle(connection, claimed, fault, settings=settings, now=now)
    if settled is not None and fault is not None:
        events.record_event(connection, settled.route_id, "message_failed", fault.sentence, now=now)
    return _move_on(connection, settled, now=now)


def _move_on(connection: Connection, settled: Settled | None, *, now: datetime) -> MessageStatus | None:
    """Moves the route on after the end of an attempt, since the route may have waited for it to be completed, and the
    driver's other messages for their turn."""
    if settled is None:
        return None
    route_id, plan_id = settled.route_id, settled.plan_id
    match settled.end:
        case "delivered":
            if transitions.driver_has_plan(connection, route_id, plan_id, now=now):
                replans.watch_again(connection, route_id, delivered=True, now=now)
        case "given_up":
            not_delivered(connection, plan_id)
            if transitions.message_given_up(connection, route_id, plan_id):
                replans.watch_again(connection, route_id, delivered=False, now=now)
    if settled.end != "discarded":  # a discarded message belongs to no plan that the route still has
        transitions.complete_routes(connection, [route_id], now=now)
    if settled.end in ("delivered", "discarded"):
        send_next_messages(connection, settled.driver_id, settled.environment)
    return settled.status
