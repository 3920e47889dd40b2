"""The command line `fuelroute`: a module for the commands of each subject. What they do lives in `domain`."""

import typer

from deploy.cli import companies, fleet, keys, measuring, roads, routes, running, stations
from deploy.cli.failures import run
from domain.observability import configure_logging
from domain.settings import get_settings

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
for commands in (running.app, routes.app, measuring.app):
    app.add_typer(commands)  # without a name: its commands become our own
for name, group in (
    ("companies", companies.app),
    ("keys", keys.app),
    ("vehicles", fleet.vehicles_app),
    ("drivers", fleet.drivers_app),
    ("mappings", fleet.mappings_app),
    ("messages", routes.messages_app),
    ("stations", stations.stations_app),
    ("deals", stations.deals_app),
    ("taxes", stations.taxes_app),
    ("roads", roads.app),
):
    app.add_typer(group, name=name)


def main() -> None:
    """The entry point."""
    run(app)


@app.callback()
def prepare() -> None:
    """Logs go to standard error, whatever the command: standard output is for its result."""
    configure_logging(get_settings(), "command")
