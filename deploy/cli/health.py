"""`fuelroute health`: asks the processes on this machine how they are, for health checks of containers."""

import http.client
import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from deploy.cli.arguments import AsJson
from deploy.cli.failures import CommandFailed
from deploy.cli.output import print_table, show
from domain.settings import Settings, get_settings

app = typer.Typer()

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 (compared, not bound)
_TIMEOUT_SECONDS = 3.0
"""Time for an answer; a report comes within a second."""


@app.command()
def health(
    ready: Annotated[
        bool, typer.Option("--ready", help="Ask whether they should get work, not only whether they live.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Asks the processes on this machine how they are, on the ports of FUELROUTE_METRICS_PORT.

    The exit status is 0 when at least one answers and all that answer are well, and 1 otherwise.
    """
    settings = get_settings()
    if settings.metrics_port is None:
        raise CommandFailed("set FUELROUTE_METRICS_PORT, for the processes too: health is served on that port")
    reports = list(_reports(settings, "/readyz" if ready else "/healthz"))
    if not reports:
        raise CommandFailed(f"no process answers on the ports {settings.metrics_port} of {settings.metrics_host}")
    rows = [
        {"port": str(report["port"]), "process": report["process"], "check": name, **check}
        for report in reports
        for name, check in (report["checks"] or {"alive": {"ok": report["ok"], "detail": ""}}).items()
    ]
    show(as_json, reports, lambda: print_table(rows, "port", "process", "check", "ok", "detail"))
    if not all(report["ok"] for report in reports):
        raise typer.Exit(1)


def _reports(settings: Settings, path: str) -> Iterator[dict[str, Any]]:
    host = _ANY_ADDRESS.get(settings.metrics_host, settings.metrics_host)
    for port in settings.metrics_ports():
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            report = json.loads(answer.read())
            yield {
                "port": port,
                "process": str(report["process"]),
                "ok": answer.status == 200,
                "checks": report["checks"],
            }
        except (ConnectionRefusedError, ValueError, LookupError, TypeError, http.client.HTTPException):
            continue  # no process, or none of ours
        except OSError:  # it does not answer in time
            yield {"port": port, "process": "unknown", "ok": False, "checks": {}}
        finally:
            connection.close()
