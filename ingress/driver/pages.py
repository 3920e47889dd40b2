"""The endpoints of the driver's page: the page itself, its scripts, and the answers that it posts.

The token in the address is the only secret. It stands in no log line, no trace and no error: what fails here is logged
here, without the address."""

from hashlib import sha256

from domain.database.health import is_away
from domain.settings import Settings
from domain.telemetry.logs import get_logger
from ingress.api.request import Answer, Request
from ingress.api.services import Services
from ingress.driver.rendering import STATIC, STYLES_HASH, Rendering
from ingress.driver.trips import LinkedTrip, TooMany, Trips
from ingress.http.problems import ApiError

log = get_logger(__name__)

_HTML = b"text/html; charset=utf-8"
_SCRIPT = b"text/javascript; charset=utf-8"
_SECURITY = (
    (
        b"content-security-policy",
        (
            f"default-src 'none'; script-src 'self'; style-src 'sha256-{STYLES_HASH}'; connect-src 'self'; "
            "worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        ).encode(),
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-robots-tag", b"noindex, nofollow"),
)
_FRESH = (*_SECURITY, (b"cache-control", b"private, no-cache"))
_KEPT = (*_SECURITY, (b"cache-control", b"public, max-age=31536000, immutable"))
_UNKNOWN = "This link shows nothing"
_UNKNOWN_TEXT = "It is wrong, or its trip is over. Use the link of the newest message, or call your dispatcher."


class DriverPages:
    """The driver's pages of one ingress process."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._trips = Trips(services, hours=settings.driver_link_hours)
        self._rendering = Rendering()
        self._scripts = {path.name: path.read_bytes() for path in STATIC.iterdir()}

    async def show(self, request: Request) -> Answer:
        """The page of a trip; 404 for a token that opens nothing, whatever the reason."""
        try:
            found = await self._trips.find(_token_of(request))
            return self._page(request, found) if found is not None else self._nothing()
        except TooMany as refusal:
            return self._too_many(refusal)
        except Exception as error:
            return self._failed(request, error)

    async def script(self, request: Request) -> Answer:
        name = request.scope["path"].rpartition("/")[2]
        if name not in self._scripts:
            raise ApiError("not_found", "There is no such file.")
        return Answer(200, self._scripts[name], _SCRIPT, _FRESH if name == "worker.js" else _KEPT)

    async def close(self) -> None:
        await self._trips.close()

    def _page(self, request: Request, found: LinkedTrip) -> Answer:
        body = self._rendering.page(found.trip)
        tag = b'"%s"' % sha256(body).hexdigest()[:32].encode()
        headers = (*_FRESH, (b"etag", tag))
        return Answer(304, b"", _HTML, headers) if request.if_none_match == tag else Answer(200, body, _HTML, headers)

    def _nothing(self) -> Answer:
        return Answer(404, self._rendering.nothing(_UNKNOWN, _UNKNOWN_TEXT), _HTML, _FRESH)

    def _too_many(self, refusal: TooMany) -> Answer:
        body = self._rendering.nothing("Too many requests", "Wait a minute, then load the page again.")
        return Answer(429, body, _HTML, (*_FRESH, (b"retry-after", b"%d" % refusal.retry_after_seconds)))

    def _failed(self, request: Request, error: Exception) -> Answer:
        if is_away(error):
            log.warning("driver_page.database_away", request_id=request.own_id, error=type(error).__name__)
        else:
            log.exception("driver_page.failed", request_id=request.own_id)
        body = self._rendering.nothing("The page could not be made", "Try again in a minute, or call your dispatcher.")
        return Answer(503, body, _HTML, (*_FRESH, (b"retry-after", b"5")))


def _token_of(request: Request) -> str:
    """The token in the address. It is no `{id}`, which the request log keeps."""
    token: str = request.scope["path_params"]["token"]
    return token
