"""The demo of `fuelroute up --demo`: taking it away."""

import typer

from deploy.cli.arguments import AsJson, Yes, confirm
from deploy.cli.failures import CommandFailed
from deploy.cli.output import show_sentence
from deploy.cli.storing import transaction
from domain import clock
from domain.settings import get_settings

app = typer.Typer(no_args_is_help=True)


@app.callback()
def demo() -> None:
    """The demo that `fuelroute up --demo` makes."""


@app.command("remove")
def demo_remove(yes: Yes = False, as_json: AsJson = False) -> None:
    """Removes the demo for good: its company with all trucks, routes, fills and users. `up --demo` does not bring it
    back.

    The demo's truck stops are retired unless another company is there, which may use them. Safe to run again.
    """
    from deploy.demo.removal import NoDemo, demo_company, remove_demo

    settings = get_settings()
    with transaction() as connection:
        try:
            company_id = demo_company(connection, settings)
        except NoDemo as error:
            raise CommandFailed(str(error)) from None
    confirm(yes, "the demo's company and everything that belongs to it will be removed for good")
    removed = remove_demo(transaction, company_id, settings, now=clock.now())
    stations = f" and retired its {removed.stations} truck stops" if removed.stations else ""
    show_sentence(
        as_json,
        {"id": removed.company, "removed": True, "stations_retired": removed.stations},
        f"removed the demo{stations}; `up --demo` leaves it out from now on",
    )
