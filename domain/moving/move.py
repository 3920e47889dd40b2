"""Moves a company from one cell to another while its trucks drive and its TMS pushes.

1. Both cells are checked. The fence closes in the other cell: nobody there sees what arrives.
2. Replication copies the tables that only grow, then the others, and follows their changes. Nothing waits for it.
3. The company is paused; see `domain.database.fence`. The rest of the changes arrives, and both cells are compared.
4. The company leaves: from that commit on it belongs to the other cell. Then the fence opens there.
5. Replication ends. Once its keys are routed to the other cell, the copy here is erased.

At no moment is the company at work in both cells: the fence is closed for good here before it opens there. A command
that is stopped or dies may be given again at any step; it goes on where it was. Until step 4, `cancel` takes it back.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import NamedTuple, Protocol
from uuid import UUID

import psycopg
from psycopg import sql

from domain.audit.entries import Action, Actor, record_action
from domain.database import fence
from domain.database.connections import MOVING_LOCKS, Connection, DatabaseProblem, open_session
from domain.database.daily_partitions import partition_days
from domain.database.options import COMMANDING
from domain.database.statements import Command, NotNull, Scalar
from domain.errors import FuelrouteError
from domain.housekeeping.erasure import erase_company, forget_erasure
from domain.moving import readiness, replication
from domain.moving.cells import CellAddress
from domain.moving.comparison import compare
from domain.moving.moved_tables import MovedTable, moved_tables
from domain.moving.pause import PauseTooLong, now_there, paused
from domain.moving.unreplicated_rows import carry_flags, write_unreplicated_rows
from domain.telematics.position_partitions import make_past_partitions

_FLAGS_SPAN = timedelta(hours=6)
_COMPARED_SPAN = timedelta(hours=1)
_COUNTED_SPAN = timedelta(days=1)
_CHANGES_SECONDS = 600.0
_UNSETTLED = timedelta(seconds=10)
"""The newest rows of tables that only grow may still be on their way: they are left out of the comparison outside of
the pause."""


class CannotMove(FuelrouteError):
    """The command does not fit the stage of the move; the text names the command that does."""


class Report(Protocol):
    """Tells a person how far a move is."""

    def counting(self, what: str, total: int | None) -> AbstractContextManager[Callable[[int], object]]: ...


class Moved(NamedTuple):
    """A company that has left. `rows` and `pause_seconds` are None if an earlier command had let it leave."""

    pause_seconds: float | None
    rows: dict[str, int] | None


_TAKE_LOCK = Scalar(NotNull[bool], f"SELECT pg_try_advisory_lock({MOVING_LOCKS}, 0)")
_FREE_LOCK = Scalar(NotNull[bool], f"SELECT pg_advisory_unlock({MOVING_LOCKS}, 0)")


_OWNER = Scalar(NotNull[str], "SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE oid = 'positions'::regclass")
_HAS_COMPANY = Command("SELECT FROM companies WHERE id = %s")
_HAS_ENTRY = Command("SELECT FROM audit_log WHERE company_id = %s AND subject = %s AND reason = %s")
_STUB = Command("INSERT INTO companies (id, name) VALUES (%s, 'canceled move') ON CONFLICT DO NOTHING")


@dataclass(frozen=True, slots=True)
class CompanyMove:
    """The move of a company, with an administrator's sessions in both cells: each statement commits by itself."""

    company_id: UUID
    source_cell: CellAddress
    target_cell: CellAddress
    source: Connection
    target: Connection
    by: Actor
    report: Report
    tables: list[MovedTable]

    def run(self, *, longest_pause_seconds: float, route: Callable[[], object] = lambda: None) -> Moved:
        """Copies the company and lets it leave; `route` sends its requests to the other cell. Raises NotReady,
        CannotMove, CopyFailed, PauseTooLong, PauseOver, RowsDiffer; the company then works on where it was."""
        moved = Moved(None, None)
        if self.stage() != "left":
            self.check()
            self.copy()
            moved = self.switch(longest_pause_seconds)
        self.finish(route)
        return moved

    def stage(self) -> str | None:
        """The stage of the move in the cell that the company leaves; None before it has begun. Raises CannotMove if the
        company is on its way to another cell, or comes from one."""
        move = fence.read_move(self.source, self.company_id)
        if move is None:
            return None
        if move.other_cell != self.target_cell.number:
            raise CannotMove(
                f"the company is on its way {'from' if move.stage == 'arriving' else 'to'} cell {move.other_cell}:"
                " finish or cancel that move first"
            )
        if move.stage == "arriving":
            raise CannotMove(f"the company comes from cell {move.other_cell}: give the command in that cell")
        return move.stage

    def check(self) -> None:
        """Check both cells. Raises NotReady with every fault, before anything is changed."""
        readiness.require(lambda: readiness.faults_of_servers(self.source, self.target))
        has_begun = self.stage() is not None
        readiness.require(
            lambda: readiness.faults_of_company(
                self.source,
                self.target,
                self.company_id,
                self.target_cell.contacts,
                [] if has_begun else self.tables,
            )
        )

    def copy(self) -> None:
        """Copies all rows, and has their changes follow."""
        growing = [table for table in self.tables if table.only_grows]
        changing = [table for table in self.tables if not table.only_grows]
        fence.expect_arrival(self.target, self.company_id, from_cell=self.source_cell.number)
        fence.begin_copying(self.source, self.company_id, to_cell=self.target_cell.number)
        self._make_partitions()
        replication.publish_growing(self.source, self.company_id, growing)
        replication.subscribe(self.source, self.target, self.company_id, self.source_cell.replication_url)
        self._wait_until_copied("copying positions", growing)
        replication.publish_changing(self.source, self.company_id, changing)
        replication.subscribe_to_changes(self.target, self.company_id)
        self._wait_until_copied("copying tables", self.tables)
        for table in changing:
            self.target.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(table.name)))
        self._wait_for_changes("copied", deadline=None)
        now = now_there(self.source)
        carry_flags(self.source, self.target, self.company_id, since=now - _COUNTED_SPAN)
        span = (now - _COUNTED_SPAN, now - _UNSETTLED)
        compare(self.source, self.target, self.company_id, growing, span=span, only_counts=True)

    def switch(self, longest_pause_seconds: float) -> Moved:
        """Pauses the company, brings the last changes over, compares both cells, and lets it leave."""
        began = time.monotonic()
        compared = [table for table in self.tables if table.name != "request_log"]  # requests go on being logged
        with (
            self.report.counting("pause", None),
            paused(self.source, self.company_id, longest_seconds=longest_pause_seconds),
        ):
            self._wait_for_changes("paused", deadline=began + longest_pause_seconds)
            now = now_there(self.source)
            carry_flags(self.source, self.target, self.company_id, since=now - _FLAGS_SPAN)
            write_unreplicated_rows(self.source, self.target, self.company_id)
            rows = compare(self.source, self.target, self.company_id, compared, span=(now - _COMPARED_SPAN, now))
            fence.leave_cell(self.source, self.company_id)
        self._arrive()
        return Moved(time.monotonic() - began, rows)

    def finish(self, route: Callable[[], object] = lambda: None) -> None:
        """Lets a company that has left begin to work in the other cell, and ends replication. Raises CannotMove if the
        other cell does not have the company."""
        if _HAS_COMPANY.first(self.target, (self.company_id,)) is None:
            raise CannotMove(
                f"the database of cell {self.target_cell.number} does not have the company: is its database_url right?"
            )
        self._arrive()
        route()  # first of all: until then its requests are refused
        replication.end_publishing(self.source, self.company_id, self.tables)

    def erase_source(self, progress: Callable[[int], object]) -> None:
        """Erases the copy in the cell that the company has left. Raises CannotMove before it has left."""
        if self.stage() != "left":
            raise CannotMove("the company has not left this cell: move it first")
        self.finish()
        begin = partial(_transaction_of, self.source)
        erase_company(begin, self.company_id, now=now_there(self.source), progress=progress)

    def cancel(self, progress: Callable[[int], object]) -> None:
        """Erases the copy in the other cell, and forgets the move. Raises CannotMove once the company has left."""
        if self.stage() in (None, "left"):
            raise CannotMove("there is nothing to cancel: the company is not on its way, or has left already")
        there = fence.read_move(self.target, self.company_id)
        arrives = there is not None and there.stage == "arriving"
        if not arrives and _HAS_COMPANY.first(self.target, (self.company_id,)) is not None:
            raise CannotMove(f"the company is at work in cell {self.target_cell.number}: nothing is erased there")
        fence.expect_arrival(self.target, self.company_id, from_cell=self.source_cell.number)
        fence.resume_company(self.source, self.company_id)
        replication.unsubscribe(self.source, self.target, self.company_id)
        replication.end_publishing(self.source, self.company_id, self.tables)
        self._erase_copy(progress)
        fence.open_fence(self.target, self.company_id)
        fence.forget_move(self.source, self.company_id)

    def _erase_copy(self, progress: Callable[[int], object]) -> None:
        """Erases rows in the other cell, however few of them have arrived: the erasure finds them by the company."""
        _STUB.execute(self.target, (self.company_id,))
        for table in self.tables:
            if table.only_grows:
                _delete_by_parent(self.source, self.target, self.company_id, table)
        erase_company(
            partial(_transaction_of, self.target), self.company_id, now=now_there(self.target), progress=progress
        )
        forget_erasure(self.target, self.company_id)

    def _arrive(self) -> None:
        replication.unsubscribe(self.source, self.target, self.company_id)
        with self.target.transaction():
            forget_erasure(self.target, self.company_id)
            fence.open_fence(self.target, self.company_id)

    def _make_partitions(self) -> None:
        """Creates the position partitions that the target cell lacks."""
        days = partition_days(self.source, "positions_live")
        if days.keys() - partition_days(self.target, "positions_live"):
            with replication.briefly_locking(self.target):
                owner = sql.Identifier(_OWNER.one(self.target))
                self.target.execute(sql.SQL("SET LOCAL ROLE {}").format(owner))
                make_past_partitions(self.target, oldest=min(days), now=now_there(self.target))

    def _wait_until_copied(self, what: str, tables: list[MovedTable]) -> None:
        with self.report.counting(what, len(tables)) as progress:
            replication.wait_until_copied(self.source, self.target, self.company_id, progress)

    def _wait_for_changes(self, step: str, *, deadline: float | None) -> None:
        """Waits until the other cell has everything committed by now. A new entry of the audit log marks the end, since
        replication keeps the order of commits. Raises PauseTooLong after the deadline, and CopyFailed when no change
        arrives any more."""
        subject = f"cell {self.target_cell.number}"
        reason = f"{step} {now_there(self.source):%Y-%m-%d %H:%M:%S.%f}"
        by = Actor(self.by.name, reason)
        patience = time.monotonic() + _CHANGES_SECONDS
        record_action(self.source, by, Action("companies.move"), subject, company_id=self.company_id)
        while _HAS_ENTRY.first(self.target, (self.company_id, subject, reason)) is None:
            replication.bytes_behind(self.source, self.company_id)
            if deadline is not None and time.monotonic() > deadline:
                raise PauseTooLong("the copying of the last changes")
            if time.monotonic() > patience:
                raise replication.CopyFailed(
                    "the changes do not arrive: the log of PostgreSQL in the other cell says why; mend that and give"
                    " the command again, or give it with --cancel"
                )
            time.sleep(replication.POLL_SECONDS)


@contextmanager
def moving_company(
    company_id: UUID, source_cell: CellAddress, target_cell: CellAddress, by: Actor, report: Report
) -> Iterator[CompanyMove]:
    """A move with sessions in both cells. Raises DatabaseProblem when a cell cannot be reached, and CannotMove while
    another move from this cell is under way."""
    with _session(source_cell) as source, _session(target_cell) as target:
        if not _TAKE_LOCK.one(source):
            raise CannotMove("another company is being moved from this cell: wait until that is done")
        try:
            yield CompanyMove(company_id, source_cell, target_cell, source, target, by, report, moved_tables())
        finally:
            with suppress(psycopg.Error):  # the end of the session frees it, too, though not at once
                _FREE_LOCK.one(source)


@contextmanager
def _session(cell: CellAddress) -> Iterator[Connection]:
    try:
        session = open_session(cell.database_url, COMMANDING, autocommit=True)
    except psycopg.Error as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DatabaseProblem(
            f"cannot reach PostgreSQL of cell {cell.number} ({reason}): check its database_url and that it runs"
        ) from None
    with session:
        yield session


@contextmanager
def _transaction_of(connection: Connection) -> Iterator[Connection]:
    with connection.transaction():
        yield connection


def _delete_by_parent(source: Connection, target: Connection, company_id: UUID, table: MovedTable) -> None:
    """Deletes rows by their parents. The parents may not have arrived, so their ids are read in the source."""
    assert table.found_by is not None  # noqa: S101 (its key begins with the parent's id)
    column, parent = table.found_by
    query = sql.SQL("SELECT id FROM {} WHERE company_id = %s").format(sql.Identifier(parent))
    ids = [row[0] for row in source.execute(query, (company_id,)).fetchall()]
    delete = sql.SQL("DELETE FROM {} WHERE {} = ANY (%s)").format(sql.Identifier(table.name), sql.Identifier(column))
    target.execute(delete, (ids,))
