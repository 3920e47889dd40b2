"""The figure of burn with which a plan is made: how many miles the truck drives with a gallon, and who says so."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

from domain.encoding import utc_text
from domain.ids import shown_id
from domain.lifecycle import MpgChoice
from domain.wording import counted

DEFAULT_MPG, DEFAULT_CAPACITY_GALLONS = 6.5, 200.0
"""The mileage and the tank of a truck of which nothing is known."""

NOTED_SHARE = 0.08
"""A learned tank nearer than this to the declared one is the declared one."""

PROVEN_TRIPS, PROVEN_MILES = 3, 1_500.0
"""The least from which a truck's own figure counts."""

LEAST_DIFFERENCE_PERCENT = 2.0
"""A learned mileage nearer than this to the declared one does not contradict it."""

BurnKind = Literal["declared", "learned", "fleet", "default", "measured"]
"""The origin of a figure: the vehicle's record, the truck's own trips, the trips of its company, nothing, or the levels
of the trip itself."""


class BurnTrip(NamedTuple):
    """A completed trip that a figure was learned from."""

    route_id: UUID
    ended_at: datetime
    miles: float
    mpg: float


@dataclass(frozen=True, slots=True)
class LearnedFigure:
    """The mileage that a truck's trips agree on, the newest trip first. `spread_percent` is one standard deviation from
    trip to trip, in percent of `mpg`."""

    mpg: float
    spread_percent: float
    trips: Sequence[BurnTrip]

    @property
    def miles(self) -> float:
        return sum(trip.miles for trip in self.trips)

    @property
    def is_proven(self) -> bool:
        return len(self.trips) >= PROVEN_TRIPS and self.miles >= PROVEN_MILES

    def contradicts(self, declared_mpg: float) -> bool:
        """True if the figure is proven and further from the declared one than two standard errors of its trips."""
        certain_to = max(2 * self.spread_percent / len(self.trips) ** 0.5, LEAST_DIFFERENCE_PERCENT)
        return self.is_proven and 100 * abs(declared_mpg / self.mpg - 1) > certain_to


class FleetFigure(NamedTuple):
    """The median of a company's trucks. `of_model`: only trucks of the same make and model count."""

    mpg: float
    spread_percent: float
    trucks: int
    of_model: bool


class ExplainedBurnTrip(TypedDict):
    """A trip that a figure was learned from."""

    route_id: str
    ended_at: str
    miles: float
    mpg: float


class ExplainedBurn(TypedDict):
    """The figure as an explanation keeps it."""

    mpg: float
    kind: BurnKind
    text: str
    instead_of_mpg: NotRequired[float]
    spread_percent: NotRequired[float]
    trips: NotRequired[list[ExplainedBurnTrip]]
    trucks: NotRequired[int]


@dataclass(frozen=True, slots=True)
class Burn:
    """A truck's mileage and its origin. `instead_of_mpg` is the figure that counted before, where another one takes its
    place. `learned` is there where the truck's own trips prove a figure, whether it is taken or not."""

    mpg: float
    kind: BurnKind
    instead_of_mpg: float | None = None
    learned: LearnedFigure | None = None
    fleet: FleetFigure | None = None
    measured_spread_percent: float | None = None

    @property
    def spread_percent(self) -> float | None:
        """One standard deviation of the burn from trip to trip, or on the rest of the way where the trip's levels
        show the burn, in percent; None where nothing is known of it."""
        if self.measured_spread_percent is not None:
            return self.measured_spread_percent
        if self.learned is not None:
            return self.learned.spread_percent
        return self.fleet.spread_percent if self.fleet is not None else None

    @property
    def seen_spread_percent(self) -> float | None:
        """The spread in percent that the truck's own trips, or the levels of this one, have shown."""
        return self.spread_percent if self.kind == "measured" or self.learned is not None else None

    @property
    def source(self) -> str:
        """The origin, in words."""
        if self.kind == "learned" and self.learned is not None:
            return f"{counted(len(self.learned.trips), 'trip')} of the truck, {self.learned.miles:,.0f} mi"
        if self.kind == "fleet" and self.fleet is not None:
            whose = "of its make and model" if self.fleet.of_model else "of the company"
            return f"the median of {counted(self.fleet.trucks, 'truck')} {whose}"
        return {"declared": "the vehicle", "measured": "the levels of this trip"}.get(self.kind, "the default")

    @property
    def in_words(self) -> str:
        instead = f" instead of {self.instead_of_mpg:.1f}" if self.instead_of_mpg is not None else ""
        return f"{self.mpg:.1f} mpg{instead}, from {self.source}"

    def document(self) -> ExplainedBurn:
        burn: ExplainedBurn = {"mpg": self.mpg, "kind": self.kind, "text": self.in_words}
        if self.instead_of_mpg is not None:
            burn["instead_of_mpg"] = self.instead_of_mpg
        if self.spread_percent is not None:
            burn["spread_percent"] = round(self.spread_percent, 1)
        if self.learned is not None:
            burn["trips"] = [_explained(trip) for trip in self.learned.trips]
        if self.fleet is not None:
            burn["trucks"] = self.fleet.trucks
        return burn


def _explained(trip: BurnTrip) -> ExplainedBurnTrip:
    return {
        "route_id": shown_id("rte", trip.route_id),
        "ended_at": utc_text(trip.ended_at),
        "miles": round(trip.miles, 1),
        "mpg": round(trip.mpg, 2),
    }


def seen_spread_percent(burn: ExplainedBurn | None) -> float | None:
    """The spread of a stored figure that the truck's own trips, or the levels of the trip, have shown."""
    is_seen = burn is not None and (burn["kind"] == "measured" or "trips" in burn)
    return burn.get("spread_percent") if burn is not None and is_seen else None


UNKNOWN_BURN = Burn(DEFAULT_MPG, "default")


def figure_of(
    declared_mpg: float | None,
    own: LearnedFigure | None = None,
    fleet: FleetFigure | None = None,
    choice: str = MpgChoice.LEARNED,
) -> Burn:
    """The figure for a truck: its declared mpg, unless the company prefers what the truck's own trips prove; without a
    declared one its own trips, else its company's trucks, else the default."""
    proven = own if own is not None and own.is_proven else None
    if not declared_mpg:
        if proven is not None:
            return Burn(_rounded(proven.mpg), "learned", learned=proven)
        return Burn(_rounded(fleet.mpg), "fleet", fleet=fleet) if fleet is not None else UNKNOWN_BURN
    if proven is None or not proven.contradicts(declared_mpg) or not _is_taken(proven.mpg, declared_mpg, choice):
        return Burn(declared_mpg, "declared", learned=proven)
    return Burn(_rounded(proven.mpg), "learned", instead_of_mpg=declared_mpg, learned=proven)


def _is_taken(learned_mpg: float, declared_mpg: float, choice: str) -> bool:
    return choice == MpgChoice.LEARNED or (choice == MpgChoice.LOWER and learned_mpg < declared_mpg)


def _rounded(mpg: float) -> float:
    """Hundredths: no more is known, and people can repeat the plan's sums."""
    return round(mpg, 2)
