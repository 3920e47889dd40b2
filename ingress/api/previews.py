"""The fuel of a load before anybody takes it: `POST /planning/preview`, which is no part of `/v1`."""

from domain.accounts.keys import Caller, still_valid
from domain.contract.checking import read_body
from domain.encoding import write
from domain.previews.shapes import PreviewInput
from ingress.api.access import unauthorized
from ingress.api.authenticator import of_callers
from ingress.api.endpoints import NO_SUCH_ROUTE, Api, checked, invalid
from ingress.api.openapi import describe_planning
from ingress.api.request import Answer, Request
from ingress.api.services import Services
from ingress.http.problems import ApiError
from ingress.previews.messages import Failed, NoRoute, Previewed, Refused
from ingress.previews.processes import PreviewBusy

PREVIEW_SCOPE = "plans:preview"


class PreviewFailed(Exception):
    """The preview process failed; its log says why."""


class LoadPreviews:
    """The endpoint, over the preview processes of one ingress process."""

    def __init__(self, api: Api, services: Services) -> None:
        self._api, self._services = api, services
        self._description = write(describe_planning())

    async def describe(self, _: Request) -> Answer:
        return Answer(200, self._description)

    async def preview(self, request: Request) -> Answer:
        """Computes the plan of a load in another process, so that no push waits for it. Nothing is stored."""
        caller = await self._api.admit(request, PREVIEW_SCOPE)
        async with self._api.body_permit(request, caller.company_id.hex):
            body = await request.body(self._services.settings.body_timeout_seconds)
        checked(lambda: read_body(body, PreviewInput), "The body")
        try:
            reply = await self._services.previews.preview(caller.tenant, body)
        except PreviewBusy:
            raise _busy() from None
        await self._require_valid(caller)
        match reply:
            case Previewed(answer):
                return Answer(200, bytes(answer))
            case Refused(faults):
                raise invalid("The body", faults)
            case NoRoute():
                raise ApiError("not_found", NO_SUCH_ROUTE)
            case Failed():
                raise PreviewFailed

    async def _require_valid(self, caller: Caller) -> None:
        """Checks the key once more: it may have been revoked while the request waited. Raises ApiError 401."""
        valid: list[bool] = await self._services.ask(still_valid([caller.key_id]), of_callers([caller]))
        if not all(valid):
            raise unauthorized()


def _busy() -> ApiError:
    return ApiError(
        "rate_limited",
        "Too many previews are being computed; nothing was stored, so ask again in 2 s.",
        headers={"Retry-After": "2"},
    )
