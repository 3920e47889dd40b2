"""Price files on their way into the tables."""

from datetime import datetime
from pathlib import Path
from uuid import uuid4
from zoneinfo import ZoneInfo

import pytest

from domain.database import Connection
from domain.file_profiles.profiles import FileProfile
from domain.stations.price_files import PriceReport, store_price_file
from domain.stations.price_outliers import OutlierLimits
from domain.stations.price_profiles import BUILT_IN
from tests.domain.stations.price_lists import LOVES, Import
from tests.factories import Fleet


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
            of.company_id,
            path,
            BUILT_IN[profile] if isinstance(profile, str) else profile,
            ZoneInfo("America/Chicago"),
            takes_retail=retail,
            limits=OutlierLimits(),
            now=at,
            priced_at=priced_at,
        )

    return run
