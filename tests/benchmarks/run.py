"""`fuelroute bench`: runs benchmarks, shows their figures against the goals, and writes them down."""

import importlib
import os
import platform
import re
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from domain.encoding import write
from domain.errors import FuelrouteError
from tests.benchmarks.harness import Bench, Figure, new_progress

Work = Callable[[Bench], list[Figure]]

WORKS = {
    "push": "push",
    "import": "imports",
    "files": "files",
    "feed": "feed",
    "plan": "plan",
    "pass": "passes",
    "reads": "reads",
    "fairness": "fairness",
    "console": "console",
    "webhooks": "webhooks",
}
"""The module of each work. It is loaded when it is asked for: some need packages that only tests need."""
LONG_WORKS = {
    "soak": "soak",
    "map": "fleet_map",
    "watchers": "map_watchers",
    "recovery": "recovery",
    "doctor": "doctor",
    "restore": "restore",
    "memory": "memory",
    "pages": "driver_pages",
    "replay": "replay",
    "instances": "instances.solving",
    "preview": "previews",
    "fuel-watch": "fuel_looks_cost",
}
"""Not part of `all`."""


ALL = "all"


def known_works() -> list[str]:
    """The names of all benchmarks."""
    return [*WORKS, *LONG_WORKS, ALL]


class NotInstalled(FuelrouteError):
    """A work needs a package that is not there."""

    def __init__(self, work: str, package: str) -> None:
        super().__init__(f"`bench {work}` needs the package {package}: `deploy/install embedded,test` installs it")


def load_work(name: str) -> Work:
    """The work of a benchmark. Raises NotInstalled, which names the package, if it needs one that is missing."""
    try:
        work: Work = importlib.import_module(f"tests.benchmarks.{(WORKS | LONG_WORKS)[name]}").run
    except ModuleNotFoundError as error:
        raise NotInstalled(name, error.name or str(error)) from None
    return work


def run_benchmarks(works: Sequence[str], file: Path, screen: Console, **options: Any) -> None:
    """Runs these works, or all, shows the table and writes the JSON. `options` are those of Bench.

    Raises NotInstalled before anything is measured, or LoadFailed; what was measured until then is shown and written.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # as with Ctrl-C, what was started is stopped
    chosen = [load_work(name) for name in (*WORKS, *LONG_WORKS) if name in works or (ALL in works and name in WORKS)]
    figures: list[Figure] = []
    started = datetime.now(UTC)
    try:
        with new_progress(screen) as progress:
            bench = Bench(progress, **options)
            for run in chosen:
                figures += run(bench)
    finally:
        document = {
            "started": started,
            "seconds": round((datetime.now(UTC) - started).total_seconds()),
            "machine": describe_machine(),
            "options": {"works": list(works), **options},
            "settings": {
                name: value
                for name, value in os.environ.items()
                if name.startswith("FUELROUTE_") and not name.endswith("_URL")
            },
            "figures": [as_document(figure) for figure in figures],
        }
        file.write_bytes(msgspec.json.format(write(document), indent=2) + b"\n")
        show(figures, screen)


def describe_machine() -> dict[str, Any]:
    """The machine and the versions on which the absolute figures depend."""
    models = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory_gigabytes": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def as_document(figure: Figure) -> dict[str, Any]:
    return {
        "work": figure.work,
        "unit": figure.unit,
        "median": figure.median,
        "least": min(figure.rounds),
        "most": max(figure.rounds),
        "rounds": figure.rounds,
        "at_least": figure.at_least,
        "at_most": figure.at_most,
        "reached": figure.reached,
        "note": figure.note,
    }


def show(figures: Sequence[Figure], screen: Console) -> None:
    """The table; a spread stands behind a median of several rounds."""
    table = Table(box=None, pad_edge=False)
    table.add_column("work", overflow="fold")
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("to reach", justify="right", no_wrap=True)
    table.add_column("reached", no_wrap=True)
    for figure in figures:
        measured = f"{_number(figure.median)} {figure.unit}"
        if len(figure.rounds) > 1:
            measured += f" ({_number(min(figure.rounds))} .. {_number(max(figure.rounds))})"
        table.add_row(figure.work, measured, _goal(figure), _reached(figure))
    screen.print(table, highlight=False)


def _goal(figure: Figure) -> str:
    if figure.at_least is not None:
        return f">= {_number(figure.at_least)} {figure.unit}"
    return f"<= {_number(figure.at_most)} {figure.unit}" if figure.at_most is not None else ""


def _reached(figure: Figure) -> Text:
    return {None: Text(), True: Text("yes", "green"), False: Text("no", "red")}[figure.reached]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
