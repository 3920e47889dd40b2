"""Checks the keys and rate limits of many requests together."""

from collections.abc import Awaitable, Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from domain.accounts.keys import Caller, find_callers, still_valid
from domain.database.async_connections import AsyncDatabase
from domain.database.fence import is_key_of_paused
from domain.database.visibility import EVERYTHING, NOTHING, Visibility, of_tenants
from ingress.api.access import AuthResult, Credentials, refusal_of, unauthorized
from ingress.api.key_use import KeyUse
from ingress.api.rate_limits import RateLimiter
from ingress.http.batching import Batcher, Submission

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_KNOWN_KEYS = 10_000
_NOBODY_KNOWN = ""
"""The owner of all requests whose key was not valid at its last check, or was never checked."""


class KnownKey(Struct, frozen=True, gc=False):
    """The result of the last check of a key."""

    caller: Caller
    owner: str
    """The key's company, which takes turns and has a share."""
    within_limit: bool


class AuthorizedRequest(Struct, Generic[Item], frozen=True):
    """A request's item with its key, and the permission that it needs."""

    by: Credentials
    permission: str
    item: Item


class AuthorizedResponse(Struct, Generic[Result], frozen=True):
    """The answer to a request. Refusals and failures are exceptions."""

    auth_result: AuthResult
    result: Result | BaseException


Submitted = Submission[AuthorizedRequest[Item], AuthorizedResponse[Result]]
"""A request that waits for its answer."""


class Authenticator:
    """Checks keys and counts requests. It looks up every key at every request: a revoked key is refused at once."""

    def __init__(self, database: AsyncDatabase, limiter: RateLimiter, key_use: KeyUse) -> None:
        self._database = database
        self._limiter = limiter
        self._key_use = key_use
        self._known: dict[bytes, KnownKey] = {}
        self.batches: Batcher[Credentials, AuthResult] = Batcher(self._authenticate, name="keys")

    def authenticate(self, credentials: Credentials) -> Awaitable[AuthResult]:
        """Checks one key, in a batch with others."""
        return self.batches.submit(credentials, self.owner_of(credentials))

    async def is_paused(self, credentials: Credentials) -> bool:
        """Tell if a refused key belongs to a company that is paused, or has left for another cell."""
        if credentials.key.prefix is None:
            return False
        return await self._database.ask(is_key_of_paused(credentials.key.hash), NOTHING)

    def known_of(self, credentials: Credentials) -> KnownKey | None:
        """The last result for a key; None if the key was not valid, or was never checked."""
        return self._known.get(credentials.key.hash)

    def owner_of(self, credentials: Credentials) -> str:
        """The owner that takes turns with others: the company of a key that was valid at its last check."""
        known = self._known.get(credentials.key.hash)
        return known.owner if known is not None else _NOBODY_KNOWN

    def forget(self, credentials: Credentials) -> None:
        """Forgets a key that was refused."""
        self._known.pop(credentials.key.hash, None)

    async def admit(self, batch: Sequence[Submitted[Item, Result]]) -> "list[Admitted[Item, Result]]":
        """The admitted requests, for work that checks the keys itself. All other requests are settled."""
        auth_results = await self._check([one.item.by for one in batch], looked_at_again=True)
        doubtful = [
            position
            for position, (one, auth_result) in enumerate(zip(batch, auth_results, strict=True))
            if refusal_of(auth_result, one.item.permission) is not None
        ]
        callers = await self._look_up([batch[position].item.by for position in doubtful])
        for position, caller in zip(doubtful, callers, strict=True):
            auth_results[position] = AuthResult(caller, auth_results[position].allowance)
        admitted = []
        for one, auth_result in zip(batch, auth_results, strict=True):
            refusal = refusal_of(auth_result, one.item.permission)
            if refusal is not None:
                one.settle(AuthorizedResponse(auth_result, refusal))
            elif auth_result.caller is not None:
                admitted.append(Admitted(one, auth_result, auth_result.caller))
        return admitted

    async def refuse_invalid(self, admitted: "Sequence[Admitted[Item, Result]]") -> None:
        """Settles the requests whose key is no longer valid. Raises psycopg.Error when PostgreSQL is away; the batch
        then fails."""
        if not admitted:
            return
        query = still_valid([one.caller.key_id for one in admitted])
        valid = await self._database.ask(query, of_callers(one.caller for one in admitted))
        for one, is_valid in zip(admitted, valid, strict=True):
            if not is_valid:
                self.forget(one.asked.item.by)
                one.settle(unauthorized())

    async def _authenticate(self, batch: Sequence[Submission[Credentials, AuthResult]]) -> None:
        auth_results = await self._check([one.item for one in batch])
        for one, auth_result in zip(batch, auth_results, strict=True):
            one.settle(auth_result)

    async def _check(self, credentials: Sequence[Credentials], *, looked_at_again: bool = False) -> list[AuthResult]:
        """Finds the callers and counts their requests. The data of a key that was valid before are remembered, because
        only its validity can change."""
        callers = [self._remembered(one) for one in credentials]
        if not looked_at_again:
            await self._leave_valid(callers)
        unknown = [position for position, caller in enumerate(callers) if caller is None]
        found = await self._look_up([credentials[position] for position in unknown])
        for position, caller in zip(unknown, found, strict=True):
            callers[position] = caller
        self._key_use.note(caller.key_id for caller in callers if caller is not None)
        allowances = await self._limiter.take(
            [
                (caller.key_id, one.counted) if caller is not None and one.counted is not None else None
                for caller, one in zip(callers, credentials, strict=True)
            ]
        )
        auth_results = [AuthResult(caller, allowance) for caller, allowance in zip(callers, allowances, strict=True)]
        for one, auth_result in zip(credentials, auth_results, strict=True):
            self._remember(one.key.hash, auth_result)
        return auth_results

    async def _leave_valid(self, callers: list[Caller | None]) -> None:
        known = [(position, caller) for position, caller in enumerate(callers) if caller is not None]
        if known:
            query = still_valid([caller.key_id for _, caller in known])
            valid = await self._database.ask(query, of_callers(caller for _, caller in known))
            for (position, _), is_valid in zip(known, valid, strict=True):
                if not is_valid:
                    callers[position] = None

    async def _look_up(self, credentials: Sequence[Credentials]) -> list[Caller | None]:
        if not credentials:
            return []
        return await self._database.ask(find_callers([one.key for one in credentials]), EVERYTHING)

    def _remembered(self, credentials: Credentials) -> Caller | None:
        known = self._known.get(credentials.key.hash)
        return known.caller if known is not None else None

    def _remember(self, key_hash: bytes, auth_result: AuthResult) -> None:
        """Remembers a key by a hash of the whole key, since a part of a key would not be secret."""
        caller, allowance = auth_result.caller, auth_result.allowance
        if caller is None:
            self._known.pop(key_hash, None)
            return
        known, within_limit = self._known.get(key_hash), allowance is None or allowance.allowed
        if known is not None and known.caller is caller and known.within_limit == within_limit:
            return
        if known is None and len(self._known) >= _MAX_KNOWN_KEYS:
            self._known.clear()  # those in use come back with their next request
        self._known[key_hash] = KnownKey(caller, caller.company_id.hex, within_limit)


def of_callers(callers: Iterable[Caller]) -> Visibility:
    """Shows the data of these callers."""
    return of_tenants((caller.company_id, caller.environment) for caller in callers)


class Admitted(Struct, Generic[Item, Result], frozen=True):
    """A request with a valid key, within its limit and its permissions."""

    asked: Submitted[Item, Result]
    auth_result: AuthResult
    caller: Caller

    def settle(self, result: Result | BaseException) -> None:
        self.asked.settle(AuthorizedResponse(self.auth_result, result))
