"""The key and the permissions of a request: they let it go on, or refuse it."""

from msgspec import Struct

from domain.accounts.keys import Caller, PresentedKey
from ingress.api.rate_limits import Allowance, Counted
from ingress.http.problems import ApiError


class Credentials(Struct, frozen=True, gc=False):
    """The key of a request, and the rate limit that the request counts against; None if it was counted already."""

    key: PresentedKey
    counted: Counted | None


class AuthResult(Struct, frozen=True, gc=False):
    """The caller of a request (None without a valid key), and the rest of the rate limit (None if it was counted
    already, or Redis is away)."""

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
    """The answer while a company is moved to another cell. After it every client sends the request again, later and
    unchanged."""
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
    """Why a request is refused: 401 without a valid key, 429 over the limit, 403 without the permission. None if it may
    go on."""
    caller, allowance = auth_result.caller, auth_result.allowance
    if caller is None:
        return unauthorized()
    if allowance is not None and not allowance.allowed:
        return rate_limited(allowance)
    if permission is not None and permission not in caller.scopes:
        return ApiError(
            "insufficient_scope",
            f"The key lacks the scope `{permission}`, and the scopes of a key never change. An owner makes another key"
            f" with it on the console's page API keys, or an operator by `fuelroute keys create --scope {permission}`"
            " and the scopes that the key has now.",
        )
    return None
