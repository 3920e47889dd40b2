"""Who makes a request: its key and rate limit, looked at together with what the request asks for."""

import re
from typing import NamedTuple

from starlette.types import Scope

from domain.accounts.keys import Caller, PresentedKey
from ingress.limits import Allowance
from ingress.problems import ApiError

AUTH_RESULT = "fuelroute.auth_result"
"""Where the finding about a request is kept in its scope."""

_CREDENTIALS = "fuelroute.credentials"
"""Likewise the key that it came with, which is read and hashed once."""

_BEARER = re.compile(r"bearer +(\S+) *", re.IGNORECASE)


class Credentials(NamedTuple):
    """A key that came in, and whether this request counts against its rate limit."""

    key: PresentedKey
    counted: bool


class AuthResult(NamedTuple):
    """Who makes a request (None: no valid key) and what the key may still do (None: not counted)."""

    caller: Caller | None
    allowance: Allowance | None


NOBODY = AuthResult(None, None)


def credentials_of(scope: Scope) -> Credentials | None:
    """The key of a request to the API or the feed. None: there is none, or not as there should be."""
    if _CREDENTIALS not in scope:
        scope[_CREDENTIALS] = _read_credentials(scope)
    credentials: Credentials | None = scope[_CREDENTIALS]
    return credentials


def _read_credentials(scope: Scope) -> Credentials | None:
    path = scope["path"]
    if not path.startswith(("/v1/", "/telematics/")):
        return None
    for name, value in scope["headers"]:
        if name == b"authorization":
            bearer = _BEARER.fullmatch(value.decode("latin-1"))
            if bearer is None:
                return None
            # the contract's limit is the API's; the feed has one of positions
            return Credentials(PresentedKey.of(bearer.group(1)), counted=path.startswith("/v1/"))
    return None


def unauthorized() -> ApiError:
    return ApiError(
        "unauthorized",
        "Send a valid API key as `Authorization: Bearer <API_KEY>`; it is missing, malformed, revoked or expired.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def refusal_of(auth_result: AuthResult, permission: str | None) -> ApiError | None:
    """401 without a valid key, 429 over the limit, 403 without the permission. None: it may go on."""
    caller, allowance = auth_result
    if caller is None:
        return unauthorized()
    if allowance is not None and not allowance.allowed:
        return ApiError(
            "rate_limited",
            f"More than 600 requests in a minute from this key; retry in {allowance.retry_after_seconds} s.",
            headers={"Retry-After": str(allowance.retry_after_seconds)},
        )
    if permission is not None and permission not in caller.scopes:
        return ApiError("insufficient_scope", f"The key lacks the scope `{permission}`.")
    return None
