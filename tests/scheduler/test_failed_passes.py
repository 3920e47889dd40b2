"""A pass that runs once an hour and fails runs again soon."""

import os
import subprocess
import sys
from pathlib import Path

from domain.settings import Settings
from tests.conftest import make_database
from tests.service import eventually

FAILING_HOUSEKEEPING = """
import sys
from pathlib import Path
from domain.telemetry.health import Health
from domain.settings import Settings
from scheduler import process
from scheduler.passes import Passes

runs = Path(sys.argv[1])

def fail_once(self):
    with runs.open("a") as file:
        file.write("housekeeping ")
    if len(runs.read_text().split()) == 1:
        raise TimeoutError("the table is locked")
    return {}

Passes.housekeeping = fail_once
process._RETRY_SECONDS = 0.1
sys.exit(process.run(Settings(), Health("scheduler")))
"""


def test_housekeeping_that_failed_does_not_wait_for_its_next_hour(settings: Settings, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "FUELROUTE_DATABASE_URL": make_database("failed_passes"),
        "FUELROUTE_REDIS_URL": settings.require_redis_url(),
        "FUELROUTE_DATA": str(tmp_path),
    }
    runs = tmp_path / "runs"
    runs.touch()
    with subprocess.Popen([sys.executable, "-c", FAILING_HOUSEKEEPING, runs], env=environment) as process:
        try:
            eventually(lambda: runs.read_text().split(), lambda seen: len(seen) == 2)
        finally:
            process.terminate()
