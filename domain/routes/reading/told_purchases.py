"""The answers of drivers on a route, and what the gauge and the fuel card say of the purchases that they tell.

A driver's word is never taken for the purchase itself: it stands beside the others, and the page says where they
disagree."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from domain.burn.figures import DEFAULT_CAPACITY_GALLONS
from domain.burn.levels import PURCHASE_PERCENT
from domain.burn.seen_purchases import PlacedFix, seen_purchase
from domain.database.connections import Connection, Tenant
from domain.database.statements import NotNull, Statement
from domain.fills.verdicts import FOLLOWED_GALLONS, FOLLOWED_SHARE
from domain.lifecycle import AnswerKind
from domain.roads import Point
from domain.telematics.readings import read_levels

_BEFORE, _BEHIND = timedelta(hours=6), timedelta(hours=2)
"""A truck's levels are compared from this long before an answer to this long behind it."""

_ONE_VISIT, _ONE_DAY_EITHER_WAY = timedelta(hours=3), timedelta(hours=12)
"""A purchase belongs to the visit whose answer is nearest to it. Those that are further away by no more than the first
are of the same visit too; where the card tells the day alone, by no more than both."""

GAUGE_GALLONS, GAUGE_SHARE = 15.0, 0.15
"""A gauge agrees with gallons that differ from its rise by at most the larger of the two: it shows whole percents."""


class StoredAnswer(NamedTuple):
    id: UUID
    kind: str
    reason: str | None
    station_id: str | None
    place: str
    answered_at: datetime
    told_at: datetime | None
    """When he answered by his phone's clock, which is earlier where he was offline."""
    is_late: bool
    gallons: float | None
    fill_percent: float | None
    price_per_gallon: float | None

    @property
    def at(self) -> datetime:
        return self.told_at or self.answered_at


class PurchaseSeen(NamedTuple):
    """A purchase by the gauge and by the card, as far as they know of it."""

    gauge_gallons: float | None = None
    """The rise of the gauge at the station; None where no levels tell."""
    card_gallons: float | None = None
    card_cents: int | None = None

    def agrees_with(self, told_gallons: float | None) -> bool | None:
        """True if the card, or without it the gauge, shows the purchase; None where neither knows of it."""
        if self.card_gallons is not None:
            return told_gallons is None or _is_near(told_gallons, self.card_gallons, FOLLOWED_GALLONS, FOLLOWED_SHARE)
        if self.gauge_gallons is None:
            return None
        if told_gallons is None:
            return self.gauge_gallons > 0
        return _is_near(told_gallons, self.gauge_gallons, GAUGE_GALLONS, GAUGE_SHARE)


def _is_near(told: float, seen: float, gallons: float, share: float) -> bool:
    return abs(told - seen) <= max(gallons, share * seen)


class ToldAnswer(NamedTuple):
    """An answer, and for a purchase what is seen of it."""

    answer: StoredAnswer
    seen: PurchaseSeen = PurchaseSeen()


_ANSWERS = Statement(
    StoredAnswer,
    "SELECT id, kind, reason, station_id, place, answered_at, told_at, is_late, gallons, fill_percent, price_per_gallon"
    " FROM driver_answers WHERE company_id = %s AND route_id = %s ORDER BY answered_at, id",
)


class _Bought(NamedTuple):
    station_id: NotNull[str]
    bought_at: datetime
    has_time: bool
    gallons: float
    paid_cents: int

    def is_of_visit(self, answered_at: datetime, all_answered: Sequence[datetime]) -> bool:
        """True if it was bought at the visit of this answer, and not at that of another answer to the station."""
        nearest = min(abs(self.bought_at - at) for at in all_answered)
        slack = _ONE_VISIT if self.has_time else _ONE_VISIT + _ONE_DAY_EITHER_WAY
        return abs(self.bought_at - answered_at) <= nearest + slack


_BOUGHT = Statement(
    _Bought,
    "SELECT station_id, bought_at, has_time, gallons, paid_cents FROM fills"
    " WHERE company_id = %s AND route_id = %s AND station_id = ANY(%s) AND counter_id IS NULL"
    " AND fuel IN ('tractor', 'unknown') AND currency = 'USD' AND NOT review && ARRAY['twice', 'corrected', 'reversal']"
    " ORDER BY bought_at, id",
)
"""Without rows that may tell of a purchase beside them, and wait for a person."""


class _Station(NamedTuple):
    station_id: str
    latitude: float
    longitude: float


_STATIONS = Statement(_Station, "SELECT station_id, latitude, longitude FROM stations WHERE station_id = ANY(%s)")


class _Tank(NamedTuple):
    fuel_tank_capacity_gallons: float | None


_TANK = Statement(_Tank, "SELECT fuel_tank_capacity_gallons FROM vehicles WHERE company_id = %s AND id = %s")


def read_told_answers(
    connection: Connection, tenant: Tenant, route_id: UUID, vehicle_id: UUID | None
) -> list[ToldAnswer]:
    """The answers to the fuel stops of a route, oldest first."""
    answers = _ANSWERS.all(connection, (tenant.company_id, route_id))
    fueled = [one for one in answers if one.kind == AnswerKind.FUELED and one.station_id is not None]
    seen = _seen(connection, tenant, route_id, vehicle_id, fueled) if fueled else {}
    return [ToldAnswer(one, seen.get(one.id, PurchaseSeen())) for one in answers]


def _seen(
    connection: Connection, tenant: Tenant, route_id: UUID, vehicle_id: UUID | None, fueled: Sequence[StoredAnswer]
) -> dict[UUID, PurchaseSeen]:
    ids = [one.station_id for one in fueled]
    bought = _BOUGHT.all(connection, (tenant.company_id, route_id, ids))
    places = {one.station_id: Point(one.latitude, one.longitude) for one in _STATIONS.all(connection, (ids,))}
    tank = _TANK.first(connection, (tenant.company_id, vehicle_id))
    capacity = (tank.fuel_tank_capacity_gallons if tank is not None else None) or DEFAULT_CAPACITY_GALLONS
    found = {}
    for one in fueled:
        risen = _risen_percent(connection, tenant, vehicle_id, places.get(one.station_id or ""), one.at)
        gauge = None if risen is None else round(capacity * risen / 100, 1) if risen >= PURCHASE_PERCENT / 2 else 0.0
        visits = [other.at for other in fueled if other.station_id == one.station_id]
        card = [fill for fill in bought if fill.station_id == one.station_id and fill.is_of_visit(one.at, visits)]
        told = (sum(fill.gallons for fill in card), sum(fill.paid_cents for fill in card)) if card else (None, None)
        found[one.id] = PurchaseSeen(gauge, *told)
    return found


def _risen_percent(
    connection: Connection, tenant: Tenant, vehicle_id: UUID | None, place: Point | None, at: datetime
) -> float | None:
    if vehicle_id is None or place is None:
        return None
    fixes = read_levels(connection, tenant, vehicle_id, at - _BEFORE, at + _BEHIND)
    placed = [PlacedFix(fix.recorded_at, Point(fix.latitude, fix.longitude), fix.fuel_percent) for fix in fixes]
    found = seen_purchase(placed, place)
    return found.risen_percent if found is not None else None
