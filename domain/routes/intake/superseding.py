"""Superseding: a load that comes back under another `externalId` cancels the older route.

Where a company has superseding on, and LOAD-1 was pushed with the reference PO-1, a push of LOAD-2 with PO-1 cancels
LOAD-1 in the same transaction: `Superseded by LOAD-2`.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from domain.contract.shapes import RouteInput
from domain.database.connections import SUPERSEDING_LOCKS, Connection, Tenant, as_json
from domain.database.statements import Command, Scalar, Statement
from domain.lifecycle import superseded_by
from domain.routes.intake.pushed_columns import NAMED_ROUTE
from domain.routes.transitions import CANCEL, canceling, end_but_keep_trucks

_LOCK = Scalar(
    str,
    """
    SELECT pg_advisory_xact_lock(%s, key)::text FROM (
        SELECT DISTINCT hashtext(concat_ws(' ', pushed.company_id, environment, reference)) AS key
        FROM unnest(%s::uuid[], %s::text[], %s::text[]) AS pushed (company_id, environment, reference)
        JOIN companies c ON c.id = pushed.company_id AND c.superseding
        ORDER BY key
    ) AS keys
    """,
)


def lock_references(connection: Connection, references: Iterable[tuple[Tenant, str]]) -> bool:
    """Makes other pushes with one of these references wait until the transaction ends, where the company has
    superseding on. Otherwise two transactions that push LOAD-1 and LOAD-2 at one moment would not see each other's
    route, and neither would cancel the older one.

    All references are locked in one order and before anything else, so that no two batches wait for each other.
    References with equal hashes, which a caller can make, wait for each other needlessly, but not longer than a batch
    takes. Returns whether one of the companies has superseding on. Then routes may be superseded, and `lock_with_older`
    is next."""
    tenants_and_references = list(references)
    if not tenants_and_references:
        return False
    return bool(
        _LOCK.all(
            connection,
            (
                SUPERSEDING_LOCKS,
                [tenant.company_id for tenant, _ in tenants_and_references],
                [tenant.environment for tenant, _ in tenants_and_references],
                [reference for _, reference in tenants_and_references],
            ),
        )
    )


_MAY_BE_SUPERSEDED = "status IN ('pending','pending_mapping','pending_window','draft','planned')"
_LOCK_WITH_OLDER = Command(
    f"""
    SELECT FROM routes WHERE id = ANY(ARRAY(
        SELECT r.id
        FROM jsonb_to_recordset(%(pushed)s) AS pushed (company_id uuid, environment text, "externalId" text)
        JOIN {NAMED_ROUTE}
        UNION ALL
        SELECT old.id
        FROM jsonb_to_recordset(%(pushed)s) AS pushed (company_id uuid, environment text, reference text)
        JOIN companies c ON c.id = pushed.company_id AND c.superseding
        JOIN routes old ON old.company_id = pushed.company_id AND old.environment = pushed.environment
             AND old.reference = pushed.reference AND old.reference <> '' AND old.{_MAY_BE_SUPERSEDED}))
    ORDER BY id FOR UPDATE
    """
)


def lock_with_older(connection: Connection, pushed: Sequence[tuple[Tenant, RouteInput]]) -> None:
    """Locks the routes that these pushes name, and those that they may supersede, together in the order of their ids,
    as every transaction does that locks several routes. Otherwise a push that holds its own route and waits for an
    older one, and an import that holds the older one, would wait for each other."""
    wanted = [
        {**tenant._asdict(), "externalId": body.external_id, "reference": body.reference} for tenant, body in pushed
    ]
    _LOCK_WITH_OLDER.execute(connection, {"pushed": as_json(wanted)})


class _Superseded(NamedTuple):
    id: UUID
    external_id: str
    """The `externalId` of the superseding route."""


_LOCK_OLDER = Statement(
    _Superseded,
    f"""
    SELECT old.id, new.external_id
    FROM routes new
    JOIN companies c ON c.id = new.company_id AND c.superseding
    JOIN routes old ON old.company_id = new.company_id AND old.environment = new.environment
         AND old.reference = new.reference AND old.external_id <> new.external_id
         AND (old.created_at, old.id) < (new.created_at, new.id)
    WHERE new.id = ANY(%s) AND new.reference <> '' AND new.status <> 'canceled'
      AND old.reference <> '' AND old.{_MAY_BE_SUPERSEDED}
    ORDER BY old.id, new.created_at, new.id
    FOR UPDATE OF old
    """,
)


def supersede(connection: Connection, route_ids: Sequence[UUID]) -> list[UUID]:
    """Cancels the routes that these routes supersede. Returns the ids of the canceled routes. The caller has their
    trucks rechecked."""
    if not route_ids:
        return []
    by_whom = {old.id: old.external_id for old in _LOCK_OLDER.all(connection, (list(route_ids),))}
    for route_id, external_id in by_whom.items():
        end_but_keep_trucks(connection, CANCEL, *canceling([route_id], superseded_by(external_id)))
    return list(by_whom)
