"""Several processes on one machine: each has a port of its own for its metrics."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.forks import Forked
from deploy.stack import METRICS_FILE, PROCESSES
from domain.queue.jobs import QUEUES
from domain.settings import Settings, UnusableSetting
from ingress.http.serving import listen
from tests.forking import forked_command
from tests.metrics import Metrics
from tests.ports import own_port
from tests.service import eventually


@contextmanager
def fuelroute(settings: Settings, data: Path, *arguments: str, **environment: str) -> Iterator[Forked]:
    """A command, whose output is in the file `screen` of the folder."""
    env = {
        **os.environ,
        "FUELROUTE_DATABASE_URL": settings.require_database_url(),
        "FUELROUTE_REDIS_URL": settings.require_redis_url(),
        "FUELROUTE_DATA": str(data),
        **environment,
    }
    process = forked_command(*arguments, environment=env, output=data / "screen")
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=900)


def read_json(file: Path) -> Any:
    return json.loads(file.read_text()) if file.exists() else None


def processes_at(ports: Iterable[int]) -> list[str]:
    names = ("ingress", "scheduler", "connectors", "workers", *(f"workers-{queue}" for queue in QUEUES))
    return sorted(name for port in ports for name in names if Metrics(port).are_of(name))


def test_several_workers_of_one_command_take_the_ports_from_the_one_that_is_set(
    settings: Settings, tmp_path: Path
) -> None:
    first = own_port(2)
    with fuelroute(
        settings, tmp_path, "workers", "--queues", "imports", "--processes", "2", FUELROUTE_METRICS_PORT=str(first)
    ):
        eventually(lambda: processes_at(range(first, first + 2)), lambda found: found == ["workers-imports"] * 2)


def test_prometheus_is_told_the_ports_that_the_processes_of_up_have(settings: Settings, tmp_path: Path) -> None:
    """A stranger has one of the range. The last process was not listed, and so not watched."""
    first = own_port(len(PROCESSES) + 2)
    everybody = sorted(["ingress", "scheduler", "connectors", *(f"workers-{queue}" for queue in QUEUES)])
    quiet = {"FUELROUTE_LOG_LEVEL": "error"}  # `up` waits for lines of the log
    ports = f"{first}-{first + len(PROCESSES) + 1}"
    with (
        listen("127.0.0.1", first + 2),
        fuelroute(settings, tmp_path, "up", "--port", "0", FUELROUTE_METRICS_PORT=ports, **quiet),
    ):
        (told,) = eventually(lambda: read_json(tmp_path / METRICS_FILE), lambda found: bool(found))
        named = [int(target.removeprefix("127.0.0.1:")) for target in told["targets"]]
        assert processes_at(named) == everybody
    assert (len(named), first + 2 in named) == (len(PROCESSES), False)


def test_too_few_ports_are_reported_before_anything_starts(settings: Settings, tmp_path: Path) -> None:
    mistyped = {"FUELROUTE_SWEEP_SECOND": "5"}
    with fuelroute(settings, tmp_path, "up", "--port", "0", FUELROUTE_METRICS_PORT="9100-9102", **mistyped) as process:
        assert process.wait(timeout=900) == 1
    told = (tmp_path / "screen").read_text()
    assert "FUELROUTE_METRICS_PORT: 9100-9102 is not enough for 10 processes" in told
    assert "FUELROUTE_SWEEP_SECOND is no setting and changes nothing: is FUELROUTE_SWEEP_SECONDS meant?" in told


@pytest.mark.parametrize(
    ("given", "processes", "ports"),
    [(None, 3, None), ("9100", 3, "9100-9102"), ("9100-9119", 3, "9100-9119"), ("9100-9102", 3, "9100-9102")],
)
def test_processes_share_a_range(given: str | None, processes: int, ports: str | None) -> None:
    assert Settings(metrics_port=given).metrics_ports_of(processes) == ports


@pytest.mark.parametrize("given", ["9100-9101", "65535"])
def test_a_range_that_is_too_short_is_refused(given: str) -> None:
    with pytest.raises(UnusableSetting):
        Settings(metrics_port=given).metrics_ports_of(3)


@pytest.mark.parametrize("given", ["0", "9100-", "-9100", "9200-9100", "65536", "9100-70000", "a", "9100,9101"])
def test_a_value_that_is_no_port_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="port"):
        Settings(metrics_port=given)
