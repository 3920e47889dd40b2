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
    from domain.accounts.keys import create_key
    from domain.contract.shapes import SCOPES
    from domain.database.connections import Database
    from domain.ids import read_id
    from domain.lifecycle import Environment
    from domain.settings import get_settings

    settings = get_settings()
    run_demo(settings, Console(file=io.StringIO()), stopping=lambda: True)
    demo: dict[str, Any] = json.loads((settings.data / "demo.json").read_text())
    company_id = read_id("cmp", demo["company_id"])
    assert company_id is not None
    with Database.of(settings) as database, database.transaction() as connection:
        made = [
            create_key(connection, company_id, name=f"load {number}", environment=Environment.LIVE, scopes=list(SCOPES))
            for number in range(KEYS)
        ]
    return demo | {"load_keys": [one.key for one in made]}


def tell(company_id: str, route_ids: list[str]) -> list[Any]:
    """The documents of commands: keys, messages, and the reasons of plans."""
    from deploy.cli import main

    commands = [["keys", "list", "--company", company_id], ["messages", "list", "--company", company_id]]
    documents = []
    for command in [*commands, *(["explain", route_id] for route_id in route_ids)]:
        sys.argv = ["fuelroute", *command, "--json"]
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
            main()
        documents.append(json.loads(out.getvalue()))
    return documents


def run() -> None:
    import domain

    folder, what, *arguments = sys.argv[1:]
    assert str(domain.__file__).startswith(folder), domain.__file__
    json.dump(fill() if what == "fill" else tell(arguments[0], arguments[1:]), sys.stdout)


if __name__ == "__main__":
    run()
