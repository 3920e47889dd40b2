"""`fuelroute companies move`: a fault of the cells' file or of the options is one sentence that says what to do. Whole
moves are in `tests/domain/moving` and `tests/cells`."""

from pathlib import Path

import pytest

from domain.database import fence
from domain.database.connections import Database
from domain.settings import Settings
from tests.deploy.commands import Cli
from tests.factories import Fleet

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
