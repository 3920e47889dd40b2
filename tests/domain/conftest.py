"""Fixtures of several folders."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.domain.csv_files import CsvFile


@pytest.fixture
def csv_file(tmp_path: Path) -> CsvFile:
    """Writes the lines to a file."""

    def write(*lines: str, encoding: str = "utf-8", end: str = "\n") -> Path:
        path = tmp_path / f"{uuid4().hex}.csv"
        path.write_bytes(end.join([*lines, ""]).encode(encoding))
        return path

    return write
