"""Bulk push: the routes of a file go through the API, like those of a TMS."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import typer

from deploy.cli.arguments import AsJson, Maps, read_maps, read_text, rows_file
from deploy.cli.failures import CommandFailed
from deploy.cli.output import counting, errors, screen, show
from domain.files.csvfiles import count_rows
from domain.files.route_files import RouteFile, format_of, open_route_file
from domain.files.route_layout import Layout
from domain.files.route_rows import FileRoute
from domain.settings import get_settings
from domain.text import printable
from domain.wording import counted

app = typer.Typer()

PREVIEWED = 3
MOST_SHOWN = 20
"""Number of refused routes shown; the file of results has all."""

RoutesFile = Annotated[
    Path,
    typer.Argument(
        parser=rows_file, metavar="FILE", help="A file of routes: .jsonl (a body on each line), .csv or .xlsx."
    ),
]
KeyFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="File with API keys, one on each line; - is standard input. Each has its own limit: several are faster.",
    ),
]
Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The API's address. Default: FUELROUTE_API_URL, or this machine."),
]
MappingFile = Annotated[
    Path | None,
    typer.Option("--mapping", metavar="FILE", help='A JSON file of such columns: {"externalId": "Load No"}.'),
]
SaveMapping = Annotated[
    Path | None, typer.Option("--save-mapping", metavar="FILE", help="Writes the columns of --map and --mapping there.")
]
Zone = Annotated[
    str | None,
    typer.Option("--time-zone", metavar="ZONE", help="Of times without an offset in a table. Default: the company's."),
]
Preview = Annotated[bool, typer.Option("--preview", help=f"Show the first {PREVIEWED} routes as they would be sent.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Check every route as the service does, and push none.")]
Concurrency = Annotated[
    int | None,
    typer.Option("--concurrency", min=1, max=256, metavar="N", help="Pushes at a time. Default: by the keys' limits."),
]
Results = Annotated[
    Path | None,
    typer.Option(
        "--results", metavar="FILE", help="Gets a line for each route: .csv or .jsonl. Default: FILE.results.csv."
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Leave out the routes that the file of results calls accepted, and add to it.")
]


class _Wishes(NamedTuple):
    """Options of the command about reading the file."""

    file: Path
    mapping: dict[str, str]
    zone: str | None


@app.command()
def push(
    file: RoutesFile,
    key_files: KeyFiles = None,
    url: Url = None,
    maps: Maps = None,
    mapping: MappingFile = None,
    save_mapping: SaveMapping = None,
    time_zone: Zone = None,
    preview: Preview = False,
    dry_run: DryRun = False,
    concurrency: Concurrency = None,
    results: Results = None,
    resume: Resume = False,
    as_json: AsJson = False,
) -> None:
    """Pushes the routes of a file, many at a time, below the rate limit of each key (600 a minute).

    It is safe to run again: a route that is there already is updated, and --resume leaves it out. The exit status is 2
    when routes were refused.
    """
    wishes = _Wishes(file, _mapping(mapping, maps or []), time_zone)
    if save_mapping is not None:
        save_mapping.write_bytes(msgspec.json.format(msgspec.json.encode(wishes.mapping)) + b"\n")
    keys = _keys(key_files or [])
    address = url or get_settings().api_address()
    if not keys and not (preview or dry_run):
        raise CommandFailed("give the API key in a file: --key-file FILE")
    if preview:
        _preview(wishes, address, keys, as_json)
    elif dry_run:
        _check(wishes, address, keys, as_json)
    else:
        path = results or file.with_name(f"{file.name}.results.csv")
        if path.resolve() == file.resolve():
            raise CommandFailed("the results would go into the file of routes itself: name another file")
        _push(wishes, address, keys, concurrency, path, resume, as_json)


def _mapping(file: Path | None, maps: Sequence[str]) -> dict[str, str]:
    """The columns of a file, and those given one by one, which come first."""
    mapping: dict[str, str] = {}
    if file is not None:
        try:
            mapping = msgspec.json.decode(read_text(file), type=dict[str, str])
        except msgspec.DecodeError as error:
            raise CommandFailed(f'{file} must be like {{"externalId": "Load No"}}: {error}') from None
    return mapping | read_maps(maps)


def _keys(files: Sequence[Path]) -> list[str]:
    keys: list[str] = []
    for file in files:
        found = [line.strip() for line in read_text(file).splitlines() if line.strip()]
        if not found:
            raise CommandFailed(f"{file} is empty: an API key belongs there")
        keys += found
    return keys


@contextmanager
def _opened(wishes: _Wishes, company_zone: str | None) -> Iterator[RouteFile]:
    name = wishes.zone or company_zone
    try:
        zone = ZoneInfo(name) if name is not None else None
    except (KeyError, ValueError, OSError):
        raise CommandFailed(f"there is no time zone {name!r}: write it like America/Chicago") from None
    with open_route_file(wishes.file, wishes.mapping, zone) as opened:
        yield opened


def _company_zone(address: str, keys: list[str]) -> str | None:
    """The time zone of the company, which only a key can ask for; None without a key."""
    from deploy.bulk_push import senders

    async def ask() -> str:
        async with senders(address, keys[:1]) as (first, *_):
            return first.me.company.time_zone

    return asyncio.run(ask()) if keys else None


def _preview(wishes: _Wishes, address: str, keys: list[str], as_json: bool) -> None:
    zone = wishes.zone or _company_zone(address, keys)
    with _opened(wishes, zone) as opened:
        routes = list(itertools.islice(opened.routes, PREVIEWED))
    document = {
        "columns": _columns(opened.layout),
        "unused_columns": _unused(opened.layout),
        "passed_over": len(opened.passed_over),
        "routes": [{"line": one.line, "body": one.body, "error": one.fault or None} for one in routes],
    }

    def text() -> None:
        _tell_unused(opened)
        for one in routes:
            screen.print(f"line {one.line}", style="bold")
            if one.body is not None:
                body = msgspec.json.format(msgspec.json.encode(one.body)).decode()
                screen.print(printable(body, keep="\n"), highlight=False)
            if one.fault:
                screen.print(printable(one.fault), style="red", highlight=False)

    show(as_json, document, text)
    if any(one.fault for one in routes):
        raise typer.Exit(2)


def _check(wishes: _Wishes, address: str, keys: list[str], as_json: bool) -> None:
    zone = wishes.zone or _company_zone(address, keys)
    count, refused = 0, _Refused()
    with _opened(wishes, zone) as opened, _progress("checking", wishes.file, quiet=as_json) as progress:
        for one in opened.routes:
            progress(1)
            count += 1
            if one.fault:
                refused.add(one.line, one.external_id, one.fault)
    passed_over = {"passed_over": len(opened.passed_over)}
    document = {"routes": count, "unused_columns": _unused(opened.layout), **passed_over, **refused.document()}

    def text() -> None:
        _tell_unused(opened)
        screen.print(f"{counted(count, 'route')} checked, {refused.count} with faults; none was pushed")
        refused.print("; --json has more" if refused.count > MOST_SHOWN else "")

    show(as_json, document, text)
    if refused.count:
        raise typer.Exit(2)


def _push(
    wishes: _Wishes, address: str, keys: list[str], concurrency: int | None, path: Path, resume: bool, as_json: bool
) -> None:
    from deploy.bulk_push import Result, accepted_before, push_all, results_file, senders

    refused, skipped = _Refused(), Counter[str]()
    files: list[RouteFile] = []
    done = {hash(external_id) for external_id in accepted_before(path)} if resume else set()

    def wanted(routes: Iterator[FileRoute]) -> Iterator[FileRoute]:
        for one in routes:
            if hash(one.external_id) in done and not one.fault:
                skipped["skipped"] += 1
            else:
                yield one

    async def run() -> Counter[str]:
        async with senders(address, keys) as ready:
            zone = ready[0].me.company.time_zone
            with (
                _opened(wishes, zone) as opened,
                results_file(path, resume=resume) as store,
                _progress("pushing", wishes.file, quiet=as_json) as progress,
            ):
                files.append(opened)

                def finish(result: Result) -> None:
                    store(result)
                    progress(1)
                    if result.outcome == "refused":
                        refused.add(result.line, result.external_id, result.error)

                return await push_all(wanted(opened.routes), ready, concurrency=concurrency, store=finish)

    outcomes = asyncio.run(run())
    counts = {name: outcomes[name] for name in ("created", "updated", "held")} | {"skipped": skipped["skipped"]}
    told = {"unused_columns": _unused(files[0].layout), "passed_over": len(files[0].passed_over)}
    document = {**counts, **told, **refused.document(), "results": str(path)}

    def text() -> None:
        _tell_unused(files[0])
        screen.print(", ".join(f"{count} {name}" for name, count in counts.items()) + f", {refused.count} refused")
        refused.print("")
        screen.print(f"the result of each route is in {path}", highlight=False)

    show(as_json, document, text)
    if refused.count:
        raise typer.Exit(2)


class _Refused:
    """The number of refused routes, and the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self._first: list[dict[str, Any]] = []

    def add(self, line: int, external_id: str, message: str) -> None:
        self.count += 1
        if len(self._first) < 1000:
            self._first.append({"line": line, "external_id": external_id or None, "message": message})

    def document(self) -> dict[str, Any]:
        return {"refused": self.count, "rejected": sorted(self._first, key=lambda one: one["line"])}

    def print(self, more: str) -> None:
        for one in sorted(self._first, key=lambda one: one["line"])[:MOST_SHOWN]:
            errors.print(f"line {one['line']}: {printable(one['message'])}", highlight=False)
        if self.count > MOST_SHOWN:
            errors.print(f"and {self.count - MOST_SHOWN} more{more}", highlight=False)


def _columns(layout: Layout | None) -> dict[str, str] | None:
    return {str(place): layout.name_of(place) for place in layout.columns} if layout is not None else None


def _unused(layout: Layout | None) -> list[str]:
    return layout.unused if layout is not None else []


def _tell_unused(file: RouteFile) -> None:
    if unused := _unused(file.layout):
        errors.print(f"columns that are not used: {printable(', '.join(unused))}", highlight=False)
    if lines := file.passed_over:
        told = ", ".join(map(str, lines[:MOST_SHOWN])) + (" and more" if len(lines) > MOST_SHOWN else "")
        errors.print(f"passed over, being totals or titles: line {told}", highlight=False)


def _progress(what: str, file: Path, *, quiet: bool) -> Any:
    """A bar that counts routes. Their number is not known before for Excel, or for a table with a row for each stop."""
    kind = format_of(file.name)
    total = None if kind == "excel" else count_rows(file) + (kind == "jsonl")
    return counting(what, total or None, quiet=quiet)
