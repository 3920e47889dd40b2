"""The commands of `fuelroute`, and the outcome of one, for tests."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from typer import Context
from typer.core import TyperGroup
from typer.main import get_command

from deploy.cli.commands import app

NO_COMPANY = "cmp_" + "0" * 32


@dataclass(frozen=True)
class Result:
    """The outcome of a command."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        assert self.status in (0, 2), self.err
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The one line that a failed command says."""
        assert self.status == 1, f"status {self.status}: {self.out}{self.err}"
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("fuelroute: ")
        return line


Cli = Callable[..., Result]


def commands(command: Any = None, name: str = "fuelroute") -> Iterator[tuple[str, Any]]:
    """The command, or else `fuelroute`, and all that are under it, with their names."""
    command = command or get_command(app)
    context = Context(command)
    yield name, command
    for one in command.list_commands(context) if isinstance(command, TyperGroup) else ():
        yield from commands(command.get_command(context, one), f"{name} {one}")


def libraries_of(*arguments: str) -> set[str]:
    """The names of all packages and of our own modules that a command loads until it ends."""
    program = "import sys; from deploy.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    loaded = done.stderr.split()
    return {name.partition(".")[0] for name in loaded} | {name for name in loaded if name.startswith("deploy.cli.")}
