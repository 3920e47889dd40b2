"""Notices: the subscriptions of a company's people, who subscribe in the console, those of the operators, and what was
sent."""

from pathlib import Path
from typing import Annotated, Any

import typer

from deploy.cli.arguments import AsJson, CompanyId, Limit, Why, acting, read_secret
from deploy.cli.output import print_fields, print_table, show, show_sentence, show_table
from deploy.cli.storing import transaction, transaction_about
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contacts import Contacts
from domain.ids import with_shown_ids
from domain.needs.operator_needs import OPERATOR_NEEDS
from domain.notices.notice_log import list_notices
from domain.notices.subscriptions import (
    OPERATORS,
    SUBSCRIPTIONS,
    Subscription,
    SubscriptionValues,
    add_subscription,
    remove_subscription,
)
from domain.settings import get_settings
from domain.text import printable

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def notices_list(company_id: CompanyId, limit: Limit = 100, as_json: AsJson = False) -> None:
    """Lists a company's notices, newest first: status, subscription, text, and why one was not sent."""
    with transaction_about(company_id) as connection:
        notices = list_notices(connection, company_id, limit=limit)
    rows = [with_shown_ids(one._asdict(), id="ntc") for one in notices]
    show_table(as_json, rows, "id", "status", "name", "kind", "part", "opened_at", "error")


@app.command("subscriptions")
def notices_subscriptions(company_id: CompanyId, as_json: AsJson = False) -> None:
    """Lists a company's subscriptions, with the kind of each channel and without its address."""
    with transaction_about(company_id) as connection:
        rows = [_document(one) for one in SUBSCRIPTIONS.all(connection, company_id)]
    show_table(as_json, rows, "id", "name", "channel", "kinds", "after_minutes", "state")


# --- Operators -------------------------------------------------------------------------------------------------

_KINDS = [need.kind for need in OPERATOR_NEEDS]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help=f"A kind of alert; give the option once for each of {', '.join(_KINDS)}. Without it: all.",
    ),
]


@app.command("operators")
def notices_operators(limit: Limit = 20, as_json: AsJson = False) -> None:
    """Lists who is told of what `fuelroute queues` calls urgent, and the newest notices of it."""
    with transaction() as connection:
        rows = [_document(one) for one in SUBSCRIPTIONS.all(connection, OPERATORS)]
        notices = [with_shown_ids(one._asdict(), id="ntc") for one in list_notices(connection, OPERATORS, limit=limit)]

    def show_tables() -> None:
        print_table(rows, "id", "name", "channel", "kinds", "after_minutes", "state")
        print_table(notices, "id", "status", "name", "kind", "part", "opened_at", "error")

    show(as_json, {"subscriptions": rows, "notices": notices}, show_tables)


@app.command("operators-add")
def notices_operators_add(
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="Who is told.")],
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="The channel: an Apprise URL; - reads it from standard input.")
    ],
    kinds: Kinds = None,
    after_minutes: Annotated[
        int, typer.Option("--after-minutes", min=0, help="An alert is told once it has lasted so long.")
    ] = 5,
    time_zone: Annotated[str, typer.Option("--time-zone", help="The zone of the times in the texts.")] = "UTC",
    reason: Why = "",
    as_json: AsJson = False,
) -> None:
    """Tells operators from now on what `fuelroute queues` calls urgent, and when it is over. The scheduler sends it."""
    settings = get_settings()
    url = read_secret(Path("-")) if url == "-" else url
    values = SubscriptionValues(name, kinds or _KINDS, url, after_minutes, None, None, time_zone)
    with transaction() as connection:
        made = add_subscription(
            connection,
            OPERATORS,
            None,
            values,
            acting(reason),
            allowed=AllowedHosts.of(settings),
            contacts=Contacts.of(settings),
        )
    document = _document(made)
    show(as_json, document, lambda: print_fields(document))


@app.command("operators-remove")
def notices_operators_remove(
    subscription: Annotated[str, typer.Argument(metavar="SUBSCRIPTION_ID", help="As `notices operators` shows it.")],
    reason: Why = "",
    as_json: AsJson = False,
) -> None:
    """Removes a subscription of the operators."""
    subscription_id = SUBSCRIPTIONS.read_id(subscription)
    with transaction() as connection:
        remove_subscription(connection, OPERATORS, subscription_id, acting(reason))
    show_sentence(as_json, {"id": subscription, "removed": True}, f"removed {printable(subscription)}")


def _document(one: Subscription) -> dict[str, Any]:
    document = with_shown_ids(one._asdict(), id="sub")
    return {**document, "state": "on" if one.disabled_at is None else "off"}
