"""Every sample of the guides, run as it is written: those of one guide and language are one program, in their order."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from deploy.clients.generating import TYPESCRIPT, node, npm_packages
from deploy.demo import HERE as DEMO
from domain.lifecycle import Environment
from domain.routes.intake.fleet_changes import import_drivers, import_vehicles
from ingress.docs.guide import LANGUAGES
from ingress.docs.site import GUIDES, read_source
from tests.factories import route_body
from tests.pipeline.world import store_prices
from tests.service import Client, Service

PYTHON_CLIENT = Path(__file__).parents[3] / "deploy" / "clients" / "python"


def program_of(guide: str, language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```$", read_source(guide), re.M | re.S))


PROGRAMS = [(guide, language) for guide in GUIDES for language in LANGUAGES if program_of(guide, language)]


@pytest.fixture
def newcomer(service: Service) -> Iterator[Client]:
    """The client of a company with the demo's fleet and prices, and a route that waits for its truck."""
    store_prices(service)
    with service.new_tenant(Environment.SANDBOX) as client:
        with service.database.transaction() as connection:
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


@pytest.mark.parametrize(("guide", "language"), PROGRAMS)
def test_the_samples_run(
    guide: str, language: str, newcomer: Client, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    program = program_of(guide, language)
    if language == "bash":
        command = ["bash", "-euo", "pipefail", "-c", program]
    elif language == "python":
        command = [sys.executable, "-c", program]
    else:
        tmp_path = request.getfixturevalue("packages")
        (tmp_path / f"{guide}.ts").write_text(program)
        command = node(tmp_path / f"{guide}.ts")

    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "PYTHONPATH": str(PYTHON_CLIENT),
            "FUELROUTE_API_URL": newcomer.service.url,
            "FUELROUTE_API_KEY": newcomer.key,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_samples_in_typescript_have_the_right_types(packages: Path) -> None:
    programs = [packages / f"{guide}.ts" for guide, language in PROGRAMS if language == "typescript"]
    for program in programs:
        program.write_text(program_of(program.stem, "typescript"))
    compiler = npm_packages() / "typescript" / "bin" / "tsc"
    options = ("--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node")
    types = ("--typeRoots", npm_packages() / "@types")

    done = subprocess.run(node(compiler, *options, *types, *programs), capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout
