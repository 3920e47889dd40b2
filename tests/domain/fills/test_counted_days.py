"""Days and times as spreadsheets count them are read in the files of cards, too."""

from pathlib import Path

import pytest

from domain.files.csvfiles import ImportReport
from domain.fills.card_files import open_fill_file
from domain.fills.profiles import card_profile_of
from tests.domain.fills.cards import NOW, efs, write_efs


@pytest.mark.parametrize(
    ("day", "clock", "local"),
    [
        ("46346", "09:10", "2026-11-20 09:10:00"),
        ("46346", "0.3819444444", "2026-11-20 09:10:00"),
        ("46346.3819444444", "", "2026-11-20 09:10:00"),
        ("46346", "46346.3819444444", "2026-11-20 09:10:00"),
        ("46346", "", "2026-11-20 12:00:00"),
        ("11/20/2026", "34512", "2026-11-20 03:45:12"),
        ("20261120", "910", "2026-11-20 09:10:00"),
    ],
)
def test_a_day_may_be_a_number(tmp_path: Path, day: str, clock: str, local: str) -> None:
    report = ImportReport()
    path = write_efs(tmp_path / "efs.csv", efs(date=day, time=clock))

    with open_fill_file(path, card_profile_of(path, "auto"), report, now=NOW) as file:
        (fill,) = file.fills

    assert (str(fill.local_time), report.rejected) == (local, [])
