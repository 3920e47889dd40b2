"""A look at a file of any kind is whole, or there is none."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from domain.database.connections import Connection
from domain.files.reading_ends import ReadingTooLong, reading_in_turns
from domain.lifecycle import Environment
from domain.operations.file_looks import FileLook, Import, look_at_file
from domain.settings import Settings
from tests.factories import Fleet

NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("trucks.csv", "unit_number,vin\n7,\n"),
        ("prices.csv", "Site,City,ST,Retail Price\n907,Miles City,MT,4.599\n"),
        ("fills.csv", "Date,Unit,State,Item,Quantity,Amount\n2026-07-01,7,IA,ULSD,100,345.50\n"),
        ("loads.csv", "externalId,unitNumber,stop1_name,stop2_name\nL-1,7,Joliet,Newark\n"),
    ],
)
def test_a_look_whose_time_ends_shows_nothing(
    connection: Connection, fleet: Fleet, settings: Settings, tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    wanted = Import(
        path=path,
        file_name=name,
        sender="",
        settings=settings,
        company_id=fleet.company_id,
        environment=Environment.LIVE,
        takes_retail=True,
    )

    def look(steps: int) -> FileLook | None:
        """The look whose time is over after so many steps of the reader; None if it was given up."""
        left = iter(range(steps))

        def end() -> None:
            if next(left, None) is None:
                raise ReadingTooLong

        with reading_in_turns(end):
            try:
                return look_at_file(connection, wanted, None, now=NOW)
            except ReadingTooLong:
                return None

    looks = [one for steps in range(10) if (one := look(steps)) is not None]

    assert len(looks) < 10
    assert looks == [look(1_000)] * len(looks)
    assert "too long" not in str(looks)
