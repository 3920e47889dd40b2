"""Somebody sets the clock of the scheduler's machine back by minutes: its passes run on."""

import os
import subprocess
import sys
import time
from pathlib import Path

from domain.settings import Settings
from tests.chaos.stack import faked_clock
from tests.conftest import make_database
from tests.domain.test_clock import needs_faketime
from tests.service import eventually

QUICK_PASSES = """
import sys
from domain.telemetry.health import Health
from domain.settings import Settings
from scheduler import process
from scheduler.passes import Passes

def tell(self):
    with open(sys.argv[1], "a") as file:
        file.write("sweep ")
    return {}

Passes.sweep = tell
sys.exit(process.run(Settings(), Health("scheduler")))
"""


@needs_faketime
def test_passes_run_on_when_the_clock_is_set_back(settings: Settings, tmp_path: Path) -> None:
    ahead = tmp_path / "ahead"
    ahead.write_text("+0\n")
    environment = {
        **os.environ,
        **faked_clock(ahead),
        "FUELROUTE_DATABASE_URL": make_database("set_back"),
        "FUELROUTE_REDIS_URL": settings.require_redis_url(),
        "FUELROUTE_DATA": str(tmp_path),
        "FUELROUTE_SWEEP_SECONDS": "1",
    }
    sweeps = tmp_path / "sweeps"
    sweeps.touch()

    def wait_for_more() -> None:
        size = sweeps.stat().st_size
        eventually(lambda: sweeps.stat().st_size, lambda now: now > size)

    with subprocess.Popen([sys.executable, "-c", QUICK_PASSES, sweeps], env=environment) as process:
        try:
            wait_for_more()
            ahead.write_text("-10m\n")
            time.sleep(2)  # by then it has taken effect
            wait_for_more()
        finally:
            process.terminate()
