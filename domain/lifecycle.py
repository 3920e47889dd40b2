"""The nine statuses of a route, the changes between them, the effect of a push or a cancel on each; and the other
values that columns may hold.

Rules only: no clock, no storage. The contract's "States and transitions" lists them.
"""

from enum import StrEnum
from typing import Literal


class RouteStatus(StrEnum):
    PENDING = "pending"
    PENDING_MAPPING = "pending_mapping"
    PENDING_WINDOW = "pending_window"
    DRAFT = "draft"
    PLANNED = "planned"
    ACTIVE = "active"
    COMPLETED = "completed"
    ERROR = "error"
    CANCELED = "canceled"


class PendingReason(StrEnum):
    VEHICLE_UNMAPPED = "vehicle_unmapped"
    DRIVER_UNMAPPED = "driver_unmapped"
    OUTSIDE_IMPORT_WINDOW = "outside_import_window"
    NOT_ATTEMPTED = "not_attempted"
    ERROR = "error"


class Environment(StrEnum):
    LIVE = "live"
    SANDBOX = "sandbox"


class Role(StrEnum):
    """The rights of a user of the console; an operator may do it for every company."""

    VIEWER = "viewer"
    DISPATCHER = "dispatcher"
    OWNER = "owner"
    OPERATOR = "operator"


class Objective(StrEnum):
    """The sum that a plan keeps as small as possible.

    Fuel tax is owed by miles driven in a state, wherever the fuel was bought. The tax paid at the pump is credited
    (International Fuel Tax Agreement). So the cost of a gallon for the company is the price less the tax in it, and
    TAX_ADJUSTED compares that cost.
    """

    PUMP = "pump"
    TAX_ADJUSTED = "tax-adjusted"


class MpgChoice(StrEnum):
    """The mileage of a truck whose trips contradict its record."""

    LEARNED = "learned"
    DECLARED = "declared"
    LOWER = "lower"


class MapLink(StrEnum):
    """The kind of link to the map of a truck stop in a message. GOOGLE opens directions in an app or a browser, on any
    phone. GEO opens the map that the phone's owner prefers, where the phone knows such links."""

    GOOGLE = "google"
    GEO = "geo"


class ChoiceKind(StrEnum):
    """The condition of a choice, another plan that the driver may take in place of his.

    CHEAPEST is the plan without a condition, for a driver who has chosen another one before. The stations of
    OTHER_CHAIN, EARLIER, LATER and AMENITIES are those of the first fuel stop; AMENITIES are parking and showers that
    the planned one lacks.
    """

    CHEAPEST = "cheapest"
    OTHER_CHAIN = "other_chain"
    EARLIER = "earlier"
    LATER = "later"
    FEWER_STOPS = "fewer_stops"
    AMENITIES = "amenities"


class AnswerKind(StrEnum):
    """A driver's answer to a fuel stop of his plan."""

    GOING = "going"
    FUELED = "fueled"
    REFUSED = "refused"


class SeenStop(StrEnum):
    """The outcome of a fuel stop by the truck's fixes: its level rose there, or did not; without levels, it stood
    there, or drove past."""

    BOUGHT = "bought"
    NOT_BOUGHT = "not_bought"
    STOOD = "stood"
    PASSED = "passed"


class RefusalReason(StrEnum):
    """Why a driver cannot fuel where his plan says."""

    CLOSED = "closed"
    QUEUE = "queue"
    NO_PARKING = "no_parking"
    NO_TIME = "no_time"
    OUT_OF_NETWORK = "out_of_network"
    OTHER = "other"


class ChoiceStatus(StrEnum):
    """OPEN: the driver may take it. ASKED: a dispatcher decides. TAKEN: its plan is being made. CHOSEN: its plan was
    made, and the driver is told. DECLINED: by a dispatcher. REFUSED: no such plan can be made any more, or it has
    become dearer."""

    OPEN = "open"
    ASKED = "asked"
    TAKEN = "taken"
    CHOSEN = "chosen"
    DECLINED = "declined"
    REFUSED = "refused"


HELD = frozenset({RouteStatus.PENDING, RouteStatus.PENDING_MAPPING, RouteStatus.PENDING_WINDOW})
"""Accepted, not yet imported."""

CANCELABLE = HELD | {RouteStatus.DRAFT, RouteStatus.PLANNED}
"""The statuses of a route that DELETE, an update and superseding may still change."""

SHOWS_PLAN = frozenset({RouteStatus.PLANNED, RouteStatus.ACTIVE, RouteStatus.COMPLETED})
SHOWS_FUEL_STOPS = frozenset({RouteStatus.ACTIVE, RouteStatus.COMPLETED})

TRANSITIONS: dict[RouteStatus, frozenset[RouteStatus]] = {
    RouteStatus.PENDING: HELD | {RouteStatus.DRAFT, RouteStatus.ERROR, RouteStatus.CANCELED},
    RouteStatus.PENDING_MAPPING: HELD | {RouteStatus.DRAFT, RouteStatus.ERROR, RouteStatus.CANCELED},
    RouteStatus.PENDING_WINDOW: HELD | {RouteStatus.DRAFT, RouteStatus.ERROR, RouteStatus.CANCELED},
    RouteStatus.DRAFT: frozenset({RouteStatus.PENDING, RouteStatus.PLANNED, RouteStatus.ERROR, RouteStatus.CANCELED}),
    RouteStatus.PLANNED: frozenset(
        {
            RouteStatus.PENDING,
            RouteStatus.PLANNED,
            RouteStatus.ACTIVE,
            RouteStatus.COMPLETED,
            RouteStatus.ERROR,
            RouteStatus.CANCELED,
        }
    ),
    RouteStatus.ACTIVE: frozenset({RouteStatus.COMPLETED, RouteStatus.ERROR}),
    RouteStatus.COMPLETED: frozenset(),
    RouteStatus.ERROR: frozenset({RouteStatus.PENDING}),
    RouteStatus.CANCELED: frozenset(),
}
"""Every change of status that the service makes. Tests compare the effects of a push and of a cancel with it."""

CANCELED_VIA_API = "Canceled via API"


def superseded_by(external_id: str) -> str:
    """The retirement reason of a draft whose load came back under another `externalId`."""
    return f"Superseded by {external_id}"


PushEffect = Literal["create", "replace", "unchanged", "refuse"]


def effect_of_push(current: RouteStatus | None, *, same_input: bool) -> PushEffect:
    """The effect of a push on the route that its `externalId` names now (None: there is none)."""
    if current is None or current is RouteStatus.CANCELED:
        return "create"
    if current in (RouteStatus.ACTIVE, RouteStatus.COMPLETED):
        return "refuse"
    if current is RouteStatus.ERROR:
        return "replace"
    return "unchanged" if same_input else "replace"


CancelEffect = Literal["cancel", "already_canceled", "refuse"]


def effect_of_cancel(current: RouteStatus) -> CancelEffect:
    """The effect of DELETE on a route of that status."""
    if current in CANCELABLE:
        return "cancel"
    return "already_canceled" if current is RouteStatus.CANCELED else "refuse"
