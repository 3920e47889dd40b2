"""A replay as rows of named values, for CSV files, JSON documents and tables. All amounts are in dollars."""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from domain.ids import shown_id
from domain.planning.fuel_plan import FUEL_STOP_TIME
from domain.replay.networks import NamedDeal
from domain.replay.replays import StoredReplay
from domain.replay.results import DealLine, Line, OffNetworkLine, ReplaySummary, Sums, TripResult
from domain.replay.solving import OUTCOMES_IN_WORDS, Side, StationUse
from domain.replay.terms import term_texts

_SIDE = ("cost", "at_pumps", "gallons", "stops", "minutes_of_stops", "miles_off_the_road", "gallons_left")
REPLAYED_TRIP_COLUMNS = (
    *("route_id", "day", "truck", "origin", "destination", "outcome"),
    *(f"{name}_{side}" for name in _SIDE for side in ("before", "after")),
    *("costs_more", "at_pumps_more", "stations_before", "stations_after"),
)

REPLAY_BASIS = (
    "Every trip is solved twice, exactly and without rounding to the pump, from the inputs of the plan with which it"
    " left: its prices, its fuel, its road. Only the difference counts. Dollars are of plans, not of purchases."
)

MINUTES_OF_A_STOP = round(FUEL_STOP_TIME.total_seconds() / 60)


def dollars(cents: float) -> float:
    return round(cents / 100, 2)


def trip_row(result: TripResult) -> dict[str, Any]:
    """A trip; amounts are empty where its sides are not compared."""
    before, after = result.solved.before, result.solved.after
    row = dict.fromkeys(REPLAYED_TRIP_COLUMNS) | {
        "route_id": shown_id("rte", UUID(result.route_id)),
        "day": result.day.isoformat(),
        "truck": result.truck,
        "origin": result.origin,
        "destination": result.destination,
        "outcome": OUTCOMES_IN_WORDS[result.solved.outcome],
    }
    if before is None or after is None:
        return row
    for side, found in (("before", before), ("after", after)):
        row |= {f"{name}_{side}": value for name, value in _side_row(found).items()}
    return row | {
        "costs_more": dollars(after.cost_cents - before.cost_cents),
        "at_pumps_more": dollars(after.pump_cents - before.pump_cents),
        "stations_before": _stations(result.solved.stations, "gallons_before"),
        "stations_after": _stations(result.solved.stations, "gallons_after"),
    }


def _stations(uses: tuple[StationUse, ...], name: str) -> str:
    return " ".join(one.station_id for one in uses if getattr(one, name))


def _side_row(side: Side | Sums) -> dict[str, Any]:
    values = (
        dollars(side.cost_cents),
        dollars(side.pump_cents),
        round(side.gallons, 1),
        side.stops,
        side.stops * MINUTES_OF_A_STOP,
        round(side.detour_miles, 1),
        round(side.left_gallons, 1),
    )
    return dict(zip(_SIDE, values, strict=True))


def totals_rows(summary: ReplaySummary) -> list[dict[str, Any]]:
    """The totals, a row for each figure with both sides and their difference."""
    before, after = _side_row(summary.before), _side_row(summary.after)
    before["trips_below_reserve"] = round(summary.before.below_reserve, 1)
    after["trips_below_reserve"] = round(summary.after.below_reserve, 1)
    names = ("figure", "before", "after", "difference")
    return [
        dict(zip(names, (name, before[name], after[name], round(after[name] - before[name], 2)), strict=True))
        for name in before
    ]


def replay_line_row(line: Line) -> dict[str, Any]:
    return {
        "name": line.name,
        "trips": line.trips,
        "gallons_before": round(line.gallons_before, 1),
        "gallons_after": round(line.gallons_after, 1),
        "at_pumps_before": dollars(line.pump_cents_before),
        "at_pumps_after": dollars(line.pump_cents_after),
        "at_pumps_more": dollars(line.difference_cents),
        "stops_before": line.stops_before,
        "stops_after": line.stops_after,
    }


def deal_row(line: DealLine) -> dict[str, Any]:
    return {
        "number": line.number or None,
        "deal": line.name,
        "trips": line.trips,
        "gallons": round(line.gallons, 1),
        "worth": dollars(line.worth_cents),
        "worth_per_gallon": round(line.worth_cents / 100 / line.gallons, 3) if line.gallons else None,
        "trips_that_need_it": line.needed,
    }


def off_network_row(line: OffNetworkLine) -> dict[str, Any]:
    """A station or chain without a deal. A cent there is worth a cent for each gallon at least."""
    return {
        "name": line.name,
        "brand": line.brand,
        "trips": line.trips,
        "gallons": round(line.gallons, 1),
        "gallons_with_a_cent": round(line.gallons_with_cent, 1),
        "a_cent_is_worth_at_least": dollars(line.gallons),
        "a_cent_is_worth_about": dollars(line.gallons_with_cent),
    }


def replay_document(replay: StoredReplay, solved: int, unused: Sequence[NamedDeal] = ()) -> dict[str, Any]:
    """The replay for scripts; with its result once it is finished. `unused` are the deals that no trip bought by."""
    terms, summary = replay.read_terms, replay.read_summary
    document: dict[str, Any] = {
        "replay_id": shown_id("rpl", replay.id),
        "company_id": shown_id("cmp", replay.company_id),
        "environment": replay.environment,
        "from": replay.first_day,
        "to": replay.last_day,
        "time_zone": replay.time_zone,
        "status": replay.status,
        "trips": replay.trips,
        "trips_solved": solved,
        "terms_before": term_texts(terms.before),
        "terms_after": term_texts(terms.after),
        "basis": REPLAY_BASIS,
    }
    return document if summary is None else document | dict(_result(replay, summary, unused))


def _result(replay: StoredReplay, summary: ReplaySummary, unused: Sequence[NamedDeal]) -> Iterator[tuple[str, Any]]:
    yield "compared", summary.compared
    yield "left_out", {OUTCOMES_IN_WORDS[outcome]: count for outcome, count in summary.left_out.items()}
    yield "totals", {row.pop("figure"): row for row in totals_rows(summary)}
    yield "at_pumps_more", dollars(summary.difference_cents)
    yield "costs_more", dollars(summary.cost_difference_cents)
    yield "infeasible", [shown_id("rte", UUID(route_id)) for route_id in summary.infeasible]
    yield "lines", {kind: [replay_line_row(line) for line in lines] for kind, lines in summary.lines.items()}
    if replay.read_terms.weighs_deals:
        yield "deals", [deal_row(line) for line in summary.deals]
        yield "never_used", [one._asdict() for one in unused]
        yield "off_network", [off_network_row(line) for line in summary.off_network]
        yield "off_chains", [off_network_row(line) for line in summary.off_chains]
        yield "a_cent_off_the_network_is_worth", dollars(summary.cent_worth_cents)
