"""Storing a batch of pushes: all in one commit, and where that fails, each on its own.

A batch waits for locks no longer than `_PUSHING_SECONDS`, however many of its routes somebody else holds.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar
from uuid import UUID

import psycopg

from domain.accounts.keys import still_valid
from domain.database import SERVING, Connection, Database, Limits, is_away
from domain.jobs import Job
from domain.observability import get_logger
from domain.routes.pushes import Push, Pushed, create_routes, store_pushes
from ingress.auth import unauthorized
from ingress.problems import ApiError

log = get_logger(__name__)

_PUSHING_SECONDS = 2.5

# When that time is over, the pushes that meet no lock still go through: each gets this much.
_OVERTIME_SECONDS = 1.0
_MIN_STATEMENT_SECONDS = 0.25
_MIN_LOCK_SECONDS = 0.02

Kept = TypeVar("Kept", covariant=True)


class PushBatch:
    """Stores pushes. `jobs` are to be enqueued afterwards, beside the imports of what is new or replaced."""

    def __init__(self, database: Database) -> None:
        self.jobs: list[Job] = []
        self._database = database
        self._now = datetime.now(UTC)
        self._until = time.monotonic() + _PUSHING_SECONDS

    def store(self, pushes: Sequence[Push]) -> list[Pushed | BaseException]:
        """What became of each push, in order. New routes are created first, which needs one statement; the rest are
        updates, or may supersede other routes, and take a transaction."""
        results = list(self._together(self._create, pushes))
        others = [position for position, result in enumerate(results) if result is None]
        if others:
            stored = self._together(self._update, [pushes[position] for position in others])
            for position, result in zip(others, stored, strict=True):
                results[position] = result
        return [result for result in results if result is not None]

    def _create(self, pushes: Sequence[Push], limits: Limits | None = None) -> list[Pushed | ApiError | None]:
        """None: it is not a new route, or may supersede others."""
        if limits is None:  # a statement that commits by itself has no limits of its own
            with self._database.by_key() as connection:
                return [*create_routes(connection, pushes, now=self._now)]
        try:
            with self._database.transaction_by_key(limits=limits) as connection:
                created = create_routes(connection, pushes, now=self._now)
                _check_keys_again(connection, pushes)
        except _KeysGone:  # it is a single push, which has waited with others and then for those before it
            return [unauthorized() for _ in pushes]
        return [*created]

    def _update(self, pushes: Sequence[Push], limits: Limits | None = None) -> list[Pushed | ApiError]:
        try:
            with self._database.transaction_by_key(limits=limits or self._limits()) as connection:
                stored, jobs = store_pushes(connection, pushes, now=self._now)
                _check_keys_again(connection, pushes)
        except _KeysGone as gone:  # the batch may have waited for other transactions
            results: list[Pushed | ApiError] = [unauthorized() for _ in pushes]
            valid = [position for position, push in enumerate(pushes) if push.key_id not in gone.key_ids]
            if valid:
                again = self._update([pushes[position] for position in valid], limits)
                for position, result in zip(valid, again, strict=True):
                    results[position] = result
            return results
        self.jobs += jobs
        return [*stored]

    def _together(self, store: "_Store[Kept]", pushes: Sequence[Push]) -> Sequence[Kept | BaseException]:
        """What `store` makes of all in one commit; when that fails, of each on its own, so that a bad neighbour costs
        the others nothing. Those that wait for a lock then share the time that is left: many cost no more than one."""
        try:
            return store(pushes)
        except psycopg.Error as error:
            if len(pushes) == 1 or is_away(error):
                return [error] * len(pushes)
            log.warning("push.batch_failed", routes=len(pushes), error=str(error))
            failure = error
        results: list[Kept | BaseException] = []
        for position, push in enumerate(pushes):
            if time.monotonic() > self._until + _OVERTIME_SECONDS:
                return [*results, *[failure] * (len(pushes) - position)]
            try:
                results += store([push], self._limits(shares=len(pushes) - position))
            except psycopg.Error as error:
                results.append(error)
        return results

    def _limits(self, *, shares: int = 1) -> Limits:
        """Of a transaction that may use its share of the time that is left."""
        left = self._until - time.monotonic()
        return Limits(
            statement_seconds=min(SERVING.statement_seconds, max(left, _MIN_STATEMENT_SECONDS)),
            lock_seconds=min(SERVING.lock_seconds, max(left / shares, _MIN_LOCK_SECONDS)),
        )


class _Store(Protocol[Kept]):
    def __call__(self, pushes: Sequence[Push], limits: Limits | None = None) -> Sequence[Kept]: ...


class _KeysGone(Exception):
    """Keys were revoked or expired while their pushes waited."""

    def __init__(self, key_ids: set[UUID]) -> None:
        super().__init__(key_ids)
        self.key_ids = key_ids


def _check_keys_again(connection: Connection, pushes: Sequence[Push]) -> None:
    """Raises _KeysGone, which rolls the transaction back."""
    key_ids = {push.key_id for push in pushes if push.key_id is not None}
    gone = key_ids - still_valid(connection, key_ids)
    if gone:
        raise _KeysGone(gone)
