"""The examples in the clients' READMEs, run as they are written, by a user who has installed the packages."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest

from deploy.clients.generating import TYPESCRIPT, node, npm_packages
from tests.factories import JOLIET
from tests.pipeline.world import store_prices
from tests.service import Client, Service, eventually

PYTHON = Path(__file__).parents[3] / "deploy" / "clients" / "python"


def examples(readme: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", readme.read_text(), re.M | re.S)


def run(command: list[str], client: Client, **environment: str) -> str:
    done = subprocess.run(
        command,
        env={
            "PATH": os.environ["PATH"],
            "FUELROUTE_API_URL": client.service.url,
            "FUELROUTE_API_KEY": client.key,
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def departing(client: Client, service: Service) -> Iterator[Client]:
    """The client of a company whose truck stands at the first stop once the route of the example is a draft."""
    store_prices(service)

    def arrive() -> None:
        with service.client(client.fleet) as other:
            path = "/v1/routes?externalId=LOAD-4711&status=draft"
            eventually(lambda: other.get(path).json()["total"], lambda count: count == 1, wanted="the route")
            other.post_fixes(JOLIET, fuelPercent=60, at=datetime.now(UTC))

    thread = Thread(target=arrive)
    thread.start()
    yield client
    thread.join()


def test_the_python_examples_run(departing: Client) -> None:
    push, listing, webhook = examples(PYTHON / "README.md", "python")

    out = run([sys.executable, "-c", push], departing, PYTHONPATH=str(PYTHON))
    listed = run([sys.executable, "-c", listing], departing, PYTHONPATH=str(PYTHON))
    refused = f"{webhook}\nassert receive(b'', {{}}) == 400"

    assert out.startswith("created\n")
    assert re.search(r": [\d.]+ gal at \$[\d.]+\n", out)
    assert listed.splitlines()[0] == "Acme"
    assert listed.splitlines()[1].startswith("LOAD-4711 ")
    run([sys.executable, "-c", refused], departing, PYTHONPATH=str(PYTHON), FUELROUTE_WEBHOOK_SECRET="whsec_YQ==")


def test_the_typescript_examples_run(departing: Client, tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "fuelroute-client"
    compiler = npm_packages() / "typescript" / "bin" / "tsc"
    run(node(compiler, "--project", TYPESCRIPT / "tsconfig.build.json", "--outDir", package / "dist"), departing)
    shutil.copy(TYPESCRIPT / "package.json", package)
    push, webhook = examples(TYPESCRIPT / "README.md", "ts")
    (tmp_path / "push.ts").write_text(push)
    (tmp_path / "webhook.ts").write_text(webhook)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "call.ts").write_text(
        'import { receive } from "./webhook.ts";\n'
        'const answer = await receive(new Request("http://host", { method: "POST", body: "" }));\n'
        "console.log(answer.status);\n"
    )

    out = run(node(tmp_path / "push.ts"), departing)

    assert out.startswith("created\n")
    assert re.search(r": [\d.]+ gal at \$[\d.]+\n", out)
    assert re.search(r"^LOAD-4711 [\d.]+\n\Z", out, re.M)
    assert run(node(tmp_path / "call.ts"), departing, FUELROUTE_WEBHOOK_SECRET="whsec_YQ==") == "400\n"
    run(
        node(
            *(compiler, "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"),
            "--skipLibCheck",  # test_samples.py judges the client's declarations
            *("--typeRoots", npm_packages() / "@types", tmp_path / "push.ts", tmp_path / "webhook.ts"),
        ),
        departing,
    )
