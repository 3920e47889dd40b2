"""A tank that fuel cards contradict is proposed to a person, who takes the proposal or keeps what is declared."""

from typing import NamedTuple
from uuid import UUID

from domain.accounts.companies import lock_company
from domain.audit.entries import Action, Actor, record_about
from domain.burn.figures import DEFAULT_CAPACITY_GALLONS, NOTED_SHARE
from domain.database.connections import Connection, Tenant
from domain.database.statements import Command, NotNull, Statement
from domain.errors import FuelrouteError
from domain.fleet.vehicles import change_tank
from domain.ids import shown_id
from domain.lifecycle import Environment


class NoSuchProposal(FuelrouteError):
    """The proposal is gone: another person has decided, or newer fills say something else."""

    def __init__(self, vehicle_id: UUID) -> None:
        super().__init__(f"no such tank is proposed for {shown_id('veh', vehicle_id)}: it was decided, or has changed")


class TankProposal(NamedTuple):
    """A usable tank by the fills of cards, beside the declared one; None where none is declared, and plans take
    200 gallons."""

    vehicle_id: UUID
    unit_number: str | None
    tank_gallons: NotNull[float]
    fills: int
    declared_gallons: float | None


_DIFFERS = f"""
    b.tank_gallons IS NOT NULL AND v.retired_at IS NULL
    AND abs(b.tank_gallons / coalesce(v.fuel_tank_capacity_gallons, {DEFAULT_CAPACITY_GALLONS}) - 1) > {NOTED_SHARE}
    AND (b.tank_kept_gallons IS NULL OR abs(b.tank_gallons / b.tank_kept_gallons - 1) > {NOTED_SHARE})
"""
_TANKS = "FROM learned_burns b JOIN vehicles v ON v.company_id = b.company_id AND v.id = b.vehicle_id"
_SELECT = f"""
    SELECT v.id AS vehicle_id, v.unit_number, b.tank_gallons, b.tank_fills AS fills,
           v.fuel_tank_capacity_gallons AS declared_gallons
    {_TANKS}
"""
OTHER_TANKS = f"{_TANKS} WHERE b.company_id = %(company_id)s AND b.environment = 'live' AND {_DIFFERS}"
"""SQL from FROM on: the proposed tanks of a company's trucks."""
_OF_TRUCK = Statement(
    TankProposal,
    f"{_SELECT} WHERE b.company_id = %s AND b.environment = %s AND b.vehicle_id = %s AND {_DIFFERS}",
)
_OF_COMPANY = Statement(
    TankProposal,
    f"{_SELECT} WHERE b.company_id = %s AND b.environment = 'live' AND {_DIFFERS}"
    " ORDER BY b.learned_at DESC, v.id LIMIT %s",
)


def tank_proposal(connection: Connection, tenant: Tenant, vehicle_id: UUID) -> TankProposal | None:
    """The tank that is proposed for a truck, until a person has decided."""
    return _OF_TRUCK.first(connection, (*tenant, vehicle_id))


def proposed_tanks(connection: Connection, company_id: UUID, *, limit: int) -> list[TankProposal]:
    """The tanks that are proposed for a company's trucks, the newest first."""
    return _OF_COMPANY.all(connection, (company_id, limit))


_KEEP = Command(
    "UPDATE learned_burns SET tank_kept_gallons = tank_gallons"
    " WHERE company_id = %s AND environment = 'live' AND vehicle_id = %s"
)


def take_tank(connection: Connection, company_id: UUID, vehicle_id: UUID, gallons: float, by: Actor) -> None:
    """Declare the proposed tank for the truck. Its trips are measured again with it. Raises NoSuchProposal."""
    proposal = _decided(connection, company_id, vehicle_id, gallons)
    change_tank(connection, company_id, vehicle_id, gallons)
    by = by.with_reason(f"{gallons:g} gal instead of {_declared(proposal)}")
    record_about(connection, by, Action("burn.take_tank"), "veh", vehicle_id, company_id=company_id)


def keep_tank(connection: Connection, company_id: UUID, vehicle_id: UUID, gallons: float, by: Actor) -> None:
    """Keep the declared tank. It is proposed again only if the fills come to tell another one. Raises
    NoSuchProposal."""
    proposal = _decided(connection, company_id, vehicle_id, gallons)
    _KEEP.execute(connection, (company_id, vehicle_id))
    by = by.with_reason(f"{_declared(proposal)} kept instead of {gallons:g} gal")
    record_about(connection, by, Action("burn.keep_tank"), "veh", vehicle_id, company_id=company_id)


def _decided(connection: Connection, company_id: UUID, vehicle_id: UUID, gallons: float) -> TankProposal:
    lock_company(connection, company_id)
    proposal = tank_proposal(connection, Tenant(company_id, Environment.LIVE), vehicle_id)
    if proposal is None or proposal.tank_gallons != gallons:
        raise NoSuchProposal(vehicle_id)
    return proposal


def _declared(proposal: TankProposal) -> str:
    if proposal.declared_gallons is None:
        return f"the usual {DEFAULT_CAPACITY_GALLONS:g} gal"
    return f"{proposal.declared_gallons:g} gal"
