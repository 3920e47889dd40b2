"""The figure of burn with which a plan is made: how many miles the truck drives with a gallon, and who says so."""

from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict

DEFAULT_MPG = 6.5
"""The mileage of a truck of which nothing is known."""

BurnKind = Literal["declared", "learned", "fleet", "default", "measured"]
"""The origin of a figure: the vehicle's record, the truck's own trips, the trips of its company, nothing, or the levels
of the trip itself."""

_SOURCES: dict[BurnKind, str] = {
    "declared": "the vehicle",
    "learned": "the truck's own trips",
    "fleet": "the trips of the company's trucks",
    "default": "the default",
    "measured": "the levels of this trip",
}


class ExplainedBurn(TypedDict):
    """The figure as an explanation keeps it."""

    mpg: float
    kind: BurnKind
    text: str
    instead_of_mpg: NotRequired[float]


@dataclass(frozen=True, slots=True)
class Burn:
    """A truck's mileage and its origin. `instead_of_mpg` is the figure that counted before, where another one takes its
    place."""

    mpg: float
    kind: BurnKind
    instead_of_mpg: float | None = None

    @property
    def source(self) -> str:
        """The origin, in words."""
        return _SOURCES[self.kind]

    @property
    def in_words(self) -> str:
        instead = f" instead of {self.instead_of_mpg:.1f}" if self.instead_of_mpg is not None else ""
        return f"{self.mpg:.1f} mpg{instead}, from {self.source}"

    def document(self) -> ExplainedBurn:
        burn: ExplainedBurn = {"mpg": self.mpg, "kind": self.kind, "text": self.in_words}
        if self.instead_of_mpg is not None:
            burn["instead_of_mpg"] = self.instead_of_mpg
        return burn


UNKNOWN_BURN = Burn(DEFAULT_MPG, "default")


def figure_of(declared_mpg: float | None) -> Burn:
    """The figure for a truck with this mpg in its record."""
    return Burn(declared_mpg, "declared") if declared_mpg else UNKNOWN_BURN
