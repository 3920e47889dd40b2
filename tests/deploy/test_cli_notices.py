"""`fuelroute notices`: what people of a company were told, without the addresses of their channels."""

from datetime import UTC, datetime

from domain.database import Database
from domain.notices.notice_log import send_test_notice
from domain.notices.subscriptions import disable_subscription
from tests.deploy.commands import Cli
from tests.domain.notices.subscriptions import subscribe
from tests.factories import Fleet


def test_subscriptions_and_notices_are_listed_without_addresses(cli: Cli, fleet: Fleet, database: Database) -> None:
    company = ("--company", fleet.shown_company_id)
    now = datetime.now(UTC)
    with database.transaction() as connection:
        one = subscribe(connection, fleet.company_id)
        send_test_notice(connection, fleet.company_id, one.id, company="Acme", console="https://c", now=now)
        disable_subscription(connection, fleet.company_id, one.id, now=now)

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
