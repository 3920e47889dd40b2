"""Commands that retire and erase, and the key that seals contacts."""

from collections.abc import Callable
from datetime import datetime
from uuid import uuid4

import pytest

from domain.accounts.keys import PresentedKey, find_callers
from domain.database.connections import Database
from domain.ids import shown_id
from domain.queue.job_queue import JobQueue
from tests.deploy.commands import NO_COMPANY, Cli
from tests.domain.helpers import imported
from tests.factories import Fleet
from tests.rows import named

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise's, when it loads


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("kind", ["vehicles", "drivers"])
def test_a_vehicle_or_driver_is_retired(
    cli: Cli, fleet: Fleet, database: Database, now: datetime, jobs: JobQueue, kind: str, form: tuple[str, ...]
) -> None:
    with database.transaction() as connection:
        imported(connection, fleet.live, now=now)
    record = {"vehicles": fleet.shown_trucks, "drivers": fleet.shown_drivers}[kind][0]

    result = cli(kind, "retire", "--company", fleet.shown_company_id, record, *form)

    if form:
        assert result.document == {"id": record, "retired": True, "matched_again_routes": 1, "ended_routes": 0}
    else:
        assert f"retired {record}; 1 route is matched again, 0 were ended" in result.out
    assert jobs.backlog("imports") == 1
    for unknown in ("nobody", record[:4] + "0" * 32):
        sentence = cli(kind, "retire", "--company", fleet.shown_company_id, unknown, *form).sentence
        assert f"the company has no {kind[:-1]} with the id '{unknown}'" in sentence


def test_a_driver_on_the_road_is_retired_or_erased_only_with_force(
    cli: Cli, fleet: Fleet, database: Database, now: datetime
) -> None:
    with database.transaction() as connection:
        route_id = imported(connection, fleet.live, now=now)
        connection.execute("UPDATE routes SET status = 'active' WHERE id = %s", (route_id,))

    for command in (("retire",), ("erase", "--yes")):
        given = ("drivers", *command, "--company", fleet.shown_company_id, fleet.shown_drivers[0])
        assert (
            f"({shown_id('rte', route_id)}): wait until they are finished, or end them with --force"
            in cli(*given).sentence
        )
    assert cli(*given, "--force").status == 0


def test_a_station_is_retired(cli: Cli, csv_file: Callable[..., str]) -> None:
    station = f"S-{uuid4().hex}"
    header = "station_id,name,latitude,longitude"
    cli("stations", "import", csv_file(header, f"{station},A,41.6,-87.3", f"{station}-2,B,41.6,-87.3"))

    result = cli("stations", "retire", station, f"{station}-2", "--json")
    assert result.document == {"ids": [station, f"{station}-2"], "retired": True}
    assert "there is no station 'nowhere'" in cli("stations", "retire", "nowhere").sentence


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_retired_company_refuses_its_keys_and_ends_its_routes(
    cli: Cli, fleet: Fleet, database: Database, now: datetime, form: tuple[str, ...]
) -> None:
    key = ("keys", "create", "--company", fleet.shown_company_id, "--name", "k", "--environment", "live")
    secret = cli(*key, "--scope", "routes:read", "--json").document["key"]
    with database.transaction() as connection:
        imported(connection, fleet.live, now=now)

    result = cli("companies", "retire", fleet.shown_company_id, *form)

    if form:
        assert result.document == {"id": fleet.shown_company_id, "retired": True, "ended_routes": 1}
    else:
        assert f"retired {fleet.shown_company_id}; 1 route was ended" in result.out
    with database.transaction() as connection:
        assert find_callers([PresentedKey.of(secret)]).on(connection) == [None]
    assert "is retired" in cli(*key, "--scope", "routes:read").sentence
    assert len(cli("keys", "list", "--company", fleet.shown_company_id, "--json").document) == 1
    for unknown in ("cmp_x", NO_COMPANY):
        assert f"there is no company '{unknown}'" in cli("companies", "retire", unknown).sentence


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_nothing_is_erased_without_confirmation(
    cli: Cli, fleet: Fleet, database: Database, form: tuple[str, ...]
) -> None:
    driver = ("drivers", "erase", "--company", fleet.shown_company_id, fleet.shown_drivers[0], *form)
    company = ("companies", "erase", fleet.shown_company_id, *form)

    assert "give --yes" in cli(*driver).sentence
    assert "give --yes" in cli(*company).sentence
    erased = cli(*driver, "--yes")
    assert erased.document["erased"] if form else f"erased {fleet.shown_drivers[0]}" in erased.out
    for _ in range(2):  # again is fine
        erased = cli(*company, "--yes")
        assert erased.document["erased"] if form else f"erased {fleet.shown_company_id}" in erased.out
    for unknown in ("cmp_x", NO_COMPANY):
        assert "there is no company" in cli("companies", "erase", unknown, "--yes").sentence
    with database.transaction() as connection:
        assert named(connection).execute("SELECT FROM drivers WHERE company_id = %s", (fleet.company_id,)).rowcount == 0


def test_a_contact_key_seals_what_commands_store_and_is_never_printed(
    cli: Cli, fleet: Fleet, database: Database, csv_file: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "dGhlIHNlY3JldCBvZiBhbGwgdGhlIGNvbnRhY3RzISE="
    monkeypatch.setenv("FUELROUTE_CONTACT_KEY", key)
    url = "mailto://a:hidden@example.org"

    shown = cli("companies", "set", fleet.shown_company_id, "--message-url", url, "--json").document
    cli("drivers", "import", "--company", fleet.shown_company_id, csv_file("name,contact", f"Ann Lee,{url}"))

    assert shown["message_url"] == "mailto://***"
    with database.transaction() as connection:
        stored = (
            named(connection)
            .execute(
                "SELECT contact FROM drivers WHERE id = %s UNION ALL SELECT message_url FROM companies WHERE id = %s",
                (fleet.drivers[0], fleet.company_id),
            )
            .fetchall()
        )
    assert all(row.contact.startswith("sealed:") for row in stored)
    assert key not in cli("settings").out
    monkeypatch.setenv("FUELROUTE_CONTACT_KEY", "hidden")
    assert "hidden" not in cli("settings").sentence
