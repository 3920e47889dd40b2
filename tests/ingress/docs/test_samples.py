"""Every sample of the guides, run as it is written: those of one guide and language are one program, in their order."""

import base64
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from standardwebhooks import Webhook

from deploy.clients.generating import TYPESCRIPT, node, npm_packages
from deploy.demo import HERE as DEMO
from domain.lifecycle import Environment
from domain.routes.intake.fleet_changes import import_drivers, import_vehicles
from ingress.docs.guide import LANGUAGES
from ingress.docs.site import GUIDES, read_source
from tests.command_line import forked_fuelroute
from tests.domain.webhooks.endpoints import make_endpoint
from tests.factories import route_body
from tests.pipeline.world import store_prices
from tests.ports import own_port
from tests.service import Client, Service, eventually

PYTHON_CLIENT = Path(__file__).parents[3] / "deploy" / "clients" / "python"


def program_of(guide: str, language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```$", read_source(guide), re.M | re.S))


PROGRAMS = [(guide, language) for guide in GUIDES for language in LANGUAGES if program_of(guide, language)]


@pytest.fixture(scope="module")
def priced(service: Service) -> Service:
    """The running service with the demo's prices, which no sample changes."""
    store_prices(service)
    return service


@pytest.fixture
def newcomer(priced: Service) -> Iterator[Client]:
    """The client of a company with the demo's fleet and prices, and a route that waits for its truck."""
    with priced.new_tenant(Environment.SANDBOX) as client:
        with priced.database.transaction() as connection:
            import_vehicles(connection, client.fleet.company_id, DEMO / "vehicles.csv")
            import_drivers(connection, client.fleet.company_id, DEMO / "drivers.csv")
        assert client.push(route_body(datetime.now(UTC))).status_code == 201
        yield client


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the TypeScript client is installed."""
    folder = tmp_path_factory.mktemp("typescript")
    package = folder / "node_modules" / "fuelroute-client"
    compiler = npm_packages() / "typescript" / "bin" / "tsc"
    project = TYPESCRIPT / "tsconfig.build.json"
    subprocess.run(node(compiler, "--project", project, "--outDir", package / "dist"), check=True)
    shutil.copy(TYPESCRIPT / "package.json", package)
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with forked_fuelroute(tmp_path_factory.mktemp("fuelroute")) as one:
        yield one


@dataclass(frozen=True, slots=True)
class Program:
    """The samples of a guide in one language, as a command."""

    command: list[str]
    folder: Path
    environment: dict[str, str]


@pytest.fixture
def programs(newcomer: Client, tmp_path: Path, packages: Path, path: str) -> Callable[[str, str], Program]:
    environment = {
        "PATH": path,
        "PYTHONPATH": str(PYTHON_CLIENT),
        "FUELROUTE_API_URL": newcomer.service.url,
        "FUELROUTE_API_KEY": newcomer.key,
    }

    def program(guide: str, language: str) -> Program:
        text = program_of(guide, language)
        if language == "bash":
            return Program(["bash", "-euo", "pipefail", "-c", text], tmp_path, environment)
        if language == "python":
            return Program([sys.executable, "-c", text], tmp_path, environment)
        file = packages / f"{guide}.ts"
        file.write_text(text)
        return Program(node(file), packages, environment)

    return program


@pytest.mark.parametrize(("guide", "language"), [one for one in PROGRAMS if one[0] != "webhooks"])
def test_the_samples_run(guide: str, language: str, programs: Callable[[str, str], Program]) -> None:
    program = programs(guide, language)
    done = subprocess.run(
        program.command,
        cwd=program.folder,
        env=program.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("language", [language for guide, language in PROGRAMS if guide == "webhooks"])
def test_the_receivers_of_webhooks_take_what_is_signed(
    language: str, newcomer: Client, programs: Callable[[str, str], Program]
) -> None:
    port = own_port()
    url = f"http://127.0.0.1:{port}/fuelroute"
    with newcomer.service.database.transaction() as connection:
        made = make_endpoint(connection, newcomer.fleet.sandbox, url)
    program = programs("webhooks", language)
    environment = {**program.environment, "PORT": str(port), "FUELROUTE_WEBHOOK_SECRET": made.secret}
    with subprocess.Popen(
        program.command, cwd=program.folder, env=environment, stdout=subprocess.PIPE, text=True
    ) as receiver:
        try:
            eventually(lambda: _forged(url), lambda status: status == 400, wanted="the receiver")
            newcomer.push(route_body(datetime.now(UTC), externalId="LOAD-1"))
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == "route.imported LOAD-1 draft\n"
        finally:
            receiver.kill()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_signature_by_hand_is_that_of_the_library() -> None:
    sign = re.search(r"^printf .*?^```$", read_source("webhooks"), re.M | re.S)
    assert sign is not None
    secret = "whsec_" + base64.b64encode(bytes(range(32))).decode()
    sent_at = datetime.fromtimestamp(1795834740, UTC)
    given = {"WEBHOOK_ID": "evt_1", "WEBHOOK_TIMESTAMP": "1795834740", "BODY": "{}", "FUELROUTE_WEBHOOK_SECRET": secret}

    program = sign[0].removesuffix("```")
    done = subprocess.run(["sh", "-c", program], env=os.environ | given, capture_output=True, text=True, check=True)

    assert f"v1,{done.stdout.strip()}" == Webhook(secret).sign("evt_1", sent_at, "{}")


def _forged(url: str) -> int:
    """The status that a request gets which anybody could have sent. 0: nobody listens yet."""
    try:
        return httpx.post(url, content=b"{}", timeout=900).status_code
    except httpx.TransportError:
        return 0


@pytest.mark.slow
def test_the_samples_in_typescript_have_the_right_types(packages: Path) -> None:
    written = [packages / f"{guide}.ts" for guide, language in PROGRAMS if language == "typescript"]
    for program in written:
        program.write_text(program_of(program.stem, "typescript"))
    compiler = npm_packages() / "typescript" / "bin" / "tsc"
    options = ("--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node")
    types = ("--typeRoots", npm_packages() / "@types", "--skipDefaultLibCheck")  # judges the client's, not TypeScript's

    done = subprocess.run(node(compiler, *options, *types, *written), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
