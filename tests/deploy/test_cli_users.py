"""`fuelroute users`: who can sign in to the console."""

import re
import sys
from datetime import UTC, datetime
from io import BytesIO, TextIOWrapper

import pytest

from domain.accounts.users import email_of_link
from domain.audit.entries import search_actions
from domain.database.connections import Database
from domain.ids import read_id, shown_id
from tests.deploy.commands import NO_COMPANY, Cli
from tests.domain.accounts.test_users import fresh_email
from tests.factories import make_fleet


@pytest.fixture
def company(database: Database) -> str:
    with database.transaction() as connection:
        return shown_id("cmp", make_fleet(connection).company_id)


def test_a_user_gets_a_link_that_sets_a_password(cli: Cli, company: str, database: Database) -> None:
    name = fresh_email()
    made = cli("users", "create", "--email", name.upper(), "--role", "owner", "--company", company, "--json").document

    found = re.fullmatch(r"http://127\.0\.0\.1:8081/set-password/([\w-]{43})", made["link"])
    assert found is not None
    assert made | {"link": ""} == {"id": made["id"], "email": name, "role": "owner", "link": ""}
    assert made["id"].startswith("usr_")
    with database.transaction() as connection:
        assert email_of_link(connection, found[1], now=datetime.now(UTC)) == name

    reset = cli("users", "reset", name).out
    with database.transaction() as connection:
        assert email_of_link(connection, found[1], now=datetime.now(UTC)) is None, "the earlier link ended"
    assert "It works once, within 24 hours." in reset


def test_a_password_may_come_from_standard_input(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = fresh_email()
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"correct horse battery\n")))
    made = cli("users", "create", "--email", name, "--role", "operator", "--password-file", "-", "--json")

    assert made.document["link"] is None
    assert "horse" not in made.out + made.err
    (listed,) = [user for user in cli("users", "list", "--json").document if user["email"] == name]
    assert listed | {"id": 0, "created_at": 0} == {
        "id": 0,
        "company_id": None,
        "email": name,
        "role": "operator",
        "has_password": True,
        "has_totp": False,
        "has_openid": False,
        "created_at": 0,
    }


def test_a_removed_user_is_gone(cli: Cli, company: str) -> None:
    name = fresh_email()
    cli("users", "create", "--email", name, "--role", "viewer", "--company", company)
    assert name in cli("users", "list", "--company", company).out
    assert "give --yes" in cli("users", "remove", name).sentence

    assert cli("users", "remove", name, "--yes", "--json").document["removed"]
    assert name not in cli("users", "list", "--company", company).out
    for command in (("remove", name, "--yes"), ("reset", name)):
        assert "there is no user" in cli("users", *command).sentence


def test_the_audit_log_records_changes_of_users(cli: Cli, company: str, database: Database) -> None:
    name = fresh_email()
    user = cli("users", "create", "--email", name, "--role", "viewer", "--company", company, "--json").document["id"]
    cli("users", "reset", name, "--without-codes")
    cli("users", "remove", name, "--yes")
    company_id = read_id("cmp", company)
    assert company_id is not None
    with database.transaction() as connection:
        kept = [(one.action, one.subject) for one in search_actions(connection, company_id, user, limit=10)]
    assert kept == [
        ("users.remove", f"{user} viewer"),
        ("users.reset", f"{user} without codes"),
        ("users.create", f"{user} viewer"),
    ]


def test_one_time_codes_can_be_turned_off_for_a_user_who_lost_the_phone(
    cli: Cli,
    company: str,
    database: Database,
) -> None:
    name = fresh_email()
    cli("users", "create", "--email", name, "--role", "viewer", "--company", company)
    with database.transaction() as connection:
        connection.execute("UPDATE users SET totp_secret = 'x' WHERE email = %s", (name,))
    cli("users", "reset", name)
    assert cli("users", "list", "--company", company, "--json").document[0]["has_totp"]

    cli("users", "reset", name, "--without-codes")

    assert not cli("users", "list", "--company", company, "--json").document[0]["has_totp"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--email", "nobody", "--role", "operator"), "not an e-mail address"),
        (("--email", "a@example.com", "--role", "owner"), "every other user belongs to one"),
        (("--email", "a@example.com", "--role", "owner", "--company", NO_COMPANY), "there is no company"),
        (("--email", "a@example.com", "--role", "owner", "--company", "acme"), "there is no company"),
    ],
)
def test_a_user_that_cannot_be_made_is_refused_with_a_sentence(cli: Cli, arguments: tuple[str, ...], told: str) -> None:
    assert told in cli("users", "create", *arguments).sentence


def test_an_address_is_given_to_one_user_only(cli: Cli, company: str) -> None:
    name = fresh_email()
    cli("users", "create", "--email", name, "--role", "viewer", "--company", company)
    assert "already" in cli("users", "create", "--email", name.upper(), "--role", "operator").sentence
