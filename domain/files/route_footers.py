"""Recognizes rows in a table of routes that are no routes: totals, page numbers, and repeated headings on each page."""

from collections.abc import Iterable, Iterator, Sequence

from domain.files.footers import is_line_alone, is_total
from domain.files.route_layout import Layout
from domain.files.route_times import plain_text
from domain.files.spreadsheets import Row
from domain.files.text_rows import RefusedRow


class WithoutFooters:
    """Passes such rows over, and keeps their line numbers."""

    def __init__(self, layout: Layout, names: Sequence[str]) -> None:
        """`names` are the file's names of its columns."""
        self._names = [name.strip().casefold() for name in names]
        self._places = [
            place for field, place in layout.columns.items() if field.field in ("latitude", "longitude", "address")
        ]
        self.lines: list[int] = []

    def footers(self, entries: Iterable[Row | RefusedRow]) -> Iterator[Row | RefusedRow]:
        self.lines.clear()
        for entry in entries:
            if isinstance(entry, Row) and self._is_one(entry):
                self.lines.append(entry.line)
            else:
                yield entry

    def _is_one(self, row: Row) -> bool:
        width = len(row.cells)
        if all(place < width and row.cells[place] not in (None, "") for place in self._places[:2]):
            return self._is_heading(row)
        texts = [text for cell in row.cells if (text := plain_text(cell).strip())]
        return bool(texts) and (is_line_alone(texts) or (is_total(texts) and self._says_no_place(row)))

    def _says_no_place(self, row: Row) -> bool:
        return all(place >= len(row.cells) or row.cells[place] in (None, "") for place in self._places)

    def _is_heading(self, row: Row) -> bool:
        first = row.cells[self._places[0]]
        if not isinstance(first, str) or not first[:1].isalpha():
            return False  # nearly all rows
        texts = [plain_text(cell).strip().casefold() for cell in row.cells]
        return texts == self._names[: len(texts)]
