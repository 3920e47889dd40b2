"""The explanation of a route's fuel plan, and a simulated truck to drive the route."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.arguments import AsJson, RouteArgument, read_secret
from deploy.cli.failures import CommandFailed
from deploy.cli.output import screen, show, show_sentence
from deploy.cli.storing import transaction
from domain.ids import read_id
from domain.planning.explanation import MOST_CANDIDATES
from domain.settings import get_settings
from domain.wording import counted

app = typer.Typer()


@app.command()
def explain(
    route_id: RouteArgument,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="The most truck stops to list.")
    ] = MOST_CANDIDATES,
    offset: Annotated[
        int,
        typer.Option(
            "--offset",
            min=0,
            metavar="N",
            help="The truck stops to leave out at the beginning; above 0 the road's line is left out too.",
        ),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Explains a fuel plan: where its inputs come from, and why each truck stop was chosen or not."""
    from deploy.explain import print_explanation
    from domain.routes.reading.explanations import read_route_explanation

    known = read_id("rte", route_id)
    with transaction() as connection:
        explanation = (
            read_route_explanation(connection, known, limit=limit, offset=offset) if known is not None else None
        )
    if explanation is None:
        raise CommandFailed(
            f"the route {route_id!r} has no plan to explain: its truck has not arrived, there is no such route, or it"
            " ended more than FUELROUTE_EXPLANATION_RETENTION_DAYS ago"
        )
    show(as_json, explanation, lambda: print_explanation(explanation, screen))


Speed = Annotated[
    float, typer.Option("--speed", min=5, max=100, metavar="MPH", help="Average speed between the stops.")
]
FuelPercent = Annotated[
    float, typer.Option("--fuel-percent", min=0, max=100, metavar="P", help="The fuel level at the first stop.")
]
Jump = Annotated[
    bool, typer.Option("--jump", help="On a live route: appear at each stop instead of driving in real time.")
]
ByWayOf = Annotated[
    tuple[float, float] | None,
    typer.Option(
        "--by-way-of",
        metavar="LATITUDE LONGITUDE",
        help="Drive by this place before the second stop: the truck leaves the road of its plan.",
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        envvar="FUELROUTE_DRIVE_KEY",
        help="A key with the scope positions:write; one is made for the drive unless set. Others on the machine "
        "can see arguments in the process list: better set the variable, or use --key-file.",
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", metavar="FILE", help="File with the key on its first line; - is standard input."),
]


@app.command()
def drive(
    route_id: RouteArgument,
    speed: Speed = 60,
    fuel_percent: FuelPercent = 25,
    jump: Jump = False,
    by_way_of: ByWayOf = None,
    key: Key = None,
    key_file: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Drives a route with a simulated truck, whose positions go through the telematics feed like real ones."""
    from deploy.drive import drive_route
    from domain.roads import Point

    if key_file is not None:
        key = read_secret(key_file)
    result = drive_route(
        get_settings(),
        route_id,
        speed_mph=speed,
        fuel_percent=fuel_percent,
        jump=jump,
        by_way_of=Point(*by_way_of) if by_way_of is not None else None,
        key=key,
        screen=None if as_json else screen,
    )
    show_sentence(
        as_json,
        result,
        f"{counted(result['fixes'], 'position')} posted; the route is {result['status']}",
    )
