"""The endpoints of the driver's page: the page itself, its scripts, and the answers that it posts.

The token in the address is the only secret. It stands in no log line, no trace and no error: what fails here is logged
here, without the address."""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from urllib.parse import parse_qs, parse_qsl

from starlette.requests import ClientDisconnect

from domain import clock
from domain.database.connections import Connection, Tenant
from domain.database.health import is_away
from domain.database.visibility import of_tenants
from domain.driver_page.answers import take_answer
from domain.driver_page.given_answers import GivenAnswer, ImpossibleAnswer, read_given_answer
from domain.driver_page.links import DriverLink
from domain.driver_page.page import OpenedTrip
from domain.ids import read_id
from domain.languages.tags import OWN_NAMES, Language, LanguageTag, read_tag
from domain.languages.units import CURRENCY_OF, Units
from domain.languages.words import Words, capitalized, text_to_say, units_in, words_for
from domain.lifecycle import Environment
from domain.routes.events import ImpossibleStep
from domain.routes.plans.choices import choose
from domain.settings import Settings
from domain.telemetry.logs import get_logger
from ingress.api.request import Answer, Request
from ingress.api.services import Services
from ingress.driver.kept_pages import KeptPage, KeptPages, SeenTrip
from ingress.driver.rendering import STATIC, STYLES_HASH, cut_trip_page, fill_trip_page, make_empty_page, make_trip_page
from ingress.driver.trips import TooMany, Trips
from ingress.http.fair_queue import CapacityTimeout
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
_NOTHING = (
    text_to_say("This link shows nothing"),
    text_to_say("It is wrong, or its trip is over. Use the link of the newest message, or call your dispatcher."),
)
_TOO_MANY = (text_to_say("Too many requests"), text_to_say("Wait a minute, then load the page again."))
_FAILED = (
    text_to_say("The page could not be made"),
    text_to_say("Try again in a minute, or call your dispatcher."),
)
_LONGEST_LANGUAGES = 200
MOST_FORM_BYTES = 4_096
_MOST_FIELDS = 30


_NOT_POSSIBLE = text_to_say("This choice is not possible any more: load the page again.")

_CHOSEN = "chosen"
"""The kind of a form that takes a choice of the menu; the other kinds are those of answers."""

_Take = Callable[[Connection, DriverLink], object]
"""Stores what a form says, and does what follows."""


class DriverPages:
    """The driver's pages of one ingress process."""

    def __init__(self, services: Services, settings: Settings) -> None:
        self._services = services
        self._body_timeout_seconds = settings.body_timeout_seconds
        self._kept = KeptPages()
        self._trips = Trips(services, self._kept, hours=settings.driver_link_hours)
        self._scripts = {path.name: path.read_bytes() for path in STATIC.iterdir()}

    async def show(self, request: Request) -> Answer:
        """The page of a trip; 404 for a token that opens nothing, whatever the reason."""
        return await self._answered(request, self._show(request))

    async def answer(self, request: Request) -> Answer:
        """Takes an answer to a fuel stop, and leads back to the page; 400 with the page where it cannot be taken."""
        return await self._answered(request, self._take(request))

    async def _answered(self, request: Request, work: Awaitable[Answer]) -> Answer:
        try:
            return await work
        except TooMany as refusal:
            return self._too_many(request, refusal)
        except (ApiError, ClientDisconnect, CapacityTimeout):
            raise
        except Exception as error:
            return self._failed(request, error)

    async def _show(self, request: Request) -> Answer:
        chosen = _chosen_language(request)
        trip = await self._trips.page(_token_of(request), chosen)
        if trip is None:
            return self._nothing(request)
        seen = trip if isinstance(trip, SeenTrip) else self._made(trip, chosen)
        body = fill_trip_page(seen.page.parts, seen.truck, seen.time_zone, seen.page.words)
        tag = b'"%s"' % sha256(body).hexdigest()[:32].encode()
        headers = (*_FRESH, (b"etag", tag))
        return Answer(304, b"", _HTML, headers) if request.knows(tag) else Answer(200, body, _HTML, headers)

    def _made(self, trip: OpenedTrip, chosen: Language | None) -> SeenTrip:
        """The trip with a page that is kept from now on."""
        kept, place = self._kept.put(trip), trip.row.place
        kind = kept.kind_of_page(chosen, place)
        page = kept.pages.get(kind)
        if page is None:
            words = _words_of(trip, chosen)
            page = KeptPage(cut_trip_page(trip.shown(), words), words)
            self._kept.put_page(kept, kind, page)
        return kept.seen(page, kind, place, trip.row.truck_at)

    async def _take(self, request: Request) -> Answer:
        trip = await self._trips.open(_token_of(request))
        if trip is None:
            return self._nothing(request)
        body = await request.body(self._body_timeout_seconds, room=_require_short)
        words, form = _words_of(trip, _chosen_language(request)), _form_of(body)
        try:
            take = (
                _choosing(form)
                if form.get("kind") == _CHOSEN
                else _answering(read_given_answer(form, _units_of(form, words)))
            )
            await self._services.in_thread_of(trip.link.company_id, lambda: self._store(trip.link, take))
        except ImpossibleAnswer as error:
            return Answer(400, make_trip_page(trip.shown(), words, fault=words.say(str(error))), _HTML, _FRESH)
        except ImpossibleStep as error:
            fault = f"{words.say(_NOT_POSSIBLE)} {capitalized(words.say(str(error)))}."
            return Answer(400, make_trip_page(trip.shown(), words, fault=fault), _HTML, _FRESH)
        address = request.scope["raw_path"] + (b"?" + query if (query := request.scope["query_string"]) else b"")
        return Answer(303, b"", _HTML, (*_FRESH, (b"location", address)))

    def _store(self, link: DriverLink, take: _Take) -> None:
        visible = of_tenants([(link.company_id, Environment(link.environment))])
        with self._services.database.transaction(visible) as connection:
            take(connection, link)

    async def script(self, request: Request) -> Answer:
        name = request.scope["path"].rpartition("/")[2]
        if name not in self._scripts:
            raise ApiError("not_found", "There is no such file.")
        return Answer(200, self._scripts[name], _SCRIPT, _FRESH if name == "worker.js" else _KEPT)

    async def close(self) -> None:
        await self._trips.close()

    def _nothing(self, request: Request) -> Answer:
        return Answer(404, make_empty_page(*_NOTHING, _words_of_phone(request)), _HTML, _FRESH)

    def _too_many(self, request: Request, refusal: TooMany) -> Answer:
        body = make_empty_page(*_TOO_MANY, _words_of_phone(request))
        return Answer(429, body, _HTML, (*_FRESH, (b"retry-after", b"%d" % refusal.retry_after_seconds)))

    def _failed(self, request: Request, error: Exception) -> Answer:
        if is_away(error):
            log.warning("driver_page.database_away", request_id=request.own_id, error=type(error).__name__)
        else:
            log.exception("driver_page.failed", request_id=request.own_id)
        body = make_empty_page(*_FAILED, _words_of_phone(request))
        return Answer(503, body, _HTML, (*_FRESH, (b"retry-after", b"5")))


def _answering(given: GivenAnswer) -> _Take:
    return lambda connection, link: take_answer(connection, link, given, now=clock.now())


def _choosing(form: Mapping[str, str]) -> _Take:
    """Takes a choice. Raises ImpossibleAnswer if the form names none."""
    choice_id = read_id("cho", form.get("choice", ""))
    if choice_id is None:
        raise ImpossibleAnswer(_NOT_POSSIBLE)

    def take(connection: Connection, link: DriverLink) -> object:
        tenant = Tenant(link.company_id, Environment(link.environment))
        return choose(connection, tenant, link.route_id, choice_id, None, now=clock.now())

    return take


def _words_of(trip: OpenedTrip, chosen: Language | None) -> Words:
    """The words in which the driver reads: those of the language that he chose on the page, or else his own."""
    own = read_tag(trip.row.language) if trip.row.language else None
    if chosen is not None:
        own = LanguageTag(chosen, own.country if own is not None else None)
    return words_for(str(own) if own is not None else None, trip.row.time_zone)


def _chosen_language(request: Request) -> Language | None:
    query = request.scope["query_string"]
    chosen = parse_qs(query.decode("latin-1")).get("l", [""])[0] if query else ""
    return Language(chosen) if chosen in OWN_NAMES else None


def _words_of_phone(request: Request) -> Words:
    """The words for a page whose driver is not known: in the language that he chose, or else the first one of his
    phone that has texts."""
    asked = next((value for name, value in request.scope["headers"] if name == b"accept-language"), b"")
    phone = read_tag(asked[:_LONGEST_LANGUAGES].decode("latin-1"))
    return Words(_chosen_language(request) or (phone.language if phone is not None else Language.ENGLISH))


def _units_of(form: Mapping[str, str], words: Words) -> Units:
    """The units of the page on which the form was filled in; those of the words where it does not say. An answer that
    waited for a connection may be sent from the page in another language."""
    return next((units_in(country) for country in CURRENCY_OF if country == form.get("country")), words.units)


async def _require_short(arrived_bytes: int) -> None:
    if arrived_bytes > MOST_FORM_BYTES:
        raise ApiError("content_too_large", f"The form may have {MOST_FORM_BYTES} bytes at most.")


def _form_of(body: bytes) -> dict[str, str]:
    """The fields of a form; none of a body that is no form."""
    try:
        return dict(parse_qsl(body.decode(), max_num_fields=_MOST_FIELDS))
    except ValueError:
        return {}


def _token_of(request: Request) -> str:
    """The token in the address. It is no `{id}`, which the request log keeps."""
    token: str = request.scope["path_params"]["token"]
    return token
