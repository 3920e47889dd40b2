"""Companies: their import and planning policy, and their end."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from deploy.cli.arguments import AsJson, CompanyArgument, Yes, acting, confirm, read_secret, with_options
from deploy.cli.failures import CommandFailed
from deploy.cli.moving import companies_move
from deploy.cli.output import counting, print_fields, show, show_sentence
from deploy.cli.records import Records, add_commands, by_id
from deploy.cli.storing import transaction, transaction_about
from domain import clock
from domain.accounts import companies
from domain.accounts.contact_urls import channel_of
from domain.accounts.contacts import Contacts
from domain.accounts.listings import ALL_COMPANIES
from domain.accounts.policy import Policy
from domain.contract.captions import CaptionedField, captioned_fields
from domain.database import fence
from domain.ids import read_id, shown_id, with_shown_ids
from domain.messages.due_messages import send_refused_messages
from domain.settings import get_settings
from domain.wording import counted

app = typer.Typer(no_args_is_help=True)

add_commands(
    app,
    Records(
        "company",
        "companies",
        ALL_COMPANIES,
        ("id", "name", "time_zone", "created_at", "retired_at"),
        by_id("company", partial(read_id, "cmp")),
        id_kind="cmp",
        of_company=False,
    ),
)

Name = Annotated[str | None, typer.Option("--name", metavar="N", help="The company's name.")]


def _policy_option(field: CaptionedField) -> Any:
    """The option that sets a value of the policy, from the value's declaration."""
    name = field.name.replace("_", "-")
    flags = f"--{name}/--no-{name}" if field.type is bool else f"--{name}"
    return Annotated[field.type | None, typer.Option(flags, help=_policy_help(field))]


def _policy_help(field: CaptionedField) -> str:
    """The label, what the value means, and its default."""
    meaning, default = field.hint, field.default
    if field.type is bool:
        meaning, default = field.choices["true"], "on" if default == "true" else "off"
    elif field.choices:
        meaning = ", or ".join(f"{what} ({value})" for value, what in field.choices.items())
    sentence = f"{': '.join(filter(None, (field.label, meaning)))}{f'; {default} unless set' if default else ''}."
    return f"{sentence} {_FROM_STANDARD_INPUT}" if field.name == "message_url" else sentence


_FROM_STANDARD_INPUT = (
    "Give - to read it from standard input: others on the machine can see arguments in the process list."
)


_OPTIONS = {field.name: _policy_option(field) for field in captioned_fields(Policy) if field.name != "name"}
"""The options that set a policy, by the fields of `Policy`. The name is a separate option of each command."""


def _policy(message_url: str | None, **fields: Any) -> Policy:
    return Policy(message_url=read_secret(Path("-")) if message_url == "-" else message_url, **fields)


_with_policy = with_options("policy", _OPTIONS, _policy)


@app.command("create")
@_with_policy
def companies_create(
    policy: Policy,
    name: Annotated[str, typer.Option("--name", metavar="N", help="The company's name.")],
    as_json: AsJson = False,
) -> None:
    """Makes a company and prints its id."""
    with transaction() as connection:
        company_id = companies.create_company(
            connection, msgspec.structs.replace(policy, name=name), contacts=Contacts.of(get_settings())
        )
    shown = shown_id("cmp", company_id)
    sentence = f"company {shown}"
    if policy.time_zone is None:
        sentence += (
            f"; its times are UTC until `fuelroute companies set {shown} --time-zone America/Chicago` or the like"
        )
    show_sentence(as_json, {"id": shown, "name": name}, sentence)


@app.command("set")
@_with_policy
def companies_set(
    policy: Policy,
    company_id: CompanyArgument,
    name: Name = None,
    lifts_max_stops: Annotated[
        bool, typer.Option("--no-max-stops", help="Remove the limit of the fuel stops of a plan.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Changes a company's policy. Options that are not given change nothing."""
    if lifts_max_stops and policy.max_stops is not None:
        raise CommandFailed("give either --max-stops or --no-max-stops")
    with transaction() as connection:
        company = companies.set_policy(
            connection,
            company_id,
            msgspec.structs.replace(policy, name=name),
            acting(),
            lifts_max_stops=lifts_max_stops,
            contacts=Contacts.of(get_settings()),
        )
        if policy.message_url is not None:
            send_refused_messages(connection, company_id, None)
    document = with_shown_ids(company._asdict(), id="cmp")
    url = company.message_url
    document["message_url"] = f"{channel_of(url)}://***" if url else None
    show(as_json, document, lambda: print_fields(document))


@app.command("retire")
def companies_retire(company_id: CompanyArgument, as_json: AsJson = False) -> None:
    """Closes a company: refuses its keys at once and ends its unfinished routes. Its history stays."""
    from domain.routes.intake.retiring import close_routes

    with transaction_about(company_id) as connection:
        companies.retire_company(connection, company_id, acting(), now=clock.now())
    closed = 0
    while True:
        with transaction() as connection:
            portion = close_routes(connection, company_id, now=clock.now())
        closed += portion
        if portion == 0:
            break
    shown = shown_id("cmp", company_id)
    show_sentence(
        as_json,
        {"id": shown, "retired": True, "ended_routes": closed},
        f"retired {shown}; {counted(closed, 'route was', 'routes were')} ended",
    )


@app.command("erase")
def companies_erase(
    company_id: CompanyArgument,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Deletes a company with everything that belongs to it, for good. Safe to run again."""
    from domain.housekeeping import erasure

    with transaction() as connection:
        move = fence.read_move(connection, company_id)
        if move is not None and move.stage != "left":
            raise CommandFailed(f"the company is on its way to or from cell {move.other_cell}: cancel the move first")
        routes = erasure.count_routes(connection, company_id)
    shown = shown_id("cmp", company_id)
    confirm(yes, f"{shown} and {counted(routes, 'route')} will be removed for good")
    with counting("routes", routes, quiet=as_json) as progress:
        erasure.erase_company(transaction, company_id, now=clock.now(), progress=progress)
    show_sentence(as_json, {"id": shown, "erased": True}, f"erased {shown}")


app.command("move")(companies_move)
