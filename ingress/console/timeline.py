"""The timeline of a route: each step that has a stored time, with its cause."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from domain.contract.shapes import RouteStop, StopType
from domain.lifecycle import HELD, AnswerKind, Environment, RouteStatus
from domain.routes.events import Event as StoredEvent
from domain.routes.reading.history import History, StoredMessage, StoredPlan
from domain.routes.reading.told_purchases import PurchaseSeen, ToldAnswer
from domain.wording import counted, refusal_in_words
from ingress.console.rendering import STATUS_WORDS


class Event(NamedTuple):
    at: datetime
    title: str
    cause: str
    kind: str = ""
    """`good`, `warn` or `bad` if the step asks for attention."""


def timeline(history: History, stops: Sequence[RouteStop] = ()) -> list[Event]:
    """The steps, oldest first, with those at the fuel stops among the `stops` of the route's answer. Steps of one
    moment stand in the order in which the service does them."""
    return sorted(_events(history, stops), key=lambda event: event.at)


def _events(history: History, stops: Sequence[RouteStop]) -> Iterator[Event]:
    route = history.route
    again = route.revision - 1
    since = f"; started over {counted(again, 'time')} since" if again else ""
    yield Event(route.created_at, "Pushed", f"as {route.external_id}{since}")
    if route.imported_at is not None:
        cause = "vehicle and driver are matched, and the start is near enough"
        yield Event(route.imported_at, "Imported: draft", cause)
    reached_first = min(history.visits, key=lambda visit: (visit.arrived_at, visit.stop), default=None)
    for visit in history.visits:
        name = route.stops[visit.stop]["name"] if visit.stop < len(route.stops) else "a stop that is gone"
        first = visit is reached_first
        yield Event(
            visit.arrived_at,
            f"Arrived at {visit.stop + 1}. {name}",
            _rule(visit.arrival_evidence) + ("; the first arrival: a plan is due" if first else ""),
        )
        if visit.departed_at is not None:
            yield Event(visit.departed_at, f"Departed from {visit.stop + 1}. {name}", _rule(visit.departure_evidence))
    for stop in stops:
        if stop.type is StopType.FUEL_STOP:
            yield from _halted(stop)
    for number, plan in enumerate(history.plans, 1):
        yield _planned(history, plan, number)
    for message in history.messages:
        yield from _messaged(message, _last_failure(history, message))
    yield from map(_kept, history.events)
    yield from map(_answered, history.answers)
    if route.corrected_at is not None:
        yield Event(route.corrected_at, "The driver's plan was replaced", "the driver has the correction")
    if route.completed_at is not None:
        yield Event(route.completed_at, "Completed", "the truck reached the last stop", "good")
    if route.status in (RouteStatus.CANCELED, RouteStatus.ERROR):
        kind = "bad" if route.status == RouteStatus.ERROR else "warn"
        yield Event(route.updated_at, route.status.capitalize(), route.closed_reason or "no reason is stored", kind)
    if route.status in HELD:
        yield Event(route.updated_at, STATUS_WORDS[route.status].capitalize(), route.pending_detail or "", "warn")


def _rule(evidence: dict[str, object] | None) -> str:
    if not evidence:
        return "the evidence is no longer kept"
    return f"{evidence['rule']}, {evidence['by']}: {evidence['reason']}" if "by" in evidence else f"{evidence['rule']}"


def _halted(stop: RouteStop) -> Iterator[Event]:
    cause = "by the truck's positions"
    if stop.actual_arrival is not None:
        yield Event(stop.actual_arrival, f"Arrived at the fuel stop {stop.name}", cause)
    if stop.actual_departure is not None:
        yield Event(stop.actual_departure, f"Departed from the fuel stop {stop.name}", cause)


_ASKED = {"send_again": "Message sent again", "choice_declined": "Choice declined"}
"""The words for what a person asked for, where the name does not say it."""
_DONE = {
    "plan_kept": "The plan was kept",
    "choice_asked": "The driver asks for a choice",
    "choice_refused": "No plan was made for the choice",
    "import_failed": "The import failed",
    "plan_failed": "Planning failed",
    "review_failed": "Checking the plan failed",
    "message_failed": "Sending the message failed",
}


def _kept(event: StoredEvent) -> Event:
    if event.actor is None:
        kind = "warn" if event.kind.endswith(("failed", "refused", "asked")) else ""
        return Event(event.at, _DONE.get(event.kind, event.kind), event.detail or "the reason is no longer kept", kind)
    asked = _ASKED.get(event.kind, event.kind.replace("_", " ").capitalize())
    return Event(event.at, asked, f"{event.actor}: {event.detail or 'the reason is no longer kept'}")


_SAYS = {
    AnswerKind.GOING: "The driver goes to",
    AnswerKind.FUELED: "The driver says he fueled at",
    AnswerKind.REFUSED: "The driver cannot fuel at",
}


def _answered(told: ToldAnswer) -> Event:
    answer, seen = told
    parts = [f"{refusal_in_words(answer.reason)}"] if answer.reason is not None else []
    parts += [f"{answer.gallons:.1f} gal"] if answer.gallons is not None else []
    parts += [f"to {answer.fill_percent:g} %"] if answer.fill_percent is not None else []
    parts += [f"at ${answer.price_per_gallon:.3f}"] if answer.price_per_gallon is not None else []
    parts += _beside(seen)
    parts += ["it came too late and changes nothing"] if answer.is_late else []
    kind = "warn" if answer.reason is not None and not answer.is_late else ""
    if answer.kind == AnswerKind.FUELED and seen.agrees_with(answer.gallons) is False:
        parts, kind = [*parts, "they disagree"], "warn"
    return Event(answer.at, f"{_SAYS[AnswerKind(answer.kind)]} {answer.place}", "; ".join(parts), kind)


def _beside(seen: PurchaseSeen) -> Iterator[str]:
    """The purchase by the gauge and by the card."""
    if seen.gauge_gallons is not None:
        yield f"the gauge rose by {seen.gauge_gallons:.0f} gal" if seen.gauge_gallons else "the gauge did not rise"
    if seen.card_gallons is not None and seen.card_cents is not None:
        yield f"the card paid {seen.card_gallons:.1f} gal for ${seen.card_cents / 100:,.2f}"


def _planned(history: History, plan: StoredPlan, number: int) -> Event:
    route = history.route
    because = f"{plan.cause['text']}; " if plan.cause is not None else ""
    if plan.document is None:
        why = f"{because}the driver keeps the earlier plan" if plan.cause is not None else "see why below"
        return Event(plan.generated_at, f"Plan {number}: no plan is feasible", why, "bad")
    if plan.id == route.plan_id:
        state = "the current one"
    elif plan.id == route.correction_id:
        state = "a correction, which is being sent"
    elif plan.revision != route.revision:
        state = "discarded: the route started over"
    elif plan.cause is not None and all(message.plan_id != plan.id for message in history.messages):
        state = "the driver was not told, because little changes"
    else:
        state = "replaced by a later one"
    document = plan.document
    return Event(
        plan.generated_at,
        f"Plan {number}: {counted(len(document['stops']), 'fuel stop')}, ${document['totalCost']:,.2f}",
        f"{because}{state}; made with {plan.fuel_percent:g} % in the tank",
        "good" if plan.id == route.plan_id else "",
    )


_ENDS = {
    "sent": ("Message delivered", "good"),
    "suppressed": ("Message not sent", "warn"),
    "failed": ("Message failed", "bad"),
}


def _last_failure(history: History, message: StoredMessage) -> datetime | None:
    """When the last attempt at this message failed, before the next message was queued."""
    until = min((other.created_at for other in history.messages if other.created_at > message.created_at), default=None)
    return max(
        (
            event.at
            for event in history.events
            if event.kind == "message_failed" and event.at >= message.created_at and (until is None or event.at < until)
        ),
        default=None,
    )


def _messaged(message: StoredMessage, failed_at: datetime | None) -> Iterator[Event]:
    attempts = counted(message.attempts, "attempt")
    channel = f"through {message.channel}" if message.channel else "no channel yet"
    yield Event(message.created_at, "Message queued", "the plan goes to the driver")
    if message.status in _ENDS:
        title, kind = _ENDS[message.status]
        if message.channel == Environment.SANDBOX:
            title, channel = "Message kept, not sent", "sandbox: no driver is ever messaged"
        cause = "; ".join(filter(None, (channel, attempts if message.attempts else "", message.error or "")))
        yield Event(message.sent_at or failed_at or message.created_at, title, cause, kind)
    elif message.attempts:
        yield Event(
            failed_at or message.created_at, f"Message not sent yet, after {attempts}", message.error or channel, "warn"
        )
