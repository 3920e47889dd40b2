"""HAProxy's map from the beginnings of keys to cells, in its file and in running processes.

A key names its cell, and the map has a line for each cell. A key of a company that was moved needs a line of its own:
its prefix, which is no secret, and its present cell."""

import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from domain.accounts.keys import FIRST_CELL
from domain.errors import FuelrouteError

_CELL_OF_PREFIX = re.compile(r"svc_(?:live|test)_(?:c([1-9][0-9]{0,3})_)?", re.ASCII)
_SECONDS = 5.0
_HARMLESS = re.compile(r"[A-Za-z0-9_]+", re.ASCII)


class MapUnusable(FuelrouteError):
    """The map cannot be changed; the text says why."""


class KeyLine(NamedTuple):
    """A line of the map."""

    prefix: str
    cell: int

    @property
    def is_needed(self) -> bool:
        """False if the key itself names this cell."""
        named = _CELL_OF_PREFIX.match(self.prefix)
        return named is None or int(named[1] or FIRST_CELL) != self.cell

    def __str__(self) -> str:
        return f"{self.prefix} c{self.cell}"


def lines_of(prefixes: Iterable[str], cell: int) -> list[KeyLine]:
    """The lines for the keys of a company that is in this cell now."""
    return [KeyLine(prefix, cell) for prefix in sorted(set(prefixes)) if _HARMLESS.fullmatch(prefix)]


def write_map(file: Path, lines: Sequence[KeyLine]) -> None:
    """Puts the lines into the file, which is replaced as a whole. Raises MapUnusable if it cannot be read or
    written."""
    known = {line.prefix for line in lines}
    try:
        kept = [line for line in file.read_text().splitlines() if line.partition(" ")[0] not in known]
        fresh = file.with_name(f"{file.name}.new")
        fresh.write_text("\n".join([*kept, *(str(line) for line in lines if line.is_needed)]) + "\n")
        fresh.chmod(file.stat().st_mode & 0o777)
        fresh.replace(file)
    except (OSError, UnicodeError) as error:
        raise MapUnusable(f"cannot write the map {file}: {getattr(error, 'strerror', None) or error}") from None


def tell_haproxy(control: Path, map_name: str, lines: Sequence[KeyLine]) -> None:
    """Changes the map of a running HAProxy by its control socket. `map_name` is the file's name in its configuration.
    Raises MapUnusable if HAProxy does not take it."""
    for line in lines:
        _ask(control, f"del map {map_name} {line.prefix}", fails=True)
        if line.is_needed:
            _ask(control, f"add map {map_name} {line}")
            answer = _ask(control, f"get map {map_name} {line.prefix}")
            if f'value="c{line.cell}"' not in answer:
                raise MapUnusable(f"HAProxy at {control} did not take the line of {line.prefix}: {answer}")


def _ask(control: Path, command: str, *, fails: bool = False) -> str:
    try:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(_SECONDS)
            asking.connect(str(control))
            asking.sendall(command.encode() + b"\n")
            answer = b"".join(iter(lambda: asking.recv(65536), b"")).decode(errors="replace").strip()
    except OSError as error:
        raise MapUnusable(f"HAProxy does not answer at {control}: {error.strerror or error}") from None
    if answer and not fails and command.startswith("add "):
        raise MapUnusable(f"HAProxy at {control} refused `{command}`: {answer}")
    return answer
