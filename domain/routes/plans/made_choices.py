"""Writes the choices of plans' menus: stored when a menu is made, and settled when a plan was made for one of them."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, as_json
from domain.database.statements import Command, NotNull, Scalar, Statement
from domain.documents import FuelPlanDocument, PlanCause
from domain.ids import new_id
from domain.lifecycle import ChoiceKind
from domain.planning.choice_costs import COUNTS
from domain.planning.fuel_plan import Chosen, ComputedPlan, NoPlan
from domain.planning.menu import Choice, Wanted
from domain.planning.plan_tasks import RouteToPlan
from domain.routes.plans.stored_choices import choice_in_words, extra_in_words

CENTS_DEARER = 50
"""Cents that a choice may cost more than its menu said when its plan is made: rounding changes as much."""

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
    return _wanted(taken, cause.get("insteadOf"), fuel_stops_passed=fuel_stops_passed)


def _wanted(taken: "_Taken | _OfPlan", instead_of: str | None, *, fuel_stops_passed: int) -> Wanted:
    wanted = Wanted(ChoiceKind(taken.kind), instead_of=instead_of)
    if wanted.kind is ChoiceKind.CHEAPEST:
        return wanted
    if wanted.kind is ChoiceKind.FEWER_STOPS:
        return wanted._replace(most_stops=max(len(taken.station_ids) - fuel_stops_passed, 0))
    return wanted._replace(station_id=taken.station_ids[0])


_MOST_CENTS = f"""
    CASE WHEN taken.decided_by IS NOT NULL THEN taken.agreed_cents
         ELSE greatest(taken.agreed_cents, (SELECT round(100 * driver_allowance)::bigint FROM companies
                                           WHERE id = taken.company_id) - (
             SELECT coalesce(sum(greatest(c.extra_cents, 0)), 0)::bigint FROM plan_choices c
             WHERE c.route_id = taken.route_id AND c.id <> taken.id AND {COUNTS})) END + {CENTS_DEARER}
"""
"""SQL of the most that a choice `taken` may cost when a plan is made for it: what was agreed when it was taken, or what
is left of the allowance."""
_MOST_CENTS_OF_TAKEN = Scalar(
    int,
    f"SELECT {_MOST_CENTS} FROM (SELECT c.*, c.extra_cents AS agreed_cents FROM plan_choices c WHERE c.id = %s) taken"
    " WHERE taken.status = 'taken'",
)
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
    most_cents = _MOST_CENTS_OF_TAKEN.first(connection, (choice_id,))
    if most_cents is None:
        return "it was taken back"
    if isinstance(new, NoPlan) or new.chosen is None:
        reason = new.infeasible.reason if isinstance(new, NoPlan) else "it is not known any more"
        _REFUSE.execute(connection, (reason, choice_id))
        return reason
    extra_cents, pump_cents = _cents(new.chosen)
    if extra_cents > most_cents:
        reason = f"it costs {extra_in_words(extra_cents)} by now"
        _OFFER_AGAIN.execute(connection, (reason, extra_cents, pump_cents, as_json(new.document()), choice_id))
        return reason
    return None


def note_made(connection: Connection, choice_id: UUID, plan_id: UUID, chosen: Chosen) -> None:
    """Store that the plan of a choice was made, and what it costs as of then."""
    _MAKE.execute(connection, (plan_id, *_cents(chosen), choice_id))


class _OfPlan(NamedTuple):
    id: UUID
    kind: str
    document: FuelPlanDocument
    extra_cents: int
    station_ids: list[str]
    instead_of: str | None
    agreed_cents: NotNull[int]
    most_cents: NotNull[int]


_OF_PLAN = Statement(
    _OfPlan,
    f"""
    SELECT taken.id, taken.kind, taken.document, taken.extra_cents, taken.station_ids,
           taken.instead_of, taken.agreed_cents, {_MOST_CENTS} AS most_cents
    FROM (SELECT c.*, p.cause->>'insteadOf' AS instead_of,
                 coalesce((p.cause->>'agreedCents')::bigint, c.extra_cents) AS agreed_cents
          FROM plans p JOIN plan_choices c ON c.route_id = p.route_id AND c.id::text = p.cause->>'choice'
          WHERE p.id = %s) taken
    WHERE taken.status = 'chosen'
    """,
)
"""Causes that an earlier release stored do not say what was agreed: it is what the choice costs by then."""
_COSTS_NOW = Command("UPDATE plan_choices SET extra_cents = %s, pump_cents = %s WHERE id = %s")


class KeptChoice(NamedTuple):
    """The choice that a driver has, for a plan that is made for another reason."""

    id: UUID
    in_words: str
    wanted: Wanted
    agreed_cents: int

    def in_cause(self, cause: PlanCause) -> PlanCause:
        """The cause of a plan that keeps the choice."""
        cause = PlanCause(**{**cause, "choice": str(self.id), "agreedCents": self.agreed_cents})
        if self.wanted.instead_of is not None:
            cause["insteadOf"] = self.wanted.instead_of
        return cause


def kept_choice(connection: Connection, plan_id: UUID) -> KeptChoice | None:
    """The choice of a driver with this plan, whose fuel stops are all ahead; None where the plan was made for no choice
    but to go back to the cheapest."""
    row = _OF_PLAN.first(connection, (plan_id,))
    if row is None or row.kind == ChoiceKind.CHEAPEST:
        return None
    wanted = _wanted(row, row.instead_of, fuel_stops_passed=0)._replace(most_cents=row.most_cents)
    return KeptChoice(row.id, choice_in_words(row), wanted, row.agreed_cents)


def note_kept(connection: Connection, choice_id: UUID, chosen: Chosen) -> None:
    """Store what a choice costs by the newest plan that keeps it."""
    _COSTS_NOW.execute(connection, (*_cents(chosen), choice_id))


_TAKE_BACK = Command(
    "UPDATE plan_choices c SET status = 'refused', reason = 'its message could not be delivered'"
    " WHERE c.made_plan_id = %s AND c.status = 'chosen'"
    " AND NOT EXISTS (SELECT FROM routes r WHERE r.id = c.route_id AND r.plan_id = c.made_plan_id)"
)


def not_delivered(connection: Connection, plan_id: UUID) -> None:
    """Take back the choice of a plan whose message was given up: the driver keeps the plan before. One that he took
    himself stays."""
    _TAKE_BACK.execute(connection, (plan_id,))


def _cents(chosen: Chosen) -> tuple[int, int]:
    return round(100 * chosen.explained["extra_cost"]), round(100 * chosen.explained["extra_at_pumps"])
