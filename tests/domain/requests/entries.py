"""Entries of the request log, made and stored as an ingress process does."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from domain.accounts.keys import Caller, create_key
from domain.contract.shapes import SCOPES, FieldFault, Problem
from domain.database.connections import Connection
from domain.encoding import write
from domain.ids import first_id_of, new_id
from domain.lifecycle import Environment
from domain.requests.log import WRITE_ENTRIES, Entry, text_of
from tests.factories import DOT


def entry_of(
    body: bytes = b"", *, caller: Caller | None = None, at: datetime | None = None, status: int = 201, **more: Any
) -> Entry:
    """A push, unless something else is said."""
    values: dict[str, Any] = {
        "caller": caller or Caller(new_id(), new_id(), Environment.LIVE, frozenset()),
        "id": id_at(at).hex if at is not None else new_id().hex,
        "path_id": "",
        "query": b"",
        "given_id": "",
        "method": "POST",
        "path": "/v1/routes",
        "problem": b"",
        "milliseconds": 4.2,
        "held": len(body),
        **more,
    }
    return Entry(body=body, size=len(body), status=status, **values)


def id_at(moment: datetime) -> UUID:
    return UUID(int=first_id_of(moment).int | uuid4().int >> 48)


def push_of(load: str) -> bytes:
    return write({"externalId": load})


def refusal(code: str, *faults: str) -> bytes:
    errors = [FieldFault(field="stops", message=fault) for fault in faults]
    return write(Problem(title="-", status=400, code=code, detail="-", errors=errors))


def new_caller(connection: Connection, company_id: UUID, environment: Environment = Environment.LIVE) -> Caller:
    """A caller with a key of its own."""
    made = create_key(connection, company_id, DOT, name="TMS", environment=environment, scopes=list(SCOPES))
    return Caller(made.id, company_id, environment, frozenset(SCOPES))


def store(connection: Connection, entries: Sequence[Entry], *, as_sent: bool = False) -> None:
    """`as_sent`: what was sent is kept of the first that succeeded of each key, too."""
    sampled = set() if as_sent else {entry.caller.key_id for entry in entries}
    WRITE_ENTRIES.execute(connection, [text_of(entries, sampled)])
