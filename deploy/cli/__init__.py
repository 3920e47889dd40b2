"""The command line `fuelroute`: one module for each group of commands. The work is done in `domain`."""

from deploy.cli.garbage import collect_rarely


def main() -> None:
    """The entry point."""
    collect_rarely()
    from deploy.cli.commands import app  # loaded after the line above, for all of it stays
    from deploy.cli.failures import run

    run(app)
