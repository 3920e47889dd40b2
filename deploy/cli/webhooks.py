"""Webhooks: endpoints of companies, and the deliveries to them."""

import time
from typing import Annotated, Any
from uuid import UUID

import typer

from deploy.cli.arguments import AsJson, CompanyId, Limit, Why, Yes, acting, confirm, known_id, read_moment
from deploy.cli.failures import CommandFailed
from deploy.cli.output import print_fields, screen, show, show_sentence, show_table
from deploy.cli.storing import locked, transaction, transaction_about
from domain import clock
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import Contacts
from domain.audit.entries import Actor
from domain.database.connections import Connection, Tenant
from domain.ids import with_shown_ids
from domain.lifecycle import Environment
from domain.queue.jobs import after_commit, deliver_webhooks_job
from domain.settings import get_settings
from domain.text import printable
from domain.webhooks import delivery_log, endpoints
from domain.webhooks.delivery_log import DELIVERY_STATUSES, DeliveryDetails, DeliveryStatus
from domain.webhooks.endpoints import ENDPOINTS, Endpoint, EndpointChanges, NewSecret
from domain.webhooks.events import EVENT_TYPES
from domain.wording import counted

app = typer.Typer(no_args_is_help=True)

EndpointId = Annotated[
    str, typer.Argument(metavar="ENDPOINT_ID", help="The endpoint's id, as `webhooks list` shows it.")
]
EventId = Annotated[
    str | None, typer.Option("--event", metavar="EVENT_ID", help="The event, as `deliveries` shows it.")
]
Url = typer.Option("--url", metavar="URL", help="The address that gets the events, such as https://example.com/hooks.")
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help=f"A type of events that it gets; give the option once for each of {', '.join(EVENT_TYPES)}.",
    ),
]
Description = Annotated[str | None, typer.Option("--description", metavar="TEXT", help="What receives the events.")]

_TEST_SECONDS = 30.0
"""Longest wait of `test` for the answer: a sweep, and an attempt."""


@app.command("add")
def webhooks_add(
    company_id: CompanyId,
    environment: Annotated[Environment, typer.Option("--environment", help="The routes that it is told of.")],
    url: Annotated[str, Url],
    types: Types = None,
    description: Description = None,
    as_json: AsJson = False,
) -> None:
    """Adds an endpoint and prints its secret, which is never shown again. It gets all types of events unless some are
    named."""
    settings = get_settings()
    values = EndpointChanges(url, description, types or [])
    with transaction() as connection:
        made = endpoints.add_endpoint(
            connection,
            Tenant(company_id, environment),
            values,
            acting(),
            allowed=AllowedHosts.of_webhooks(settings),
            contacts=Contacts.of(settings),
        )
    _show_secret(made, as_json)


@app.command("list")
def webhooks_list(company_id: CompanyId, as_json: AsJson = False) -> None:
    """Lists a company's endpoints, without their secrets."""
    with transaction_about(company_id) as connection:
        rows = [_document(one) for one in ENDPOINTS.all(connection, company_id)]
    show_table(as_json, rows, "id", "environment", "url", "types", "state")


@app.command("show")
def webhooks_show(company_id: CompanyId, endpoint_id: EndpointId, as_json: AsJson = False) -> None:
    """Shows one endpoint."""
    with locked(ENDPOINTS, company_id, endpoint_id) as (_, endpoint):
        document = _document(endpoint)
    show(as_json, document, lambda: print_fields(document))


@app.command("set")
def webhooks_set(
    company_id: CompanyId,
    endpoint_id: EndpointId,
    url: Annotated[str | None, Url] = None,
    types: Types = None,
    all_types: Annotated[bool, typer.Option("--all-types", help="It gets every type of events.")] = False,
    description: Description = None,
    enabled: Annotated[
        bool | None,
        typer.Option("--enable/--disable", help="Whether it gets events. Disabling ends what is under way."),
    ] = None,
    reason: Why = "",
    as_json: AsJson = False,
) -> None:
    """Changes an endpoint."""
    if all_types and types:
        raise CommandFailed("give --all-types or --type, not both")
    values = EndpointChanges(url, description, [] if all_types else types)
    if not any(value is not None for value in (*values, enabled)):
        raise CommandFailed("say what to change: see `fuelroute webhooks set --help`")
    with locked(ENDPOINTS, company_id, endpoint_id) as (connection, endpoint):
        if any(value is not None for value in values):
            allowed = AllowedHosts.of_webhooks(get_settings())
            endpoints.change_endpoint(
                connection, company_id, endpoint.id, values, acting(reason), allowed=allowed, now=clock.now()
            )
        if enabled is not None:
            _enable(connection, endpoint, enabled, acting(reason))
        after_commit(connection, deliver_webhooks_job(endpoint.id, company_id))
        document = _document(ENDPOINTS.lock(connection, company_id, endpoint.id))
    show(as_json, document, lambda: print_fields(document))


def _enable(connection: Connection, endpoint: Endpoint, enabled: bool, by: Actor) -> None:
    if enabled:
        endpoints.enable_endpoint(connection, endpoint.company_id, endpoint.id, by)
    else:
        endpoints.disable_endpoint(connection, endpoint.company_id, endpoint.id, by, now=clock.now())


@app.command("remove")
def webhooks_remove(
    company_id: CompanyId, endpoint_id: EndpointId, yes: Yes = False, reason: Why = "", as_json: AsJson = False
) -> None:
    """Removes an endpoint. What is under way to it is not delivered."""
    with locked(ENDPOINTS, company_id, endpoint_id) as (connection, endpoint):
        confirm(yes, f"{endpoint_id} is removed for good")
        endpoints.remove_endpoint(connection, company_id, endpoint.id, acting(reason), now=clock.now())
    show_sentence(as_json, {"id": endpoint_id, "removed": True}, f"removed {endpoint_id}")


@app.command("rotate-secret")
def webhooks_rotate_secret(
    company_id: CompanyId, endpoint_id: EndpointId, reason: Why = "", as_json: AsJson = False
) -> None:
    """Makes a new secret and prints it. For 24 hours the former ones sign as well."""
    with locked(ENDPOINTS, company_id, endpoint_id) as (connection, endpoint):
        contacts = Contacts.of(get_settings())
        made = endpoints.rotate_secret(
            connection, company_id, endpoint.id, acting(reason), contacts=contacts, now=clock.now()
        )
    _show_secret(made, as_json)


@app.command("test")
def webhooks_test(company_id: CompanyId, endpoint_id: EndpointId, as_json: AsJson = False) -> None:
    """Sends the endpoint an event that tells of no route, and prints the answer. The exit status is 1 if it is not
    taken."""
    with locked(ENDPOINTS, company_id, endpoint_id) as (connection, endpoint):
        event_id = delivery_log.send_test(connection, company_id, endpoint.id, acting(), now=clock.now())
        after_commit(connection, deliver_webhooks_job(endpoint.id, company_id))
    deadline = time.monotonic() + _TEST_SECONDS
    while True:
        with transaction() as connection:
            details = delivery_log.read_delivery(connection, company_id, endpoint.id, event_id)
        if details.attempts or details.delivery.status == "failed":
            break
        if time.monotonic() > deadline:
            raise CommandFailed("the event was not sent yet: check that a worker serves the queue webhooks")
        time.sleep(0.1)
    _show_delivery(details, as_json)
    if details.delivery.status != "delivered":
        raise typer.Exit(1)


@app.command("deliveries")
def webhooks_deliveries(
    company_id: CompanyId,
    endpoint_id: EndpointId,
    event_id: EventId = None,
    status: Annotated[
        str | None, typer.Option("--status", metavar="S", help=f"Only those that are {', '.join(DELIVERY_STATUSES)}.")
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Lists the deliveries to an endpoint, newest first; with --event one of them, its payload and the answers."""
    wanted = _status(status)
    with locked(ENDPOINTS, company_id, endpoint_id) as (connection, endpoint):
        if event_id is not None:
            details = delivery_log.read_delivery(connection, company_id, endpoint.id, _event(event_id))
        else:
            found = delivery_log.list_deliveries(connection, company_id, endpoint.id, status=wanted, limit=limit)
    if event_id is not None:
        _show_delivery(details, as_json)
        return
    rows = [with_shown_ids(row._asdict()) for row in found]
    show_table(as_json, rows, "event_id", "type", "route_id", "at", "status", "attempts", "error")


@app.command("replay")
def webhooks_replay(
    company_id: CompanyId,
    endpoint_id: EndpointId,
    event_id: EventId = None,
    failed_since: Annotated[
        str | None,
        typer.Option(
            "--failed-since", metavar="T", help="Everything that failed of the events since then: 2026-11-23T00:00:00Z."
        ),
    ] = None,
    reason: Why = "",
    as_json: AsJson = False,
) -> None:
    """Sends one event again, or all that failed since a time. Each keeps its id."""
    if (event_id is None) == (failed_since is None):
        raise CommandFailed("name one event with --event, or give --failed-since")
    now, by = clock.now(), acting(reason)
    with locked(ENDPOINTS, company_id, endpoint_id) as (connection, endpoint):
        if event_id is not None:
            delivery_log.replay_delivery(connection, company_id, endpoint.id, _event(event_id), by, now=now)
            count = 1
        else:
            since = read_moment("--failed-since", failed_since or "")
            count = delivery_log.replay_failed(connection, company_id, endpoint.id, by, since=since, now=now)
        after_commit(connection, deliver_webhooks_job(endpoint.id, company_id))
    show_sentence(as_json, {"replayed": count}, f"{counted(count, 'event')} will be sent again")


def _event(text: str) -> UUID:
    return known_id("evt", text, delivery_log.UnknownDelivery)


def _status(text: str | None) -> DeliveryStatus | None:
    for status in DELIVERY_STATUSES:
        if text == status:
            return status
    if text is not None:
        raise CommandFailed(f"--status: {text!r} is none of {', '.join(DELIVERY_STATUSES)}")
    return None


def _document(endpoint: Endpoint) -> dict[str, Any]:
    state = "enabled" if endpoint.disabled_at is None else f"disabled: {endpoint.disabled_reason}"
    if endpoint.disabled_at is None and endpoint.failing_since is not None:
        state = f"failing since {endpoint.failing_since:%Y-%m-%d %H:%M} UTC"
    values = {
        **endpoint._asdict(),
        "url": endpoints.shown_url(endpoint.url),
        "types": endpoint.event_types or ["all"],
        "state": state,
    }
    return with_shown_ids(values, id="whe")


def _show_secret(made: NewSecret, as_json: bool) -> None:
    document = {**_document(made.endpoint), "secret": made.secret}

    def text() -> None:
        screen.print(f"endpoint {document['id']}\n{made.secret}\nIt is shown only now: store it.", highlight=False)

    show(as_json, document, text)


def _show_delivery(details: DeliveryDetails, as_json: bool) -> None:
    attempts = [attempt._asdict() for attempt in details.attempts]
    document = {
        **with_shown_ids(details.delivery._asdict()),
        "payload": details.payload,
        "attempts": attempts,
    }

    def text() -> None:
        print_fields(with_shown_ids(details.delivery._asdict()))
        for attempt in details.attempts:
            how = attempt.error or "delivered"
            screen.rule(f"attempt {attempt.attempt}  {attempt.at}  {attempt.milliseconds:g} ms  {how}")
            screen.print(printable(attempt.answer or "(no body)", keep="\n"), highlight=False)
        screen.rule("payload")
        screen.print(details.payload or "(not prepared yet, or erased)", highlight=False)

    show(as_json, document, text)
