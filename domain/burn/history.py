"""The burn of a truck as people see it: its trips and what was made of each, its figure, a tank that is proposed."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from domain.burn.figures import Burn, LearnedFigure
from domain.burn.learned import DOUBTS_IN_WORDS
from domain.burn.stored_figures import known_figures
from domain.burn.tank_proposals import TankProposal, tank_proposal
from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement


class MeasuredTrip(NamedTuple):
    """A completed trip: its burn, where its levels show one, and why it does not count."""

    route_id: UUID
    external_id: str
    ended_at: datetime
    miles: float | None
    gallons: float | None
    spread_gallons: float | None
    by_card: bool
    doubt: str | None
    waits: bool

    @property
    def mpg(self) -> float | None:
        return self.miles / self.gallons if self.miles and self.gallons else None

    @property
    def why_not(self) -> str | None:
        """The reason why it does not count, in words."""
        return DOUBTS_IN_WORDS.get(self.doubt, self.doubt) if self.doubt is not None else None


@dataclass(frozen=True, slots=True)
class BurnHistory:
    """The trips of a truck, the newest first, with the figure that plans take now and the one that the trips prove."""

    burn: Burn
    learned: LearnedFigure | None
    declared_mpg: float | None
    trips: list[MeasuredTrip]
    proposal: TankProposal | None


_TRIPS = Statement(
    MeasuredTrip,
    """
    SELECT t.route_id, r.external_id, t.ended_at, t.miles, t.gallons, t.spread_gallons, t.by_card, t.doubt,
           t.measured_at IS NULL AS waits
    FROM trip_burns t JOIN routes r ON r.id = t.route_id
    WHERE t.company_id = %s AND t.environment = %s AND t.vehicle_id = %s ORDER BY t.ended_at DESC, t.route_id
    """,
)


def read_burn_history(connection: Connection, tenant: Tenant, vehicle_id: UUID) -> BurnHistory | None:
    """The burn of a truck; None where the company has no such truck."""
    known = known_figures(connection, tenant, [vehicle_id]).get(vehicle_id)
    if known is None:
        return None
    return BurnHistory(
        burn=known.burn,
        learned=known.own,
        declared_mpg=known.declared_mpg,
        trips=_TRIPS.all(connection, (*tenant, vehicle_id)),
        proposal=tank_proposal(connection, tenant, vehicle_id),
    )
