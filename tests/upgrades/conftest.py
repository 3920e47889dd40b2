"""Fixtures of the tests of upgrades."""

from pathlib import Path

import pytest

from domain.migrations import rendering
from tests.upgrades.extra_migrations import ExtraMigrations


@pytest.fixture
def extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExtraMigrations:
    """`migrate` of this process finds these migrations too."""
    folder = tmp_path / "versions"
    folder.mkdir()
    made = ExtraMigrations(folder)
    monkeypatch.setattr(rendering, "VERSIONS", [*rendering.VERSIONS, folder])
    return made
