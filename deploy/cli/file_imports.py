"""The import of any file: it says what the file is, shows its first rows, asks what is missing, and stores it."""

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

import typer

from deploy.cli.arguments import (
    AsJson,
    Believe,
    Currency,
    Maps,
    Unit,
    acting,
    read_company_id,
    read_maps,
    read_moment,
    rows_file,
)
from deploy.cli.failures import CommandFailed
from deploy.cli.importing import store_file
from deploy.cli.output import errors, finish_import, print_table, screen, show
from deploy.cli.storing import transaction
from domain import clock
from domain.accounts.contacts import Contacts
from domain.files.csvfiles import ImportReport
from domain.lifecycle import Environment
from domain.settings import get_settings
from domain.text import printable
from domain.wording import counted, sentence

if TYPE_CHECKING:
    from domain.operations.file_looks import FileAnswer, FileLook, Import

app = typer.Typer()

_MOST_COLUMNS_SHOWN = 8


File = Annotated[
    Path, typer.Argument(parser=rows_file, metavar="FILE", help="Any file: CSV, Excel, or JSON lines of routes.")
]
Company = Annotated[
    UUID | None,
    typer.Option(
        "--company", parser=read_company_id, metavar="ID", help="The company; stations and taxes belong to none."
    ),
]
Kind = Annotated[
    str | None, typer.Option("--as", metavar="KIND", help="What the file is. It is then imported without a question.")
]
Profile = Annotated[
    str, typer.Option("--profile", metavar="NAME", help="The profile of a file of prices, or the fuel card.")
]
Volume = Annotated[
    Literal["gallons", "litres"] | None,
    typer.Option("--volume", help="What all quantities of a card's file are, where no column says it."),
]
Effective = Annotated[
    str, typer.Option("--effective", metavar="TIME", help="From when prices hold, where the file does not say it.")
]
Retail = Annotated[bool, typer.Option(help="Change the retail prices that all companies share, too.")]
InEnvironment = Annotated[Environment, typer.Option("--environment", help="The environment of fills and routes.")]
Look = Annotated[bool, typer.Option("--look", help="Only say what the file is, and import nothing.")]
WithoutQuestions = Annotated[
    bool, typer.Option("--yes", help="Do not ask; a file that may be of two kinds is not imported.")
]


@app.command("import")
def import_file(
    file: File,
    company_id: Company = None,
    kind: Kind = None,
    profile: Profile = "",
    volume: Volume = None,
    currency: Currency = "",
    unit: Unit = "",
    maps: Maps = None,
    effective: Effective = "",
    retail: Retail = True,
    believe: Believe = False,
    environment: InEnvironment = Environment.LIVE,
    look: Look = False,
    yes: WithoutQuestions = False,
    as_json: AsJson = False,
) -> None:
    """Imports any file: vehicles, drivers, stations, deals, taxes, prices, purchases of a fuel card, routes.

    It says what the file is and why, shows the first rows as they are read, and asks. What was decided is remembered
    for the company's next file with the same columns.
    """
    from domain.operations.file_looks import FileAnswer, Import, look_at_file

    settings = get_settings()
    wanted = Import(
        path=file,
        file_name=file.name,
        sender=acting().name,
        settings=settings,
        company_id=company_id,
        environment=environment,
        takes_retail=retail,
        believe=believe,
        priced_at=_moment(effective),
        contacts=Contacts.of(settings),
    )
    told = _told(FileAnswer, kind, profile, volume, currency, unit, read_maps(maps or []))
    with transaction() as connection:
        found = look_at_file(connection, wanted, told, now=clock.now())
    if not as_json:
        _show(found)
    if look:
        show(as_json, found.as_json(), lambda: None)
        return
    answer = _decide(wanted, found, is_told=told is not None, yes=yes, as_json=as_json)
    _import(wanted, found.layout, answer, as_json=as_json)


def _moment(effective: str) -> datetime | None:
    return read_moment("--effective", effective) if effective else None


def _told(
    make: "type[FileAnswer]",
    kind: str | None,
    profile: str,
    volume: Literal["gallons", "litres"] | None,
    currency: str,
    unit: str,
    mapping: dict[str, str],
) -> "FileAnswer | None":
    """The decisions in the options. A profile belongs to prices or to a card, which tells the kind; a mapping to
    routes."""
    from domain.fills.profiles import CARDS
    from domain.operations.file_kinds import FILE_KINDS
    from domain.operations.file_looks import UnknownKind

    if kind is not None and kind not in FILE_KINDS:
        raise UnknownKind(kind)
    if kind is None and (profile or volume or currency or unit):
        raise CommandFailed("say with --as what the file is; then its profile, unit or currency can be given")
    if mapping and kind not in (None, "routes"):
        raise CommandFailed("--map is for files of routes")
    if mapping:
        return make("routes", mapping=mapping)
    if kind is None:
        return None
    if kind == "fills" and profile and profile not in CARDS:
        raise CommandFailed(f"there is no card {profile!r}: choose one of {', '.join(CARDS)}")
    return make(kind, profile or "auto", volume or "", currency, unit)


def _show(found: "FileLook") -> None:
    if found.answer is not None:
        by = f", read by the profile {printable(found.answer.profile)}" if found.answer.profile != "auto" else ""
        how = "This is" if found.is_sure else "Perhaps this is"
        screen.print(f"{how} a file of {found.title}{by}: {printable(found.why)}.", highlight=False)
    else:
        screen.print(f"It is not known what this file is: {printable(found.why)}.", highlight=False)
    if found.rows:
        columns = list(dict.fromkeys(name for row in found.rows for name in row))[:_MOST_COLUMNS_SHOWN]
        print_table([{name: row.get(name, "") for name in columns} for row in found.rows], *columns)
    for row in found.refused:
        errors.print(f"line {row.line} would be refused: {printable(row.message)}", highlight=False)
    for doubt in found.unclear:
        errors.print(printable(sentence(doubt)), highlight=False)


def _decide(wanted: "Import", found: "FileLook", *, is_told: bool, yes: bool, as_json: bool) -> "FileAnswer":
    """The answer by which the file is imported: a person at the terminal is asked. Raises CommandFailed without a
    decision; nothing is imported then."""
    from domain.files.route_layout import field_in_words
    from domain.operations.file_looks import FileAnswer, FileLook, look_at_file, require_decided

    def look_again(answer: FileAnswer) -> FileLook:
        with transaction() as connection:
            seen = look_at_file(connection, wanted, answer, now=clock.now())
        _show(seen)
        return seen

    asks, is_decided = sys.stdin.isatty() and not as_json and not yes and not is_told, is_told
    if asks and not found.is_sure:
        found, is_decided = look_again(FileAnswer(_ask("What is it?", found.choices))), True
    if asks and len(found.profiles) > 1 and found.answer is not None:
        name = _ask("Which profile?", found.profiles)
        found, is_decided = look_again(FileAnswer(found.answer.kind, name)), True
    if asks and found.answer is not None and found.asked.keys() - found.answer.mapping.keys():
        named = {
            field: _ask(f"Which column is {field_in_words(field)}?", columns) for field, columns in found.asked.items()
        }
        found, is_decided = look_again(FileAnswer("routes", mapping=found.answer.mapping | named)), True
    answer = require_decided(found, is_told=is_decided)
    if not (yes or is_told) and not (asks and typer.confirm(f"Import this file of {found.title}?", err=True)):
        raise CommandFailed(f"nothing is imported: give --yes, or --as {answer.kind}")
    return answer


def _ask(question: str, names: Sequence[str]) -> str:
    """A person's choice, by its name or by its number in the list."""
    choices = {str(number): name for number, name in enumerate(names, start=1)}
    for number, name in choices.items():
        errors.print(f"{number:>3}  {printable(name)}", highlight=False)
    choices |= {name: name for name in names}
    while (said := str(typer.prompt(question, err=True)).strip()) not in choices:
        errors.print("choose one of the list, by its name or number", highlight=False)
    return choices[said]


def _import(wanted: "Import", layout: str | None, answer: "FileAnswer", *, as_json: bool) -> None:
    from domain.operations.file_looks import file_to_import, remember

    with transaction() as connection:
        stored = file_to_import(connection, wanted, answer)
    report = store_file(stored, bar="rows", as_json=as_json)
    with transaction() as connection:
        remember(connection, wanted, layout, answer, now=clock.now())
    if not as_json and _changes_nothing(report):
        screen.print(f"all of it is stored already: {counted(report.unchanged, 'row', 'rows')}")
    finish_import(as_json, answer.kind, report, kind=answer.kind, profile=answer.profile)


def _changes_nothing(report: ImportReport) -> bool:
    return report.unchanged > 0 and not (report.created or report.updated or report.refused)
