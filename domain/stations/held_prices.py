"""Held prices: a person accepts or refuses each, or says which station it is for."""

from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from domain.audit.entries import Action, Actor, record_about
from domain.database.connections import Connection
from domain.database.owned import Owned
from domain.database.statements import Command, Scalar, Statement
from domain.errors import FuelrouteError, Unknown
from domain.stations.places import UnknownStation
from domain.stations.price_sets import begin_price_set
from domain.stations.price_units import NO_RATES, US_DOLLARS_A_GALLON, ExchangeRates, UnitOfPrice, in_dollars
from domain.stations.station_codes import CARD_CODES, keep_codes, plain_code
from domain.stations.stored_prices import stage_prices, store_staged_prices


class HeldPrice(NamedTuple):
    id: UUID
    kind: str
    station_id: str | None
    code_set: str
    code: str
    place: str
    candidates: list[str]
    price: float
    """In `currency` for a `unit`, as in the file."""
    effective_at: datetime
    profile: str
    reason: str
    held_at: datetime
    currency: str
    unit: str

    @property
    def shown_unit(self) -> str:
        """The unit; empty for US dollars a gallon."""
        unit = UnitOfPrice(self.currency, self.unit)
        return "" if unit == US_DOLLARS_A_GALLON else unit.shown


class UnknownHeldPrice(Unknown):
    def __init__(self, held: str) -> None:
        """`held` is the id that was given."""
        super().__init__(
            f"the price {held} is not held: somebody has decided already, or there is none; see `fuelroute prices held`"
        )


HELD_PRICES = Owned(HeldPrice, "held_prices", kind="hld", unknown=UnknownHeldPrice, only="status = 'held'")

_LIST = Statement(
    HeldPrice,
    f"SELECT {HELD_PRICES.columns} FROM held_prices WHERE company_id = %s AND status = 'held'"
    " AND (%s::text IS NULL OR kind = %s) ORDER BY id LIMIT %s",
)
_SEEN = Statement(HeldPrice, f"SELECT {HELD_PRICES.columns} FROM held_prices WHERE company_id = %s AND id = %s")
_DECIDE = Command(
    "UPDATE held_prices SET status = %s, decided_at = %s, decided_by = %s, station_id = coalesce(station_id, %s)"
    " WHERE company_id = %s AND id = %s"
)


_THERE = Scalar(str, "SELECT station_id FROM stations WHERE station_id = %s AND retired_at IS NULL")


WAITING_PRICES = "FROM held_prices WHERE company_id = %(company_id)s AND status = 'held'"
"""SQL from FROM on: the held prices of a company."""
_COUNT = Scalar(int, f"SELECT count(*) {WAITING_PRICES}")


class NeedsStation(FuelrouteError):
    def __init__(self) -> None:
        super().__init__("say which station is meant: its file does not tell for sure")


class NeedsRate(FuelrouteError):
    def __init__(self, doubt: str) -> None:
        super().__init__(doubt)


class NeedsOperator(FuelrouteError):
    def __init__(self) -> None:
        super().__init__("retail prices are shared by all companies: only an operator accepts them")


def held_prices(
    connection: Connection, company_id: UUID, *, kind: Literal["retail", "net"] | None = None, limit: int = 1_000
) -> list[HeldPrice]:
    """The held prices, the oldest first."""
    return _LIST.all(connection, (company_id, kind, kind, limit))


def count_held(connection: Connection, company_id: UUID) -> int:
    return _COUNT.one(connection, {"company_id": company_id})


def accept_price(
    connection: Connection,
    company_id: UUID,
    held_id: UUID,
    by: Actor,
    *,
    station_id: str = "",
    may_change_retail: bool,
    now: datetime,
    rates: ExchangeRates = NO_RATES,
) -> None:
    """Use a held price as if it had not been held: a newer stored price stays, and a future one waits. If its station
    is not certain, `station_id` names it, and its code is known from then on. Raises UnknownHeldPrice, UnknownStation,
    and NeedsStation, NeedsOperator or NeedsRate for what the person still has to give."""
    seen = _SEEN.first(connection, (company_id, held_id))
    if seen is not None and seen.kind == "retail" and seen.effective_at <= now and may_change_retail:
        begin_price_set(connection, "stations", None, now=now)
    else:
        begin_price_set(connection, "deals", company_id, now=now)
    held = HELD_PRICES.lock(connection, company_id, held_id)
    if held.kind == "retail" and not may_change_retail:
        raise NeedsOperator
    station = held.station_id or station_id
    if not station:
        raise NeedsStation
    if _THERE.first(connection, (station,)) is None:
        raise UnknownStation(station)
    if held.station_id is None and held.code:
        keep_codes(
            connection, company_id, [(held.code_set or CARD_CODES, plain_code(held.code), station)], is_decided=True
        )
    price = _in_dollars(held, rates)
    net, retail = (price, None) if held.kind == "net" else (None, price)
    stage_prices(connection, [(station, held.effective_at.isoformat(), net, retail)])
    store_staged_prices(connection, company_id, held.profile, now=now)
    _DECIDE.execute(connection, ("accepted", now, by.name, station, company_id, held_id))
    record_about(connection, by, Action("prices.accept"), "hld", held_id, company_id=company_id)


def _in_dollars(held: HeldPrice, rates: ExchangeRates) -> float:
    """The price in US dollars a gallon. Raises NeedsRate if the rate of its currency is not set."""
    told = in_dollars(held.price, UnitOfPrice(held.currency, held.unit), rates)
    if told.doubt:
        raise NeedsRate(told.doubt)
    return told.price


def refuse_price(connection: Connection, company_id: UUID, held_id: UUID, by: Actor, *, now: datetime) -> None:
    """Never use a held price, not even when its file comes again. Raises UnknownHeldPrice."""
    HELD_PRICES.lock(connection, company_id, held_id)
    _DECIDE.execute(connection, ("refused", now, by.name, None, company_id, held_id))
    record_about(connection, by, Action("prices.refuse"), "hld", held_id, company_id=company_id)


_FORGET = Command("DELETE FROM held_prices WHERE id IN (SELECT id FROM held_prices WHERE held_at < %s LIMIT %s)")
"""Deletes held prices that are too old to be used, whatever a person decides."""


def forget_held_prices(connection: Connection, *, days: float, now: datetime, limit: int) -> int:
    """Deletes old held prices. Returns how many."""
    return _FORGET.execute(connection, (now - timedelta(days=days), limit)).rowcount
