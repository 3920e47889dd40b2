"""All commands, and the module of each, which is loaded when the command runs."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_group

from deploy.cli.version import print_version

HELP = """Fuelroute matches dispatch routes to trucks and drivers, plans their fuel, and sends each driver the plan.

Results go to standard output, logs and errors to standard error. The exit status is 0 when all is done, 1 when the
command failed or `doctor` found a problem, and 2 when an argument makes no sense or an import refused some rows.
"""


class Entry(NamedTuple):
    """A command or a group of commands, and where it stands."""

    module: str
    help: str
    """The first paragraph of its help. It stands here so that the list of all commands imports none of them."""
    app: str = "app"


COMMANDS = {
    "up": Entry("running", "Runs the whole service on this machine until Ctrl-C."),
    "ingress": Entry("running", "Runs one process that answers HTTP: the API, the telematics feed and health checks."),
    "console": Entry("running", "Runs one process that serves the console: the pages for people in a browser."),
    "workers": Entry("running", "Runs workers, which import routes, notice arrivals, make plans and send messages."),
    "scheduler": Entry(
        "running",
        "Runs the scheduler, which imports held routes every five minutes, finds lost work and deletes old data.",
    ),
    "settings": Entry(
        "settings", "Lists every setting: its environment variable, its value and its meaning. Passwords are hidden."
    ),
    "preview": Entry(
        "previews", "Previews the fuel of a load: its plan, and what it costs by state and by mile. Nothing is stored."
    ),
    "explain": Entry(
        "driving", "Explains a fuel plan: where its inputs come from, and why each truck stop was chosen or not."
    ),
    "check": Entry(
        "driving",
        "Checks the certificate of a fuel plan: the plan keeps its limits, and no other plan within them costs less.",
    ),
    "drive": Entry(
        "driving",
        "Drives a route with a simulated truck, whose positions go through the telematics feed like real ones.",
    ),
    "push": Entry(
        "pushing", "Pushes the routes of a file, many at a time, below the rate limit of each key (600 a minute)."
    ),
    "import": Entry(
        "file_imports",
        "Imports any file: vehicles, drivers, stations, deals, taxes, prices, purchases of a fuel card, routes.",
    ),
    "restore": Entry("backups", "Restores a backup into a new data folder, for `fuelroute up --data NEW`."),
    "restored": Entry("backups", "Prepares a database that other tools restored, before the service starts on it."),
    "doctor": Entry(
        "doctor", "Checks servers, settings and data, and says for each finding what to do. It changes nothing."
    ),
    "health": Entry(
        "health", "Asks the processes on this machine how they are, on the ports of FUELROUTE_METRICS_PORT."
    ),
    "replay": Entry(
        "replaying",
        "Solves every driven trip of a quarter again under another policy, network or deal, and shows the difference.",
    ),
    "bench": Entry(
        "benchmarks",
        "Measures the speed of the service on this machine and compares it with its goals. Needs a checkout.",
    ),
    "migrate": Entry(
        "migrating",
        "Creates or updates the tables of the database, while the service runs. It may run twice, even at the"
        " same time.",
    ),
}
"""Each command that stands alone, in the order of the help."""

GROUPS = {
    "companies": Entry("companies", "Companies that dispatch with Fuelroute, and their import and planning policy."),
    "keys": Entry("keys", "API keys, with which a TMS or a telematics provider signs in."),
    "users": Entry("users", "Users: people who sign in to the console."),
    "vehicles": Entry("fleet", "Vehicles of a company's fleet.", app="vehicles_app"),
    "drivers": Entry("fleet", "Drivers of a company's fleet.", app="drivers_app"),
    "mappings": Entry("fleet", "Mappings: the vehicle or driver that a name in the TMS means.", app="mappings_app"),
    "routes": Entry("routes", "Routes, as the API shows them."),
    "messages": Entry("messages", "Messages to drivers."),
    "connectors": Entry("connectors", "Connectors: positions from vendors of telematics."),
    "webhooks": Entry("webhooks", "Webhooks: tell a company's systems of changes of its routes."),
    "notices": Entry("notices", "Notices: tell people of a company, and operators, what needs them."),
    "stations": Entry("stations", "Stations: truck stops and their retail prices.", app="stations_app"),
    "deals": Entry("stations", "Deals: prices that a company has negotiated.", app="deals_app"),
    "taxes": Entry("stations", "Taxes of the states on diesel.", app="taxes_app"),
    "prices": Entry("prices", "Price files of truck-stop chains and fuel cards.", app="prices_app"),
    "sources": Entry("prices", "Sources of price files: folders and SFTP servers.", app="sources_app"),
    "ifta": Entry("ifta", "IFTA, the International Fuel Tax Agreement: miles, gallons and tax by state."),
    "savings": Entry("savings", "Savings of plans against the average price of their corridors."),
    "fills": Entry("fills", "Fills: purchases of fuel cards, and what became of the planned fuel stops."),
    "compliance": Entry("compliance", "Compliance: the fuel stops that drivers followed, missed and refused."),
    "queues": Entry("queues", "Queues: what is wrong now, dead letters, pauses."),
    "roads": Entry("roads", "Truck roads from an extract of OpenStreetMap; the embedded roads."),
    "backup": Entry("backups", "Backups of the embedded database.", app="backup_app"),
    "demo": Entry("demo", "The demo that `fuelroute up --demo` makes."),
}
"""Each group of commands. A group has its help from here."""


def _set_flags(group: TyperGroup, ctx: Any) -> None:
    """Makes False of each flag that is None until it is given, as `--help` is. To read None, typer loads pydantic,
    a quarter of the start of a command that only shows its help."""
    for option in group.get_params(ctx):
        if isinstance(option, TyperOption) and option.is_flag and option.default is None:
            option.default = False


class _Commands(TyperGroup):
    """Imports the module of the command that runs, and no other: a process of the service starts in half the time. The
    list of commands, in the help and for a shell that completes, imports none."""

    _lists = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _set_flags(self, ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS, *GROUPS, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name) or GROUPS.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        if self._lists:
            return TyperCommand(cmd_name, help=entry.help)
        group = get_group(getattr(import_module(f"deploy.cli.{entry.module}"), entry.app))
        if cmd_name in COMMANDS:
            return group.commands[cmd_name]
        _set_flags(group, ctx)
        group.name, group.help = cmd_name, entry.help
        return group

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._listing():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._listing():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _listing(self) -> Iterator[None]:
        self._lists = True
        try:
            yield
        finally:
            self._lists = False


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False, help=HELP)


def _show_version(asked: bool) -> None:
    if asked:
        print_version()
        raise typer.Exit


@app.callback()
def prepare(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Prints the version and exits.")
    ] = False,
) -> None:
    """Lets the command handle Ctrl-C. Sends logs to standard error, whatever the command: standard output is for its
    result."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "--help" in sys.argv:  # which needs no settings either
        return
    from domain.settings import get_settings  # which `--version` and the help need not load
    from domain.telemetry.logs import configure_logging_of_a_command

    configure_logging_of_a_command(get_settings())
