"""`fuelroute companies move`: a fault of the cells' file or of the options is one sentence that says what to do. Whole
moves are in `tests/domain/moving` and `tests/cells`."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from domain.accounts.keys import create_key
from domain.accounts.users import create_user
from domain.database import fence
from domain.database.connections import Database
from domain.ids import shown_id
from domain.lifecycle import Environment, Role
from domain.settings import Settings
from tests.deploy.commands import Cli
from tests.domain.helpers import imported, planned_by_hand
from tests.domain.webhooks.endpoints import make_endpoint
from tests.factories import DOT, Fleet

SECRET = "hunter2-hunter2"


@pytest.fixture
def cells_file(tmp_path: Path, settings: Settings) -> Path:
    """Both cells are the tests' server, as a role that is no superuser."""
    file = tmp_path / "cells.toml"
    url = settings.require_database_url()
    file.write_text(f'[1]\ndatabase_url = "{url}"\n[2]\ndatabase_url = "{url}"\n')
    return file


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[1", "is no TOML"),
        ("[one]", "'one' is no cell"),
        ("[0]", "'0' is no cell"),
        ('two = "x"', "'two' is no cell"),
        ("[1]", "needs a database_url"),
        ("[1]\ndatabase_url = 7", "takes texts named"),
        (f'[1]\npassword = "{SECRET}"', "takes texts named"),
        (f'[1]\ndatabase_url = "postgresql://postgres:{SECRET}@x@host/db"', "the address of cell 1"),
        ('[1]\ndatabase_url = "postgresql://host/db"\ncontact_key_file = "none.key"', "contact_key_file of cell 1"),
        ('[1]\ndatabase_url = "postgresql://host/db"', "has no cell 2"),
        (
            f'[1]\ndatabase_url = "postgresql://u:{SECRET}@127.0.0.1:1/db"\n[2]\ndatabase_url = "postgresql://host/db"',
            "cannot reach PostgreSQL of cell 1",
        ),
    ],
)
def test_a_cells_file_that_cannot_be_used_is_told(
    cli: Cli, fleet: Fleet, tmp_path: Path, content: str, told: str
) -> None:
    file = tmp_path / "cells.toml"
    file.write_text(content)

    sentence = cli("companies", "move", fleet.shown_company_id, "--to", "2", "--cells", str(file)).sentence

    assert told in sentence
    assert SECRET not in sentence


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "give --cells FILE"),
        (("--cells", "/no/such/file"), "cannot read /no/such/file"),
        (("--haproxy", "/run/haproxy.sock"), "--haproxy needs --map"),
        (("--cancel", "--erase"), "give one of"),
    ],
)
def test_options_that_make_no_sense_are_told(cli: Cli, fleet: Fleet, options: tuple[str, ...], told: str) -> None:
    assert told in cli("companies", "move", fleet.shown_company_id, "--to", "2", *options).sentence


def test_a_dry_run_tells_every_fault_and_changes_nothing(
    cli: Cli, database: Database, fleet: Fleet, cells_file: Path
) -> None:
    move = ("companies", "move", fleet.shown_company_id, "--to", "2", "--cells", str(cells_file))

    result = cli(*move, "--dry-run", "--json")

    assert result.status == 1
    assert "superuser" in result.out
    assert "wal_level" in result.out
    assert "superuser" in cli(*move).sentence
    with database.transaction() as connection:
        assert fence.read_move(connection, fleet.company_id) is None
    for options, told in ((("--cancel", "--yes"), "nothing to cancel"), (("--erase", "--yes"), "move first")):
        assert told in cli(*move, *options).sentence


def test_a_cell_is_no_other_cell(cli: Cli, fleet: Fleet, cells_file: Path) -> None:
    assert (
        "this is cell 1"
        in cli("companies", "move", fleet.shown_company_id, "--to", "1", "--cells", str(cells_file)).sentence
    )


def test_a_company_on_its_way_is_not_erased_or_changed(cli: Cli, database: Database, fleet: Fleet) -> None:
    with database.transaction() as connection:
        fence.expect_arrival(connection, fleet.company_id, from_cell=2)
    try:
        assert "cancel the move" in cli("companies", "erase", fleet.shown_company_id, "--yes").sentence
        assert "comes from cell 2" in cli("companies", "set", fleet.shown_company_id, "--name", "New").sentence
        assert (
            "comes from cell 2"
            in cli(
                "keys",
                "create",
                "--company",
                fleet.shown_company_id,
                "--name",
                "k",
                "--environment",
                "live",
                "--scope",
                "routes:read",
            ).sentence
        )
    finally:
        with database.transaction() as connection:
            fence.open_fence(connection, fleet.company_id)


@pytest.mark.parametrize(
    "arguments",
    [
        ("companies", "retire", "COMPANY"),
        ("keys", "revoke", "KEY"),
        ("keys", "list", "--company", "COMPANY"),
        ("users", "reset", "EMAIL"),
        ("users", "remove", "EMAIL", "--yes"),
        ("vehicles", "retire", "--company", "COMPANY", "TRUCK"),
        ("drivers", "retire", "--company", "COMPANY", "DRIVER"),
        ("drivers", "erase", "--company", "COMPANY", "DRIVER", "--yes"),
        ("webhooks", "set", "--company", "COMPANY", "ENDPOINT", "--disable"),
        ("routes", "cancel", "ROUTE", "--reason", "sold"),
        ("messages", "release", "MESSAGE"),
        ("messages", "discard", "MESSAGE"),
    ],
)
def test_a_company_that_has_left_is_changed_where_it_is(
    cli: Cli, database: Database, fleet: Fleet, now: datetime, arguments: tuple[str, ...]
) -> None:
    """The copy that it has left behind would be changed, and the command would say that it is done."""
    email = f"{uuid4().hex}@example.com"
    with database.transaction() as connection:
        key = create_key(connection, fleet.company_id, DOT, name="k", environment=Environment.LIVE, scopes=[])
        create_user(connection, DOT, email=email, role=Role.OWNER, company_id=fleet.company_id)
        route_id = imported(connection, fleet.live, now=now)
        message_id = planned_by_hand(connection, route_id, now=now)
        connection.execute("UPDATE messages SET withheld_since = %s, retry_at = NULL WHERE id = %s", (now, message_id))
        given = {
            "COMPANY": fleet.shown_company_id,
            "KEY": shown_id("key", key.id),
            "EMAIL": email,
            "TRUCK": fleet.shown_trucks[0],
            "DRIVER": fleet.shown_drivers[0],
            "ENDPOINT": shown_id("whe", make_endpoint(connection, fleet.live).endpoint.id),
            "ROUTE": shown_id("rte", route_id),
            "MESSAGE": shown_id("msg", message_id),
        }
    with left_for_cell_2(database, fleet):
        assert "has left for cell 2" in cli(*(given.get(one, one) for one in arguments)).sentence


def test_all_withheld_messages_are_those_of_companies_that_are_here(
    cli: Cli, database: Database, fleet: Fleet, now: datetime
) -> None:
    with database.transaction() as connection:
        message_id = planned_by_hand(connection, imported(connection, fleet.live, now=now), now=now)
        connection.execute("UPDATE messages SET withheld_since = %s, retry_at = NULL WHERE id = %s", (now, message_id))
    with left_for_cell_2(database, fleet):
        assert cli("messages", "release", "--all", "--company", fleet.shown_company_id, "--json").document == []
    (withheld,) = cli("messages", "withheld", "--company", fleet.shown_company_id, "--json").document
    assert withheld["id"] == shown_id("msg", message_id)


@contextmanager
def left_for_cell_2(database: Database, fleet: Fleet) -> Iterator[None]:
    with database.transaction() as connection:
        fence.begin_copying(connection, fleet.company_id, to_cell=2)
        fence.pause_company(connection, fleet.company_id, holds=timedelta(minutes=1))
    with database.transaction() as connection:
        fence.close_fence(connection, fleet.company_id)
        fence.leave_cell(connection, fleet.company_id)
    try:
        yield
    finally:
        with database.transaction() as connection:
            connection.execute("DELETE FROM company_moves WHERE company_id = %s", (fleet.company_id,))


def test_work_of_a_company_that_has_left_is_not_overdue(
    cli: Cli, database: Database, fleet: Fleet, now: datetime
) -> None:
    """The other cell does it; the copy stands still until it is erased."""

    with database.transaction() as connection:
        unknown = {"unitNumber": "nobody's"}
        route_id = imported(connection, fleet.live, now=now, start=now - timedelta(hours=1), vehicle=unknown)

    def is_overdue() -> bool:
        rows = cli("queues", "overdue", "held", "--limit", "10000", "--json").document
        return any(row["id"] == shown_id("rte", route_id) for row in rows)

    assert is_overdue()
    with left_for_cell_2(database, fleet):
        assert not is_overdue()
