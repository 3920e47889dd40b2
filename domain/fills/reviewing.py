"""Fills for people: lists of them, and a person's decisions about their matches.

A decision stays until the card corrects the transaction. After it the route is compared again, and the route of the
earlier match."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from domain.accounts.companies import lock_company
from domain.audit.entries import Actor, record_about, record_action
from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, Scalar, Statement
from domain.errors import FuelrouteError
from domain.files.products import Fuel
from domain.fills.card_files import AMOUNT_DOUBT, CORRECTED, DOUBTS, QUANTITY_DOUBT, TWICE
from domain.fills.card_holders import assign_card
from domain.fills.figuring import figure_routes
from domain.fills.finding import Matches, ToMatch, UnclearTruck, find_truck, match_fills
from domain.fills.importing import BATCH_FILLS, MATCHED, finish_fills, read_stations
from domain.fills.matching import KnownStations
from domain.fills.settling import PartTakenBack, join_twin, take_back_part
from domain.ids import shown_id
from domain.lifecycle import Environment

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
    f.id, f.bought_at, f.time_zone, f.has_time, f.profile, f.transaction_number, f.card_last_four, f.unit_number,
    f.location_name, f.station_code, f.city, f.state, f.item, f.fuel, f.gallons, f.paid_cents, f.currency, f.vehicle_id,
    v.unit_number AS vehicle_unit, f.station_id, s.name AS station_name, f.route_id, r.external_id AS route_external_id,
    f.stop_number, w.verdict, f.score, f.miles_from_truck, f.review, f.flags, f.counter_id, f.twin_id,
    f.driver_name, f.decided_by
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
    ORDER BY arrived_at DESC LIMIT 20
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


# --- Decisions ---------------------------------------------------------------------------------------------------

NO_ROUTE = "none"
BY_RULE = ""


class Decision(NamedTuple):
    """A person's decision on a fill. None leaves a match as it is."""

    unit_number: str | None = None
    station_id: str | None = None
    fuel: Fuel | None = None
    route: UUID | str = BY_RULE
    """A route's id, NO_ROUTE, or BY_RULE, by which the rules find it from the truck and the time."""
    is_twice: bool = False
    """True if it is the same purchase as its twin: the two become one fill, and nothing else is decided."""

    def in_words(self) -> str:
        """The decision as the audit log gives it for a reason."""
        if self.is_twice:
            return "the same purchase"
        route = shown_id("rte", self.route) if isinstance(self.route, UUID) else self.route
        chosen = {"unit": self.unit_number, "station": self.station_id, "fuel": self.fuel, "route": route}
        return ", ".join(f"{name} {value}" for name, value in chosen.items() if value) or "confirmed"


class UnknownFill(FuelrouteError):
    def __init__(self, named: str = "") -> None:
        which = f"fill {named!r}" if named else "such fill"
        super().__init__(f"there is no {which}: see `fuelroute fills list`")


class UnusableDecision(FuelrouteError):
    """The decision leaves something open; the text says what."""


class _Kept(NamedTuple):
    id: UUID
    environment: str
    bought_at: datetime
    time_zone: str
    has_time: bool
    transaction_number: str | None
    invoice_number: str | None
    unit_number: str | None
    card_last_four: str | None
    driver_name: str | None
    location_name: str | None
    station_code: str | None
    city: str | None
    state: str | None
    fuel: str
    gallons: float
    paid_cents: int
    currency: str
    vehicle_id: UUID | None
    station_id: str | None
    route_id: UUID | None
    counter_id: UUID | None
    review: list[str]


_KEPT = ", ".join(_Kept._fields)
_LOCK = Statement(_Kept, f"SELECT {_KEPT} FROM fills WHERE company_id = %s AND id = %s FOR UPDATE")
_IS_OF_TRUCK = Command("SELECT FROM routes WHERE company_id = %s AND environment = %s AND id = %s AND vehicle_id = %s")
_DECIDE = Command(
    f"UPDATE fills SET {MATCHED}, fuel = %(fuel)s, decided_by = %(decided_by)s, decided_at = %(now)s,"
    " twin_id = NULL WHERE id = %(id)s"
)


def decide(
    connection: Connection,
    company_id: UUID,
    fill_id: UUID,
    decision: Decision,
    by: Actor,
    *,
    far_miles: float,
    now: datetime,
) -> None:
    """Store a person's decision on a fill, in place of the rules' matches. Raises UnknownFill, UnusableDecision, with
    what is still open, UnknownCompany, RetiredCompany."""
    lock_company(connection, company_id)
    kept = _LOCK.first(connection, (company_id, fill_id))
    if kept is None:
        raise UnknownFill
    if kept.counter_id is not None:
        raise UnusableDecision("it was taken back by another one, so it does not count whatever is said of it")
    why = by.with_reason(decision.in_words())
    record_about(connection, why, "fills.decide", "fil", fill_id, company_id=company_id)
    if decision.is_twice:
        _join(connection, company_id, kept)
        return
    stations = read_stations(connection, company_id)
    to_match = _with(connection, company_id, stations, kept, decision)
    tenant = Tenant(company_id, Environment(kept.environment))
    (matches,) = match_fills(connection, tenant, [to_match], stations, far_miles=far_miles)
    if matches.vehicle_id is None and to_match.fuel != Fuel.OTHER:
        raise UnusableDecision("choose its truck, by the unit number in your fleet; or say that it is no fuel")
    if to_match.fuel == Fuel.UNKNOWN:
        raise UnusableDecision("say which fuel it is")
    route_id = _route(connection, tenant, matches, decision)
    values = matches._replace(route_id=route_id, review=[], score=100)._asdict()
    _DECIDE.execute(connection, {**values, "fuel": to_match.fuel, "decided_by": by.name, "now": now, "id": fill_id})
    routes = {one for one in (kept.route_id, route_id) if one is not None}
    if kept.gallons < 0 and to_match.fuel != Fuel.OTHER:
        routes |= _take_back(connection, tenant, kept, to_match, matches)
    figure_routes(connection, routes)


def _join(connection: Connection, company_id: UUID, kept: _Kept) -> None:
    routes = join_twin(connection, company_id, kept.id)
    if routes is None:
        raise UnusableDecision("there is no other purchase that it may be: confirm it, or say that it is no fuel")
    figure_routes(connection, routes | ({kept.route_id} if kept.route_id is not None else set()))


def _take_back(connection: Connection, tenant: Tenant, kept: _Kept, to_match: ToMatch, matches: Matches) -> set[UUID]:
    given = kept._asdict() | {"fuel": to_match.fuel, "vehicle_id": matches.vehicle_id}
    routes = take_back_part(connection, tenant, PartTakenBack(**{name: given[name] for name in PartTakenBack._fields}))
    if routes is None:
        raise UnusableDecision(
            "its truck has no purchase of 60 days in this state that is as large as what it takes back: say that it is"
            " no fuel, and it does not count"
        )
    return routes


def _with(
    connection: Connection, company_id: UUID, stations: KnownStations, kept: _Kept, decision: Decision
) -> ToMatch:
    vehicle_id, station_id = kept.vehicle_id, kept.station_id
    if decision.unit_number is not None:
        vehicle_id = _truck_named(connection, company_id, kept, decision.unit_number)
    if decision.station_id is not None:
        if stations.by_id(decision.station_id) is None:
            raise UnusableDecision(f"there is no station {decision.station_id[:40]!r}: see the page Stations")
        station_id = decision.station_id
    return _to_match(kept)._replace(vehicle_id=vehicle_id, station_id=station_id, fuel=str(decision.fuel or kept.fuel))


def _truck_named(connection: Connection, company_id: UUID, kept: _Kept, named: str) -> UUID:
    try:
        found = find_truck(connection, company_id, named, at=kept.bought_at, time_zone=kept.time_zone)
    except UnclearTruck as error:
        raise UnusableDecision(str(error)) from None
    if found is None:
        raise UnusableDecision(f"no truck has or had the unit number {named[:40]!r}")
    return found


def _route(connection: Connection, tenant: Tenant, matches: Matches, decision: Decision) -> UUID | None:
    if isinstance(decision.route, UUID):
        found = _IS_OF_TRUCK.first(connection, (*tenant, decision.route, matches.vehicle_id))
        if found is None:
            raise UnusableDecision("its truck did not drive that route")
        return decision.route
    if decision.route == NO_ROUTE:
        return None
    if "route" in matches.review:
        raise UnusableDecision("its truck was on more than one route at that time: choose one")
    return matches.route_id


def _to_match(kept: _Kept) -> ToMatch:
    local = kept.bought_at.astimezone(ZoneInfo(kept.time_zone)).replace(tzinfo=None)
    return ToMatch(
        local_time=local,
        has_time=kept.has_time,
        unit_number=kept.unit_number,
        location_name=kept.location_name,
        station_code=kept.station_code,
        city=kept.city,
        state=kept.state or "",
        fuel=kept.fuel,
        gallons=kept.gallons,
        paid_cents=kept.paid_cents,
        currency=kept.currency,
        doubts=[one for one in kept.review if one in DOUBTS],
        card_last_four=kept.card_last_four,
        driver_name=kept.driver_name,
        former_vehicle_id=kept.vehicle_id,
    )


# --- Matching again ----------------------------------------------------------------------------------------------

_OPEN = Statement(
    _Kept,
    f"""
    SELECT {_KEPT} FROM fills
    WHERE company_id = %(company_id)s AND environment = %(environment)s AND decided_by IS NULL AND counter_id IS NULL
      AND (review <> '{{}}' OR route_id IS NULL AND bought_at >= %(since)s
           OR unit_number IN (SELECT unit_number FROM former_units WHERE company_id = %(company_id)s
                              UNION SELECT unit_number FROM vehicles WHERE company_id = %(company_id)s
                              GROUP BY unit_number HAVING count(*) > 1)) AND id > %(after)s
    ORDER BY id LIMIT %(limit)s FOR UPDATE
    """,
)
_REMATCH = Command(f"UPDATE fills SET {MATCHED} WHERE id = %(id)s")

_OF_CARD = Statement(
    _Kept,
    f"""
    SELECT {_KEPT} FROM fills
    WHERE company_id = %(company_id)s AND environment = %(environment)s AND card_last_four = %(card)s
      AND unit_number IS NULL AND decided_by IS NULL AND counter_id IS NULL AND id > %(after)s
    ORDER BY id LIMIT %(limit)s FOR UPDATE
    """,
)

LOOKED_BACK = timedelta(days=60)
"""Age up to which fills without a route are matched again: their route may have been pushed late."""


class Rematched(NamedTuple):
    last_id: UUID | None
    """The id of the last fill of the portion; None once all are done."""
    settled: int
    """The number of fills that waited for a person and no longer do."""


def match_fills_again(
    connection: Connection,
    tenant: Tenant,
    stations: KnownStations,
    *,
    after: UUID = UUID(int=0),  # noqa: B008 (a value)
    far_miles: float,
    now: datetime,
) -> Rematched:
    """Match a portion of the fills again that wait for a person, have no route, or have a unit number that changed
    hands: a truck, a mapping, a station or a route may have come since. Decisions stay."""
    lock_company(connection, tenant.company_id)
    parameters: dict[str, Any] = {
        **tenant._asdict(),
        "since": now - LOOKED_BACK,
        "after": after,
        "limit": BATCH_FILLS,
    }
    rows = _OPEN.all(connection, parameters)
    settled = _rematch(connection, tenant, rows, [_to_match(row) for row in rows], stations, far_miles)
    return Rematched(rows[-1].id if len(rows) == BATCH_FILLS else None, settled)


def _rematch(
    connection: Connection,
    tenant: Tenant,
    rows: Sequence[_Kept],
    asked: Sequence[ToMatch],
    stations: KnownStations,
    far_miles: float,
) -> int:
    """Match these fills again. Returns how many no longer wait."""
    matches = match_fills(connection, tenant, asked, stations, far_miles=far_miles)
    routes: set[UUID | None] = set()
    settled = 0
    for row, one in zip(rows, matches, strict=True):
        _REMATCH.execute(connection, {**one._asdict(), "id": row.id})
        routes |= {row.route_id, one.route_id}
        settled += not one.review
    figure_routes(connection, {one for one in routes if one is not None})
    return settled


def end_matching(connection: Connection, tenant: Tenant, by: Actor, *, settled: int) -> None:
    """The last step after all portions of `match_fills_again`, which settled so many fills."""
    finish_fills(connection, tenant)
    subject = f"{tenant.environment} fills"
    record_action(connection, by, "fills.match", subject, company_id=tenant.company_id, affected=settled)


def assign_card_and_match(
    connection: Connection,
    company_id: UUID,
    card: str,
    by: Actor,
    *,
    vehicle_id: UUID | None,
    driver_id: UUID | None,
    driver_name: str | None,
    first_day: date | None,
    far_miles: float,
    now: datetime,
) -> int:
    """Stores whose card it is, and credits its fills that wait. Returns how many do not wait any more. Raises
    UnusableCard, UnknownTarget, UnknownCompany, RetiredCompany."""
    assign_card(
        connection,
        company_id,
        card,
        vehicle_id=vehicle_id,
        driver_id=driver_id,
        driver_name=driver_name,
        first_day=first_day,
        by=by.name,
        now=now,
    )
    settled = sum(
        match_card_again(connection, Tenant(company_id, one), card, far_miles=far_miles) for one in Environment
    )
    record_action(connection, by, "fills.assign", f"card …{card}", company_id=company_id, affected=settled)
    return settled


def match_card_again(connection: Connection, tenant: Tenant, card: str, *, far_miles: float) -> int:
    """Match the fills of a newly assigned card that name no unit. Returns how many no longer wait. Decisions on single
    fills stay."""
    stations = read_stations(connection, tenant.company_id)
    after, settled = UUID(int=0), 0
    while True:
        parameters = {**tenant._asdict(), "card": card, "after": after, "limit": BATCH_FILLS}
        rows = _OF_CARD.all(connection, parameters)
        asked = [_to_match(row)._replace(former_vehicle_id=None) for row in rows]
        settled += _rematch(connection, tenant, rows, asked, stations, far_miles)
        if len(rows) < BATCH_FILLS:
            return settled
        after = rows[-1].id


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
