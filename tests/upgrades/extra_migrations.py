"""Migrations of a test's own, beside those of the service."""

from pathlib import Path

from domain.migrations.rendering import migrations

_FILE = '''"""made by a test

Revision ID: {revision}
Revises: {before}
"""

import sqlalchemy as sa
from alembic import op

from domain.migrations.backfills import Backfill
from domain.migrations.indexes import create_index_concurrently

revision = "{revision}"
down_revision = "{before}"
branch_labels = None
depends_on = None


{body}
'''


class ExtraMigrations:
    """A folder of migrations that follow the newest one of the service."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._newest = migrations()[-1].revision

    def add(self, body: str) -> str:
        """The revision of the new migration."""
        before, self._newest = self._newest, f"extra{len(list(self.folder.iterdir())) + 1}"
        file = self.folder / f"{self._newest}.py"
        file.write_text(_FILE.format(revision=self._newest, before=before, body=body))
        return self._newest
