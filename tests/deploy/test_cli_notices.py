"""`fuelroute notices`: what people of a company were told, without the addresses of their channels."""

from datetime import UTC, datetime

from domain.database.connections import Database
from domain.needs.operator_needs import OPERATOR_NEEDS
from domain.notices.notice_log import send_test_notice
from domain.notices.subscriptions import SUBSCRIPTIONS, disable_subscription
from tests.deploy.commands import Cli
from tests.domain.notices.subscriptions import subscribe
from tests.factories import DOT, Fleet


def test_subscriptions_and_notices_are_listed_without_addresses(cli: Cli, fleet: Fleet, database: Database) -> None:
    company = ("--company", fleet.shown_company_id)
    now = datetime.now(UTC)
    with database.transaction() as connection:
        one = subscribe(connection, fleet.company_id)
        send_test_notice(connection, fleet.company_id, one.id, DOT, company="Acme", console="https://c", now=now)
        disable_subscription(connection, fleet.company_id, one.id, DOT, now=now)

    (subscription,) = cli("notices", "subscriptions", *company, "--json").document
    assert (subscription["name"], subscription["channel"], subscription["state"]) == ("The night desk", "json", "off")
    assert subscription["id"].startswith("sub_")
    (notice,) = cli("notices", "list", *company, "--json").document
    assert notice["text"].startswith("Acme: a test of")
    assert notice["id"].startswith("ntc_")
    assert notice["subscription_id"] == subscription["id"]
    for command in ("subscriptions", "list"):
        said = cli("notices", command, *company).out
        assert "The night desk" in said
        assert "secret" not in said


def test_an_unknown_company_is_said(cli: Cli) -> None:
    unknown = ("--company", "cmp_019313f0a8c27d3b8f60b1d2c3a4e5f6")
    for command in ("subscriptions", "list"):
        assert "there is no company" in cli("notices", command, *unknown).sentence


def test_operators_subscribe_by_a_command_to_what_is_urgent(cli: Cli, fleet: Fleet, database: Database) -> None:
    url = "json://user:hush@hooks.example.com/on-call"
    made = cli("notices", "operators-add", "--name", "On call", "--url", url, "--kind", "stalled", "--json").document
    assert (made["kinds"], made["after_minutes"], made["state"]) == (["stalled"], 5, "on")
    everything = cli("notices", "operators-add", "--name", "All", "--url", url, "--json").document
    assert set(everything["kinds"]) == {need.kind for need in OPERATOR_NEEDS}
    with database.transaction() as connection:
        assert SUBSCRIPTIONS.all(connection, fleet.company_id) == [], "it is no company's"

    listed = cli("notices", "operators").out
    assert made["id"] in listed
    assert "hush" not in listed
    bad = cli("notices", "operators-add", "--name", "x", "--url", url, "--kind", "x")
    assert "choose at least one kind" in bad.sentence
    for one in (made, everything):
        assert cli("notices", "operators-remove", one["id"]).out == f"removed {one['id']}\n"
    assert "there is no subscription" in cli("notices", "operators-remove", made["id"]).sentence
    assert "there is no subscription" in cli("notices", "operators-remove", "sub_x").sentence
