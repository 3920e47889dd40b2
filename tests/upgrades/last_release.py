"""The release before this one: its pin, and its code, taken from the history of git."""

import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

REPOSITORY = Path(__file__).parents[2]
PACKAGES = ("deploy", "domain", "ingress", "scheduler", "workers")


class LastRelease(NamedTuple):
    """The commit of the release before, and the revision of its schema."""

    commit: str
    title: str
    revision: str


def last_release() -> LastRelease:
    with Path(__file__).with_name("last_release.toml").open("rb") as file:
        return LastRelease(**tomllib.load(file))


def unpack_last_release(folder: Path) -> None:
    """Puts its packages into the folder. The test is skipped where the history is missing: in a shallow clone, or
    outside of git."""
    archive = subprocess.run(
        ["git", "-C", str(REPOSITORY), "archive", last_release().commit, *PACKAGES], capture_output=True, check=False
    )
    if archive.returncode != 0:
        reason = archive.stderr.decode(errors="replace").strip().partition("\n")[0]
        pytest.skip(f"the code of the last release is not in this checkout ({reason}): clone with the whole history")
    subprocess.run(["tar", "--extract", "--directory", str(folder)], input=archive.stdout, check=True)
