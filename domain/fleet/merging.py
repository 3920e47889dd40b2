"""Merges rows of a CSV file into the stored vehicles or drivers: finds the record that a row means, and the changes
that it makes. Rules only."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple
from uuid import UUID

import msgspec

from domain.files.csvfiles import FileRow, ImportReport, RowShape
from domain.ids import new_id

CellValue = str | float | None


@dataclass(eq=False, slots=True)
class Record:
    """A stored vehicle or driver, or one about to be stored."""

    id: UUID
    values: dict[str, CellValue]
    line: int | None = None
    """The line of the file that means this record."""
    before: dict[str, CellValue] | None = None
    """The values before that line changed them: empty for a new record, None for one that is not changed."""

    def line_that_gave(self, key: str) -> int:
        """The line that gave the record its value of `key`; 0 if the record had it before."""
        if self.line is None or self.before is None or self.before.get(key) == self.values[key]:
            return 0
        return self.line


class Merged(NamedTuple, Generic[RowShape]):
    """The records to write, updates first: an insert may take a unit number that an update has freed."""

    updates: list[Record]
    inserts: list[Record]
    rows: list[RowShape]
    """The rows that changed something."""


def merge_rows(
    lines: Iterable[FileRow[RowShape]],
    stored: Iterable[Record],
    keys: tuple[str, str],
    report: ImportReport,
    *,
    second_is_own: bool,
    as_meant: Callable[[str], str] = str,
) -> Merged[RowShape]:
    """Merges rows into stored records. An empty cell leaves a stored value as it is. A row that fits several records,
    or the record of an earlier line, goes into the report. `second_is_own`: no two records share a second key, as with
    VINs, but not with names. Then a row that gives a record the second key of another one goes into the report, too.
    `as_meant`: the second key as it is compared, whatever its spelling."""
    records = _Records(keys, stored, second_is_own=second_is_own, as_meant=as_meant)
    if second_is_own:
        lines = _renumbered_first(list(lines), records, keys)
    changed: dict[UUID, tuple[Record, RowShape]] = {}
    for number, row, cleared, _ in lines:
        named: dict[str, CellValue] = {
            name: value for name, value in msgspec.structs.asdict(row).items() if value is not None
        }
        given = named | dict.fromkeys(cleared)
        try:
            record = records.find(named)
        except _Ambiguous as error:
            report.reject(number, str(error))
            continue
        if record is not None and records.is_right(record, given):
            del given[keys[1]]
        if record is None:
            record = Record(new_id(), dict.fromkeys(row.__struct_fields__) | given, before={})
            report.created += 1
        elif record.line is not None:
            report.reject(number, f"the same one is already on line {record.line}")
            continue
        elif record.values == record.values | given:
            report.unchanged += 1
            record.line = number
            continue
        else:
            record.before, record.values = record.values, record.values | given
            report.updated += 1
        record.line = number
        records.add(record)
        changed[record.id] = record, row
    if second_is_own:
        for refused in _refuse_shared(records, [record for record, _ in changed.values()], keys, report):
            del changed[refused]
    updates = [record for record, _ in changed.values() if record.before]
    inserts = [record for record, _ in changed.values() if not record.before]
    return Merged(updates, inserts, [row for _, row in changed.values()])


def _renumbered_first(
    lines: Sequence[FileRow[RowShape]], records: "_Records", keys: tuple[str, str]
) -> list[FileRow[RowShape]]:
    """The rows, with those first that give a stored record another first key while the file gives its present one away:
    the record is found by its second key only as long as no other row has changed that. So a list of trucks in the
    order of their numbers renumbers them as any other does. Where each key of a row that waits so belongs to a record
    that waits, too, all stay in their order: these records exchange their second keys."""
    first, second = keys
    named = {getattr(line.row, first): getattr(line.row, second) for line in reversed(lines)}
    moves: dict[CellValue, tuple[CellValue, FileRow[RowShape]]] = {}
    for line in lines:
        to, value = getattr(line.row, first), getattr(line.row, second)
        holders = records.having(second, value) if to is not None else []
        given_up = holders[0].values[first] if len(holders) == 1 else None
        taken_by = records.as_meant(named.get(given_up))
        if given_up not in (None, to) and taken_by not in (None, records.as_meant(value)):
            moves.setdefault(to, (given_up, line))
    ahead: dict[int, FileRow[RowShape]] = {}
    for to in [one for one in moves if not records.having(first, one)]:
        free = to
        while free in moves:
            free, line = moves.pop(free)
            ahead[line.number] = line
    return [*ahead.values(), *(line for line in lines if line.number not in ahead)]


def _refuse_shared(
    records: "_Records", changed: Iterable[Record], keys: tuple[str, str], report: ImportReport
) -> Iterator[UUID]:
    """Takes back the rows that gave a record the second key of another one, and puts them into the report. The records
    are judged as the whole file leaves them, so two of them may exchange their keys. Of several rows that give the same
    key, the first one stays if no record had the key before. Yields the ids of the records."""
    first, second = keys
    waiting = dict.fromkeys(record.values[second] for record in changed)
    while waiting:
        value, _ = waiting.popitem()
        holders = sorted(records.having(second, value), key=lambda one: one.line_that_gave(second))
        for record in holders[1:]:
            line = record.line_that_gave(second)
            if not line:
                continue
            owner = holders[0].values[first]
            named = f"{first} {owner}" if owner is not None else f"a stored record without {first}"
            report.reject(line, f"the {second} {value} is that of {named}: correct that one first, or retire it")
            if record.before:
                report.updated -= 1
                record.values = record.before
                waiting[record.values[second]] = None  # another row may have given it to another record
            else:
                report.created -= 1
                record.values = dict.fromkeys(record.values)
            yield record.id


class _Ambiguous(Exception):
    """A row fits more than one stored record."""


class _Records:
    """Stored records by their first key, else by their second.

    With the keys unit number and VIN, and the stored vehicles A (unit 101, VIN X) and B (no unit number, VIN Y):

    | row | means |
    |---|---|
    | unit 101, VIN Z | A: the first key decides, and the VIN is corrected |
    | unit 102, VIN Y | B, which has no unit number yet |
    | unit 102, VIN X | A, which has a new unit number |
    | unit 102, VIN X, and unit 101, VIN Z, in any order | A, which has a new unit number; and a new vehicle |
    | VIN X | A |
    | unit 101, VIN Y | nothing, unless another row gives B another VIN: both are stored vehicles |

    With external id and name, and the driver A (id 1, Ann): a row with id 2 and the name Ann is another Ann.
    """

    def __init__(
        self, keys: tuple[str, str], records: Iterable[Record], *, second_is_own: bool, as_meant: Callable[[str], str]
    ) -> None:
        self._keys = keys
        self._second_is_own = second_is_own
        self._as_meant = as_meant
        self._by: dict[tuple[str, CellValue], list[Record]] = {}
        for record in records:
            self.add(record)

    def add(self, record: Record) -> None:
        for key in self._keys:
            known = self._by.setdefault((key, self._compared(key, record.values[key])), [])
            if record.values[key] is not None and record not in known:
                known.append(record)

    def find(self, given: dict[str, CellValue]) -> Record | None:
        """The record that a row means; None for a new one. Raises _Ambiguous if it fits several, and the row goes into
        the report."""
        first, second = self._keys
        found = self.having(first, given.get(first))
        if not found:
            found = [
                record
                for record in self.having(second, given.get(second))
                if self._second_is_own or first not in given or record.values[first] is None
            ]
        if len(found) > 1:  # older releases stored two spellings of one key
            found = [record for record in found if record.values[second] == given.get(second)] or found
        if len(found) > 1:
            what_to_do = f"give its {first}" if first not in given else f"correct their {second} first"
            raise _Ambiguous(f"fits {len(found)} stored records: {what_to_do}")
        return found[0] if found else None

    def having(self, key: str, value: CellValue) -> list[Record]:
        """The records with this value; none for None."""
        wanted = self._compared(key, value)
        known = self._by.get((key, wanted), [])
        # An earlier line may have cleared it.
        return [record for record in known if self._compared(key, record.values[key]) == wanted]

    def _compared(self, key: str, value: CellValue) -> CellValue:
        return self.as_meant(value) if key == self._keys[1] else value

    def is_right(self, record: Record, given: Mapping[str, CellValue]) -> bool:
        """True if the row has the record's second key, which is stored as it is meant: the row may only misspell it."""
        second = self._keys[1]
        stored = record.values[second]
        return stored is not None and stored == self.as_meant(stored) == self.as_meant(given.get(second))

    def as_meant(self, second: CellValue) -> CellValue:
        """A second key as it is compared."""
        return self._as_meant(second) if isinstance(second, str) else second
