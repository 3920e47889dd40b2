"""The facts that belong to each status of a route, as conditions in SQL that hold where a fact is wrong.

`r` is the route, `p` its current plan, `m` the message of that plan, `s` its savings, `v` its visits, `truck` and
`driver` its vehicle and its driver, if they belong to the route's company. A condition that a CHECK or a unique index
enforces already is not repeated: `schema` finds out whether those are there.
"""

from typing import NamedTuple

from domain.lifecycle import HELD, SHOWS_PLAN, PendingReason, RouteStatus

_ALL = frozenset(RouteStatus)
_MATCHED = SHOWS_PLAN | {RouteStatus.DRAFT}
_UNDER_WAY = frozenset({RouteStatus.ACTIVE, RouteStatus.COMPLETED})
_CLOSED = frozenset({RouteStatus.ERROR, RouteStatus.CANCELED})

REPORT = "Report it with the route's page in the console and the log since its last change"
_PLAN_AGAIN = "Have its plan made again on the route's page, and read the log for why it was not"
_CALL = "Call the driver, who may have no plan; then have the plan made again on the route's page"


class RouteRule(NamedTuple):
    """A fact that is wrong where `wrong` holds, for routes of these statuses."""

    statuses: frozenset[RouteStatus]
    wrong: str
    what: str
    what_to_do: str = REPORT


def _is_none_of(*reasons: PendingReason) -> str:
    return f"(r.pending_reason IN ({', '.join(repr(str(reason)) for reason in reasons)})) IS NOT TRUE"


_DELIVERED = "m.status IN ('sent', 'suppressed')"

ROUTE_RULES = {
    "next-attempt": RouteRule(
        frozenset({RouteStatus.PENDING}),
        "r.retry_at IS NULL",
        "Pending routes have no time for their import: nothing imports them",
        "Push the route again",
    ),
    "pending-reason": RouteRule(
        frozenset({RouteStatus.PENDING}),
        _is_none_of(PendingReason.NOT_ATTEMPTED, PendingReason.ERROR),
        "Pending routes have no reason that fits",
    ),
    "mapping-reason": RouteRule(
        frozenset({RouteStatus.PENDING_MAPPING}),
        _is_none_of(PendingReason.VEHICLE_UNMAPPED, PendingReason.DRIVER_UNMAPPED),
        "Routes held for a mapping have no reason that fits: the import pass does not find them",
        "Push the route again with a change",
    ),
    "window-reason": RouteRule(
        frozenset({RouteStatus.PENDING_WINDOW}),
        _is_none_of(PendingReason.OUTSIDE_IMPORT_WINDOW),
        "Routes held for the import window have no reason that fits",
        "Push the route again with a change",
    ),
    "held-with-plan": RouteRule(
        HELD, "r.plan_id IS NOT NULL OR r.correction_id IS NOT NULL", "Held routes have a plan from before"
    ),
    "held-no-more": RouteRule(
        _ALL - HELD, "r.pending_reason IS NOT NULL", "Routes that are not held say why they are held"
    ),
    "unmatched": RouteRule(
        _MATCHED,
        "r.vehicle_id IS NULL OR r.driver_id IS NULL OR r.imported_at IS NULL",
        "Imported routes have no vehicle, no driver, or no time of their import",
    ),
    "vehicle": RouteRule(
        _MATCHED,
        "r.vehicle_id IS NOT NULL AND truck.id IS NULL",
        "Vehicles of routes are gone or belong to another company",
    ),
    "driver": RouteRule(
        _MATCHED,
        "r.driver_id IS NOT NULL AND driver.id IS NULL",
        "Drivers of routes are gone or belong to another company",
    ),
    "draft-with-plan": RouteRule(
        frozenset({RouteStatus.DRAFT}),
        "r.plan_id IS NOT NULL OR r.correction_id IS NOT NULL",
        "Drafts have a plan",
    ),
    "plan-never-due": RouteRule(
        frozenset({RouteStatus.DRAFT}),
        "r.arrived_at IS NOT NULL AND r.retry_at IS NULL",
        "Trucks have arrived, and no time is set for the plan: nothing makes it",
        "Push the route again with a change",
    ),
    "replan-never-due": RouteRule(
        frozenset({RouteStatus.ACTIVE}),
        "r.replan IS NOT NULL AND r.review_at IS NULL",
        "Trucks have left their plans, and no time is set for new ones: nothing makes them",
        _PLAN_AGAIN,
    ),
    "no-plan": RouteRule(
        SHOWS_PLAN, "p.id IS NULL", "Planned or started routes have no plan, or another route's", _PLAN_AGAIN
    ),
    "plan-of-other-input": RouteRule(
        SHOWS_PLAN, "p.revision <> r.revision", "Plans of routes were made for another input", _PLAN_AGAIN
    ),
    "empty-plan": RouteRule(
        SHOWS_PLAN,
        "p.id IS NOT NULL AND p.document IS NULL",
        "Plans of planned or started routes are empty",
        _PLAN_AGAIN,
    ),
    "not-arrived": RouteRule(
        SHOWS_PLAN, "r.arrived_at IS NULL", "Routes have a plan, and their truck has reached no stop"
    ),
    "no-message": RouteRule(SHOWS_PLAN, "p.id IS NOT NULL AND m.id IS NULL", "Plans of routes have no message", _CALL),
    "unsent": RouteRule(
        frozenset({RouteStatus.ACTIVE}),
        f"m.id IS NOT NULL AND NOT {_DELIVERED} AND (p.cause ? 'takenByDriver') IS NOT TRUE",
        "Active routes have a message that was not delivered",
        _CALL,
    ),
    "wrong-delivery": RouteRule(
        SHOWS_PLAN,
        "m.status = CASE r.environment WHEN 'sandbox' THEN 'sent' ELSE 'suppressed' END",
        "Messages of the sandbox were sent, or live ones were suppressed",
        "Pause the queue at once: fuelroute queues pause messages; then report it",
    ),
    "savings": RouteRule(
        _UNDER_WAY,
        f"{_DELIVERED} AND s.plan_id IS DISTINCT FROM r.plan_id",
        "Savings of started routes are missing, or another plan's: reports are wrong",
    ),
    "savings-kept": RouteRule(
        _ALL - _UNDER_WAY, "s.route_id IS NOT NULL", "Routes that did not start, or failed, have savings"
    ),
    "completed": RouteRule(
        frozenset({RouteStatus.COMPLETED}),
        "r.completed_at IS NULL OR (v.last >= jsonb_array_length(r.stops) - 1) IS NOT TRUE",
        "Completed routes have no time of completion, or no visit at their last stop",
    ),
    "completed-too-early": RouteRule(
        _ALL - {RouteStatus.COMPLETED}, "r.completed_at IS NOT NULL", "Routes have a time of completion and go on"
    ),
    "closed-reason": RouteRule(_CLOSED, "r.closed_reason IS NULL", "Canceled or failed routes have no reason"),
    "closed-reason-kept": RouteRule(
        _ALL - _CLOSED, "r.closed_reason IS NOT NULL", "Routes that go on have a reason why they ended"
    ),
    "arrival": RouteRule(
        _ALL,
        "r.arrived_at IS DISTINCT FROM v.arrived_at",
        "The arrivals of routes differ from their first visits",
    ),
    "stops": RouteRule(
        _ALL,
        "v.first < 0 OR v.last >= jsonb_array_length(r.stops)",
        "Visits are at stops that their routes do not have",
    ),
    "correction": RouteRule(
        _ALL - _UNDER_WAY - {RouteStatus.ERROR},
        "r.correction_id IS NOT NULL",
        "Routes that have not started have a correction",
    ),
    "correction-message": RouteRule(
        frozenset({RouteStatus.ACTIVE}),
        "r.correction_id IS NOT NULL AND NOT EXISTS ("
        "SELECT FROM messages c WHERE c.plan_id = r.correction_id AND c.route_id = r.id)",
        "Corrections of routes have no message, so the driver is never told",
        _PLAN_AGAIN,
    ),
    "owners": RouteRule(
        _ALL,
        "(p.company_id, p.environment) <> (r.company_id, r.environment)"
        " OR (m.company_id, m.environment) <> (r.company_id, r.environment)"
        " OR (s.company_id, s.environment) <> (r.company_id, r.environment)"
        " OR (v.company_id, v.environment) <> (r.company_id, r.environment)",
        "Plans, messages, savings or visits of routes belong to another company or environment",
        "Stop the workers at once, and report it: data of companies may have been mixed",
    ),
}


def faults_by_status() -> str:
    """SQL for the names of the rules that a route breaks, an array with a NULL for each that it keeps. Only the rules
    of the route's status are looked at."""
    cases = []
    for status in RouteStatus:
        judged = {name: rule for name, rule in ROUTE_RULES.items() if status in rule.statuses}
        names = ", ".join(f"CASE WHEN {rule.wrong} THEN '{name}' END" for name, rule in judged.items())
        cases.append(f"WHEN '{status}' THEN ARRAY[{names}]")
    return f"CASE r.status {' '.join(cases)} END"
