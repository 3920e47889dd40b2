"""No message: the code that drives the sandbox loads no gateway and no client of a network."""

import subprocess
import sys

import pytest

import domain.sandbox
from tests.domain.test_import_order import imports, modules

CLIENTS = {"aiohttp", "apprise", "dramatiq", "httpx", "requests", "smtplib", "urllib3"}
FORBIDDEN = {*CLIENTS, "domain.messages", "domain.roads.valhalla", "domain.queue.job_queue"}
"""`redis` is loaded all the same: the settings check its addresses. `http.client` comes with the metrics' server."""

OWN = [name for name in modules("domain") if name.startswith(domain.sandbox.__name__)]


def loaded_with(*names: str) -> set[str]:
    """The modules of a fresh process that has imported these."""
    code = f"import sys, {', '.join(names)}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def forbidden(loaded: set[str]) -> set[str]:
    return {name for name in loaded if any(name == one or name.startswith(f"{one}.") for one in FORBIDDEN)}


@pytest.mark.slow
def test_the_sandbox_loads_no_gateway_and_no_client() -> None:
    assert len(OWN) >= 4
    assert forbidden(loaded_with(*OWN)) == set()


@pytest.mark.slow
def test_the_check_finds_a_gateway_where_there_is_one() -> None:
    assert {"apprise", "domain.messages"} <= forbidden(loaded_with("domain.messages.gateways"))


def test_the_sandbox_imports_none_inside_its_functions_either() -> None:
    imported = {target for _, target in imports("domain/sandbox")}
    assert len(imported) > 20
    assert forbidden(imported) == set()
    assert not {name for name in imported if name.endswith("default_roads")}
