"""Workers of pytest that are forked from one process which has loaded the tests."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import parallel
from tests.conftest import arguments_of_loading
from tests.deploy.test_embedded import is_running
from tests.domain import test_lifecycle as lifecycle
from tests.parallel import loaded_tests
from tests.service import eventually

pytestmark = pytest.mark.servers

READS_A_LINE = ["-u", "-c", "import sys; exec(eval(sys.stdin.readline()))"]
TELLS = """
import os, subprocess, sys
subprocess.run(["false"]), os.write(1, f"{'tests.domain.test_lifecycle' in sys.modules} {os.environ['OWN']}".encode())
"""
TELLS_EXAMPLES = "import os; from tests.repeatable import examples; os.write(1, str(examples(50)).encode())"
TELLS_IN_A_FORK = """
from tests.forking import fork
fork(exec, "import sys; open('told', 'w').write(' '.join(sys.modules))").join()
"""
STAYS = "import os, time; os.write(1, f'{os.getpid()}\\n'.encode()); time.sleep(600)"


@pytest.fixture(scope="module")
def python(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """The PYTHON for workers of a search for counterexamples, where the path to temporary files is long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request.config, "args", [lifecycle.__file__])
        patch.setattr(request.config.option, "hypothesis_profile", "search")
        patch.setattr(tempfile, "tempdir", f"/var/{'x' * 100}")
        with loaded_tests(arguments_of_loading(request.config)) as found:
            patch.undo()
            yield found


def told_by_a_worker(python: Sequence[str], folder: Path, line: str = TELLS) -> str:
    done = subprocess.run(
        [*python, *READS_A_LINE],
        input=repr(line) + "\n",
        env={"OWN": folder.name},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return done.stdout


def test_workers_are_forked_where_the_tests_are_loaded(python: list[str], tmp_path: Path) -> None:
    assert {told_by_a_worker(python, tmp_path) for _ in range(2)} == {f"True {tmp_path.name}"}


def test_what_a_worker_forks_has_the_service_and_no_tests(python: list[str], tmp_path: Path) -> None:
    told_by_a_worker(python, tmp_path, TELLS_IN_A_FORK)
    loaded = (tmp_path / "told").read_text().split()
    assert ("workers.plans" in loaded, "tests.domain.test_lifecycle" in loaded) == (True, False)


def test_laws_are_loaded_with_the_examples_of_the_profile(python: list[str], tmp_path: Path) -> None:
    assert told_by_a_worker(python, tmp_path, TELLS_EXAMPLES) == "500"


def test_a_worker_ends_with_the_process_that_pytest_knows(python: list[str]) -> None:
    with subprocess.Popen([*python, *READS_A_LINE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as known:
        assert known.stdin is not None
        assert known.stdout is not None
        known.stdin.write(repr(STAYS) + "\n")
        known.stdin.flush()
        worker = int(known.stdout.readline())
        known.kill()
    assert worker != known.pid
    eventually(lambda: is_running(worker), lambda runs: not runs)


def test_a_worker_starts_by_itself_where_nothing_has_loaded_the_tests(tmp_path: Path) -> None:
    python = [sys.executable, "-IS", parallel.__file__, str(tmp_path / "gone")]
    assert told_by_a_worker(python, tmp_path) == f"False {tmp_path.name}"
