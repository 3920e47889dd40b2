"""Options that several commands take, and what commands read from the person at the terminal."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.failures import CommandFailed

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, for scripts.")]
CompanyId = Annotated[str, typer.Option("--company", help="The company's id.", metavar="ID")]
CsvFile = Annotated[Path, typer.Argument(metavar="FILE.csv", help="UTF-8, the first line names the columns.")]
Force = Annotated[bool, typer.Option("--force", help="Even with planned or active routes, which end.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def confirm(yes: bool, what: str) -> None:
    if not yes and not (sys.stdin.isatty() and typer.confirm(f"{what}. Go on?", err=True)):
        raise CommandFailed(f"{what}: give --yes if that is meant")


def read_secret(file: Path) -> str:
    """A secret, from a file or for `-` from standard input."""
    try:
        with sys.stdin if str(file) == "-" else file.open() as lines:
            line = lines.readline().strip()
    except OSError as error:
        raise CommandFailed(f"cannot read {file}: {error.strerror}") from None
    if not line:
        raise CommandFailed(f"the first line of {file} is empty: the secret belongs there")
    return line
