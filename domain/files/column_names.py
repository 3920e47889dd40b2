"""Finds the row that names the columns, and the delimiter that divides it, by the names that we know."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from domain.files.reading_ends import UnreadableFile
from domain.files.text_rows import DELIMITERS, MOST_COLUMNS, Refuse, RefusedRow

MOST_LINES_ABOVE = 30
"""Most lines of titles above the row that names the columns."""

AnyRow = TypeVar("AnyRow", bound=tuple[int, Sequence[Any]])
"""The line of a row, and its cells."""


def usual_delimiter(beginning: str) -> str:
    """The sign that divides most lines into most, and equally many, cells. A short table may stand below a longer
    title, so lines without the sign do not count against it."""
    lines = beginning.splitlines()[:MOST_LINES_ABOVE]

    def fit(sign: str) -> tuple[int, bool]:
        counts = Counter(line.count(sign) for line in lines)
        return max((count * times for count, times in counts.items()), default=0), sign == ","

    return max(DELIMITERS, key=fit)


def heading_delimiter(beginning: str, known: Callable[[str], bool]) -> str:
    """The sign that divides one of the first lines into most known names of columns."""
    lines = beginning.splitlines()[:MOST_LINES_ABOVE] or [""]

    def fit(sign: str) -> tuple[int, int, bool]:
        names = [[name.strip().strip('"') for name in line.split(sign)[:MOST_COLUMNS]] for line in lines]
        return max(sum(map(known, one)) for one in names), len(names[0]), sign == ","

    return max(DELIMITERS, key=fit)


def heading_row_at(rows: Sequence[Sequence[Any]], known: Callable[[str], bool]) -> int:
    """The place of the row that names the columns, among the first rows of a table, which may have titles above it. It
    is the first row unless that has at most one known column, and another has more. If no row has one and the first is
    a title by itself, it is the first of the widest rows."""
    names = [[cell.strip() for cell in row if isinstance(cell, str) and cell.strip()] for row in rows]
    counts = [sum(map(known, one)) for one in names]
    if not rows or counts[0] > 1:
        return 0
    best = max(counts)
    is_title = counts[0] == 0 and len(names[0]) < 2
    if best > counts[0] and (best > 1 or is_title):
        return counts.index(best)
    if best == 0 and is_title:
        widths = list(map(len, names))
        return widths.index(max(widths))
    return 0


def named_rows(
    open_rows: Callable[[Refuse], Iterator[AnyRow]], refuse: Refuse, known: Callable[[str], bool]
) -> tuple[list[Any], Iterator[AnyRow]]:
    """The cells that name the columns, which may stand below titles, and the rows below them. `refuse` is told the rows
    that cannot be read, each in its place. `known` tells whether a name is that of a column of ours. Raises
    UnreadableFile when the first line cannot be read."""
    early: list[RefusedRow] = []
    refusing: list[Refuse] = [early.append]
    rows = open_rows(lambda row: refusing[0](row))
    first = list(islice(rows, MOST_LINES_ABOVE))
    at = heading_row_at([cells for _, cells in first], known)
    heading_line, names = first[at] if first else (1, [])
    if early and early[0].line == 1:
        raise UnreadableFile(f"line 1, which must name the columns, cannot be read: {early[0].message}")
    refusing[0] = refuse
    stripped = [name.strip() if isinstance(name, str) else name for name in names]
    return stripped, _below(heading_line, first[at + 1 :], early, rows, refuse)


def _below(
    heading_line: int, first: Sequence[AnyRow], early: Sequence[RefusedRow], rows: Iterator[AnyRow], refuse: Refuse
) -> Iterator[AnyRow]:
    """The rows below the heading; unreadable ones are refused in their places."""
    faults = deque(row for row in early if row.line > heading_line)
    for row in first:
        while faults and faults[0].line < row[0]:
            refuse(faults.popleft())
        yield row
    for fault in faults:
        refuse(fault)
    yield from rows


def named_width(names: Sequence[Any]) -> int:
    """The number of columns up to the last one with a name."""
    return next((index for index in range(len(names), 0, -1) if names[index - 1]), 0)
