"""People who sign in to the console."""

from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from deploy.cli.arguments import AsJson, Yes, acting, confirm, read_company_id, read_secret
from deploy.cli.output import screen, show, show_sentence, show_table
from deploy.cli.storing import transaction
from domain import clock
from domain.accounts import companies, users
from domain.accounts.contacts import IN_CLEAR
from domain.ids import shown_id, with_shown_ids
from domain.lifecycle import Role
from domain.settings import get_settings

app = typer.Typer(no_args_is_help=True)

CompanyOption = Annotated[
    UUID | None,
    typer.Option(
        "--company",
        parser=read_company_id,
        metavar="ID",
        help="The company's id. Without it `create` makes an operator, and `list` lists all users.",
    ),
]
Email = Annotated[str, typer.Argument(metavar="EMAIL", help="The user's e-mail address, with which they sign in.")]


@app.command("create")
def users_create(
    email: Annotated[
        str, typer.Option("--email", metavar="EMAIL", help="The e-mail address with which the user signs in.")
    ],
    role: Annotated[
        Role, typer.Option("--role", help="The user's role. An operator may do everything for every company.")
    ],
    company_id: CompanyOption = None,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="A file with the password on its first line; - is standard input. Without it the command prints a"
            " one-time link with which the user sets a password.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Makes a user."""
    password = read_secret(password_file) if password_file is not None else None
    with transaction() as connection:
        if company_id is not None:
            companies.require_company(connection, company_id)
        user_id = users.create_user(
            connection, acting(), email=email, role=role, company_id=company_id, password=password
        )
        token = None if password is not None else users.make_password_link(connection, user_id, now=clock.now())
    _show_link(as_json, {"id": shown_id("usr", user_id), "email": users.tidy_email(email), "role": role}, token)


@app.command("list")
def users_list(
    company_id: CompanyOption = None,
    as_json: AsJson = False,
) -> None:
    """Lists the people who can sign in."""
    with transaction() as connection:
        rows = [with_shown_ids(row._asdict(), id="usr") for row in users.list_users(connection, company_id)]
    show_table(as_json, rows, "email", "role", "company_id", "has_password", "has_totp")


@app.command("reset")
def users_reset(
    email: Email,
    without_codes: Annotated[
        bool, typer.Option("--without-codes", help="Turn off one-time codes too, for a user who has lost the phone.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Prints a link with which a user sets a new password, once. Until then the old one works."""
    with transaction() as connection:
        user_id = users.find_user(connection, email)
        token = users.reset_user(
            connection, user_id, acting(), without_codes=without_codes, contacts=IN_CLEAR, now=clock.now()
        )
    _show_link(as_json, {"id": shown_id("usr", user_id), "email": users.tidy_email(email)}, token)


@app.command("remove")
def users_remove(email: Email, yes: Yes = False, as_json: AsJson = False) -> None:
    """Removes a user. The user is signed out at once."""
    confirm(yes, f"{email} will no longer be able to sign in")
    with transaction() as connection:
        user_id = users.find_user(connection, email)
        users.remove_user(connection, user_id, acting())
    show_sentence(
        as_json,
        {"id": shown_id("usr", user_id), "removed": True},
        f"removed {email}",
    )


def _show_link(as_json: bool, document: dict[str, Any], token: str | None) -> None:
    link = f"{get_settings().console_address()}/set-password/{token}" if token is not None else None

    def text() -> None:
        screen.print(f"user {document['id']} {document['email']}", highlight=False)
        if link is not None:
            screen.print(f"{link}\nIt works once, within {users.LINK_HOURS} hours.", highlight=False, soft_wrap=True)

    show(as_json, {**document, "link": link}, text)
