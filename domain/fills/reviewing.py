"""A person's decisions about the matches of fills.

A decision stays until the card corrects the transaction. After it the route is compared again, and the route of the
earlier match."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.accounts.companies import lock_company
from domain.audit.entries import Action, Actor, record_about
from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, Statement
from domain.errors import FuelrouteError, Unknown
from domain.files.products import Fuel
from domain.fills.finding import (
    KEPT_COLUMNS,
    KeptFill,
    Matches,
    ToMatch,
    UnclearTruck,
    find_truck,
    kept_to_match,
    match_fills,
)
from domain.fills.importing import MATCHED, read_stations
from domain.fills.matching import KnownStations
from domain.fills.settling import join_twin, take_back_part
from domain.fills.stored_verdicts import update_verdicts
from domain.ids import shown_id
from domain.lifecycle import Environment

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


class UnknownFill(Unknown):
    def __init__(self, named: str = "") -> None:
        which = f"fill {named!r}" if named else "such fill"
        super().__init__(f"there is no {which}: see `fuelroute fills list`")


class UnusableDecision(FuelrouteError):
    """The decision leaves something open; the text says what."""


_LOCK = Statement(KeptFill, f"SELECT {KEPT_COLUMNS} FROM fills WHERE company_id = %s AND id = %s FOR UPDATE")
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
    record_about(connection, why, Action("fills.decide"), "fil", fill_id, company_id=company_id)
    if decision.is_twice:
        _join(connection, company_id, kept)
        return
    stations = read_stations(connection, company_id)
    kept = kept._replace(fuel=str(decision.fuel or kept.fuel))
    to_match = _with(connection, company_id, stations, kept, decision)
    tenant = Tenant(company_id, Environment(kept.environment))
    (matches,) = match_fills(connection, tenant, [to_match], stations, far_miles=far_miles)
    if matches.vehicle_id is None and kept.fuel != Fuel.OTHER:
        raise UnusableDecision("choose its truck, by the unit number in your fleet; or say that it is no fuel")
    if kept.fuel == Fuel.UNKNOWN:
        raise UnusableDecision("say which fuel it is")
    route_id = _route(connection, tenant, matches, decision)
    values = matches._replace(route_id=route_id, review=[], score=100)._asdict()
    _DECIDE.execute(connection, {**values, "fuel": kept.fuel, "decided_by": by.name, "now": now, "id": fill_id})
    routes = {one for one in (kept.route_id, route_id) if one is not None}
    if kept.gallons < 0 and kept.fuel != Fuel.OTHER:
        routes |= _take_back(connection, tenant, kept._replace(vehicle_id=matches.vehicle_id))
    update_verdicts(connection, routes)


def _join(connection: Connection, company_id: UUID, kept: KeptFill) -> None:
    routes = join_twin(connection, company_id, kept.id)
    if routes is None:
        raise UnusableDecision("there is no other purchase that it may be: confirm it, or say that it is no fuel")
    update_verdicts(connection, routes | ({kept.route_id} if kept.route_id is not None else set()))


def _take_back(connection: Connection, tenant: Tenant, kept: KeptFill) -> set[UUID]:
    routes = take_back_part(connection, tenant, kept)
    if routes is None:
        raise UnusableDecision(
            "its truck has no purchase of 60 days in this state that is as large as what it takes back: say that it is"
            " no fuel, and it does not count"
        )
    return routes


def _with(
    connection: Connection, company_id: UUID, stations: KnownStations, kept: KeptFill, decision: Decision
) -> ToMatch:
    vehicle_id, station_id = kept.vehicle_id, kept.station_id
    if decision.unit_number is not None:
        vehicle_id = _truck_named(connection, company_id, kept, decision.unit_number)
    if decision.station_id is not None:
        if stations.by_id(decision.station_id) is None:
            raise UnusableDecision(f"there is no station {decision.station_id[:40]!r}: see the page Stations")
        station_id = decision.station_id
    return kept_to_match(kept)._replace(vehicle_id=vehicle_id, station_id=station_id)


def _truck_named(connection: Connection, company_id: UUID, kept: KeptFill, named: str) -> UUID:
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
