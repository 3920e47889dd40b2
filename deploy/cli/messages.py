"""Messages to drivers: the list of them, and those that are withheld after a restore."""

from collections.abc import Callable
from typing import Annotated, Any
from uuid import UUID

import typer

from deploy.cli.arguments import AsJson, CompanyId, Why, acting, known_id, read_company_id
from deploy.cli.failures import CommandFailed
from deploy.cli.output import plain, print_table, screen, show, show_sentence
from deploy.cli.storing import transaction, transaction_about
from domain import clock
from domain.database.connections import Connection
from domain.ids import with_shown_ids
from domain.messages.due_messages import list_messages
from domain.messages.withholding import Withheld, list_withheld_messages
from domain.wording import counted

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def messages_list(company_id: CompanyId, as_json: AsJson = False) -> None:
    """Lists the messages to a company's drivers: status, channel, time and text."""
    with transaction_about(company_id) as connection:
        rows = list_messages(connection, company_id)
    documents = [with_shown_ids(row._asdict(), id="msg") for row in rows]

    def text() -> None:
        for row in documents:
            read = f", read by {plain(row['read_at'])}" if row["read_at"] else ""
            at = plain(row["sent_at"] or row["created_at"])
            screen.rule(f"{row['status']} ({row['channel'] or 'not tried yet'})  {at}{read}")
            screen.print(row["text"] or "(the text is not kept any more)")
        screen.print(counted(len(documents), "message"))

    show(as_json, documents, text)


EitherCompany = Annotated[
    UUID | None,
    typer.Option("--company", parser=read_company_id, metavar="ID", help="Only this company's; all unless set."),
]
MessageIds = Annotated[
    list[str] | None, typer.Argument(metavar="[MESSAGE_ID]...", help="The messages, as `messages withheld` lists them.")
]
All = Annotated[bool, typer.Option("--all", help="Every withheld message, in place of ids.")]


@app.command("withheld")
def messages_withheld(company_id: EitherCompany = None, as_json: AsJson = False) -> None:
    """Lists the messages that are withheld after a restore, because the driver may have one already."""
    with transaction() as connection:
        found = list_withheld_messages(connection, company_id)
    rows = [with_shown_ids(row._asdict(), id="msg") for row in found]

    def text() -> None:
        print_table(rows, "id", "external_id", "scheduled_start", "driver_id", "withheld_since")
        screen.print(f"{counted(len(rows), 'message')} withheld")

    show(as_json, rows, text)


@app.command("release")
def messages_release(
    message_ids: MessageIds = None,
    every: All = False,
    company_id: EitherCompany = None,
    as_corrections: Annotated[
        bool, typer.Option("--corrected", help="Say that it replaces another plan: the driver may have an older one.")
    ] = False,
    reason: Why = "",
    as_json: AsJson = False,
) -> None:
    """Sends withheld messages, once it is known that the drivers do not have them."""

    from domain.routes.plans.withheld_messages import release_withheld

    def release(connection: Connection, ids: list[UUID] | None) -> list[Withheld]:
        now = clock.now()
        return release_withheld(connection, company_id, ids, acting(reason), as_corrections=as_corrections, now=now)

    _decide("release", release, message_ids, every, as_json)


@app.command("discard")
def messages_discard(
    message_ids: MessageIds = None,
    every: All = False,
    company_id: EitherCompany = None,
    reason: Why = "",
    as_json: AsJson = False,
) -> None:
    """Discards withheld messages, where the drivers have them already. They are `failed` then."""

    from domain.routes.plans.withheld_messages import discard_withheld

    def discard(connection: Connection, ids: list[UUID] | None) -> list[Withheld]:
        return discard_withheld(connection, company_id, ids, acting(reason), now=clock.now())

    _decide("discard", discard, message_ids, every, as_json)


def _decide(
    action: str,
    decide: Callable[[Connection, list[UUID] | None], list[Withheld]],
    message_ids: list[str] | None,
    every: bool,
    as_json: bool,
) -> None:
    if every == bool(message_ids):
        raise CommandFailed("name the messages, or give --all for every withheld one")
    with transaction() as connection:
        messages = decide(
            connection, None if every else [known_id("msg", text, _no_message) for text in message_ids or ()]
        )
    rows: list[dict[str, Any]] = [with_shown_ids(message._asdict(), id="msg") for message in messages]
    show_sentence(as_json, rows, f"{counted(len(rows), 'withheld message')} {action.rstrip('e')}ed")


def _no_message(text: str) -> CommandFailed:
    return CommandFailed(f"{text!r} is no message's id: see `fuelroute messages withheld`")
