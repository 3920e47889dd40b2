"""`fuelroute migrate --plan` tells what would be done and does none of it."""

import psycopg
import pytest
from alembic import command

from domain.migrations import alembic_config, engine
from domain.migrations.rendering import migrations
from tests.conftest import make_database
from tests.deploy.commands import Cli
from tests.deploy.conftest import cli
from tests.upgrades.extra_migrations import ExtraMigrations
from tests.upgrades.last_release import last_release

__all__ = ["cli"]


def schema_of(url: str) -> list[tuple[str, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT table_name::text, column_name::text FROM information_schema.columns WHERE table_schema = 'public'"
            " UNION ALL SELECT 'revision', version_num FROM alembic_version ORDER BY 1, 2"
        ).fetchall()


def test_a_plan_lists_the_pending_migrations_and_changes_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    url = make_database("planned", template="template1")
    with engine(url).connect() as connection:
        command.upgrade(alembic_config(connection), last_release().revision)
    monkeypatch.setenv("FUELROUTE_DATABASE_URL", url)
    before = schema_of(url)

    plan = cli("migrate", "--plan", "--json").document
    text = cli("migrate", "--plan").out

    revisions = [migration.revision for migration in migrations()]
    new = revisions[revisions.index(last_release().revision) + 1 :]
    assert (plan["revision"], plan["target"]) == (last_release().revision, revisions[-1])
    assert [migration["revision"] for migration in plan["migrations"]] == new
    assert all(f"\n{one['revision']}  {one['title']}\n" in text for one in plan["migrations"])
    assert schema_of(url) == before


def test_a_plan_tells_the_locks_the_work_and_the_rows_of_each_table(
    cli: Cli, extra: ExtraMigrations, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_database("sized")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO sign_in_attempts (subject, attempts, last_at, forgotten_at)"
            " SELECT convert_to(n::text, 'UTF8'), 1, now(), now() FROM generate_series(1, 30000) AS n"
        )
        connection.execute("ANALYZE sign_in_attempts")
    monkeypatch.setenv("FUELROUTE_DATABASE_URL", url)
    extra.add(
        'backfill = Backfill(table="sign_in_attempts", fill="SELECT 1", key="subject", key_type="text")\n\n\n'
        "def upgrade() -> None:\n    op.create_index('by_a', 'sign_in_attempts', ['attempts'])\n"
    )

    (migration,) = cli("migrate", "--plan", "--json").document["migrations"]
    text = cli("migrate", "--plan").out

    (step,) = migration["steps"]
    assert (step["table"], step["lock"], step["blocks"]) == ("sign_in_attempts", "SHARE", "writes")
    assert (step["work"], step["rows"]) == ("builds an index", 30_000)
    assert step["size_bytes"] > 1_000_000
    assert (migration["backfill_table"], migration["backfill_rows_left"]) == ("sign_in_attempts", 30_000)
    assert migration["backfill_seconds"] == 6
    assert "then a back-fill goes through about 30,000 rows of sign_in_attempts in batches, in about 6 s" in text


def test_a_plan_of_a_current_schema_says_that_there_is_nothing_to_do(cli: Cli) -> None:
    newest = migrations()[-1].revision

    assert cli("migrate", "--plan").out == f"the schema is at revision {newest}: there is nothing to do\n"
    assert cli("migrate", "--plan", "--json").document["migrations"] == []


def test_the_program_tells_its_version(cli: Cli) -> None:
    assert cli("--version").out.startswith("fuelroute ")
