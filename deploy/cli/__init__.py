"""The command line `fuelroute`: one module for each group of commands. The work is done in `domain`."""

from importlib import metadata
from typing import Annotated

import typer

from deploy.cli import (
    backups,
    companies,
    doctor,
    fleet,
    ifta,
    keys,
    measuring,
    messages,
    migrating,
    queues,
    roads,
    routes,
    running,
    savings,
    stations,
    users,
)
from deploy.cli.failures import run
from deploy.cli.output import screen
from domain.observability import configure_logging
from domain.settings import get_settings

HELP = """Fuelroute matches dispatch routes to trucks and drivers, plans their fuel, and sends each driver the plan.

Results go to standard output, logs and errors to standard error. The exit status is 0 when all is done, 1 when the
command failed or `doctor` found a problem, and 2 when an argument makes no sense or an import refused some rows.
"""

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=HELP)
for commands in (running.app, routes.app, backups.app, doctor.app, measuring.app, migrating.app):
    app.add_typer(commands)  # without a name: its commands become our own
for name, group in (
    ("companies", companies.app),
    ("keys", keys.app),
    ("users", users.app),
    ("vehicles", fleet.vehicles_app),
    ("drivers", fleet.drivers_app),
    ("mappings", fleet.mappings_app),
    ("messages", messages.app),
    ("stations", stations.stations_app),
    ("deals", stations.deals_app),
    ("taxes", stations.taxes_app),
    ("ifta", ifta.app),
    ("savings", savings.app),
    ("queues", queues.app),
    ("roads", roads.app),
    ("backup", backups.backup_app),
):
    app.add_typer(group, name=name)


def main() -> None:
    """The entry point."""
    run(app)


def _show_version(asked: bool) -> None:
    if asked:
        screen.print(f"fuelroute {metadata.version('fuelroute')}", highlight=False)
        raise typer.Exit


@app.callback()
def prepare(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Prints the version and exits.")
    ] = False,
) -> None:
    """Sends logs to standard error, whatever the command: standard output is for its result."""
    configure_logging(get_settings(), "command")
