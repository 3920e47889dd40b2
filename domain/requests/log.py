"""Writing entries of the request log, and removing old ones.

An ingress process writes many at a time, all as one text: COPY knows no row-level security. The entries of a day are in
a partition of their own, which is dropped as a whole. An entry's time is in its id.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from uuid import UUID

import msgspec
from psycopg import sql

from domain.accounts.keys import Caller
from domain.contract.shapes import FieldFault
from domain.database.connections import Connection
from domain.database.daily_partitions import maintain_daily_partitions
from domain.database.statements import Command
from domain.ids import first_id_of, read_id
from domain.requests.redaction import external_id_in_body, external_id_in_query, redacted_body, redacted_query

_MOST_OF_A_SUBJECT = 200
_MOST_OF_FAULTS = 2_000


class Entry(msgspec.Struct, gc=False):
    """A request of a valid key, as it came and was answered. It is not redacted yet: it stays in the memory of the
    process until `lines_of` makes the stored row of it."""

    caller: Caller
    id: str
    """32 hexadecimal digits of a UUIDv7, made when the request came in."""
    given_id: str
    """The request's id from the caller; empty where the entry's own id stands for it."""
    method: str
    path: str
    """The path as the API's description writes it, with `{id}`; `(none)` where there is no such address."""
    path_id: str
    query: bytes
    body: bytes
    """The body; empty where it was too large, or where too many bodies were kept already."""
    size: int
    """Bytes of the body."""
    status: int
    problem: bytes
    """The problem document of a refusal."""
    milliseconds: float
    held: int
    """Bytes of query, body and problem together."""
    times: int = 1
    """The number of requests that the entry stands for; see `ingress.api.request_log`."""


_BETWEEN_ROWS, _BETWEEN_CELLS = "\x1e", "\x1f"
"""ASCII's own separators for rows and cells. Texts from outside lose theirs."""

_WRITE = """
    INSERT INTO request_log (company_id, environment, key_id, id, method, path, status, milliseconds, size, times,
        request_id, subject, code, sent, faults)
    SELECT cell[1]::uuid, cell[2], cell[3]::uuid, cell[4]::uuid, cell[5], cell[6], cell[7]::smallint, cell[8]::real,
        cell[9]::integer, cell[10]::integer, cell[11], cell[12], cell[13], cell[14], cell[15]
    FROM string_to_table(%s::text, E'\\x1e') AS line
    CROSS JOIN LATERAL (SELECT string_to_array(line, E'\\x1f', '') AS cell OFFSET 0) AS entry
"""
WRITE_ENTRIES = Command(_WRITE)
"""Writes the rows of `text_of`; an empty cell is NULL."""
WRITE_ENTRIES_AGAIN = Command(f"{_WRITE} ON CONFLICT DO NOTHING")
"""Writes the rows of `text_of` after a failure: where the answer to a commit got lost, nobody knows whether they are
there. It takes a third more of PostgreSQL's time."""


class _Problem(msgspec.Struct):
    code: str = ""
    errors: list[FieldFault] = []


_PROBLEM = msgspec.json.Decoder(_Problem)


def text_of(entries: Sequence[Entry], sampled: set[UUID]) -> str:
    """The rows for WRITE_ENTRIES. Query or body are kept, redacted, with each failed request, and with one successful
    request of each key that is not among `sampled` yet."""
    whose: dict[int, str] = {}
    lines = []
    for entry in entries:
        caller = entry.caller
        by = whose.get(id(caller))
        if by is None:
            by = whose[id(caller)] = _BETWEEN_CELLS.join((caller.company_id.hex, caller.environment, caller.key_id.hex))
        kept = _NOTHING_KEPT
        if entry.status >= 400:
            kept = _kept(entry)
        elif caller.key_id not in sampled:
            sampled.add(caller.key_id)
            kept = _kept(entry)
        lines.append(
            f"{by}\x1f{entry.id}\x1f{entry.method}\x1f{entry.path}\x1f{entry.status}\x1f{entry.milliseconds:.1f}\x1f"
            f"{entry.size}\x1f{entry.times}\x1f{entry.given_id}\x1f{_cell(_subject_of(entry))}\x1f{kept}"
        )
    return _BETWEEN_ROWS.join(lines)


def _kept(entry: Entry) -> str:
    """The cells `code`, `sent` and `faults`."""
    problem = _PROBLEM.decode(entry.problem) if entry.problem else _Problem()
    sent = redacted_body(entry.path, entry.body) if entry.body else redacted_query(entry.path, entry.query)
    return _BETWEEN_CELLS.join((_cell(problem.code), _cell(sent), _cell(_text_of(problem.errors))))


def _subject_of(entry: Entry) -> str:
    """The load or route that the request is about: an `externalId`, or a route's id."""
    if entry.path_id:
        return entry.path_id if read_id("rte", entry.path_id) is not None else ""
    if entry.path != "/v1/routes":
        return ""
    text = external_id_in_body(entry.body) if entry.body else external_id_in_query(entry.query) if entry.query else ""
    return text[:_MOST_OF_A_SUBJECT] if "svc_" not in text else ""  # a key that was pasted into the wrong place


def _text_of(faults: list[FieldFault]) -> str:
    text = "\n".join(f"{fault.field}: {fault.message}" if fault.field else fault.message for fault in faults)
    return text[:_MOST_OF_FAULTS]


_NOTHING_KEPT = _BETWEEN_CELLS * 2
_REPLACED = str.maketrans(dict.fromkeys(("\x00", _BETWEEN_ROWS, _BETWEEN_CELLS), "\ufffd"))


def _cell(text: str | None) -> str:
    if not text:
        return ""
    return text if text.isprintable() else text.translate(_REPLACED)


# --- Removing entries --------------------------------------------------------------------------------------------


def maintain_request_partitions(connection: Connection, *, days: float, now: datetime) -> int:
    """Makes the partitions of the next days, and drops those older than `days`. Returns how many were dropped. Entries
    of a day that had no partition yet are in `request_log_other`; `forget_requests` removes them."""
    return maintain_daily_partitions(
        connection, "request_log", _make_partition, days=days, now=now, days_before_first=1
    )


def _make_partition(connection: Connection, table: str, day: date) -> None:
    midnight = datetime.fromisoformat(f"{day}T00:00:00Z")
    connection.execute(
        sql.SQL("CREATE TABLE {} PARTITION OF request_log FOR VALUES FROM ({}) TO ({})").format(
            sql.Identifier(table),
            sql.Literal(str(first_id_of(midnight))),
            sql.Literal(str(first_id_of(midnight + timedelta(days=1)))),
        )
    )


_FORGET_OLD = Command(
    "DELETE FROM request_log_other WHERE ctid = ANY(ARRAY("
    "SELECT ctid FROM request_log_other WHERE id < %(oldest_id)s LIMIT %(limit)s))"
)
_FORGET_OF_ERASED = Command(
    """
    DELETE FROM request_log WHERE (key_id, id) IN (
        SELECT key_id, id FROM request_log
        WHERE company_id = ANY(ARRAY(SELECT subject_id FROM erasures WHERE erased_at > %(lately)s::timestamptz))
        LIMIT %(limit)s)
    """
)
_FORGET_BEYOND = Command(
    """
    DELETE FROM request_log WHERE (key_id, id) IN (
        SELECT beyond.key_id, beyond.id
        FROM (SELECT key_id FROM request_log GROUP BY key_id HAVING count(*) > %(rows)s) AS busy
        CROSS JOIN LATERAL (
            SELECT it.key_id, it.id FROM request_log it WHERE it.key_id = busy.key_id
            ORDER BY it.id DESC OFFSET %(rows)s) AS beyond
        LIMIT %(limit)s)
    """
)

_LATELY = timedelta(days=2)


def forget_requests(connection: Connection, *, days: float, rows_per_key: int, now: datetime, limit: int) -> int:
    """Removes up to `limit` of each: old entries in no partition of their day, entries of a key beyond `rows_per_key`,
    and entries that an ingress process wrote after their company was erased. Returns how many were removed."""
    when = {"oldest_id": first_id_of(now - timedelta(days=days)), "limit": limit}
    removed = _FORGET_OLD.execute(connection, when).rowcount
    removed += _FORGET_OF_ERASED.execute(connection, {"lately": now - _LATELY, "limit": limit}).rowcount
    return removed + _FORGET_BEYOND.execute(connection, {"rows": rows_per_key, "limit": limit}).rowcount
