"""The stored choices of plans' menus, as pages and commands read them. `made_choices` writes them, and `choices` says
who may take one.

Commands load this module, so it imports nothing that is slow to load."""

from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID

from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement
from domain.documents import FuelPlanDocument
from domain.lifecycle import ChoiceKind


class StoredChoice(NamedTuple):
    """A choice of a plan's menu; `parking_spaces` and `showers` are those at its first fuel stop, as far as known."""

    id: UUID
    plan_id: UUID
    kind: str
    document: FuelPlanDocument
    station_ids: list[str]
    extra_cents: int
    pump_cents: int
    status: str
    """A `ChoiceStatus`."""
    asked_at: datetime | None
    asked_by: str | None
    decided_at: datetime | None
    decided_by: str | None
    reason: str | None
    made_plan_id: UUID | None
    parking_spaces: int | None
    showers: int | None


STATUS_NOW = """CASE WHEN c.status = 'taken' AND r.replan->>'choice' IS DISTINCT FROM c.id::text THEN 'refused'
    ELSE c.status END"""
"""SQL of the status of a choice `c` of a route `r`. A choice whose plan was being made and is not any more, because the
attempts at it failed, is refused."""
COLUMNS = f"""
    c.id, c.plan_id, c.kind, c.document, c.station_ids, c.extra_cents, c.pump_cents, {STATUS_NOW} AS status,
    c.asked_at, c.asked_by, c.decided_at, c.decided_by, c.reason, c.made_plan_id, s.parking_spaces, s.showers
"""
"""The columns of a `StoredChoice`."""
TABLES = """
    plan_choices c JOIN routes r ON r.id = c.route_id LEFT JOIN stations s ON s.station_id = c.station_ids[1]
"""
_MENU = Statement(
    StoredChoice,
    f"SELECT {COLUMNS} FROM {TABLES} WHERE c.company_id = %s AND c.environment = %s AND c.plan_id = %s"
    " ORDER BY c.place",
)


def menu_of(connection: Connection, tenant: Tenant, plan_id: UUID) -> list[StoredChoice]:
    """The menu of a plan, the cheapest choice first."""
    return _MENU.all(connection, (*tenant, plan_id))


def extra_in_words(cents: int) -> str:
    """The extra cost of a choice as people read it: `+ $4.10`."""
    return f"{'-' if cents < 0 else '+'} ${abs(cents) / 100:,.2f}"


KINDS_IN_WORDS = {
    ChoiceKind.CHEAPEST: "back to the cheapest plan",
    ChoiceKind.OTHER_CHAIN: "another chain",
    ChoiceKind.EARLIER: "an earlier stop",
    ChoiceKind.LATER: "a later stop",
    ChoiceKind.FEWER_STOPS: "one stop fewer",
    ChoiceKind.AMENITIES: "parking or showers",
}


class NamedChoice(Protocol):
    """A choice with what its words name."""

    @property
    def kind(self) -> str: ...
    @property
    def document(self) -> FuelPlanDocument: ...
    @property
    def extra_cents(self) -> int: ...


def choice_in_words(choice: NamedChoice) -> str:
    """A choice for people: `another chain, Love's in Amarillo, + $4.10`."""
    first = next(iter(choice.document["stops"]), None)
    place = f", {first['name']}" if first is not None else ""
    return f"{KINDS_IN_WORDS[ChoiceKind(choice.kind)]}{place}, {extra_in_words(choice.extra_cents)}"
