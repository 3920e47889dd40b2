"""Backups of the embedded database, and the way back after a disaster."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
import psycopg
import typer
from rich.progress import BarColumn, DownloadColumn, Progress, Task, TextColumn, TimeElapsedColumn

from deploy.backups import archive, base_backups
from deploy.backups.base_backups import Backup
from deploy.cli.arguments import AsJson, read_secret
from deploy.cli.failures import CommandFailed
from deploy.cli.output import errors, print_fields, print_table, screen, show
from deploy.cli.storing import transaction
from deploy.embedded import EmbeddedPostgres
from domain import clock
from domain.contract.shapes import moment_of
from domain.database.connections import Connection, connected
from domain.operations.restores import AfterRestore, record_restore
from domain.settings import CONTACT_KEY_FILE, STACK_FILE, Settings, get_settings
from domain.wording import counted

app = typer.Typer()
backup_app = typer.Typer(invoke_without_command=True)

Release = Annotated[
    bool,
    typer.Option(
        "--release-messages",
        help="Withhold no message: nothing was sent after the last change that is restored, as when the service was"
        " stopped in good order before.",
    ),
]


@backup_app.callback()
def backup(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Folder for backups; FUELROUTE_ARCHIVE unless given.")
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=1, metavar="N", help="Afterwards delete all backups but the newest N."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Makes a backup of the running stack's database. The stack goes on meanwhile."""
    if context.invoked_subcommand is not None:
        return
    settings, folder = get_settings(), _folder(folder, "--to")
    if settings.database_url is not None:
        raise CommandFailed("the database is a server of your own: back it up as deploy/backup.md says")
    settings.require_database_url()  # says that no stack runs
    with _progress(quiet=as_json) as progress:
        made = base_backups.make_backup(settings, folder, progress)
    deleted = base_backups.keep_newest(folder, keep) if keep is not None else []

    def text() -> None:
        screen.print(f"backup {made.name} in {folder}, {_megabytes(made.size_bytes)}", highlight=False, soft_wrap=True)
        if deleted:
            screen.print(f"{counted(len(deleted), 'older backup')} deleted")
        if made.contact_key is not None:
            screen.print(
                f"The key for drivers' contacts is not in it: keep a copy of {settings.data / CONTACT_KEY_FILE}"
                " somewhere else.",
                soft_wrap=True,
            )

    show(as_json, _document(made) | {"deleted": [old.name for old in deleted]}, text)


@backup_app.command("list")
def backup_list(
    folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Folder of the backups; FUELROUTE_ARCHIVE unless given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Lists backups, and the time until which the archive can restore them."""
    folder = _folder(folder, "--from")
    rows = [_document(one) for one in base_backups.list_backups(folder)]
    written_at, behind = archive.last_archived_at(folder), _running_archive(get_settings())

    def text() -> None:
        print_table(rows, "name", "finished_at", "size_bytes", "schema_revision")
        if written_at is not None:
            screen.print(f"the archive was last written to at {written_at:%Y-%m-%d %H:%M:%SZ}", highlight=False)
        if behind is not None and behind.bytes_behind is not None:
            state = f"{_megabytes(behind.bytes_behind)} behind" if behind.is_running else "NOT running"
            screen.print(f"the archive of the running stack is {state}", highlight=False)

    show(
        as_json,
        {
            "backups": rows,
            "archive_written_at": written_at,
            "archive_running": behind is not None and behind.is_running,
            "archive_bytes_behind": behind.bytes_behind if behind is not None else None,
        },
        text,
    )


@app.command()
def restore(
    data: Annotated[Path, typer.Option("--data", metavar="NEW", help="The new data folder; it must be empty.")],
    folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Folder of the backups; FUELROUTE_ARCHIVE unless given."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="T", help="The database as of then, such as 2027-01-31T08:00:00Z; all unless set."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--backup", metavar="NAME", help="The backup to begin with; the newest that fits.")
    ] = None,
    contact_key: Annotated[
        Path | None,
        typer.Option(
            "--contact-key",
            metavar="FILE",
            help="Copy of the key for drivers' contacts; FUELROUTE_CONTACT_KEY or FUELROUTE_DATA has it unless given.",
        ),
    ] = None,
    without_contact_key: Annotated[
        bool, typer.Option("--without-contact-key", help="Restore contacts that nobody can read.")
    ] = False,
    until_damage: Annotated[
        bool, typer.Option("--until-damage", help="If the archive is damaged, restore what stands before the damage.")
    ] = False,
    release: Release = False,
    as_json: AsJson = False,
) -> None:
    """Restores a backup into a new data folder, for `fuelroute up --data NEW`."""
    from deploy.backups import restoring

    settings, folder = get_settings(), _folder(folder, "--from")
    moment = _moment(at) if at is not None else None
    chosen = restoring.choose_backup(folder, name, moment)
    key = read_secret(contact_key) if contact_key is not None else settings.contact_keys()
    if not without_contact_key:
        restoring.check_contact_key(chosen, key)
    if settings.contact_key is not None:
        key = None  # the stack gets the variable's
    with (
        _progress(quiet=as_json) as progress,
        restoring.restored_database(
            folder, data, chosen, at=moment, contact_key=key, progress=progress, until_damage=until_damage
        ) as (url, done),
        connected(url) as connection,
    ):
        after = _record(connection, settings, done.last_change_at, release)
    outcome = {
        "data": str(data),
        "backup": chosen.name,
        "restored_to": done.last_change_at,
        **after._asdict(),
    }

    def text() -> None:
        print_fields(outcome)
        screen.print(f"start it with: fuelroute up --data {data}", highlight=False, soft_wrap=True)

    show(as_json, outcome, text)


@app.command()
def restored(
    to: Annotated[str, typer.Option("--to", metavar="T", help="The time of the last change that was restored.")],
    release: Release = False,
    as_json: AsJson = False,
) -> None:
    """Prepares a database that other tools restored, before the service starts on it.

    Ends every session of the console, and withholds the messages that drivers may have already.
    """
    with transaction() as connection:
        outcome = _record(connection, get_settings(), _moment(to), release)._asdict()
    show(as_json, outcome, lambda: print_fields(outcome))


def _record(connection: Connection, settings: Settings, restored_to: datetime, release: bool) -> AfterRestore:
    early = timedelta(hours=settings.early_arrival_hours)
    return record_restore(connection, restored_to=restored_to, early=early, withhold=not release, now=clock.now())


def _folder(given: Path | None, option: str) -> Path:
    folder = given or get_settings().archive
    if folder is None:
        raise CommandFailed(f"name the folder of the backups: {option} DIR, or set FUELROUTE_ARCHIVE")
    return folder.absolute()


def _moment(text: str) -> datetime:
    try:
        return moment_of(text)
    except ValueError as error:
        raise CommandFailed(f"{text!r} is not a time: {error}") from None


def _running_archive(settings: Settings) -> archive.Archived | None:
    """The progress of the running stack's archive; None if no stack runs here."""
    if settings.database_url is not None or not (settings.data / STACK_FILE).exists():
        return None
    try:
        with archive.superuser(EmbeddedPostgres(settings.data)) as connection:
            return archive.progress_of_archive(connection)
    except psycopg.OperationalError:  # a killed stack leaves the file
        return None


def _document(made: Backup) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(made)
    return document


def _megabytes(count: int) -> str:
    return f"{count / 1_000_000:,.1f} MB"


@contextmanager
def _progress(*, quiet: bool) -> Iterator[base_backups.Progress]:
    """A bar with the step and its bytes."""
    if quiet:
        yield lambda step, done, total: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors) as bar:
        task = bar.add_task("")
        yield lambda step, done, total: _show(bar.tasks[task], step, done, total)


def _show(task: Task, step: str, done: int, total: int) -> None:
    """Shows a step; one of unknown size (0) pulses."""
    task.description, task.completed, task.total = step, done, total or None
