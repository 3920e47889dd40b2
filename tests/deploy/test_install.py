"""The Python from which `deploy/install` makes .venv."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
FAKE = """#!/bin/sh
case $1 in
    --version) echo "Python {version}.0" ;;
    -c) exec "{real}" -c "import sys, sysconfig
sys.version_info, sys.base_prefix = ({numbers}, 0), '/opt'
sysconfig.get_config_vars()['CONFIG_ARGS'] = '{built}'
$2" ;;
    *) exit 1 ;; # such as -m venv: the installation ends here
esac
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("there", "wanted", "said"),
    [
        ({"python3": "3.12"}, "", "making .venv with Python 3.12.0"),
        ({"python3": "3.15", "python3.14": "3.14"}, "", "making .venv with Python 3.14.0"),
        ({"python3": "3.9", "python3.11": "3.11"}, "", "making .venv with Python 3.11.0"),
        ({"python3": "3.12 plain", "later/python3": "3.13"}, "", "making .venv with Python 3.13.0"),
        ({"python3": "3.12 plain", "later/python3": "3.13 plain"}, "", "making .venv with Python 3.12.0"),
        ({"python3": "3.12 plain", "later/python3": "3.9"}, "", "making .venv with Python 3.12.0"),
        ({"python3": "3.12 plain", "later/python3": "3.13"}, "python3", "making .venv with Python 3.12.0"),
        ({"python3": "3.15"}, "", "Fuelroute needs one of Python 3.11 to 3.14: install it, or set PYTHON to its path"),
        ({}, "", "Fuelroute needs one of Python 3.11 to 3.14: install it, or set PYTHON to its path"),
        ({"python3": "3.12", "newest": "3.14"}, "newest", "making .venv with Python 3.14.0"),
        ({"python3": "3.12", "newest": "3.15"}, "newest", "PYTHON=newest does not run, or is not one of Python 3.11"),
    ],
    ids=[
        "the usual one",
        "too new",
        "too old",
        "without optimizations",
        "both without",
        "without, before one that is too old",
        "without, and named",
        "too new alone",
        "none",
        "named",
        "named and too new",
    ],
)
def test_a_python_is_found_for_which_the_packages_have_wheels(
    tmp_path: Path, there: dict[str, str], wanted: str, said: str
) -> None:
    clone, programs = tmp_path / "clone", tmp_path / "bin"
    shutil.copytree(REPOSITORY / "deploy" / "requirements", clone / "deploy" / "requirements")
    shutil.copy2(REPOSITORY / "deploy" / "install", clone / "deploy")
    shutil.copy2(REPOSITORY / "pyproject.toml", clone)
    (programs / "later").mkdir(parents=True)
    for name in ("sh", "cat", "cksum", "dirname", "rm", "tr"):
        (programs / name).symlink_to(shutil.which(name) or name)
    for name, made in there.items():
        version, _, plain = made.partition(" ")
        built = "" if plain else "--enable-optimizations"
        fake = programs / name
        fake.write_text(
            FAKE.format(version=version, real=sys.executable, numbers=version.replace(".", ", "), built=built)
        )
        fake.chmod(0o755)

    done = subprocess.run(
        [str(clone / "deploy" / "install"), "embedded"],
        env={name: value for name, value in os.environ.items() if name != "PYTHON"}
        | {"PATH": f"{programs}:{programs}/later"}
        | ({"PYTHON": wanted} if wanted else {}),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert said in done.stdout + done.stderr
