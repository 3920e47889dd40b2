"""Stores the pushes that the quick statement leaves: all in one commit, and if that fails, each on its own.

Their wait for locks is limited, even if another transaction holds many of their routes."""

import time
from collections.abc import Iterable, Sequence
from uuid import UUID

import psycopg

from domain import clock
from domain.accounts.keys import still_valid
from domain.database.connections import Connection, Database
from domain.database.health import is_away
from domain.database.options import SERVING, TimeLimits
from domain.database.visibility import Visibility, of_tenants
from domain.routes.intake.pushes import Push, Pushed, store_pushes
from domain.telemetry.logs import get_logger
from ingress.api.access import unauthorized
from ingress.http.problems import ApiError

log = get_logger(__name__)

STORING_SECONDS = 2.5

# After that time the pushes that meet no lock still go through; each gets this much.
_OVERTIME_SECONDS = 1.0
_MIN_STATEMENT_SECONDS = 0.25
_MIN_LOCK_SECONDS = 0.02

Result = Pushed | BaseException


class PushStorage:
    """Stores pushes until a time (of `time.monotonic`), in transactions that block their thread. The caller then
    enqueues the imports of new or replaced routes."""

    def __init__(self, database: Database, *, until: float) -> None:
        self._database = database
        self._now = clock.now()
        self._until = until

    def store_together(self, pushes: Sequence[Push]) -> Sequence[Result]:
        """The result of each push, in order. All are in one commit; if that fails, each gets its own."""
        try:
            return self._store(pushes, self._limits())
        except psycopg.Error as error:
            if len(pushes) == 1 or is_away(error):
                return [error] * len(pushes)
            log.warning("push.batch_failed", request_ids=request_ids(pushes), error=str(error))
            return self.store_apart(pushes, error)

    def store_apart(self, pushes: Sequence[Push], failure: BaseException) -> Sequence[Result]:
        """The result of each push, each in a commit of its own, so that a bad push costs the others nothing. Pushes
        that wait for a lock share the time that is left, so many cost no more than one. When the time is over, the
        remaining ones result in `failure`."""
        results: list[Result] = []
        for position, push in enumerate(pushes):
            if time.monotonic() > self._until + _OVERTIME_SECONDS:
                return [*results, *[failure] * (len(pushes) - position)]
            try:
                results += self._store([push], self._limits(shares=len(pushes) - position))
            except psycopg.Error as error:
                results.append(error)
        return results

    def _store(self, pushes: Sequence[Push], limits: TimeLimits) -> Sequence[Pushed | ApiError]:
        try:
            with self._database.pipelined_transaction(of_pushes(pushes), limits=limits) as connection:
                stored = store_pushes(connection, pushes, now=self._now)
                _check_keys_again(connection, pushes)
        except _KeysGone as gone:  # since they were looked at; the batch may have waited for other transactions
            results: list[Pushed | ApiError] = [unauthorized() for _ in pushes]
            valid = [position for position, push in enumerate(pushes) if push.key_id not in gone.key_ids]
            if valid:
                again = self._store([pushes[position] for position in valid], limits)
                for position, result in zip(valid, again, strict=True):
                    results[position] = result
            return results
        return stored

    def _limits(self, *, shares: int = 1) -> TimeLimits:
        """The limits of a transaction that may use its share of the time that is left."""
        left = self._until - time.monotonic()
        return TimeLimits(
            statement_seconds=min(SERVING.statement_seconds, max(left, _MIN_STATEMENT_SECONDS)),
            lock_seconds=min(SERVING.lock_seconds, max(left / shares, _MIN_LOCK_SECONDS)),
        )


def of_pushes(pushes: Iterable[Push]) -> Visibility:
    """Shows the data of the callers of these pushes."""
    return of_tenants(push.tenant for push in pushes)


def request_ids(pushes: Iterable[Push]) -> list[str]:
    """The request ids of these pushes, for the log."""
    return [push.trace.request_id for push in pushes if push.trace.request_id is not None]


class _KeysGone(Exception):
    """Some keys were revoked or expired while their pushes waited."""

    def __init__(self, key_ids: set[UUID]) -> None:
        super().__init__(key_ids)
        self.key_ids = key_ids


def _check_keys_again(connection: Connection, pushes: Sequence[Push]) -> None:
    """Check the keys once more. Raises _KeysGone if some are no longer valid, which rolls the transaction back."""
    key_ids = list({push.key_id for push in pushes if push.key_id is not None})
    gone = {key_id for key_id, valid in zip(key_ids, still_valid(key_ids).on(connection), strict=True) if not valid}
    if gone:
        raise _KeysGone(gone)
