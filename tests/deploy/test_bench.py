"""The benchmarks go on working: a tiny one, its table and its JSON. What it measures here means nothing."""

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from deploy.cli.failures import CommandFailed
from domain.settings import get_settings
from tests.benchmarks import __main__ as program
from tests.benchmarks import harness
from tests.benchmarks.harness import Bench, new_progress
from tests.benchmarks.load import LoadFailed
from tests.forking import forked_spec

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]


def bench(*arguments: str, temporary: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", "from deploy.cli import main; main()", "bench", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary), **environment},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


class Measured(NamedTuple):
    """The outcome of two benchmarks in one run."""

    screen: str
    document: dict[str, Any]
    left: list[Path]
    """The files that it has left behind."""

    def figures(self, work: str) -> list[dict[str, Any]]:
        return [figure for figure in self.document["figures"] if figure["work"].startswith(work)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Tiny runs of two benchmarks. To start Python for them and for the service's processes would take most of the
    time: they run in this process, and those are forked."""
    folder = tmp_path_factory.mktemp("bench")
    file, temporary = folder / "figures.json", folder / "temporary"
    temporary.mkdir()
    sizes = ["--seconds", "0.2", "--rounds", "1", "--ingress", "1", "--fills", "300", "--prices", "200"]

    before = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as screen:
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setenv("FUELROUTE_IMPORT_WAIT_SECONDS", "0.5")
        patch.setattr(program, "configure_logging", lambda *_: None)  # the tests keep their own
        patch.setattr(harness, "process_spec", forked_spec)
        program.app(["push", "files", *sizes, "--json", str(file)], standalone_mode=False)
    signal.signal(signal.SIGTERM, before)
    get_settings.cache_clear()

    return Measured(screen.getvalue(), json.loads(file.read_text()), list(temporary.iterdir()))


def test_a_benchmark_shows_and_writes_its_figures(measured: Measured) -> None:
    assert "to reach" in measured.screen
    assert measured.document["machine"]["cores"] == os.cpu_count()
    options = measured.document["options"]
    assert options | {"works": ["push", "files"], "rounds": 1, "ingress": [1]} == options
    figures = measured.figures("push")
    for figure in figures:
        assert len(figure["rounds"]) == 1
        assert figure["least"] == figure["median"] == figure["most"]
        assert (figure["reached"] is None) == (figure["at_least"] is None and figure["at_most"] is None)
    assert len([figure for figure in figures if figure["reached"] is not None]) == 6
    assert measured.left == []


def test_imports_of_files_are_measured_beside_a_plain_copy(measured: Measured) -> None:
    medians = {figure["work"]: figure["median"] for figure in measured.figures("files")}
    measures = ("rows/s", "processor time of the client", "processor time of the backend")
    expected = {"files: 200 prices, read and copied", "files: 300 fills, read and copied"}
    for work in ("200 prices, first", "200 prices, the next day's", "300 fills, first", "300 fills, again"):
        expected |= {f"files: {work}", *(f"files: {work}, {measure}, of the reference" for measure in measures)}
    assert set(medians) == expected
    assert min(medians.values()) > 0


def test_a_missing_package_is_reported_in_one_sentence(tmp_path: Path) -> None:
    """After `deploy/up` the packages for tests are not there. Works that need none of them run all the same."""
    (tmp_path / "highspy.py").write_text("raise ModuleNotFoundError(\"No module named 'highspy'\", name='highspy')")

    plan = bench("plan", temporary=tmp_path, PYTHONPATH=str(tmp_path))

    assert plan.returncode == 1
    assert plan.stderr == (
        "fuelroute: `bench plan` needs the package highspy: `deploy/install embedded,test` installs it\n"
    )


def test_an_unknown_benchmark_is_refused_in_one_sentence() -> None:
    with pytest.raises(CommandFailed, match=r"^no such work: everything; choose from push, import,"):
        program.bench(["push", "everything"])


def test_a_failed_benchmark_keeps_the_logs_of_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bench = Bench(new_progress(Console(quiet=True)))

    with pytest.raises(LoadFailed, match="an answer was 500; the logs") as failed, bench.stack("failing"):
        raise LoadFailed("an answer was 500")

    (kept,) = tmp_path.iterdir()
    assert str(failed.value).endswith(str(kept))
    assert "ready to accept connections" in (kept / "postgres.log").read_text()
