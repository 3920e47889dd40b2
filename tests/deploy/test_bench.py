"""The benchmarks go on working: a tiny one, its table and its JSON. What it measures here means nothing."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from tests.benchmarks.harness import Bench, new_progress
from tests.benchmarks.load import LoadFailed
from tests.browser.pages import PAGES

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]


def bench(*arguments: str, temporary: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", "from deploy.cli import main; main()", "bench", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary), **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def test_a_benchmark_shows_and_writes_its_figures(tmp_path: Path) -> None:
    file, temporary = tmp_path / "figures.json", tmp_path / "temporary"
    temporary.mkdir()

    options = ("--seconds", "0.1", "--rounds", "1", "--ingress", "1", "--json", str(file))
    done = bench("push", *options, temporary=temporary, FUELROUTE_IMPORT_WAIT_SECONDS="0.5")

    assert done.returncode == 0, done.stderr
    assert "to reach" in done.stdout
    document = json.loads(file.read_text())
    assert document["machine"]["cores"] == os.cpu_count()
    assert document["options"] | {"works": ["push"], "rounds": 1, "ingress": [1]} == document["options"]
    for figure in document["figures"]:
        assert figure["work"].startswith("push")
        assert len(figure["rounds"]) == 1
        assert figure["least"] == figure["median"] == figure["most"]
        assert (figure["reached"] is None) == (figure["at_least"] is None and figure["at_most"] is None)
    assert len([figure for figure in document["figures"] if figure["reached"] is not None]) == 6
    assert not list(temporary.iterdir()), "nothing is left behind"


def test_every_page_of_the_console_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"

    # ten people click five times a second: in less, no click may be counted
    done = bench(
        "console", "--seconds", "0.2", "--rounds", "1", "--routes", "1000", "--json", str(file), temporary=tmp_path
    )

    assert done.returncode == 0, done.stderr
    measured = " ".join(figure["work"] for figure in json.loads(file.read_text())["figures"])
    for visit in PAGES:
        assert visit.act is not None or f" routes, {visit.name}, p50" in measured


def test_imports_of_files_are_measured_beside_a_plain_copy(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    sizes = ("--fills", "300", "--prices", "200")

    done = bench("files", "--rounds", "1", *sizes, "--json", str(file), temporary=tmp_path)

    assert done.returncode == 0, done.stderr
    measured = {figure["work"]: figure["median"] for figure in json.loads(file.read_text())["figures"]}
    measures = ("rows/s", "processor time of the client", "processor time of the backend")
    expected = {"files: 200 prices, read and copied", "files: 300 fills, read and copied"}
    for work in ("200 prices, first", "200 prices, the next day's", "300 fills, first", "300 fills, again"):
        expected |= {f"files: {work}", *(f"files: {work}, {measure}, of the reference" for measure in measures)}
    assert set(measured) == expected
    assert min(measured.values()) > 0


def test_a_missing_package_and_an_unknown_benchmark_are_reported_in_one_sentence(tmp_path: Path) -> None:
    """After `deploy/up` the packages for tests are not there. Works that need none of them run all the same."""
    (tmp_path / "highspy.py").write_text("raise ModuleNotFoundError(\"No module named 'highspy'\", name='highspy')")

    plan, unknown = (
        bench(*works, temporary=tmp_path, PYTHONPATH=str(tmp_path)) for works in (("plan",), ("push", "everything"))
    )

    assert (plan.returncode, unknown.returncode) == (1, 1)
    assert plan.stderr == (
        "fuelroute: `bench plan` needs the package highspy: `deploy/install embedded,test` installs it\n"
    )
    assert unknown.stderr.startswith("fuelroute: no such work: everything; choose from push, import,")


def test_a_failed_benchmark_keeps_the_logs_of_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bench = Bench(new_progress(Console(quiet=True)))

    with pytest.raises(LoadFailed, match="an answer was 500; the logs") as failed, bench.stack("failing"):
        raise LoadFailed("an answer was 500")

    (kept,) = tmp_path.iterdir()
    assert str(failed.value).endswith(str(kept))
    assert "ready to accept connections" in (kept / "postgres.log").read_text()
