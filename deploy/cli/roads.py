"""The embedded main roads."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.arguments import AsJson
from deploy.cli.failures import CommandFailed
from deploy.cli.output import screen, show

app = typer.Typer(no_args_is_help=True, help="The main roads that come with Fuelroute.")


@app.command("build")
def roads_build(
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Where to write it; over the file that is used unless set."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Makes the file of the main roads anew from its sources. Needs the extra `roads`, and takes minutes."""
    from domain.roads.highways import FILE

    target = file or FILE
    try:
        from domain.roads.build import build

        graph = build(target)
    except ImportError as error:
        raise CommandFailed(f"{error}: install the extra `roads` first (pip install 'fuelroute[roads]')") from None
    document = {"file": str(target), "bytes": target.stat().st_size, "nodes": len(graph.nodes), "arcs": len(graph.head)}
    show(
        as_json,
        document,
        lambda: screen.print(
            f"{target}: {document['nodes']:,} nodes, {document['arcs']:,} arcs, {document['bytes']:,} bytes"
        ),
    )
