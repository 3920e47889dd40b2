"""Stores the savings of a route's plan when the driver has it, so that reports need not read the plans.

A route counts once, with the plan that its driver has, while it is `active` or `completed`. A correction takes the
place of the plan that it corrects when its message is out. `routes.transitions` calls these functions, with the route
locked."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, Statement
from domain.documents import StopDocument
from domain.planning.choice_costs import COUNTS
from domain.roads.sphere import stop_point
from domain.roads.states import ELSEWHERE, default_states
from domain.savings.driver_habits import ANEW


class _Ends(NamedTuple):
    first: StopDocument
    last: StopDocument


_ENDS = Statement(_Ends, "SELECT stops->0 AS first, stops->-1 AS last FROM routes WHERE id = %s")

_RECORD = Command(
    f"""
    WITH recorded AS (
    INSERT INTO savings (route_id, company_id, environment, plan_id, planned_at, vehicle_id, driver_id,
                         origin, destination, gallons, cost_cents, saved_cents, chosen_cents)
    SELECT r.id, r.company_id, r.environment, p.id, p.generated_at, r.vehicle_id, r.driver_id, %s, %s,
           (p.document->>'totalGallons')::float,
           round((p.document->>'totalCost')::numeric * 100)::bigint,
           round((p.document->>'savingsTotal')::numeric * 100)::bigint,
           (SELECT sum(greatest(c.extra_cents, 0))::bigint FROM plan_choices c
            WHERE c.route_id = r.id AND {COUNTS})
    FROM routes r JOIN plans p ON p.id = r.plan_id WHERE r.id = %s
    ON CONFLICT (route_id) DO UPDATE SET
        plan_id = excluded.plan_id, planned_at = excluded.planned_at, gallons = excluded.gallons,
        cost_cents = excluded.cost_cents, saved_cents = excluded.saved_cents, chosen_cents = excluded.chosen_cents
    RETURNING route_id, company_id, environment, plan_id, planned_at)
    INSERT INTO habit_costs (route_id, company_id, environment, plan_id, planned_at)
    SELECT route_id, company_id, environment, plan_id, planned_at FROM recorded
    ON CONFLICT (route_id) DO UPDATE SET {ANEW}
    """
)


def record_savings(connection: Connection, route_id: UUID) -> None:
    """Store the savings of an active or completed route's current plan, in place of an earlier plan's savings. A choice
    that another plan replaced before its first stop costs nothing. The habits of fueling wait to be driven over its
    trip (`habit_costs`)."""
    ends = _ENDS.one(connection, (route_id,))
    _RECORD.execute(connection, (lane_end(ends.first), lane_end(ends.last), route_id))


_DROP = tuple(Command(f"DELETE FROM {table} WHERE route_id = ANY(%s)") for table in ("savings", "habit_costs"))


def drop_savings(connection: Connection, route_ids: Sequence[UUID]) -> None:
    """Delete the savings of routes that ended in `error`."""
    for drop in _DROP:
        drop.execute(connection, (list(route_ids),))


def lane_end(stop: StopDocument) -> str:
    """One end of a lane: the stop's name as pushed and the state in which it lies, such as `Port Newark, NJ`."""
    state = default_states().at(stop_point(stop))
    return stop["name"] if state == ELSEWHERE else f"{stop['name']}, {state}"


_RECORD_BOUGHT = Command(
    """
    UPDATE savings s SET bought_gallons = bought.gallons, paid_cents = bought.paid_cents,
        at_average_cents = round(bought.gallons * (s.cost_cents + s.saved_cents) / nullif(s.gallons, 0))
    FROM unnest(%s::uuid[], %s::float8[], %s::bigint[]) AS bought (route_id, gallons, paid_cents)
    WHERE s.route_id = bought.route_id
    """
)


def record_bought(connection: Connection, bought: Mapping[UUID, tuple[float, int] | None]) -> None:
    """Store the tractor diesel really bought on routes, in gallons and cents; None where that is not known. Routes
    without savings stay as they are. The caller has locked the routes."""
    if bought:
        gallons = [one[0] if one is not None else None for one in bought.values()]
        cents = [one[1] if one is not None else None for one in bought.values()]
        _RECORD_BOUGHT.execute(connection, (list(bought), gallons, cents))
