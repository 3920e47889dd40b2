"""Options that several commands take, and questions to the person at the terminal."""

import functools
import getpass
import inspect
import os
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import msgspec
import typer

from deploy.cli.failures import CommandFailed
from domain.contract.shapes import moment_of
from domain.fleet.matching import Matched
from domain.ids import IdKind, read_id

if TYPE_CHECKING:
    from domain.audit.entries import Actor


def known_id(kind: IdKind, text: str, unknown: Callable[[str], Exception]) -> UUID:
    """The id in the text. Raises what `unknown` makes of a text that is no id of this kind."""
    found = read_id(kind, text)
    if found is None:
        raise unknown(text)
    return found


def read_company_id(text: str) -> UUID:
    """The id in the text. Raises UnknownCompany for text that is no company's id."""
    from domain.accounts.companies import UnknownCompany  # loads psycopg, which the help of a command does not need

    return known_id("cmp", text, UnknownCompany)


def read_record_id(kind: Matched, text: str) -> UUID:
    """The id in the text. Raises UnknownTarget for text that is no vehicle's or driver's id."""
    from domain.fleet.records import ID_KIND, UnknownTarget  # loads what imports files

    return known_id(ID_KIND[kind], text, partial(UnknownTarget, kind))


def rows_file(text: str) -> Path:
    """The path of a file of rows, which is read more than once. Raises CommandFailed for a folder, a pipe or a
    device, of which some never end."""
    if os.path.exists(text) and not os.path.isfile(text):
        raise CommandFailed(f"{text} is a folder, a pipe or a device: give a file")
    return Path(text)


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for scripts.")]
CompanyId = Annotated[
    UUID,
    typer.Option(
        "--company",
        parser=read_company_id,
        help="The company's id, as `companies list` shows it.",
        metavar="ID",
    ),
]
CompanyArgument = Annotated[
    UUID,
    typer.Argument(parser=read_company_id, metavar="ID", help="The company's id."),
]
VehicleArgument = Annotated[
    UUID,
    typer.Argument(
        parser=partial(read_record_id, "vehicle"),
        metavar="VEHICLE_ID",
        help="The vehicle's id, as the API shows it.",
    ),
]
DriverArgument = Annotated[
    UUID,
    typer.Argument(
        parser=partial(read_record_id, "driver"),
        metavar="DRIVER_ID",
        help="The driver's id, as the API shows it.",
    ),
]
RouteArgument = Annotated[str, typer.Argument(metavar="ROUTE_ID", help="The route's id, as the API shows it.")]
CsvFile = Annotated[
    Path,
    typer.Argument(parser=rows_file, metavar="FILE.csv", help="A CSV file in UTF-8. Its first line names the columns."),
]
Currency = Annotated[
    str,
    typer.Option(
        metavar="USD|CAD|MXN",
        help="The currency, where the file does not say it. Prices are in that of the station's country otherwise.",
    ),
]
Unit = Annotated[
    str,
    typer.Option(
        metavar="gallon|litre",
        help="The unit of prices, where the file does not say it; otherwise that of the country.",
    ),
]
Believe = Annotated[
    bool,
    typer.Option(
        "--believe",
        help="Store unusual prices and places, too: somebody has looked at them, and they are right.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Go on even with planned or active routes. Active ones end.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, metavar="N", help="The most to list.")]
Why = Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason, for the audit log.")]
Maps = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help='The column of a field of routes, such as scheduledStart="Pickup Time".',
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask whether you are sure.")]


def with_options(
    name: str, options: Mapping[str, Any], make: Callable[..., object]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives several commands the same options, each None unless given. A command gets one argument, `name`, which
    `make` builds from the options. `options` maps each field that `make` takes to the annotated type of its option."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            command(**{name: make(**{option: given.pop(option) for option in options})}, **given)

        signature = inspect.signature(command)
        own = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        shared = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for option, kind in options.items()
        ]
        functools.update_wrapper(run, command)
        run.__annotations__ = {}  # typer reads the signature; the type of `name` may not be loaded yet
        run.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own), *shared]
        )
        return run

    return decorate


def columns_of(shape: type[msgspec.Struct]) -> str:
    """The columns of an import's file, for the help of the command."""
    fields = msgspec.structs.fields(shape)
    required = [field.encode_name for field in fields if field.required]
    optional = [field.encode_name for field in fields if not field.required]
    return " ".join(
        f"{kind} columns: {', '.join(names)}."
        for kind, names in (("Required", required), ("Optional", optional))
        if names
    )


def read_maps(maps: Iterable[str]) -> dict[str, str]:
    """The columns by their fields. Raises CommandFailed for a text that is no FIELD=COLUMN."""
    mapping: dict[str, str] = {}
    for one in maps:
        name, sign, column = one.partition("=")
        if not sign or not column.strip():
            raise CommandFailed(f'--map {one!r}: write it as FIELD=COLUMN, such as externalId="Load No"')
        mapping[name.strip()] = column.strip()
    return mapping


def read_moment(option: str, text: str) -> datetime:
    """The time that an option gives. Raises CommandFailed for any other text."""
    try:
        return moment_of(text)
    except ValueError as error:
        raise CommandFailed(f"{option}: {error}") from None


def confirm(yes: bool, what: str) -> None:
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"{what}. Go on?", err=True)):
        raise CommandFailed(f"{what}: give --yes to confirm")


_MOST_BYTES = 64 << 20
"""Most bytes of a file that is read as a whole. A device such as /dev/zero never ends."""


def read_bytes(file: Path) -> bytes:
    """The contents of a file, or of standard input for `-`. Raises CommandFailed, which quotes nothing of them."""
    try:
        with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as opened:
            found = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise CommandFailed(f"cannot read {file}: {error.strerror}") from None
    if len(found) > _MOST_BYTES:
        raise CommandFailed(f"cannot read {file}: it has more than {_MOST_BYTES >> 20} MiB")
    return found


def read_text(file: Path) -> str:
    """The text of a file, or of standard input for `-`. Raises CommandFailed, which quotes nothing of it."""
    try:
        return read_bytes(file).decode()
    except UnicodeError:
        raise CommandFailed(f"cannot read {file}: it is not text") from None


def read_secret(file: Path) -> str:
    """Reads a secret from the first line of a file, or of standard input for `-`."""
    if str(file) == "-" and sys.stdin.isatty():
        line = sys.stdin.readline().strip()  # to its end a person would have to press Ctrl-D, too
    else:
        line = read_text(file).partition("\n")[0].strip()
    if not line:
        raise CommandFailed(f"the first line of {file} is empty: the secret belongs there")
    return line


def acting(reason: str = "") -> "Actor":
    """The person who gives this command, for the audit log."""
    from domain.audit.entries import Actor

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container the number may have no name
        user = f"user {os.getuid()}"
    return Actor(f"{user}@{socket.gethostname()}", reason)
