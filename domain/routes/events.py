"""Events of a route that no other table keeps: requests of dispatchers, and failures.

Each is written in the transaction that does it. A push writes none, to cost nothing, so the time of a changed input is
not stored."""

from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

from domain.database.connections import Connection
from domain.database.statements import Command, Statement
from domain.errors import FuelrouteError
from domain.ids import new_id

EventKind = Literal[
    "plan_again",
    "plan_kept",
    "send_again",
    "choice_asked",
    "choice_declined",
    "choice_refused",
    "import_failed",
    "plan_failed",
    "review_failed",
    "message_failed",
]
"""`plan_kept`: a plan that a dispatcher asked for was made and did not replace the present one. `choice_asked`: the
driver asked for a choice beyond his allowance. `choice_refused`: no plan was made for one that was taken."""

LONGEST_DETAIL = 500


class ImpossibleStep(FuelrouteError):
    """A dispatcher's request does not fit the state of the route; the text says why."""


class Event(NamedTuple):
    at: datetime
    kind: str
    actor: str | None
    """An e-mail address; None for the service itself."""
    detail: str | None
    """The reason or the error; None once deleted by retention."""


_KEEP = Command(
    "INSERT INTO route_events (id, company_id, environment, route_id, at, kind, actor, detail)"
    " SELECT %s, company_id, environment, id, %s, %s, %s, %s FROM routes WHERE id = %s"
)
_EVENTS = Statement(
    Event,
    "SELECT at, kind, actor, detail FROM route_events WHERE company_id = %s AND route_id = %s ORDER BY at, id",
)


def record_event(
    connection: Connection, route_id: UUID, kind: EventKind, detail: str, *, by: str | None = None, now: datetime
) -> None:
    """Writes an event. `detail` is the reason or the error; `by` is the e-mail address of the person who asked."""
    _KEEP.execute(connection, (new_id(), now, kind, by, detail[:LONGEST_DETAIL], route_id))


def events_of(connection: Connection, company_id: UUID, route_id: UUID) -> list[Event]:
    """The events of a route, oldest first."""
    return _EVENTS.all(connection, (company_id, route_id))
