"""Each command line of the manifests, which are those of compose.yaml too, runs as it stands beside real servers, with
the environment and the secret files of its pod. Then its probes are asked, and it is told to stop."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from deploy.processes import FUELROUTE, Child, Spec
from domain.settings import Settings
from tests.conftest import make_database
from tests.deploy.kubernetes.manifests import Manifest, container, pods, variables
from tests.forking import begin_forked
from tests.ports import own_port
from tests.service import eventually

PODS = pods("large")


class Process(NamedTuple):
    """The process of a pod, and the ports in place of the pod's."""

    child: Child
    pod: Manifest
    ports: dict[str, int]

    def probe(self, kind: str) -> int:
        """The status that the kubelet gets. 0: nobody answers."""
        asked = container(self.pod)[f"{kind}Probe"]["httpGet"]
        try:
            return httpx.get(f"http://127.0.0.1:{self.ports[asked['port']]}{asked['path']}", timeout=900).status_code
        except httpx.TransportError:
            return 0


def start(name: str, secrets: Path, logs: Path) -> Process:
    """Starts the process of a pod with free ports in place of the image's."""
    pod = PODS[name]
    ports = {port["name"]: own_port() for port in container(pod).get("ports", [])}
    own = "FUELROUTE_CONSOLE_PORT" if name == "console" else "FUELROUTE_PORT"
    given = {
        key: value.replace("/run/secrets/fuelroute", str(secrets)) for key, value in variables("large", pod).items()
    }
    env = {
        "PATH": os.environ["PATH"],
        **given,
        own: str(ports.get("http", 0)),
        "FUELROUTE_METRICS_PORT": str(ports.get("metrics", 9100)),
        "FUELROUTE_DRAIN_SECONDS": "0",  # a test need not wait for a load balancer
    }
    argv = [*FUELROUTE, *container(pod)["args"]]
    spec = Spec(name, argv, logs / f"{name}.log", env, inherits=False, begin=begin_forked)
    return Process(Child(spec), pod, ports)


@pytest.fixture(scope="module")
def secrets(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The secret `fuelroute` as files. Its database is empty."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "database-url").write_text(make_database("kubernetes", template="template1"))
    (folder / "redis-url").write_text(settings.require_redis_url())
    (folder / "contact-key").write_text(base64.urlsafe_b64encode(os.urandom(32)).decode())
    return folder


@pytest.fixture(scope="module")
def processes(secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Process]]:
    """Every pod's process, started while the schema is still missing, and then the migration."""
    logs = tmp_path_factory.mktemp("logs")
    started = {name: start(name, secrets, logs) for name in sorted(PODS, key=lambda name: name == "migrate")}
    try:
        yield started
    finally:
        for process in started.values():
            process.child.kill_group()


def test_every_process_gets_ready_behind_the_migration_and_ends_well_within_its_grace_period(
    processes: dict[str, Process],
) -> None:
    migration = processes["migrate"].child
    assert migration.process.wait(timeout=900) == 0, migration.last_words()
    for name, process in processes.items():
        if name != "migrate":
            for kind in ("startup", "liveness", "readiness"):
                eventually(
                    lambda process=process, kind=kind: (process.probe(kind), process.child.died()),  # type: ignore[misc]
                    lambda seen: seen == (200, None),
                    wanted=f"{name}: {kind}; it says: {process.child.last_words()}",
                )
    for process in processes.values():
        process.child.signal(process.child.spec.stop_signal)
    for name, process in processes.items():
        patience = process.pod["spec"].get("terminationGracePeriodSeconds", 30)
        status = process.child.process.wait(timeout=patience)
        # uvicorn ends by the signal that it got
        assert status == (-process.child.spec.stop_signal if name in ("ingress", "console") else 0), name
