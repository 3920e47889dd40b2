"""The guide to price files runs as it is written."""

import re
import subprocess
from pathlib import Path

from domain.database.connections import Database
from domain.settings import Settings
from tests.command_line import forked_fuelroute
from tests.conftest import own_database
from tests.factories import make_fleet

GUIDE = Path(__file__).parents[2] / "deploy" / "price-files.md"


def test_the_guide_runs_as_it_is_written(settings: Settings, tmp_path: Path) -> None:
    # its stations would be in the plans of other tests
    with own_database("price_files_guide") as database, forked_fuelroute(tmp_path) as path:
        run_guide(settings, database, tmp_path, path)


def run_guide(settings: Settings, database: Database, tmp_path: Path, path: str) -> None:
    with database.transaction() as connection:
        fleet = make_fleet(connection)
    blocks = re.findall(r"^```bash\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    environment = {
        "PATH": path,
        "HOME": str(tmp_path),
        "COMPANY": fleet.shown_company_id,
        "COLUMNS": "200",
        "FUELROUTE_DATABASE_URL": database.url,
        "FUELROUTE_REDIS_URL": settings.require_redis_url(),
    }

    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "".join(blocks)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "prices: 2 created, 0 updated, 0 unchanged, 0 held for a person" in said
    assert "2.169" in said
    assert "refused hld_" in said
    assert "1 file taken, 0 still being written" in said
    assert "line 4: Best Discounted Price: 'cheap' is no number" in done.stderr
