"""`fuelroute health`: asks the processes on this machine how they are, for health checks of containers."""

from typing import Annotated

import typer

from deploy.cli.arguments import AsJson
from deploy.cli.failures import CommandFailed
from deploy.cli.output import print_table, show
from deploy.process_health import reports
from domain.settings import get_settings

app = typer.Typer()


@app.command()
def health(
    ready: Annotated[
        bool, typer.Option("--ready", help="Ask whether they should get work, not only whether they live.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print nothing when all are well, for the health checks of containers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Asks the processes on this machine how they are, on the ports of FUELROUTE_METRICS_PORT.

    The exit status is 0 when at least one answers and all that answer are well, and 1 otherwise.
    """
    settings = get_settings()
    if settings.metrics_port is None:
        raise CommandFailed("set FUELROUTE_METRICS_PORT, for the processes too: health is served on that port")
    found = list(reports(settings.metrics_host, settings.metrics_ports(), "/readyz" if ready else "/healthz"))
    if not found:
        raise CommandFailed(f"no process answers on the ports {settings.metrics_port} of {settings.metrics_host}")
    rows = [
        {"port": str(report["port"]), "process": report["process"], "check": name, **check}
        for report in found
        for name, check in (report["checks"] or {"alive": {"ok": report["ok"], "detail": ""}}).items()
    ]
    well = all(report["ok"] for report in found)
    if not (quiet and well):
        show(as_json, found, lambda: print_table(rows, "port", "process", "check", "ok", "detail"))
    if not well:
        raise typer.Exit(1)
