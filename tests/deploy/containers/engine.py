"""Containers by podman, as compose.yaml describes them, for tests. Each test ends its own."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

BASE = "docker.io/library/debian:12-slim"
LIMITS = ["--ulimit=nofile=4096:4096", "--ulimit=nproc=1024:1024"]
"""podman's own limits are higher than some machines allow."""


def podman(*arguments: str | Path, check: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
    """Runs podman. `runc` is the only runtime that runs everywhere: crun wants cgroups of version 2."""
    runtime = ("--runtime", "runc") if shutil.which("runc") else ()
    done = subprocess.run(["podman", *runtime, *arguments], capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0 or not check, f"{arguments}: {done.stdout}{done.stderr}"
    return done


def skip_without_podman() -> None:
    """Skips where the image cannot be built: CI has no podman, and no registry of images is reached."""
    if shutil.which("podman") is None:
        pytest.skip("there is no podman, nor an image: apt install podman runc")
    if podman("image", "exists", BASE, check=False).returncode != 0:
        pytest.skip(f"the image {BASE} is not here: `podman pull` it, or run deploy/containers/stand-in")


class Container:
    """A container that runs one of our services, in the network of this machine."""

    def __init__(self, image: str, service: dict[str, Any], environment: dict[str, str], secrets: Path) -> None:
        self.name = f"fuelroute-test-{uuid4().hex[:12]}"
        flags = ["--network", "host", "--read-only", "--read-only-tmpfs=false"]
        flags += [f"--tmpfs={mount}" for mount in service["tmpfs"]]
        flags += [f"--cap-drop={right}" for right in service["cap_drop"]]
        flags += [f"--security-opt={option.removesuffix(':true')}" for option in service["security_opt"]]
        flags += [f"--volume={secrets / name}:/run/secrets/{name}:ro" for name in service["secrets"]]
        flags += LIMITS
        for name, value in (service["environment"] | environment).items():
            flags += ["--env", f"{name}={value}"]
        done = podman("run", "--detach", "--name", self.name, *flags, image, *service["command"], check=False)
        if done.returncode != 0:
            self.remove()
            raise AssertionError(done.stderr)

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a command in the container."""
        return podman("exec", self.name, *command, check=check)

    def document(self, *arguments: str) -> Any:
        """The answer of a command of `fuelroute` with --json."""
        return json.loads(self.run("fuelroute", *arguments, "--json").stdout)

    def wait(self) -> int:
        """The exit status, once its process has ended."""
        return int(podman("wait", self.name, timeout=900).stdout)

    def stop(self, seconds: int) -> int:
        """Sends SIGTERM, and SIGKILL after so many seconds. Returns the exit status."""
        podman("stop", "--time", str(seconds), self.name)
        return self.wait()

    def logs(self) -> str:
        done = podman("logs", self.name, check=False)
        return done.stdout + done.stderr

    def remove(self) -> None:
        podman("rm", "--force", "--time", "0", self.name, check=False)
