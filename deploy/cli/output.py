"""The output of commands: one JSON document for scripts, or tables, sentences and progress bars for people."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import typer

from domain.encoding import write
from domain.text import printable
from domain.wording import counted

if TYPE_CHECKING:
    from deploy.terminal import Terminal
    from domain.files.csvfiles import ImportReport

MOST_PASSED_SHOWN = 50
"""Most passed over rows of an import that are printed."""


class _LateTerminal:
    """Loads Rich when the first text is printed: it takes as long as three starts of Python, and a command that prints
    JSON needs none of it."""

    def __init__(self, **options: Any) -> None:
        self._options = options

    @cached_property
    def _terminal(self) -> "Terminal":
        from deploy.terminal import Terminal

        return Terminal(**self._options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._terminal, name)

    @property
    def width(self) -> int:
        return self._terminal.width

    @width.setter
    def width(self, columns: int) -> None:
        self._terminal.width = columns

    def __enter__(self) -> Any:
        return self._terminal.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._terminal.__exit__(*raised)


screen = cast("Terminal", _LateTerminal(width=None if sys.stdout.isatty() else 160))
errors = cast("Terminal", _LateTerminal(stderr=True))


def show(as_json: bool, document: Any, text: Callable[[], object]) -> None:
    """Prints the result: one JSON document for scripts, or text for people."""
    if as_json:
        sys.stdout.write(printable(msgspec.json.format(write(document)).decode(), keep="\n") + "\n")
    else:
        text()


def show_sentence(as_json: bool, document: Any, sentence: str) -> None:
    """Prints the result: one JSON document for scripts, or one sentence for people."""
    show(as_json, document, lambda: screen.print(sentence, highlight=False))


def show_table(as_json: bool, rows: list[dict[str, Any]], *columns: str) -> None:
    """Prints rows: all of each as JSON for scripts, or a table with these columns for people."""
    show(as_json, rows, lambda: print_table(rows, *columns))


def print_table(rows: list[dict[str, Any]], *columns: str) -> None:
    from rich.table import Table  # loaded by commands that show one

    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column.replace("_", " "), no_wrap=number == 0, overflow="fold")  # nothing is cut off
    for row in rows:
        values = (row[column] for column in columns)
        table.add_row(*(printable(plain(value)) if value else "" for value in values))
    screen.print(table)


def plain(value: object) -> str:
    """A value for people: a time in UTC, to the second; yes or no; nothing for None."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
    return ", ".join(map(plain, value)) if isinstance(value, list) else "" if value is None else str(value)


def print_fields(row: dict[str, Any]) -> None:
    for name, value in row.items():
        screen.print(f"{name.replace('_', ' '):24} {printable(plain(value))}", highlight=False)


def finish_import(as_json: bool, what: str, report: "ImportReport", **more: str) -> None:
    """Show the outcome. JSON also has `more`."""

    def text() -> None:
        screen.print(f"{what}: {report.told()}")
        for line, message in sorted(report.passed_rows)[:MOST_PASSED_SHOWN]:
            errors.print(f"line {line} is passed over: {printable(message)}", highlight=False)
        if report.passed_over and not report.passed_rows:
            screen.print(f"{counted(report.passed_over, 'line was', 'lines were')} passed over: no purchases of fuel")
        if report.removed:
            errors.print(f"stored values that the file removed: {report.told_removed()}", highlight=False)
        if report.unused_columns:
            errors.print(f"columns that are not used: {printable(', '.join(report.unused_columns))}", highlight=False)
        for line, message in sorted(report.rejected):
            errors.print(f"line {line}: {printable(message)}", highlight=False)
        if report.rejected:
            refused = counted(report.refused, "row was", "rows were")
            errors.print(f"{refused} refused; the others are imported")

    show(as_json, report.as_json() | more, text)
    if report.rejected:
        raise typer.Exit(2)


@contextmanager
def counting_lines(what: str, file: Path, *, quiet: bool) -> Iterator[Callable[[int], object]]:
    if quiet:
        yield lambda _: None
        return
    from domain.files.csvfiles import count_rows  # loaded by commands that read a file

    # Without a number the import itself says what is wrong with the file.
    with counting(what, count_rows(file) or None, quiet=False) as progress:
        yield progress


@contextmanager
def counting(what: str, total: int | None, *, quiet: bool) -> Iterator[Callable[[int], object]]:
    if quiet:
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
