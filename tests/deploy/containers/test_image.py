"""The image is built, and every service of compose.yaml that runs from it takes a route of the demo to `completed`.

Each has the rights, mounts and health check that compose.yaml gives it.
"""

import base64
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pytest

from deploy.demo import ALBUQUERQUE, AMARILLO, MEMPHIS
from domain.settings import Settings
from tests.conftest import make_database
from tests.deploy.containers.compose import CONTAINERS, our_services
from tests.deploy.containers.engine import LIMITS, Container, podman, skip_without_podman
from tests.ports import own_port
from tests.servers import SilentProxy
from tests.service import eventually

IMAGE = "localhost/fuelroute:latest"
DEMO = "/opt/fuelroute/lib/python3.11/site-packages/deploy/demo"
MOST_MEGABYTES = 320


@pytest.fixture(scope="module")
def image() -> str:
    skip_without_podman()
    engine = "podman --runtime runc"
    command = [str(CONTAINERS / "build"), "--network", "host"]
    done = subprocess.run(command, env={**os.environ, "ENGINE": engine}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return IMAGE


def in_image(image: str, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    flags = ["--rm", "--network", "host", "--read-only", "--read-only-tmpfs=false", *LIMITS]
    return podman("run", *flags, f"--entrypoint={program}", image, *arguments, check=False)


def test_it_is_small(image: str) -> None:
    size = int(podman("image", "inspect", "--format", "{{.Size}}", image).stdout)

    assert size < MOST_MEGABYTES * 1_000_000


def test_its_labels_name_the_version_and_the_commit(image: str) -> None:
    shown = podman("image", "inspect", "--format", "{{json .Labels}}", image).stdout
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=CONTAINERS, capture_output=True, text=True, check=True)

    assert '"org.opencontainers.image.version":"1.0.0"' in shown
    assert f'"org.opencontainers.image.revision":"{commit.stdout.strip()}' in shown


def test_it_carries_nothing_of_the_machine_that_built_it(image: str) -> None:
    names = podman("image", "inspect", "--format", "{{range .Config.Env}}{{println .}}{{end}}", image).stdout.split()

    assert not [name for name in names if name.startswith("PIP")]
    code = "import sys, pathlib; sys.exit(any(map(pathlib.Path.exists, map(pathlib.Path, sys.argv[1:]))))"
    assert in_image(image, "python3", "-c", code, "/run/secrets", "/etc/pip.conf", "/source").returncode == 0


def test_it_has_no_shell_and_no_installer(image: str) -> None:
    code = (
        "import os, importlib.util\n"
        "programs = [os.path.join(folder, name) for folder in ('/bin', '/sbin', '/usr/bin', '/usr/sbin')"
        " if os.path.isdir(folder) for name in os.listdir(folder)]\n"
        "print(sorted(programs), [importlib.util.find_spec(name) for name in ('pip', 'setuptools', 'hatchling')])"
    )
    done = in_image(image, "python3", "-c", code)

    assert done.stdout.strip() == "['/usr/bin/python3.11', '/usr/sbin/update-ca-certificates'] [None, None, None]"
    assert in_image(image, "/bin/sh", "-c", "true").returncode == 127


def test_its_user_has_no_rights_and_can_write_nowhere(image: str) -> None:
    code = (
        "import os, sys\n"
        "writable = [path for path, _, _ in os.walk('/') if not path.startswith(('/proc', '/sys', '/dev'))"
        " and os.access(path, os.W_OK)]\n"
        "print(os.getuid(), os.getgid(), writable)"
    )
    assert in_image(image, "python3", "-c", code).stdout.strip() == "10001 10001 []"


def test_it_compiles_nothing_at_its_start(image: str) -> None:
    """Python would compile each module at each start, since it cannot store what it compiled."""
    code = (
        "import sys, pathlib\n"
        "import deploy.stack, ingress.app, workers.process, scheduler.process\n"
        "print([name for name, one in sys.modules.items() if getattr(one, '__cached__', None)"
        " and not pathlib.Path(one.__cached__).exists()])"
    )
    done = in_image(image, "/opt/fuelroute/bin/python3", "-c", code)

    assert done.stdout.strip() == "[]", done.stderr


def test_certificates_of_the_world_are_there(image: str) -> None:
    code = "import ssl; print(len(ssl.create_default_context().get_ca_certs()) > 100)"

    assert in_image(image, "python3", "-c", code).stdout.strip() == "True"


class World(NamedTuple):
    """Every service of ours as a container, beside the tests' servers."""

    containers: dict[str, Container]
    url: str

    @property
    def commands(self) -> Container:
        """A container in which an operator runs commands."""
        return self.containers["scheduler"]


@pytest.fixture(scope="module")
def world(image: str, settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with ExitStack() as life:
        secrets = tmp_path_factory.mktemp("secrets")
        _write_secrets(secrets, settings, life)
        ports = {name: own_port() for name in our_services()}
        http, console = own_port(), own_port()
        containers: dict[str, Container] = {}
        for name, service in our_services().items():  # the migration first
            environment = {
                "FUELROUTE_HOST": "127.0.0.1",
                "FUELROUTE_PORT": str(http),
                "FUELROUTE_API_URL": f"http://127.0.0.1:{http}",
                "FUELROUTE_CONSOLE_PORT": str(console),
                "FUELROUTE_METRICS_HOST": "127.0.0.1",
                "FUELROUTE_METRICS_PORT": str(ports[name]),
            }
            one = containers[name] = Container(image, service, environment, secrets)
            life.callback(one.remove)
            if name == "migrate":
                assert one.wait() == 0, one.logs()
        yield World(containers, f"http://127.0.0.1:{http}")


def _write_secrets(folder: Path, settings: Settings, life: ExitStack) -> None:
    """The secret files. The servers listen on sockets in folders that no other user can enter, so TCP leads there."""
    database = urlsplit(make_database("image", template="template1"))
    where = parse_qs(database.query)
    postgres = SilentProxy(f"{where['host'][0]}/.s.PGSQL.{where['port'][0]}")
    life.callback(postgres.close)
    redis_url = settings.require_redis_url()
    redis = SilentProxy(unquote(urlsplit(redis_url).path))
    life.callback(redis.close)
    number = parse_qs(urlsplit(redis_url).query)["db"][0]
    for name, text in {
        "database-url": f"postgresql://{database.username}@127.0.0.1:{postgres.port}{database.path}",
        "redis-url": f"{redis.url}/{number}",
        "contact-key": base64.urlsafe_b64encode(os.urandom(32)).decode(),
    }.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o644)


def test_every_container_says_that_it_is_healthy_and_ready(world: World) -> None:
    for name, one in world.containers.items():
        if name != "migrate":
            check = our_services()[name]["healthcheck"]["test"]
            eventually(
                lambda one=one, check=check: one.run(*check[1:], check=False).returncode,  # type: ignore[misc]
                lambda status: status == 0,
                wanted=f"{name}: {one.logs()[-2000:]}",
            )
            eventually(
                lambda one=one: one.run("fuelroute", "health", "--ready", check=False).returncode,  # type: ignore[misc]
                lambda status: status == 0,
                wanted=f"{name}: {one.logs()[-2000:]}",
            )


def test_a_migration_that_waits_ends_on_sigterm(image: str, tmp_path: Path) -> None:
    """Process number 1 would ignore the signal, and be killed at the end of the grace period."""
    silent = socket.create_server(("127.0.0.1", 0))
    (tmp_path / "database-url").write_text(f"postgresql://fuelroute@127.0.0.1:{silent.getsockname()[1]}/fuelroute")
    (tmp_path / "database-url").chmod(0o644)
    service = our_services()["migrate"] | {"secrets": ["database-url"]}
    names = {"FUELROUTE_DATABASE_URL_FILE": service["environment"]["FUELROUTE_DATABASE_URL_FILE"]}
    waiting = Container(image, service | {"environment": names}, {}, tmp_path)
    try:
        silent.settimeout(180)
        held, _ = silent.accept()

        with held:
            assert waiting.stop(30) == 1
        assert "stopped; the next `fuelroute migrate` goes on" in waiting.logs()
    finally:
        waiting.remove()
        silent.close()


def test_a_route_of_the_demo_is_driven_to_its_end(world: World) -> None:
    fuelroute = world.commands.document
    company = fuelroute("companies", "create", "--name", "Prairie Demo Freight")["id"]
    for kind in ("vehicles", "drivers"):
        fuelroute(kind, "import", "--company", company, f"{DEMO}/{kind}.csv")
    for kind in ("stations", "taxes"):
        fuelroute(kind, "import", f"{DEMO}/{kind}.csv")
    fuelroute("deals", "import", "--company", company, f"{DEMO}/deals.csv")
    scopes = [f"--scope={scope}" for scope in ("routes:write", "routes:read")]
    key = fuelroute("keys", "create", "--company", company, "--name", "t", "--environment", "sandbox", *scopes)["key"]
    body = {
        "externalId": "DEMO-1",
        "vehicle": {"unitNumber": "4106"},
        "driver": {"name": "Maria Villanueva"},
        "scheduledStart": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
        "stops": [MEMPHIS, AMARILLO, ALBUQUERQUE],
    }
    with httpx.Client(base_url=world.url, headers={"Authorization": f"Bearer {key}"}, timeout=120) as client:
        pushed = client.post("/v1/routes", json=body)
        assert pushed.status_code == 201, pushed.text

        driven = fuelroute("drive", pushed.json()["id"])

        route = client.get(f"/v1/routes/{pushed.json()['id']}").json()
    assert driven["status"] == "completed"
    assert route["status"] == "completed"
    assert len(route["fuelPlan"]["stops"]) >= 1


def test_sigterm_ends_every_process_and_none_is_killed(world: World) -> None:
    """SIGTERM reaches the process itself, which is number 1."""
    for name, one in world.containers.items():
        if name != "migrate":
            began = time.monotonic()
            assert one.stop(30) in (0, 143), f"{name}: {one.logs()[-2000:]}"  # uvicorn ends by the signal that it got
            assert time.monotonic() - began < 120, name
            assert "Traceback" not in one.logs(), one.logs()
