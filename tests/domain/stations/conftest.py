"""Price files on their way into the tables."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import pytest

from domain.database.connections import Connection, Database
from domain.files.profiles import FileProfile
from domain.settings import Settings
from domain.stations.price_files import store_price_file
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN
from domain.stations.price_rows import PriceReport
from domain.stations.price_sources import SourceAddress
from tests.conftest import own_database
from tests.domain.stations.price_lists import LOVES, Import, of_chicago
from tests.domain.stations.source_world import World
from tests.factories import Fleet, make_fleet


@pytest.fixture
def no_stations(connection: Connection) -> None:
    """Stations belong to no company. This test's transaction must not see those of other tests."""
    connection.execute("DELETE FROM stations")


@pytest.fixture
def imported(connection: Connection, fleet: Fleet, now: datetime, tmp_path: Path) -> Import:
    """Imports a file of these rows for the fleet's company, by an operator."""

    def run(
        *rows: str,
        header: str = LOVES,
        profile: str | FileProfile = "loves",
        at: datetime = now,
        priced_at: datetime | None = None,
        retail: bool = True,
        of: Fleet = fleet,
    ) -> PriceReport:
        path = tmp_path / f"{uuid4().hex}.csv"
        path.write_text("\n".join([header, *rows]))
        return store_price_file(
            connection,
            of_chicago(connection, of),
            path,
            BUILT_IN[profile] if isinstance(profile, str) else profile,
            takes_retail=retail,
            limits=OutlierLimits(),
            now=at,
            priced_at=priced_at,
        )

    return run


@pytest.fixture(scope="module")
def stored(settings: Settings) -> Iterator[Database]:
    """A database of these tests alone: stations belong to no company. `settings` marks them as tests with servers."""
    with own_database("price_sources") as database:
        yield database


@pytest.fixture
def company(stored: Database) -> Fleet:
    with stored.transaction() as connection:
        for table in ("stations", "price_sources", "price_runs", "quotes", "held_prices", "station_codes"):
            connection.execute(f"DELETE FROM {table}")
        return make_fleet(connection)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "files"
    path.mkdir()
    return path


@pytest.fixture
def watched(stored: Database, company: Fleet, folder: Path) -> World:
    return World(stored, company, "folder", SourceAddress(str(folder), "*.csv"))
