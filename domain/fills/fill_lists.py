"""Lists of fills for people, with what is open or odd about each."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.database.connections import Connection, Tenant
from domain.database.statements import Scalar, Statement
from domain.fills.card_files import AMOUNT_DOUBT, CORRECTED, QUANTITY_DOUBT, TWICE

MOST_COUNTED_FILLS = 10_000

REVIEW_REASONS = {
    "unit": "no truck, or more than one, had this unit number on that day; without a number, its card has no truck",
    "fuel": "the item is not known: say which fuel it is",
    "route": "the truck was on more than one route at that time",
    "station": "several stations fit, or none",
    AMOUNT_DOUBT: "its price, quantity, discount and amount contradict each other: compare it with the receipt",
    QUANTITY_DOUBT: "its gallons are another sum than those of its fuels: compare it with the receipt",
    "price": "the price of a gallon is beyond belief: litres, or a slip",
    TWICE: "it may be the same purchase as another one: say whether it is",
    CORRECTED: "the card told these figures, then others, and took the others back: say whether these count",
    "reversal": "it takes back a purchase that is not here, or that is not the only one that fits",
}
"""The questions to a person, by their word in `fills.review`."""

FLAG_REASONS = {"tank": "more gallons than the tank holds", "far": "the truck was elsewhere at that time"}


class FillList(StrEnum):
    """A list of fills."""

    ALL = "all"
    REVIEW = "review"
    FLAGGED = "flagged"


class ShownFill(NamedTuple):
    """A fill with the names of its matches."""

    id: UUID
    environment: str
    bought_at: datetime
    time_zone: str
    has_time: bool
    profile: str
    transaction_number: str | None
    card_last_four: str | None
    unit_number: str | None
    location_name: str | None
    station_code: str | None
    city: str | None
    state: str | None
    item: str | None
    fuel: str
    gallons: float
    paid_cents: int
    currency: str
    vehicle_id: UUID | None
    vehicle_unit: str | None
    station_id: str | None
    station_name: str | None
    route_id: UUID | None
    route_external_id: str | None
    stop_number: int | None
    verdict: str | None
    score: int
    miles_from_truck: float | None
    review: list[str]
    flags: list[str]
    counter_id: UUID | None
    twin_id: UUID | None
    driver_name: str | None
    decided_by: str | None

    @property
    def price(self) -> float:
        """The price of a gallon, in the currency of the fill."""
        return self.paid_cents / 100 / self.gallons

    @property
    def local_time(self) -> datetime:
        return self.bought_at.astimezone(ZoneInfo(self.time_zone))


_COLUMNS = """
    f.id, f.environment, f.bought_at, f.time_zone, f.has_time, f.profile, f.transaction_number, f.card_last_four,
    f.unit_number, f.location_name, f.station_code, f.city, f.state, f.item, f.fuel, f.gallons, f.paid_cents,
    f.currency, f.vehicle_id, v.unit_number AS vehicle_unit, f.station_id, s.name AS station_name, f.route_id,
    r.external_id AS route_external_id, f.stop_number, w.verdict, f.score, f.miles_from_truck, f.review, f.flags,
    f.counter_id, f.twin_id, f.driver_name, f.decided_by
"""
_JOINED = """
    LEFT JOIN vehicles v ON v.id = f.vehicle_id
    LEFT JOIN stations s ON s.station_id = f.station_id
    LEFT JOIN routes r ON r.id = f.route_id
    LEFT JOIN stop_verdicts w ON w.route_id = f.route_id AND w.number = f.stop_number
"""
_LISTED: dict[FillList, str] = {
    FillList.ALL: "true",
    FillList.REVIEW: "review <> '{}'",
    FillList.FLAGGED: "flags <> '{}'",
}
_PAGES = {
    which: Statement(
        ShownFill,
        f"""
        SELECT {_COLUMNS}
        FROM (SELECT * FROM fills WHERE company_id = %(company_id)s AND environment = %(environment)s AND {condition}
              ORDER BY bought_at DESC, id LIMIT %(limit)s OFFSET %(offset)s) AS f {_JOINED}
        ORDER BY f.bought_at DESC, f.id
        """,
    )
    for which, condition in _LISTED.items()
}


_COUNTS = {
    which: Scalar(
        int,
        "SELECT count(*)::int FROM (SELECT FROM fills WHERE company_id = %(company_id)s"
        f" AND environment = %(environment)s AND {condition} LIMIT {MOST_COUNTED_FILLS + 1}) AS counted",
    )
    for which, condition in _LISTED.items()
}
_ONE = Statement(ShownFill, f"SELECT {_COLUMNS} FROM fills f {_JOINED} WHERE f.company_id = %s AND f.id = %s")


def list_fills(
    connection: Connection, tenant: Tenant, which: FillList, *, limit: int, offset: int = 0
) -> list[ShownFill]:
    """A page of the list, the newest first."""
    return _PAGES[which].all(connection, {**tenant._asdict(), "limit": limit, "offset": offset})


def count_fills(connection: Connection, tenant: Tenant, which: FillList) -> int:
    """The number of fills on the list; `MOST_COUNTED_FILLS + 1` stands for any larger number."""
    return _COUNTS[which].one(connection, tenant._asdict())


def read_fill(connection: Connection, company_id: UUID, fill_id: UUID) -> ShownFill | None:
    return _ONE.first(connection, (company_id, fill_id))


class RouteChoice(NamedTuple):
    """A route that a fill may belong to."""

    id: UUID
    external_id: str
    arrived_at: datetime | None
    status: str


_CHOICES = Statement(
    RouteChoice,
    """
    SELECT id, external_id, arrived_at, status FROM routes
    WHERE company_id = %(company_id)s AND environment = (SELECT environment FROM fills WHERE id = %(fill_id)s)
      AND vehicle_id = %(vehicle_id)s AND arrived_at IS NOT NULL
      AND arrived_at BETWEEN %(at)s::timestamptz - interval '20 days' AND %(at)s::timestamptz + interval '2 days'
    ORDER BY arrived_at DESC, id LIMIT 20
    """,
)


def route_choices(connection: Connection, company_id: UUID, fill: ShownFill) -> list[RouteChoice]:
    """The routes that the fill's truck drove around that time."""
    if fill.vehicle_id is None:
        return []
    parameters = {
        "company_id": company_id,
        "fill_id": fill.id,
        "vehicle_id": fill.vehicle_id,
        "at": fill.bought_at,
    }
    return _CHOICES.all(connection, parameters)


def reasons_of(fill: ShownFill) -> Sequence[str]:
    """The open questions about a fill, and what is odd about it, in words."""
    return [_reason(fill, one) for one in fill.review] + [FLAG_REASONS.get(one, one) for one in fill.flags]


def _reason(fill: ShownFill, word: str) -> str:
    if word == "unit" and fill.unit_number is None:
        card = f"card …{fill.card_last_four}" if fill.card_last_four else "a card without a number"
        return (
            f"it names no unit: {card}{f' of {fill.driver_name}' if fill.driver_name else ''} is assigned to no truck"
        )
    return REVIEW_REASONS.get(word, word)
