"""A driver, or a dispatcher for him, takes a choice of his plan's menu.

Within the company's allowance for a trip the driver decides by himself; beyond it a dispatcher does. A choice that is
taken gets its plan like any replan: computed as of then, from where the truck is, with one message. So prices and
closures that have changed since count, and a plan that has become dearer than it was said is not made."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.audit.entries import Action, Actor, record_about, service_actor
from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.documents import FuelStopDocument, PlanCause, StopDocument, TimelineEntry
from domain.languages.words import text_to_say
from domain.lifecycle import ChoiceStatus, Environment
from domain.planning.choice_costs import COUNTS
from domain.routes import events
from domain.routes.events import ImpossibleStep
from domain.routes.plans.made_choices import KeptChoice, kept_choice
from domain.routes.plans.planned_stops import fuel_stops_behind
from domain.routes.plans.replans import ask_for_replans
from domain.routes.plans.stored_choices import COLUMNS, TABLES, StoredChoice, choice_in_words

MOST_CHOSEN = 5
"""Most choices on one trip: each is a message to the driver."""


class _Route(NamedTuple):
    """A route that was locked, with the place of its truck among the fuel stops of its plan."""

    environment: str
    status: str
    plan_id: NotNull[UUID]
    is_busy: NotNull[bool]
    cause: PlanCause | None
    station_ids: list[str] | None
    fuel_stops: NotNull[list[FuelStopDocument]]
    timeline: list[TimelineEntry]
    stops: list[StopDocument]
    reached: NotNull[int]
    latitude: float | None
    longitude: float | None
    newest_at: datetime | None
    fuel_stops_passed: int | None
    allowance_cents: NotNull[int]
    spent_cents: NotNull[int]
    chosen: NotNull[int]


_LOCK = Scalar(
    UUID,
    "SELECT id FROM routes WHERE company_id = %s AND environment = %s AND id = %s AND status = 'active' FOR UPDATE",
)
_OF_ROUTE = f"""
    SELECT r.environment, r.status, p.id AS plan_id,
           (r.replan IS NOT NULL OR r.correction_id IS NOT NULL) AS is_busy,
           p.cause, p.station_ids, p.document->'stops' AS fuel_stops, p.timeline, r.stops,
           (SELECT coalesce(max(v.stop) + 1, 0) FROM visits v WHERE v.route_id = r.id) AS reached,
           t.latitude, t.longitude, t.newest_at,
           CASE WHEN t.watch_at IS NOT NULL THEN t.fuel_stops_passed END AS fuel_stops_passed,
           round(100 * o.driver_allowance)::bigint AS allowance_cents,
           made.cents AS spent_cents, made.choices AS chosen
    FROM routes r JOIN companies o ON o.id = r.company_id JOIN plans p ON p.id = {{plan}}
    LEFT JOIN tracks t ON t.vehicle_id = r.vehicle_id AND t.environment = r.environment
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(greatest(c.extra_cents, 0)) FILTER (WHERE {COUNTS}), 0)::bigint AS cents,
               count(*) AS choices
        FROM plan_choices c WHERE c.route_id = r.id AND c.status = 'chosen') AS made
    WHERE r.company_id = %s AND r.environment = %s AND r.id = %s
"""
_ROUTE = Statement(_Route, _OF_ROUTE.format(plan="r.plan_id"))
_ROUTE_AS_CORRECTED = Statement(_Route, _OF_ROUTE.format(plan="coalesce(r.correction_id, r.plan_id)"))
_CHOICE = Statement(
    StoredChoice,
    f"SELECT {COLUMNS} FROM {TABLES} WHERE c.company_id = %s AND c.environment = %s AND c.route_id = %s AND c.id = %s",
)
_ASK = Command("UPDATE plan_choices SET status = 'asked', asked_at = %s, reason = NULL WHERE id = %s")
_WITHDRAW = Command(
    "UPDATE plan_choices SET status = 'open', asked_at = NULL WHERE route_id = %s AND status = 'asked' AND id <> %s"
)
_TAKE = Command(
    "UPDATE plan_choices SET status = 'taken', asked_at = coalesce(asked_at, %(now)s), decided_at = %(now)s,"
    " decided_by = %(by)s, asked_by = CASE WHEN status = 'asked' THEN asked_by ELSE %(by)s END, reason = NULL"
    " WHERE id = %(id)s"
)
_DECLINE = Command(
    "UPDATE plan_choices SET status = 'declined', decided_at = %s, decided_by = %s WHERE id = %s AND status = 'asked'"
)


def choose(
    connection: Connection, tenant: Tenant, route_id: UUID, choice_id: UUID, by: Actor | None, *, now: datetime
) -> ChoiceStatus:
    """A driver takes a choice, or a dispatcher (`by`) takes it for him. Returns the choice's status now: `taken` where
    its plan is being made, `asked` where a dispatcher has to decide. Again without effect for a choice that was taken
    or asked for already. Raises ImpossibleStep, with the reason for people, where it cannot be taken."""
    route, choice = _locked(connection, tenant, route_id, choice_id)
    if choice.status in (ChoiceStatus.TAKEN, ChoiceStatus.CHOSEN) or (
        choice.status == ChoiceStatus.ASKED and by is None
    ):
        return ChoiceStatus(choice.status)
    _require_possible(route, choice)
    if by is None and max(choice.extra_cents, 0) > max(route.allowance_cents - route.spent_cents, 0):
        _WITHDRAW.execute(connection, (route_id, choice_id))
        _ASK.execute(connection, (now, choice_id))
        events.record_event(connection, route_id, "choice_asked", choice_in_words(choice), now=now)
        return ChoiceStatus.ASKED
    _take(connection, tenant, route_id, route, choice, by, now=now)
    return ChoiceStatus.TAKEN


def choice_ahead(connection: Connection, tenant: Tenant, route_id: UUID) -> KeptChoice | None:
    """The choice that the driver of a route has or is being told, while its first fuel stop is ahead; else None."""
    route = _ROUTE_AS_CORRECTED.first(connection, (*tenant, route_id))
    return kept_choice(connection, route.plan_id) if route is not None and not fuel_stops_behind(route) else None


def decline(
    connection: Connection, tenant: Tenant, route_id: UUID, choice_id: UUID, by: Actor, *, now: datetime
) -> ChoiceStatus:
    """A dispatcher declines a choice that the driver has asked for: he keeps his plan. Returns the choice's status now:
    one that somebody has decided on stays as it is. Raises ImpossibleStep where there is no such choice."""
    _, choice = _locked(connection, tenant, route_id, choice_id)
    if choice.status != ChoiceStatus.ASKED:
        return ChoiceStatus(choice.status)
    _DECLINE.execute(connection, (now, by.name, choice_id))
    record_about(connection, by, Action("choices.decline"), "rte", route_id, company_id=tenant.company_id)
    events.record_event(connection, route_id, "choice_declined", choice_in_words(choice), by=by.name, now=now)
    return ChoiceStatus.DECLINED


def _locked(connection: Connection, tenant: Tenant, route_id: UUID, choice_id: UUID) -> tuple[_Route, StoredChoice]:
    """The route, locked, and the choice. Raises ImpossibleStep where the trip has ended or has no such choice."""
    if _LOCK.first(connection, (*tenant, route_id)) is None:
        raise ImpossibleStep(text_to_say("the driver has no plan of this route, or the route has ended"))
    choice = _CHOICE.first(connection, (*tenant, route_id, choice_id))
    if choice is None:
        raise ImpossibleStep(text_to_say("the route has no such choice"))
    return _ROUTE.one(connection, (*tenant, route_id)), choice


def _require_possible(route: _Route, choice: StoredChoice) -> None:
    """Refuse a choice that nobody can take now. Raises ImpossibleStep."""
    if choice.status == ChoiceStatus.DECLINED:
        raise ImpossibleStep(text_to_say("dispatch has declined it"))
    if choice.status == ChoiceStatus.REFUSED:
        raise ImpossibleStep(choice.reason or text_to_say("no plan with it could be made"))
    if choice.plan_id != route.plan_id:
        raise ImpossibleStep(text_to_say("there is a newer plan, which has choices of its own"))
    if route.is_busy:
        raise ImpossibleStep(text_to_say("a new plan is being made or sent: look again when it is there"))
    if route.chosen >= MOST_CHOSEN:
        raise ImpossibleStep(text_to_say("no more choices can be made on this trip: call dispatch"))


def _take(
    connection: Connection,
    tenant: Tenant,
    route_id: UUID,
    route: _Route,
    choice: StoredChoice,
    by: Actor | None,
    *,
    now: datetime,
) -> None:
    """Has the plan of the choice made, after the commit."""
    _WITHDRAW.execute(connection, (route_id, choice.id))
    _TAKE.execute(connection, {"now": now, "by": by.name if by is not None else None, "id": choice.id})
    actor = by or service_actor("The driver chose it")
    record_about(connection, actor, Action("choices.take"), "rte", route_id, company_id=tenant.company_id)
    at = now if route.environment == Environment.LIVE else route.newest_at or now
    passed = fuel_stops_behind(route)
    cause = PlanCause(
        kind="choice",
        at=at.isoformat(),
        text=f"chosen: {choice_in_words(choice)}",
        fuelStopsPassed=passed,
        choice=str(choice.id),
        agreedCents=choice.extra_cents,
    )
    if by is None or (choice.status == ChoiceStatus.ASKED and choice.asked_by is None):
        cause["takenByDriver"] = True
    instead_of = _instead_of(route, passed)
    if instead_of is not None:
        cause["insteadOf"] = instead_of
    ask_for_replans(connection, {route_id: cause}, now=now)


def _instead_of(route: _Route, fuel_stops_passed: int) -> str | None:
    """The station where the driver would fuel next without any choice; None where no stop is ahead. Once he is past the
    first stop of a choice, his plan is what he would keep."""
    before = route.cause.get("insteadOf") if route.cause is not None and not fuel_stops_passed else None
    return before or next(iter((route.station_ids or [])[fuel_stops_passed:]), None)
