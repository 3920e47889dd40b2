"""Check of stored plans: a sample is driven again from the inputs that were kept with it."""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from domain.database.statements import NotNull, Statement
from domain.documents import FuelPlanDocument
from domain.ids import shown_id
from domain.operations.doctor.checks import Examined, Finding, NotFinished, problem
from domain.planning.retrace import faults_of_plan


class _Kept(NamedTuple):
    id: UUID
    route_id: UUID
    document: NotNull[FuelPlanDocument]
    explanation: bytes | None


_COLUMNS = "id, route_id, document, explanation"
_NEWEST = Statement(_Kept, f"SELECT {_COLUMNS} FROM plans WHERE document IS NOT NULL ORDER BY id DESC LIMIT %s")


class _Ends(NamedTuple):
    first: UUID | None
    last: UUID | None


_ENDS = Statement(
    _Ends,
    "SELECT (SELECT id FROM plans ORDER BY id LIMIT 1) AS first,"
    " (SELECT id FROM plans ORDER BY id DESC LIMIT 1) AS last",
)
_SPREAD = Statement(
    _Kept,
    f"""
    SELECT {", ".join(f"p.{column}" for column in _COLUMNS.split(", "))}
    FROM unnest(%s::uuid[]) AS point CROSS JOIN LATERAL (
        SELECT {_COLUMNS} FROM plans WHERE id >= point ORDER BY id LIMIT 1) AS p
    WHERE p.document IS NOT NULL
    """,
)


def check_plans(seen: Examined) -> Iterator[Finding]:
    """Retraces plans: one half are the newest, the others are spread over all that are kept, at other places each
    day."""
    half = max(1, seen.plans // 2)
    broken: dict[str, str] = {}
    driven = 0
    plans = {plan.id: plan for plan in _NEWEST.all(seen.connection, (half,))}
    plans |= {plan.id: plan for plan in _SPREAD.all(seen.connection, (_points(seen, half),))}
    for plan in plans.values():
        if seen.seconds_left() < 0:
            break
        faults = faults_of_plan(plan.document, plan.explanation)
        if faults:
            broken[shown_id("rte", plan.route_id)] = faults[0]
        driven += 1
        seen.told(driven / len(plans))
    if broken:
        yield problem(
            f"Of {driven:,} stored plans, {len(broken):,} do not hold when they are driven again",
            "Read fuelroute explain ROUTE_ID; call the driver of a route under way, and have its plan made again",
            tuple(f"{route}: {fault}" for route, fault in list(broken.items())[: seen.most_examples]),
        )
    if driven < len(plans):
        raise NotFinished(f"{driven:,} of {len(plans):,} plans were driven")


def _points(seen: Examined, count: int) -> list[UUID]:
    ends = _ENDS.one(seen.connection)
    if ends.first is None or ends.last is None:
        return []
    step = (ends.last.int - ends.first.int) / count
    offset = seen.now.timetuple().tm_yday % 10 / 10
    return [UUID(int=ends.first.int + int(step * (number + offset))) for number in range(count)]
