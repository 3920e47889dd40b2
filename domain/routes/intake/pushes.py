"""Pushes: new routes are created, known routes updated, and older routes superseded. Pushes are stored in batches, each
inside one transaction."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from domain.accounts.keys import VALID
from domain.contract.shapes import RouteInput
from domain.database.connections import Connection, Tenant, as_json
from domain.database.statements import Query, Statement
from domain.ids import new_id
from domain.lifecycle import PushEffect, effect_of_push
from domain.queue.jobs import SWEEP_GRACE
from domain.routes.intake.pushed_columns import PUSHED_COLUMNS, PUSHED_VALUES, TRACE_COLUMNS, TRACE_VALUES
from domain.routes.intake.superseding import lock_references, lock_with_older, supersede
from domain.routes.intake.updates import Update, lock_current, store_updates
from domain.routes.transitions import NOT_ATTEMPTED
from domain.telematics.rechecks import recheck_trucks
from domain.telemetry.tracing import NO_TRACE, Trace


class Push(Struct, frozen=True, gc=False):
    """A pushed route."""

    tenant: Tenant
    route: RouteInput
    key_id: UUID | None = None
    """The API key of the push. The ingress checks the key again as it stores the push."""
    trace: Trace = NO_TRACE

    @property
    def identity(self) -> tuple[Tenant, str]:
        """Names the route of the push: pushes with one identity are about one route."""
        return self.tenant, self.route.external_id


class Pushed(Struct, frozen=True, gc=False):
    """The effect of a push on its route."""

    route_id: UUID
    effect: PushEffect
    created_at: datetime | None = None
    """When the push created the route; None if the route existed."""
    revision: int = 1
    """The revision of the route's input after the push."""


def create_routes(pushes: Sequence[Push], *, now: datetime) -> Query[list[Pushed | None]]:
    """The quick way for new routes whose keys were valid at their last check: one statement, which checks the keys
    again and needs no transaction around it. A push without a result (None) is left to `store_pushes`: its key is no
    longer valid, its route exists already, an earlier push in this list creates it, or it may supersede others.

    The statement does not wait until its commit is on disk. The caller makes sure of that before it answers the push:
    the worker's commit of the import writes both commits to disk, and so does `database.wait_until_durable`."""
    return _insert(_CREATE, pushes, now=now)


def store_pushes(connection: Connection, pushes: Sequence[Push], *, now: datetime) -> list[Pushed]:
    """Stores all pushes, of new and of known routes. Pushes of one `externalId` are stored in the order given.

    Returns the result of each. The caller enqueues the imports of the routes.

    It goes in rounds, each of which takes one push of each `externalId`. LOAD-1, LOAD-2 and LOAD-1 with another start
    take two: the first one creates both routes, the second one updates LOAD-1.
    """
    superseding = lock_references(
        connection,
        ((push.tenant, push.route.reference) for push in pushes if push.route.reference),
    )
    results: dict[int, Pushed] = {}
    superseded: list[UUID] = []
    waiting = list(range(len(pushes)))
    to_lock = pushes if superseding else ()
    while waiting:
        stored = _store_round(connection, pushes, _first_of_each_route(pushes, waiting), to_lock=to_lock, now=now)
        to_lock = ()
        superseded += supersede(
            connection,
            [pushed.route_id for pushed in stored.values() if pushed.effect in ("create", "replace")],
        )
        results |= stored
        waiting = [position for position in waiting if position not in stored]
    recheck_trucks(connection, superseded, now=now)
    return [results[position] for position in range(len(pushes))]


def _first_of_each_route(pushes: Sequence[Push], positions: Iterable[int]) -> list[int]:
    first: dict[tuple[Tenant, str], int] = {}
    for position in positions:
        first.setdefault(pushes[position].identity, position)
    return list(first.values())


def _store_round(
    connection: Connection,
    pushes: Sequence[Push],
    positions: Sequence[int],
    *,
    to_lock: Sequence[Push],
    now: datetime,
) -> dict[int, Pushed]:
    """Stores the pushes at these positions, no two with one `externalId`. Returns the result of each, by position.

    The routes of `to_lock` are locked, and those that they may supersede. That comes after the inserts, which may wait
    for another process that inserts one of the routes, so a transaction that waits there holds no lock of a stored
    route. A push is missing in the result if its route was there as we tried to create it, but another transaction
    canceled it before we locked it: the next round creates it."""
    created = _insert(_INSERT, [pushes[position] for position in positions], now=now).on(connection)
    stored = {position: pushed for position, pushed in zip(positions, created, strict=True) if pushed is not None}
    if to_lock:
        lock_with_older(connection, [(push.tenant, push.route) for push in to_lock])
    known = [position for position in positions if position not in stored]
    updates = []
    wanted = [(pushes[position].tenant, pushes[position].route) for position in known]
    for position, (_, body), route in zip(known, wanted, lock_current(connection, wanted), strict=True):
        if route is None:
            continue
        effect = effect_of_push(route.status, same_input=route.same_input)
        if effect == "replace":
            updates.append(Update(route.id, body, pushes[position].trace))
        stored[position] = Pushed(route.id, effect, revision=route.revision + (effect == "replace"))
    store_updates(connection, updates, now=now)
    return stored


class _Created(NamedTuple):
    id: UUID
    created_at: datetime


_NEW_ROUTES = f"""
    INSERT INTO routes (id, company_id, environment, {PUSHED_COLUMNS}, {TRACE_COLUMNS}, status, pending_reason,
                        pending_detail, retry_at, created_at)
    SELECT pushed.id, pushed.company_id, pushed.environment, {PUSHED_VALUES}, {TRACE_VALUES},
           'pending', 'not_attempted', '{NOT_ATTEMPTED}', %s,
           statement_timestamp() + ordinal * interval '1 microsecond'
    FROM jsonb_to_recordset(%s)
         AS pushed (id uuid, ordinal int, company_id uuid, environment text, key_id uuid, request_id text,
                    traceparent text, body jsonb){{more}}
    ON CONFLICT (company_id, environment, external_id) WHERE status <> 'canceled' DO NOTHING
    RETURNING id, created_at
"""
_INSERT = Statement(_Created, _NEW_ROUTES.format(more=""))
_CREATE = Statement(
    _Created,
    _NEW_ROUTES.format(
        more=f"""
    CROSS JOIN LATERAL (SELECT {VALID} AND NOT c.superseding AND k.id = pushed.key_id LIMIT 1) AS valid_key
    CROSS JOIN (SELECT set_config('synchronous_commit', 'off', true)) AS this_commit_alone"""
    ),
)


def _insert(insert: Statement[_Created], pushes: Sequence[Push], *, now: datetime) -> Query[list[Pushed | None]]:
    """Inserts the routes of the pushes. None for a push whose route exists already: another process created it, or an
    earlier push in this list."""
    ids = [new_id() for _ in pushes]
    routes = [
        {
            "id": ids[ordinal],
            "ordinal": ordinal,
            "company_id": push.tenant.company_id,
            "environment": push.tenant.environment,
            "key_id": push.key_id,
            "request_id": push.trace.request_id,
            "traceparent": push.trace.traceparent,
            "body": push.route,
        }
        # Sorted everywhere, so that two processes that create the same routes never deadlock.
        for ordinal, push in sorted(enumerate(pushes), key=lambda entry: (entry[1].route.external_id, entry[1].tenant))
    ]

    def read(rows: list[_Created]) -> list[Pushed | None]:
        created = {row.id.int: Pushed(row.id, "create", row.created_at) for row in rows}
        return [created.get(route_id.int) for route_id in ids]  # a UUID is hashed in Python

    return Query(insert, (now + SWEEP_GRACE, as_json(routes)), read)
