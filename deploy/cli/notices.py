"""Notices to people of a company: their subscriptions, and what was sent. People subscribe in the console."""

from typing import Annotated, Any

import typer

from deploy.cli.arguments import AsJson, CompanyId
from deploy.cli.output import print_table, show
from deploy.cli.storing import transaction
from domain.accounts import companies
from domain.ids import with_shown_ids
from domain.notices.notice_log import list_notices
from domain.notices.subscriptions import Subscription, list_subscriptions

app = typer.Typer(no_args_is_help=True, help="Notices: tell people of a company when something needs them.")

Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="So many are listed, at most.")]


@app.command("list")
def notices_list(company_id: CompanyId, limit: Limit = 100, as_json: AsJson = False) -> None:
    """Lists a company's notices, newest first: status, subscription, text, and why one was not sent."""
    with transaction() as connection:
        companies.require_company(connection, company_id, even_retired=True)
        notices = list_notices(connection, company_id, limit=limit)
    rows = [with_shown_ids(one._asdict(), id="ntc") for one in notices]
    show(as_json, rows, lambda: print_table(rows, "id", "status", "name", "kind", "part", "opened_at", "error"))


@app.command("subscriptions")
def notices_subscriptions(company_id: CompanyId, as_json: AsJson = False) -> None:
    """Lists a company's subscriptions, with the kind of each channel and without its address."""
    with transaction() as connection:
        companies.require_company(connection, company_id, even_retired=True)
        rows = [_document(one) for one in list_subscriptions(connection, company_id)]
    show(as_json, rows, lambda: print_table(rows, "id", "name", "channel", "kinds", "after_minutes", "state"))


def _document(one: Subscription) -> dict[str, Any]:
    document = with_shown_ids(one._asdict(), id="sub")
    return {**document, "state": "on" if one.disabled_at is None else "off"}
