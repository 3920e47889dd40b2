"""The burn of a truck as people see it: its trips and what was made of each, its figure, a tank that is proposed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from domain.burn.figures import Burn, LearnedFigure
from domain.burn.learned import DOUBTS_IN_WORDS
from domain.burn.stored_figures import known_figures
from domain.burn.tank_proposals import TankProposal, tank_proposal
from domain.database.connections import Connection, Tenant
from domain.database.statements import Statement
from domain.encoding import utc_text
from domain.ids import shown_id


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


class _FleetTrip(NamedTuple):
    vehicle_id: UUID
    unit_number: str | None
    route_id: UUID
    external_id: str
    ended_at: datetime
    miles: float | None
    gallons: float | None
    by_card: bool
    doubt: str | None


_OF_FLEET = Statement(
    _FleetTrip,
    """
    SELECT t.vehicle_id, v.unit_number, t.route_id, r.external_id, t.ended_at, t.miles, t.gallons, t.by_card, t.doubt
    FROM trip_burns t JOIN routes r ON r.id = t.route_id JOIN vehicles v ON v.id = t.vehicle_id
    WHERE t.company_id = %s AND t.environment = %s AND t.measured_at IS NOT NULL
    ORDER BY v.unit_number, t.vehicle_id, t.ended_at DESC, t.route_id
    """,
)

TRIP_COLUMNS = (
    *("vehicle_id", "unit_number", "figure_mpg", "figure", "route_id", "external_id", "ended_at"),
    *("miles", "gallons", "mpg", "by_card", "not_believed"),
)
"""The columns of a company's trips in a CSV file."""


def trips_of_company(connection: Connection, tenant: Tenant) -> list[dict[str, Any]]:
    """The measured trips of all trucks, the newest of each first, with the figure of the truck's plans."""
    trips = _OF_FLEET.all(connection, tenant)
    known = known_figures(connection, tenant, list({trip.vehicle_id for trip in trips}))
    return [_row(trip, known[trip.vehicle_id].burn) for trip in trips]


def _row(trip: _FleetTrip, burn: Burn) -> dict[str, Any]:
    return {
        "vehicle_id": shown_id("veh", trip.vehicle_id),
        "unit_number": trip.unit_number,
        "figure_mpg": burn.mpg,
        "figure": burn.kind,
        "route_id": shown_id("rte", trip.route_id),
        "external_id": trip.external_id,
        "ended_at": utc_text(trip.ended_at),
        "miles": round(trip.miles, 1) if trip.miles else None,
        "gallons": round(trip.gallons, 1) if trip.gallons else None,
        "mpg": round(trip.miles / trip.gallons, 2) if trip.miles and trip.gallons else None,
        "by_card": trip.by_card,
        "not_believed": DOUBTS_IN_WORDS.get(trip.doubt, trip.doubt) if trip.doubt is not None else None,
    }


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
