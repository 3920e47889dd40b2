"""The migrations in their order, and the SQL of each, rendered without a database."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import sqlalchemy
from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory

from domain.migrations.backfills import Backfill
from domain.migrations.effects import split

VERSIONS: list[Path] = [Path(__file__).parent / "versions"]
"""The folders of the migrations. Tests add one of their own."""


class Migration(NamedTuple):
    """A module of `versions`."""

    revision: str
    title: str
    upgrade: Callable[[], None]
    backfill: Backfill | None
    accepted: Mapping[str, str]
    """Accepted statements that lock long or break the release before: their first words, and the reason."""

    def statements(self) -> list[str]:
        """The statements that `upgrade` runs, each as SQL. Raises TypeError for a migration that asks the database."""
        written: list[str] = []
        buffer = io.StringIO()
        buffer.write = written.append  # type: ignore[assignment,method-assign]
        context = MigrationContext.configure(
            dialect_name="postgresql", opts={"as_sql": True, "literal_binds": True, "output_buffer": buffer}
        )
        with Operations.context(context):
            self.upgrade()
        return [statement for text in written for statement in split(text, ";")]


def alembic_config(connection: sqlalchemy.Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(map(str, VERSIONS)))
    config.attributes["connection"] = connection
    return config


def migration_scripts() -> ScriptDirectory:
    """Loads the modules of all migrations when they are first asked for."""
    return ScriptDirectory.from_config(alembic_config())


def migrations(scripts: ScriptDirectory | None = None) -> list[Migration]:
    """All migrations, the first one first."""
    revisions = (scripts or migration_scripts()).walk_revisions()
    return [_migration(script) for script in reversed(list(revisions))]


def _migration(script: Script) -> Migration:
    module = script.module
    return Migration(
        revision=script.revision,
        title=script.doc,
        upgrade=module.upgrade,
        backfill=getattr(module, "backfill", None),
        accepted=getattr(module, "accepted", {}),
    )
