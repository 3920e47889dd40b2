"""The explanation of a route's fuel plan and its certificate, and a simulated truck to drive the route."""

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from deploy.cli.arguments import AsJson, RouteArgument, read_secret, read_text
from deploy.cli.failures import CommandFailed
from deploy.cli.output import screen, show, show_sentence
from deploy.cli.storing import transaction
from domain.ids import read_id
from domain.planning.explanation import MOST_CANDIDATES, RouteExplanation
from domain.wording import counted

if TYPE_CHECKING:
    from domain.database.connections import Connection

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
    certificate: Annotated[
        bool, typer.Option("--certificate", help="Print the plan's certificate, a file for `fuelroute check`.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Explains a fuel plan: where its inputs come from, and why each truck stop was chosen or not."""
    from deploy.explain import print_explanation
    from domain.routes.reading.explanations import read_certificate, read_route_explanation

    def read(connection: "Connection", known: UUID) -> bytes | RouteExplanation | None:
        if certificate:
            return read_certificate(connection, known)
        return read_route_explanation(connection, known, limit=limit, offset=offset)

    known = read_id("rte", route_id)
    with transaction() as connection:
        found = read(connection, known) if known is not None else None
    if found is None:
        raise CommandFailed(
            f"the route {route_id!r} has no plan to explain: its truck has not arrived, there is no such route, or it"
            " ended more than FUELROUTE_EXPLANATION_RETENTION_DAYS ago"
        )
    if isinstance(found, bytes):
        sys.stdout.buffer.write(found + b"\n")
    else:
        show(as_json, found, lambda: print_explanation(found, screen))


class PlanNotProven(CommandFailed):
    """A certificate is right, but its plan is not the cheapest, or may not be."""

    exit_status = 3


@app.command()
def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A certificate of `explain --certificate`; - is standard input.")
    ],
    stored: Annotated[
        bool,
        typer.Option("--stored", help="Also check that it is of a stored plan, with all its truck stops and prices."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Checks the certificate of a fuel plan: the plan keeps its limits, and no other plan within them costs less.

    Exit status 1 if the file proves nothing, 3 if it proves only that the plan keeps its limits."""
    from deploy.clients.python.fuelroute_client.certificates import NotProven, Refused, check_certificate

    text = read_text(file).encode()
    try:
        proven = check_certificate(text)
    except NotProven as dearer:
        raise PlanNotProven(f"the plan keeps its limits, but is not proven to be the cheapest: {dearer}") from dearer
    except Refused as refused:
        raise CommandFailed(f"the certificate proves nothing: {refused}") from refused
    if stored and not _is_stored(text):
        raise CommandFailed("the certificate is right, but it is not that of a plan which is stored here")
    digest = sha256(text).hexdigest()
    show_sentence(as_json, {"proven": proven, "sha256": digest}, f"{proven}\nSHA-256 of the file: {digest}")


def _is_stored(text: bytes) -> bool:
    """True if this is the certificate of one of its route's plans, byte for byte, or one of an earlier version with the
    same inputs and plan."""
    from domain.planning.certificate import FORMAT, same_but_for_proof
    from domain.routes.reading.explanations import read_certificates

    document = json.loads(text)
    about = document["about"]
    known = read_id("rte", str(about.get("route"))) if isinstance(about, dict) else None
    if known is None:
        return False
    with transaction() as connection:
        stored = read_certificates(connection, known)
        if document["format"] == FORMAT:
            return text.strip() in stored
        return any(same_but_for_proof(document, json.loads(one)) for one in stored)


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
    from domain.settings import get_settings

    if by_way_of is not None and not (abs(by_way_of[0]) <= 90 and abs(by_way_of[1]) <= 180):
        raise typer.BadParameter("the latitude is -90 to 90, the longitude -180 to 180", param_hint="--by-way-of")
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
