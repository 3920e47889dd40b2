"""Every error that a client raises. All are FuelrouteError; the API key is in none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .models import FieldFault, Route


class FuelrouteError(Exception):
    """The base class of every error of a client."""


class Misconfigured(FuelrouteError, ValueError):
    """No address or no key, or one that cannot be right."""


class ApiError(FuelrouteError):
    """The service refused the request, or failed. Branch on `code` and `status`; `detail` is for people."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: list[FieldFault] | None = None,
        request_id: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors or []
        self.request_id = request_id
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        faults = "".join(f"; {fault.field or 'body'}: {fault.message}" for fault in self.errors)
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"{self.status} {self.code}: {self.detail}{faults}{request}"


class ServiceUnreachable(FuelrouteError):
    """No answer: the service could not be reached, or did not answer in time. The cause is the error of httpx."""


class UnexpectedAnswer(FuelrouteError):
    """The answer is not the API's. The address may be wrong, or a proxy answered."""


class RouteEnded(FuelrouteError):
    """The route ended in another status than the one that was waited for."""

    def __init__(self, route: Route, wanted: str) -> None:
        super().__init__(f"route {route.id} is {route.status}, and will not become {wanted}")
        self.route = route
        self.wanted = wanted


class WaitTimeout(FuelrouteError, TimeoutError):
    """The route did not reach the status in time. `route` is its last known state."""

    def __init__(self, route: Route, wanted: str, seconds: float) -> None:
        super().__init__(f"route {route.id} is {route.status} and not {wanted} after {seconds:g} s")
        self.route = route
        self.wanted = wanted


class InvalidWebhook(FuelrouteError):
    """The request was not signed with the secret, is too old, or holds no event. Answer it with 400."""
