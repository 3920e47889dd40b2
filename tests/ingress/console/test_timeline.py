"""The timeline of a route: the words for each stored time."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from domain.contract.shapes import RouteStop, StopType
from domain.documents import PlanCause
from domain.routes.events import Event
from domain.routes.reading.history import History, StoredMessage, StoredPlan, StoredRoute, StoredVisit
from domain.routes.reading.told_purchases import PurchaseSeen, StoredAnswer, ToldAnswer
from ingress.console.timeline import timeline
from tests.factories import JOLIET, NEWARK, PLAN

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ROUTE, FIRST, SECOND = UUID(int=1), UUID(int=2), UUID(int=3)


def history(
    plans: list[StoredPlan] | None = None,
    messages: list[StoredMessage] | None = None,
    events: list[Event] | None = None,
    **route: Any,
) -> History:
    stored: dict[str, Any] = {
        **dict.fromkeys(StoredRoute._fields),
        "id": ROUTE,
        "external_id": "LOAD-1",
        "status": "draft",
        "revision": 1,
        "stops": [JOLIET, NEWARK],
        "created_at": NOW,
        "updated_at": NOW + timedelta(hours=9),
        **route,
    }
    return History(StoredRoute(**stored), [], plans or [], messages or [], None, events or [])


def plan(
    id: UUID, hours: int, *, revision: int = 1, document: Any = PLAN, cause: PlanCause | None = None
) -> StoredPlan:
    return StoredPlan(id, revision, NOW + timedelta(hours=hours), None, document, 40.0, cause, [])


def message(status: str, **changes: Any) -> StoredMessage:
    values = StoredMessage(
        FIRST, FIRST, status, "mailtos", "text", 1, None, NOW, None, NOW + timedelta(minutes=1), None, False
    )
    return values._replace(**changes)


def told(one: History) -> list[str]:
    return [f"{event.title}: {event.cause}" for event in timeline(one)]


def test_each_plan_shows_its_state() -> None:
    plans = [plan(FIRST, 1), plan(SECOND, 2)]
    first, second = told(history(plans, plan_id=SECOND))[1:]
    assert first.startswith("Plan 1: 2 fuel stops, $520.50: replaced by a later one")
    assert second.startswith("Plan 2: 2 fuel stops, $520.50: the current one; made with 40 % in the tank")
    _, correction = told(history(plans, plan_id=FIRST, correction_id=SECOND))[1:]
    assert "a correction, which is being sent" in correction
    assert "discarded: the route started over" in told(history(plans, revision=2))[1]
    assert told(history(plans, revision=3))[0] == "Pushed: as LOAD-1; started over 2 times since"
    assert "no plan is feasible" in told(history([plan(FIRST, 1, document=None)], plan_id=FIRST))[1]


def test_a_plan_made_on_the_way_says_why_and_whether_the_driver_knows() -> None:
    cause = PlanCause(kind="off_road", at="2026-11-20T12:00:00Z", text="14 miles off the planned road, for 15 minutes")
    anew = [plan(FIRST, 1), plan(SECOND, 2, cause=cause)]
    text = "Plan 2: 2 fuel stops, $520.50: 14 miles off the planned road, for 15 minutes; "
    assert told(history(anew, plan_id=SECOND))[2].startswith(f"{text}the current one; ")
    assert told(history(anew, plan_id=FIRST))[2].startswith(f"{text}the driver was not told, because little changes; ")
    messages = [message("sent", plan_id=SECOND)]
    assert f"{text}replaced by a later one; made with 40 % in the tank" in told(history(anew, messages, plan_id=FIRST))
    none = plan(SECOND, 2, document=None, cause=cause)
    assert told(history([plan(FIRST, 1), none], plan_id=FIRST))[2].endswith("the driver keeps the earlier plan")


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (message("sent"), "Message delivered: through mailtos; 1 attempt"),
        (message("failed", error="refused", attempts=8), "Message failed: through mailtos; 8 attempts; refused"),
        (message("pending", error="no answer", attempts=2), "Message not sent yet, after 2 attempts: no answer"),
        (
            message("suppressed", channel="sandbox", attempts=0),
            "Message kept, not sent: sandbox: no driver is ever messaged",
        ),
        (message("suppressed", attempts=0, error="The route was canceled"), "Message not sent: through mailtos; The"),
    ],
)
def test_the_end_of_a_message_is_shown(one: StoredMessage, said: str) -> None:
    assert told(history(messages=[one]))[-1].startswith(said)


def test_a_message_without_an_attempt_is_shown_as_queued() -> None:
    assert [event.title for event in timeline(history(messages=[message("pending", attempts=0)]))] == [
        "Pushed",
        "Message queued",
    ]


def test_the_end_of_a_route_and_the_cause_of_its_waiting_are_shown() -> None:
    assert told(history(status="canceled", closed_reason="Canceled via API"))[-1] == "Canceled: Canceled via API"
    assert told(history(status="error", closed_reason="Expired"))[-1] == "Error: Expired"
    waits = history(status="pending_mapping", pending_detail="No vehicle is called 9")
    assert told(waits)[-1] == "Held: not matched: No vehicle is called 9"


def test_actions_of_people_and_failures_are_shown_with_their_reasons() -> None:
    events = [
        Event(NOW + timedelta(minutes=1), "message_failed", None, "the gateway did not accept the message"),
        Event(NOW + timedelta(minutes=2), "send_again", "dot@example.com", "the number was wrong"),
        Event(NOW + timedelta(minutes=3), "plan_again", "dot@example.com", None),
    ]
    assert told(history(events=events))[1:] == [
        "Sending the message failed: the gateway did not accept the message",
        "Message sent again: dot@example.com: the number was wrong",
        "Plan again: dot@example.com: the reason is no longer kept",
    ]


def test_a_failed_message_has_the_time_of_its_last_attempt() -> None:
    later = NOW + timedelta(hours=30)
    events = [Event(NOW + timedelta(hours=hours), "message_failed", None, "no") for hours in (1, 24, 31)]
    messages = [message("failed", sent_at=None), message("failed", id=SECOND, created_at=later, sent_at=None)]
    failed = [event.at for event in timeline(history(messages=messages, events=events)) if event.kind == "bad"]
    assert failed == [NOW + timedelta(hours=24), NOW + timedelta(hours=31)]


def test_an_entered_arrival_says_who_entered_it_and_why() -> None:
    said = {"rule": "marked by hand", "fixes": [], "source": "dispatcher", "by": "dot@example.com", "reason": "called"}
    visit = StoredVisit(0, NOW, None, said, None)
    one = history(arrived_at=NOW)._replace(visits=[visit])
    assert "Arrived at 1. Joliet terminal: marked by hand, dot@example.com: called; the first arrival" in told(one)[1]


def test_the_truck_at_the_fuel_stops_of_the_plan_is_shown() -> None:
    minutes = [NOW + timedelta(minutes=number) for number in range(3)]
    stops = [
        RouteStop(0, "Joliet", None, 41.5, -88.1, StopType.WAYPOINT, None, NOW, NOW),
        RouteStop(1, "Lakeside", None, 41.7, -86.0, StopType.FUEL_STOP, None, minutes[1], minutes[2]),
        RouteStop(2, "Keystone", None, 41.0, -78.4, StopType.FUEL_STOP, None, None, None),
    ]
    assert [(event.at, event.title) for event in timeline(history(), stops)] == [
        (NOW, "Pushed"),
        (minutes[1], "Arrived at the fuel stop Lakeside"),
        (minutes[2], "Departed from the fuel stop Lakeside"),
    ]


def test_answers_of_the_driver_are_shown_with_what_gauge_and_card_say() -> None:
    def answer(kind: str, **more: Any) -> StoredAnswer:
        at = NOW + timedelta(minutes=1)
        return StoredAnswer(FIRST, kind, None, "S", "Lakeside", at, None, False, None, None, None)._replace(**more)

    fueled = answer("fueled", gallons=97.0, fill_percent=80.0, price_per_gallon=3.459)
    answers = [
        ToldAnswer(answer("going")),
        ToldAnswer(fueled, PurchaseSeen(gauge_gallons=98.0)),
        ToldAnswer(fueled, PurchaseSeen(gauge_gallons=0.0, card_gallons=20.0, card_cents=7000)),
        ToldAnswer(answer("refused", reason="queue", told_at=NOW + timedelta(seconds=30))),
        ToldAnswer(answer("refused", reason="closed", is_late=True)),
    ]
    one = history()._replace(answers=answers)
    assert told(one)[1:] == [
        "The driver cannot fuel at Lakeside: the queue is too long",
        "The driver goes to Lakeside: ",
        "The driver says he fueled at Lakeside: 97.0 gal; to 80 %; at $3.459; the gauge rose by 98 gal",
        "The driver says he fueled at Lakeside: 97.0 gal; to 80 %; at $3.459; the gauge did not rise;"
        " the card paid 20.0 gal for $70.00; they disagree",
        "The driver cannot fuel at Lakeside: it is closed; it came too late and changes nothing",
    ]
    assert [event.kind for event in timeline(one)][1:] == ["warn", "", "", "warn", ""]
