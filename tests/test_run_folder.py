"""A run removes the folders of killed runs, and no other."""

import fcntl
import os
from pathlib import Path
from time import time

import pytest

from tests import run_folder


def test_a_folder_that_its_run_has_not_locked_yet_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[Path] = []
    monkeypatch.setattr(run_folder, "_MEMORY", tmp_path)
    monkeypatch.setattr(run_folder, "_remove_by_itself", removed.append)
    new, killed, running = (tmp_path / f"fr-tests-{one}" for one in ("new", "killed", "running"))
    for folder in (new, killed, running):
        folder.mkdir()
    for folder in (killed, running):
        os.utime(folder, (time() - 3600, time() - 3600))
    lock = os.open(running, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)

    run_folder._remove_those_of_killed_runs()

    os.close(lock)
    assert removed == [killed]
