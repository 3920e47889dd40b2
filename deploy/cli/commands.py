"""All commands, and the module of each, which is loaded when the command runs."""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from deploy.cli.output import screen

HELP = """Fuelroute matches dispatch routes to trucks and drivers, plans their fuel, and sends each driver the plan.

Results go to standard output, logs and errors to standard error. The exit status is 0 when all is done, 1 when the
command failed or `doctor` found a problem, and 2 when an argument makes no sense or an import refused some rows.
"""

_COMMANDS = {
    **dict.fromkeys(("up", "ingress", "console", "workers", "scheduler"), "running"),
    "settings": "settings",
    "preview": "previews",
    "explain": "driving",
    "check": "driving",
    "drive": "driving",
    "push": "pushing",
    "import": "file_imports",
    "restore": "backups",
    "restored": "backups",
    "doctor": "doctor",
    "health": "health",
    "replay": "replaying",
    "bench": "benchmarks",
    "migrate": "migrating",
}
"""The module of each command that stands alone, in the order of the help."""

_GROUPS = {
    "companies": "companies.app",
    "keys": "keys.app",
    "users": "users.app",
    "vehicles": "fleet.vehicles_app",
    "drivers": "fleet.drivers_app",
    "mappings": "fleet.mappings_app",
    "routes": "routes.app",
    "messages": "messages.app",
    "connectors": "connectors.app",
    "webhooks": "webhooks.app",
    "notices": "notices.app",
    "stations": "stations.stations_app",
    "deals": "stations.deals_app",
    "taxes": "stations.taxes_app",
    "prices": "prices.prices_app",
    "sources": "prices.sources_app",
    "ifta": "ifta.app",
    "savings": "savings.app",
    "fills": "fills.app",
    "compliance": "compliance.app",
    "queues": "queues.app",
    "roads": "roads.app",
    "backup": "backups.backup_app",
    "demo": "demo.app",
}
"""The module of each group of commands, and its name there."""


def _module(name: str) -> Any:
    return import_module(f"deploy.cli.{name}")


class _Commands(TyperGroup):
    """Imports the module of the command that runs, and no other: a process of the service starts in half the time."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*_COMMANDS, *_GROUPS, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in _GROUPS:
            module, _, app_name = _GROUPS[cmd_name].partition(".")
            group = get_group(getattr(_module(module), app_name))
            group.name = cmd_name
            return group
        if cmd_name in _COMMANDS:
            return get_group(_module(_COMMANDS[cmd_name]).app).commands[cmd_name]
        return super().get_command(ctx, cmd_name)


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, help=HELP)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib import metadata

        screen.print(f"fuelroute {metadata.version('fuelroute')}", highlight=False)
        raise typer.Exit


@app.callback()
def prepare(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Prints the version and exits.")
    ] = False,
) -> None:
    """Sends logs to standard error, whatever the command: standard output is for its result."""
    from domain.settings import get_settings  # which `--version` and the help need not load
    from domain.telemetry.logs import configure_logging_of_a_command

    configure_logging_of_a_command(get_settings())
