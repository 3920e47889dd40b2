"""The fuel of a load before anybody takes it."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deploy.cli.arguments import AsJson, CompanyId, read_bytes
from deploy.cli.failures import CommandFailed
from deploy.cli.output import screen, show
from deploy.cli.storing import transaction_about
from domain import clock
from domain.contract.checking import Invalid, read_body
from domain.database.connections import Database, Tenant
from domain.lifecycle import Environment
from domain.settings import get_settings

if TYPE_CHECKING:
    from domain.previews.shapes import LoadPreview

app = typer.Typer()

LoadFile = Annotated[
    Path,
    typer.Argument(metavar="FILE.json", help="The load, as POST /planning/preview takes it; - for standard input."),
]


@app.command()
def preview(
    file: LoadFile,
    company_id: CompanyId,
    environment: Annotated[
        Environment, typer.Option("--environment", help="The environment of the trucks and routes.")
    ] = Environment.LIVE,
    as_json: AsJson = False,
) -> None:
    """Previews the fuel of a load: its plan, and what it costs by state and by mile. Nothing is stored."""
    from deploy.previews import print_preview

    with transaction_about(company_id):
        pass  # the company is known
    found = _previewed(read_bytes(file), Tenant(company_id, environment))
    show(as_json, found, lambda: print_preview(found, screen))


def _previewed(body: bytes, tenant: Tenant) -> "LoadPreview":
    from domain.planning.planner import Planner
    from domain.previews.load_preview import preview_load
    from domain.previews.preview_tasks import NoSuchRoute
    from domain.previews.shapes import MOST_PASSES, PreviewInput
    from domain.roads.default_roads import default_roads
    from domain.stations.corridor_offers import StationPlaces

    settings = get_settings()
    try:
        asked = read_body(body, PreviewInput)
        with Database.of(settings, pool_size=1) as database:
            snapshots = partial(database.pipelined_transaction, snapshot=True)
            roads = default_roads(settings.valhalla_url)
            planner = Planner(settings, snapshots, roads, StationPlaces(), MOST_PASSES)
            return preview_load(planner, tenant, asked, now=clock.now()).answer
    except Invalid as invalid:
        faults = "; ".join(f"{fault.field or 'the load'}: {fault.message}" for fault in invalid.faults)
        raise CommandFailed(f"the load cannot be previewed: {faults}") from None
    except NoSuchRoute:
        raise CommandFailed("the company has no such route in this environment") from None
