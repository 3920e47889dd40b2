"""`list`, `show` and `export`: one set of commands for all kinds of records that people keep."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias
from uuid import UUID

import typer
from msgspec import Struct

from deploy.cli.arguments import AsJson, CompanyId, Limit
from deploy.cli.failures import CommandFailed
from deploy.cli.output import print_fields, print_table, screen, show
from deploy.cli.reports import write_file
from deploy.cli.storing import transaction
from domain.accounts import companies
from domain.database.connections import Connection
from domain.database.listing import MOST_COUNTED, Listing
from domain.ids import IdKind, with_shown_ids
from domain.wording import counted

_SECRETS = ("contact", "message_url")
"""Fields of which a person sees only whether they are set."""

Search = Annotated[str, typer.Option("--search", metavar="TEXT", help="Only those that contain this text.")]
Retired = Annotated[bool, typer.Option("--retired", help="Those that are retired, instead of the others.")]
Offset = Annotated[
    int,
    typer.Option("--offset", min=0, max=1_000_000_000, metavar="N", help="The number to leave out at the beginning."),
]
ToFile = Annotated[Path, typer.Argument(metavar="FILE.csv", help="The file to write; - is standard output.")]


Keys: TypeAlias = Mapping[str, tuple[Any, Callable[[str], Any]]]
"""The arguments that name one record: for each its type with its help, and the reader of its text (None for a text that
names nothing)."""


class Records(NamedTuple):
    """A kind of record, and the way its commands show it."""

    one: str
    many: str
    listing: Listing[Any]
    columns: Sequence[str]
    """The columns of the list for people. JSON has all of them."""
    keys: Keys
    id_kind: IdKind | None = None
    shape: type[Struct] | None = None
    """A row of the file that imports read; None without such a file."""
    of_company: bool = True
    retires: bool = True
    more: "Callable[[Connection, UUID, Sequence[Any]], Sequence[dict[str, Any]]] | None" = None
    """Further fields in the JSON of these rows of a company."""


def by_id(one: str, read: Callable[[str], Any]) -> Keys:
    """The argument of a record that is named only by its id."""
    argument = typer.Argument(metavar=f"{one.upper()}_ID", help=f"The {one}'s id, as the list shows it.")
    return {"id": (Annotated[str, argument], read)}


def add_commands(app: typer.Typer, records: Records) -> None:
    """Adds the commands to a group."""
    company = {"company_id": (CompanyId, ...)} if records.of_company else {}
    retired = {"retired": (Retired, False)} if records.retires else {}
    paging = {"search": (Search, ""), **retired, "limit": (Limit, 100), "offset": (Offset, 0)}
    keys = {name: (kind, ...) for name, (kind, _) in records.keys.items()}
    as_json = {"as_json": (AsJson, False)}
    what = f"a company's {records.many}" if records.of_company else records.many

    _command(app, "list", f"Lists {what}.", partial(_list, records), {**company, **paging, **as_json})
    _command(app, "show", f"Shows one {records.one}.", partial(_show, records), {**company, **keys, **as_json})
    if records.shape is not None:
        words = f"Writes {what} to a CSV file, as the import reads it."
        if "contact" in records.shape.__struct_fields__:
            words += " Contacts are secrets: they are left out, and an import then keeps them."
        export = partial(_export, records, records.shape.__struct_fields__)
        _command(app, "export", words, export, {**company, "file": (ToFile, ...)})


def _list(
    records: Records,
    *,
    search: str,
    limit: int,
    offset: int,
    as_json: bool,
    company_id: UUID | None = None,
    retired: bool = False,
) -> None:
    with transaction() as connection:
        scope = _scope(connection, company_id)
        page = records.listing.find(connection, scope, search, retired=retired, limit=limit, offset=offset)
        rows = _documents(records, connection, company_id, page.rows)
    total = page.total if page.total <= MOST_COUNTED else None

    def text() -> None:
        print_table(rows, *records.columns)
        all_of_them = f"more than {MOST_COUNTED:,} {records.many}"
        if total is not None:
            all_of_them = counted(total, records.one, records.many)
        screen.print(f"{len(rows):,} of {all_of_them}" if page.has_more or offset else all_of_them)

    show(as_json, {"data": rows, "total": total, "has_more": page.has_more}, text)


def _show(records: Records, *, as_json: bool, company_id: UUID | None = None, **named: str) -> None:
    key = {name: read(named[name]) for name, (_, read) in records.keys.items()}
    with transaction() as connection:
        scope = _scope(connection, company_id)
        row = records.listing.read(connection, scope, **key) if None not in key.values() else None
        documents = _documents(records, connection, company_id, [row] if row is not None else [])
    if not documents:
        where = "the company has" if records.of_company else "there is"
        raise CommandFailed(
            f"{where} no {records.one} {' '.join(map(repr, named.values()))}: see `fuelroute {records.many} list`"
        )
    (document,) = documents
    show(as_json, document, lambda: print_fields(document))


def _export(records: Records, columns: Sequence[str], *, file: Path, company_id: UUID | None = None) -> None:
    from domain.files.csvfiles import write_rows  # loaded by commands that write a file

    names = [name for name in columns if name not in _SECRETS]
    with transaction() as connection:
        rows = records.listing.all(connection, _scope(connection, company_id))
        lines = ([getattr(row, name) for name in names] for row in rows)
        if str(file) == "-":
            write_rows(sys.stdout, names, lines)
        else:
            write_file(file, lambda written: write_rows(written, names, lines))


def _command(
    app: typer.Typer, name: str, words: str, run: Callable[..., None], parameters: Mapping[str, tuple[Any, Any]]
) -> None:
    """Adds a command with these parameters: for each its annotated type and its default."""

    def command(**given: Any) -> None:
        run(**given)

    command.__doc__ = words
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            if default is not ...
            else inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
            for one, (kind, default) in parameters.items()
        ]
    )
    app.command(name)(command)


def _scope(connection: Connection, company_id: UUID | None) -> dict[str, UUID]:
    """The parameters of the listing's scope. Raises UnknownCompany if there is no such company."""
    if company_id is None:
        return {}
    companies.require_company(connection, company_id, even_retired=True)
    return {"company_id": company_id}


def _documents(
    records: Records, connection: Connection, company_id: UUID | None, rows: Sequence[Any]
) -> list[dict[str, Any]]:
    documents = [_document(records, row) for row in rows]
    if records.more is None or company_id is None:
        return documents
    more = records.more(connection, company_id, rows)
    return [document | further for document, further in zip(documents, more, strict=True)]


def _document(records: Records, row: Any) -> dict[str, Any]:
    """A row for the output: with its id's prefix, and without secrets."""
    values = {f"has_{name}" if name in _SECRETS else name: value for name, value in row._asdict().items()}
    values |= {f"has_{name}": getattr(row, name) is not None for name in _SECRETS if name in row._fields}
    return with_shown_ids(values, **({"id": records.id_kind} if records.id_kind is not None else {}))
