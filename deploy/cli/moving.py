"""`fuelroute companies move`: a company goes to another cell."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deploy.cells.key_map import KeyLine, lines_of, tell_haproxy, write_map
from deploy.cli.arguments import AsJson, CompanyArgument, Yes, acting, confirm
from deploy.cli.failures import CommandFailed
from deploy.cli.output import counting, screen, show, show_sentence
from domain.accounts.keys import list_keys
from domain.ids import shown_id
from domain.settings import Settings, get_settings
from domain.wording import counted

if TYPE_CHECKING:
    from domain.moving.cells import CellAddress
    from domain.moving.move import CompanyMove, Moved


class _Bars:
    """A progress bar for each part of a move."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def counting(self, what: str, total: int | None) -> AbstractContextManager[Callable[[int], object]]:
        return counting(what, total, quiet=self._quiet)


def companies_move(
    company_id: CompanyArgument,
    to: Annotated[int, typer.Option("--to", metavar="CELL", min=1, max=9999, help="The number of the other cell.")],
    cells_file: Annotated[
        Path | None,
        typer.Option("--cells", metavar="FILE", help="The file with the cells' databases; else FUELROUTE_CELLS_FILE."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check whether the company can be moved.")] = False,
    longest_pause: Annotated[
        float, typer.Option("--longest-pause", metavar="SECONDS", min=5, max=600, help="Give a longer pause up.")
    ] = 30,
    map_file: Annotated[
        Path | None, typer.Option("--map", metavar="FILE", help="HAProxy's map, to which lines for the keys are added.")
    ] = None,
    haproxy: Annotated[
        list[Path] | None,
        typer.Option(
            "--haproxy",
            metavar="SOCKET",
            help="The control socket of a running HAProxy, whose map is changed at once; once for each. Needs --map.",
        ),
    ] = None,
    erase: Annotated[
        bool, typer.Option("--erase", help="Erase the copy here, once the keys are routed to the other cell.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Take back a move that has begun, unless the company has left.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Moves a company from this cell (FUELROUTE_CELL) to another one while its trucks drive. Requests wait for seconds.

    Give the command again if it was stopped or failed: it goes on where it was."""
    from domain.moving.move import moving_company  # it loads the whole schema: other commands start without it

    if haproxy and map_file is None:
        raise CommandFailed("--haproxy needs --map: the file by which HAProxy knows its map")
    if sum((dry_run, erase, cancel)) > 1:
        raise CommandFailed("give one of --dry-run, --erase and --cancel")
    shown = shown_id("cmp", company_id)
    source, target = _cells(get_settings(), cells_file, to)
    with moving_company(company_id, source, target, acting(), _Bars(quiet=as_json)) as move:
        if dry_run:
            _check(move, shown, as_json)
        elif cancel:
            confirm(yes, f"what {shown} has in cell {to} is erased, and it stays in cell {source.number}")
            move.cancel(lambda _: None)
            show_sentence(as_json, {"id": shown, "cell": source.number, "canceled": True}, "canceled")
        else:
            _move(move, shown, longest_pause, map_file, haproxy or [], erase, yes, as_json)


def _cells(settings: Settings, file: Path | None, to: int) -> "tuple[CellAddress, CellAddress]":
    from domain.moving.cells import UnusableCells, read_cells

    file = file or settings.cells_file
    if file is None:
        raise CommandFailed("where are the cells? give --cells FILE, or set FUELROUTE_CELLS_FILE")
    cells = read_cells(file)
    missing = [number for number in (settings.cell, to) if number not in cells]
    if missing:
        raise UnusableCells(f"{file} has no cell {missing[0]}: add [{missing[0]}] with its database_url")
    if to == settings.cell:
        raise CommandFailed(f"this is cell {to}: set FUELROUTE_CELL to the cell that the company leaves")
    return cells[settings.cell], cells[to]


def _check(move: "CompanyMove", shown: str, as_json: bool) -> None:
    from domain.moving.readiness import NotReady

    faults: list[str] = []
    try:
        if move.stage() != "left":
            move.check()
    except NotReady as error:
        faults = error.faults
    document = {"id": shown, "to": move.target_cell.number, "stage": move.stage(), "faults": faults}
    text = "\n".join(faults) or f"{shown} can be moved to cell {move.target_cell.number}"
    show(as_json, document, lambda: screen.print(text, highlight=False, soft_wrap=True))
    if faults:
        raise typer.Exit(1)


def _move(
    move: "CompanyMove",
    shown: str,
    longest_pause: float,
    map_file: Path | None,
    haproxy: list[Path],
    erase: bool,
    yes: bool,
    as_json: bool,
) -> None:
    if erase and not haproxy and move.stage() != "left":
        raise CommandFailed("move first without --erase: its keys must be routed to the other cell before that")
    if erase:
        confirm(yes, f"the copy of {shown} in cell {move.source_cell.number} is erased for good, when it has left")
    moved = move.run(longest_pause_seconds=longest_pause, route=lambda: _route(_lines(move), map_file, haproxy))
    lines = _lines(move)
    if erase:
        with counting("erasing", None, quiet=as_json) as progress:
            move.erase_source(progress)
    document = {
        "id": shown,
        "cell": move.target_cell.number,
        "pause_seconds": None if moved.pause_seconds is None else round(moved.pause_seconds, 3),
        "rows": moved.rows,
        "map": [str(line) for line in lines if line.is_needed],
        "routed": bool(haproxy),
        "erased": erase,
    }
    show(as_json, document, lambda: _tell(document, moved, lines, map_file))


def _lines(move: "CompanyMove") -> list[KeyLine]:
    keys = [key for key in list_keys(move.target, move.company_id) if key.revoked_at is None]
    return lines_of((key.prefix for key in keys), move.target_cell.number)


def _route(lines: list[KeyLine], map_file: Path | None, haproxy: list[Path]) -> None:
    """Runs first, since requests of the company wait for it: routes the keys to the other cell."""
    for control in haproxy:
        tell_haproxy(control, str(map_file), lines)
    if map_file is not None:
        write_map(map_file, lines)


def _tell(document: dict[str, Any], moved: "Moved", lines: list[KeyLine], map_file: Path | None) -> None:
    pause = f", after a pause of {moved.pause_seconds:.1f} s" if moved.pause_seconds is not None else ""
    screen.print(f"{document['id']} is in cell {document['cell']}{pause}", highlight=False)
    if moved.rows is not None:
        screen.print(f"{counted(sum(moved.rows.values()), 'row was', 'rows were')} compared", highlight=False)
    if map_file is None and document["map"]:
        screen.print("lines for HAProxy's map, in every HAProxy:", highlight=False)
        screen.print("\n".join(map(str, document["map"])), highlight=False)
    if not document["erased"]:
        screen.print("once its keys are routed there, give the command with --erase", highlight=False)
