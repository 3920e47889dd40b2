"""API keys."""

from typing import Annotated

import typer

from deploy.cli.arguments import AsJson, CompanyId, acting, read_moment
from deploy.cli.failures import CommandFailed
from deploy.cli.output import show_sentence, show_table
from deploy.cli.storing import transaction, transaction_about
from domain import clock
from domain.accounts import companies, keys
from domain.contract.shapes import SCOPES
from domain.ids import read_id, shown_id, with_shown_ids
from domain.lifecycle import Environment

app = typer.Typer(no_args_is_help=True)


@app.command("create")
def keys_create(
    company_id: CompanyId,
    name: Annotated[str, typer.Option("--name", metavar="N", help="The key's name, such as TMS.")],
    environment: Annotated[
        Environment, typer.Option("--environment", help="The key's environment. The sandbox sends no messages.")
    ],
    scopes: Annotated[
        list[str],
        typer.Option(
            "--scope",
            metavar="S",
            help=f"A permission of the key; give the option once for each of {', '.join(SCOPES)}.",
        ),
    ],
    expires_at: Annotated[
        str | None,
        typer.Option(
            "--expires-at", metavar="T", help="The end of the key, such as 2027-01-31T00:00:00Z; never unless set."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Makes a key and prints it. It is never shown again."""
    if not name.strip():
        raise CommandFailed("--name: give the key a name, such as the system that will use it")
    expiry = read_moment("--expires-at", expires_at) if expires_at is not None else None
    with transaction() as connection:
        companies.require_company(connection, company_id)
        if expiry is not None and expiry <= clock.now():
            raise CommandFailed(f"--expires-at: {expires_at} is past, so the key would never work")
        made = keys.create_key(
            connection, company_id, acting(), name=name, environment=environment, scopes=scopes, expires_at=expiry
        )
    document = {
        "id": shown_id("key", made.id),
        "key": made.key,
        "prefix": made.prefix,
        "name": name,
        "environment": environment,
        "scopes": sorted(set(scopes)),
        "expires_at": expiry,
    }
    show_sentence(
        as_json,
        document,
        f"key {document['id']}\n{made.key}\nIt is shown only now: store it.",
    )


@app.command("list")
def keys_list(company_id: CompanyId, as_json: AsJson = False) -> None:
    """Lists a company's keys: ids, names and scopes, not the keys themselves."""
    with transaction_about(company_id) as connection:
        rows = [with_shown_ids(row._asdict(), id="key") for row in keys.list_keys(connection, company_id)]
    show_table(as_json, rows, "id", "name", "prefix", "environment", "scopes", "revoked_at")


@app.command("revoke")
def keys_revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `keys list` shows it.")],
    as_json: AsJson = False,
) -> None:
    """Ends a key at once."""
    known = read_id("key", key_id)
    with transaction() as connection:
        if known is None or not keys.revoke_key(connection, known, acting()):
            raise CommandFailed(f"there is no key {key_id!r}: give the id that `fuelroute keys list` shows")
    show_sentence(as_json, {"id": key_id, "revoked": True}, f"revoked {key_id}")
