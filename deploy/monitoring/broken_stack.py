"""A stack and a Prometheus for rehearsals: servers that can be broken, `fuelroute up`, our rules with shorter times."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from deploy.demo import JOLIET, NEWARK, standing_at
from deploy.embedded import EmbeddedPostgres, EmbeddedRedis
from deploy.processes import Child
from deploy.stack import PROCESSES
from ingress.http.serving import free_port

HERE = Path(__file__).parent
STATIONS = HERE.parent / "demo" / "stations.csv"
FASTER = 20
"""Factor by which waits (`for:`) and windows (`[5m]`) of the rules are shorter. Thresholds stay."""

TRUCKS = 60
_UNITS = {"s": 1, "m": 60, "h": 3600}


class NotInTime(Exception):
    """An expected event did not happen in its time."""


class Alert(NamedTuple):
    """An alert that fires."""

    name: str
    labels: Mapping[str, str]


def shortened(rules: str) -> str:
    """The text of a file of rules, with all times divided by `FASTER`, a second at least."""

    def shorter(found: re.Match[str]) -> str:
        seconds = int(found["number"]) * _UNITS[found["unit"]] / FASTER
        return f"{found['before']}{max(1, round(seconds))}s{found['after']}"

    return re.sub(r"(?P<before>for: |\[)(?P<number>\d+)(?P<unit>[smh])(?P<after>\]|$)", shorter, rules, flags=re.M)


class Prometheus:
    """A Prometheus that scrapes every 2 s and judges every second."""

    def __init__(self, folder: Path, ports: range) -> None:
        self._folder = folder
        self._port = free_port("127.0.0.1", 0)
        self._url = f"http://127.0.0.1:{self._port}/api/v1"
        rules = folder / "rules"
        rules.mkdir(parents=True)
        for file in (HERE / "prometheus" / "rules").glob("*.yml"):
            (rules / file.name).write_text(shortened(file.read_text()))
        config = {
            "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
            "rule_files": [str(rules / "*.yml")],
            "scrape_configs": [
                {"job_name": "fuelroute", "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
            ],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML

    def start(self) -> subprocess.Popen[bytes]:
        program = shutil.which("prometheus")
        if program is None:
            raise SystemExit("install prometheus: apt-get install prometheus")
        with (self._folder / "prometheus.log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603
                [
                    program,
                    f"--config.file={self._folder}/prometheus.yml",
                    f"--storage.tsdb.path={self._folder}/data",
                    f"--web.listen-address=127.0.0.1:{self._port}",
                ],
                stdout=log,
                stderr=log,
            )

    def firing(self) -> list[Alert]:
        return [
            Alert(one["labels"]["alertname"], {k: v for k, v in one["labels"].items() if k != "alertname"})
            for one in self._alerts()
            if one["state"] == "firing"
        ]

    def is_calm(self) -> bool:
        """True if every process answers, and no alert fires or waits for its time."""
        try:
            return self.value("count(up == 1)") == len(PROCESSES) and not self._alerts()
        except (httpx.TransportError, ValueError):  # it starts
            return False

    def _alerts(self) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = httpx.get(f"{self._url}/alerts", timeout=10).json()["data"]["alerts"]
        except (httpx.TransportError, ValueError, KeyError):
            return []
        return found

    def value(self, expression: str) -> float | None:
        answer = self._ask(expression)
        return float(answer[0]["value"][1]) if answer else None

    def instances(self, expression: str) -> list[str]:
        """The addresses of the processes of which the expression is true."""
        return [one["metric"]["instance"] for one in self._ask(expression)]

    def _ask(self, expression: str) -> list[dict[str, Any]]:
        answer = httpx.get(f"{self._url}/query", params={"query": expression}, timeout=10)
        result: list[dict[str, Any]] = answer.json()["data"]["result"]
        return result


class Servers:
    """PostgreSQL and Valkey as an operator's own servers, which nothing but the rehearsal starts again."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.postgres = EmbeddedPostgres(data)
        self.redis = EmbeddedRedis(data)
        self._children: dict[str, Child] = {}

    def start(self, name: str) -> None:
        server = self.postgres if name == "postgres" else self.redis
        server.prepare()
        spec = server.spec()
        self._children[name] = Child(spec)
        until(lambda: spec.is_ready is None or spec.is_ready(), f"{name} is ready")

    def stop(self, name: str, number: signal.Signals) -> None:
        child = self._children[name]
        child.signal(number)
        until(lambda: child.died() is not None, f"{name} has stopped")
        child.kill_group()

    def is_up(self, name: str) -> bool:
        return self._children[name].died() is None

    def stop_all(self) -> None:
        for name, child in reversed(self._children.items()):
            if child.died() is None:
                self.stop(name, child.spec.stop_signal)


class Stack:
    """`fuelroute up`, a company in it, and commands against it."""

    def __init__(self, folder: Path, env: Mapping[str, str], ports: range) -> None:
        self.folder = folder
        self.api_port = free_port("127.0.0.1", 0)
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FUELROUTE_")},
            "FUELROUTE_METRICS_PORT": f"{ports[0]}-{ports[-1]}",
            "FUELROUTE_PORT": str(self.api_port),
            "FUELROUTE_CONSOLE_PORT": str(free_port("127.0.0.1", 0)),
            "FUELROUTE_MESSAGE_ALLOWED_HOSTS": "127.0.0.1",
            **env,
        }
        self.company = self.key = ""
        self._up: subprocess.Popen[bytes] | None = None
        self._trucks = iter(range(1, TRUCKS + 1))

    # processes

    def start(self, *options: str) -> None:
        log = self.folder / "up.log"
        before = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._up = subprocess.Popen(  # noqa: S603
                _command("up", *options), env=self.env, stdout=output, stderr=output, start_new_session=True
            )
        until(lambda: b"ready http" in log.read_bytes()[before:], "the stack is ready", 90)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._up is not None:
            self._up.send_signal(number)
            self._up.wait(60)
            self._up = None

    def pid_of(self, name: str) -> int:
        """The process of `up` with this name."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parent = (folder / "stat").read_text().rpartition(") ")[2].split()[1]
                is_ours = self._up is not None and int(parent) == self._up.pid
                if is_ours and (folder / "comm").read_text().strip() == name:
                    return int(folder.name)
        raise LookupError(name)

    # commands

    def fuelroute(self, *arguments: str) -> str:
        """Runs a command. Returns its output; with `--json` among the arguments one document."""
        ran = subprocess.run(  # noqa: S603
            _command(*arguments), env=self.env, capture_output=True, text=True, timeout=120, check=False
        )
        return ran.stdout or ran.stderr

    def document(self, *arguments: str) -> Any:
        text = self.fuelroute(*arguments, "--json")
        try:
            return json.loads(text)
        except ValueError:
            raise SystemExit(f"fuelroute {' '.join(arguments)}: {text}") from None

    def headline(self) -> str:
        return self.fuelroute("queues").partition("\n")[0]

    # the company

    def make_company(self) -> None:
        self.company = self.document("companies", "create", "--name", "Rehearsal Freight")["id"]
        trucks, drivers = self.folder / "trucks.csv", self.folder / "drivers.csv"
        trucks.write_text("unit_number\n" + "".join(f"T-{number}\n" for number in range(1, TRUCKS + 1)))
        drivers.write_text("name\n" + "".join(f"Driver {number}\n" for number in range(1, TRUCKS + 1)))
        self.fuelroute("vehicles", "import", "--company", self.company, str(trucks))
        self.fuelroute("drivers", "import", "--company", self.company, str(drivers))
        self.fuelroute("stations", "import", str(STATIONS))
        scopes = [f"--scope={scope}" for scope in ("routes:write", "routes:read", "positions:write")]
        made = self.document(
            "keys", "create", "--company", self.company, "--name", "rehearsal", "--environment", "live", *scopes
        )
        self.key = made["key"]

    def give_contact(self, number: int, url: str) -> None:
        file = self.folder / "contact.csv"
        file.write_text(f"name,contact\nDriver {number},{url}\n")
        self.fuelroute("drivers", "import", "--company", self.company, str(file))

    def next_truck(self) -> int:
        return next(self._trucks)

    def call(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return httpx.request(
            method,
            f"http://127.0.0.1:{self.api_port}{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=30,
        )

    def push(self, truck: int) -> httpx.Response:
        start = datetime.now(UTC) + timedelta(hours=1)
        return self.call(
            "POST",
            "/v1/routes",
            {
                "externalId": f"LOAD-{truck}",
                "vehicle": {"unitNumber": f"T-{truck}"},
                "driver": {"name": f"Driver {truck}"},
                "scheduledStart": start.isoformat(),
                "stops": [JOLIET, NEWARK],
            },
        )

    def arrive(self, truck: int) -> None:
        positions = standing_at(JOLIET, f"T-{truck}", fuel_percent=40)
        self.call("POST", "/telematics/positions", {"positions": positions})

    def start_route(self, truck: int | None = None) -> str:
        """Pushes a route and puts its truck at the first stop. Returns the route's id."""
        truck = self.next_truck() if truck is None else truck
        pushed = self.push(truck)
        self.arrive(truck)
        return str(pushed.json()["id"])

    def wait_for(self, route_id: str, status: str, seconds: float = 120) -> None:
        until(
            lambda: self.call("GET", f"/v1/routes/{route_id}").json().get("status") == status,
            f"{route_id} is {status}",
            seconds,
        )


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-c", "from deploy.cli import main; main()", *arguments]


def until(look: Callable[[], object], wanted: str, seconds: float = 60) -> float:
    """Waits until `look()` is true. Returns the seconds that it took. Raises NotInTime after `seconds`."""
    started = time.monotonic()
    while not look():
        if time.monotonic() - started > seconds:
            raise NotInTime(f"waited {seconds:g} s in vain: {wanted}")
        time.sleep(0.2)
    return time.monotonic() - started


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[bool]:
    """Mounts a small file system at the folder, if we are root. Gives whether there is one."""
    folder.mkdir(parents=True)
    if os.getuid() != 0:
        yield False
        return
    _run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", str(folder))
    try:
        yield True
    finally:
        _run("umount", "--lazy", str(folder))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=60)  # noqa: S603


def ports_of_processes() -> range:
    """Free ports in a row for the metrics of a stack."""
    for first in range(19100, 29100, len(PROCESSES)):
        with contextlib.suppress(Exception):
            for port in range(first, first + len(PROCESSES)):
                free_port("127.0.0.1", port)
            return range(first, first + len(PROCESSES))
    raise SystemExit("no free ports")
