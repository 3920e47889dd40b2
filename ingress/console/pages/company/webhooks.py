"""The pages Webhooks: endpoints, the deliveries to each, and one delivery with its payload and the answers."""

import msgspec
from starlette.responses import Response

from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.users import MAY_MANAGE_WEBHOOKS
from domain.audit.entries import Actor
from domain.database.connections import Tenant
from domain.ids import shown_id
from domain.lifecycle import Environment
from domain.telemetry.logs import get_logger
from domain.webhooks import delivery_log, endpoints
from domain.webhooks.delivery_log import DELIVERY_STATUSES
from domain.webhooks.endpoints import ENDPOINTS, Endpoint, EndpointChanges, NewSecret, UnusableEndpoint, shown_url
from domain.webhooks.events import EVENT_TYPES
from ingress.console.addresses import Faults, action_at, page_at
from ingress.console.refusals import FormFault, not_found
from ingress.console.signed_in import Page, named_in_address, see_other
from ingress.console.stale_forms import require_seen, state_of

log = get_logger(__name__)

PAGE_SIZE = 50

_DONE = {
    "changed": "The endpoint is changed.",
    "enabled": "The endpoint is enabled: it gets every event from now on.",
    "disabled": "The endpoint is disabled.",
    "removed": "The endpoint is removed.",
    "test": "A test event is on its way: load this page again to see the answer.",
    "replayed": "The events will be sent again, with the same ids.",
}


def show(page: Page, *, fault: str = "", status: int = 200) -> Response:
    return page.render(
        "webhooks.html",
        status=status,
        section="webhooks",
        endpoints=ENDPOINTS.all(page.connection, page.company_id),
        shown_url=shown_url,
        may_manage=page.session.role in MAY_MANAGE_WEBHOOKS,
        types=EVENT_TYPES,
        environments=list(Environment),
        form=page.form,
        done=_DONE.get(page.form.text("done"), ""),
        fault=fault,
    )


def add(page: Page, by: Actor) -> Response:
    environment = page.form.choice("environment", Environment)
    if environment is None:
        raise FormFault("choose an environment")
    values = _values(page)
    if not values.url:
        raise FormFault("give the address that receives the events")
    made = endpoints.add_endpoint(
        page.connection,
        Tenant(page.company_id, environment),
        values,
        by,
        allowed=AllowedHosts.of_webhooks(page.console.settings),
        contacts=page.console.contacts,
    )
    return _made(page, made)


def _values(page: Page) -> EndpointChanges:
    """The values of the form. With all boxes ticked they stand for every type, future ones included. Raises FormFault
    if none is ticked."""
    types = page.form.all("type")
    if not types:
        raise FormFault("choose at least one type of events")
    return EndpointChanges(
        url=page.form.text("url", most=4_000) or None,
        description=page.form.text("description"),
        event_types=[] if set(types) == set(EVENT_TYPES) else types,
    )


def _made(page: Page, made: NewSecret) -> Response:
    """Show the secret, on the only page that ever does. It cannot be loaded again."""
    return page.render(
        "webhook_secret.html",
        section="webhooks",
        endpoint=made.endpoint,
        url=shown_url(made.endpoint.url),
        secret=made.secret,
    )


def show_one(page: Page, *, fault: str = "", status: int = 200) -> Response:
    """An endpoint and the deliveries to it, newest first."""
    endpoint = _endpoint(page)
    wanted = page.form.choice("status", DELIVERY_STATUSES)
    before = page.form.text("before")
    if before and not (before.isascii() and before.isdecimal()):
        raise not_found()
    deliveries = delivery_log.list_deliveries(
        page.connection,
        page.company_id,
        endpoint.id,
        status=wanted,
        before=int(before) if before else delivery_log.NEWEST,
        limit=PAGE_SIZE + 1,
    )
    return page.render(
        "webhook.html",
        status=status,
        section="webhooks",
        endpoint=endpoint,
        url=shown_url(endpoint.url),
        seen=state_of(_changeable(endpoint)),
        may_manage=page.session.role in MAY_MANAGE_WEBHOOKS,
        types=EVENT_TYPES,
        chosen=endpoint.event_types or list(EVENT_TYPES),
        deliveries=deliveries[:PAGE_SIZE],
        has_more=len(deliveries) > PAGE_SIZE,
        statuses=DELIVERY_STATUSES,
        status_shown=wanted or "",
        is_first=not before,
        done=_DONE.get(page.form.text("done"), ""),
        fault=fault,
    )


def show_delivery(page: Page) -> Response:
    """Show one delivery: what was sent, and each answer."""
    endpoint, event_id = _endpoint(page), page.id_in_address("evt", "event")
    details = delivery_log.read_delivery(page.connection, page.company_id, endpoint.id, event_id)
    return page.render(
        "webhook_delivery.html",
        section="webhooks",
        endpoint=endpoint,
        url=shown_url(endpoint.url),
        one=details.delivery,
        attempts=list(reversed(details.attempts)),
        payload=msgspec.json.format(details.payload, indent=2) if details.payload is not None else None,
        may_manage=page.session.role in MAY_MANAGE_WEBHOOKS,
    )


def _changeable(endpoint: Endpoint) -> tuple[object, ...]:
    return endpoint.url, endpoint.description, endpoint.event_types


def change(page: Page, by: Actor) -> Response:
    endpoint = _endpoint(page)
    require_seen(page, _changeable(endpoint), "this endpoint")
    allowed = AllowedHosts.of_webhooks(page.console.settings)
    endpoints.change_endpoint(
        page.connection, page.company_id, endpoint.id, _values(page), by, allowed=allowed, now=page.now
    )
    return _done(page, endpoint, "changed")


def enable(page: Page, by: Actor) -> Response:
    endpoint = _endpoint(page)
    endpoints.enable_endpoint(page.connection, page.company_id, endpoint.id, by)
    return _done(page, endpoint, "enabled")


def disable(page: Page, by: Actor) -> Response:
    endpoint = _endpoint(page)
    endpoints.disable_endpoint(page.connection, page.company_id, endpoint.id, by, now=page.now)
    return _done(page, endpoint, "disabled")


def remove(page: Page, by: Actor) -> Response:
    endpoint = _endpoint(page)
    endpoints.remove_endpoint(page.connection, page.company_id, endpoint.id, by, now=page.now)
    return see_other("/webhooks?done=removed")


def rotate_secret(page: Page, by: Actor) -> Response:
    endpoint = _endpoint(page)
    made = endpoints.rotate_secret(
        page.connection, page.company_id, endpoint.id, by, contacts=page.console.contacts, now=page.now
    )
    return _made(page, made)


def send_test(page: Page, by: Actor) -> Response:
    """Send a test event. Raises UnusableEndpoint if the endpoint is disabled, or after too many tests; the page says
    so."""
    endpoint = _endpoint(page)
    delivery_log.send_test(page.connection, page.company_id, endpoint.id, by, now=page.now)
    return _done(page, endpoint, "test")


def replay(page: Page, by: Actor) -> Response:
    """Send an event again. Raises UnknownDelivery, and UnusableEndpoint if the endpoint is disabled; the page says
    so."""
    endpoint, event_id = _endpoint(page), page.id_in_address("evt", "event")
    delivery_log.replay_delivery(page.connection, page.company_id, endpoint.id, event_id, by, now=page.now)
    return _done(page, endpoint, "replayed")


def replay_failed(page: Page, by: Actor) -> Response:
    """Send failed events again. Raises Refused for a time that is none, and UnusableEndpoint if the endpoint is
    disabled."""
    endpoint, since = _endpoint(page), page.moment("since", "Go back and say since when.")
    delivery_log.replay_failed(page.connection, page.company_id, endpoint.id, by, since=since, now=page.now)
    return _done(page, endpoint, "replayed")


def _endpoint(page: Page) -> Endpoint:
    return named_in_address(page, ENDPOINTS)


def _done(page: Page, endpoint: Endpoint, done: str) -> Response:
    log.info(f"console.webhook_{done}", endpoint_id=endpoint.id, company_id=page.company_id)
    return see_other(f"/webhooks/{shown_id('whe', endpoint.id)}?done={done}")


_FAULTS: Faults = {UnusableEndpoint: 400}
ADDRESSES = [
    page_at("/webhooks", show),
    action_at("/webhooks", add, by=MAY_MANAGE_WEBHOOKS, again=show, faults=_FAULTS),
    page_at("/webhooks/{id}", show_one),
    page_at("/webhooks/{id}/{event}", show_delivery),
    action_at("/webhooks/{id}/change", change, by=MAY_MANAGE_WEBHOOKS, again=show_one, faults=_FAULTS),
    *(
        action_at(f"/webhooks/{{id}}/{path}", handler, by=MAY_MANAGE_WEBHOOKS)
        for path, handler in (
            ("enable", enable),
            ("disable", disable),
            ("remove", remove),
            ("rotate-secret", rotate_secret),
            ("test", send_test),
            ("replay-failed", replay_failed),
            ("{event}/replay", replay),
        )
    ),
]
