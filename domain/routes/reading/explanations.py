"""The explanation of a route's plan, for `fuelroute explain`, and the certificate of the plan."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import NotNull, Scalar, Statement
from domain.documents import PlanCause
from domain.encoding import utc_text
from domain.ids import shown_id
from domain.lifecycle import Environment
from domain.planning.choice_costs import had_by_driver
from domain.planning.explanation import (
    MOST_CANDIDATES,
    ExplainedVersion,
    OfferedChoice,
    RouteExplanation,
    unpack_explanation,
)
from domain.planning.reasons import with_reasons
from domain.routes.plans.stored_choices import choice_in_words, menu_of


class _Certified(NamedTuple):
    external_id: str
    generated_at: datetime
    explanation: NotNull[bytes]


_CERTIFIED = Statement(
    _Certified,
    "SELECT r.external_id, p.generated_at, p.explanation FROM routes r JOIN plans p ON p.id = r.plan_id"
    " WHERE r.id = %(route_id)s AND r.company_id = coalesce(%(company_id)s, r.company_id)"
    " AND p.explanation IS NOT NULL",
)
_ALL_CERTIFIED = Statement(
    _Certified,
    "SELECT r.external_id, p.generated_at, p.explanation FROM routes r JOIN plans p ON p.route_id = r.id"
    " WHERE r.id = %s AND p.explanation IS NOT NULL ORDER BY p.generated_at DESC, p.id DESC",
)


def read_certificate(connection: Connection, route_id: UUID, *, company_id: UUID | None = None) -> bytes | None:
    """The certificate of a route's current plan, or that none is feasible; None where no explanation is kept. Without a
    company any route's, for operators. For a long road it takes a second."""
    found = _CERTIFIED.first(connection, {"route_id": route_id, "company_id": company_id})
    return _certificate(route_id, found) if found is not None else None


def read_certificates(connection: Connection, route_id: UUID) -> Iterator[bytes]:
    """The certificates of all plans of a route whose explanations are kept, the newest first. For operators."""
    return (_certificate(route_id, one) for one in _ALL_CERTIFIED.all(connection, (route_id,)))


def _certificate(route_id: UUID, found: _Certified) -> bytes:
    from domain.planning.certificate import certificate_of  # brings the numerics, which `explain` need not load

    return certificate_of(
        found.explanation,
        route=shown_id("rte", route_id),
        external_id=found.external_id,
        made_at=utc_text(found.generated_at),
    )


_EXPLANATION = Scalar(
    NotNull[bytes],
    "SELECT p.explanation FROM routes r JOIN plans p ON p.id = r.plan_id WHERE r.id = %s AND p.explanation IS NOT NULL",
)


class _Version(NamedTuple):
    generated_at: datetime
    as_of: datetime | None
    cause: PlanCause | None
    fuel_stops: int | None
    total_cost: float | None
    told: bool | None
    current: bool | None


_VERSIONS = Statement(
    _Version,
    f"""
    SELECT p.generated_at, p.as_of, p.cause, jsonb_array_length(p.document->'stops') AS fuel_stops,
           (p.document->>'totalCost')::float AS total_cost,
           {had_by_driver("p")} AS told,
           p.id = r.plan_id AS current
    FROM routes r JOIN plans p ON p.route_id = r.id AND p.revision = r.revision
    WHERE r.id = %s ORDER BY p.generated_at, p.id
    """,
)


def read_route_explanation(
    connection: Connection, route_id: UUID, *, limit: int = MOST_CANDIDATES, offset: int = 0
) -> RouteExplanation | None:
    """The explanation of a route's current plan, or of its absence, with all `versions`, the oldest first. None before
    the truck has arrived, and after retention has deleted the explanation. `limit` and `offset` choose the
    candidates."""
    packed = _EXPLANATION.first(connection, (route_id,))
    if packed is None:
        return None
    versions = [
        ExplainedVersion(
            generated_at=utc_text(one.generated_at),
            as_of=utc_text(one.as_of) if one.as_of is not None else None,
            cause=one.cause,
            fuel_stops=one.fuel_stops,
            total_cost=one.total_cost,
            told=bool(one.told),
            current=bool(one.current),
        )
        for one in _VERSIONS.all(connection, (route_id,))
    ]
    full = with_reasons(unpack_explanation(packed))
    total = len(full["candidates"])
    full["candidates"] = full["candidates"][offset : offset + limit]
    if offset:
        full["line"], full["line_miles"] = [], []
    return RouteExplanation(**full, candidates_total=total, versions=versions, menu=_menu(connection, route_id))


class _Plan(NamedTuple):
    company_id: UUID
    environment: str
    plan_id: NotNull[UUID]


_PLAN = Statement(_Plan, "SELECT company_id, environment, plan_id FROM routes WHERE id = %s AND plan_id IS NOT NULL")


def _menu(connection: Connection, route_id: UUID) -> list[OfferedChoice]:
    plan = _PLAN.one(connection, (route_id,))
    tenant = Tenant(plan.company_id, Environment(plan.environment))
    return [
        OfferedChoice(
            id=shown_id("cho", one.id),
            kind=one.kind,
            text=choice_in_words(one),
            station_ids=one.station_ids,
            total_cost=one.document["totalCost"],
            extra_cost=one.extra_cents / 100,
            extra_at_pumps=one.pump_cents / 100,
            status=one.status,
            reason=one.reason,
        )
        for one in menu_of(connection, tenant, plan.plan_id)
    ]
