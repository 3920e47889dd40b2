"""After a step back to this release its commands take the schema that the later release has left."""

from pathlib import Path

import psycopg
import pytest

from domain.settings import STACK_FILE, Settings
from tests.conftest import make_database
from tests.deploy.commands import Cli
from tests.deploy.test_metrics_ports import fuelroute
from tests.service import eventually

pytestmark = pytest.mark.servers


def later_database() -> str:
    """A database whose schema a later release has brought up to date, as it is after a step back."""
    url = make_database("later")
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '20991231'")
    return url


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_schema_of_a_later_release_is_a_success_where_that_is_said(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    monkeypatch.setenv("FUELROUTE_DATABASE_URL", later_database())

    assert "a later one: processes of this release serve with it" in cli("migrate", *form).sentence
    accepted = cli("migrate", "--or-later", *form)
    assert (accepted.status, "20991231" in accepted.out) == (0, True)


def test_up_serves_on_the_schema_of_a_later_release(settings: Settings, tmp_path: Path) -> None:
    later = settings.model_copy(update={"database_url": later_database()})
    with fuelroute(later, tmp_path, "up", "--port", "0"):
        eventually((tmp_path / STACK_FILE).exists, bool, wanted="the stack")

    assert "schema stays at the later revision 20991231" in (tmp_path / "screen").read_text()
