"""Workers of pytest that are forked from one process which has loaded the tests."""

import subprocess
from pathlib import Path

import pytest

from tests.domain import test_lifecycle as lifecycle
from tests.parallel import loaded_tests

pytestmark = pytest.mark.servers

READS_A_LINE = ["-u", "-c", "import sys; exec(eval(sys.stdin.readline()))"]
TELLS = """
import os, subprocess, sys
subprocess.run(["false"]), os.write(1, f"{'tests.domain.test_lifecycle' in sys.modules} {os.environ['OWN']}".encode())
"""


def told_by_a_worker(python: list[str], folder: Path) -> str:
    done = subprocess.run(
        [*python, *READS_A_LINE],
        input=repr(TELLS) + "\n",
        env={"OWN": folder.name},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return done.stdout


def test_workers_are_forked_where_the_tests_are_loaded(tmp_path: Path) -> None:
    with loaded_tests([lifecycle.__file__]) as python:
        assert {told_by_a_worker(python, tmp_path) for _ in range(2)} == {f"True {tmp_path.name}"}


def test_a_worker_starts_by_itself_where_nothing_has_loaded_the_tests(tmp_path: Path) -> None:
    with loaded_tests(["--version"]) as ended:
        pass
    assert told_by_a_worker(ended, tmp_path) == f"False {tmp_path.name}"
