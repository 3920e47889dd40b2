"""The two commands of the README, from a fresh clone, as a newcomer runs them."""

import json
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import time
import venv
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import httpx
import pytest

from tests.service import eventually

pytestmark = pytest.mark.servers

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that git knows, with uncommitted changes, in a folder whose name has a space."""
    folder = tmp_path_factory.mktemp("clone") / "a clone"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        source = REPOSITORY / name
        if name and source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    install_for_users(folder)
    return folder


def install_for_users(clone: Path) -> None:
    """Installs the packages that users get, and no other, from our own environment: CI has fetched them by the same
    script. It is left to the clone to install itself: by pip, as where uv cannot, for uv's program is not linked."""
    venv.create(clone / ".venv", symlinks=True)
    pins = (clone / "deploy" / "requirements" / "embedded.txt").read_text()
    pinned = dict(re.findall(r"^([\w.-]+)==([\w.]+)", pins, re.MULTILINE))
    for name in ("pip", "uv", *pinned):
        with suppress(PackageNotFoundError):  # some are for other systems
            package = distribution(name)
            assert package.version == pinned.get(name, package.version), name
            for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
                link = site_packages(clone) / top
                if not link.exists():  # several packages share some
                    link.symlink_to(str(package.locate_file(top)))


def site_packages(clone: Path) -> Path:
    base = str(clone / ".venv")
    return Path(sysconfig.get_path("purelib", vars={"base": base, "platbase": base}))


def clean_environment() -> dict[str, str]:
    """A newcomer's: nothing of ours, and leftovers that must not disturb."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("FUELROUTE_", "TEST_", "PYTEST_", "COVERAGE"))
    }
    return {**kept, "PYTHONPATH": "/nowhere", "VIRTUAL_ENV": "/nowhere"}


class Up:
    """A running `deploy/up`."""

    def __init__(self, clone: Path, data: Path) -> None:
        self.screen = data.with_name(f"screen-{time.monotonic_ns()}.txt")
        self.started = time.monotonic()
        with self.screen.open("w") as screen:
            self.process = subprocess.Popen(
                [str(clone / "deploy" / "up"), "--demo-fleet", "off", "--port", "0", "--data", str(data)],
                cwd="/",
                env=clean_environment(),
                stdout=screen,
                stderr=subprocess.STDOUT,
            )

    def wait_for(self, pattern: str, seconds: float) -> re.Match[str]:
        found = eventually(
            lambda: (re.search(pattern, self.screen.read_text()), self.process.poll()),
            lambda seen: seen[0] is not None or seen[1] is not None,
            seconds,
            pattern,
        )[0]
        assert found is not None, self.screen.read_text()
        return found

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=600)


def processes_of(data: Path) -> list[str]:
    """Command lines and folders of living processes that have to do with a data folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            told = (entry / "environ").read_text() + (entry / "cmdline").read_text() + os.readlink(entry / "cwd")
            if entry.name.isdigit() and str(data) in told:
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def findings_of_doctor(clone: Path, data: Path) -> list[object]:
    """Findings about the running stack, without those about the machine, and the checks that did not end in time."""
    done = subprocess.run(
        [str(clone / ".venv" / "bin" / "fuelroute"), "doctor", "--json"],
        env={**clean_environment(), "FUELROUTE_DATA": str(data)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    unfinished = [check["unfinished"] for check in document["checks"] if not check["finished"]]
    return unfinished + [finding for finding in document["findings"] if finding["check"] != "disks"]


class Demo:
    """The demo of a clone. One `deploy/up` after the other runs it on the same data folder."""

    def __init__(self, clone: Path, data: Path) -> None:
        self.clone = clone
        self.data = data
        self.ups: list[Up] = []
        self.start_seconds = 0.0

    def start(self) -> None:
        up = Up(self.clone, self.data)
        self.ups.append(up)
        # ten times what a quiet machine takes: other work beside it fails no test
        self.url = up.wait_for(r"ready (http://\S+)", 900).group(1)
        self.start_seconds = time.monotonic() - up.started
        print(f"ready after {self.start_seconds:.1f} s")
        up.wait_for("now you", 600)

    def stop(self) -> None:
        """Stops within Docker's 10 s, or on a slow machine sooner than it started."""
        up, asked = self.ups[-1], time.monotonic()
        up.stop()
        assert time.monotonic() - asked < max(10, self.start_seconds)
        assert up.process.returncode == 0
        assert processes_of(self.data) == []

    def end(self) -> None:
        """Leaves nothing behind, also after a failure."""
        for up in self.ups:
            if up.process.poll() is None:
                up.stop()


@pytest.fixture(scope="module")
def demo(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """A running demo. It stops well whatever was done with it."""
    one = Demo(clone, tmp_path_factory.mktemp("demo") / "data")
    try:
        one.start()
        # on a busy machine some work of the demo is late for a moment
        eventually(lambda: findings_of_doctor(clone, one.data), lambda found: found == [], 900)
        yield one
        one.stop()
    finally:
        one.end()


def test_up_shows_the_demo_and_does_so_again_after_a_stop(demo: Demo) -> None:
    """The fixture stops the second one."""
    assert_demo_is_shown(demo)
    assert "LOW FUEL: drive to" in demo.ups[0].screen.read_text()
    assert "CORRECTED fuel plan for PO-7006" in demo.ups[0].screen.read_text()
    assert re.search(r"draft .* -> planned .* -> active .* ->\s+completed", demo.ups[0].screen.read_text())

    try:
        demo.stop()
    finally:
        demo.start()  # other tests look at it
    assert_demo_is_shown(demo)


def assert_demo_is_shown(running: Demo) -> None:
    screen = running.ups[-1].screen.read_text()
    demo = json.loads((running.data / "demo.json").read_text())
    assert demo["url"] == running.url
    console = running.ups[-1].wait_for(r"console (http://\S+)", 180).group(1)
    assert demo["console_url"] == console
    assert "Sign in" in httpx.get(f"{console}/sign-in", timeout=900).text
    assert (demo["console_password"] in screen) == (len(running.ups) == 1), "it is shown once"
    assert not [name for name in ("live_key", "sandbox_key") if demo[name] in screen]
    me = httpx.get(f"{running.url}/v1/me", headers={"Authorization": f"Bearer {demo['live_key']}"}, timeout=900)
    assert (me.status_code, me.json()["company"]["name"]) == (200, "Prairie Demo Freight")
    for name, key in (
        ("sandbox", "sandbox_key"),
        ("live", "live_key"),
        ("low on fuel", "sandbox_key"),
        ("off its road", "sandbox_key"),
    ):
        answer = httpx.get(
            f"{running.url}/v1/routes/{demo['routes'][name]}",
            headers={"Authorization": f"Bearer {demo[key]}"},
            timeout=900,
        )
        assert answer.json()["status"] == "completed"


def test_a_second_up_on_the_same_folder_says_so(clone: Path, demo: Demo) -> None:
    second = subprocess.run(
        [str(clone / ".venv" / "bin" / "fuelroute"), "up", "--port", "0", "--data", str(demo.data)],
        capture_output=True,
        text=True,
        timeout=600,
        env=clean_environment(),
        check=False,
    )

    assert second.returncode == 1
    assert re.search(r"another fuelroute is running on .* \(pid \d+\)", second.stderr)


def tour(readme: str) -> str:
    """The commands of the README's tour, in order."""
    chapter = readme.split("## Five minutes", 1)[1].split("\n## ", 1)[0]
    return "\n".join(line.removeprefix("    ") for line in chapter.splitlines() if line.startswith("    "))


def test_the_tour_of_the_readme_works_as_written(clone: Path, demo: Demo) -> None:
    script = tour((clone / "README.md").read_text()).replace("http://127.0.0.1:8080", demo.url)

    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=clone,
        env={**clean_environment(), "FUELROUTE_DATA": str(demo.data)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for expected in (
        "8 created",
        '"environment":"sandbox"',
        "HTTP/1.1 201 Created",
        "\n200\n",
        '"reason":"vehicle_unmapped"',
        "1 held route is imported",
        '"status":"draft"',
        '"status": "completed"',
        '"fuelPlan": {',
        "objective: $",
        "suppressed (sandbox)",
        "\n204\n",
    ):
        assert expected in done.stdout, f"{expected!r} is missing in:\n{done.stdout}"


@pytest.fixture
def packages_for_tests(clone: Path) -> Iterator[None]:
    """Makes those of our own environment known, so that nothing is installed. The other tests show that the service
    needs none of them."""
    ours, install = site_packages(clone) / "of-our-environment.pth", clone / "deploy" / "install"
    script = install.read_text()
    ours.write_text(sysconfig.get_path("purelib"))
    install.write_text("#!/bin/sh\n")
    yield
    install.write_text(script)
    ours.unlink()


@pytest.mark.usefixtures("packages_for_tests")
def test_the_test_script_runs_tests(clone: Path, tmp_path: Path) -> None:
    """Nothing is installed, and no servers are started: CI has shown that they are."""
    done = subprocess.run(
        [str(clone / "deploy" / "test"), "-q", "-m", "not servers", "tests/domain/test_lifecycle.py"],
        cwd="/",
        # a pytest closes the folder of all its kin's temporary folders, servers that start in one of them included
        env={**clean_environment(), "PYTEST_DEBUG_TEMPROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
