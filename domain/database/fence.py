"""The fence around a company that is moved to another cell: while it is closed, no process of the service reads or
writes anything of the company here. So no cell takes up its work after it left, or before it has arrived.

The fence is a restrictive policy of row-level security on every table of companies' data; see `not_fenced` in
`domain/migrations/row_security.py`. It binds the ingress, the console and the workers. Statements with which the
scheduler changes rows of all companies ask `is_at_work`, and commands `require_company`.

A pause has two parts. First the company's keys stop counting (requests are answered 429), and no worker takes up
another message or webhook; those under way are settled. Then the fence closes. Both end by themselves: a pause says
when it begins how long it holds.

| stage | where | what stops |
|---|---|---|
| `copying` | the cell that it leaves | nothing |
| `pausing` | there | requests, and new attempts at messages and webhooks |
| `fenced` | there | everything |
| `left` | there, once the other cell has it | everything, for good |
| `arriving` | the cell that it comes to | everything |
"""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, NotNull, Query, Scalar, Statement
from domain.errors import FuelrouteError
from domain.ids import shown_id

PAUSED = "it.stage <> 'copying' AND it.holds_until > clock_timestamp()"
FENCED = "it.stage IN ('fenced', 'left', 'arriving') AND it.holds_until > clock_timestamp()"
"""Conditions on a row `it` of `company_moves`: its company is paused; its company is behind the fence."""


def is_at_work(column: str) -> str:
    """The condition that the company in this column is not paused, so that new work of it may begin."""
    return f"NOT EXISTS (SELECT FROM company_moves it WHERE it.company_id = {column} AND {PAUSED})"


class Move(NamedTuple):
    """The move of a company, as this cell sees it."""

    stage: str
    other_cell: int
    began_at: datetime


class MovedCompany(FuelrouteError):
    def __init__(self, company_id: UUID, move: Move) -> None:
        way = "comes from" if move.stage == "arriving" else "has left for"
        super().__init__(
            f"the company {shown_id('cmp', company_id)} {way} cell {move.other_cell}: once `fuelroute companies move`"
            " is done, give the command in the cell where it is"
        )


class PauseOver(FuelrouteError):
    def __init__(self) -> None:
        super().__init__("the pause took longer than it was allowed to: the company works on here; move it again")


_READ = Statement(Move, "SELECT stage, other_cell, began_at FROM company_moves WHERE company_id = %s")
_READ_FENCED = Statement(
    Move, f"SELECT it.stage, it.other_cell, it.began_at FROM company_moves it WHERE it.company_id = %s AND {FENCED}"
)


def read_move(connection: Connection, company_id: UUID) -> Move | None:
    """The move of a company from or to this cell; None if it is not being moved."""
    return _READ.first(connection, (company_id,))


def require_not_fenced(connection: Connection, company_id: UUID) -> None:
    """Check that the company is not behind the fence. Raises MovedCompany, which names the other cell, if it is."""
    move = _READ_FENCED.first(connection, (company_id,))
    if move is not None:
        raise MovedCompany(company_id, move)


_WAITS = Scalar(
    NotNull[bool],
    "SELECT EXISTS (SELECT FROM company_moves it WHERE it.stage IN ('pausing', 'fenced', 'arriving')"
    " AND it.holds_until > clock_timestamp() AND it.began_at > %s)",
)
_LONGEST_MOVE = timedelta(days=1)


def keeps_housekeeping_waiting(connection: Connection, *, now: datetime) -> bool:
    """Tell if old data must stay: a company is being compared between two cells, or arrives. A move that began more
    than a day ago no longer counts."""
    return _WAITS.one(connection, (now - _LONGEST_MOVE,))


_PAUSED_KEY = Scalar(
    NotNull[bool], f"SELECT EXISTS (SELECT FROM company_moves it WHERE %s = ANY (it.key_hashes) AND {PAUSED})"
)


def is_key_of_paused(key_hash: bytes) -> Query[bool]:
    """Tell if a key that is not valid here belongs to a company that is paused or has left."""
    return Query(_PAUSED_KEY, (key_hash,), lambda rows: rows[0])


_ANY_FENCED = Scalar(
    NotNull[bool], f"SELECT EXISTS (SELECT FROM company_moves it WHERE it.stage = 'fenced' AND {PAUSED})"
)
IS_ANY_FENCED = Query(_ANY_FENCED, (), lambda rows: rows[0])
"""Tells if rows that are not found may be those of a company that leaves at this moment."""


# --- The stages ------------------------------------------------------------------------------------------------

_BEGIN = Command(
    "INSERT INTO company_moves (company_id, other_cell, stage) VALUES (%s, %s, 'copying') ON CONFLICT DO NOTHING"
)
_EXPECT = Command(
    "INSERT INTO company_moves (company_id, other_cell, stage, holds_until) VALUES (%s, %s, 'arriving', 'infinity')"
    " ON CONFLICT DO NOTHING"
)
_PAUSE = Command(
    """
    UPDATE company_moves SET stage = 'pausing', holds_until = clock_timestamp() + %(holds)s::interval,
        key_hashes = ARRAY(SELECT hash FROM api_keys WHERE company_id = %(company_id)s AND revoked_at IS NULL
                           AND (expires_at IS NULL OR expires_at > clock_timestamp()))
    WHERE company_id = %(company_id)s AND stage IN ('copying', 'pausing', 'fenced')
    """
)
_CLOSE = Command(
    "UPDATE company_moves SET stage = 'fenced'"
    " WHERE company_id = %s AND stage = 'pausing' AND holds_until > clock_timestamp() + %s::interval"
)
_LEAVE = Command(
    "UPDATE company_moves SET stage = 'left', holds_until = 'infinity'"
    " WHERE company_id = %s AND stage = 'fenced' AND holds_until > clock_timestamp() + %s::interval"
)
_RESUME = Command(
    "UPDATE company_moves SET stage = 'copying', holds_until = NULL"
    " WHERE company_id = %s AND stage IN ('pausing', 'fenced')"
)
_OPEN = Command("DELETE FROM company_moves WHERE company_id = %s AND stage = 'arriving'")
_FORGET = Command("DELETE FROM company_moves WHERE company_id = %s AND stage <> 'left'")

_MARGIN = timedelta(seconds=3)
"""Least time that must be left of the pause when a stage that follows another is committed."""


def begin_copying(connection: Connection, company_id: UUID, *, to_cell: int) -> None:
    """Notes in the cell that the company leaves that it is being copied. Doing so twice changes nothing."""
    _BEGIN.execute(connection, (company_id, to_cell))


def expect_arrival(connection: Connection, company_id: UUID, *, from_cell: int) -> None:
    """Closes the fence in the cell that the company comes to, before any of its rows are there."""
    _EXPECT.execute(connection, (company_id, from_cell))


def pause_company(connection: Connection, company_id: UUID, *, holds: timedelta) -> None:
    """From the commit on, new requests of the company are refused and its messages are left alone."""
    _PAUSE.execute(connection, {"company_id": company_id, "holds": holds})


def close_fence(connection: Connection, company_id: UUID) -> None:
    """Keeps everything of a paused company from being read or written, from the commit on. Raises PauseOver when the
    pause has nearly ended by itself; the company then works on here."""
    if _CLOSE.execute(connection, (company_id, _MARGIN)).rowcount == 0:
        raise PauseOver


def leave_cell(connection: Connection, company_id: UUID) -> None:
    """Closes the fence for good: from the commit on the company belongs to the other cell. Raises PauseOver when the
    pause has nearly ended by itself; the company then works on here."""
    if _LEAVE.execute(connection, (company_id, _MARGIN)).rowcount == 0:
        raise PauseOver


def resume_company(connection: Connection, company_id: UUID) -> None:
    """Ends a pause. A company that has left stays away."""
    _RESUME.execute(connection, (company_id,))


def open_fence(connection: Connection, company_id: UUID) -> None:
    """Lets a company that has arrived work in this cell, from the commit on."""
    _OPEN.execute(connection, (company_id,))


def forget_move(connection: Connection, company_id: UUID) -> None:
    """Forgets a move that was canceled. A company that has left stays away."""
    _FORGET.execute(connection, (company_id,))
