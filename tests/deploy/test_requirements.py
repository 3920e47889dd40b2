"""Every installed package is pinned by version and hash, and known by name and licence; together they suffice for a
bare machine."""

import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy import notices

REPOSITORY = Path(__file__).parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
ONLY_ELSEWHERE = {"async-timeout", "brotlicffi", "colorama"}
"""Packages of earlier Pythons, of PyPy or of Windows."""
EXTRAS = PROJECT["project"]["optional-dependencies"]
LOCKED = {
    "production": (),
    "embedded": ("embedded",),
    "embedded-test": ("embedded", "test"),
    "osm": ("osm",),
    "roads": ("roads",),
}


runtime_packages = cache(notices.runtime_packages)


def entries(name: str) -> list[str]:
    """The packages in a file of deploy/requirements/, each with its hashes."""
    text = (REPOSITORY / "deploy" / "requirements" / f"{name}.txt").read_text()
    return text.replace("\\\n", "").splitlines()


def pins(name: str) -> dict[str, str]:
    """The versions in a file of deploy/requirements/; fails unless each has a hash and nothing else is said."""
    found: dict[str, str] = {}
    for entry in entries(name):
        match = re.fullmatch(r"([\w.-]+)==([\w.]+)( ; [^:]+?)?((\s+--hash=sha256:[0-9a-f]{64})+)\s*", entry)
        assert match is not None, f"not a pinned version with hashes: {entry[:200]}"
        found[canonicalize_name(match[1])] = match[2]
    return found


@pytest.mark.parametrize(("name", "extras"), LOCKED.items())
def test_every_required_package_is_pinned_with_hashes(name: str, extras: tuple[str, ...]) -> None:
    asked = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]
    asked += [line for extra in extras for line in EXTRAS[extra]]

    locked = pins(name)

    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("name", LOCKED)
def test_the_installed_versions_are_the_pinned_ones(name: str) -> None:
    locked = pins(name)
    runtime = {canonicalize_name(package.name): package.version for package in runtime_packages()}
    known = {package: here for package, here in runtime.items() if package in locked}

    assert known.items() <= locked.items()
    if "embedded" in LOCKED[name]:
        assert known == runtime


@pytest.mark.slow
def test_the_pinned_packages_need_no_others() -> None:
    """`deploy/install` asks for no dependencies."""
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_uv_that_installs_them_is_pinned_too() -> None:
    assert pins("uv").keys() == {"uv"}


def test_the_tests_run_with_the_files_that_users_install() -> None:
    """CI fetches the packages of tests; tests/deploy/test_scripts.py gives a clone those of users from them."""
    assert set(entries("embedded")) <= set(entries("embedded-test"))


def test_every_package_that_users_install_is_in_the_notices() -> None:
    text = notices.FILE.read_text()

    for package in runtime_packages():
        name = f"`{canonicalize_name(package.name)}`"
        row = f"| {name} | {package.version} | {notices.licence(package)} |"
        assert row in text or f"also gets {name}" in text, f"missing: {row}; run `python -m deploy.notices`"
    assert "not stated" not in text


def test_the_notices_name_both_servers() -> None:
    text = notices.FILE.read_text()

    for server in ("PostgreSQL 16 and 18", "the Valkey server"):
        assert server in text


def test_time_zones_are_known_on_a_machine_without_zone_files() -> None:
    code = (
        "from datetime import UTC, datetime; from zoneinfo import ZoneInfo, available_timezones\n"
        "assert 'America/Chicago' in available_timezones()\n"
        "print(datetime(2026, 1, 1, tzinfo=UTC).astimezone(ZoneInfo('America/Chicago')))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "2025-12-31 18:00:00-06:00\n", done.stderr
    assert version("tzdata")


def test_the_bill_of_materials_lists_what_is_pinned() -> None:
    """`deploy/audit` writes it."""
    bill = json.loads((REPOSITORY / "deploy" / "sbom.json").read_text())
    listed = {canonicalize_name(one["name"]): one["version"] for one in bill["components"]}
    pinned = pins("embedded")
    assert listed.items() <= pinned.items()
    assert set(pinned) - set(listed) <= ONLY_ELSEWHERE
    assert bill["metadata"]["component"]["version"] == PROJECT["project"]["version"]
