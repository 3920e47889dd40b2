"""A scheduler that is told to stop gives up its lead at once, and ends though a pass takes longer."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from domain.queue.redis_clients import redis_client
from domain.queue.redis_layout import UNFINISHED_JOBS
from domain.settings import Settings
from scheduler.leader import Leadership
from tests.conftest import make_database
from tests.service import eventually

ENDLESS_SWEEP = """
import sys, threading
from domain.telemetry.health import Health
from domain.queue.redis_clients import redis_client
from domain.queue.redis_layout import UNFINISHED_JOBS
from domain.settings import Settings
from scheduler import process
from scheduler.passes import Passes

def sweep(self):
    print("began", flush=True)
    while True:
        with self.working_at("a trip"):
            threading.Event().wait(0.5)

Passes.sweep = sweep
sys.exit(process.run(Settings(), Health("scheduler")))
"""


def test_a_leader_that_stops_gives_up_its_lead_before_its_passes_end(settings: Settings, tmp_path: Path) -> None:
    url = make_database("stopping")
    environment = {
        **os.environ,
        "FUELROUTE_DATABASE_URL": url,
        "FUELROUTE_REDIS_URL": settings.require_redis_url(),
        "FUELROUTE_DATA": str(tmp_path),
        "FUELROUTE_STOP_SECONDS": "6",
    }
    command = [sys.executable, "-c", ENDLESS_SWEEP]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "began\n":
            assert process.poll() is None
        with closing(Leadership(url)) as other:
            assert not other.try_to_lead()

            process.send_signal(signal.SIGTERM)

            assert eventually(other.try_to_lead, bool)
            assert process.poll() is None, "its pass runs still"
        assert process.wait(timeout=900) == 0, "it does not wait for a pass without end"
    with redis_client(settings.require_redis_url()) as client:
        assert not client.hexists(UNFINISHED_JOBS, "a trip"), "a cut-off is no death over the trip"
