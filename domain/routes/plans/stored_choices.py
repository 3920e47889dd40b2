"""The stored choices of plans' menus: written when a menu is made, read for pages and commands, and settled when a plan
was made for one of them. `choices` says who may take one."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant, as_json
from domain.database.statements import Command, Scalar, Statement
from domain.documents import FuelPlanDocument, PlanCause
from domain.ids import new_id
from domain.lifecycle import ChoiceKind
from domain.planning.fuel_plan import Chosen, ComputedPlan, NoPlan
from domain.planning.menu import Choice, Wanted
from domain.planning.plan_tasks import RouteToPlan

CENTS_DEARER = 50
"""Cents that a choice may cost more than its menu said when its plan is made: rounding changes as much."""


class StoredChoice(NamedTuple):
    """A choice of a plan's menu; `parking_spaces` and `showers` are those at its first fuel stop, as far as known."""

    id: UUID
    plan_id: UUID
    kind: str
    document: FuelPlanDocument
    station_ids: list[str]
    extra_cents: int
    pump_cents: int
    status: str
    """A `ChoiceStatus`."""
    asked_at: datetime | None
    asked_by: str | None
    decided_at: datetime | None
    decided_by: str | None
    reason: str | None
    made_plan_id: UUID | None
    parking_spaces: int | None
    showers: int | None


STATUS_NOW = """CASE WHEN c.status = 'taken' AND r.replan->>'choice' IS DISTINCT FROM c.id::text THEN 'refused'
    ELSE c.status END"""
"""SQL of the status of a choice `c` of a route `r`. A choice whose plan was being made and is not any more, because the
attempts at it failed, is refused."""
COLUMNS = f"""
    c.id, c.plan_id, c.kind, c.document, c.station_ids, c.extra_cents, c.pump_cents, {STATUS_NOW} AS status,
    c.asked_at, c.asked_by, c.decided_at, c.decided_by, c.reason, c.made_plan_id, s.parking_spaces, s.showers
"""
"""The columns of a `StoredChoice`."""
TABLES = """
    plan_choices c JOIN routes r ON r.id = c.route_id LEFT JOIN stations s ON s.station_id = c.station_ids[1]
"""
_MENU = Statement(
    StoredChoice,
    f"SELECT {COLUMNS} FROM {TABLES} WHERE c.company_id = %s AND c.environment = %s AND c.plan_id = %s"
    " ORDER BY c.place",
)


def menu_of(connection: Connection, tenant: Tenant, plan_id: UUID) -> list[StoredChoice]:
    """The menu of a plan, the cheapest choice first."""
    return _MENU.all(connection, (*tenant, plan_id))


_STORE = Command(
    "INSERT INTO plan_choices (id, company_id, environment, route_id, plan_id, kind, place, document, station_ids,"
    " extra_cents, pump_cents) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


def store_choices(connection: Connection, route: RouteToPlan, plan_id: UUID, choices: Sequence[Choice]) -> None:
    """Store the menu of a plan."""
    for place, one in enumerate(choices):
        stations = [stop.station.station_id for stop in one.plan.stops]
        figures = (int(one.extra * 100), int(one.extra_at_pumps * 100))
        _STORE.execute(
            connection,
            (
                *(new_id(), route.company_id, route.environment, route.id, plan_id, one.kind, place),
                *(as_json(one.plan.document()), stations, *figures),
            ),
        )


class _Taken(NamedTuple):
    kind: str
    station_ids: list[str]


_TAKEN = Statement(_Taken, "SELECT kind, station_ids FROM plan_choices WHERE id = %s")


def wanted_by(connection: Connection, cause: PlanCause, *, fuel_stops_passed: int) -> Wanted | None:
    """The choice for which a plan is made; None for a plan with another cause, or a choice that is gone."""
    taken = _TAKEN.first(connection, (UUID(cause["choice"]),)) if "choice" in cause else None
    if taken is None:
        return None
    wanted = Wanted(ChoiceKind(taken.kind), instead_of=cause.get("insteadOf"))
    if wanted.kind is ChoiceKind.CHEAPEST:
        return wanted
    if wanted.kind is ChoiceKind.FEWER_STOPS:
        return wanted._replace(most_stops=max(len(taken.station_ids) - fuel_stops_passed, 0))
    return wanted._replace(station_id=taken.station_ids[0])


_MOST_CENTS = Scalar(
    int,
    """
    SELECT CASE WHEN c.decided_by IS NOT NULL THEN c.extra_cents
                ELSE greatest(c.extra_cents, round(100 * o.driver_allowance)::bigint - (
                    SELECT coalesce(sum(greatest(other.extra_cents, 0)), 0)::bigint FROM plan_choices other
                    WHERE other.route_id = c.route_id AND other.status = 'chosen')) END
    FROM plan_choices c JOIN companies o ON o.id = c.company_id WHERE c.id = %s AND c.status = 'taken'
    """,
)
"""The most that a choice may cost when its plan is made: what the dispatcher saw, or what is left of the allowance."""
_MAKE = Command(
    "UPDATE plan_choices SET status = 'chosen', made_plan_id = %s, extra_cents = %s, pump_cents = %s WHERE id = %s"
)
_OFFER_AGAIN = Command(
    "UPDATE plan_choices SET status = 'open', asked_at = NULL, asked_by = NULL, decided_at = NULL, decided_by = NULL,"
    " reason = %s, extra_cents = %s, pump_cents = %s, document = %s WHERE id = %s"
)
_REFUSE = Command("UPDATE plan_choices SET status = 'refused', reason = %s WHERE id = %s AND status = 'taken'")


def refusal_of(connection: Connection, choice_id: UUID, new: ComputedPlan | NoPlan) -> str | None:
    """Why the plan that was computed for a choice may not become the driver's; None if it may. The choice is then
    refused, or offered again with what it costs by now."""
    most_cents = _MOST_CENTS.first(connection, (choice_id,))
    if most_cents is None:
        return "it was taken back"
    if isinstance(new, NoPlan) or new.chosen is None:
        reason = new.infeasible.reason if isinstance(new, NoPlan) else "it is not known any more"
        _REFUSE.execute(connection, (reason, choice_id))
        return reason
    extra_cents, pump_cents = _cents(new.chosen)
    if extra_cents > most_cents + CENTS_DEARER:
        reason = f"it costs {extra_in_words(extra_cents)} by now"
        _OFFER_AGAIN.execute(connection, (reason, extra_cents, pump_cents, as_json(new.document()), choice_id))
        return reason
    return None


def note_made(connection: Connection, choice_id: UUID, plan_id: UUID, chosen: Chosen) -> None:
    """Store that the plan of a choice was made, and what it costs as of then."""
    _MAKE.execute(connection, (plan_id, *_cents(chosen), choice_id))


_TAKE_BACK = Command(
    "UPDATE plan_choices SET status = 'refused', reason = 'its message could not be delivered'"
    " WHERE made_plan_id = %s AND status = 'chosen'"
)


def not_delivered(connection: Connection, plan_id: UUID) -> None:
    """Take back the choice of a plan whose message was given up: the driver keeps the plan before."""
    _TAKE_BACK.execute(connection, (plan_id,))


def _cents(chosen: Chosen) -> tuple[int, int]:
    return round(100 * chosen.explained["extra_cost"]), round(100 * chosen.explained["extra_at_pumps"])


def extra_in_words(cents: int) -> str:
    """The extra cost of a choice as people read it: `+ $4.10`."""
    return f"{'-' if cents < 0 else '+'} ${abs(cents) / 100:,.2f}"


_KINDS = {
    ChoiceKind.CHEAPEST: "back to the plan before",
    ChoiceKind.OTHER_CHAIN: "another chain",
    ChoiceKind.EARLIER: "an earlier stop",
    ChoiceKind.LATER: "a later stop",
    ChoiceKind.FEWER_STOPS: "one stop fewer",
    ChoiceKind.AMENITIES: "parking or showers",
}


def choice_in_words(choice: StoredChoice) -> str:
    """A choice for people: `another chain, Love's in Amarillo, + $4.10`."""
    first = next(iter(choice.document["stops"]), None)
    place = f", {first['name']}" if first is not None else ""
    return f"{_KINDS[ChoiceKind(choice.kind)]}{place}, {extra_in_words(choice.extra_cents)}"
