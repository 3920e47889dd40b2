"""The memory of an idle `fuelroute up`, without and with the demo.

A page that several processes share counts for each of them in part (PSS), so that the sum is what the machine gives.
"""

import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.processes import FUELROUTE
from tests.benchmarks.harness import Bench, Figure
from tests.service import eventually

MOST_MEGABYTES = 550
SETTLING_SECONDS = 30.0
"""Wait after the last line of the start."""
_START_SECONDS = 300


def run(bench: Bench) -> list[Figure]:
    figures = []
    for name, options, last_line in (("", (), "logs in"), (" with the demo", ("--demo",), "now you")):
        with bench.task(f"memory: an idle stack{name}"), _running(options, last_line) as up:
            time.sleep(SETTLING_SECONDS)
            megabytes = megabytes_under(up)
        note = ", ".join(f"{process} {used:.0f}" for process, used in megabytes.most_common())
        total = [float(megabytes.total())]
        figures.append(Figure(f"memory: an idle stack{name}", "MB", total, at_most=MOST_MEGABYTES, note=note))
    return figures


@contextmanager
def _running(options: Sequence[str], last_line: str) -> Iterator[int]:
    """The process id of `fuelroute up` on data of its own, which has said its last line."""
    with tempfile.TemporaryDirectory(prefix="fuelroute-bench-") as folder:
        said = Path(folder, "said")
        command = [*FUELROUTE, "up", "--port", "0", "--data", str(Path(folder, "data")), *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FUELROUTE_")}
        with said.open("wb") as screen:
            up = subprocess.Popen(command, stdout=screen, stderr=screen, env=environment)
        try:
            eventually(said.read_text, lambda text: last_line in text, _START_SECONDS, "the stack")
            yield up.pid
        finally:
            up.terminate()
            up.wait(60)


def megabytes_under(pid: int) -> Counter[str]:
    """The memory of a process and of all below it, by name. Processes of one name are one entry."""
    found = Counter({_name(pid): _proportional_megabytes(pid)})
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += megabytes_under(int(child))
    return found


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _proportional_megabytes(pid: int) -> float:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(kilobytes) for kilobytes in re.findall(r"^Pss: +(\d+) kB", rollup, re.MULTILINE)) / 1024
