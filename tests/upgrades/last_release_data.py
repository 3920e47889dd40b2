"""Runs under the code of the last release: fills an empty database with the demo, and prints what commands tell of it.

    python -P -c ... FOLDER_OF_THE_RELEASE fill|tell

It uses nothing of this release: imports lead to the packages in the folder, or nothing runs.
"""

import contextlib
import io
import json
import sys
from typing import Any

KEYS = 4


def fill() -> dict[str, Any]:
    """The demo's fleet, stations, prices, keys and routes, but none of its drives. Further live keys share the load."""
    from rich.console import Console

    from deploy.demo import run_demo
    from domain.contract.shapes import SCOPES
    from domain.settings import get_settings

    settings = get_settings()
    run_demo(settings, Console(file=io.StringIO()), stopping=lambda: True)
    demo: dict[str, Any] = json.loads((settings.data / "demo.json").read_text())
    scopes = [part for scope in SCOPES for part in ("--scope", scope)]
    make = ["keys", "create", "--company", demo["company_id"], "--environment", "live", *scopes]
    return demo | {"load_keys": [_answer(*make, "--name", f"load {number}")["key"] for number in range(KEYS)]}


def tell(company_id: str, route_ids: list[str]) -> list[Any]:
    """The documents of commands: keys, messages, and the reasons of plans."""
    commands = [["keys", "list", "--company", company_id], ["messages", "list", "--company", company_id]]
    return [_answer(*command) for command in [*commands, *(["explain", route_id] for route_id in route_ids)]]


def _answer(*command: str) -> Any:
    """The JSON document that a command prints."""
    from deploy.cli import main

    sys.argv = ["fuelroute", *command, "--json"]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main()
    return json.loads(out.getvalue())


def run() -> None:
    import domain

    folder, what, *arguments = sys.argv[1:]
    assert str(domain.__file__).startswith(folder), domain.__file__
    json.dump(fill() if what == "fill" else tell(arguments[0], arguments[1:]), sys.stdout)


if __name__ == "__main__":
    run()
