"""The kinds of needs that a notice can tell of, and their words: the console's page Overview uses the same."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from domain.routes.reading.overview import NeedKind

NoticeKind = NeedKind | Literal["no_prices"]


class NeedWords(NamedTuple):
    """The words of a need, and the page of the console on which a person mends it."""

    one: str
    """Follows the number 1."""
    several: str
    ended: str
    """The sentence that says that it is over."""
    label: str
    """Its name where people choose."""
    path: str


_ON_ITS_WAY = "/routes?status=active"

WORDS: Mapping[NoticeKind, NeedWords] = {
    "vehicle_unmapped": NeedWords(
        "route waits for a vehicle that the fleet does not know",
        "routes wait for vehicles that the fleet does not know",
        "No route waits for an unknown vehicle any more",
        "Routes wait for an unknown vehicle",
        "/matching/vehicles",
    ),
    "driver_unmapped": NeedWords(
        "route waits for a driver whom the fleet does not know",
        "routes wait for drivers whom the fleet does not know",
        "No route waits for an unknown driver any more",
        "Routes wait for an unknown driver",
        "/matching/drivers",
    ),
    "error": NeedWords(
        "route is in error",
        "routes are in error",
        "No route is in error any more",
        "Routes in error",
        "/routes?status=error",
    ),
    "low_fuel": NeedWords(
        "truck begins its plan low on fuel",
        "trucks begin their plans low on fuel",
        "No truck on its way began its plan low on fuel",
        "Trucks begin their plans low on fuel",
        _ON_ITS_WAY,
    ),
    "late": NeedWords(
        "truck is late at its next stop",
        "trucks are late at their next stops",
        "No truck is late at its next stop any more",
        "Trucks are late at their next stops",
        _ON_ITS_WAY,
    ),
    "silent": NeedWords(
        "truck on its way has sent no position for an hour",
        "trucks on their way have sent no position for an hour",
        "All trucks on their way send positions again",
        "Trucks on their way send no positions",
        _ON_ITS_WAY,
    ),
    "message_failed": NeedWords(
        "plan could not be sent to its driver",
        "plans could not be sent to their drivers",
        "No plan is left that could not be sent to its driver",
        "Plans could not be sent to their drivers",
        "/routes?status=planned",
    ),
    "no_prices": NeedWords(
        "", "", "Truck stops have fresh prices again", "No truck stop has a price of the last seven days", "/stations"
    ),
}
"""Each kind, in the order in which a dispatcher looks at them. `no_prices` has no routes to count."""

NOTICE_KINDS: Sequence[NoticeKind] = tuple(WORDS)
