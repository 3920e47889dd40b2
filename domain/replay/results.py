"""The outcome of each trip of a replay, packed for the table; their totals, and the lines by lane, truck, week, state,
chain and station.

Every amount is rounded to the cent on its trip, so the sum of the trips is the total, whichever way they are added."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from domain.replay.solving import DealUse, Side, Solved, TripOutcome

MOST_LINES = 200
"""Lines of one kind in a summary: those with the largest differences. One more has the sum of the others."""
MOST_INFEASIBLE = 200
OTHERS = "all others"
WITHOUT_BRAND = "no brand"
WITHOUT_STATE = "no state"

LINE_KINDS = ("lane", "truck", "week", "state", "chain", "station")


class TripResult(Struct, array_like=True, frozen=True):
    """One trip of a replay. `day` is the one on which its plan was made."""

    route_id: str
    day: date
    truck: str
    origin: str
    destination: str
    solved: Solved


def pack_results(results: Sequence[TripResult]) -> bytes:
    return zlib.compress(msgspec.msgpack.encode(results), level=6)


def unpack_results(packed: bytes) -> list[TripResult]:
    return msgspec.msgpack.decode(zlib.decompress(packed), type=list[TripResult])


class Sums(Struct):
    """Sums of one side."""

    cost_cents: int = 0
    pump_cents: int = 0
    gallons: float = 0.0
    stops: int = 0
    detour_miles: float = 0.0
    left_gallons: float = 0.0
    below_reserve: float = 0.0

    def add(self, side: Side) -> None:
        self.cost_cents += side.cost_cents
        self.pump_cents += side.pump_cents
        self.gallons += side.gallons
        self.stops += side.stops
        self.detour_miles += side.detour_miles
        self.left_gallons += side.left_gallons
        self.below_reserve += side.below_reserve


class Line(Struct):
    """The trips, or for states, chains and stations the purchases, of one name."""

    name: str
    trips: int = 0
    gallons_before: float = 0.0
    gallons_after: float = 0.0
    pump_cents_before: int = 0
    pump_cents_after: int = 0
    stops_before: int = 0
    stops_after: int = 0

    @property
    def difference_cents(self) -> int:
        return self.pump_cents_after - self.pump_cents_before

    def add(self, before: tuple[float, int, int], after: tuple[float, int, int]) -> None:
        """Add a trip: gallons, cents and stops of both sides."""
        self.trips += 1
        self.gallons_before += before[0]
        self.pump_cents_before += before[1]
        self.stops_before += before[2]
        self.gallons_after += after[0]
        self.pump_cents_after += after[1]
        self.stops_after += after[2]

    def merge(self, other: "Line") -> None:
        for name in ("trips", *_AMOUNTS):
            setattr(self, name, getattr(self, name) + getattr(other, name))


_AMOUNTS = tuple(name for name in Line.__struct_fields__ if name not in ("name", "trips"))


class DealLine(Struct):
    """A deal by which trips bought: its worth is what they would have cost more without it. On `needed` trips no plan
    keeps the limits without it, so they are not in its worth. A number whose deal has changed has a line for each of
    its deals."""

    number: int
    name: str
    trips: int = 0
    gallons: float = 0.0
    worth_cents: int = 0
    needed: int = 0

    def add(self, use: DealUse) -> None:
        self.trips += 1
        self.gallons += use.gallons
        self.worth_cents += use.worth_cents or 0
        self.needed += use.worth_cents is None


class OffNetworkLine(Struct):
    """A station or a chain at which the company had no deal: the gallons bought there, and those that would be bought
    there if every such station were a cent cheaper. A cent is worth at least the first as many cents."""

    name: str
    brand: str = ""
    trips: int = 0
    gallons: float = 0.0
    gallons_with_cent: float = 0.0


class ReplaySummary(Struct):
    """The totals of a replay. `outcomes` counts trips by their `TripOutcome`; sums and lines have the compared ones."""

    trips: int = 0
    outcomes: dict[str, int] = {}
    before: Sums = msgspec.field(default_factory=Sums)
    after: Sums = msgspec.field(default_factory=Sums)
    lines: dict[str, list[Line]] = {}
    infeasible: list[str] = []
    """Routes whose trips become infeasible, the first ones."""
    deals: list[DealLine] = []
    off_network: list[OffNetworkLine] = []
    off_chains: list[OffNetworkLine] = []
    cent_worth_cents: float = 0.0

    @property
    def compared(self) -> int:
        return self.outcomes.get(TripOutcome.COMPARED, 0)

    @property
    def left_out(self) -> dict[TripOutcome, int]:
        """Trips that are not in the sums, by the reason."""
        return {TripOutcome(name): count for name, count in self.outcomes.items() if name != TripOutcome.COMPARED}

    @property
    def difference_cents(self) -> int:
        """The dollars at the pumps that the second side costs more, in cents."""
        return self.after.pump_cents - self.before.pump_cents

    @property
    def cost_difference_cents(self) -> int:
        """The dollars for fuel and stops that the second side costs more, in cents."""
        return self.after.cost_cents - self.before.cost_cents

    @property
    def left_cents(self) -> int:
        """The fuel that the second side leaves in the tanks beyond the first, at the average price of both."""
        gallons = self.before.gallons + self.after.gallons
        price = (self.before.pump_cents + self.after.pump_cents) / gallons if gallons else 0.0
        return round(price * (self.after.left_gallons - self.before.left_gallons))


class ReplayTotals:
    """Adds up results one by one; its size is that of the lines, not of the trips."""

    def __init__(self) -> None:
        self._summary = ReplaySummary(outcomes={}, lines={}, infeasible=[])
        self._lines: dict[str, dict[str, Line]] = {kind: {} for kind in LINE_KINDS}
        self._deals: dict[tuple[int, str], DealLine] = {}
        self._off: dict[str, OffNetworkLine] = {}
        self._off_chains: dict[str, OffNetworkLine] = {}

    def add(self, result: TripResult) -> None:
        summary, solved = self._summary, result.solved
        summary.trips += 1
        summary.outcomes[solved.outcome] = summary.outcomes.get(solved.outcome, 0) + 1
        if solved.outcome is TripOutcome.INFEASIBLE and len(summary.infeasible) < MOST_INFEASIBLE:
            summary.infeasible.append(result.route_id)
        if solved.before is None or solved.after is None:
            return
        summary.before.add(solved.before)
        summary.after.add(solved.after)
        self._add_lines(result, solved.before, solved.after)
        self._add_worth(solved)

    def _add_lines(self, result: TripResult, before: Side, after: Side) -> None:
        sides = tuple((one.gallons, one.pump_cents, one.stops) for one in (before, after))
        monday = result.day - timedelta(days=result.day.weekday())
        lane = f"{result.origin} to {result.destination}"
        for kind, name in (("lane", lane), ("truck", result.truck), ("week", monday.isoformat())):
            self._line(kind, name).add(*sides)
        for kind, name, bought in _by_place(result.solved):
            self._line(kind, name).add(*bought)

    def _line(self, kind: str, name: str) -> Line:
        lines = self._lines[kind]
        if name not in lines:
            lines[name] = Line(name)
        return lines[name]

    def _add_worth(self, solved: Solved) -> None:
        for use in solved.deals:
            self._deals.setdefault((use.number, use.name), DealLine(use.number, use.name)).add(use)
        self._summary.cent_worth_cents += solved.cent_worth_cents
        chains: dict[str, list[float]] = {}
        for one in solved.off_network:
            brand = one.brand or WITHOUT_BRAND
            sums = chains.setdefault(brand, [0.0, 0.0])
            sums[0] += one.gallons
            sums[1] += one.gallons_with_cent
            _add_off(self._off, one.station_id, brand, one.gallons, one.gallons_with_cent)
        for brand, (gallons, with_cent) in chains.items():
            _add_off(self._off_chains, brand, "", gallons, with_cent)

    def summary(self) -> ReplaySummary:
        found = self._summary
        found.lines = {kind: _largest(lines.values(), keeps_all=kind == "week") for kind, lines in self._lines.items()}
        found.deals = sorted(self._deals.values(), key=lambda one: (-one.worth_cents, one.number, one.name))
        found.off_network = _most_missed(self._off.values())
        found.off_chains = _most_missed(self._off_chains.values())
        found.cent_worth_cents = round(found.cent_worth_cents, 2)
        return found


def _add_off(lines: dict[str, OffNetworkLine], name: str, brand: str, gallons: float, with_cent: float) -> None:
    line = lines.setdefault(name, OffNetworkLine(name, brand))
    line.trips += 1
    line.gallons += gallons
    line.gallons_with_cent += with_cent


def _by_place(solved: Solved) -> Iterator[tuple[str, str, list[tuple[float, int, int]]]]:
    """The purchases of a trip by state, chain and station, each with both sides."""
    sums: dict[tuple[str, str], list[float]] = {}
    for one in solved.stations:
        amounts = (
            one.gallons_before,
            one.cents_before,
            one.gallons_before > 0,
            one.gallons_after,
            one.cents_after,
            one.gallons_after > 0,
        )
        for place in (
            ("state", one.state or WITHOUT_STATE),
            ("chain", one.brand or WITHOUT_BRAND),
            ("station", one.station_id),
        ):
            before = sums.setdefault(place, [0.0] * len(amounts))
            sums[place] = [old + new for old, new in zip(before, amounts, strict=True)]
    for (kind, name), (gallons, cents, stops, gallons_after, cents_after, stops_after) in sums.items():
        yield kind, name, [(gallons, int(cents), int(stops)), (gallons_after, int(cents_after), int(stops_after))]


def _largest(lines: Iterable[Line], *, keeps_all: bool) -> list[Line]:
    """The lines with the largest differences, and one with the sum of the others; weeks in their order."""
    if keeps_all:
        return sorted(lines, key=lambda one: one.name)
    ordered = sorted(lines, key=lambda one: (-abs(one.difference_cents), -one.gallons_before, one.name))
    shown, others = ordered[:MOST_LINES], ordered[MOST_LINES:]
    if others:
        rest = Line(OTHERS)
        for one in others:
            rest.merge(one)
        shown.append(rest)
    return shown


def _most_missed(lines: Iterable[OffNetworkLine]) -> list[OffNetworkLine]:
    return sorted(lines, key=lambda one: (-one.gallons_with_cent, -one.gallons, one.name))[:MOST_LINES]


def summary_document(summary: ReplaySummary) -> dict[str, Any]:
    """The summary as JSON values for the table."""
    return msgspec.to_builtins(summary)  # type: ignore[no-any-return]


def as_summary(document: Any) -> ReplaySummary:
    return msgspec.convert(document, ReplaySummary)
