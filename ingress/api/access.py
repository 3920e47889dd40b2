"""The key and the permissions of a request, which is refused or goes on."""

from typing import NamedTuple

from domain.accounts.keys import Caller, PresentedKey
from ingress.api.rate_limits import Allowance, Counted
from ingress.http.problems import ApiError


class Credentials(NamedTuple):
    """A key that came in, and the rate limit that this request counts against. None: it was counted before."""

    key: PresentedKey
    counted: Counted | None


class AuthResult(NamedTuple):
    """The caller of a request (None: no valid key), and the rest of the rate limit (None: asked before, or Redis is
    away)."""

    caller: Caller | None
    allowance: Allowance | None


NOBODY = AuthResult(None, None)


def unauthorized() -> ApiError:
    return ApiError(
        "unauthorized",
        "Send a valid API key as `Authorization: Bearer <API_KEY>`; it is missing, malformed, revoked or expired.",
        headers={"WWW-Authenticate": "Bearer"},
    )


PAUSE_SECONDS = 2


def company_paused() -> ApiError:
    """The answer while a company is moved to another cell. It is one after which every client sends the request again,
    later and unchanged."""
    return ApiError(
        "rate_limited",
        f"Your company's data are being moved, and nothing was stored; retry in {PAUSE_SECONDS} s.",
        headers={"Retry-After": str(PAUSE_SECONDS)},
    )


def rate_limited(allowance: Allowance) -> ApiError:
    seconds = allowance.retry_after_seconds
    return ApiError(
        "rate_limited",
        f"More than {allowance.limit:,} requests in a minute from this key; retry in {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )


def refusal_of(auth_result: AuthResult, permission: str | None) -> ApiError | None:
    """The refusal of a request: 401 without a valid key, 429 over the limit, 403 without the permission. None: it may
    go on."""
    caller, allowance = auth_result
    if caller is None:
        return unauthorized()
    if allowance is not None and not allowance.allowed:
        return rate_limited(allowance)
    if permission is not None and permission not in caller.scopes:
        return ApiError("insufficient_scope", f"The key lacks the scope `{permission}`.")
    return None
