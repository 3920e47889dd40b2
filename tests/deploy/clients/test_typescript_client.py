"""The TypeScript client: its types, and its tests by Node against a running service."""

import os
import subprocess
from datetime import UTC, datetime

import pytest

from deploy.clients.generating import TYPESCRIPT, node, npm_packages
from tests.factories import JOLIET, NEWARK, route_body
from tests.pipeline.world import store_prices
from tests.service import Client, Service


def run_node(*arguments: object, **environment: str) -> None:
    done = subprocess.run(
        node(*arguments),
        cwd=TYPESCRIPT,
        env={"PATH": os.environ["PATH"], "NODE_NO_WARNINGS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_types_fit() -> None:
    packages = npm_packages()
    run_node(packages / "typescript" / "bin" / "tsc", "--noEmit", "--typeRoots", packages / "@types")


def test_the_client_works(client: Client, service: Service) -> None:
    store_prices(service)
    route = client.push(route_body(datetime.now(UTC), stops=[JOLIET, NEWARK])).json()
    assert client.post_fixes(JOLIET, fuelPercent=60).status_code == 202

    run_node(
        "--test",
        "test/client.test.ts",
        FUELROUTE_API_URL=service.url,
        FUELROUTE_API_KEY=client.key,
        ROUTE_ID=route["id"],
    )


def test_the_lock_file_names_no_registry() -> None:
    assert '"resolved"' not in (TYPESCRIPT / "package-lock.json").read_text()
